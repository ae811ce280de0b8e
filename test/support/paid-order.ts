import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { Order, OrderLine, SalesRecord } from '../../src/orders/record.ts';
import type { PaymentView } from '../../src/payments/provider.ts';
import { holdOf, orderIdOf } from './stage.ts';

const claim = { owner: 'a till', leaseMs: 30_000 };

export interface OrderToPay {
  seats?: number[];
  lines?: OrderLine[];
  orderFee?: number;
  currency?: string;
  visitor?: string;
  /** A card's fingerprint. */
  card?: string;
}

/** An order that is paid by the record's own steps, without a provider. */
export async function paidOrder(
  record: SalesRecord,
  stage: { event: number; epoch: number },
  wish: OrderToPay,
): Promise<Order> {
  const lines =
    wish.lines ??
    (wish.seats ?? []).map((seat) => ({ seat, category: 'A', kind: 'full', price: 5000, fee: 250 }));
  const visitor = wish.visitor ?? `visitor-${randomUUID().slice(0, 8)}`;
  const hold = holdOf(
    stage,
    visitor,
    lines.map(({ seat }) => seat),
  );
  const order = orderIdOf(hold.hold);
  const reserved = await record.reserve({
    order,
    hold: hold.hold,
    event: stage.event,
    partition: 0,
    epoch: stage.epoch,
    deadline: hold.deadline,
    visitor,
    holder: visitor,
    account: `${visitor}@example.org`,
    buyer: { name: visitor, email: `${visitor}@example.org` },
    lines,
    orderFee: wish.orderFee ?? 100,
    currency: wish.currency ?? 'EUR',
  });
  assert.equal(reserved.kind, 'reserved');
  const begin = async (kind: 'open' | 'authorise') => {
    const operation = randomUUID();
    const request = { operation, order, kind, key: operation, clientKey: null, request: null };
    const begun = await record.begin(
      { ...request, instrument: kind === 'open' ? null : { paymentMethod: 'pm', returnUrl: 'https://x' } },
      claim,
    );
    assert.ok(begun.kind === 'begun', begun.kind);
    return begun;
  };
  const opening = await begin('open');
  const object = `pi_${order}`;
  await record.opened(opening.operation.operation, object, {});
  const authorising = await begin('authorise');
  const view: PaymentView = {
    object,
    status: 'authorised',
    amount: authorising.order.amount,
    currency: authorising.order.currency,
    madeBy: 'us',
    reference: order,
    captured: 0,
    refunded: 0,
    action: null,
    captureBefore: null,
    instrument: { fingerprint: wish.card ?? `card of ${visitor}`, brand: 'visa', last4: '4242' },
    decline: null,
  };
  await record.authorised(authorising.operation.operation, view, randomUUID(), claim);
  const ids = { capture: randomUUID(), captureKey: randomUUID(), endKey: randomUUID() };
  const confirmed = await record.confirm(order, ids, claim);
  assert.equal(confirmed.kind, 'confirmed');
  const captured = { ...view, status: 'captured' as const, captured: view.amount };
  const paid = await record.captured(ids.capture, captured);
  assert.equal(paid.order.state, 'paid');
  return paid.order;
}
