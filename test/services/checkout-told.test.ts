import assert from 'node:assert/strict';
import test, { after } from 'node:test';
import { loseSeats, makeDue, passDeadline } from '../support/acts.ts';
import { checkoutDesk } from '../support/checkout-desk.ts';
import { bought, madeRefund, refundDesk } from '../support/refund-desk.ts';
import { auditEvent, payCommand, reconcile, reserved, stageEvent } from '../support/stage.ts';

// The reports to buyers about their payment, and how often a buyer can have the provider asked.

const { database, simulator } = await checkoutDesk();
const desk = refundDesk(database.url, simulator.provider);
/** Another process on the same database. */
const other = refundDesk(database.url, simulator.provider, { owner: 'other' });
after(() => Promise.all([desk.close(), other.close()]));

const bankCard = 'pm_card_threeDSecure2Required';
const limited = async () => (await simulator.struck()).rate_limit ?? 0;

/** An order whose buyer was sent to the bank. */
async function atTheBank(seat: number): Promise<{ event: number; order: string; url: string }> {
  const stage = await stageEvent(database);
  const { order } = await reserved(desk, stage, 'buyer', [seat]);
  const pending = await desk.checkout.pay(payCommand(order, bankCard));
  assert.ok(pending.kind === 'pending' && pending.action, pending.kind);
  return { event: stage.event, order, url: pending.action.url };
}

async function mailsOf(order: string): Promise<string[]> {
  const rows = await database.query<{ what: string }>(
    'SELECT what FROM mails WHERE order_id = $1 ORDER BY created_at',
    [order],
  );
  return rows.map(({ what }) => what);
}

test('P4: however often buyers, tabs, processes and events ask, the provider is asked once a back-off', async () => {
  const { event, order, url } = await atTheBank(1);
  const before = await limited();
  await simulator.fault('rate_limit', { match: { reference: order } });
  const refreshes = [desk, other].flatMap(({ checkout }) =>
    Array.from({ length: 20 }, () => checkout.refresh(order)),
  );
  for (const answer of await Promise.all(refreshes)) assert.equal(answer.kind, 'pending');
  for (let i = 0; i < 10; i++) await other.checkout.refresh(order);
  assert.equal((await limited()) - before, 1, 'one look for fifty refreshes');
  await desk.reconciler.runOnce();
  assert.equal((await limited()) - before, 1, 'it is not due for the reconciler either');
  // The provider's event may ask once before the next look is due.
  await database.query('UPDATE money_operations SET asked_until = now() WHERE order_id = $1', [order]);
  await Promise.all(Array.from({ length: 8 }, () => desk.checkout.payments.inspect(order, [])));
  assert.equal((await limited()) - before, 2, 'one look for eight events');
  await makeDue(database);
  await Promise.all(refreshes.map((_, i) => (i % 2 ? desk : other).checkout.refresh(order)));
  assert.equal((await limited()) - before, 3, 'due: one look, whoever asks');
  await simulator.clearFaults();
  await simulator.answerBank(url, 'authorise');
  await reconcile(database, desk);
  assert.equal((await desk.checkout.refresh(order)).kind, 'bought');
  await auditEvent(database, simulator, event);
});

test('the first refresh after the return from the bank is answered at once, although the next look is not due', async () => {
  const { event, order, url } = await atTheBank(1);
  const [{ due }] = (await database.query<{ due: boolean }>(
    `SELECT due_at <= now() AS due FROM money_operations WHERE order_id = $1 AND state = 'waiting'`,
    [order],
  )) as [{ due: boolean }];
  assert.equal(due, false);
  await simulator.answerBank(url, 'authorise');
  assert.equal((await desk.checkout.refresh(order)).kind, 'bought');
  await auditEvent(database, simulator, event);
});

test('an opening whose answer is lost is tried again with its key, within the same request', async () => {
  const stage = await stageEvent(database);
  const { order } = await reserved(desk, stage, 'buyer', [1]);
  await simulator.fault('cut_after', { match: { route: 'create', reference: order }, times: 1 });
  assert.equal((await desk.checkout.pay(payCommand(order, 'pm_card_visa'))).kind, 'bought');
  const { intents } = await simulator.ledger();
  assert.equal(intents.filter(({ reference }) => reference === order).length, 1);
  await auditEvent(database, simulator, stage.event);
});

test('a payment that cannot be opened is no refused card: no card was tried, and it can be paid or cancelled later', async () => {
  const stage = await stageEvent(database);
  const [kept, dropped, refused] = await Promise.all(
    [1, 2, 3].map(async (seat) => (await reserved(desk, stage, `buyer-${seat}`, [seat])).order),
  );
  const away = await simulator.fault('unavailable', { match: { route: 'create' } });
  const command = payCommand(kept!, 'pm_card_visa');
  const answers = await Promise.all([
    desk.checkout.pay(command),
    desk.checkout.pay(payCommand(dropped!, 'pm_card_visa')),
  ]);
  for (const answer of answers) {
    assert.ok(answer.kind === 'unavailable', answer.kind);
    assert.equal(answer.order.state, 'reserved');
    assert.ok(answer.afterMs > 0);
  }
  const asked = (await simulator.struck()).unavailable!;
  // A repeat, a new try and a reload all get the answer of the opening under way, which is not sent again
  // before it is due.
  assert.equal((await desk.checkout.pay(command)).kind, 'unavailable');
  assert.equal((await other.checkout.pay(payCommand(kept!, 'pm_card_mastercard'))).kind, 'unavailable');
  assert.equal((await other.checkout.refresh(kept!)).kind, 'unavailable');
  assert.equal((await simulator.struck()).unavailable, asked);
  assert.equal((await desk.checkout.close(dropped!)).kind, 'closed');
  await simulator.endFault(away);
  await makeDue(database);
  assert.equal((await desk.checkout.pay(command)).kind, 'bought');
  // The provider does not take the request at all: told the same, and not sent again at each click.
  await database.query('UPDATE orders SET amount = 99999999999 WHERE order_id = $1', [refused]);
  const tried = () => desk.checkout.pay(payCommand(refused!, 'pm_card_visa'));
  for (let click = 0; click < 4; click++) assert.equal((await tried()).kind, 'unavailable');
  const openings = (await desk.record.operationsOf(refused!)).map(({ kind, state }) => `${kind} ${state}`);
  assert.deepEqual(openings, ['open refused']);
  for (const table of ['orders', 'money_operations'])
    await database.query(`UPDATE ${table} SET amount = 5350 WHERE order_id = $1`, [refused]);
  assert.equal((await desk.checkout.close(refused!)).kind, 'closed');
  assert.equal((await desk.checkout.refresh(refused!)).kind, 'ended');
  await auditEvent(database, simulator, stage.event);
});

test('a refresh of an unpaid order says so', async () => {
  const stage = await stageEvent(database);
  const { order } = await reserved(desk, stage, 'buyer', [1]);
  assert.equal((await desk.checkout.refresh(order)).kind, 'unpaid');
});

test('P3: cancelled while the bank is asked and cannot be told: over for its buyer at once, released later, never charged', async () => {
  const { event, order, url } = await atTheBank(1);
  await simulator.fault('error_500_before', { match: { route: 'cancel', reference: order } });
  const closing = await desk.checkout.close(order);
  assert.ok(closing.kind === 'closing', closing.kind);
  assert.deepEqual([closing.order.state, closing.order.reason], ['voiding', 'closed_by_buyer']);
  assert.equal((await other.checkout.close(order)).kind, 'closing', 'the same again');
  assert.equal((await desk.checkout.pay(payCommand(order, 'pm_card_visa'))).kind, 'ended');
  // The seat is the next buyer's already, and the buyer may order again.
  const next = await reserved(desk, { event, epoch: await epochOf(event) }, 'buyer', [1]);
  assert.equal((await desk.checkout.close(next.order)).kind, 'closed');
  // The bank's response no longer buys anything.
  await simulator.answerBank(url, 'authorise');
  await reconcile(database, desk);
  assert.equal((await desk.record.findOrder(order))!.state, 'voiding');
  await simulator.clearFaults();
  await reconcile(database, desk);
  assert.equal((await desk.record.findOrder(order))!.state, 'closed');
  assert.equal((await desk.checkout.close(order)).kind, 'closed');
  assert.deepEqual(await mailsOf(order), [], 'its buyer knows');
  assert.equal((await auditEvent(database, simulator, event)).captured, 0);
});

test('P3: cancelled by its buyer while it was being ended for another reason: money that comes then buys nothing', async () => {
  const { event, order, url } = await atTheBank(1);
  const fault = await simulator.fault('error_500_before', { match: { route: 'cancel', reference: order } });
  await passDeadline(database, order);
  await makeDue(database);
  await desk.reconciler.runOnce();
  assert.equal((await desk.record.operationsOf(order)).at(-1)!.endReason, 'not_paid_in_time');
  assert.equal((await desk.checkout.close(order)).kind, 'closing');
  await simulator.answerBank(url, 'authorise');
  await simulator.endFault(fault);
  await reconcile(database, desk);
  const ended = (await desk.record.findOrder(order))!;
  assert.deepEqual([ended.state, ended.reason], ['closed', 'closed_by_buyer']);
  assert.equal((await auditEvent(database, simulator, event)).captured, 0);
});

test('a buyer whose seats were lost while the bank was asked gets a mail, once the money is certainly free', async () => {
  const { event, order, url } = await atTheBank(1);
  await loseSeats(database, order);
  await simulator.fault('error_500_before', { match: { route: 'cancel', reference: order }, times: 1 });
  await simulator.answerBank(url, 'authorise');
  assert.equal((await desk.checkout.refresh(order)).kind, 'ended');
  assert.deepEqual(await mailsOf(order), []);
  await reconcile(database, desk);
  assert.deepEqual(await mailsOf(order), ['order.failed']);
  await reconcile(database, desk);
  assert.deepEqual(await mailsOf(order), ['order.failed']);
  await auditEvent(database, simulator, event);
});

test('a refund that was reported done and fails later is reported again, each time that this changes', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [0, 1]);
  const fault = await simulator.fault('refund_fails_later', { match: { reference: order.order } });
  const [ticket] = await desk.refundRecord.paidTickets(stage.event, order.order);
  const refund = await madeRefund(desk, order, { tickets: [ticket!.ticket] });
  assert.equal(refund.state, 'done');
  const failed = async (): Promise<void> => {
    await simulator.settleRefunds();
    for (let i = 0; i < 2; i++) await desk.checkout.payments.inspect(order.order, []);
    assert.equal((await desk.refundRecord.find(refund.refund))!.state, 'failed');
  };
  await failed();
  const first = ['order.confirmed', 'refund.created', 'refund.succeeded', 'refund.failed'];
  assert.deepEqual(await mailsOf(order.order), first);
  await desk.refunds.retry(refund.refund, 'organiser');
  await failed();
  await simulator.endFault(fault);
  await desk.refunds.retry(refund.refund, 'organiser');
  assert.equal((await desk.refundRecord.find(refund.refund))!.state, 'done');
  const then = ['refund.succeeded', 'refund.failed', 'refund.succeeded'];
  assert.deepEqual(await mailsOf(order.order), [...first, ...then]);
  // One that never went through is the operator's to fix: nothing was reported that is not so any more.
  await simulator.fault('refund_fails', { match: { reference: order.order }, times: 1 });
  await madeRefund(desk, order, { tickets: [], goodwill: 100 });
  assert.deepEqual((await mailsOf(order.order)).slice(first.length + then.length), ['refund.created']);
});

async function epochOf(event: number): Promise<number> {
  const rows = await database.query<{ epoch: number }>(
    'SELECT epoch::int AS epoch FROM event_partitions WHERE event_no = $1',
    [event],
  );
  return rows[0]!.epoch;
}
