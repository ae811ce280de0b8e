import fs from 'node:fs';
import path from 'node:path';
import type { Command } from 'commander';
import { handOverTo } from '../app/limits.ts';
import { stripeProvider } from '../app/payments.ts';
import type { Runtime } from '../app/runtime.ts';
import {
  createReconcileReport,
  type ReconcileOutcome,
  reconcileSchedule,
} from '../checkout/reconcile-report.ts';
import { counted } from '../core/counted.ts';
import type { OutputOf } from '../operate/operation.ts';
import { listFindings, settleFinding } from '../operate/payments.ts';
import { moneyUnderWay } from '../orders/money-figures.ts';
import { createSalesRecord } from '../orders/orders-record.ts';
import { listingCounts } from '../orders/reversals.ts';
import type { PaymentProvider } from '../payments/provider.ts';
import { installationOf } from '../postgres/installation.ts';
import type { Config } from '../runtime/config.ts';
import { call } from './call.ts';
import type { CliContext } from './context.ts';

export interface ReconcileContext extends CliContext {
  config(): Config;
  runtime(): Runtime;
}

type Finding = OutputOf<typeof listFindings>['findings'][number];

interface Flags {
  from?: string;
  to?: string;
  json?: boolean;
}

/** `onsale reconcile`: compares the provider's payments with the record, in both directions. */
export function registerReconcileCommand(program: Command, context: ReconcileContext): void {
  const reconcile = program
    .command('reconcile')
    .description(
      "Compare the payment provider's payments with the record, in both directions; exit 1 if something does not fit.",
    )
    .addHelpText(
      'after',
      `
Nothing is mended here. What does not fit is put on the operator's list ("reconcile list", and the organiser's page); a payment
that names one of our orders is told to the worker, which looks at it by the rules of the purchase. Without --from and --to:
the last 24 hours.`,
    )
    .option('--from <time>', 'ISO 8601: payments that were opened since then')
    .option('--to <time>', 'ISO 8601: and until then')
    .option('--json', 'print JSON')
    .action((flags: Flags, command: Command) => compareCommand(context, flags, command));
  reconcile
    .command('list')
    .description('What is on the operator’s list; exit 1 if anything is.')
    .option('--json', 'print JSON')
    .action((_flags: object, command: Command) => listCommand(context, command.optsWithGlobals<Flags>()));
  reconcile
    .command('settle')
    .description('Take a finding off the list. Changes neither order nor payment.')
    .argument('<finding>', 'its number')
    .requiredOption('--note <text>', 'what was done about it')
    .action(async (finding: string, { note }: { note: string }) => {
      if (await call(context, settleFinding, { finding, note })) context.print(`${finding} is off the list.`);
    });
}

async function compareCommand(context: ReconcileContext, flags: Flags, command: Command): Promise<void> {
  const { clock, log, random } = context.runtime();
  const instant = (flag: string, text: string | undefined, otherwise: number): number => {
    const at = text === undefined ? otherwise : Date.parse(text);
    if (!Number.isFinite(at)) command.error(`${flag} takes a time, such as 2027-01-31T20:00:00Z.`);
    return at;
  };
  const to = instant('--to', flags.to, clock.now());
  const from = instant('--from', flags.from, to - reconcileSchedule.backMs);
  if (from >= to) command.error('--from has to lie before --to.');
  const { db } = await context.openDatabase();
  const installation = await installationOf(db);
  const provider = providerOf(context.config(), context.runtime(), installation);
  if (!provider) return context.fail('The payment simulator does not run (npm start runs it).');
  const report = createReconcileReport({
    db,
    provider,
    handOver: handOverTo(createSalesRecord({ db })),
    clock,
    log,
    owner: `cli/${random.uuid()}`,
  });
  const outcome = await report.onDemand({ from, to }, ({ step, counts }) => {
    if (!flags.json)
      context.progress(`${steps[step]}: ${counts.payments ?? 0} of theirs, ${counts.opened ?? 0} of ours`);
  });
  const listed = await listingCounts(db);
  const foreignReversals = (listed.refund.foreign ?? 0) + (listed.dispute.foreign ?? 0);
  tell(context, flags, outcome, { ...(await moneyUnderWay(db)), foreignReversals });
}

const steps = { theirs: 'Theirs', ours: 'Ours', again: 'Found before', done: 'Done' } as const;

/** Payments that are under way, listed next to the compared ones. */
interface UnderWay extends Awaited<ReturnType<typeof moneyUnderWay>> {
  /** Refunds and disputes of payments that are not ours, in the last daily listing. */
  foreignReversals: number;
}

function tell(context: ReconcileContext, flags: Flags, outcome: ReconcileOutcome, underWay: UnderWay): void {
  const { run } = outcome;
  const findings = outcome.kind === 'compared' ? outcome.findings : [];
  if (flags.json) context.print(JSON.stringify({ outcome: outcome.kind, run, ...underWay, findings }));
  else if (outcome.kind === 'compared') context.print(reportText(outcome.run.counts, underWay, findings));
  if (outcome.kind === 'unanswered') context.fail(`The provider could not be asked: ${outcome.detail}.`);
  else if (outcome.kind === 'taken') context.fail('The comparison was taken over by another process.');
  else if (findings.length > 0)
    context.fail(`${counted(findings.length, 'thing does not fit', 'things do not fit')}.`);
  if ((run.counts.unanswered ?? 0) > 0)
    context.fail(
      `${counted(run.counts.unanswered!, 'payment')} could not be looked up: compare again later.`,
    );
}

function reportText(
  counts: Record<string, number>,
  { ambiguous, refundsAtBank: atBank, foreignReversals }: UnderWay,
  findings: readonly Parameters<typeof findingText>[0][],
): string {
  const lines: [string, number | undefined][] = [
    ["The provider's payments", counts.payments],
    ['Payments of ours', counts.opened],
    ['  not in its list, looked up', counts.unlisted],
    ['Fit', counts.fits],
    ['No money on them', counts.idle],
    ['Not ours (other programs), ignored', counts.foreign],
    ['  their refunds and disputes, listed daily', foreignReversals],
    ['Under way', counts.underWay],
    ['Told to the worker', counts.handedOver],
    ['Orders of which nobody knows the end yet', ambiguous],
    ['Refunds accepted, not yet paid out by the bank', atBank],
    ['Do not fit', findings.length],
  ];
  return [
    ...lines.map(([name, count]) => `${name.padEnd(46)} ${count ?? 0}`),
    ...findings.map(findingText),
  ].join('\n');
}

function findingText({
  finding,
  kind,
  says,
  firstSeenAt,
}: Pick<Finding, 'finding' | 'kind' | 'says'> & { firstSeenAt: string | number }): string {
  return `  ! ${finding} ${kind}: ${says} (since ${new Date(firstSeenAt).toISOString()})`;
}

async function listCommand(context: ReconcileContext, flags: Flags): Promise<void> {
  const { findings } = (await call(context, listFindings, {})) ?? { findings: [] };
  if (flags.json) context.print(JSON.stringify({ findings }));
  else
    context.print(findings.length === 0 ? 'Nothing is on the list.' : findings.map(findingText).join('\n'));
  if (findings.length > 0) context.fail(`${findings.length} on the list.`);
}

/** The configured provider, or the simulator of this installation. Null if it is not running. */
function providerOf(
  { payments, dataDir }: Config,
  runtime: Runtime,
  installation: string,
): PaymentProvider | null {
  if (payments.kind === 'stripe') return stripeProvider(payments, runtime, () => installation);
  const portFile = path.join(dataDir, 'simulator', 'port');
  const port = fs.existsSync(portFile) ? Number(fs.readFileSync(portFile, 'utf8')) : 0;
  if (!(port > 0)) return null;
  // It takes no webhooks, so any secret serves.
  const local = {
    secretKey: 'sk_test_simulator',
    webhookSecrets: ['unused'],
    apiBase: `http://127.0.0.1:${port}`,
  };
  return stripeProvider(local, runtime, () => installation);
}
