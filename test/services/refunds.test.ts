import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import type { FaultKind } from '../../payment-simulator/faults.ts';
import { ambiguousOrders, refundsAtBank } from '../../src/orders/money-figures.ts';
import type { PaymentProvider } from '../../src/payments/provider.ts';
import { makeDue } from '../support/acts.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { bought, madeRefund, type RefundDesk, refundDesk, refundOf } from '../support/refund-desk.ts';
import { startTestSimulator, type TestSimulator } from '../support/simulator.ts';
import { auditEvent, reconcile, stageEvent } from '../support/stage.ts';

let database: TestDatabase;
let simulator: TestSimulator;
let desk: RefundDesk;
before(async () => {
  database = await testDatabase();
  simulator = await startTestSimulator();
  desk = refundDesk(database.url, simulator.provider);
});
after(async () => {
  await desk?.close();
  await simulator?.stop();
});

/** The refunds of an order in the provider's ledger: sums of refunds that did not fail. */
async function givenBack(order: string): Promise<number[]> {
  const { intents, refunds } = await simulator.ledger();
  const intent = intents.find(({ reference }) => reference === order);
  return refunds
    .filter((one) => one.intent === intent?.id && one.status !== 'failed')
    .map(({ amount }) => amount)
    .sort((a, b) => a - b);
}

/** Reconciler passes until the refund stands so. */
async function untilState(refund: string, state: string): Promise<void> {
  for (let pass = 0; pass < 12; pass += 1) {
    if ((await desk.refundRecord.find(refund))?.state === state) return;
    await makeDue(database);
    await desk.reconciler.runOnce();
  }
  assert.equal((await desk.refundRecord.find(refund))?.state, state);
}

test('P8: some tickets, a goodwill, then the rest: the ledger says to the minor unit what is due', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [0, 1, 2]);
  const [first, second] = await desk.refundRecord.paidTickets(stage.event, order.order);
  const one = await madeRefund(desk, order, { tickets: [first!.ticket] });
  assert.deepEqual([one.state, one.amount], ['done', 5250]);
  await auditEvent(database, simulator, stage.event);
  await madeRefund(desk, order, { tickets: [second!.ticket], fees: 'kept' });
  await madeRefund(desk, order, { tickets: [], goodwill: 700 });
  await auditEvent(database, simulator, stage.event);
  const wish = { tickets: 'all', fees: 'returned', goodwill: 1 } as const;
  assert.equal((await desk.refunds.preview(order.order, wish)).kind, 'too_much');
  const last = await madeRefund(desk, order, { fees: 'kept' });
  assert.deepEqual(await givenBack(order.order), [700, 4900, 5000, 5250]);
  assert.equal(last.state, 'done');
  assert.equal((await auditEvent(database, simulator, stage.event)).paid, 0);
  // The seats are on sale again, and are bought a second time.
  await bought(desk, stage, [0, 1, 2]);
  await auditEvent(database, simulator, stage.event);
});

test('P4 P5 P8: whatever happens to the request or its answer, the money goes back once', async (t) => {
  const stage = await stageEvent(database, { seats: 40 });
  const faults: FaultKind[] = [
    'drop_before',
    'drop_after',
    'cut_after',
    'error_500_before',
    'error_500_after',
    'error_500_stored',
    'unavailable',
    'rate_limit',
    'lock_timeout',
    'key_in_use',
  ];
  for (const [seat, fault] of faults.entries()) {
    await t.test(fault, async () => {
      const order = await bought(desk, stage, [seat]);
      // The SDK repeats the request once after a reset.
      const times = fault.startsWith('drop') || fault === 'cut_after' ? 2 : 1;
      await simulator.fault(fault, { match: { route: 'refunds.create', reference: order.order }, times });
      const refund = await madeRefund(desk, order);
      if (refund.state !== 'done') {
        assert.equal(refund.state, 'unknown', refund.detail ?? '');
        const figures = await ambiguousOrders(desk.db, stage.event);
        assert.ok(figures.some(({ kind, state }) => kind === 'refund' && state === 'unknown'));
      }
      await untilState(refund.refund, 'done');
      assert.deepEqual(await givenBack(order.order), [5350]);
      await simulator.clearFaults();
    });
  }
  await auditEvent(database, simulator, stage.event);
});

test('a refund that waits at the bank says why, and is done when the bank is', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [0], 'pm_card_pendingRefund');
  const refund = await madeRefund(desk, order);
  assert.deepEqual([refund.state, refund.detail], ['pending', 'processing']);
  // Long after the order's deadline it does not count as a payment with an unknown end; only a refund without a response does.
  await database.query(`UPDATE orders SET payment_deadline = now() - interval '1 hour' WHERE event_no = $1`, [
    stage.event,
  ]);
  assert.deepEqual(await ambiguousOrders(desk.db, stage.event), []);
  const { refunds, oldestMs } = await refundsAtBank(desk.db);
  assert.ok(refunds === 1 && oldestMs > 0, JSON.stringify([refunds, oldestMs]));
  const poor = await bought(desk, stage, [1]);
  await simulator.fault('refund_waits_for_balance', { match: { reference: poor.order }, delayMs: 0 });
  const waiting = await madeRefund(desk, poor);
  assert.deepEqual([waiting.state, waiting.detail], ['pending', 'insufficient_funds']);
  await reconcile(database, desk, 1);
  assert.equal((await desk.refundRecord.find(refund.refund))?.state, 'pending');
  await simulator.clearFaults();
  await simulator.settleRefunds();
  await untilState(refund.refund, 'done');
  await untilState(waiting.refund, 'done');
  await auditEvent(database, simulator, stage.event);
});

test('P8: a refund that lacks balance is owed until a further attempt goes through, each with a key of its own', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [0]);
  await simulator.fault('refund_insufficient_balance', { match: { reference: order.order }, times: 2 });
  const refund = await madeRefund(desk, order);
  assert.equal(refund.state, 'failed');
  assert.match(refund.detail ?? '', /balance_insufficient/);
  // The ticket is not valid whatever becomes of the money.
  assert.equal((await desk.record.findOrder(order.order))?.state, 'cancelled');
  await auditEvent(database, simulator, stage.event);
  const again = await desk.refunds.retry(refund.refund, 'organiser');
  assert.ok(again.kind === 'retried' && again.refund.state === 'failed');
  const third = await desk.refunds.retry(refund.refund, 'organiser');
  assert.ok(third.kind === 'retried');
  assert.deepEqual([third.refund.state, third.refund.attempts], ['done', 3]);
  const keys = (await desk.record.operationsOf(order.order)).filter(({ kind }) => kind === 'refund');
  assert.equal(new Set(keys.map(({ key }) => key)).size, 3);
  assert.deepEqual(await givenBack(order.order), [5350]);
  await auditEvent(database, simulator, stage.event);
});

test('P6: a refund that succeeded and comes back days later is failed again, told by the provider’s event', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [0], 'pm_card_refundFail');
  const refund = await madeRefund(desk, order);
  assert.equal(refund.state, 'done');
  await simulator.settleRefunds();
  await desk.checkout.providerEvent({
    id: `evt-${order.order}`,
    type: 'refund.failed',
    object: order.providerObject,
  });
  await reconcile(database, desk, 1);
  const failed = await desk.refundRecord.find(refund.refund);
  assert.deepEqual([failed?.state, failed?.detail], ['failed', 'expired_or_canceled_card']);
  await auditEvent(database, simulator, stage.event);
  const settled = await desk.refunds.elsewhere(refund.refund, 'organiser', 'bank transfer');
  assert.equal(settled.kind, 'elsewhere');
  await auditEvent(database, simulator, stage.event);
});

test('D4 P5: a process that dies before or after the call leaves a refund that is made once', async () => {
  const stage = await stageEvent(database);
  const orders = [await bought(desk, stage, [0]), await bought(desk, stage, [1])];
  for (const [n, order] of orders.entries()) {
    const dying: PaymentProvider = {
      ...simulator.provider,
      refund: async (command) => {
        if (n === 1) await simulator.provider.refund(command);
        throw new Error('killed here');
      },
    };
    const dead = refundDesk(database.url, dying, { owner: `dead-${n}` });
    const refund = await madeRefund(dead, order);
    assert.equal(refund.state, 'open');
    await dead.close();
    await untilState(refund.refund, 'done');
    assert.deepEqual(await givenBack(order.order), [5350]);
  }
  await auditEvent(database, simulator, stage.event);
});

test('P5: an attempt that seemed refused and had gone through is found before another is sent', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [0]);
  const lying: PaymentProvider = {
    ...simulator.provider,
    refund: async (command) => {
      await simulator.provider.refund(command);
      return { kind: 'refused', detail: 'so it seems' };
    },
  };
  const wrong = refundDesk(database.url, lying, { owner: 'wrong' });
  const refund = await madeRefund(wrong, order);
  await wrong.close();
  assert.equal(refund.state, 'failed');
  const again = await desk.refunds.retry(refund.refund, 'organiser');
  // The look before the retry found it: nothing is sent.
  assert.ok(again.kind === 'decided' && again.refund.state === 'done', JSON.stringify(again));
  assert.deepEqual(await givenBack(order.order), [5350]);
  await auditEvent(database, simulator, stage.event);
});

test('P5: a double click is one refund, also while the first is on its way', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [0, 1]);
  await simulator.fault('delay', {
    match: { route: 'refunds.create', reference: order.order },
    delayMs: 300,
  });
  const wish = refundOf(order, { tickets: [], goodwill: 1_000, requestKey: 'one click' });
  const outcomes = await Promise.all([
    desk.refunds.make(wish),
    desk.refunds.make(wish),
    desk.refunds.make(wish),
  ]);
  assert.deepEqual(outcomes.map(({ kind }) => kind).sort(), ['made', 'repeated', 'repeated']);
  await simulator.clearFaults();
  await reconcile(database, desk, 2);
  assert.deepEqual(await givenBack(order.order), [1_000]);
  await auditEvent(database, simulator, stage.event);
});
