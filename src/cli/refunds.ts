import type { Command } from 'commander';
import { openRefunds } from '../app/refunds.ts';
import { createEvents } from '../catalogue/events.ts';
import { cancellationText } from '../checkout/cancel-event.ts';
import type { RefundOutcome } from '../checkout/refunds.ts';
import { counted } from '../core/counted.ts';
import { decimalOf } from '../core/money.ts';
import { assert, impossible } from '../core/outcome.ts';
import {
  cancellationDefaults,
  perSecondMax,
  perSecondMin,
  problemOfRefund,
} from '../http/organiser-refunds.ts';
import type { Arbiter } from '../inventory/arbiter.ts';
import type { Cancellation, CancellationWish } from '../orders/cancellations.ts';
import { createSalesRecord } from '../orders/orders-record.ts';
import type { EventRecord } from '../orders/record.ts';
import {
  createRefundRecord,
  goneBack,
  type Refund,
  type RefundState,
  refundStates,
} from '../orders/refunds.ts';
import type { Db } from '../postgres/db.ts';
import type { Logger } from '../runtime/log.ts';
import { type CliContext, cliActor, withDatabase, withEvent } from './context.ts';

/** The context of these commands, with a log for failures. */
export type RefundContext = CliContext & { log(): Logger };

interface RefundFlags {
  ticket?: string[];
  keepFees?: boolean;
  unpaid?: boolean;
  goodwill: string;
  block?: boolean;
  reason: string;
  key?: string;
  preview?: boolean;
  json?: boolean;
}

const statesMax = 500;

/** `onsale refund …` and `onsale event cancel …`. The money itself is given back by the workers of `onsale start`. */
export function registerRefundCommands(program: Command, context: RefundContext): void {
  const event = program.commands.find((command) => command.name() === 'event');
  assert(event, 'the event commands come first');
  const refund = program
    .command('refund')
    .description('Refunds: decide them here; a running "onsale start" gives the money back.');
  refund
    .command('order')
    .description('Refund an order or some of its tickets; what is refunded is not valid any more.')
    .argument('<order>', 'id of the order')
    .option('--ticket <ticket...>', 'ids of tickets; all that are valid when absent')
    .option('--keep-fees', "keep the tickets' fees and the order's")
    .option('--goodwill <amount>', 'minor units on top', '0')
    .option('--block', 'keep the seats back from the sale')
    .option(
      '--unpaid',
      'cancel the tickets and give no money back: the buyer has it already (refunded at the provider, disputed)',
    )
    .requiredOption('--reason <text>', 'why')
    .option('--key <text>', 'the same key again is the same refund')
    .option('--preview', 'say what it would come to; change nothing')
    .option('--json', 'print JSON')
    .action((order: string, flags: RefundFlags) => orderCommand(context, order, flags));
  refund
    .command('list')
    .description(
      "Refunds of an event, or those in one state: which failed, which wait, and the provider's reason.",
    )
    .argument('<event>')
    .option('--state <state>', refundStates.join(', '))
    .option('--json', 'print JSON')
    .action((id: string, flags: { state?: string; json?: boolean }) => listCommand(context, id, flags));
  refund
    .command('retry')
    .description('Try a failed refund again.')
    .argument('<refund>', 'id of the refund')
    .action((id: string) =>
      withRefunds(context, async ({ refunds }) => {
        const outcome = await refunds.retry(id, cliActor);
        if (outcome.kind === 'unknown_refund') context.fail(`There is no refund ${id}.`);
        else if (outcome.kind === 'decided') context.fail(`It is ${outcome.refund.state}, not failed.`);
        else if (outcome.kind === 'gone_back') context.fail(goneBack);
        else context.print(`Refund ${id} is tried again.`);
      }),
    );
  refund
    .command('elsewhere')
    .description('A failed refund was given back by other means: nothing more is owed.')
    .argument('<refund>', 'id of the refund')
    .requiredOption('--note <text>', 'how it was given back')
    .action((id: string, flags: { note: string }) =>
      withRefunds(context, async ({ refunds }) => {
        const outcome = await refunds.elsewhere(id, cliActor, flags.note);
        if (outcome.kind === 'unknown_refund') context.fail(`There is no refund ${id}.`);
        else if (outcome.kind === 'decided') context.fail(`It is ${outcome.refund.state}, not failed.`);
        else context.print(`Refund ${id} is settled: ${flags.note}`);
      }),
    );
  registerCancelCommands(event, context);
}

type Opened = ReturnType<typeof openRefunds>;

export async function withRefunds(
  context: RefundContext,
  act: (opened: Opened, db: Db) => Promise<void>,
): Promise<void> {
  await withDatabase(context, async (db) => {
    const { arbiter, close } = await context.openArbiter(db);
    try {
      await act(openedOn(context, db, arbiter), db);
    } finally {
      await close();
    }
  });
}

function openedOn(
  context: RefundContext,
  db: Db,
  arbiter: Parameters<typeof openRefunds>[0]['arbiter'],
): Opened {
  const { clock, random } = context;
  return openRefunds({
    db,
    record: createSalesRecord({ db }),
    provider: null,
    arbiter,
    events: createEvents({ db, clock }),
    redisHolds: null,
    owner: cliActor,
    clock,
    random,
    log: context.log(),
  });
}

async function orderCommand(context: RefundContext, order: string, flags: RefundFlags): Promise<void> {
  const goodwill = Number(flags.goodwill);
  if (!Number.isSafeInteger(goodwill) || goodwill < 0) {
    return context.fail('--goodwill takes a whole number of minor units.');
  }
  if (flags.unpaid && goodwill > 0) return context.fail('--unpaid gives nothing back: leave out --goodwill.');
  if (!isId(order) || !(flags.ticket ?? []).every(isId))
    return context.fail('Orders and tickets have ids like 3f0c…-….');
  const fees = flags.keepFees ? ('kept' as const) : ('returned' as const);
  const wish = { tickets: flags.ticket ?? ('all' as const), fees, goodwill, pays: flags.unpaid !== true };
  await withRefunds(context, async ({ refunds, routes }) => {
    if (flags.preview) {
      const known = await routes.orders.findOrder(order);
      const would = await refunds.preview(order, wish);
      if (would.kind !== 'refund') return context.fail(problemOfRefund(would).message);
      const sum = known ? decimalOf(would.amount, known.currency) : would.amount;
      if (flags.json) context.print(JSON.stringify(would));
      else
        context.print(
          `${counted(would.tickets.length, 'ticket')}, ${sum} ${known?.currency ?? ''}. Nothing was changed.`,
        );
      return;
    }
    const outcome = await refunds.make({
      ...wish,
      order,
      requestKey: flags.key ?? context.random.uuid(),
      actor: cliActor,
      reason: flags.reason,
      seats: flags.block ? 'block' : 'release',
    });
    sayRefund(context, outcome, flags.json ?? false);
  });
}

function sayRefund(context: RefundContext, outcome: RefundOutcome, json: boolean): void {
  if (outcome.kind !== 'made' && outcome.kind !== 'repeated') {
    context.fail(problemOfRefund(outcome).message);
    return;
  }
  const { refund, order } = outcome;
  if (json) context.print(JSON.stringify(refund));
  else {
    context.print(
      `${refundLine(refund)}\nThe order is ${order.state}. "onsale refund list" shows how it goes on.`,
    );
  }
}

async function listCommand(
  context: RefundContext,
  id: string,
  flags: { state?: string; json?: boolean },
): Promise<void> {
  const states = refundStates.filter((state) => state === flags.state);
  if (flags.state !== undefined && states.length === 0) {
    return context.fail(`--state takes one of ${refundStates.join(', ')}.`);
  }
  await withEvent(context, id, async (db, _events, event) => {
    const filter: { states?: RefundState[]; limit: number } = { limit: statesMax };
    if (states.length > 0) filter.states = states;
    const found = await createRefundRecord({ db }).list(event.eventNo, filter);
    if (flags.json) context.print(JSON.stringify(found));
    else if (found.length === 0) context.print('None.');
    else for (const refund of found) context.print(refundLine(refund));
  });
}

function refundLine({ refund, order, amount, currency, state, detail, tickets }: Refund): string {
  const sum = `${decimalOf(amount, currency)} ${currency}`;
  return `${refund}  ${state}  ${sum}  ${counted(tickets.length, 'ticket')} of order ${order}${detail ? `  (${detail})` : ''}`;
}

interface CancelFlags {
  reason?: string;
  keepFees?: boolean;
  unpaid?: boolean;
  block?: boolean;
  perSecond: string;
  confirm?: string;
  watch?: boolean;
  json?: boolean;
}

function registerCancelCommands(event: Command, context: RefundContext): void {
  event
    .command('cancel')
    .description(
      'Cancel an event for good and refund its orders. Says first what would happen, with a code to confirm it.',
    )
    .argument('<event>')
    .option('--reason <text>', 'why; buyers may read it')
    .option('--keep-fees', 'refund the prices only')
    .option('--block', 'keep the seats back')
    .option('--per-second <orders>', 'at most', String(cancellationDefaults.perSecond))
    .option('--confirm <code>', 'the code that the same command without it has printed')
    .option('--watch', 'stay and show the progress')
    .option('--json', 'print JSON')
    .action((id: string, flags: CancelFlags) => cancelCommand(context, id, flags));
  event
    .command('cancellation')
    .description('How far the cancelling of an event has come.')
    .argument('<event>')
    .option('--watch', 'stay until it is done')
    .option('--retry', 'try all failed refunds again')
    .option('--orders', 'list what became of each order')
    .option('--json', 'print JSON')
    .action((id: string, flags: StatusFlags) => statusCommand(context, id, flags));
}

async function cancelCommand(context: RefundContext, id: string, flags: CancelFlags): Promise<void> {
  const perSecond = Number(flags.perSecond);
  const { reason } = flags;
  if (!reason) return context.fail('Say why: --reason "…".');
  if (!(perSecond >= perSecondMin && perSecond <= perSecondMax)) {
    return context.fail(`--per-second takes a number from ${perSecondMin} to ${perSecondMax}.`);
  }
  const wish: CancellationWish = {
    reason,
    fees: flags.keepFees ? 'kept' : 'returned',
    seats: flags.block ? 'block' : 'release',
    perSecond,
  };
  await withArbiter(context, id, async ({ db, arbiter }, event) => {
    const opened = openedOn(context, db, arbiter);
    if (event.phase === 'draft') return context.fail('A draft has no orders: it need not be cancelled.');
    if (flags.confirm === undefined) return askCommand(context, opened, event, wish, flags.json ?? false);
    const outcome = await opened.cancelEvent.confirm(event.eventNo, wish, cliActor, flags.confirm);
    switch (outcome.kind) {
      case 'started':
        return await follow(context, opened, event, flags);
      case 'already':
        return context.fail(
          `${id} is cancelled already: "onsale event cancellation ${id}" shows how far it is.`,
        );
      case 'not_confirmed':
        return context.fail(
          'The code is wrong, used, older than ten minutes, or was for another wish. Nothing was cancelled.',
        );
      case 'not_published':
        return context.fail('A draft has no orders: it need not be cancelled.');
      default:
        return impossible(outcome, 'cancellation outcome');
    }
  });
}

async function askCommand(
  context: RefundContext,
  { cancelEvent, routes }: Opened,
  event: EventRecord,
  wish: CancellationWish,
  json: boolean,
): Promise<void> {
  if (await routes.cancellations.find(event.eventNo)) {
    return context.fail(`${event.event} is cancelled already.`);
  }
  const { shown, code } = await cancelEvent.ask(event.eventNo, wish, cliActor);
  if (json) return context.print(JSON.stringify({ ...shown, confirmation: code }));
  context.print(
    [
      `Cancelling ${event.name} would close its sale for good, refund ${counted(shown.orders, 'order')} with ${counted(shown.tickets, 'ticket')},`,
      `${decimalOf(shown.amount, shown.currency)} ${shown.currency} in all, and end ${counted(shown.unpaidOrders, 'unpaid order')}. Nothing has happened yet.`,
      `To do it, give the same command once more within ten minutes with: --confirm ${code}`,
    ].join('\n'),
  );
}

interface StatusFlags {
  watch?: boolean;
  retry?: boolean;
  orders?: boolean;
  json?: boolean;
}

async function statusCommand(context: RefundContext, id: string, flags: StatusFlags): Promise<void> {
  await withArbiter(context, id, async ({ db, arbiter }, event) => {
    const opened = openedOn(context, db, arbiter);
    const { cancellations } = opened.routes;
    if (flags.retry) {
      const count = await cancellations.retryFailed(event.eventNo, cliActor);
      if (count !== null && !flags.json) context.print(`${count} failed refunds are tried again.`);
    }
    await follow(context, opened, event, flags);
    if (!flags.orders) return;
    const most = 1_000;
    for (let after: string | null = null; ; ) {
      const page = await cancellations.outcomes(event.eventNo, after, most);
      for (const one of page) {
        const text = `${one.order}  ${one.outcome}  ${one.amount}  ${counted(one.tickets, 'ticket')}${one.detail ? `  (${one.detail})` : ''}`;
        context.print(flags.json ? JSON.stringify(one) : text);
      }
      if (page.length < most) return;
      after = page.at(-1)!.order;
    }
  });
}

const watchEveryMs = 2_000;

/** Prints how it stands; with `watch` again and again until the run is done. Failed refunds end it with code 1. */
async function follow(
  context: RefundContext,
  { routes }: Opened,
  event: EventRecord,
  flags: { watch?: boolean; json?: boolean },
): Promise<void> {
  for (let before = ''; ; ) {
    const now = await routes.cancellations.find(event.eventNo);
    if (!now) return context.fail(`${event.event} is not being cancelled with refunds.`);
    const text = flags.json ? JSON.stringify(now) : cancellationText(event.name, now).join('\n');
    if (text !== before) context.print(text);
    before = text;
    if (!flags.watch || now.state === 'done') return sayFailed(context, now);
    await context.clock.sleep(watchEveryMs);
  }
}

function sayFailed(context: RefundContext, { refunds }: Cancellation): void {
  if (refunds.failed)
    context.fail(`${counted(refunds.failed.refunds, 'refund')} failed: --retry tries again.`);
}

const isId = (text: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text);

async function withArbiter(
  context: CliContext,
  id: string,
  act: (parts: { db: Db; arbiter: Arbiter }, event: EventRecord) => Promise<void>,
): Promise<void> {
  await withEvent(context, id, async (db, _events, event) => {
    const { arbiter, close } = await context.openArbiter(db);
    try {
      await act({ db, arbiter }, event);
    } finally {
      await close();
    }
  });
}
