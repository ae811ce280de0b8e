import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import test, { after, before } from 'node:test';
import { cancellationText } from '../../src/checkout/cancel-event.ts';
import { createPostgresArbiter } from '../../src/inventory/postgres.ts';
import type { CancellationWish } from '../../src/orders/cancellations.ts';
import { revokedTickets } from '../../src/orders/refunds.ts';
import { makeDue } from '../support/acts.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { bought, madeRefund, type RefundDesk, refundDesk } from '../support/refund-desk.ts';
import { startTestSimulator, type TestSimulator } from '../support/simulator.ts';
import { auditEvent, holdOf, payCommand, reserveCommand, reserved, stageEvent } from '../support/stage.ts';

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

const wish: CancellationWish = {
  reason: 'the stadium is flooded',
  fees: 'returned',
  seats: 'release',
  perSecond: 1_000,
};

async function cancel(event: number, more: Partial<CancellationWish> = {}): Promise<void> {
  const { code } = await desk.cancelEvent.ask(event, { ...wish, ...more }, 'organiser');
  const started = await desk.cancelEvent.confirm(event, { ...wish, ...more }, 'organiser', code);
  assert.equal(started.kind, 'started');
}

/** Rounds of the run and of the reconciler until the run says that it is done. */
async function runToEnd(event: number, rounds = 40): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    const { failed, done } = await desk.cancelEvent.runOnce();
    assert.equal(failed, 0);
    if (done.includes(event)) return;
    await makeDue(database);
    await desk.reconciler.runOnce();
  }
  assert.fail(`not done: ${JSON.stringify(await desk.cancellations.find(event))}`);
}

test('P3 P8: paid orders are refunded, waiting and unknown ones voided, before the run says that it is done', async () => {
  const stage = await stageEvent(database, { seats: 30 });
  const { event } = stage;
  const paid = await Promise.all([
    bought(desk, stage, [0, 1]),
    bought(desk, stage, [2]),
    bought(desk, stage, [3, 4]),
  ]);
  const [ticket] = await desk.refundRecord.paidTickets(event, paid[2]!.order);
  await madeRefund(desk, paid[2]!, { tickets: [ticket!.ticket], fees: 'kept' });
  const unpaid = await reserved(desk, stage, 'unpaid', [5]);
  const atBank = await reserved(desk, stage, 'at-the-bank', [6]);
  const waits = await desk.checkout.pay(payCommand(atBank.order, 'pm_card_threeDSecure2Required'));
  assert.equal(waits.kind, 'pending');
  const lost = await reserved(desk, stage, 'lost', [7]);
  await simulator.fault('error_500_after', { match: { route: 'confirm', reference: lost.order }, times: 1 });
  assert.equal((await desk.checkout.pay(payCommand(lost.order, 'pm_card_visa'))).kind, 'pending');

  const asked = await desk.cancelEvent.ask(event, wish, 'organiser');
  assert.deepEqual(asked.shown, {
    orders: 3,
    tickets: 4,
    amount: 4 * 5250 + 300,
    currency: 'EUR',
    unpaidOrders: 3,
  });
  await cancel(event);
  // From now on nothing new: the sale is closed before the first refund.
  const late = await desk.checkout.reserve(reserveCommand(holdOf(stage, 'late', [9])));
  assert.deepEqual(late, { kind: 'not_open', phase: 'cancelled' });
  await runToEnd(event);

  const states = async (id: string) => (await desk.record.findOrder(id))!;
  for (const { order } of paid) {
    assert.deepEqual(
      [(await states(order)).state, (await states(order)).reason],
      ['cancelled', 'event_cancelled'],
    );
  }
  for (const { order } of [unpaid, atBank, lost]) {
    assert.deepEqual(
      [(await states(order)).state, (await states(order)).reason],
      ['closed', 'event_cancelled'],
    );
  }
  await auditEvent(database, simulator, event);
  const ledger = await simulator.ledger();
  const ours = new Set([...paid, unpaid, atBank, lost].map(({ order }) => order));
  const intents = ledger.intents.filter(({ reference }) => ours.has(reference ?? ''));
  assert.equal(
    intents.reduce((sum, { authorised }) => sum + authorised, 0),
    0,
    'no authorisation stands',
  );
  const kept = intents.reduce((sum, { captured, refunded }) => sum + captured - refunded, 0);
  assert.equal(kept, 250, 'the fee that was kept before');

  const now = (await desk.cancellations.find(event))!;
  assert.deepEqual(
    [now.state, now.refunds, now.closed, now.left, now.ending],
    ['done', { done: { refunds: 3, amount: 4 * 5250 + 300 } }, 3, 0, 0],
  );
  assert.match(cancellationText('The Show', now).join('\n'), /the run is done[\s\S]*213\.00 EUR: given back/);
  const outcomes = await desk.cancellations.outcomes(event, null, 100);
  assert.deepEqual(outcomes.map(({ outcome }) => outcome).sort(), [
    'closed',
    'closed',
    'closed',
    'done',
    'done',
    'done',
  ]);
  assert.equal((await revokedTickets(desk.db, event)).length, 5);
});

test('a request is executed only with its own code, from the same organiser, once and in time', async () => {
  const stage = await stageEvent(database);
  const { event } = stage;
  const { code } = await desk.cancelEvent.ask(event, wish, 'organiser');
  const confirm = (actor: string, brought: string, more: Partial<CancellationWish> = {}) =>
    desk.cancelEvent.confirm(event, { ...wish, ...more }, actor, brought).then(({ kind }) => kind);
  assert.equal(await confirm('organiser', 'AAAA-AAAA'), 'not_confirmed');
  assert.equal(await confirm('somebody else', code), 'not_confirmed');
  assert.equal(await confirm('organiser', code, { fees: 'kept' }), 'not_confirmed');
  await database.query(`UPDATE confirmations SET expires_at = now() WHERE event_no = $1`, [event]);
  assert.equal(await confirm('organiser', code), 'not_confirmed');
  const [before] = await database.query('SELECT phase FROM events WHERE event_no = $1', [event]);
  assert.equal(before.phase, 'open');
  const fresh = await desk.cancelEvent.ask(event, wish, 'organiser');
  const typed = fresh.code.toLowerCase().replace('-', ' ');
  const both = await Promise.all([confirm('organiser', typed), confirm('organiser', fresh.code)]);
  assert.deepEqual(both.sort(), ['already', 'started']);
  await runToEnd(event);
  const acts = await database.query(`SELECT action FROM audit_log WHERE event_no = $1 ORDER BY entry`, [
    event,
  ]);
  assert.deepEqual(
    acts.map(({ action }) => action),
    ['cancel_event', 'cancel_event_done'],
  );
});

test('S4: live holds end in the step that cancels; no hold or purchase is possible afterwards', async () => {
  const stage = await stageEvent(database, { mode: 'postgres' });
  const arbiter = createPostgresArbiter({ db: desk.db });
  const at = { event: stage.event, partition: 0, epoch: stage.epoch };
  const hold = (visitor: string, seat: number) =>
    arbiter.hold({
      ...at,
      hold: randomUUID(),
      visitor,
      holder: visitor,
      request: 'r',
      claim: { kind: 'seats', seats: [seat] },
      ttlMs: 600_000,
      seatsMax: 4,
      replaces: null,
      notAfter: null,
    });
  const held = await hold('buyer1', 1);
  assert.ok(held.kind === 'granted');
  await cancel(stage.event);
  assert.equal(await arbiter.find(stage.event, 0, held.hold.hold), null);
  assert.deepEqual(await hold('buyer2', 2), { kind: 'not_open', phase: 'cancelled' });
  await runToEnd(stage.event);
  await auditEvent(database, simulator, stage.event);
});

test('P8: refunds that fail are counted and retried by one act; the rate is kept over two workers at once', async () => {
  const stage = await stageEvent(database, { seats: 30 });
  const { event } = stage;
  const orders = await Promise.all(Array.from({ length: 9 }, (_, n) => bought(desk, stage, [n])));
  const poor = orders.slice(0, 3);
  for (const { order } of poor) {
    await simulator.fault('refund_insufficient_balance', { match: { reference: order }, times: 1 });
  }
  await cancel(event, { perSecond: 4 });
  const other = refundDesk(database.url, simulator.provider, { owner: 'another worker' });
  const started = Date.now();
  await Promise.all([desk.cancelEvent.runOnce(), other.cancelEvent.runOnce()]);
  await Promise.all([desk.cancelEvent.runOnce(), other.cancelEvent.runOnce()]);
  const { left } = (await desk.cancellations.find(event))!;
  const allowed = 4 + (4 * (Date.now() - started)) / 1_000;
  assert.ok(9 - left <= allowed + 1, `${9 - left} orders, ${allowed} allowed`);
  await database.query('UPDATE event_cancellations SET per_second = 1000 WHERE event_no = $1', [event]);

  // Both continue, at the same time as each other and as two reconcilers.
  for (let round = 0; round < 30; round += 1) {
    const passes = await Promise.all([desk.cancelEvent.runOnce(), other.cancelEvent.runOnce()]);
    assert.equal(passes[0]!.failed + passes[1]!.failed, 0);
    await makeDue(database);
    await Promise.all([desk.reconciler.runOnce(), other.reconciler.runOnce()]);
    if ((await desk.cancellations.find(event))!.state === 'done') break;
    await database.query('UPDATE event_cancellations SET claimed_until = NULL WHERE event_no = $1', [event]);
  }
  await other.close();
  const done = (await desk.cancellations.find(event))!;
  assert.deepEqual(
    [done.state, done.refunds],
    ['done', { done: { refunds: 6, amount: 6 * 5350 }, failed: { refunds: 3, amount: 3 * 5350 } }],
  );
  await auditEvent(database, simulator, event);

  assert.equal(await desk.cancellations.retryFailed(event, 'organiser'), 3);
  await runToEnd(event);
  const after = (await desk.cancellations.find(event))!;
  assert.deepEqual(after.refunds, { done: { refunds: 9, amount: 9 * 5350 } });
  await auditEvent(database, simulator, event);
});

test('P8: a repeat ends although a failed refund went back by hand at the provider meanwhile, and pays nothing twice', async () => {
  const stage = await stageEvent(database);
  const { event } = stage;
  const [told, untold, owed] = await Promise.all([
    bought(desk, stage, [0]),
    bought(desk, stage, [1, 2]),
    bought(desk, stage, [3]),
  ]);
  for (const { order } of [told, untold, owed]) {
    await simulator.fault('refund_insufficient_balance', { match: { reference: order }, times: 1 });
  }
  await cancel(event, { fees: 'kept' });
  await runToEnd(event);
  const refundedOf = async ({ providerObject }: typeof told) =>
    (await simulator.ledgerOf(providerObject!)).charges[0]!.refunded;
  await simulator.refundByHand(told.providerObject!, 5_000);
  // Looking at the order reads this refund. Nothing is known about the refund of the other order, because no
  // event arrives here.
  await desk.refunds.preview(told.order, { tickets: [], fees: 'kept', goodwill: 0 });
  // As much as the kept fees: the provider itself would not refuse the repeat of all.
  await simulator.refundByHand(untold.providerObject!, 600);

  assert.equal(await desk.cancellations.retryFailed(event, 'organiser'), 3);
  await runToEnd(event);
  assert.deepEqual(await Promise.all([told, untold, owed].map(refundedOf)), [5_000, 10_000, 5_000]);
  const counted = async () => (await desk.cancellations.find(event))!.refunds;
  const done = { refunds: 2, amount: 5_000 + 9_400 };
  const failed = { refunds: 1, amount: 5_000 };
  assert.deepEqual(await counted(), { done, failed }, 'the refund of the second order pays what was left');
  assert.equal(await desk.cancellations.retryFailed(event, 'organiser'), 1, 'may be asked for again');
  await runToEnd(event);
  assert.deepEqual(await counted(), { done, failed });

  const [refund] = await desk.refundRecord.ofOrder(told.order);
  await desk.refunds.elsewhere(refund!.refund, 'organiser', 'refunded at the provider');
  assert.deepEqual(await counted(), { done, elsewhere: failed });
  await auditEvent(database, simulator, event);
});

test('P8: a refund that succeeded before its repeat was made, and failed later, is repeated when asked for', async () => {
  const stage = await stageEvent(database);
  const { event } = stage;
  const order = await bought(desk, stage, [0]);
  await simulator.fault('refund_insufficient_balance', { match: { reference: order.order }, times: 1 });
  await cancel(event);
  await runToEnd(event);
  const attempts = await desk.record.operationsOf(order.order);
  const { operation } = attempts.find(({ kind }) => kind === 'refund')!;
  assert.equal(await desk.cancellations.retryFailed(event, 'organiser'), 1);
  await desk.refundRecord.settle({ operation, state: 'done' });
  await runToEnd(event);
  await desk.refundRecord.settle({ operation, state: 'refused', detail: 'the bank sent it back' });
  assert.equal(await desk.cancellations.retryFailed(event, 'organiser'), 1);
  await runToEnd(event);
  assert.deepEqual((await desk.cancellations.find(event))!.refunds, { done: { refunds: 1, amount: 5_350 } });
  await auditEvent(database, simulator, event);
});
