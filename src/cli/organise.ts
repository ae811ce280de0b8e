import type { Command } from 'commander';
import { createEvents, type Events, isEventTime } from '../catalogue/events.ts';
import { refreshFigures, type SalesFigures } from '../catalogue/figures.ts';
import { type PartitionSetting, partitionsMax } from '../catalogue/partitions.ts';
import { publishEvent, slugOf } from '../catalogue/plans.ts';
import { prepareReplan, type ReplanDeps, replanEvent } from '../catalogue/replan.ts';
import { counted } from '../core/counted.ts';
import { limitsOf } from '../core/limits.ts';
import { decimalOf, isSellable } from '../core/money.ts';
import { impossible } from '../core/outcome.ts';
import type { Phase } from '../core/phase.ts';
import { presaleFault, priceFault } from '../core/prices.ts';
import type { Arbiter } from '../inventory/arbiter.ts';
import type { EventRecord } from '../orders/record.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Random } from '../runtime/random.ts';
import { queueShardsMax } from '../waiting-room/waiting-room.ts';
import { registerBlockCommands } from './blocks.ts';
import { registerCodeCommands } from './codes.ts';
import { limitLines } from './limits.ts';
import { registerPlanCommands, warningText } from './plans.ts';
import { type PriceFlags, priceHelp, priceListText, readPrices } from './prices.ts';

/** Services of cli.ts for the commands. Commands set the exit code through `fail` only. */
export interface CliContext {
  /** Opens the database of this installation (the embedded one is started when nothing runs); closed by the caller. */
  openDatabase(): Promise<{ db: Db; close(): Promise<void> }>;
  /** The arbiter of that database's events. The caller closes it. */
  openArbiter(db: Db): Promise<{ arbiter: Arbiter; close(): Promise<void> }>;
  /** Names of the Redis servers that are configured here; where none is, the servers may know more: any name is taken. */
  redisServers(): readonly string[];
  clock: Clock;
  random: Random;
  print(text: string): void;
  /** A line on stderr about work that takes a while. */
  progress(line: string): void;
  /** A sentence on stderr, and exit code 1 in the end. */
  fail(sentence: string): void;
}

/** The actor in the audit log for actions of the command line. */
export const cliActor = 'command line';

export function registerOrganiseCommands(program: Command, context: CliContext): void {
  registerPlanCommands(program, context);
  registerEventCommands(program, context);
  registerCodeCommands(program, context);
}

interface CreateFlags extends PriceFlags {
  name: string;
  plan: string;
  currency: string;
  id?: string;
  seatFee: string;
  orderFee: string;
  onSaleAt?: string;
  presaleAt?: string;
  saleEndsAt?: string;
  performanceAt?: string;
  holdMinutes: string;
  holdSeatsMax: string;
  queueShards: string;
  accountFirst?: boolean;
  partition?: string[];
  json?: boolean;
}

const phaseCommands: [name: string, phase: Phase, text: string][] = [
  ['open', 'open', 'Open the sale.'],
  ['pause', 'paused', 'Pause the sale: places and holds are kept.'],
  ['resume', 'open', 'Go on after a pause.'],
  ['close', 'closed', 'End the sale; orders under way may still be paid.'],
];

function registerEventCommands(program: Command, context: CliContext): void {
  const event = program.command('event').description('Events: create, publish, and steer the on-sale.');
  event
    .command('create')
    .description('Create an event (a draft).')
    .requiredOption('--name <name>', 'name of the event')
    .requiredOption('--plan <plan>', 'id of a stored plan')
    .requiredOption('--price <category=amount...>', priceHelp)
    .option('--kind <id=name...>', 'a kind of buyer beside full, as "reduced=Reduced"; repeat for each')
    .option('--kind-conditions <id=text...>', 'who may take a kind, and what is asked for at the door')
    .option('--locked <category...>', 'categories that only an access code opens')
    .option('--locked-kind <id...>', 'kinds that only an access code opens')
    .option('--currency <code>', 'ISO 4217', 'EUR')
    .option('--id <id>', 'address of the event (a-z, 0-9, -)')
    .option('--seat-fee <amount>', 'minor units per seat', '0')
    .option('--order-fee <amount>', 'minor units per order', '0')
    .option('--performance-at <time>', 'ISO 8601')
    .option('--on-sale-at <time>', 'ISO 8601: the sale opens by itself then')
    .option('--presale-at <time>', 'ISO 8601: from then on those may buy whose access code opens the presale')
    .option('--sale-ends-at <time>', 'ISO 8601')
    .option('--hold-minutes <minutes>', '1 to 15', '10')
    .option('--hold-seats-max <seats>', 'seats held at once by one buyer', '6')
    .option('--account-first', 'hold seats by account, which your platform names (ONSALE_ACCOUNT_SECRET)')
    .option(
      '--queue-shards <number>',
      `counters of the line, 1 to ${queueShardsMax}; 1 keeps strict order`,
      '1',
    )
    .option(
      '--partition <[server:]section,section,…>',
      `sections that are sold apart, on a configured Redis server where one is named; repeat for each, up to ${partitionsMax}; all other sections are one more part`,
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
    .action((id: string, flags: { json?: boolean; acceptWarnings?: boolean }) =>
      withEvent(context, id, async (db, _events, record) => {
        const acceptWarnings = flags.acceptWarnings ?? false;
        const outcome = await publishEvent(db, record, { actor: cliActor, acceptWarnings });
        if (outcome.kind === 'published') {
          if (flags.json) return context.print(JSON.stringify(outcome));
          context.print(`Published ${id} with ${counted(outcome.seats, 'seat')}.`);
          context.print(priceListText(record));
        } else if (outcome.kind === 'no_price') {
          context.fail(
            `These categories have no price: ${outcome.categories.join(', ')}. Nothing was published.`,
          );
        } else if (outcome.kind === 'unsettled') {
          const list = outcome.warnings.map((warning) => `  ${warningText(warning)}`);
          context.fail(
            ['Settle these first, or publish with --accept-warnings. Nothing was published.', ...list].join(
              '\n',
            ),
          );
        } else context.fail(`${id} is published already.`);
      }),
    );

  event
    .command('figures')
    .description('What was sold of an event, and what became of the money.')
    .argument('<event>')
    .option('--json', 'print JSON')
    .action((id: string, flags: { json?: boolean }) =>
      withEvent(context, id, async (db, _events, record) => {
        const figures = await refreshFigures(db, record.eventNo);
        context.print(flags.json ? JSON.stringify(figures) : figuresText(figures, record.currency));
      }),
    );

  for (const [name, phase, text] of phaseCommands) {
    event
      .command(name)
      .description(text)
      .argument('<event>')
      .option('--json', 'print JSON')
      .action((id: string, flags: { json?: boolean }) => phaseCommand(context, id, phase, flags));
  }

  event
    .command('replan')
    .description('Another version of the plan; refuses to lose seats that somebody has.')
    .argument('<event>')
    .argument('<plan>')
    .option('--dry-run', 'say what would change; change nothing')
    .option('--json', 'print JSON')
    .action((id: string, plan: string, flags: { dryRun?: boolean; json?: boolean }) =>
      replanCommand(context, id, plan, flags),
    );

  event
    .command('list')
    .description('List events.')
    .option('--json', 'print JSON')
    .action((flags: { json?: boolean }) =>
      withDatabase(context, async (db) => {
        const all = await createEvents({ db, clock: context.clock }).list();
        if (flags.json) context.print(JSON.stringify(all));
        else if (all.length === 0) context.print('No events yet: onsale event create --help');
        else
          for (const one of all)
            context.print(`${one.event}  ${one.phase}  ${counted(one.seatCount, 'seat')}  ${one.name}`);
      }),
    );

  registerBlockCommands(event, context);
}

async function createCommand(context: CliContext, flags: CreateFlags): Promise<void> {
  const currency = flags.currency.toUpperCase();
  if (!isSellable(currency)) {
    context.fail(`${currency} is not a currency that cards are charged in.`);
    return;
  }
  const read = readPrices(flags, currency);
  if (read.kind === 'refused') {
    context.fail(read.sentence);
    return;
  }
  const { prices, kinds, lockedCategories } = read;
  const times = [flags.performanceAt, flags.onSaleAt, flags.saleEndsAt, flags.presaleAt].map((text) =>
    text === undefined ? null : Date.parse(text),
  );
  const whole = [flags.seatFee, flags.orderFee, flags.holdSeatsMax].map(Number);
  const minutes = Number(flags.holdMinutes);
  const queueShards = Number(flags.queueShards);
  const [performanceAt = null, onSaleAt = null, saleEndsAt = null, presaleAt = null] = times;
  const fees = { seatFee: whole[0]!, orderFee: whole[1]! };
  const isWhole = whole.every((value) => Number.isSafeInteger(value) && value >= 0);
  const fault = isWhole
    ? priceFault({
        currency,
        prices,
        settings: { ...fees, kinds, lockedCategories, holdSeatsMax: whole[2]! },
      })
    : null;
  const early = presaleFault(presaleAt, onSaleAt);
  if (times.some((at) => at !== null && !isEventTime(at)))
    context.fail('Times are ISO 8601, between the years 2000 and 2200, as 2030-05-01T10:00:00Z.');
  else if (!isWhole) context.fail('Fees and --hold-seats-max are whole numbers from 0 on.');
  else if (fault) context.fail(fault.sentence);
  else if (early) context.fail(`--presale-at: ${early}`);
  else if (!(minutes >= 1 && minutes <= 15)) context.fail('--hold-minutes takes 1 to 15.');
  else if (!(Number.isInteger(queueShards) && queueShards >= 1 && queueShards <= queueShardsMax))
    context.fail(`--queue-shards takes 1 to ${queueShardsMax}.`);
  else {
    const known = context.redisServers();
    await withDatabase(context, async (db) => {
      const outcome = await createEvents({ db, clock: context.clock }).create({
        event: flags.id ?? slugOf(flags.name),
        name: flags.name,
        planId: flags.plan,
        currency,
        performanceAt,
        onSaleAt,
        saleEndsAt,
        prices,
        settings: {
          ...fees,
          ...(kinds.length > 0 ? { kinds } : {}),
          ...(lockedCategories.length > 0 ? { lockedCategories } : {}),
          ...(presaleAt === null ? {} : { presaleAt }),
          holdSeatsMax: whole[2],
          holdTtlMs: Math.round(minutes * 60_000),
          ...(queueShards > 1 ? { queueShards } : {}),
          ...(flags.accountFirst ? { accountFirst: true } : {}),
          ...(flags.partition ? { partitions: flags.partition.map(partitionOf) } : {}),
        },
        redisServers: known.length > 0 ? known : null,
      });
      if (outcome.kind === 'exists') context.fail('An event of that id exists; choose another with --id.');
      else if (outcome.kind === 'unknown_plan') context.fail(`There is no plan ${flags.plan}.`);
      else if (outcome.kind === 'partitions_refused') context.fail(`--partition: ${outcome.sentence}`);
      else if (outcome.kind === 'no_price')
        context.fail(
          `These categories have no --price: ${outcome.categories.join(', ')}. Nothing was created.`,
        );
      else if (flags.json) context.print(JSON.stringify(outcome.event));
      else {
        const { event } = outcome;
        const limits = [
          'Limits ("onsale limits set" changes them):',
          ...limitLines(limitsOf(event.settings)),
        ];
        context.print([`Created ${event.event} (draft).`, priceListText(event), ...limits].join('\n'));
      }
    });
  }
}

/** `north:a,b,c` or `a,b,c`: ids of sections hold neither colons nor commas. */
function partitionOf(text: string): PartitionSetting {
  const [list = '', server] = text.split(':', 2).reverse();
  const sections = list.split(',').flatMap((id) => (id.trim() === '' ? [] : [id.trim()]));
  return server === undefined ? { sections } : { sections, redis: server.trim() };
}

async function phaseCommand(
  context: CliContext,
  id: string,
  phase: Phase,
  flags: { json?: boolean },
): Promise<void> {
  await withEvent(context, id, async (_db, events, record) => {
    const outcome = await events.changeOnSale({
      event: record,
      actor: cliActor,
      expectedVersion: record.version,
      phase,
    });
    switch (outcome.kind) {
      case 'changed':
        context.print(flags.json ? JSON.stringify(outcome.now) : `${id} is ${outcome.now.phase}.`);
        return;
      case 'conflict':
        context.fail('The event was changed just now. Look again and repeat.');
        return;
      case 'impossible':
        context.fail(
          `${id} is ${outcome.now.phase}; from there it can become ${outcome.possible.join(', ') || 'nothing else'}.`,
        );
        return;
      case 'unknown':
        context.fail(`There is no event ${id}.`);
        return;
      default:
        impossible(outcome, 'on-sale outcome');
    }
  });
}

async function replanCommand(
  context: CliContext,
  id: string,
  plan: string,
  flags: { dryRun?: boolean; json?: boolean },
): Promise<void> {
  await withArbiter(context, id, async (deps, event) => {
    const outcome = await replanEvent(deps, { event, plan, actor: cliActor, dryRun: flags.dryRun ?? false });
    if (flags.json) context.print(JSON.stringify(outcome));
    if (outcome.kind === 'unknown') context.fail(`There is no plan ${plan}.`);
    else if (outcome.kind === 'not_published') context.fail('The event is not published yet.');
    else if (outcome.kind === 'conflict') {
      context.fail('The plan of the event was changed in the meantime. Nothing was stored.');
    } else if (outcome.kind === 'no_price') {
      context.fail(`These categories have no price: ${outcome.categories.join(', ')}. Nothing was changed.`);
    } else if (outcome.kind === 'busy') {
      context.fail(
        'A part of the house is moving between stores. Nothing was changed; try again in a moment.',
      );
    } else if (outcome.kind === 'would_move') {
      context.fail(
        `The new plan puts ${counted(outcome.seats.length, 'seat')} into sections that are sold in another part of the house. Nothing was changed.`,
      );
    } else if (outcome.kind === 'would_lose') {
      const list = outcome.seats
        .slice(0, 50)
        .map((seat) => `  ${seat.sectionId} ${seat.row} ${seat.label}: ${seat.state}`);
      context.fail(
        [
          `The new plan would lose ${counted(outcome.seats.length, 'seat')} that somebody has. Nothing was changed.`,
          ...list,
        ].join('\n'),
      );
    } else if (!flags.json) {
      const removed = outcome.kind === 'dry_run' ? outcome.removed.length : outcome.removed;
      const verb = (n: number) => (outcome.kind === 'dry_run' ? 'would be' : n === 1 ? 'was' : 'were');
      context.print(
        `${counted(outcome.kept, 'seat')} kept; ${outcome.added} ${verb(outcome.added)} added, ${removed} ${verb(removed)} blocked.`,
      );
    }
    if (outcome.kind === 'replanned' && outcome.untold.length > 0) {
      context.fail('New seats are not known everywhere yet: give the same command once more.');
    }
  });
}

export async function withDatabase(context: CliContext, act: (db: Db) => Promise<void>): Promise<void> {
  const { db, close } = await context.openDatabase();
  try {
    await act(db);
  } finally {
    await close();
  }
}

function figuresText(figures: SalesFigures, currency: string): string {
  const money = (minor: number) => `${decimalOf(minor, currency)} ${currency}`;
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

export async function withEvent(
  context: CliContext,
  id: string,
  act: (db: Db, events: Events, event: EventRecord) => Promise<void>,
): Promise<void> {
  await withDatabase(context, async (db) => {
    const events = createEvents({ db, clock: context.clock });
    const event = await events.find(id);
    if (event) await act(db, events, event);
    else context.fail(`There is no event ${id}; "onsale event list" shows all.`);
  });
}

/** The event, and what its seats are blocked through. */
export async function withArbiter(
  context: CliContext,
  id: string,
  act: (deps: ReplanDeps, event: EventRecord, events: Events) => Promise<void>,
): Promise<void> {
  const { clock, random } = context;
  await withEvent(context, id, async (db, events, event) => {
    const { arbiter, close } = await context.openArbiter(db);
    try {
      await act(
        {
          db,
          arbiter,
          events,
          clock,
          random,
          prepareReplan: (event, plan) => prepareReplan(db, event, plan),
        },
        event,
        events,
      );
    } finally {
      await close();
    }
  });
}
