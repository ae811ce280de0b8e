import type { OrderId } from '../core/hold.ts';
import { amountText } from '../core/money.ts';
import type { Order } from '../orders/record.ts';
import { type Reversal, type ReversalSeen, recordReversals, reversalsOfOrder } from '../orders/reversals.ts';
import type { DisputeView, PaymentProvider, RefundView } from '../payments/provider.ts';
import type { Db } from '../postgres/db.ts';
import type { Logger } from '../runtime/log.ts';

/**
 * Refunds that were made at the provider, and disputes of the buyer's bank. They are compared with the record as soon as an event
 * reports one, stored with the order, and listed for the operator. Nothing is decided here: the tickets stay valid until an
 * operator cancels them.
 */
export interface Reversals {
  /** Records the refunds of an order's payment and fetches its disputes. Returns false if the provider did not answer. */
  inspect(order: Order, object: string, refunds: readonly RefundView[]): Promise<boolean>;
  /**
   * Fetches the disputes of a payment that is not the order's sale, so their money counts for none of its refunds. Returns false if
   * the provider did not answer.
   */
  inspectDisputes(order: Order, object: string): Promise<boolean>;
  ofOrder(order: OrderId): Promise<Reversal[]>;
}

export function createReversals(options: {
  db: Db;
  provider: Pick<PaymentProvider, 'disputes'> | null;
  log: Logger;
}): Reversals {
  const { db, provider, log } = options;
  async function disputesOf(order: Order, object: string): Promise<ReversalSeen[] | null> {
    const answer = await provider?.disputes(object);
    return answer?.kind === 'done' ? answer.disputes.map((view) => disputeSeen(view, order)) : null;
  }

  async function store(order: Order, object: string, seen: readonly ReversalSeen[]): Promise<void> {
    const ofObject = seen.filter(({ object: of }) => of === object);
    for (const { reversal, kind, state } of await recordReversals(db, order.order, ofObject)) {
      log.error({ order: order.order, reversal, kind, state }, 'money left a payment without us');
    }
  }

  return {
    inspect: async (order, object, refunds) => {
      const disputes = await disputesOf(order, object);
      if (!disputes) return false;
      await store(order, object, [...refunds.map((view) => refundSeen(view, order)), ...disputes]);
      return true;
    },
    inspectDisputes: async (order, object) => {
      const disputes = await disputesOf(order, object);
      if (!disputes) return false;
      await store(
        order,
        object,
        disputes.map((seen) => ({ ...seen, taken: 0 })),
      );
      return true;
    },
    ofOrder: (order) => reversalsOfOrder(db, order),
  };
}

type OrderMoney = Pick<Order, 'order' | 'amount' | 'currency'>;

const refundStates = { pending: 'pending', succeeded: 'done', failed: 'failed' } as const;

/** Maps a refund's state at the provider to the stored one. Also used by the daily listing. */
export const stateOfRefund = ({ status }: RefundView): Reversal['state'] => refundStates[status];

export function refundSeen(view: RefundView, order: OrderMoney): ReversalSeen {
  const state = stateOfRefund(view);
  const sum = amountText(view.amount, view.currency);
  const says = {
    pending: `${sum} of order ${order.order} is being refunded at the provider, not by us (${view.refund})`,
    done: `${sum} of order ${order.order} was refunded at the provider, not by us (${view.refund})`,
    failed: `The refund of ${sum} that was made at the provider for order ${order.order} failed: the money is still with you (${view.refund})`,
  }[state as 'pending' | 'done' | 'failed'];
  return {
    ...{ reversal: view.refund, kind: 'refund', object: view.object, reference: view.reference },
    ...{ amount: view.amount, currency: view.currency, state, createdAt: view.createdAt },
    taken: state === 'failed' ? 0 : inOrder(view, order),
    detail: view.reason === null ? {} : { reason: view.reason },
    finding: 'foreign_refund',
    says,
  };
}

export function disputeSeen(view: DisputeView, order: OrderMoney): ReversalSeen {
  const { dispute, object, amount, currency, status, inquiry, reason, respondBy, fee, createdAt } = view;
  const sum = amountText(amount, currency);
  const until = respondBy === null ? null : new Date(respondBy).toISOString();
  const answer = until === null ? '' : `; answer it at the provider by ${until}`;
  const fees = fee === null ? '' : `; the provider charges ${amountText(fee.amount, fee.currency)} for it`;
  const named = `order ${order.order} (${dispute}, ${reason})`;
  const says = {
    open: inquiry
      ? `The buyer’s bank asks about ${sum} of ${named}; no money was withdrawn${answer}`
      : `The buyer’s bank disputes ${sum} of ${named}, and the provider withdrew the money${answer}${fees}`,
    won: inquiry
      ? `The question about ${sum} of ${named} is closed; no money was withdrawn`
      : `The dispute over ${sum} of ${named} was won: the money is yours again${fees}`,
    lost: `The dispute over ${sum} of ${named} was lost: the buyer has the money back${fees}`,
  }[status];
  return {
    ...{
      reversal: dispute,
      kind: 'dispute',
      object,
      reference: '',
      amount,
      currency,
      state: status,
      createdAt,
    },
    taken: status === 'won' || (inquiry && status === 'open') ? 0 : inOrder(view, order),
    detail: {
      reason,
      ...(inquiry && { inquiry }),
      ...(until !== null && { respondBy: until }),
      ...(fee !== null && { fee }),
    },
    finding: `dispute_${status === 'open' ? 'opened' : status}`,
    says,
  };
}

/** Returns the sum in the order's currency, at most the order's amount. A sum in another currency counts as the whole amount. */
function inOrder(view: { amount: number; currency: string }, { amount, currency }: OrderMoney): number {
  return view.currency === currency ? Math.min(view.amount, amount) : amount;
}
