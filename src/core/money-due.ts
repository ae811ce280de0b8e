/**
 * How much of a paid order's money is kept, and how much a refund gives back: the one rule behind P8. All sums are minor units
 * of the order's currency. `refund_make` (functions/refunds.sql) uses the same rule; a contract test compares them.
 */
import { assert } from './outcome.ts';

/** A ticket as it was paid for. */
export interface PaidTicket {
  ticket: string;
  price: number;
  fee: number;
  /** False once it was refunded. */
  valid: boolean;
}

/** The amounts of one refund. */
export interface GivenBack {
  /** Fees of its tickets that are not given back. */
  feesKept: number;
  /** The part of the order's fee that is given back. */
  orderFee: number;
  /** On top of what its tickets came to; negative: what was given before is counted towards it. */
  goodwill: number;
  /** All of it: what leaves the account. */
  amount: number;
  /** `failed`: it did not leave the account. `elsewhere`: it was paid by other means. */
  state?: string;
}

/** An order that was captured, with everything that was decided about it since. */
export interface PaidOrder {
  tickets: readonly PaidTicket[];
  orderFee: number;
  refunds: readonly GivenBack[];
  /** The captured amount: the price of the order, unless an operator accepted less. */
  taken?: number;
  /** Refunded at the provider, not by us. */
  refundedThere?: number;
  /** The part of it that refunds stand for which an operator settled (`order_settled_there`). */
  settledThere?: number;
  /** Withdrawn by disputes of the buyer's bank. */
  disputed?: number;
}

export interface RefundWish {
  /** `all` means all valid tickets. An empty list means a sum of goodwill alone. */
  tickets: readonly string[] | 'all';
  /** `returned`: the tickets' fees too, and the order's fee when no ticket stays valid. */
  fees: 'returned' | 'kept';
  goodwill: number;
  /** False: the tickets are cancelled and no money leaves, because it is back with the buyer already. */
  pays?: boolean;
}

export type RefundDecision =
  | ({ kind: 'refund'; tickets: string[]; last: boolean } & GivenBack)
  /** Not valid, or none of this order's. */
  | { kind: 'not_valid'; tickets: string[] }
  /** More than what is left of the order's money. */
  | { kind: 'too_much'; amount: number; most: number }
  /** Neither a ticket nor a sum. */
  | { kind: 'nothing' };

const sum = (amounts: readonly number[]): number => amounts.reduce((total, amount) => total + amount, 0);

/** Returns the price of the order, which was captured. */
export function capturedOf({ tickets, orderFee }: PaidOrder): number {
  return sum(tickets.map(({ price, fee }) => price + fee)) + orderFee;
}

/**
 * P8: what captured − refunded has to be once every refund has gone through: valid tickets with their fees, the fees that
 * were kept, less goodwill and what was refunded without us. A dispute is no refund: the provider counts it apart.
 */
export function dueOf(order: PaidOrder): number {
  const valid = order.tickets.filter((ticket) => ticket.valid).map(({ price, fee }) => price + fee);
  return dueSum({
    valid: sum(valid),
    orderFee: order.orderFee - sum(order.refunds.map((refund) => refund.orderFee)),
    feesKept: sum(order.refunds.map(({ feesKept }) => feesKept)),
    goodwill: sum(order.refunds.map(({ goodwill }) => goodwill)),
    refundedThere: order.refundedThere ?? 0,
  });
}

/** The same, where sums are what is known. `valid`: prices and fees of valid tickets; `orderFee`: what of it was kept. */
export function dueSum(sums: {
  valid: number;
  orderFee: number;
  feesKept: number;
  goodwill: number;
  refundedThere: number;
}): number {
  return sums.valid + sums.orderFee + sums.feesKept - sums.goodwill - sums.refundedThere;
}

/**
 * Returns what can still be given back, so that nothing is given back twice and never more than was taken and is still there. A
 * refund that failed and a refund made at the provider may be the same money: the larger sum counts. A refund that was paid by
 * other means counts on its own, unless it stands for money that went back at the provider. As in `order_left`.
 */
export function leftOf(order: PaidOrder): number {
  const { refundedThere = 0, settledThere = 0, disputed = 0 } = order;
  const amountOf = (refunds: readonly GivenBack[]): number => sum(refunds.map(({ amount }) => amount));
  const decided = amountOf(order.refunds.filter(({ state }) => state !== 'failed'));
  const failed = amountOf(order.refunds.filter(({ state }) => state === 'failed'));
  const back = decided + Math.max(failed, refundedThere - settledThere) + disputed;
  return Math.max(0, (order.taken ?? capturedOf(order)) - back);
}

/**
 * Returns what a refund would do. `step`: amounts leave only in multiples of it (`stepOf`). This is the one place that rounds;
 * it rounds up, in the buyer's favour, and counts the difference as goodwill. Tickets alone never come to more than what is
 * left after earlier goodwill, foreign refunds and disputes, so an order can always be refunded completely.
 */
export function decideRefund(order: PaidOrder, wish: RefundWish, step: number): RefundDecision {
  const { goodwill } = wish;
  assert(Number.isSafeInteger(goodwill) && goodwill >= 0, `goodwill ${goodwill}`);
  const valid = order.tickets.filter((ticket) => ticket.valid);
  const asked = wish.tickets === 'all' ? valid.map(({ ticket }) => ticket) : [...new Set(wish.tickets)];
  const wanted = valid.filter(({ ticket }) => asked.includes(ticket));
  const unknown = asked.filter((ticket) => !wanted.some((one) => one.ticket === ticket));
  if (unknown.length > 0) return { kind: 'not_valid', tickets: unknown };
  const last = wanted.length > 0 && wanted.length === valid.length;
  const fees = sum(wanted.map(({ fee }) => fee));
  const feesKept = wish.fees === 'kept' ? fees : 0;
  const given = sum(order.refunds.map((refund) => refund.orderFee));
  const orderFee = wish.fees === 'returned' && last ? order.orderFee - given : 0;
  const ofTickets = sum(wanted.map(({ price }) => price)) + fees - feesKept + orderFee;
  const exact = ofTickets + goodwill;
  const rounded = exact + ((step - (exact % step)) % step);
  const most = leftOf(order);
  const paid = goodwill === 0 ? Math.min(rounded, most) : rounded;
  const amount = wish.pays === false ? 0 : paid;
  if (amount > most) return { kind: 'too_much', amount, most };
  if (amount === 0 && wanted.length === 0) return { kind: 'nothing' };
  const tickets = wanted.map(({ ticket }) => ticket);
  return { kind: 'refund', tickets, last, feesKept, orderFee, goodwill: amount - ofTickets, amount };
}
