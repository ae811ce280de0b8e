import type { OrderId } from '../core/hold.ts';
import type { OrderEnd } from '../core/order.ts';
import { impossible } from '../core/outcome.ts';
import type { BeginOutcome, MoneyOperation, SalesRecord } from '../orders/record.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Lookups } from './lookups.ts';
import type { PayOutcome } from './outcomes.ts';
import { outcomeOf, outcomeOfOrder } from './pay-outcome.ts';
import { isOpen, type Standing } from './steps.ts';

/** The opening of a payment is tried a second time within its request, after the gap that follows the first try, ms. */
const openAgainMs = 2_100;
/** Unless the first try took so long that the buyer's page would give up waiting, ms. */
const openPatienceMs = 3_000;
/** How long a repeated request waits for the first one's result, in ms. After that its client is asked to retry. */
const repeatWaitMs = 4_000;
const repeatPollMs = 150;

export interface RepeatsOptions {
  record: SalesRecord;
  lookups: Pick<Lookups, 'claimOf' | 'drive'>;
  clock: Clock;
  /** Makes the call of an opening that was just begun. */
  open(standing: Standing): Promise<Standing>;
  /** Closes an order that can no longer be paid. */
  shut(order: OrderId, reason: OrderEnd): Promise<PayOutcome>;
}

/** Requests that come again, come too late, or come while another is at work: what they are answered. */
export type Repeats = ReturnType<typeof createRepeats>;

export function createRepeats({ record, lookups, clock, open, shut }: RepeatsOptions) {
  /** With the same key: nothing is opened twice. What stays unknown the reconciler goes on with. */
  async function openTwice(begun: Standing): Promise<Standing> {
    const startedAt = clock.monotonic();
    const first = await open(begun);
    if (first.operation.state !== 'unknown' || clock.monotonic() - startedAt > openPatienceMs) return first;
    await clock.sleep(openAgainMs);
    return openIfDue(first);
  }

  async function openIfDue({ order, operation }: Standing): Promise<Standing> {
    if (operation.state !== 'unknown') return { order, operation };
    const { operation: id } = operation;
    return (await looked(operation)) ?? (await standingOf(order.order, id)) ?? { order, operation };
  }

  /** Checks an operation under way and continues it. Null if its next check is not due, or another process has claimed it. */
  async function looked({ operation }: MoneyOperation): Promise<Standing | null> {
    const claimed = await record.ask({ ...lookups.claimOf, operation, by: 'buyer' });
    return claimed && lookups.drive(claimed);
  }

  async function notBegun(begun: Exclude<BeginOutcome, { kind: 'begun' }>): Promise<PayOutcome> {
    switch (begun.kind) {
      case 'repeated':
        return outcomeOf(await answered(begun));
      case 'too_late':
        return shut(begun.order.order, begun.reason);
      case 'decided':
        return outcomeOfOrder(begun.order);
      case 'under_way':
        return { kind: 'under_way', order: begun.order };
      case 'mismatch':
      case 'unknown_order':
        return begun;
      case 'opened':
        return { kind: 'under_way', order: begun.order };
      default:
        return impossible(begun, 'begin');
    }
  }

  /** The first request's answer for its repeat, if it comes soon. */
  async function answered(standing: Standing): Promise<Standing> {
    let now = standing;
    const until = clock.monotonic() + repeatWaitMs;
    while (
      (now.operation.state === 'open' || now.order.state === 'authorised') &&
      clock.monotonic() < until
    ) {
      await clock.sleep(repeatPollMs);
      now = (await standingOf(now.order.order, now.operation.operation)) ?? now;
    }
    return now;
  }

  async function standingOf(orderId: OrderId, operationId?: string): Promise<Standing | null> {
    const [order, all] = await Promise.all([record.findOrder(orderId), record.operationsOf(orderId)]);
    const operations = all.filter(({ kind }) => kind !== 'refund');
    const operation = operationId
      ? operations.find((one) => one.operation === operationId)
      : (operations.find(isOpen) ??
        operations.filter(({ kind }) => kind === 'authorise').at(-1) ??
        operations.at(-1));
    return order && operation ? { order, operation } : null;
  }

  async function refresh(order: OrderId): Promise<PayOutcome> {
    const standing = await standingOf(order);
    if (!standing) {
      const known = await record.findOrder(order);
      return known ? outcomeOfOrder(known) : { kind: 'unknown_order' };
    }
    if (!isOpen(standing.operation)) return outcomeOf(standing);
    return outcomeOf((await looked(standing.operation)) ?? (await standingOf(order)) ?? standing);
  }

  return { openTwice, openIfDue, notBegun, answered, refresh };
}
