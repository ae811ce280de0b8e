import { linesOf, seatInfos } from '../booking/seat-lines.ts';
import type { Venue } from '../catalogue/events.ts';
import type { Hold } from '../core/hold.ts';
import { orderAmount } from '../core/money.ts';
import { operationsUnderWay } from '../core/order.ts';
import type { EventRecord, MoneyOperation, Order } from '../orders/record.ts';
import type { HoldAnswer, OrderAnswer } from './api-types.ts';

/** How holds and orders look to their buyer. */

export interface HoldAnswerParts {
  hold: Hold;
  event: EventRecord;
  venue: Venue;
  receipt: string;
  serverTime: number;
  /** The ticket types of the selection that led to the hold. The hold itself does not store them. */
  kinds?: readonly string[];
  best?: { asAsked: boolean; note?: string };
}

export function holdAnswer(parts: HoldAnswerParts): HoldAnswer {
  const { hold, event, venue, receipt, serverTime, kinds, best } = parts;
  const lines = linesOf(event, venue, hold.seats, kinds);
  return {
    hold: hold.hold,
    event: event.event,
    seats: seatInfos(venue, lines),
    total: orderAmount(lines, event.settings.orderFee),
    orderFee: event.settings.orderFee,
    currency: event.currency,
    expiresAt: iso(hold.deadline),
    serverTime: iso(serverTime),
    receipt,
    ...best,
    order: hold.order,
  };
}

/** The payment as the page shows it, from the order's state and the provider's latest response. */
export interface PaymentNow {
  waiting?: { url: string } | null;
  underWay?: boolean;
  decline?: string | null;
}

export function orderAnswer(
  order: Order,
  event: EventRecord,
  venue: Venue,
  now: { serverTime: number; timeZone: string },
  payment: PaymentNow = {},
): OrderAnswer {
  return {
    order: order.order,
    event: order.event,
    eventName: event.name,
    performanceAt: event.performanceAt === null ? null : iso(event.performanceAt),
    timeZone: now.timeZone,
    venue: venue.layout.name,
    state: order.state,
    reason: order.reason,
    ...(event.phase === 'cancelled' ? { eventCancelled: true } : {}),
    seats: seatInfos(venue, order.lines),
    amount: order.amount,
    orderFee: order.orderFee,
    currency: order.currency,
    buyer: order.buyer,
    paymentDeadline: iso(order.paymentDeadline),
    serverTime: iso(now.serverTime),
    payment: {
      state: paymentState(order, payment),
      decline: payment.decline ?? null,
      action: payment.waiting ?? null,
      instrument: order.instrument && { brand: order.instrument.brand, last4: order.instrument.last4 },
    },
  };
}

/** The last try, as the page needs it after a reload: go on to the bank, wait, or try another card. */
export function paymentNow(operations: readonly MoneyOperation[]): PaymentNow {
  const last = operations.filter(({ kind }) => kind === 'authorise').at(-1);
  // An opening that waits for its provider is no payment: no card was tried, and the buyer may try or cancel.
  if (!last) return { underWay: operations.some(({ state }) => state === 'open' || state === 'ending') };
  if (last.state === 'waiting') return { waiting: last.answer?.view?.action ?? null, underWay: true };
  if (operationsUnderWay.includes(last.state)) return { underWay: true };
  return last.state === 'refused' ? { decline: last.answer?.decline ?? 'declined' } : {};
}

function paymentState(order: Order, now: PaymentNow): OrderAnswer['payment']['state'] {
  switch (order.state) {
    case 'authorised':
    case 'confirmed':
      return 'authorised';
    case 'paid':
      return 'captured';
    case 'voiding':
    case 'closed':
    case 'cancelled':
      return order.instrument ? 'voided' : 'none';
    case 'reserved':
      if (now.waiting) return 'waiting';
      if (now.underWay) return 'under_way';
      return now.decline ? 'declined' : 'none';
  }
}

export function iso(at: number): string {
  return new Date(at).toISOString();
}
