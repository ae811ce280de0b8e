import assert from 'node:assert/strict';
import test from 'node:test';
import { passDeadline } from '../support/acts.ts';
import { checkoutDesk } from '../support/checkout-desk.ts';
import {
  auditEvent,
  holdOf,
  payCommand,
  reconcile,
  reserveCommand,
  reserved,
  stageEvent,
} from '../support/stage.ts';

const { database, simulator, desk } = await checkoutDesk();

const attemptsAt = async (order: string) =>
  (await simulator.ledger()).intents.find(({ reference }) => reference === order)?.confirmations ?? 0;
const authorisations = async (order: string) =>
  (await desk.record.operationsOf(order)).filter(({ kind }) => kind === 'authorise');

test('a purchase goes from hold to paid: seats sold, captured once, to the cent (P8)', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [3, 4]);
  assert.equal(order.amount, 2 * 5250 + 100);
  const paid = await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'));
  assert.ok(paid.kind === 'bought');
  assert.equal(paid.order.state, 'paid');
  assert.deepEqual(await auditEvent(database, simulator, stage.event), {
    paid: 1,
    closed: 0,
    captured: 10600,
  });
  const history = await database.query('SELECT change FROM order_history WHERE order_id = $1 ORDER BY at', [
    order.order,
  ]);
  assert.deepEqual(
    history.map(({ change }) => change),
    ['reserve', 'begin_open', 'opened', 'begin_authorise', 'authorise', 'confirm', 'capture'],
  );
});

test('P1: a double click is one authorisation, and both clicks get the same answer', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1]);
  const command = payCommand(order.order, 'pm_card_visa');
  const answers = await Promise.all([
    desk.checkout.pay(command),
    desk.checkout.pay(command),
    desk.checkout.pay(command),
  ]);
  assert.deepEqual(
    answers.map((answer) => answer.kind),
    ['bought', 'bought', 'bought'],
  );
  assert.equal((await desk.checkout.pay(command)).kind, 'bought');
  assert.equal(await attemptsAt(order.order), 1);
  assert.equal((await authorisations(order.order)).length, 1);
  assert.equal((await desk.checkout.pay({ ...command, request: 'other body' })).kind, 'mismatch');
  await auditEvent(database, simulator, stage.event);
});

test('P1: reserving one hold from many tabs at once yields one order', async () => {
  const stage = await stageEvent(database);
  const hold = holdOf(stage, 'buyer1', [5, 6]);
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => desk.checkout.reserve(reserveCommand(hold))),
  );
  const orders = answers.map((answer) => (answer.kind === 'order' ? answer.order.order : answer.kind));
  assert.equal(new Set(orders).size, 1);
  assert.equal(answers.filter((answer) => answer.kind === 'order' && !answer.repeated).length, 1);
});

test('P1: a visitor has one open order in an event, and may have the next when it is paid', async () => {
  const stage = await stageEvent(database);
  const first = await reserved(desk, stage, 'buyer1', [5]);
  const second = await desk.checkout.reserve(reserveCommand(holdOf(stage, 'buyer1', [7])));
  assert.deepEqual(second, { kind: 'open_order', order: first.order });
  assert.equal((await desk.checkout.findOpen(stage.event, 'buyer1'))?.order, first.order);
  await desk.checkout.pay(payCommand(first.order, 'pm_card_visa'));
  assert.equal(await desk.checkout.findOpen(stage.event, 'buyer1'), null);
  assert.equal((await reserved(desk, stage, 'buyer1', [7])).state, 'reserved');
});

test('P1: two cards in two tabs at once: one authorisation in force, one capture, the other tab learns of it', async () => {
  for (let round = 0; round < 5; round += 1) {
    const stage = await stageEvent(database);
    const order = await reserved(desk, stage, 'buyer1', [1]);
    const answers = await Promise.all([
      desk.checkout.pay(payCommand(order.order, 'pm_card_visa')),
      desk.checkout.pay(payCommand(order.order, 'pm_card_mastercard')),
    ]);
    const kinds = answers.map((answer) => answer.kind);
    assert.ok(kinds.includes('bought'), kinds.join());
    assert.ok(
      // `pending`: it came in between, and its page asks again.
      kinds.every((kind) => ['bought', 'under_way', 'pending'].includes(kind)),
      kinds.join(),
    );
    assert.equal(await attemptsAt(order.order), 1);
    assert.equal((await auditEvent(database, simulator, stage.event)).captured, order.amount);
  }
});

test('P5: after a decline another card gets a new key; the repeat of the declined request is no new attempt', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1]);
  const first = payCommand(order.order, 'pm_card_chargeDeclinedInsufficientFunds');
  const declined = await desk.checkout.pay(first);
  assert.ok(declined.kind === 'declined');
  assert.equal(declined.decline, 'insufficient_funds');
  assert.equal(declined.order.state, 'reserved');
  assert.equal((await desk.checkout.pay(first)).kind, 'declined');
  assert.equal(await attemptsAt(order.order), 1);
  assert.equal((await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'))).kind, 'bought');
  const operations = await authorisations(order.order);
  assert.deepEqual(
    operations.map(({ state }) => state),
    ['refused', 'done'],
  );
  assert.notEqual(operations[0]!.key, operations[1]!.key);
  assert.equal((await auditEvent(database, simulator, stage.event)).captured, order.amount);
});

test('3-D Secure accepted: the buyer goes to the bank, comes back and has bought', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1]);
  const pending = await desk.checkout.pay(payCommand(order.order, 'pm_card_threeDSecure2Required'));
  assert.ok(pending.kind === 'pending' && pending.action, JSON.stringify(pending));
  assert.equal((await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'))).kind, 'under_way');
  await simulator.answerBank(pending.action.url, 'authorise');
  const [one, two] = await Promise.all([
    desk.checkout.refresh(order.order),
    desk.checkout.refresh(order.order),
  ]);
  assert.ok([one.kind, two.kind].includes('bought'), `${one.kind} ${two.kind}`);
  assert.equal((await desk.checkout.refresh(order.order)).kind, 'bought');
  await auditEvent(database, simulator, stage.event);
});

test('3-D Secure refused: told as declined, and another card buys', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1]);
  const pending = await desk.checkout.pay(payCommand(order.order, 'pm_card_threeDSecure2Required'));
  assert.ok(pending.kind === 'pending' && pending.action);
  await simulator.answerBank(pending.action.url, 'refuse');
  const refused = await desk.checkout.refresh(order.order);
  assert.ok(refused.kind === 'declined', refused.kind);
  assert.equal(refused.decline, 'authentication_failed');
  assert.equal((await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'))).kind, 'bought');
  await auditEvent(database, simulator, stage.event);
});

test('3-D Secure abandoned: at the deadline the payment is ended, the seats are free, nothing is charged', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1, 2]);
  const pending = await desk.checkout.pay(payCommand(order.order, 'pm_card_threeDSecure2Required'));
  assert.ok(pending.kind === 'pending' && pending.action);
  await reconcile(database, desk, 1);
  assert.equal((await desk.checkout.find(order.order))?.state, 'reserved');
  await passDeadline(database, order.order);
  await reconcile(database, desk);
  const closed = await desk.checkout.find(order.order);
  assert.equal(closed?.state, 'closed');
  assert.equal(closed?.reason, 'not_paid_in_time');
  await auditEvent(database, simulator, stage.event);
  assert.equal((await reserved(desk, stage, 'buyer2', [1, 2])).state, 'reserved');
  // Saying yes to the bank now reserves nothing: the order's object is cancelled.
  await simulator.answerBank(pending.action.url, 'authorise');
  const { intents } = await simulator.ledger();
  assert.equal(intents.find(({ reference }) => reference === order.order)?.status, 'canceled');
});

test('the buyer authenticates in the last moment: money reserved after all still buys the seats', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1]);
  const pending = await desk.checkout.pay(payCommand(order.order, 'pm_card_threeDSecure2Required'));
  assert.ok(pending.kind === 'pending' && pending.action);
  await simulator.answerBank(pending.action.url, 'authorise');
  await passDeadline(database, order.order);
  await reconcile(database, desk, 1);
  assert.equal((await desk.checkout.find(order.order))?.state, 'paid');
  await auditEvent(database, simulator, stage.event);
});

test('closing frees the seats at once; with a payment at the bank that payment is ended first', async () => {
  const stage = await stageEvent(database);
  const plain = await reserved(desk, stage, 'buyer1', [1]);
  const closed = await desk.checkout.close(plain.order);
  assert.ok(closed.kind === 'closed');
  assert.equal(closed.order.state, 'closed');
  assert.equal((await desk.checkout.close(plain.order)).kind, 'closed');
  assert.equal((await desk.checkout.pay(payCommand(plain.order, 'pm_card_visa'))).kind, 'ended');
  const order = await reserved(desk, stage, 'buyer1', [1]);
  const pending = await desk.checkout.pay(payCommand(order.order, 'pm_card_threeDSecure2Required'));
  assert.ok(pending.kind === 'pending' && pending.action);
  const ended = await desk.checkout.close(order.order);
  assert.ok(ended.kind === 'closed', ended.kind);
  assert.equal(ended.order.reason, 'closed_by_buyer');
  await simulator.answerBank(pending.action.url, 'authorise');
  assert.equal((await auditEvent(database, simulator, stage.event)).closed, 2);
});

test('closing after a decline also cancels the provider object, so that nothing can be authorised on it', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1]);
  await desk.checkout.pay(payCommand(order.order, 'pm_card_chargeDeclined'));
  assert.equal((await desk.checkout.close(order.order)).kind, 'closed');
  await reconcile(database, desk);
  const intent = (await simulator.ledger()).intents.find(({ reference }) => reference === order.order);
  assert.equal(intent?.status, 'canceled');
  await auditEvent(database, simulator, stage.event);
});

test('S6: an order not paid by its deadline is closed, never before it, and pays no more', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1]);
  assert.ok(Math.abs(order.paymentDeadline - order.createdAt - 600_000) < 2_000);
  await reconcile(database, desk, 1);
  assert.equal((await desk.checkout.find(order.order))?.state, 'reserved');
  assert.equal((await desk.checkout.expire(order.order)).kind, 'under_way');
  await passDeadline(database, order.order);
  assert.equal((await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'))).kind, 'ended');
  assert.equal((await desk.checkout.find(order.order))?.reason, 'not_paid_in_time');
  await auditEvent(database, simulator, stage.event);
});
