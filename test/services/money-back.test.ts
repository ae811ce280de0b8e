import assert from 'node:assert/strict';
import test, { after } from 'node:test';
import type { Order } from '../../src/orders/record.ts';
import type { Refund } from '../../src/orders/refunds.ts';
import { until } from '../support/app.ts';
import { auditOf, violationsOf } from '../support/at-rest.ts';
import { bought, madeRefund, refundOf } from '../support/refund-desk.ts';
import { startReversalDesk } from '../support/reversal-desk.ts';
import { openPayment } from '../support/simulator.ts';
import { auditEvent, reconcile, reserved, stageEvent } from '../support/stage.ts';
import { rawCall } from '../support/stripe-calls.ts';

const {
  database,
  simulator,
  provider,
  desk,
  operator,
  listed,
  kindsOf,
  validTickets,
  left,
  act,
  told,
  stop,
} = await startReversalDesk();
after(stop);

/** A refund of one ticket that the provider refuses for want of money. */
async function failedRefund(order: Order, ticket: string): Promise<Refund> {
  const fault = await simulator.fault('refund_insufficient_balance', {
    times: 1,
    match: { reference: order.order },
  });
  const refund = await madeRefund(desk, order, { tickets: [ticket] });
  await until(async () => {
    await reconcile(database, desk, 1);
    return (await desk.refundRecord.find(refund.refund))?.state === 'failed';
  }, 'the refund to fail');
  await simulator.endFault(fault);
  return refund;
}

const refundedOf = async (object: string) => (await simulator.ledgerOf(object)).charges[0]!.refunded;

test('P8: one refund is paid by bank transfer, the other by hand at the provider: neither is paid again', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [11, 12]);
  const object = order.providerObject!;
  const [one, other] = await desk.refundRecord.paidTickets(order.eventNo, order.order);
  const first = await failedRefund(order, one!.ticket);
  const second = await failedRefund(order, other!.ticket);
  await desk.refunds.elsewhere(first.refund, 'organiser', 'by bank transfer');
  await simulator.refundByHand(object, second.amount);
  await told(order, 'done');
  assert.equal((await desk.refunds.retry(second.refund, 'organiser')).kind, 'gone_back');
  assert.equal(await refundedOf(object), second.amount, 'nothing is paid twice');
  assert.equal(await left(order), 'nothing');
  const more = await desk.refunds.make(refundOf(order, { tickets: [], goodwill: 100 }));
  assert.ok(more.kind === 'too_much' && more.most === 0, more.kind);
  await desk.refunds.elsewhere(second.refund, 'organiser', 'refunded at the provider');
  assert.equal(await left(order), 'nothing');
  await auditEvent(database, simulator, stage.event);
});

test('P8: a refund that was paid by bank transfer and then by hand at the provider is a contradiction until an operator has seen it', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [17]);
  const [ticket] = await desk.refundRecord.paidTickets(order.eventNo, order.order);
  const refund = await failedRefund(order, ticket!.ticket);
  await desk.refunds.elsewhere(refund.refund, 'organiser', 'by bank transfer');
  await simulator.refundByHand(order.providerObject!, refund.amount);
  await told(order, 'done');
  const report = await auditOf({ database, simulator, eventNo: stage.event });
  assert.match(violationsOf(report).join(), /P8 .* were given back or are on their way/);
  assert.equal((await act(order, 'dismiss', 'foreign_refund')).kind, 'done');
  const [row] = violationsOf(await auditOf({ database, simulator, eventNo: stage.event }));
  assert.doesNotMatch(row ?? '', /given back or are on their way/);
});

test('P8: a refund by hand that became known after a refund was decided is taken off what the next attempt pays', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [13, 14]);
  const object = order.providerObject!;
  const [one] = await desk.refundRecord.paidTickets(order.eventNo, order.order);
  const refund = await failedRefund(order, one!.ticket);
  await simulator.refundByHand(object, 1_000);
  const again = await desk.refunds.retry(refund.refund, 'organiser');
  assert.equal(again.kind, 'retried');
  await until(async () => {
    await reconcile(database, desk, 1);
    return (await desk.refundRecord.find(refund.refund))?.state === 'done';
  }, 'the rest to be paid');
  assert.equal(await refundedOf(object), refund.amount);
  await auditEvent(database, simulator, stage.event);
});

test('P8: a refund by hand that was known before does not keep a later refund from being tried again', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [15, 16]);
  const object = order.providerObject!;
  await simulator.refundByHand(object, 1_000);
  await told(order, 'done');
  const [one] = await desk.refundRecord.paidTickets(order.eventNo, order.order);
  const refund = await failedRefund(order, one!.ticket);
  assert.equal((await desk.refunds.retry(refund.refund, 'organiser')).kind, 'retried');
  await until(async () => {
    await reconcile(database, desk, 1);
    return (await desk.refundRecord.find(refund.refund))?.state === 'done';
  }, 'the refund to be paid');
  assert.equal(await refundedOf(object), 1_000 + refund.amount);
  await auditEvent(database, simulator, stage.event);
});

for (const [story, byHand] of [
  ['a part', 2_500],
  ['all', null],
] as const) {
  test(`P8: ${story} was refunded by hand, no event reported it, and the event is cancelled: the run pays what is left and ends`, async () => {
    const stage = await stageEvent(database);
    const order = await bought(desk, stage, [1, 2]);
    const object = order.providerObject!;
    await simulator.fault('webhook_never', { match: { intent: object } });
    await simulator.refundByHand(object, byHand ?? order.amount);
    const wish = { reason: 'storm', fees: 'returned', seats: 'release', perSecond: 100 } as const;
    const { code } = await desk.cancelEvent.ask(stage.event, wish, 'organiser');
    assert.equal((await desk.cancelEvent.confirm(stage.event, wish, 'organiser', code)).kind, 'started');
    await until(async () => {
      await desk.cancelEvent.runOnce();
      await reconcile(database, desk, 1);
      return (await desk.cancellations.find(stage.event))?.state === 'done';
    }, 'the run to end');
    assert.equal(await refundedOf(object), order.amount, 'all is back, nothing twice');
    const [refund] = await desk.refundRecord.ofOrder(order.order);
    assert.deepEqual(
      [refund!.state, refund!.amount],
      byHand === null ? ['failed', order.amount] : ['done', order.amount - byHand],
    );
    assert.deepEqual(
      (await kindsOf(order)).sort(),
      byHand === null ? ['foreign_refund', 'refund_gone_back'] : ['foreign_refund'],
    );
    await auditEvent(database, simulator, stage.event);
    await simulator.clearFaults();
  });
}

/** A second payment with the order's reference, made and captured by another program. Returns its object. */
async function secondPayment(order: Order, card: string): Promise<string> {
  const { object } = await openPayment(provider, {
    ...{ reference: order.order, amount: order.amount, eventId: order.event },
  });
  for (const [route, given] of [
    ['payment_intents.confirm', { payment_method: card, return_url: 'https://example.org' }],
    ['payment_intents.capture', {}],
  ] as const) {
    assert.equal((await rawCall(simulator, route, { id: object, ...given })).status, 200);
  }
  return object;
}
const untilRefunded = (object: string, count: number) =>
  until(async () => {
    await desk.inbox.runOnce();
    await reconcile(database, desk, 1);
    const refunds = (await simulator.ledger()).refunds.filter(({ intent }) => intent === object);
    return refunds.length === count && refunds.at(-1)!.status === 'succeeded';
  }, `refund ${count} of ${object}`);

test('P8: a second payment of a paid order was given back, and the bank sent the money back: it is given back again', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [3]);
  const object = await secondPayment(order, 'pm_card_refundFail');
  await untilRefunded(object, 1);
  await simulator.settleRefunds();
  await untilRefunded(object, 2);
  assert.equal(await refundedOf(object), order.amount);
  assert.equal(await left(order), order.amount, 'the sale is not concerned');
  assert.equal(await validTickets(order), 1);
  await auditEvent(database, simulator, stage.event);
});

test('P8: a dispute over a second payment of a paid order is listed, and takes nothing from what the sale can give back', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [4]);
  const empty = await simulator.fault('refund_insufficient_balance', { match: { reference: order.order } });
  const object = await secondPayment(order, 'pm_card_visa');
  await until(async () => {
    await desk.inbox.runOnce();
    await reconcile(database, desk, 1);
    return (await kindsOf(order)).includes('refund_refused');
  }, 'the refund to be refused');
  await simulator.dispute(object);
  await told(order, 'open');
  assert.deepEqual((await kindsOf(order)).sort(), ['dispute_opened', 'refund_refused']);
  assert.equal(await left(order), order.amount);
  await simulator.endFault(empty);
});

test('P8: a dispute over the payment of an order that ended without a sale is listed, with the time to answer by', async () => {
  const stage = await stageEvent(database);
  const { order: id } = await reserved(desk, stage, 'buyer', [5]);
  const order = (await desk.checkout.find(id))!;
  assert.equal((await desk.checkout.close(id)).kind, 'closed');
  const empty = await simulator.fault('refund_insufficient_balance', { match: { reference: id } });
  const object = await secondPayment(order, 'pm_card_visa');
  const isListed = async () => {
    await desk.inbox.runOnce();
    await reconcile(database, desk, 1);
    return (await kindsOf(order)).includes('refund_refused');
  };
  await until(isListed, 'the refund to be refused');
  const dispute = await simulator.dispute(object);
  await told(order, 'open');
  const entry = (await listed(order)).find(({ kind }) => kind === 'dispute_opened');
  assert.match(entry?.says ?? '', /answer it at the provider by \d{4}-/);
  assert.deepEqual(
    entry!.actions.map(({ action }) => action),
    ['look', 'dismiss'],
  );
  await simulator.decideDispute(dispute, 'lost');
  await told(order, 'lost');
  assert.ok((await kindsOf(order)).includes('dispute_lost'));
  await simulator.endFault(empty);
});

test('P1 P8: a second payment whose refund was refused and that an operator settled is no contradiction', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [6]);
  const empty = await simulator.fault('refund_insufficient_balance', { match: { reference: order.order } });
  await secondPayment(order, 'pm_card_visa');
  await until(async () => {
    await desk.inbox.runOnce();
    await reconcile(database, desk, 1);
    return (await kindsOf(order)).includes('refund_refused');
  }, 'the refund to be refused');
  const [entry] = await listed(order);
  const settled = {
    entry: entry!.entry,
    action: 'settle',
    actor: 'organiser',
    note: 'paid in cash',
  } as const;
  assert.equal((await operator.act(settled)).kind, 'done');
  await simulator.endFault(empty);
  await auditEvent(database, simulator, stage.event);
});
