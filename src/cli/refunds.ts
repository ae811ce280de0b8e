import type { Command } from 'commander';
import { counted } from '../core/counted.ts';
import { amountText, minorOf } from '../core/money.ts';
import { assert } from '../core/outcome.ts';
import {
  cancelEvent,
  cancellationDefaults,
  getCancellation,
  listCancelledOrders,
  retryCancellation,
} from '../operate/cancellation.ts';
import type { OutputOf } from '../operate/operation.ts';
import {
  getOrder,
  listRefunds,
  refundOrder,
  refundsMax,
  retryRefund,
  settleRefund,
} from '../operate/refunds.ts';
import { refundStates } from '../orders/refunds.ts';
import { call } from './call.ts';
import { type CliContext, numeric } from './context.ts';
import { moneyHelp } from './prices.ts';

type Refund = OutputOf<typeof retryRefund>;
type Cancellation = OutputOf<typeof getCancellation>;

interface RefundFlags {
  ticket?: string[];
  keepFees?: boolean;
  unpaid?: boolean;
  goodwill?: string;
  block?: boolean;
  reason: string;
  key?: string;
  preview?: boolean;
  json?: boolean;
}

/** `onsale refund` and `onsale event cancel`: operate/refunds.ts and cancellation.ts. Workers of `onsale start` pay. */
export function registerRefundCommands(program: Command, context: CliContext): void {
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
    .option('--goodwill <amount>', `on top, ${moneyHelp}`)
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
    .action(async (id: string) => {
      if (await call(context, retryRefund, { refund: id })) context.print(`Refund ${id} is tried again.`);
    });
  refund
    .command('elsewhere')
    .description('A failed refund was given back by other means: nothing more is owed.')
    .argument('<refund>', 'id of the refund')
    .requiredOption('--note <text>', 'how it was given back')
    .action(async (id: string, { note }: { note: string }) => {
      if (await call(context, settleRefund, { refund: id, note }))
        context.print(`Refund ${id} is settled: ${note}`);
    });
  registerCancelCommands(event, context);
}

async function orderCommand(context: CliContext, order: string, flags: RefundFlags): Promise<void> {
  const known = await call(context, getOrder, { order });
  if (!known) return;
  const { currency } = known;
  const goodwill = flags.goodwill === undefined ? undefined : minorOf(flags.goodwill, currency);
  if (goodwill === null) return context.fail(`--goodwill takes an amount ${moneyHelp}.`);
  const outcome = await call(
    context,
    refundOrder,
    {
      order,
      tickets: flags.ticket,
      fees: flags.keepFees ? 'kept' : 'returned',
      goodwill,
      seats: flags.block ? 'block' : 'release',
      pays: flags.unpaid !== true,
      reason: flags.reason,
      preview: flags.preview,
    },
    { key: flags.key },
  );
  if (!outcome) return;
  if (flags.json) context.print(JSON.stringify(outcome));
  else if ('preview' in outcome)
    context.print(
      `${counted(outcome.tickets.length, 'ticket')}, ${amountText(outcome.amount, currency)}. Nothing was changed.`,
    );
  else
    context.print(
      `${refundLine(outcome)}\nThe order is ${outcome.orderState}. "onsale refund list" shows how it goes on.`,
    );
}

async function listCommand(
  context: CliContext,
  event: string,
  flags: { state?: string; json?: boolean },
): Promise<void> {
  const state = flags.state as (typeof refundStates)[number] | undefined;
  const refunds: Refund[] = [];
  for (let before: string | undefined; ; before = refunds.at(-1)!.createdAt) {
    const page = await call(context, listRefunds, { event, state, before });
    if (!page) return;
    refunds.push(...page.refunds);
    if (page.refunds.length < refundsMax) break;
  }
  if (flags.json) context.print(JSON.stringify(refunds));
  else if (refunds.length === 0) context.print('None.');
  else for (const refund of refunds) context.print(refundLine(refund));
}

function refundLine({ refund, order, amount, currency, state, detail, tickets }: Refund): string {
  return `${refund}  ${state}  ${amountText(amount, currency)}  ${counted(tickets.length, 'ticket')} of order ${order}${detail ? `  (${detail})` : ''}`;
}

interface CancelFlags {
  reason: string;
  keepFees?: boolean;
  block?: boolean;
  perSecond: string;
  confirm?: string;
  watch?: boolean;
  json?: boolean;
}

function registerCancelCommands(event: Command, context: CliContext): void {
  event
    .command('cancel')
    .description(
      'Cancel an event for good and refund its orders. Says first what would happen, with a code to confirm it.',
    )
    .argument('<event>')
    .requiredOption('--reason <text>', 'why; buyers may read it')
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

async function cancelCommand(context: CliContext, event: string, flags: CancelFlags): Promise<void> {
  const outcome = await call(context, cancelEvent, {
    event,
    reason: flags.reason,
    fees: flags.keepFees ? 'kept' : 'returned',
    seats: flags.block ? 'block' : 'release',
    perSecond: numeric(flags.perSecond),
    confirmation: flags.confirm,
  });
  if (!outcome) return;
  if (!('confirmation' in outcome)) return void (await follow(context, event, flags));
  if (flags.json) return context.print(JSON.stringify(outcome));
  const { orders, tickets, amount, currency, unpaidOrders, confirmation } = outcome;
  context.print(
    [
      `Cancelling ${event} would close its sale for good, refund ${counted(orders, 'order')} with ${counted(tickets, 'ticket')},`,
      `${amountText(amount, currency)} in all, and end ${counted(unpaidOrders, 'unpaid order')}. Nothing has happened yet.`,
      `To do it, give the same command once more within ten minutes with: --confirm ${confirmation}`,
    ].join('\n'),
  );
}

interface StatusFlags {
  watch?: boolean;
  retry?: boolean;
  orders?: boolean;
  json?: boolean;
}

async function statusCommand(context: CliContext, event: string, flags: StatusFlags): Promise<void> {
  if (flags.retry) {
    const retried = await call(context, retryCancellation, { event });
    if (!retried) return;
    if (!flags.json) context.print(`${retried.refunds} failed refunds are tried again.`);
  }
  const now = await follow(context, event, flags);
  if (!now || !flags.orders) return;
  for (let after: string | undefined; ; ) {
    const page = await call(context, listCancelledOrders, { event, after });
    for (const one of page?.orders ?? []) {
      const text = `${one.order}  ${one.outcome}  ${amountText(one.amount, now.currency)}  ${counted(one.tickets, 'ticket')}${one.detail ? `  (${one.detail})` : ''}`;
      context.print(flags.json ? JSON.stringify(one) : text);
    }
    if (!page?.next) return;
    after = page.next;
  }
}

const watchEveryMs = 2_000;

/** Prints how far the run is; with `watch` until it is done. Returns its last state. Failed refunds make the exit code 1. */
async function follow(
  context: CliContext,
  event: string,
  flags: { watch?: boolean; json?: boolean },
): Promise<Cancellation | null> {
  for (let before = ''; ; ) {
    const now = await call(context, getCancellation, { event });
    if (!now) return null;
    const text = flags.json ? JSON.stringify(now) : now.text.join('\n');
    if (text !== before) context.print(text);
    before = text;
    if (!flags.watch || now.state === 'done') {
      const { failed } = now.refunds;
      if (failed) context.fail(`${counted(failed.refunds, 'refund')} failed: --retry tries again.`);
      return now;
    }
    await context.clock.sleep(watchEveryMs);
  }
}
