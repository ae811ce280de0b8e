import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { listEntries } from '../../src/orders/operator-list.ts';
import { ticketsOfOrder } from '../../src/orders/tickets.ts';
import type { PaymentProvider, PaymentView, ProviderAnswer } from '../../src/payments/provider.ts';
import { loseSeats, passDeadline } from '../support/acts.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { bought, madeRefund, type RefundDesk, refundDesk, refundOf } from '../support/refund-desk.ts';
import { openPayment, startTestSimulator, type TestSimulator } from '../support/simulator.ts';
import {
  auditEvent,
  holdOf,
  linesOf,
  payCommand,
  reconcile,
  reserveCommand,
  reserved,
  stageEvent,
} from '../support/stage.ts';
import { rawCall } from '../support/stripe-calls.ts';

/** Facts of docs/reference/payment-facts.md that no other file's tests are about. */

let database: TestDatabase;
let simulator: TestSimulator;
let desk: RefundDesk;
const desks: RefundDesk[] = [];
before(async () => {
  database = await testDatabase();
  simulator = await startTestSimulator();
  desk = deskWith(simulator.provider);
});
after(async () => {
  for (const one of desks) await one.close();
  await simulator?.stop();
});

function deskWith(provider: PaymentProvider): RefundDesk {
  const made = refundDesk(database.url, provider);
  desks.push(made);
  return made;
}

const stateOf = async (order: string) => (await desk.checkout.find(order))?.state;
const intentOf = async (order: string) => (await simulator.ledgerOf(order)).intents[0]!;
/** The payment as Stripe's own API shows it, past our adapter and the SDK. */
const raw = async (order: string) =>
  (await rawCall(simulator, 'payment_intents.retrieve', { id: (await intentOf(order)).id })).body;

test('what is asked of the provider: cards alone, held and not taken, no receipt of its own, ended as abandoned', async () => {
  const stage = await stageEvent(database);
  const order = await bought(desk, stage, [0, 1]);
  const asked = await raw(order.order);
  assert.deepEqual(
    [
      asked.capture_method,
      asked.allowed_payment_method_types ?? asked.payment_method_types,
      asked.receipt_email,
    ],
    ['manual', ['card'], null],
  );
  assert.deepEqual(asked.metadata, { order: order.order, event: order.event });
  assert.deepEqual([asked.amount, asked.amount_received, asked.amount_capturable], [10_600, 10_600, 0]);
  const left = await reserved(desk, stage, 'first', [2]);
  await desk.checkout.pay(payCommand(left.order, 'pm_card_chargeDeclined'));
  assert.equal((await desk.checkout.close(left.order)).kind, 'closed');
  await reconcile(database, desk, 2);
  const { status, cancellation_reason: reason } = await raw(left.order);
  assert.deepEqual([status, reason], ['canceled', 'abandoned']);
});

test('P5: the adapter sends each call once, whatever the answer advises about repeating it', async () => {
  const { provider } = simulator;
  const { object, reference } = await openPayment(provider);
  const calls = {
    confirm: () =>
      provider.authorise({
        key: `${reference}-1`,
        object,
        instrument: { paymentMethod: 'pm_card_visa' },
        returnUrl: 'https://shop.test/',
      }),
    capture: () => provider.capture({ key: `${reference}-2`, object, amount: 5000 }),
    'refunds.create': () =>
      provider.refund({ key: `${reference}-3`, object, amount: 5000, reference: 'refund' }),
  };
  for (const [route, call] of Object.entries(calls)) {
    for (const fault of ['error_500_before', 'unavailable', 'rate_limit', 'key_in_use'] as const) {
      const before = (await simulator.struck())[fault] ?? 0;
      await simulator.fault('retry_advised', { match: { route } });
      await simulator.fault(fault, { match: { route } });
      assert.equal((await call()).kind, 'unknown', `${route} ${fault}`);
      assert.equal((await simulator.struck())[fault]! - before, 1, `${route} ${fault}`);
      await simulator.clearFaults();
    }
    assert.equal((await call()).kind, 'done', route);
  }
});

test('P8: yen, dinars, forints, krónur and rupiah: the provider is asked for the sum that was agreed, to the minor unit, and for what goes back', async () => {
  // A seat, its fee, the order's fee; what two seats come to, and one ticket, in what the provider counts in. By hand.
  const sums = [
    { currency: 'JPY', price: 5_000, fee: 249, orderFee: 100, two: 10_598, ticket: 5_249 },
    { currency: 'KWD', price: 12_340, fee: 250, orderFee: 110, two: 25_290, ticket: 12_590 },
    { currency: 'HUF', price: 1_999_050, fee: 12_345, orderFee: 5, two: 4_022_795, ticket: 2_011_395 },
    { currency: 'ISK', price: 990_000, fee: 10_000, orderFee: 500, two: 2_000_500, ticket: 1_000_000 },
    {
      ...{ currency: 'IDR', price: 300_000_000_000, fee: 500_000, orderFee: 100_000 },
      ...{ two: 600_001_100_000, ticket: 300_000_500_000 },
    },
  ];
  for (const { currency, price, fee, orderFee, two, ticket } of sums) {
    const stage = await stageEvent(database);
    await database.query('UPDATE events SET currency = $2 WHERE event_no = $1', [stage.event, currency]);
    const hold = holdOf(stage, `buyer of ${currency}`, [0, 1]);
    const lines = linesOf([0, 1]).map((line) => ({ ...line, price, fee }));
    const outcome = await desk.checkout.reserve({ ...reserveCommand(hold), lines, orderFee, currency });
    assert.ok(outcome.kind === 'order', outcome.kind);
    const { order } = outcome.order;
    assert.equal((await desk.checkout.pay(payCommand(order, 'pm_card_visa'))).kind, 'bought');
    const asked = await raw(order);
    assert.deepEqual(
      [asked.amount, asked.amount_received, asked.currency],
      [two, two, currency.toLowerCase()],
    );
    const [first] = await desk.refundRecord.paidTickets(stage.event, order);
    await madeRefund(desk, { order }, { tickets: [first!.ticket] });
    assert.equal((await intentOf(order)).refunded, ticket, currency);
    await madeRefund(desk, { order });
    assert.equal((await intentOf(order)).refunded, two, currency);
    await auditEvent(database, simulator, stage.event);
  }
});

test('P3 S8: a sum that the provider refuses to open a payment for: no card is tried, nothing there, the seats free at the deadline', async () => {
  const stage = await stageEvent(database);
  const hold = holdOf(stage, 'first', [1]);
  const lines = linesOf([1]).map((line) => ({ ...line, price: 10, fee: 0 }));
  const outcome = await desk.checkout.reserve({ ...reserveCommand(hold), lines, orderFee: 0 });
  assert.ok(outcome.kind === 'order');
  const { order } = outcome.order;
  const answer = await desk.checkout.pay(payCommand(order, 'pm_card_visa'));
  assert.deepEqual([answer.kind, await stateOf(order)], ['unavailable', 'reserved']);
  assert.deepEqual((await simulator.ledgerOf(order)).intents, []);
  await passDeadline(database, order);
  await reconcile(database, desk, 2);
  assert.equal(await stateOf(order), 'closed');
  await bought(desk, stage, [1]);
  assert.equal((await auditEvent(database, simulator, stage.event)).paid, 1);
});

/** A provider whose answers about payments are changed. */
function changing(change: (view: PaymentView) => PaymentView): PaymentProvider {
  const { provider } = simulator;
  const of = (answer: ProviderAnswer): ProviderAnswer =>
    'view' in answer && answer.view ? { ...answer, view: change(answer.view) } : answer;
  return {
    ...provider,
    authorise: async (command) => of(await provider.authorise(command)),
    capture: async (command) => of(await provider.capture(command)),
    lookup: async (object) => of(await provider.lookup(object)),
  };
}

test('P7: a card whose fingerprint is not told counts for its account alone; a wallet’s number of a card is another card', async () => {
  const stage = await stageEvent(database, { settings: { instrumentSeatsMax: 1, accountSeatsMax: 2 } });
  const untold = deskWith(changing((view) => ({ ...view, instrument: null })));
  await bought(untold, stage, [0], 'pm_card_visa', 'first');
  await bought(untold, stage, [1], 'pm_card_visa', 'second');
  await bought(untold, stage, [2], 'pm_card_visa', 'first');
  const third = await untold.checkout.reserve(reserveCommand(holdOf(stage, 'first', [3])));
  assert.deepEqual(third, { kind: 'limit', limit: 'account', max: 2, used: 2 });
  const wallet = deskWith(
    changing((view) => ({
      ...view,
      instrument: view.instrument && { ...view.instrument, fingerprint: 'of the telephone' },
    })),
  );
  await bought(desk, stage, [4], 'pm_card_visa', 'third');
  await bought(wallet, stage, [5], 'pm_card_visa', 'fourth');
  const over = await reserved(wallet, stage, 'fifth', [6]);
  const ended = await wallet.checkout.pay(payCommand(over.order, 'pm_card_visa'));
  assert.ok(ended.kind === 'ended' && ended.order.reason === 'card_limit', ended.kind);
  assert.equal((await intentOf(over.order)).voided, over.amount);
  await auditEvent(database, simulator, stage.event);
});

/** As providers do that accept a call and decide later: nothing is done yet, and each look says that it is being done. */
function accepting(call: 'capture' | 'void'): { desk: RefundDesk; decide(): void } {
  const { provider } = simulator;
  const under = new Set<string>();
  let decided = false;
  const processing = async (object: string): Promise<ProviderAnswer> => {
    const answer = await provider.lookup(object);
    assert.ok('view' in answer && answer.view);
    return { kind: 'pending', view: { ...answer.view, status: 'processing' } };
  };
  const accept = async (object: string, real: () => Promise<ProviderAnswer>): Promise<ProviderAnswer> => {
    if (decided) return real();
    under.add(object);
    return processing(object);
  };
  const made = deskWith({
    ...provider,
    lookup: (object) => (under.has(object) && !decided ? processing(object) : provider.lookup(object)),
    ...(call === 'capture'
      ? { capture: (command) => accept(command.object, () => provider.capture(command)) }
      : { void: (command) => accept(command.object, () => provider.void(command)) }),
  });
  return {
    desk: made,
    decide: () => {
      decided = true;
    },
  };
}

test('P2 P8: a capture that is accepted and decided later shows no code before it is; refused in the end, it undoes the sale', async () => {
  const stage = await stageEvent(database);
  const slow = accepting('capture');
  const [yes, no] = [
    await reserved(slow.desk, stage, 'first', [1]),
    await reserved(slow.desk, stage, 'second', [2]),
  ];
  for (const { order } of [yes, no]) {
    await slow.desk.checkout.pay(payCommand(order, 'pm_card_visa'));
    await passDeadline(database, order);
  }
  await reconcile(database, slow.desk, 6);
  for (const { order } of [yes, no]) {
    assert.equal(await stateOf(order), 'confirmed');
    const [mails] = await database.query('SELECT count(*)::integer AS n FROM mails WHERE order_id = $1', [
      order,
    ]);
    assert.equal(mails.n, 0, 'nothing is sent before the money was taken');
  }
  // The second one's reservation ends at the provider meanwhile.
  const { id } = await intentOf(no.order);
  assert.equal((await rawCall(simulator, 'payment_intents.cancel', { id })).status, 200);
  slow.decide();
  await reconcile(database, slow.desk, 2);
  assert.deepEqual([await stateOf(yes.order), await stateOf(no.order)], ['paid', 'cancelled']);
  await bought(desk, stage, [2]);
  await auditEvent(database, simulator, stage.event);
});

test('P3: a void that is accepted and decided later is no release: not told as one, and asked for until it is done', async () => {
  const stage = await stageEvent(database);
  const slow = accepting('void');
  const { order, amount } = await reserved(slow.desk, stage, 'first', [1]);
  await loseSeats(database, order);
  await slow.desk.checkout.pay(payCommand(order, 'pm_card_visa'));
  await reconcile(database, slow.desk, 5);
  assert.equal(await stateOf(order), 'voiding');
  assert.equal((await intentOf(order)).authorised, amount);
  slow.decide();
  await reconcile(database, slow.desk, 2);
  assert.equal(await stateOf(order), 'closed');
  assert.deepEqual([(await intentOf(order)).voided, (await intentOf(order)).captured], [amount, 0]);
  await auditEvent(database, simulator, stage.event);
});

test('P6 P8: money given back by hand at the provider cancels no ticket and is not given back again; a refund that did not know of it is refused once and settled by hand', async () => {
  const stage = await stageEvent(database);
  const byHand = async (seats: number[]) => {
    const order = await bought(desk, stage, seats);
    const { id } = await intentOf(order.order);
    const sent = { payment_intent: id, amount: String(order.amount) };
    assert.equal((await rawCall(simulator, 'refunds.create', sent)).status, 200);
    return { order, id };
  };
  const tell = async (id: string) => {
    for (const type of ['charge.refunded', 'refund.created', 'charge.refund.updated', 'refund.updated']) {
      await desk.checkout.providerEvent({ id: `evt_${type}_${id}`, type, object: id });
    }
    await reconcile(database, desk, 2);
  };
  const listed = async () =>
    (await listEntries(desk.db, { event: stage.event, after: null, limit: 100 })).map(({ kind }) => kind);

  const { order, id } = await byHand([0, 1]);
  await tell(id);
  assert.equal(await stateOf(order.order), 'paid');
  assert.equal((await ticketsOfOrder(desk.db, stage.event, order.order)).length, 2);
  assert.deepEqual(await listed(), ['foreign_refund']);
  const outcome = await desk.refunds.make(refundOf(order));
  assert.ok(outcome.kind === 'made', outcome.kind);
  assert.deepEqual([outcome.refund.state, outcome.refund.amount], ['done', 0]);

  // The provider does not say beforehand what it has given back.
  const silent = refundDesk(database.url, {
    ...simulator.provider,
    refunds: async () => ({ kind: 'unknown', reason: 'timeout', detail: 'silence' }),
  });
  const unknowing = await byHand([2]);
  const refused = await silent.refunds.make(refundOf(unknowing.order));
  await silent.close();
  assert.ok(refused.kind === 'made' && refused.refund.state === 'failed', JSON.stringify(refused));
  await tell(unknowing.id);
  assert.deepEqual((await listed()).sort(), ['foreign_refund', 'foreign_refund', 'refund_gone_back']);
  const { refund } = refused.refund;
  const settled = await desk.refunds.elsewhere(refund, 'organiser', 'by hand at the provider');
  assert.equal(settled.kind, 'elsewhere');
  for (const of of [id, unknowing.id]) {
    assert.equal((await simulator.ledger()).refunds.filter(({ intent }) => intent === of).length, 1);
  }
  await auditEvent(database, simulator, stage.event);
});
