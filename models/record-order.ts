import { type EventId, holdLimits } from '../src/core/hold.ts';
import { orderAmount } from '../src/core/money.ts';
import type { EventSettings, Order, ReserveCommand, ReserveOutcome } from '../src/orders/record.ts';

/** An order of the model in memory, as reserve makes it. */
export function newOrder(
  command: Omit<ReserveCommand, 'epoch' | 'deadline'>,
  event: EventId,
  now: number,
): Order {
  return {
    order: command.order,
    eventNo: command.event,
    event,
    partition: command.partition,
    hold: command.hold,
    visitor: command.visitor,
    holder: command.holder,
    account: command.account,
    buyer: command.buyer,
    lines: command.lines,
    orderFee: command.orderFee,
    amount: orderAmount(command.lines, command.orderFee),
    currency: command.currency,
    state: 'reserved',
    reason: null,
    paymentDeadline: now + holdLimits.paymentMs,
    captureBefore: null,
    providerObject: null,
    instrument: null,
    createdAt: now,
  };
}

/** The limits of one browser's purchases, and of the unpaid orders of an account with several browsers, in all partitions. */
export function boundReached(
  orders: Order[],
  { event, visitor, holder }: ReserveCommand,
  { visitorSeatsMax = null, holdSeatsMax = 6 }: Partial<EventSettings>,
  wanted: number,
): ReserveOutcome | null {
  const seatsOf = (counts: (order: Order) => boolean) =>
    orders
      .filter((order) => order.eventNo === event && counts(order))
      .reduce((sum, order) => sum + order.lines.length, 0);
  const bought = seatsOf(
    (order) => order.visitor === visitor && (order.state === 'confirmed' || order.state === 'paid'),
  );
  if (visitorSeatsMax !== null && bought + wanted > visitorSeatsMax) {
    return { kind: 'limit', limit: 'visitor', max: visitorSeatsMax, used: bought };
  }
  const unpaid =
    holder === visitor
      ? 0
      : seatsOf(
          (order) => order.account === holder && (order.state === 'reserved' || order.state === 'authorised'),
        );
  return unpaid + wanted > holdSeatsMax && holder !== visitor
    ? { kind: 'limit', limit: 'holder', max: holdSeatsMax, used: unpaid }
    : null;
}
