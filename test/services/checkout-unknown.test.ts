import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import test from 'node:test';
import type { FaultKind } from '../../payment-simulator/faults.ts';
import { ambiguousOrders } from '../../src/orders/money-figures.ts';
import { listEntries } from '../../src/orders/operator-list.ts';
import type { PaymentProvider, PaymentView, ProviderAnswer } from '../../src/payments/provider.ts';
import { loseSeats, passDeadline } from '../support/acts.ts';
import { until } from '../support/app.ts';
import { checkoutDesk } from '../support/checkout-desk.ts';
import { testLoops } from '../support/loops.ts';
import { auditEvent, payCommand, reconcile, reserved, stageEvent } from '../support/stage.ts';
import { pause } from '../support/wait.ts';

const { database, simulator, desk, deskWith } = await checkoutDesk({ timeoutMs: 1_000 });

const find = async (order: string) => (await desk.checkout.find(order))!;
const stateOf = async (order: string) => (await find(order)).state;
const listed = (event: number) => listEntries(desk.db, { event, after: null, limit: 100 });
const operationsOf = (order: string) => desk.record.operationsOf(order);
const last = async (order: string) => (await operationsOf(order)).at(-1)!;
const intentOf = async (order: string) =>
  (await simulator.ledger()).intents.find(({ reference }) => reference === order)!;

/** A provider whose every answer about one order's payment is changed. */
function changing(order: () => string, change: (answer: ProviderAnswer) => ProviderAnswer): PaymentProvider {
  const of = (answer: ProviderAnswer) =>
    'view' in answer && answer.view?.reference === order() ? change(answer) : answer;
  const { provider } = simulator;
  return {
    ...provider,
    authorise: async (command) => of(await provider.authorise(command)),
    capture: async (command) => of(await provider.capture(command)),
    void: async (command) => of(await provider.void(command)),
    lookup: async (object) => of(await provider.lookup(object)),
  };
}

test('P4: a stored 500 of work that was never done: replayed for ever, ended by a look and a new key, each call', async () => {
  const stage = await stageEvent(database);
  const routes = ['create', 'confirm', 'capture', 'cancel'] as const;
  const orders = [];
  for (const [seat, route] of routes.entries()) {
    const { order } = await reserved(desk, stage, `visitor-${route}`, [seat]);
    if (route === 'cancel') await loseSeats(database, order);
    await simulator.fault('error_500_stored', { match: { route, reference: order }, times: 1 });
    await desk.checkout.pay(payCommand(order, 'pm_card_visa'));
    orders.push(order);
  }
  await reconcile(database, desk, 6);
  // It was opened under a new key meanwhile; no card was tried for it, so the buyer pays.
  const [opening, ...rest] = orders;
  assert.equal((await last(opening!)).state, 'done');
  assert.equal((await desk.checkout.pay(payCommand(opening!, 'pm_card_visa'))).kind, 'bought');
  const ends = await Promise.all([opening!, ...rest].map(stateOf));
  assert.deepEqual(ends, ['paid', 'paid', 'paid', 'closed']);
  for (const order of rest) assert.equal((await intentOf(order)).confirmations, 1);
  await auditEvent(database, simulator, stage.event);
});

const noVerdicts = [
  'key_mismatch',
  'key_in_use',
  'lock_timeout',
  'unavailable',
  'cut_after',
  'error_500_stored',
  'closed',
] as const satisfies readonly FaultKind[];

test(`P4: authorise, capture and void end in ${noVerdicts.join(', ')}: unknown, kept, counted, ended once it is over`, async () => {
  const stage = await stageEvent(database, { seats: noVerdicts.length * 3 });
  const routes = ['confirm', 'capture', 'cancel'] as const;
  const orders: { order: string; route: (typeof routes)[number]; fault: string }[] = [];
  for (const [row, fault] of noVerdicts.entries()) {
    await Promise.all(
      routes.map(async (route, column) => {
        const { order } = await reserved(desk, stage, `${fault}-${route}`, [row * 3 + column]);
        if (route === 'cancel') await loseSeats(database, order);
        // Away is away for all: only its own call finds it so.
        if (fault !== 'closed') await simulator.fault(fault, { match: { route, reference: order } });
        orders.push({ order, route, fault });
      }),
    );
  }
  const shut = orders.filter(({ fault }) => fault === 'closed');
  const dying = deskWith({
    ...simulator.provider,
    authorise: (command) => goneAt('confirm', () => simulator.provider.authorise(command), command.object),
    capture: (command) => goneAt('capture', () => simulator.provider.capture(command), command.object),
    void: (command) => goneAt('cancel', () => simulator.provider.void(command), command.object),
  });
  async function goneAt<Answer>(route: string, call: () => Promise<Answer>, object: string): Promise<Answer> {
    const intent = (await simulator.ledgerOf(object)).intents[0];
    if (!shut.some((one) => one.route === route && one.order === intent?.reference)) return call();
    const id = await simulator.fault('closed');
    try {
      return await call();
    } finally {
      await simulator.endFault(id);
    }
  }
  // One after the other: while the provider is away, it is so for everybody.
  for (const { order } of orders) await dying.checkout.pay(payCommand(order, 'pm_card_visa'));
  const expected = { confirm: 'reserved', capture: 'confirmed', cancel: 'voiding' };
  for (const { order, route, fault } of orders) {
    assert.equal(await stateOf(order), expected[route], `${route} ${fault}`);
    const { state, dueAt } = await last(order);
    assert.ok(
      state === (route === 'cancel' ? 'ending' : 'unknown') && dueAt !== null,
      `${route} ${fault} is ${state}`,
    );
  }
  const figures = await ambiguousOrders(desk.db, stage.event);
  assert.equal(
    figures.reduce((sum, { orders: n }) => sum + n, 0),
    orders.length,
  );
  assert.deepEqual(figures.map(({ kind, state, order }) => `${kind} ${state} ${order}`).sort(), [
    'authorise ending voiding',
    'authorise unknown reserved',
    'capture unknown confirmed',
  ]);
  await simulator.clearFaults();
  await reconcile(database, desk, 5);
  for (const { order, route, fault } of orders) {
    assert.equal(await stateOf(order), route === 'cancel' ? 'closed' : 'paid', `${route} ${fault}`);
  }
  assert.deepEqual(await ambiguousOrders(desk.db, stage.event), []);
  await auditEvent(database, simulator, stage.event);
});

test('P5: after a reset connection the SDK sends the same request again: one confirmation, one charge', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1]);
  for (const route of ['create', 'confirm', 'capture'])
    await simulator.fault('drop_after', { match: { route }, times: 1 });
  assert.equal((await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'))).kind, 'bought');
  await simulator.clearFaults();
  const intents = (await simulator.ledger()).intents.filter(({ reference }) => reference === order.order);
  assert.deepEqual(
    intents.map(({ confirmations }) => confirmations),
    [1],
  );
  await auditEvent(database, simulator, stage.event);
});

test("P5: a void's key older than 20 h is never sent again either", async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1]);
  await loseSeats(database, order.order);
  await simulator.fault('drop_before', { match: { route: 'cancel', reference: order.order } });
  await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'));
  await simulator.clearFaults();
  const { endKey } = await last(order.order);
  await database.query(
    `UPDATE money_operations SET first_sent_at = now() - interval '21 hours' WHERE order_id = $1 AND state = 'ending'`,
    [order.order],
  );
  const sent: string[] = [];
  const watching = deskWith({
    ...simulator.provider,
    void: (command) => {
      sent.push(command.key);
      return simulator.provider.void(command);
    },
  });
  await reconcile(database, watching, 2);
  assert.equal(sent.length, 1);
  assert.notEqual(sent[0], endKey);
  assert.equal(await stateOf(order.order), 'closed');
  await auditEvent(database, simulator, stage.event);
});

// The reservation's own deadline.

test('P4: until when the money can be taken is the order’s; its last day is on the operator’s list, and an expired one undoes the sale', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1, 2]);
  await simulator.fault('hold_short', { match: { reference: order.order }, delayMs: 3_000 });
  await simulator.fault('drop_before', { match: { route: 'capture', reference: order.order } });
  const from = Date.now();
  assert.equal((await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'))).kind, 'bought');
  const { captureBefore } = await find(order.order);
  assert.ok(captureBefore && captureBefore > from && captureBefore < from + 10_000, `${captureBefore}`);
  await reconcile(database, desk, 1);
  const [entry] = await listed(stage.event);
  assert.deepEqual([entry?.operation?.kind, entry?.kind], ['capture', 'capture_window']);
  await until(
    async () => (await intentOf(order.order)).status === 'canceled',
    'the reservation to end by itself',
  );
  await simulator.clearFaults();
  await reconcile(database, desk, 2);
  const { state, reason } = await find(order.order);
  assert.deepEqual([state, reason], ['cancelled', 'capture_refused']);
  await auditEvent(database, simulator, stage.event);
  assert.equal(
    (
      await desk.checkout.pay(
        payCommand((await reserved(desk, stage, 'buyer2', [1, 2])).order, 'pm_card_visa'),
      )
    ).kind,
    'bought',
  );
});

test('P3: reserved as the provider says, not to be captured, and its time over: finally refused, and released', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1]);
  const refusing = deskWith({
    ...simulator.provider,
    capture: async () => ({ kind: 'unknown', reason: 'conflict', detail: 'reserved, yet not capturable' }),
  });
  assert.equal((await refusing.checkout.pay(payCommand(order.order, 'pm_card_visa'))).kind, 'bought');
  await reconcile(database, refusing, 4);
  assert.equal(await stateOf(order.order), 'confirmed', 'while its time lasts, nobody can say');
  await database.query(`UPDATE orders SET capture_before = now() - interval '1 second' WHERE order_id = $1`, [
    order.order,
  ]);
  await reconcile(database, refusing, 2);
  assert.equal(await stateOf(order.order), 'cancelled');
  assert.equal((await intentOf(order.order)).status, 'canceled');
  await auditEvent(database, simulator, stage.event);
});

for (const fault of ['capture_refused', 'hold_lost'] as const) {
  test(`P3: a capture that ends in ${fault} undoes the sale, and no reservation is left`, async () => {
    const stage = await stageEvent(database, { settings: { accountSeatsMax: 1 } });
    const order = await reserved(desk, stage, 'buyer1', [1]);
    await simulator.fault(fault, { match: { reference: order.order } });
    const answer = await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'));
    assert.equal(answer.kind === 'ended' && answer.order.reason, 'capture_refused');
    await simulator.clearFaults();
    await reconcile(database, desk, 1);
    assert.equal((await intentOf(order.order)).status, 'canceled');
    const again = await reserved(desk, stage, 'buyer1', [1]);
    assert.equal((await desk.checkout.pay(payCommand(again.order, 'pm_card_visa'))).kind, 'bought');
    await auditEvent(database, simulator, stage.event);
  });
}

// Ends that do not come.

test('P2, P3: while a void is refused the order waits to be released: it is no sale, nothing can be captured, and it is on the operator’s list', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1]);
  await loseSeats(database, order.order);
  await simulator.fault('void_refused', { match: { reference: order.order } });
  await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'));
  await reconcile(database, desk, 6);
  assert.equal(await stateOf(order.order), 'voiding');
  const ids = { capture: randomUUID(), captureKey: 'k', endKey: 'e' };
  assert.equal((await desk.record.confirm(order.order, ids, { owner: 'o', leaseMs: 1 })).kind, 'decided');
  assert.equal((await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'))).kind, 'ended');
  assert.ok((await operationsOf(order.order)).every(({ kind }) => kind !== 'capture'));
  assert.deepEqual(
    (await listed(stage.event)).map(({ kind }) => kind),
    ['void_refused'],
  );
  await simulator.clearFaults();
  await reconcile(database, desk, 2);
  assert.equal(await stateOf(order.order), 'closed');
  await auditEvent(database, simulator, stage.event);
});

test('P4: a payment that the provider goes on processing keeps its seats beyond every deadline, is counted by age, and ends with its word', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1]);
  let processing = true;
  const slow = deskWith(
    changing(
      () => order.order,
      (answer) =>
        processing && 'view' in answer && answer.view
          ? { kind: 'pending', view: { ...answer.view, status: 'processing' } satisfies PaymentView }
          : answer,
    ),
  );
  // Its void is not possible at present, as of a real one that is being processed.
  await simulator.fault('void_refused', { match: { reference: order.order } });
  assert.equal((await slow.checkout.pay(payCommand(order.order, 'pm_card_visa'))).kind, 'pending');
  await passDeadline(database, order.order);
  await database.query(
    `UPDATE money_operations SET created_at = now() - interval '2 hours' WHERE order_id = $1`,
    [order.order],
  );
  await reconcile(database, slow, 6);
  assert.equal(await stateOf(order.order), 'reserved');
  const [seat] = await database.query('SELECT state FROM seats WHERE event_no = $1 AND seat_no = 1', [
    stage.event,
  ]);
  assert.equal(seat.state, 'reserved');
  const [figure, ...more] = await ambiguousOrders(desk.db, stage.event);
  assert.deepEqual(more, []);
  assert.deepEqual(
    [figure?.kind, figure?.state, figure?.orders, figure?.older],
    ['authorise', 'ending', 1, 1],
  );
  assert.ok(figure!.oldestMs >= 7_200_000);
  assert.ok((await listed(stage.event)).some((one) => one.order === order.order));
  processing = false;
  await simulator.clearFaults();
  await reconcile(database, slow, 2);
  // It had been authorised all the time.
  assert.equal(await stateOf(order.order), 'paid');
  await auditEvent(database, simulator, stage.event);
});

test('P2, P8: money that another hand captures before the sale is known buys the seats; of an order that ends, all goes back', async () => {
  const stage = await stageEvent(database);
  const sold = await reserved(desk, stage, 'buyer1', [1]);
  const lost = await reserved(desk, stage, 'buyer2', [2]);
  await loseSeats(database, lost.order);
  const hasty = deskWith({
    ...simulator.provider,
    authorise: async (command) => {
      const answer = await simulator.provider.authorise(command);
      await simulator.provider.capture({
        key: `by hand ${command.object}`,
        object: command.object,
        amount: sold.amount,
      });
      assert.equal(answer.kind, 'done');
      return { kind: 'unknown', reason: 'timeout', detail: 'lost' };
    },
  });
  for (const { order } of [sold, lost]) {
    assert.equal((await hasty.checkout.pay(payCommand(order, 'pm_card_visa'))).kind, 'pending');
  }
  await reconcile(database, hasty, 2);
  assert.equal(await stateOf(sold.order), 'paid');
  assert.equal(await stateOf(lost.order), 'closed');
  const intent = await intentOf(lost.order);
  assert.deepEqual([intent.captured, intent.refunded], [lost.amount, lost.amount]);
  assert.deepEqual((await auditEvent(database, simulator, stage.event)).captured, sold.amount);
});

test('P8: giving back what was taken of an ended order survives lost answers and refusals: given back once', async () => {
  const stage = await stageEvent(database);
  const faults = [
    'drop_after',
    'error_500_after',
    'error_500_stored',
    'refund_pending',
    'refund_insufficient_balance',
  ] as const;
  const orders = [];
  for (const [seat, fault] of faults.entries()) {
    const order = await reserved(desk, stage, fault, [seat]);
    await loseSeats(database, order.order);
    const hasty = deskWith({
      ...simulator.provider,
      authorise: async (command) => {
        const answer = await simulator.provider.authorise(command);
        await simulator.provider.capture({
          key: `by hand ${command.object}`,
          object: command.object,
          amount: order.amount,
        });
        return answer;
      },
    });
    await simulator.fault(fault, { match: { route: 'refunds.create', reference: order.order } });
    await hasty.checkout.pay(payCommand(order.order, 'pm_card_visa'));
    orders.push(order);
  }
  await reconcile(database, desk, 2);
  await simulator.clearFaults();
  await reconcile(database, desk, 5);
  for (const order of orders) {
    assert.equal(await stateOf(order.order), 'closed');
    assert.equal((await intentOf(order.order)).refunded, order.amount);
  }
  await simulator.settleRefunds();
  await auditEvent(database, simulator, stage.event);
});

// Several at the same payment.

test('P1: a card that was refused by mistake and another that pays: ending the first takes nothing from the second', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1]);
  await desk.checkout.pay(payCommand(order.order, 'pm_card_chargeDeclined'));
  const first = await last(order.order);
  assert.equal((await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'))).kind, 'bought');
  const { claimOf } = desk.checkout.payments;
  const ended = await desk.record.end(first.operation, 'seats_lost', 'end of the first', claimOf);
  assert.equal(ended.operation.state, 'refused');
  const voided = await desk.record.voided(first.operation, { detail: 'of the first' });
  assert.equal(voided.kind, 'settled');
  await reconcile(database, desk, 1);
  assert.equal(await stateOf(order.order), 'paid');
  await auditEvent(database, simulator, stage.event);
});

test('P1, P6: the page, the provider’s event and the reconciler at one success in the same instant: captured once', async () => {
  const stage = await stageEvent(database);
  const calls: string[] = [];
  const counting = deskWith({
    ...simulator.provider,
    capture: (command) => {
      calls.push(command.key);
      return simulator.provider.capture(command);
    },
  });
  for (let round = 0; round < 3; round += 1) {
    const order = await reserved(desk, stage, `visitor-${round}`, [round]);
    const asked = await desk.checkout.pay(payCommand(order.order, 'pm_card_threeDSecure2Required'));
    assert.ok(asked.kind === 'pending' && asked.action);
    await simulator.answerBank(asked.action.url, 'authorise');
    const { id: object } = await intentOf(order.order);
    for (const n of [1, 2, 3])
      await counting.checkout.providerEvent({ id: `evt_${object}_${n}`, type: 'x', object });
    await database.query('UPDATE money_operations SET due_at = now() WHERE due_at IS NOT NULL');
    await Promise.all([
      counting.checkout.refresh(order.order),
      counting.checkout.refresh(order.order),
      counting.inbox.runOnce(),
      counting.inbox.runOnce(),
      counting.reconciler.runOnce(),
    ]);
    await reconcile(database, counting, 1);
    assert.equal(await stateOf(order.order), 'paid');
  }
  assert.equal(new Set(calls).size, 3);
  assert.equal((await auditEvent(database, simulator, stage.event)).paid, 3);
});

test('D3: a provider that says nothing keeps no unpaid order from being closed', async () => {
  const stage = await stageEvent(database);
  const hanging = await reserved(desk, stage, 'buyer1', [1]);
  await simulator.fault('drop_before', { match: { route: 'confirm', reference: hanging.order } });
  await desk.checkout.pay(payCommand(hanging.order, 'pm_card_visa'));
  await simulator.clearFaults();
  const gone = new AbortController();
  const silent = deskWith({
    ...simulator.provider,
    lookup: async () => {
      await pause(60_000, 'the provider does not answer', gone.signal).catch(() => {});
      return { kind: 'unknown', reason: 'timeout', detail: 'silence' };
    },
  });
  await database.query(
    'UPDATE money_operations SET due_at = now(), claimed_until = NULL WHERE due_at IS NOT NULL',
  );
  const loops = testLoops();
  silent.reconciler.start(loops);
  try {
    await until(async () => (await last(hanging.order)).attempts > 1, 'the silent payment to be looked at');
    const unpaid = await reserved(desk, stage, 'buyer2', [2]);
    await passDeadline(database, unpaid.order);
    await until(async () => (await stateOf(unpaid.order)) === 'closed', 'the other order to be closed');
  } finally {
    gone.abort();
    await loops.stop();
  }
  await reconcile(database, desk, 2);
  await auditEvent(database, simulator, stage.event);
});
