import assert from 'node:assert/strict';
import test, { after } from 'node:test';
import { createReversalListing } from '../../src/checkout/reversal-listing.ts';
import type { Order } from '../../src/orders/record.ts';
import { listingCounts } from '../../src/orders/reversals.ts';
import { until } from '../support/app.ts';
import { auditOf, violationsOf } from '../support/at-rest.ts';
import { bought, madeRefund, refundOf } from '../support/refund-desk.ts';
import { startReversalDesk } from '../support/reversal-desk.ts';
import { openPayment } from '../support/simulator.ts';
import { auditEvent, reconcile, stageEvent } from '../support/stage.ts';

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
const auditLines = async (order: Order) =>
  (
    await database.query(
      `SELECT action FROM audit_log WHERE actor = 'provider' AND detail ->> 'order' = $1 ORDER BY at`,
      [order.order],
    )
  ).map(({ action }) => action);
const seatsFree = async (order: Order) =>
  (
    await database.query(
      `SELECT seat_no FROM seats WHERE event_no = $1 AND seat_no = ANY ($2) AND state = 'available'`,
      [order.eventNo, order.lines.map(({ seat }) => seat)],
    )
  ).length;

test('P8: a refund that is made at the provider is handled at once: listed with order and seats, not offered again', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [1, 2]);
  const object = order.providerObject!;
  await simulator.refundByHand(object, 2_000);
  await told(order, 'done');
  const [entry] = await listed(order);
  assert.deepEqual(
    [entry!.kind, entry!.order, entry!.seats, entry!.seatNames.length],
    ['foreign_refund', order.order, [1, 2], 2],
  );
  assert.match(entry!.says!, /^20\.00 EUR of order .* was refunded at the provider, not by us/);
  assert.deepEqual(
    entry!.actions.map(({ action }) => action),
    ['look', 'cancel_tickets', 'dismiss'],
  );
  assert.deepEqual(await auditLines(order), ['foreign_refund']);
  assert.equal(await validTickets(order), 2, 'nothing is decided for the organiser');
  assert.equal(await left(order), order.amount - 2_000);
  await auditEvent(database, simulator, stage.event);

  // Kept valid by the operator; the same events again say nothing new.
  assert.equal((await act(order, 'dismiss', 'foreign_refund')).kind, 'done');
  await desk.checkout.providerEvent({ id: 'evt_again', type: 'charge.refunded', object });
  await desk.inbox.runOnce();
  assert.deepEqual(await kindsOf(order), []);

  // The rest, and no more than it, is ours to give back.
  const tooMuch = await desk.refunds.make(refundOf(order, { tickets: [], goodwill: order.amount - 1_999 }));
  assert.ok(tooMuch.kind === 'too_much' && tooMuch.most === order.amount - 2_000, JSON.stringify(tooMuch));
  const refund = await madeRefund(desk, order);
  assert.deepEqual([refund.amount, refund.state], [order.amount - 2_000, 'done']);
  const { intents } = await simulator.ledgerOf(object);
  assert.equal(intents[0]!.refunded, order.amount);
  await auditEvent(database, simulator, stage.event);
});

test('P8: all given back at the provider: the tickets are cancelled without paying again, and the seats go back on sale', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [1, 2]);
  await simulator.refundByHand(order.providerObject!);
  await told(order, 'done');
  assert.equal(await left(order), 0);
  assert.equal(await seatsFree(order), 0, 'while the tickets are valid the seats stay sold');
  const done = await act(order, 'cancel_tickets', 'foreign_refund');
  assert.ok(done.kind === 'done' && done.entry === null, JSON.stringify(done));
  assert.equal(await seatsFree(order), 2);
  assert.equal(await validTickets(order), 0);
  assert.equal((await desk.checkout.find(order.order))!.state, 'cancelled');
  assert.equal((await simulator.ledgerOf(order.providerObject!)).refunds.length, 1);
  await auditEvent(database, simulator, stage.event);
});

test('P8: a refund made at the provider a moment ago, of which no event has come, is not made a second time', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [1]);
  const silence = await simulator.fault('webhook_never');
  await simulator.refundByHand(order.providerObject!);
  assert.equal(await left(order), 0);
  const refund = await madeRefund(desk, order);
  assert.deepEqual([refund.amount, refund.state], [0, 'done']);
  await simulator.endFault(silence);
  assert.deepEqual(await kindsOf(order), ['foreign_refund']);
  await auditEvent(database, simulator, stage.event);
});

test('P8: a refund made at the provider that fails at the bank: the money can be refunded by us again', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [1], 'pm_card_refundFail');
  await simulator.refundByHand(order.providerObject!);
  await told(order, 'done');
  await simulator.settleRefunds();
  await told(order, 'failed');
  assert.equal(await left(order), order.amount);
  assert.match((await listed(order))[0]!.says!, /failed: the money is still with you/);
  await auditEvent(database, simulator, stage.event);
});

test('P8: a dispute that is opened and lost: each step is reported with its fee, nothing is refunded on top, the organiser decides about the tickets', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [1, 2]);
  const dispute = await simulator.dispute(order.providerObject!);
  await told(order, 'open');
  const [entry] = await listed(order);
  assert.equal(entry!.kind, 'dispute_opened');
  assert.match(
    entry!.says!,
    /withdrew the money; answer it .* by 20\d\d-.*; the provider charges 15\.00 EUR/,
  );
  assert.equal(await left(order), 0);
  const refund = await desk.refunds.make(refundOf(order, { tickets: [], goodwill: 100 }));
  assert.equal(refund.kind, 'too_much');
  await auditEvent(database, simulator, stage.event);
  await simulator.decideDispute(dispute, 'lost');
  await told(order, 'lost');
  assert.deepEqual(await kindsOf(order), ['dispute_lost'], 'one entry a dispute');
  assert.deepEqual(await auditLines(order), ['dispute_opened', 'dispute_lost']);
  assert.equal(await validTickets(order), 2);
  assert.equal((await act(order, 'cancel_tickets', 'dispute_lost')).kind, 'done');
  assert.deepEqual([await validTickets(order), await seatsFree(order)], [0, 2]);
  await auditEvent(database, simulator, stage.event);
});

test('P8: a dispute that is won gives the money back to us; an inquiry never took it', async () => {
  const stage = await stageEvent(database);
  const won = await bought(desk, stage, [1]);
  const asked = await bought(desk, stage, [2]);
  const dispute = await simulator.dispute(won.providerObject!, { amount: 1_000 });
  const inquiry = await simulator.dispute(asked.providerObject!, { inquiry: true });
  await told(won, 'open');
  await told(asked, 'open');
  assert.equal(await left(won), won.amount - 1_000);
  assert.equal(await left(asked), asked.amount);
  assert.match(
    (await listed(asked)).find(({ order }) => order === asked.order)!.says!,
    /no money was withdrawn/,
  );
  await simulator.decideDispute(dispute, 'won');
  await simulator.decideDispute(inquiry, 'won');
  await told(won, 'won');
  await told(asked, 'won');
  assert.deepEqual((await kindsOf(won)).sort(), ['dispute_won', 'dispute_won']);
  const refund = await madeRefund(desk, won);
  assert.deepEqual([refund.amount, refund.state], [won.amount, 'done']);
  await auditEvent(database, simulator, stage.event);
});

test('P8: contradictory decisions at the same moment: one is taken, the others are refused, and its repeats say so', async () => {
  const stage = await stageEvent(database, { seats: 8 });
  for (let seat = 1; seat <= 6; seat += 1) {
    const order = await bought(desk, stage, [seat]);
    await simulator.refundByHand(order.providerObject!, 500);
    await told(order, 'done');
    const [{ entry }] = await database.query(
      `SELECT 'finding-' || finding_id AS entry FROM reconcile_findings WHERE order_id = $1`,
      [order.order],
    );
    const choose = (action: 'cancel_tickets' | 'dismiss', note = 'agreed') =>
      operator.act({ entry, action, actor: 'organiser', note });
    const actions = ['cancel_tickets', 'dismiss', 'cancel_tickets', 'dismiss'] as const;
    const wanted = seat % 2 === 0 ? actions : actions.toReversed();
    const outcomes = await Promise.all(wanted.map((action, i) => choose(action, `note ${i}`)));
    const first = wanted[outcomes.findIndex((one) => one.kind === 'done' && !one.repeated)]!;
    const shown = wanted.map((action, i) => {
      const one = outcomes[i]!;
      return `${action === first ? 'same' : 'other'} ${one.kind === 'done' ? one.repeated : one.kind}`;
    });
    assert.deepEqual(shown.sort(), ['other not_possible', 'other not_possible', 'same false', 'same true']);
    assert.equal(await validTickets(order), first === 'dismiss' ? 1 : 0);
    const lines = await database.query(
      `SELECT detail ->> 'decision' AS decision FROM audit_log WHERE action = 'reconcile_settle' AND 'finding-' || (detail ->> 'finding') = $1`,
      [entry],
    );
    assert.deepEqual(lines, [{ decision: first }]);
    for (const action of ['cancel_tickets', 'dismiss'] as const) {
      const later = await choose(action, 'another note');
      assert.equal(later.kind, action === first ? 'done' : 'not_possible', `${action} after ${first}`);
    }
  }
  await auditEvent(database, simulator, stage.event);
});

test('P8: cancelling the tickets that fails is not decided: it can be chosen again, or the other', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [1]);
  await simulator.refundByHand(order.providerObject!, 500);
  await told(order, 'done');
  await database.query(`ALTER TABLE refund_tickets ADD CONSTRAINT broken CHECK (event_no <> ${stage.event})`);
  await assert.rejects(act(order, 'cancel_tickets', 'foreign_refund'));
  await database.query('ALTER TABLE refund_tickets DROP CONSTRAINT broken');
  assert.deepEqual([await kindsOf(order), await validTickets(order)], [['foreign_refund'], 1]);
  const again = await act(order, 'cancel_tickets', 'foreign_refund');
  assert.ok(again.kind === 'done' && !again.repeated, JSON.stringify(again));
  assert.equal(await validTickets(order), 0);
  await auditEvent(database, simulator, stage.event);
});

test('P8: a dispute that is won after its tickets were cancelled is offered words that fit, and its money can be refunded', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [1]);
  const dispute = await simulator.dispute(order.providerObject!);
  await told(order, 'open');
  await act(order, 'cancel_tickets', 'dispute_opened');
  await simulator.decideDispute(dispute, 'won');
  await told(order, 'won');
  const [entry] = await listed(order);
  assert.deepEqual(
    entry!.actions.map(({ label }) => label),
    ['Look again now', 'Leave the tickets void'],
  );
  const refund = await madeRefund(desk, order, { tickets: [], goodwill: order.amount });
  assert.deepEqual([refund.amount, refund.state], [order.amount, 'done']);
  assert.equal((await act(order, 'dismiss', 'dispute_won')).kind, 'done');
  await auditEvent(database, simulator, stage.event);
});

test('P8: some tickets of a disputed order are cancelled without paying, the others stay valid; a cancelled event pays only the rest', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [1, 2]);
  const [first] = await desk.refundRecord.paidTickets(order.eventNo, order.order);
  await simulator.dispute(order.providerObject!, { amount: first!.price + first!.fee });
  await told(order, 'open');
  const unpaid = await madeRefund(desk, order, { tickets: [first!.ticket], pays: false });
  assert.deepEqual([unpaid.amount, unpaid.state, unpaid.tickets], [0, 'done', [first!.ticket]]);
  assert.equal(await validTickets(order), 1);
  await auditEvent(database, simulator, stage.event);
  const other = await bought(desk, stage, [3]);
  await simulator.refundByHand(other.providerObject!, 500);
  await told(other, 'done');
  const shown = await desk.cancellations.preview(stage.event, 'returned');
  assert.equal(shown.amount, order.amount - (first!.price + first!.fee) + other.amount - 500);
});

test('P6 P8: refunds and disputes whose events were lost are found by their own creation, once a day, page by page', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [1]);
  const disputed = await bought(desk, stage, [2]);
  const own = await bought(desk, stage, [3]);
  const silence = await simulator.fault('webhook_never');
  await madeRefund(desk, own);
  const shop = await openPayment(simulator.provider, { reference: '' });
  await provider.authorise({
    ...{ key: 'shop-auth', object: shop.object, returnUrl: 'https://example.org' },
    instrument: { paymentMethod: 'pm_card_visa' },
  });
  await provider.capture({ key: 'shop-capture', object: shop.object, amount: 5_000 });
  await simulator.refundByHand(shop.object);
  await simulator.refundByHand(order.providerObject!, 700);
  await simulator.dispute(disputed.providerObject!);
  await simulator.endFault(silence);
  // Months after the payment: the comparison of payments looks back a day.
  await database.query(
    `UPDATE provider_listings SET finished_at = NULL, listed_to = now() - interval '1 day'`,
  );
  const listing = createReversalListing({ db: desk.db, provider, record: desk.record, owner: 'worker' });
  assert.equal(await listing.runIfDue(), 2);
  assert.equal(await listing.runIfDue(), 0, 'not due again');
  const counts = await listingCounts(desk.db);
  assert.equal(counts.refund.foreign, 1);
  await desk.inbox.runOnce();
  assert.deepEqual((await kindsOf(order)).sort(), ['dispute_opened', 'foreign_refund']);
  // An interrupted listing continues at its page; open entries are checked every day, known ones are not.
  await database.query(
    `UPDATE provider_listings SET finished_at = now() - interval '25 hours', claimed_until = NULL`,
  );
  await database.query(`DELETE FROM provider_events`);
  const unanswered = createReversalListing({
    ...{ db: desk.db, record: desk.record, owner: 'worker' },
    provider: {
      ...provider,
      listRefunds: async () => ({ kind: 'unknown', reason: 'timeout', detail: 'silence' }),
    },
  });
  await assert.rejects(unanswered.runIfDue(), /did not list: timeout/);
  assert.equal(await listing.runIfDue(), 1);
  const events = await database.query(`SELECT object FROM provider_events WHERE type = 'listed'`);
  assert.ok(events.some(({ object }) => object === disputed.providerObject));
  assert.ok(!events.some(({ object }) => object === order.providerObject));
  await reconcile(database, desk, 1);
  const report = await auditOf({ database, simulator, eventNo: stage.event });
  assert.deepEqual(violationsOf(report), []);
});

test('P8: a refund that failed and was then made at the provider is the same money: not tried again, not counted twice', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [7, 8]);
  const object = order.providerObject!;
  const [first] = await desk.refundRecord.paidTickets(order.eventNo, order.order);
  const fault = await simulator.fault('refund_fails_later', { match: { reference: order.order } });
  const refund = await madeRefund(desk, order, { tickets: [first!.ticket] });
  await until(async () => {
    await simulator.settleRefunds();
    await desk.inbox.runOnce();
    return (await desk.refundRecord.find(refund.refund))?.state === 'failed';
  }, 'the refund to fail');
  await simulator.endFault(fault);
  await simulator.refundByHand(object, refund.amount);
  // The webhook has not come yet: a new attempt asks the provider first.
  const again = await desk.refunds.retry(refund.refund, 'organiser');
  assert.equal(again.kind, 'gone_back');
  const refundedBy = async () => (await simulator.ledgerOf(object)).charges[0]!.refunded;
  assert.equal(await refundedBy(), refund.amount, 'nothing is paid twice');

  assert.equal(
    (await desk.refunds.elsewhere(refund.refund, 'organiser', 'refunded at the provider')).kind,
    'elsewhere',
  );
  assert.equal((await act(order, 'dismiss', 'foreign_refund')).kind, 'done');
  assert.equal(await left(order), order.amount - refund.amount, 'the other ticket’s money is left');
  const rest = await madeRefund(desk, order);
  assert.deepEqual([rest.amount, rest.goodwill], [order.amount - refund.amount, 0]);
  assert.equal(await refundedBy(), order.amount);
  assert.equal(await validTickets(order), 0);
});
