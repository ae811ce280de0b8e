import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { type CancelEvent, createCancelEvent } from '../../src/checkout/cancel-event.ts';
import { createRefunds, type RefundCommand, type Refunds } from '../../src/checkout/refunds.ts';
import { createReversals } from '../../src/checkout/reversals.ts';
import { type CancellationRecord, createCancellationRecord } from '../../src/orders/cancellations.ts';
import { createSalesRecord } from '../../src/orders/orders-record.ts';
import type { Order } from '../../src/orders/record.ts';
import { createRefundRecord, type Refund, type RefundRecord } from '../../src/orders/refunds.ts';
import type { PaymentProvider } from '../../src/payments/provider.ts';
import { createDb, type Db } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { lyingArbiter, payCommand, reserved, type Till, till } from './stage.ts';

/** A till that refunds and cancels too. */
export interface RefundDesk extends Till {
  refunds: Refunds;
  refundRecord: RefundRecord;
  cancelEvent: CancelEvent;
  cancellations: CancellationRecord;
}

export function refundDesk(
  url: string,
  provider: PaymentProvider,
  options: { owner?: string; poolSize?: number } = {},
): RefundDesk {
  const { owner = 'desk' } = options;
  const runtime = { clock: systemClock, random: systemRandom, log: silentLogger, owner };
  const db: Db = createDb({ url, poolSize: options.poolSize ?? 10, clock: systemClock, log: silentLogger });
  const refundRecord = createRefundRecord({ db });
  const cancellations = createCancellationRecord({ db });
  const arbiter = lyingArbiter;
  const orders = createSalesRecord({ db });
  const reversals = createReversals({ ...runtime, db, provider });
  const refunds = createRefunds({ ...runtime, record: refundRecord, orders, reversals, provider, arbiter });
  const cancelEvent = createCancelEvent({
    ...runtime,
    record: cancellations,
    refunds,
    arbiter,
    redisHolds: null,
    modes: async () => [],
  });
  const desk = till(url, provider, { refunds, owner, poolSize: options.poolSize });
  const close = async (): Promise<void> => {
    await Promise.all([desk.close(), db.close()]);
  };
  return { ...desk, refunds, refundRecord, cancelEvent, cancellations, close };
}

/** An order of these seats, bought with that card. */
export async function bought(
  desk: Till,
  stage: { event: number; epoch: number },
  seats: number[],
  card = 'pm_card_visa',
  visitor = `buyer-${randomUUID().slice(0, 8)}`,
): Promise<Order> {
  const { order } = await reserved(desk, stage, visitor, seats);
  const paid = await desk.checkout.pay(payCommand(order, card));
  assert.ok(paid.kind === 'bought', paid.kind);
  return paid.order;
}

export function refundOf(order: Pick<Order, 'order'>, wish: Partial<RefundCommand> = {}): RefundCommand {
  return {
    order: order.order,
    tickets: 'all',
    fees: 'returned',
    goodwill: 0,
    seats: 'release',
    requestKey: randomUUID(),
    actor: 'organiser',
    reason: 'asked for it',
    ...wish,
  };
}

export async function madeRefund(
  desk: Pick<RefundDesk, 'refunds'>,
  order: Pick<Order, 'order'>,
  wish: Partial<RefundCommand> = {},
): Promise<Refund> {
  const outcome = await desk.refunds.make(refundOf(order, wish));
  assert.ok(outcome.kind === 'made', JSON.stringify(outcome));
  return outcome.refund;
}
