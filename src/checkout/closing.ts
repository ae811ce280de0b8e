import type { Hold, HoldId, OrderId } from '../core/hold.ts';
import type { OrderEnd } from '../core/order.ts';
import { impossible } from '../core/outcome.ts';
import type { Arbiter } from '../inventory/arbiter.ts';
import type { Changed, Order, SalesRecord } from '../orders/record.ts';
import type { Logger } from '../runtime/log.ts';
import type { Ending } from './ending.ts';
import type { Checkout, CloseOutcome, PayOutcome } from './outcomes.ts';
import { outcomeOfOrder } from './pay-outcome.ts';
import type { Steps } from './steps.ts';

export interface ClosingOptions {
  record: SalesRecord;
  arbiter: Pick<Arbiter, 'release'>;
  steps: Steps;
  ending: Ending;
  orderIdOf(hold: HoldId): OrderId;
  decided(changed: Changed): Promise<void>;
  log: Logger;
}

/** Orders that end without a sale: closed by their buyer, not paid in time, or given back before they were made. */
export function createClosing(options: ClosingOptions) {
  const { record, arbiter, ending, orderIdOf, decided, log } = options;
  const { claimOf, newEndKey } = options.steps;

  async function close(order: OrderId): Promise<CloseOutcome> {
    const outcome = await record.close(order, 'closed_by_buyer', newEndKey(order), claimOf);
    switch (outcome.kind) {
      case 'closed':
        await decided(outcome);
        return { kind: 'closed', order: outcome.order };
      case 'voiding': {
        await decided(outcome);
        const { operation } = outcome;
        if (!operation) return closeOf(outcome.order);
        return closeOf((await ending.voidObject({ order: outcome.order, operation })).order);
      }
      case 'decided':
        return closeOf(outcome.order);
      case 'under_way':
      case 'unknown_order':
        return outcome;
      default:
        return impossible(outcome, 'close');
    }
  }

  /** Closes an order that can no longer be paid. */
  async function shut(order: OrderId, reason: OrderEnd): Promise<PayOutcome> {
    const outcome = await record.close(order, reason, newEndKey(order), claimOf);
    if (outcome.kind === 'unknown_order') return outcome;
    if (outcome.kind === 'closed' || outcome.kind === 'voiding') await decided(outcome);
    return outcome.kind === 'under_way' ? outcome : outcomeOfOrder(outcome.order);
  }

  async function abandon(hold: Hold): ReturnType<Checkout['abandon']> {
    const order = orderIdOf(hold.hold);
    const outcome = await record.abandon(hold, order);
    if (outcome.kind === 'ordered') return outcome;
    const { event, partition, visitor } = hold;
    const released = await arbiter.release({
      event,
      partition,
      receipt: hold,
      hold: hold.hold,
      visitor,
      force: order,
    });
    if (released.kind === 'retry') {
      // The order is written as closed, so the leader ends the hold within seconds.
      log.debug(
        { order, answer: released.kind },
        'a hold that was given back stays until it is told as ended',
      );
    }
    return { kind: 'released' };
  }

  return { close, shut, abandon };
}

function closeOf(order: Order): CloseOutcome {
  switch (order.state) {
    case 'closed':
    case 'cancelled':
      return { kind: 'closed', order };
    case 'confirmed':
    case 'paid':
      return { kind: 'bought', order };
    case 'voiding':
      return { kind: 'closing', order };
    case 'reserved':
    case 'authorised':
      return { kind: 'under_way', order };
  }
}
