import assert from 'node:assert/strict';
import test from 'node:test';
import type { PaymentProvider, PaymentView } from '../../src/payments/provider.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { loseSeats, makeDue, passDeadline, setPhase } from '../support/acts.ts';
import { checkoutDesk } from '../support/checkout-desk.ts';
import { auditEvent, payCommand, reconcile, reserved, stageEvent } from '../support/stage.ts';

const { database, simulator, desk, deskWith } = await checkoutDesk({ timeoutMs: 1_000 });

const stateOf = async (order: string) => (await desk.checkout.find(order))?.state;
const lastOperation = async (order: string) => (await desk.record.operationsOf(order)).at(-1)!;
const intentOf = async (order: string) =>
  (await simulator.ledger()).intents.find(({ reference }) => reference === order);

for (const fault of [
  'drop_after',
  'error_500_after',
  'delay',
  'drop_before',
  'error_500_before',
  'rate_limit',
] as const) {
  test(`P4: authorise ends in ${fault}: unknown, the seats stay, reconciling ends it paid once`, async () => {
    const stage = await stageEvent(database);
    const order = await reserved(desk, stage, 'buyer1', [1]);
    await simulator.fault(fault, { match: { route: 'confirm', reference: order.order }, delayMs: 1_500 });
    const answer = await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'));
    assert.ok(answer.kind === 'pending', answer.kind);
    const operation = await lastOperation(order.order);
    assert.equal(operation.state, 'unknown');
    assert.ok(operation.dueAt !== null);
    assert.equal((await desk.checkout.close(order.order)).kind, 'under_way');
    await simulator.clearFaults();
    await reconcile(database, desk, 1);
    assert.equal(await stateOf(order.order), 'paid');
    assert.equal((await auditEvent(database, simulator, stage.event)).captured, order.amount);
    assert.equal((await intentOf(order.order))?.confirmations, 1);
  });

  test(`P8: capture ends in ${fault}: sold, taken exactly once after reconciling`, async () => {
    const stage = await stageEvent(database);
    const order = await reserved(desk, stage, 'buyer1', [1]);
    await simulator.fault(fault, { match: { route: 'capture', reference: order.order }, delayMs: 1_500 });
    const answer = await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'));
    assert.ok(answer.kind === 'bought', answer.kind);
    assert.equal(answer.order.state, 'confirmed');
    await simulator.clearFaults();
    await reconcile(database, desk, 1);
    assert.equal(await stateOf(order.order), 'paid');
    assert.equal((await auditEvent(database, simulator, stage.event)).captured, order.amount);
  });

  test(`P3: confirm impossible and void ends in ${fault}: nothing charged, no authorisation left`, async () => {
    const stage = await stageEvent(database);
    const order = await reserved(desk, stage, 'buyer1', [1]);
    await loseSeats(database, order.order);
    await simulator.fault(fault, { match: { route: 'cancel', reference: order.order }, delayMs: 1_500 });
    const answer = await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'));
    assert.ok(answer.kind === 'ended', answer.kind);
    assert.equal(answer.order.state, 'voiding');
    await simulator.clearFaults();
    await reconcile(database, desk, 1);
    const closed = await desk.checkout.find(order.order);
    assert.equal(closed?.state, 'closed');
    assert.equal(closed?.reason, 'seats_lost');
    await auditEvent(database, simulator, stage.event);
  });

  test(`opening ends in ${fault}: no second object is paid`, async () => {
    const stage = await stageEvent(database);
    const order = await reserved(desk, stage, 'buyer1', [1]);
    await simulator.fault(fault, { match: { route: 'create' }, delayMs: 1_500 });
    const first = await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'));
    assert.notEqual(first.kind, 'bought');
    await simulator.clearFaults();
    // A key in use causes a conflict until the delayed call has ended.
    while ((await lastOperation(order.order)).state === 'unknown') await reconcile(database, desk, 1);
    assert.equal((await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'))).kind, 'bought');
    await auditEvent(database, simulator, stage.event);
  });
}

test('P3: confirm impossible: voided at once, told, nothing charged, the seat is free again', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1, 2]);
  await database.query('UPDATE seats SET order_id = NULL WHERE event_no = $1 AND seat_no = 2', [stage.event]);
  const answer = await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'));
  assert.ok(answer.kind === 'ended');
  assert.equal(answer.order.state, 'closed');
  assert.equal((await intentOf(order.order))?.status, 'canceled');
  await database.query(`UPDATE seats SET state = 'available' WHERE event_no = $1 AND seat_no = 2`, [
    stage.event,
  ]);
  await auditEvent(database, simulator, stage.event);
});

test('P3: the event is cancelled while the bank decides: confirm refuses, nothing is charged', async () => {
  const stage = await stageEvent(database);
  const cancelling = deskWith({
    ...simulator.provider,
    authorise: async (command) => {
      const answer = await simulator.provider.authorise(command);
      await setPhase(database, stage.event, 'cancelled');
      return answer;
    },
  });
  const order = await reserved(desk, stage, 'buyer1', [1]);
  const answer = await cancelling.checkout.pay(payCommand(order.order, 'pm_card_visa'));
  assert.ok(answer.kind === 'ended');
  assert.equal(answer.order.reason, 'event_cancelled');
  await auditEvent(database, simulator, stage.event);
});

test('a capture that is finally refused undoes the sale: tickets cancelled, seats and limits back, nothing charged', async () => {
  const stage = await stageEvent(database, { settings: { accountSeatsMax: 2 } });
  const refusing = deskWith({
    ...simulator.provider,
    capture: async () => ({
      kind: 'refused',
      decline: 'declined',
      detail: 'expired for capture',
      view: null,
    }),
  });
  const order = await reserved(desk, stage, 'buyer1', [1, 2]);
  const answer = await refusing.checkout.pay(payCommand(order.order, 'pm_card_visa'));
  assert.ok(answer.kind === 'ended');
  assert.equal(answer.order.state, 'cancelled');
  assert.equal(answer.order.reason, 'capture_refused');
  await reconcile(database, desk);
  await auditEvent(database, simulator, stage.event);
  const again = await reserved(desk, stage, 'buyer1', [1, 2]);
  assert.equal((await desk.checkout.pay(payCommand(again.order, 'pm_card_visa'))).kind, 'bought');
});

for (const [which, skewMs] of [
  ['ahead', 3_600_000],
  ['behind', -3_600_000],
] as const) {
  test(`S6: a process whose clock is an hour ${which} ends a payment at its deadline, not before and not later`, async () => {
    const stage = await stageEvent(database);
    const skewed = deskWith(simulator.provider, {
      clock: { ...systemClock, now: () => systemClock.now() + skewMs },
    });
    const order = await reserved(skewed, stage, 'buyer1', [1]);
    const asked = await skewed.checkout.pay(payCommand(order.order, 'pm_card_authenticationRequired'));
    assert.ok(asked.kind === 'pending' && asked.action, 'she is at her bank');
    await reconcile(database, skewed, 1);
    assert.equal((await lastOperation(order.order)).state, 'waiting');
    assert.equal(await stateOf(order.order), 'reserved');
    await passDeadline(database, order.order);
    await reconcile(database, skewed, 2);
    assert.equal(await stateOf(order.order), 'closed');
    await auditEvent(database, simulator, stage.event);
  });
}

test('P4: the provider is gone for good at the deadline: the seats stay, and the first answer decides', async () => {
  const stage = await stageEvent(database);
  const done = await reserved(desk, stage, 'buyer1', [1]);
  const undone = await reserved(desk, stage, 'buyer2', [2]);
  await simulator.fault('drop_after', { match: { route: 'confirm', reference: done.order } });
  await simulator.fault('drop_before', { match: { route: 'confirm', reference: undone.order } });
  for (const { order } of [done, undone]) {
    assert.equal((await desk.checkout.pay(payCommand(order, 'pm_card_visa'))).kind, 'pending');
    await passDeadline(database, order);
  }
  await simulator.kill();
  await reconcile(database, desk, 4);
  for (const { order } of [done, undone]) assert.equal(await stateOf(order), 'reserved');
  const [seats] = await database.query(
    `SELECT count(*)::integer AS n FROM seats WHERE event_no = $1 AND state = 'reserved'`,
    [stage.event],
  );
  assert.equal(seats.n, 2);
  const gaps = await database.query(
    `SELECT extract(epoch FROM due_at - now()) AS s FROM money_operations WHERE due_at IS NOT NULL`,
  );
  for (const { s } of gaps) assert.ok(Number(s) <= 60, `looked at within ${s} s`);
  await simulator.restart();
  await reconcile(database, desk);
  // Reserved in time, as far as the provider knows: it buys. Never arrived: it ends.
  assert.equal(await stateOf(done.order), 'paid');
  assert.equal(await stateOf(undone.order), 'closed');
  await auditEvent(database, simulator, stage.event);
});

test('P6: a response with another amount or currency never sells; the payment is voided', async () => {
  for (const change of [{ amount: 1 }, { currency: 'USD' }] satisfies Partial<PaymentView>[]) {
    const stage = await stageEvent(database);
    const lying = deskWith(lyingAbout(change));
    const order = await reserved(desk, stage, 'buyer1', [1]);
    await lying.checkout.pay(payCommand(order.order, 'pm_card_visa'));
    await reconcile(database, desk);
    const closed = await desk.checkout.find(order.order);
    assert.equal(closed?.state, 'closed');
    assert.equal(closed?.reason, 'payment_mismatch');
    assert.equal((await desk.record.operationsOf(order.order))[1]?.attention, 'payment_mismatch');
    await auditEvent(database, simulator, stage.event);
  }
});

test('P6: a response about another payment says nothing: unknown, on the list, checked again', async () => {
  for (const change of [
    { reference: 'another order' },
    { object: 'pi_other' },
  ] satisfies Partial<PaymentView>[]) {
    const stage = await stageEvent(database);
    const lying = deskWith(lyingAbout(change));
    const order = await reserved(desk, stage, 'buyer1', [1]);
    const answer = await lying.checkout.pay(payCommand(order.order, 'pm_card_visa'));
    assert.notEqual(answer.kind, 'bought');
    assert.notEqual(await stateOf(order.order), 'paid');
    await reconcile(database, desk);
    assert.ok(['paid', 'closed'].includes((await stateOf(order.order)) ?? ''));
    await auditEvent(database, simulator, stage.event);
  }
});

/** The provider with something changed in every view of an authorisation. */
function lyingAbout(change: Partial<PaymentView>): PaymentProvider {
  return {
    ...simulator.provider,
    authorise: async (command) => {
      const answer = await simulator.provider.authorise(command);
      return answer.kind === 'done' ? { kind: 'done', view: { ...answer.view, ...change } } : answer;
    },
  };
}

test('P3: a success of an order that its buyer has ended is voided together with its object although no event reports it', async () => {
  const stage = await stageEvent(database);
  const mistaken = deskWith({
    ...simulator.provider,
    authorise: async (command) => {
      await simulator.provider.authorise(command);
      return { kind: 'refused', decline: 'declined', detail: 'mistaken', view: null };
    },
  });
  const order = await reserved(desk, stage, 'buyer1', [1]);
  await mistaken.checkout.pay(payCommand(order.order, 'pm_card_visa'));
  await desk.checkout.close(order.order);
  await reconcile(database, desk, 1);
  await auditEvent(database, simulator, stage.event);
});

test('the provider cancels by itself: the order may open a new object and still be paid', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1]);
  const pending = await desk.checkout.pay(payCommand(order.order, 'pm_card_threeDSecure2Required'));
  assert.equal(pending.kind, 'pending');
  await simulator.provider.void({ key: 'by itself', object: (await intentOf(order.order))!.id });
  assert.equal((await desk.checkout.refresh(order.order)).kind, 'declined');
  assert.equal((await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'))).kind, 'bought');
  await auditEvent(database, simulator, stage.event);
});

test('P5: a network retry repeats the key that its row had before the first call: open, authorise, capture, void', async () => {
  const sent: { call: string; key: string; written: boolean }[] = [];
  const watched = (call: 'open' | 'authorise' | 'capture' | 'void') => async (command: { key: string }) => {
    const [row] = await database.query('SELECT 1 FROM money_operations WHERE key = $1 OR end_key = $1', [
      command.key,
    ]);
    sent.push({ call, key: command.key, written: row !== undefined });
    return simulator.provider[call](command as never);
  };
  const watching = deskWith({
    ...simulator.provider,
    open: watched('open'),
    authorise: watched('authorise'),
    capture: watched('capture'),
    void: watched('void'),
  });
  const stage = await stageEvent(database);
  const sold = await reserved(watching, stage, 'buyer1', [1]);
  const lost = await reserved(watching, stage, 'buyer2', [2]);
  await loseSeats(database, lost.order);
  for (const { order } of [sold, lost]) {
    const command = payCommand(order, 'pm_card_visa');
    const routes = ['create', 'confirm', 'capture', 'cancel'];
    for (let healthy = 0; healthy <= routes.length; healthy += 1) {
      await simulator.clearFaults();
      for (const route of routes.slice(healthy)) await simulator.fault('drop_before', { match: { route } });
      await reconcile(database, watching, 1);
      await watching.checkout.pay(command);
      await reconcile(database, watching, 2);
    }
    await watching.checkout.pay(command);
  }
  assert.equal(await stateOf(sold.order), 'paid');
  assert.equal(await stateOf(lost.order), 'closed');
  for (const call of ['open', 'authorise', 'capture', 'void']) {
    const keys = sent.filter((one) => one.call === call);
    const orders = call === 'capture' || call === 'void' ? 1 : 2;
    assert.equal(new Set(keys.map(({ key }) => key)).size, orders, `keys of ${call}`);
    assert.ok(keys.length > orders, `${call} was sent again`);
  }
  assert.ok(sent.every(({ written }) => written));
  await auditEvent(database, simulator, stage.event);
});

test('P5: a key older than 20 h is never sent again', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1]);
  await simulator.fault('drop_before', { match: { route: 'capture', reference: order.order } });
  assert.equal((await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'))).kind, 'bought');
  await simulator.clearFaults();
  const sent: string[] = [];
  const watching = deskWith({
    ...simulator.provider,
    capture: (command) => {
      sent.push(command.key);
      return simulator.provider.capture(command);
    },
  });
  const { key: oldKey } = await lastOperation(order.order);
  await database.query(
    `UPDATE money_operations SET first_sent_at = now() - interval '21 hours' WHERE order_id = $1 AND kind = 'capture'`,
    [order.order],
  );
  await reconcile(database, watching, 2);
  assert.equal(sent.length, 1);
  assert.notEqual(sent[0], oldKey);
  await auditEvent(database, simulator, stage.event);
});

test('two reconcilers at once share the work: each operation is driven once', async () => {
  const stage = await stageEvent(database);
  const orders = [];
  await simulator.fault('drop_before', { match: { route: 'confirm' } });
  for (let seat = 0; seat < 8; seat += 1) {
    const order = await reserved(desk, stage, `visitor-${seat}`, [seat]);
    await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'));
    orders.push(order.order);
  }
  await simulator.clearFaults();
  const other = deskWith(simulator.provider);
  await other.reconciler.runOnce();
  await desk.reconciler.runOnce();
  const before = await desk.record.operationsOf(orders.at(-1)!);
  assert.equal(before.at(-1)?.state === 'unknown' || before.at(-1)?.state === 'done', true);
  await makeDue(database);
  const open = await database.query(`SELECT 1 FROM money_operations WHERE due_at <= now()`);
  const passes = await Promise.all([desk.reconciler.runOnce(), other.reconciler.runOnce()]);
  assert.equal(passes[0].driven + passes[1].driven, open.length);
  assert.equal((await auditEvent(database, simulator, stage.event)).paid, 8);
});
