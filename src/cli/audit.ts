import fs from 'node:fs';
import path from 'node:path';
import type { Command } from 'commander';
import { openArbiter } from '../app/database.ts';
import { stripeProvider } from '../app/payments.ts';
import type { Runtime } from '../app/runtime.ts';
import {
  type AuditReport,
  auditEvent,
  eventsToAudit,
  type PromiseFinding,
  waitForRest,
} from '../audit/audit.ts';
import type { AuditSources, MoneySource, PaymentSeen } from '../audit/audit-sources.ts';
import { createEvents } from '../catalogue/events.ts';
import { counted } from '../core/counted.ts';
import type { PaymentProvider } from '../payments/provider.ts';
import type { Config } from '../runtime/config.ts';
import type { CliContext } from './context.ts';

interface AuditFlags {
  event?: string;
  json?: boolean;
  wait?: string;
  lookups: string;
}

export interface AuditContext {
  config(): Config;
  runtime(): Runtime;
  print(text: string): void;
  say(text: string): void;
  fail(sentence: string): void;
  openDatabase: CliContext['openDatabase'];
}

/** `onsale audit`: reads arbiter, record and provider and says for each promise whether it is kept. Writes nothing. */
export function registerAuditCommand(program: Command, context: AuditContext): void {
  program
    .command('audit')
    .description('Check at rest that arbiter, record and payment provider keep each promise; exit 1 if not.')
    .option('--event <event>', 'one event; all when absent')
    .option('--wait <time>', 'first wait until nothing is under way, as 30s or 2m')
    .option(
      '--lookups <number>',
      "payments looked up one by one where the provider's cannot be listed",
      '500',
    )
    .option('--json', 'print JSON')
    .action(async (flags: AuditFlags, command: Command) => {
      const waitMs = durationMs(flags.wait ?? '0s');
      const lookups = Number(flags.lookups);
      if (waitMs === null) command.error('--wait takes a time, as 30s or 2m.');
      if (!Number.isInteger(lookups) || lookups < 0) command.error('--lookups takes a whole number.');
      await audit(context, flags, waitMs ?? 0, lookups);
    });
}

async function audit(
  context: AuditContext,
  flags: AuditFlags,
  waitMs: number,
  lookups: number,
): Promise<void> {
  const { print, say, fail } = context;
  const { clock, log, random } = context.runtime();
  const config = context.config();
  const { db } = await context.openDatabase();
  const stores = await openArbiter(db, config, { clock, log, random });
  try {
    const events = await eventsToAudit(db, flags.event ?? null);
    if (flags.event !== undefined && events.length === 0)
      return fail(`There is no published event "${flags.event}".`);
    const record = createEvents({ db, clock });
    const sources: AuditSources = {
      db,
      clock,
      modes: (event) => record.modes(event),
      arbiter: stores.arbiter,
      redisHolds: stores.redisHolds,
      numbers: stores.numbers,
      money: await moneySource(config, { clock, log, random }, lookups),
    };
    const reports: AuditReport[] = [];
    for (const event of events) {
      if (waitMs > 0) await waitForRest(sources, event.event, waitMs);
      const report = await auditEvent(sources, event, flags.json ? () => {} : say);
      reports.push(report);
      if (!flags.json) print(auditText(report));
    }
    if (flags.json) print(JSON.stringify({ reports }));
    const broken = reports.reduce((sum, { violations }) => sum + violations, 0);
    const unread = reports.flatMap((report) => report.unread);
    if (broken > 0) fail(`${counted(broken, 'contradiction')} found.`);
    if (unread.length > 0) fail(`Not all could be read, so nothing is proved of it: ${unread.join('; ')}.`);
    if (events.length === 0) say('There is no published event to audit.');
  } finally {
    await stores.close();
  }
}

/** Parses "30s", "2m" or "500ms". Null if the text is not a duration. */
export function durationMs(text: string): number | null {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m)$/.exec(text);
  return match ? Number(match[1]) * { ms: 1, s: 1_000, m: 60_000 }[match[2] as 'ms' | 's' | 'm'] : null;
}

/** The simulator's ledger where one takes the payments, else single look-ups through the provider's port. */
export async function moneySource(config: Config, runtime: Runtime, most: number): Promise<MoneySource> {
  const { payments, dataDir } = config;
  if (payments.kind === 'simulator') {
    const portFile = path.join(dataDir, 'simulator', 'port');
    const port = fs.existsSync(portFile) ? Number(fs.readFileSync(portFile, 'utf8')) : 0;
    const ledger = port > 0 ? await ledgerAt(`http://127.0.0.1:${port}`) : null;
    return ledger ?? { kind: 'none', why: 'the payment simulator does not run (npm start runs it)' };
  }
  const isStripe = new URL(payments.apiBase).origin === 'https://api.stripe.com';
  const ledger = isStripe ? null : await ledgerAt(payments.apiBase);
  return ledger ?? lookUps(stripeProvider(payments, runtime), most);
}

interface LedgerIntent {
  id: string;
  reference: string | null;
  event: string | null;
  status: string;
  amount: number;
  currency: string;
  authorised: number;
  captured: number;
  refunded: number;
  confirmations: number;
}

export async function ledgerAt(url: string): Promise<MoneySource | null> {
  const read = async (): Promise<PaymentSeen[]> => {
    const answer = await fetch(`${url}/_sim/ledger`);
    if (!answer.ok) throw new Error(`${url}/_sim/ledger answers ${answer.status}`);
    const { intents } = (await answer.json()) as { intents: LedgerIntent[] };
    return intents.map(({ id, status, confirmations, ...rest }) => ({
      ...rest,
      object: id,
      status: statuses[status] ?? 'open',
      tries: confirmations,
    }));
  };
  // Something that is no simulator of ours may answer there.
  return read().then(
    () => ({ kind: 'ledger', name: "the simulator's ledger", read }),
    () => null,
  );
}
const statuses: Record<string, PaymentSeen['status']> = {
  requires_capture: 'authorised',
  succeeded: 'captured',
  canceled: 'cancelled',
};

function lookUps(provider: PaymentProvider, most: number): MoneySource {
  return {
    kind: 'lookups',
    name: provider.name,
    most,
    look: async (object) => {
      const answer = await provider.lookup(object);
      if (answer.kind !== 'done') return null;
      const { view } = answer;
      const { amount, currency, reference, captured, refunded, status } = view;
      const authorised = status === 'authorised' ? amount : 0;
      const known = { authorised: 'authorised', captured: 'captured', cancelled: 'cancelled' } as const;
      return {
        object,
        reference,
        event: null,
        amount,
        currency,
        authorised,
        captured,
        refunded,
        tries: null,
        status: status in known ? (status as keyof typeof known) : 'open',
      };
    },
  };
}

const marks = { kept: 'kept    ', partly: 'partly  ', broken: 'BROKEN  ', not_checked: 'unknown ' } as const;

export function auditText(report: AuditReport): string {
  const { transit } = report.facts;
  const under = [
    counted(transit.reserved, 'order waits for its buyer', 'orders wait for their buyers'),
    `${counted(transit.halfway, 'order')} between authorised and paid`,
    `${counted(transit.operations, 'money operation')} under way`,
    `${counted(transit.partitions, 'partition')} moving or in grace`,
    ...(transit.overdue > 0
      ? [`${counted(transit.overdue, 'thing')} overdue by more than 2 min (does a worker run?)`]
      : []),
  ];
  return [
    '',
    `${report.event}: ${report.atRest ? 'at rest' : 'not at rest'} · in transit: ${under.join(', ')}`,
    ...report.promises.flatMap(findingLines),
    '',
    ...report.unread.map((why) => `Not read: ${why}.`),
    conclusion(report),
  ].join('\n');
}

function conclusion({ violations, unread }: AuditReport): string {
  if (violations > 0) return `${counted(violations, 'contradiction')}.`;
  return unread.length > 0 ? 'No contradiction in what could be read.' : 'No contradiction.';
}

function findingLines(finding: PromiseFinding): string[] {
  const [counts, ...looked] = finding.evidence;
  return [
    `${marks[finding.state]}${finding.promise}  ${counts ?? ''}`,
    ...looked.map((what) => `            checked: ${what}`),
    ...finding.unchecked.map((what) => `            not checked: ${what}`),
    ...finding.violations.flatMap(({ says, seat, order, hold, remedy }) => [
      `          ! ${says}${seat === null ? '' : ` [seat ${seat}]`}${order ? ` [order ${order}]` : ''}${hold ? ` [hold ${hold}]` : ''}`,
      `            → ${remedy}`,
    ]),
    ...(finding.violationCount > finding.violations.length
      ? [`          … and ${finding.violationCount - finding.violations.length} more`]
      : []),
  ];
}
