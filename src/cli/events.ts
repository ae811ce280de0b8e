import type { Command } from 'commander';
import { type PartitionSetting, partitionsMax } from '../catalogue/partitions.ts';
import { slugOf } from '../catalogue/plans.ts';
import { counted } from '../core/counted.ts';
import { limitsOf } from '../core/limits.ts';
import { decimalOf } from '../core/money.ts';
import type { Phase } from '../core/phase.ts';
import type { PlanWarning } from '../core/plan-report.ts';
import { block, unblock } from '../operate/blocks.ts';
import { changeOnSale, createEvent, getEventControls, getFigures, listAllEvents } from '../operate/events.ts';
import type { OutputOf } from '../operate/operation.ts';
import { publishEvent, replan } from '../operate/plans.ts';
import { queueShardsMax } from '../waiting-room/waiting-room.ts';
import { call, type Refusal } from './call.ts';
import { type CliContext, numeric } from './context.ts';
import { limitLines } from './limits.ts';
import { warningText } from './plans.ts';
import { moneyHelp, type PriceFlags, priceHelp, priceListText, readPrices } from './prices.ts';

interface CreateFlags extends PriceFlags {
  name: string;
  plan: string;
  currency: string;
  id?: string;
  onSaleAt?: string;
  presaleAt?: string;
  saleEndsAt?: string;
  performanceAt?: string;
  holdMinutes?: string;
  holdSeatsMax?: string;
  queueShards?: string;
  accountFirst?: boolean;
  partition?: string[];
  json?: boolean;
}
interface JsonFlag {
  json?: boolean;
}

const phaseCommands: [name: string, phase: Phase, text: string][] = [
  ['open', 'open', 'Open the sale.'],
  ['pause', 'paused', 'Pause the sale: places in the queue and holds are kept.'],
  ['resume', 'open', 'Go on after a pause.'],
  ['close', 'closed', 'End the sale; orders under way may still be paid.'],
];
const seatsListed = 50;

/** `onsale event`: the operations of operate/events.ts, plans.ts and blocks.ts. */
export function registerEventCommands(program: Command, context: CliContext): void {
  const event = program.command('event').description('Events: create, publish, and steer the on-sale.');
  event
    .command('create')
    .description('Create an event (a draft).')
    .requiredOption('--name <name>', 'name of the event')
    .requiredOption('--plan <plan>', 'id of a stored plan')
    .requiredOption('--price <category=amount...>', priceHelp)
    .option('--kind <id=name...>', 'a ticket type beside full, as "reduced=Reduced"; repeat for each')
    .option('--kind-conditions <id=text...>', 'who may take a ticket type, and what is asked for at the door')
    .option('--locked <category...>', 'categories that only an access code opens')
    .option('--locked-kind <id...>', 'ticket types that only an access code opens')
    .option('--currency <code>', 'ISO 4217', 'EUR')
    .option('--id <id>', 'address of the event (a-z, 0-9, -); made from the name when absent')
    .option('--seat-fee <amount>', `fee of each seat, ${moneyHelp}`)
    .option('--order-fee <amount>', `fee of each order, ${moneyHelp}`)
    .option('--performance-at <time>', 'ISO 8601, as 2030-05-01T19:00:00Z')
    .option('--on-sale-at <time>', 'ISO 8601: the sale opens by itself then')
    .option('--presale-at <time>', 'ISO 8601: from then on those may buy whose access code opens the presale')
    .option('--sale-ends-at <time>', 'ISO 8601')
    .option('--hold-minutes <minutes>', '1 to 15; 10 when absent')
    .option('--hold-seats-max <seats>', 'seats held at once by one buyer; 6 when absent')
    .option('--account-first', 'hold seats by account, which your platform names (ONSALE_ACCOUNT_SECRET)')
    .option(
      '--queue-shards <number>',
      `counters of the queue, 1 to ${queueShardsMax}; 1, the default, keeps strict order`,
    )
    .option(
      '--partition <[server:]section,section,…>',
      `sections that are sold separately, on a configured Redis server where one is named; repeat for each, up to ${partitionsMax}; all other sections are one more part`,
      (text: string, before: string[] | undefined) => [...(before ?? []), text],
    )
    .option('--json', 'print JSON')
    .action((flags: CreateFlags) => createCommand(context, flags));

  event
    .command('publish')
    .description('Publish a draft: its seats get their numbers.')
    .argument('<event>')
    .option('--accept-warnings', 'publish although the plan has warnings to settle before a sale')
    .option('--json', 'print JSON')
    .action((id: string, flags: JsonFlag & { acceptWarnings?: boolean }) =>
      publishCommand(context, id, flags),
    );

  event
    .command('figures')
    .description('What was sold of an event, and what became of the money.')
    .argument('<event>')
    .option('--json', 'print JSON')
    .action(async (id: string, flags: JsonFlag) => {
      const figures = await call(context, getFigures, { event: id });
      if (figures) context.print(flags.json ? JSON.stringify(figures) : figuresText(figures));
    });

  for (const [name, phase, text] of phaseCommands) {
    event
      .command(name)
      .description(text)
      .argument('<event>')
      .option('--json', 'print JSON')
      .action((id: string, flags: JsonFlag) => phaseCommand(context, id, phase, flags));
  }

  event
    .command('replan')
    .description('Another version of the plan; refuses to lose seats that a buyer has.')
    .argument('<event>')
    .argument('<plan>')
    .option('--dry-run', 'say what would change; change nothing')
    .option('--json', 'print JSON')
    .action((id: string, plan: string, flags: JsonFlag & { dryRun?: boolean }) =>
      replanCommand(context, id, plan, flags),
    );

  event
    .command('list')
    .description('List events.')
    .option('--json', 'print JSON')
    .action(async (flags: JsonFlag) => {
      const { events } = (await call(context, listAllEvents, {})) ?? { events: [] };
      if (flags.json) context.print(JSON.stringify(events));
      else if (events.length === 0) context.print('No events yet: onsale event create --help');
      else
        for (const { id, phase, seatCount, name } of events)
          context.print(`${id}  ${phase}  ${counted(seatCount, 'seat')}  ${name}`);
    });

  event
    .command('block')
    .description('Take seats out of the sale; those that a buyer has are listed, not taken.')
    .argument('<event>')
    .argument('<seats...>', 'seat_guids')
    .requiredOption('--reason <text>', 'why')
    .option('--json', 'print JSON')
    .action((id: string, seats: string[], flags: JsonFlag & { reason: string }) =>
      blockCommand(context, { event: id, seats, reason: flags.reason }, flags),
    );
  event
    .command('unblock')
    .description('Give blocked seats back to the sale.')
    .argument('<event>')
    .argument('<seats...>', 'seat_guids')
    .option('--json', 'print JSON')
    .action(async (id: string, seats: string[], flags: JsonFlag) => {
      const freed = await call(context, unblock, { event: id, seats });
      if (freed) context.print(flags.json ? JSON.stringify(freed) : `${freed.unblocked.length} unblocked.`);
    });
}

async function createCommand(context: CliContext, flags: CreateFlags): Promise<void> {
  const currency = flags.currency.toUpperCase();
  const read = readPrices(flags, currency);
  if (read.kind === 'refused') return context.fail(read.sentence);
  const { kind: _, ...prices } = read;
  const created = await call(context, createEvent, {
    id: flags.id ?? slugOf(flags.name),
    name: flags.name,
    plan: flags.plan,
    currency,
    ...prices,
    performanceAt: flags.performanceAt,
    onSaleAt: flags.onSaleAt,
    presaleAt: flags.presaleAt,
    saleEndsAt: flags.saleEndsAt,
    holdMinutes: numeric(flags.holdMinutes),
    holdSeatsMax: numeric(flags.holdSeatsMax),
    queueShards: numeric(flags.queueShards),
    accountFirst: flags.accountFirst,
    partitions: flags.partition?.map(partitionOf),
  });
  if (!created) return;
  if (flags.json) return context.print(JSON.stringify(created));
  const limits = ['Limits ("onsale limits set" changes them):', ...limitLines(limitsOf(created.settings))];
  context.print([`Created ${created.id} (draft).`, priceListText(created), ...limits].join('\n'));
}

/** `north:a,b,c` or `a,b,c`: ids of sections hold neither colons nor commas. */
function partitionOf(text: string): PartitionSetting {
  const [list = '', server] = text.split(':', 2).reverse();
  const sections = list.split(',').flatMap((id) => (id.trim() === '' ? [] : [id.trim()]));
  return server === undefined ? { sections } : { sections, redis: server.trim() };
}

async function publishCommand(
  context: CliContext,
  event: string,
  flags: JsonFlag & { acceptWarnings?: boolean },
): Promise<void> {
  const acceptWarnings = flags.acceptWarnings ? 'true' : 'false';
  const more = ({ warnings }: Refusal): string[] =>
    Array.isArray(warnings)
      ? [
          'Or publish with --accept-warnings.',
          ...(warnings as PlanWarning[]).map((warning) => `  ${warningText(warning)}`),
        ]
      : [];
  const published = await call(context, publishEvent, { event, acceptWarnings }, { more });
  if (!published) return;
  if (flags.json) return context.print(JSON.stringify(published));
  context.print(`Published ${event} with ${counted(published.seats, 'seat')}.`);
  const priced = await call(context, getEventControls, { event });
  if (priced) context.print(priceListText(priced));
}

async function phaseCommand(
  context: CliContext,
  event: string,
  phase: Phase,
  flags: JsonFlag,
): Promise<void> {
  const before = await call(context, getEventControls, { event });
  const now =
    before && (await call(context, changeOnSale, { event, expectedVersion: before.version, phase }));
  if (now) context.print(flags.json ? JSON.stringify(now) : `${event} is ${now.phase}.`);
}

async function replanCommand(
  context: CliContext,
  event: string,
  plan: string,
  flags: JsonFlag & { dryRun?: boolean },
): Promise<void> {
  const more = ({ seats }: Refusal): string[] =>
    Array.isArray(seats)
      ? seats
          .slice(0, seatsListed)
          .map(
            ({ sectionId, row, label, state }) => `  ${sectionId} ${row} ${label}: ${state ?? 'would move'}`,
          )
      : [];
  const outcome = await call(context, replan, { event, plan, dryRun: flags.dryRun }, { more });
  if (!outcome) return;
  const isDry = outcome.kind === 'dry_run';
  const removed = outcome.kind === 'dry_run' ? outcome.removed.length : outcome.removed;
  const verb = (n: number) => (isDry ? 'would be' : n === 1 ? 'was' : 'were');
  context.print(
    flags.json
      ? JSON.stringify(outcome)
      : `${counted(outcome.kept, 'seat')} kept; ${outcome.added} ${verb(outcome.added)} added, ${removed} ${verb(removed)} blocked.`,
  );
  if (outcome.kind === 'replanned' && outcome.untold.length > 0)
    context.fail('New seats are not known everywhere yet: give the same command once more.');
}

async function blockCommand(
  context: CliContext,
  request: { event: string; seats: string[]; reason: string },
  flags: JsonFlag,
): Promise<void> {
  const outcome = await call(context, block, request);
  if (!outcome) return;
  const { blocked, refused, unanswered } = outcome;
  if (flags.json) context.print(JSON.stringify(outcome));
  else context.print(`${blocked.length} blocked, ${refused.length} left as they are.`);
  if (unanswered.length > 0)
    context.fail(
      `${unanswered.length} of these seats could not be asked for just now: try again in a moment.`,
    );
}

function figuresText(figures: OutputOf<typeof getFigures>): string {
  const money = (minor: number) => `${decimalOf(minor, figures.currency)} ${figures.currency}`;
  const lines = figures.sold.map(
    ({ category, kind, tickets, prices, fees }) =>
      `  ${category}, ${kind}: ${counted(tickets, 'ticket')}, ${money(prices)} and ${money(fees)} of fees`,
  );
  const orders = Object.entries(figures.orders).map(([state, n]) => `${n} ${state}`);
  return [
    `Tickets sold: ${figures.sold.reduce((sum, { tickets }) => sum + tickets, 0)}`,
    ...lines,
    `Orders: ${orders.join(', ') || 'none'}`,
    `Money: ${money(figures.taken)} taken, ${money(figures.refunded)} refunded, ${money(figures.owed)} of refunds under way`,
  ].join('\n');
}
