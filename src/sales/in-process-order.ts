import { type EventId, holdLimits } from '../core/hold.ts';
import { orderAmount } from '../core/money.ts';
import type { Order, ReserveCommand } from './record.ts';

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
