import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import test, { after, before, describe } from 'node:test';
import { cancellationText } from '../../src/checkout/cancel-event.ts';
import { createOperatorDesk, type OperatorDesk } from '../../src/checkout/operator-desk.ts';
import {
  actionsWithNote,
  attentions,
  type EntryAction,
  type EntryKind,
  entryWords,
  operatorEntries,
} from '../../src/core/operator-list.ts';
import type { PaymentProvider } from '../../src/payments/provider.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { installationOf } from '../support/acts.ts';
import { endedMismatch, plays, type World } from '../support/operator-plays.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { bought, madeRefund, type RefundDesk, refundDesk } from '../support/refund-desk.ts';
import { openPayment, startTestSimulator, type TestSimulator } from '../support/simulator.ts';
import { auditEvent, payCommand, reconcile, reserved, stageEvent } from '../support/stage.ts';
import { rawCall } from '../support/stripe-calls.ts';

let database: TestDatabase;
let simulator: TestSimulator;
let desk: RefundDesk;
let list: OperatorDesk;
let provider: PaymentProvider;
before(async () => {
  database = await testDatabase();
  simulator = await startTestSimulator();
  const installation = await installationOf(database);
  // Its payments are marked as ours, because payments of others cannot be decided here.
  provider = simulator.providerWith({ installation, timeoutMs: 4_000 });
  desk = refundDesk(database.url, provider);
  list = createOperatorDesk({ db: desk.db, refunds: desk.refunds, random: systemRandom });
});
after(async () => {
  await desk?.close();
  await simulator?.stop();
});

const actor = 'organiser';
const newWorld = async (): Promise<World> => ({
  database,
  simulator,
  provider,
  desk,
  stage: await stageEvent(database, { seats: 4 }),
  seat: 1,
});

/** Entries of the event; with null, entries that belong to no order. */
const entries = async (event: number | null) =>
  (await list.list({ event, after: null, limit: 100 })).entries.filter((one) => event !== null || !one.order);
const act = (entry: string, action: EntryAction) => list.act({ entry, action, actor, note: 'as agreed' });
const kinds = Object.keys(operatorEntries) as EntryKind[];
const isPlayed = (kind: EntryKind): kind is keyof typeof plays => Object.hasOwn(plays, kind);
const ofOrder = async (order: string, sql: string): Promise<string[]> =>
  (await database.query(`${sql} WHERE order_id = $1`, [order])).map((row) => Object.values(row)[0] as string);

async function keptOf(order: string): Promise<number> {
  const objects = await ofOrder(order, 'SELECT DISTINCT provider_object FROM money_operations');
  const { intents } = await simulator.ledger();
  const own = intents.filter(({ id, reference }) => reference === order || objects.includes(id));
  return own.reduce((sum, one) => sum + one.captured - one.refunded, 0);
}

test('each kind of entry has words, an action, and each of its actions a played end; Postgres takes no other attention', async () => {
  for (const kind of kinds) {
    const { title, means, charged, actions } = entryWords(kind);
    assert.ok(title && means && charged, kind);
    assert.ok(Object.keys(actions).length > 0, `${kind} has no action`);
    const play = isPlayed(kind) && plays[kind];
    if (!play) continue;
    const played = [...Object.keys(play.ends), ...(kind === 'payment_mismatch' ? ['dismiss'] : [])];
    assert.deepEqual(Object.keys(actions).sort(), played.sort(), `${kind}: actions that are not played`);
  }
  assert.ok(attentions.every(isPlayed));
  const [check] = await database.query(
    `SELECT pg_get_constraintdef(oid) AS says FROM pg_constraint WHERE conname = 'money_operations_attention'`,
  );
  assert.deepEqual(
    [...check.says.matchAll(/'(\w+)'/g)].map(([, name]) => name).sort(),
    [...attentions].sort(),
  );
});

describe('P2 P3 P4 P5 P8: each kind is reached at the provider, ended by each action, and the audit is clean', () => {
  let shared: World;
  before(async () => {
    shared = { ...(await newWorld()), stage: await stageEvent(database, { seats: 60 }) };
  });
  after(() => auditEvent(database, simulator, shared.stage.event));

  for (const kind of kinds.filter(isPlayed)) {
    for (const [named, end] of Object.entries(plays[kind].ends)) {
      const action = named as EntryAction;
      test(`${kind} is ended by ${action}`, async () => {
        shared.seat += 1;
        const order = await plays[kind].reach(shared);
        const event = order === '' ? null : shared.stage.event;
        const [entry, ...more] = await entries(event);
        assert.deepEqual([entry?.kind, more.length, entry?.order ?? ''], [kind, 0, order]);
        await end.before?.(shared, order);
        const [now] = await entries(event);
        assert.ok(
          now?.actions.some((one) => one.action === action),
          JSON.stringify(now?.actions),
        );
        if (actionsWithNote.includes(action)) {
          const silent = await list.act({ entry: now!.entry, action, actor, note: '' });
          assert.equal(silent.kind, 'note_missing');
        }
        const first = await act(now!.entry, action);
        assert.ok(first.kind === 'done' && !first.repeated, JSON.stringify(first));
        if (action !== 'look') {
          const again = await act(now!.entry, action);
          assert.ok(again.kind === 'done' && again.repeated, JSON.stringify(again));
        }
        await simulator.clearFaults();
        await reconcile(database, desk, 2);
        assert.deepEqual(await entries(event), []);
        if (order) {
          assert.deepEqual(
            [(await desk.checkout.find(order))?.state, await keptOf(order)],
            [end.order, end.kept],
          );
        }
        const lines = await database.query(
          `SELECT detail FROM audit_log WHERE actor = $1 AND (detail ->> 'order' = $2 OR $2 = '')`,
          [actor, order],
        );
        assert.ok(lines.length > 0, 'a line in the action log');
      });
    }
  }
});

test('P6: a payment that was ended because it did not match stays on the list until an operator has seen it', async () => {
  const world = await newWorld();
  const order = await endedMismatch(world);
  const [entry] = await entries(world.stage.event);
  assert.deepEqual(
    [entry?.kind, entry?.actions.map((one) => one.action)],
    ['payment_mismatch', ['look', 'dismiss']],
  );
  assert.equal((await act(entry!.entry, 'dismiss')).kind, 'done');
  assert.deepEqual(await act(entry!.entry, 'dismiss'), { kind: 'done', repeated: true, entry: null });
  assert.deepEqual(await act(entry!.entry, 'accept'), { kind: 'not_possible', actions: [] });
  assert.deepEqual(await act(`operation-${randomUUID()}`, 'look'), { kind: 'unknown_entry' });
  assert.deepEqual(await entries(world.stage.event), []);
  assert.equal((await desk.checkout.find(order))?.state, 'closed');
  await auditEvent(database, simulator, world.stage.event);
});

for (const [kind, left, right] of [
  ['refund_failed', 'retry', 'settle'],
  ['refund_missing', 'retry', 'settle'],
  ['captured_amount', 'give_back', 'accept'],
] as const) {
  test(`${kind}: of ${left} and ${right} at the same moment one is taken, its repeat says so, the other is refused`, async () => {
    const world = await newWorld();
    await plays[kind].reach(world);
    const [entry] = await entries(world.stage.event);
    const wanted = [left, right, left, right] as const;
    const outcomes = await Promise.all(wanted.map((action) => act(entry!.entry, action)));
    const first = wanted[outcomes.findIndex((one) => one.kind === 'done' && !one.repeated)];
    assert.ok(first, JSON.stringify(outcomes));
    for (const [i, action] of wanted.entries()) {
      const one = outcomes[i]!;
      assert.ok(
        action === first ? one.kind === 'done' : one.kind === 'not_possible',
        `${action} after ${first}: ${JSON.stringify(one)}`,
      );
    }
    assert.equal(outcomes.filter((one) => one.kind === 'done' && !one.repeated).length, 1);
    await reconcile(database, desk, 3);
    await auditEvent(database, simulator, world.stage.event);
  });
}

for (const [by, ends] of [
  ['retry', { kind: 'done', repeated: false, entry: null }],
  ['settle', { kind: 'not_possible', actions: [] }],
] as const) {
  test(`a lost refund whose attempt was given up and no more: "retry" makes the next one, unless it was ended (${by})`, async () => {
    const world = await newWorld();
    const order = await plays.refund_missing.reach(world);
    const [entry] = await entries(world.stage.event);
    // The process dies between the two steps.
    await database.query('SELECT operator_give_up_refund($1, $2)', [entry!.operation!.operation, actor]);
    const [failed] = await entries(world.stage.event);
    assert.equal(failed!.kind, 'refund_failed');
    if (by === 'settle') assert.equal((await act(failed!.entry, 'settle')).kind, 'done');
    assert.deepEqual(await act(entry!.entry, 'retry'), ends);
    if (by === 'retry') {
      assert.deepEqual(await act(entry!.entry, 'retry'), { kind: 'done', repeated: true, entry: null });
    }
    assert.equal(await keptOf(order), by === 'retry' ? 0 : 5350);
    await auditEvent(database, simulator, world.stage.event);
  });
}

/** As the organiser's page does it: asked, then confirmed with the code. */
async function cancelEvent(event: number): Promise<void> {
  const wish = { reason: 'storm', fees: 'returned', seats: 'release', perSecond: 100 } as const;
  const { code } = await desk.cancelEvent.ask(event, wish, actor);
  assert.equal((await desk.cancelEvent.confirm(event, wish, actor, code)).kind, 'started');
}

test('P3: a cancelled event gives back what was captured in part, and its run ends', async () => {
  const world = await newWorld();
  const order = await plays.captured_amount.reach(world);
  await cancelEvent(world.stage.event);
  for (let round = 0; round < 3; round += 1) {
    await desk.cancelEvent.runOnce();
    await reconcile(database, desk, 2);
  }
  assert.equal((await desk.cancellations.find(world.stage.event))?.state, 'done');
  const { state, reason } = (await desk.checkout.find(order))!;
  assert.deepEqual([state, reason, await keptOf(order)], ['cancelled', 'event_cancelled', 0]);
  assert.deepEqual((await ofOrder(order, 'SELECT what FROM mails')).sort(), [
    'order.cancelled',
    'order.money_returned',
  ]);
  await auditEvent(database, simulator, world.stage.event);
});

test('a cancelled event names the payment that it waits for, and ends when that was decided', async () => {
  const world = await newWorld();
  const order = await plays.payment_mismatch.reach(world);
  await cancelEvent(world.stage.event);
  await desk.cancelEvent.runOnce();
  await reconcile(database, desk, 2);
  const waiting = (await desk.cancellations.find(world.stage.event))!;
  assert.deepEqual([waiting.state, waiting.waiting], ['running', 1]);
  assert.deepEqual(
    waiting.waitsFor.map((one) => [one.order, one.attention]),
    [[order, 'payment_mismatch']],
  );
  assert.match(
    cancellationText('The Event', waiting).join('\n'),
    new RegExp(`waits for order ${order}: The payment`),
  );
  const [entry] = await entries(world.stage.event);
  assert.equal((await act(entry!.entry, 'give_back')).kind, 'done');
  await reconcile(database, desk, 3);
  await desk.cancelEvent.runOnce();
  assert.equal((await desk.cancellations.find(world.stage.event))?.state, 'done');
  await auditEvent(database, simulator, world.stage.event);
});

test('P6: a refund that succeeded and fails at the bank days later is found without its webhook', async () => {
  const world = await newWorld();
  const { order } = await bought(desk, world.stage, [1], 'pm_card_refundFail');
  const { refund } = await madeRefund(desk, { order });
  const stateOf = async () => (await desk.refundRecord.find(refund))?.state;
  assert.equal(await stateOf(), 'done');
  await simulator.settleRefunds();
  await reconcile(database, desk, 2);
  assert.equal(await stateOf(), 'done', 'it is not due yet');
  const [due] = await database.query(
    `UPDATE refunds SET check_at = now() WHERE refund_id = $1 RETURNING check_at > now() - interval '1 h' AS set`,
    [refund],
  );
  assert.ok(due.set);
  await desk.reconciler.runOnce();
  assert.equal(await stateOf(), 'failed');
  assert.deepEqual(
    (await entries(world.stage.event)).map(({ kind }) => kind),
    ['refund_failed'],
  );
  const [entry] = await entries(world.stage.event);
  assert.equal((await act(entry!.entry, 'settle')).kind, 'done');
  await auditEvent(database, simulator, world.stage.event);
});

test('a refund is looked at again 1, 3, 7, 15 and 30 days after it succeeded, then not any more', async () => {
  const world = await newWorld();
  const { order } = await bought(desk, world.stage, [1]);
  await madeRefund(desk, { order });
  const days: number[] = [];
  for (let look = 0; look < 9; look += 1) {
    const [row] = await database.query(
      `SELECT round(extract(epoch FROM check_at - updated_at) / 86400)::integer AS days FROM refunds WHERE order_id = $1`,
      [order],
    );
    if (row.days === null) break;
    days.push(row.days);
    await database.query('UPDATE refunds SET check_at = now() WHERE order_id = $1', [order]);
    await desk.reconciler.runOnce();
  }
  assert.deepEqual(days, [1, 3, 7, 15, 30]);
});

for (const [story, back] of [
  ['that we give back', false],
  ['that was given back by hand', true],
] as const) {
  test(`P3 P5: money that came for a closed order by a foreign payment, ${story}, is noted, told and judged as settled`, async () => {
    const world = await newWorld();
    const { order, amount } = await reserved(desk, world.stage, `visitor-${randomUUID()}`, [1]);
    assert.equal((await desk.checkout.close(order)).kind, 'closed');
    const { object } = await openPayment(provider, { reference: order, amount });
    for (const [route, given] of [
      ['payment_intents.confirm', { payment_method: 'pm_card_visa', return_url: 'https://example.org' }],
      ['payment_intents.capture', {}],
    ] as const) {
      assert.equal((await rawCall(simulator, route, { id: object, ...given })).status, 200);
    }
    if (back) await rawCall(simulator, 'refunds.create', { payment_intent: object });
    await desk.checkout.providerEvent({ id: `evt-${object}`, type: 'payment_intent.succeeded', object });
    await reconcile(database, desk, 2);
    const returned = await desk.refundRecord.returned(order);
    assert.deepEqual(
      returned.map((one) => [one.amount, one.object]),
      [[amount, object]],
    );
    assert.deepEqual(await ofOrder(order, 'SELECT what FROM mails'), ['order.money_returned']);
    assert.equal(await keptOf(order), 0);
    await auditEvent(database, simulator, world.stage.event);
  });
}

test('P3: a late capture by another hand on the order’s own payment, given back there at once, is noted and told', async () => {
  const world = await newWorld();
  const { order, amount } = await reserved(desk, world.stage, `visitor-${randomUUID()}`, [1]);
  await simulator.fault('declined', { match: { reference: order }, times: 1 });
  await desk.checkout.pay(payCommand(order, 'pm_card_visa'));
  const object = (await desk.checkout.find(order))!.providerObject!;
  // The void is on its way while the money is taken.
  await simulator.fault('unavailable', { match: { route: 'cancel', reference: order } });
  await desk.checkout.close(order);
  await reconcile(database, desk, 1);
  await simulator.clearFaults();
  for (const [route, given] of [
    ['payment_intents.confirm', { payment_method: 'pm_card_visa', return_url: 'https://example.org' }],
    ['payment_intents.capture', {}],
  ] as const) {
    assert.equal((await rawCall(simulator, route, { id: object, ...given })).status, 200);
  }
  await rawCall(simulator, 'refunds.create', { payment_intent: object });
  await reconcile(database, desk, 3);
  assert.deepEqual(
    (await desk.refundRecord.returned(order)).map((one) => one.amount),
    [amount],
  );
  assert.deepEqual(await ofOrder(order, 'SELECT what FROM mails'), ['order.money_returned']);
  await auditEvent(database, simulator, world.stage.event);
});
