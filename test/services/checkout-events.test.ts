import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import test from 'node:test';
import { fastify } from 'fastify';
import { createErrorHandler } from '../../src/http/errors.ts';
import { registerWebhooks } from '../../src/http/webhooks.ts';
import { listEntries } from '../../src/orders/operator-list.ts';
import { orderHistory } from '../../src/orders/orders.ts';
import type { PaymentProvider } from '../../src/payments/provider.ts';
import { cleanProviderEvents } from '../../src/retention/cleaning.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { loseSeats, makeDue, passDeadline } from '../support/acts.ts';
import { until } from '../support/app.ts';
import { checkoutDesk } from '../support/checkout-desk.ts';
import { testLoops } from '../support/loops.ts';
import { openPayment } from '../support/simulator.ts';
import { auditEvent, payCommand, reconcile, reserved, stageEvent } from '../support/stage.ts';
import { pause } from '../support/wait.ts';

const { database, simulator, desk, deskWith } = await checkoutDesk({ timeoutMs: 1_000 });

const stateOf = async (order: string) => (await desk.checkout.find(order))?.state;
const intentsOf = async (order: string) =>
  (await simulator.ledger()).intents.filter(({ reference }) => reference === order);
const event = (object: string, id: string = `evt_${randomUUID()}`) => ({
  id,
  type: 'payment_intent.x',
  object,
});
const stored = async (id: string) => {
  const [row] = await database.query('SELECT * FROM provider_events WHERE provider_event_id = $1', [id]);
  return row;
};

/** Counts the calls that a look at a payment, or anything that changes one, comes to. */
function counting(): { provider: PaymentProvider; calls: Record<string, number> } {
  const calls: Record<string, number> = {};
  const provider = new Proxy(simulator.provider, {
    get: (target, name) => {
      const value = Reflect.get(target, name);
      if (typeof value !== 'function') return value;
      return (...values: unknown[]) => {
        calls[String(name)] = (calls[String(name)] ?? 0) + 1;
        return value.apply(target, values);
      };
    },
  });
  return { provider, calls };
}

test('P6: an event is stored and answered at once, however long the provider takes to say more', async () => {
  const gone = new AbortController();
  const silent = deskWith({
    ...simulator.provider,
    lookup: async () => {
      await pause(60_000, 'the provider does not answer', gone.signal).catch(() => {});
      return { kind: 'unknown', reason: 'timeout', detail: 'silence' };
    },
  });
  const loops = testLoops();
  const { wake } = silent.inbox.start(loops);
  const woken = deskWith(simulator.provider, { onProviderEvent: wake });
  try {
    const told = event('pi_slow');
    await woken.checkout.providerEvent(told);
    await until(async () => (await stored(told.id)).attempts === 1, 'the event to be looked at');
    for (let n = 0; n < 20; n += 1) await woken.checkout.providerEvent(event('pi_slow'));
    assert.equal((await stored(told.id)).processed_at, null);
  } finally {
    gone.abort();
    await loops.stop();
  }
  await database.query('DELETE FROM provider_events');
});

test('P4 P6: a provider call without an answer holds up neither the other operations nor the other events', async () => {
  const stage = await stageEvent(database);
  const patient = deskWith(simulator.providerWith({ timeoutMs: 30_000 }));
  // Its first pass takes up what a former life had claimed.
  await patient.reconciler.runOnce();
  const asked = async (seat: number) => {
    const order = await reserved(desk, stage, `buyer${seat}`, [seat]);
    const outcome = await desk.checkout.pay(payCommand(order.order, 'pm_card_threeDSecure2Required'));
    assert.ok(outcome.kind === 'pending' && outcome.action);
    await simulator.answerBank(outcome.action.url, 'authorise');
    return { order: order.order, intent: (await intentsOf(order.order))[0]!.id };
  };
  const [told, driven, toldLater, drivenLater] = [
    await asked(1),
    await asked(2),
    await asked(3),
    await asked(4),
  ];
  const dueNow = (order: string) =>
    database.query(
      'UPDATE money_operations SET due_at = clock_timestamp() WHERE order_id = $1 AND due_at IS NOT NULL',
      [order],
    );
  const silences = await Promise.all(
    [told, driven].map(({ intent }) =>
      simulator.fault('delay_before', { match: { intent, route: 'retrieve' }, delayMs: 25_000, times: 1 }),
    ),
  );
  const hanging = async () => (await simulator.struck()).delay_before === 2;
  const loops = testLoops();
  patient.inbox.start(loops);
  patient.reconciler.start(loops);
  try {
    await patient.checkout.providerEvent(event(told.intent));
    await dueNow(driven.order);
    await until(hanging, 'both calls to hang');
    await patient.checkout.providerEvent(event(toldLater.intent));
    await dueNow(drivenLater.order);
    for (const { order } of [toldLater, drivenLater]) {
      await until(
        async () => (await stateOf(order)) === 'paid',
        'an order that is paid at the same time as the silent call',
      );
    }
    for (const { order } of [told, driven])
      assert.equal(await stateOf(order), 'reserved', 'its call is still without an answer');
  } finally {
    for (const id of silences) await simulator.endFault(id);
    await simulator.restart();
    await loops.stop();
  }
  await reconcile(database, desk);
  await auditEvent(database, simulator, stage.event);
});

test('P6: the same event again is one event; fifty about one payment are one look at it', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1]);
  const asked = await desk.checkout.pay(payCommand(order.order, 'pm_card_threeDSecure2Required'));
  assert.ok(asked.kind === 'pending' && asked.action);
  await simulator.answerBank(asked.action.url, 'authorise');
  const [intent] = await intentsOf(order.order);
  const { provider, calls } = counting();
  const watching = deskWith(provider);
  const same = event(intent!.id);
  await Promise.all(Array.from({ length: 5 }, () => watching.checkout.providerEvent(same)));
  await Promise.all(Array.from({ length: 50 }, () => watching.checkout.providerEvent(event(intent!.id))));
  const pass = await watching.inbox.runOnce();
  assert.deepEqual([pass.looked, pass.processed], [1, 51]);
  assert.deepEqual(calls, { lookup: 1, capture: 1 });
  assert.equal(await stateOf(order.order), 'paid');
  await auditEvent(database, simulator, stage.event);
});

test('P6: a webhook before our own call has returned, for an object not yet ours: the same result', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1]);
  const early = deskWith({
    ...simulator.provider,
    open: async (command) => {
      const answer = await simulator.provider.open(command);
      assert.ok(answer.kind === 'done');
      await desk.checkout.providerEvent(event(answer.view.object, `created ${order.order}`));
      assert.equal((await desk.inbox.runOnce()).failed, 0);
      return answer;
    },
    authorise: async (command) => {
      const answer = await simulator.provider.authorise(command);
      const told = event(command.object);
      await Promise.all([desk.checkout.providerEvent(told), desk.checkout.providerEvent(told)]);
      await Promise.all([desk.inbox.runOnce(), desk.inbox.runOnce()]);
      return answer;
    },
  });
  assert.equal((await early.checkout.pay(payCommand(order.order, 'pm_card_visa'))).kind, 'bought');
  const [intent, ...others] = await intentsOf(order.order);
  assert.deepEqual(others, []);
  await desk.checkout.providerEvent(event(intent!.id));
  await reconcile(database, desk, 1);
  const [open] = await database.query(
    'SELECT count(*)::integer AS n FROM provider_events WHERE due_at IS NOT NULL',
  );
  assert.equal(open.n, 0);
  assert.equal((await auditEvent(database, simulator, stage.event)).captured, order.amount);
});

test('P6: the webhook alone completes a purchase whose process forgot it', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1]);
  const pending = await desk.checkout.pay(payCommand(order.order, 'pm_card_threeDSecure2Required'));
  assert.ok(pending.kind === 'pending' && pending.action);
  await simulator.answerBank(pending.action.url, 'authorise');
  const [intent] = await intentsOf(order.order);
  await desk.checkout.providerEvent(event(intent!.id));
  await desk.inbox.runOnce();
  assert.equal(await stateOf(order.order), 'paid');
  await auditEvent(database, simulator, stage.event);
});

test('P6: all events of settled orders again, in any order: nothing is sent, nothing changes', async () => {
  const stage = await stageEvent(database);
  const [paid, closed, cancelled] = [
    await reserved(desk, stage, 'buyer1', [1]),
    await reserved(desk, stage, 'buyer2', [2]),
    await reserved(desk, stage, 'buyer3', [3]),
  ];
  await desk.checkout.pay(payCommand(paid.order, 'pm_card_visa'));
  await loseSeats(database, closed.order);
  await desk.checkout.pay(payCommand(closed.order, 'pm_card_visa'));
  await simulator.fault('capture_refused', { match: { reference: cancelled.order } });
  await desk.checkout.pay(payCommand(cancelled.order, 'pm_card_visa'));
  await simulator.clearFaults();
  await reconcile(database, desk, 2);
  const orders = [paid, closed, cancelled];
  const before = await Promise.all(orders.map(({ order }) => orderHistory(desk.db, order)));
  const { provider, calls } = counting();
  const watching = deskWith(provider);
  for (let round = 0; round < 3; round += 1) {
    for (const { order } of orders.toReversed()) {
      const [intent] = await intentsOf(order);
      await watching.checkout.providerEvent(event(intent!.id));
    }
    const pass = await watching.inbox.runOnce();
    assert.deepEqual([pass.processed, pass.again, pass.failed], [3, 0, 0]);
  }
  assert.deepEqual(Object.keys(calls), ['lookup']);
  assert.deepEqual(await Promise.all(orders.map(({ order }) => stateOf(order))), [
    'paid',
    'closed',
    'cancelled',
  ]);
  assert.deepEqual(await Promise.all(orders.map(({ order }) => orderHistory(desk.db, order))), before);
  await auditEvent(database, simulator, stage.event);
});

// Objects that this installation does not know.

/** Opened at the provider, and no answer ever reaches us. */
async function openedInVain(visitor: string, seat: number, stage: { event: number; epoch: number }) {
  const order = await reserved(desk, stage, visitor, [seat]);
  await simulator.fault('drop_after', { match: { route: 'create' } });
  await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'));
  await simulator.clearFaults();
  const [intent] = await intentsOf(order.order);
  assert.equal((await desk.checkout.find(order.order))!.providerObject, null);
  return { order, object: intent!.id };
}

test('P4: an opening whose answer was lost is ended by the event of its object, and the buyer pays on that', async () => {
  const stage = await stageEvent(database);
  const { order, object } = await openedInVain('buyer1', 1, stage);
  await desk.checkout.providerEvent(event(object));
  await desk.inbox.runOnce();
  const [open, ...more] = await desk.record.operationsOf(order.order);
  assert.deepEqual([open?.state, open?.providerObject, more.length], ['done', object, 0]);
  assert.equal((await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'))).kind, 'bought');
  assert.equal((await intentsOf(order.order)).length, 1);
  await auditEvent(database, simulator, stage.event);
});

test('P3, P4: an object that is found after its order has ended, or has paid on another, is cancelled; the order stays as it is', async () => {
  const stage = await stageEvent(database);
  const ended = await openedInVain('buyer1', 1, stage);
  await passDeadline(database, ended.order.order);
  await reconcile(database, desk, 2);
  assert.equal(await stateOf(ended.order.order), 'closed');
  const paid = await openedInVain('buyer2', 2, stage);
  await database.query(`UPDATE money_operations SET state = 'refused', due_at = NULL WHERE order_id = $1`, [
    paid.order.order,
  ]);
  // While the order is being paid it has other things to do; the event waits.
  const early = event(paid.object);
  await desk.checkout.providerEvent(early);
  await desk.inbox.runOnce();
  assert.ok((await stored(early.id)).due_at !== null);
  assert.equal((await desk.checkout.pay(payCommand(paid.order.order, 'pm_card_visa'))).kind, 'bought');
  await desk.checkout.providerEvent(event(ended.object));
  await makeDue(database);
  assert.equal((await desk.inbox.runOnce()).failed, 0);
  for (const { order, object } of [ended, paid]) {
    const stray = (await intentsOf(order.order)).find(({ id }) => id === object);
    assert.equal(stray?.status, 'canceled');
  }
  assert.equal(await stateOf(ended.order.order), 'closed');
  assert.equal(await stateOf(paid.order.order), 'paid');
  assert.equal((await stored(early.id)).due_at, null);
  await auditEvent(database, simulator, stage.event);
});

test('P6: a payment that is not ours is checked with growing gaps, never changed, and after three days left to a person', async () => {
  await database.query('DELETE FROM provider_events');
  const ours = simulator.providerWith({ installation: 'ours', timeoutMs: 1_000 });
  const office = deskWith(ours);
  const nameless = await openPayment(ours, { reference: 'no order' });
  const lost = await openPayment(ours, { reference: randomUUID() });
  const events = [event(nameless.object), event(lost.object), event('pi_that_is_not_there')];
  for (const told of events) await office.checkout.providerEvent(told);
  const gaps: number[] = [];
  for (let look = 0; look < 4; look += 1) {
    assert.equal((await office.inbox.runOnce()).again, 3);
    const [row] = await database.query(
      'SELECT min(extract(epoch FROM due_at - clock_timestamp()))::float8 AS s FROM provider_events WHERE due_at IS NOT NULL',
    );
    gaps.push(Math.round(row.s));
    await makeDue(database);
  }
  assert.deepEqual(gaps, [2, 8, 32, 128]);
  await database.query(`UPDATE provider_events SET received_at = now() - interval '73 hours'`);
  assert.equal((await office.inbox.runOnce()).processed, 3);
  const list = await listEntries(desk.db, { event: null, after: null, limit: 10 });
  assert.deepEqual(list.map(({ object }) => object).sort(), events.map(({ object }) => object).sort());
  assert.ok(list.every(({ kind }) => kind === 'unknown_object'));
  const { intents } = await simulator.ledger();
  for (const { object } of [nameless, lost])
    assert.equal(intents.find(({ id }) => id === object)?.status, 'requires_payment_method');
  await database.query('DELETE FROM provider_events');
});

test('P6: events of payments that are not ours, on an account that others use too, are noted at once and never looked at again', async () => {
  await database.query('DELETE FROM provider_events');
  const ours = simulator.providerWith({ installation: 'ours', timeoutMs: 1_000 });
  const others = simulator.providerWith({ installation: 'others' });
  const office = deskWith(ours);
  const shop = await openPayment(others, { reference: randomUUID() });
  const older = await openPayment(simulator.provider, { reference: randomUUID() });
  const till = await openPayment(simulator.provider, { reference: '' });
  // Its own words are enough for the first: no look-up. The others carry no mark, as ours did once.
  const told = { ...event(shop.object), foreign: true };
  for (const one of [told, event(older.object), event(till.object)]) await office.checkout.providerEvent(one);
  assert.equal((await stored(told.id)).note, 'foreign');
  assert.deepEqual(await office.inbox.runOnce(), { looked: 2, processed: 2, again: 0, failed: 0 });
  assert.deepEqual(
    await database.query('SELECT note, count(*)::integer AS n FROM provider_events GROUP BY 1'),
    [{ note: 'foreign', n: 3 }],
  );
  assert.equal((await listEntries(office.db, { event: null, after: null, limit: 10 })).length, 0);
  // One that was made before payments were marked is ours by the record.
  const stage = await stageEvent(database);
  const { order, object } = await openedInVain('buyer1', 1, stage);
  await office.checkout.providerEvent(event(object));
  await office.inbox.runOnce();
  assert.equal((await office.record.operationsOf(order.order))[0]?.providerObject, object);
  await database.query('DELETE FROM provider_events');
});

test('P6: events are deleted some time after they ended, those that are looked at never; a repeat of a deleted one changes nothing', async () => {
  await database.query('DELETE FROM provider_events');
  const stage = await stageEvent(database);
  const { order } = await reserved(desk, stage, 'buyer1', [1]);
  assert.equal((await desk.checkout.pay(payCommand(order, 'pm_card_visa'))).kind, 'bought');
  const told = event((await intentsOf(order))[0]!.id);
  await desk.checkout.providerEvent(told);
  await desk.inbox.runOnce();
  const days = 24 * 3_600_000;
  await database.query(
    `INSERT INTO provider_events (provider_event_id, type, object, received_at, processed_at, due_at)
     SELECT 'evt_ended_' || n, 'x', 'pi_x', now() - interval '40 days', now() - n * interval '1 minute' - interval '31 days', NULL::timestamptz
     FROM generate_series(1, 2500) n
     UNION ALL SELECT 'evt_young', 'x', 'pi_x', now() - interval '40 days', now() - interval '30 days', NULL
     UNION ALL SELECT 'evt_waits', 'x', 'pi_x', now() - interval '40 days', NULL, now() + interval '1 hour'`,
  );
  const cleaned = await Promise.all([1, 2].map(() => cleanProviderEvents(desk.db, 31 * days)));
  assert.equal(cleaned[0]! + cleaned[1]! + (await cleanProviderEvents(desk.db, 31 * days)), 2_500);
  const left = await database.query('SELECT provider_event_id AS id FROM provider_events ORDER BY 1');
  assert.deepEqual(left.map(({ id }) => id).sort(), [told.id, 'evt_waits', 'evt_young'].sort());
  await database.query(
    `UPDATE provider_events SET processed_at = now() - interval '32 days' WHERE processed_at IS NOT NULL`,
  );
  assert.equal(await cleanProviderEvents(desk.db, 31 * days), 2);
  const history = await orderHistory(desk.db, order);
  await desk.checkout.providerEvent(told);
  assert.equal((await desk.inbox.runOnce()).processed, 1);
  assert.deepEqual(await orderHistory(desk.db, order), history);
  await database.query('DELETE FROM provider_events');
  await auditEvent(database, simulator, stage.event);
});

test('P6: a flood of events of unknown payments, each slow to check, delays neither a purchase nor the reconciler', async () => {
  const stage = await stageEvent(database);
  const gone = new AbortController();
  let looks = 0;
  const flooded = deskWith({
    ...simulator.provider,
    lookup: async (object) => {
      if (!object.startsWith('pi_flood')) return simulator.provider.lookup(object);
      looks += 1;
      await pause(60_000, 'the provider does not answer', gone.signal).catch(() => {});
      return { kind: 'unknown', reason: 'timeout', detail: 'slow' };
    },
  });
  await database.query(
    `INSERT INTO provider_events (provider_event_id, type, object, due_at)
     SELECT 'evt_flood_' || n, 'x', 'pi_flood_' || n, now() - interval '1 hour' FROM generate_series(1, 2000) n`,
  );
  const loops = testLoops();
  flooded.inbox.start(loops);
  flooded.reconciler.start(loops);
  try {
    await until(async () => looks > 0, 'the flood to be looked at');
    const order = await reserved(flooded, stage, 'buyer1', [1]);
    await simulator.fault('drop_before', { match: { route: 'confirm', reference: order.order }, times: 2 });
    assert.equal((await flooded.checkout.pay(payCommand(order.order, 'pm_card_visa'))).kind, 'pending');
    await until(async () => (await stateOf(order.order)) === 'paid', 'the reconciler to end the payment');
    assert.ok(looks <= 16, `${looks} looks at once`);
  } finally {
    gone.abort();
    await loops.stop();
  }
  await database.query('DELETE FROM provider_events');
  await auditEvent(database, simulator, stage.event);
});

test('P6: over HTTP: the bytes as they were signed are stored and answered; forged, stale and altered ones are not', async () => {
  const app = fastify();
  app.setErrorHandler(createErrorHandler(silentLogger));
  await app.register(async (scope) =>
    registerWebhooks(scope as never, { provider: simulator.provider, checkout: desk.checkout }),
  );
  const body = JSON.stringify({
    id: 'evt_http',
    type: 't',
    data: { object: { object: 'payment_intent', id: 'pi_http' } },
  });
  const sign = (secret: string, at = Math.floor(Date.now() / 1_000)) =>
    `t=${at},v1=${createHmac('sha256', secret).update(`${at}.${body}`).digest('hex')}`;
  const post = async (payload: string, signature: string) =>
    (
      await app.inject({
        method: 'POST',
        url: '/api/webhooks/stripe',
        payload,
        headers: { 'content-type': 'application/json', 'stripe-signature': signature },
      })
    ).statusCode;
  assert.equal(await post(body, sign('whsec_other')), 400);
  assert.equal(await post(body, sign(simulator.webhookSecret, Math.floor(Date.now() / 1_000) - 400)), 400);
  assert.equal(await post(`${body} `, sign(simulator.webhookSecret)), 400);
  assert.equal(await stored('evt_http'), undefined);
  for (let n = 0; n < 2; n += 1) assert.equal(await post(body, sign(simulator.webhookSecret)), 200);
  assert.deepEqual([(await stored('evt_http')).object, (await stored('evt_http')).attempts], ['pi_http', 0]);
  await app.close();
  await database.query('DELETE FROM provider_events');
});
