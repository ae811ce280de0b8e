import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { noLimits as free } from '../../src/core/limits.ts';
import { allowBuyer, changeLimits, endAllowance, listAllowances } from '../../src/orders/limits.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { startTestSimulator, type TestSimulator } from '../support/simulator.ts';
import {
  auditEvent,
  holdOf,
  payCommand,
  reconcile,
  reserveCommand,
  stageEvent,
  type Till,
  till,
} from '../support/stage.ts';

let database: TestDatabase;
let simulator: TestSimulator;
let desk: Till;
before(async () => {
  database = await testDatabase();
  simulator = await startTestSimulator();
  desk = till(database.url, simulator.provider, { poolSize: 20 });
});
after(async () => {
  await desk?.close();
  await simulator?.stop();
});

type Stage = Awaited<ReturnType<typeof stageEvent>>;

function reserve(stage: Stage, visitor: string, seats: number[], account?: string) {
  return desk.checkout.reserve(reserveCommand(holdOf(stage, visitor, seats), account));
}

async function mustReserve(stage: Stage, visitor: string, seats: number[], account?: string) {
  const outcome = await reserve(stage, visitor, seats, account);
  assert.ok(outcome.kind === 'order', outcome.kind);
  return outcome.order.order;
}

async function endsOf(event: number): Promise<Record<string, number>> {
  const rows = await database.query(
    `SELECT coalesce(reason, state) AS "end", count(*)::integer AS count FROM orders WHERE event_no = $1 GROUP BY 1`,
    [event],
  );
  return Object.fromEntries(rows.map((row) => [row.end, row.count]));
}

test('P7: a hundred orders of one account are confirmed at once: the limit is bought, the rest is voided', async () => {
  const stage = await stageEvent(database, { seats: 100 });
  const orders = await Promise.all(
    Array.from({ length: 100 }, (_, n) => mustReserve(stage, `browser-${n}`, [n], 'one@example.org')),
  );
  // The limit comes while they wait to be paid: it is decided at confirm, whatever reserve said.
  const limits = { accountSeatsMax: 7 };
  const changed = await changeLimits(desk.db, {
    event: stage.event,
    actor: 'organiser',
    replaces: free,
    limits,
  });
  assert.deepEqual(changed, { kind: 'changed', limits: { ...free, ...limits } });
  await Promise.allSettled(orders.map((order) => desk.checkout.pay(payCommand(order, 'pm_card_visa'))));
  await reconcile(database, desk);
  assert.deepEqual(await endsOf(stage.event), { paid: 7, limit: 93 });
  const audited = await auditEvent(database, simulator, stage.event);
  assert.equal(audited.paid, 7);
  const late = await changeLimits(desk.db, {
    event: stage.event,
    actor: 'organiser',
    replaces: free,
    limits: { accountSeatsMax: 100 },
  });
  assert.deepEqual(late, { kind: 'conflict', limits: { ...free, ...limits } });
});

test('P7: one card in the orders of many accounts: its limit is bought, in this event alone', async () => {
  const settings = { instrumentSeatsMax: 5, accountSeatsMax: 2 };
  const stage = await stageEvent(database, { seats: 80, settings });
  const other = await stageEvent(database, { settings });
  const orders = await Promise.all(
    Array.from({ length: 40 }, (_, n) => mustReserve(stage, `many-${n}`, [2 * n, 2 * n + 1])),
  );
  const elsewhere = await mustReserve(other, 'many-0', [3]);
  const outcomes = await Promise.allSettled(
    [...orders, elsewhere].map((order) => desk.checkout.pay(payCommand(order, 'pm_card_mastercard'))),
  );
  const last = outcomes.at(-1);
  assert.ok(last?.status === 'fulfilled' && last.value.kind === 'bought', JSON.stringify(last));
  await reconcile(database, desk);
  // Two seats an order: four of the five.
  assert.deepEqual(await endsOf(stage.event), { paid: 2, card_limit: 38 });
  await auditEvent(database, simulator, stage.event);
  await auditEvent(database, simulator, other.event);
});

test('P7: a refused capture gives the limits back in the same step', async () => {
  const stage = await stageEvent(database, { settings: { accountSeatsMax: 1, instrumentSeatsMax: 1 } });
  const order = await mustReserve(stage, 'first', [1], 'two@example.org');
  await simulator.fault('capture_refused', { times: 1 });
  await desk.checkout.pay(payCommand(order, 'pm_card_visa'));
  await reconcile(database, desk);
  await simulator.clearFaults();
  assert.deepEqual(await endsOf(stage.event), { capture_refused: 1 });
  const again = await mustReserve(stage, 'first', [2], 'two@example.org');
  assert.equal((await desk.checkout.pay(payCommand(again, 'pm_card_visa'))).kind, 'bought');
  await auditEvent(database, simulator, stage.event);
});

test('P7: an exception lifts the limits for its buyer alone, however the buyer is named, until it ends; all of it is audited', async () => {
  const settings = { accountSeatsMax: 1, instrumentSeatsMax: 1 };
  const stage = await stageEvent(database, { settings });
  const { event } = stage;
  const first = await mustReserve(stage, 'club', [0], 'club@example.org');
  assert.equal((await desk.checkout.pay(payCommand(first, 'pm_card_visa'))).kind, 'bought');
  assert.equal((await reserve(stage, 'club', [1], 'club@example.org')).kind, 'limit');

  const by = { event, actor: 'organiser', reason: 'a whole class', until: null };
  const unknown = await allowBuyer(desk.db, { ...by, buyer: { order: crypto.randomUUID() } });
  assert.equal(unknown.kind, 'unknown_order');
  const allowed = await allowBuyer(desk.db, { ...by, buyer: { order: first } });
  assert.ok(allowed.kind === 'allowed' && allowed.allowance.inForce);
  assert.deepEqual(
    [allowed.allowance.account, allowed.allowance.visitor],
    ['club@example.org', 'club'],
    'an order names its account and its browser',
  );
  const more = await mustReserve(stage, 'club', [1, 2, 3], 'club@example.org');
  assert.equal((await desk.checkout.pay(payCommand(more, 'pm_card_visa'))).kind, 'bought');

  // Another buyer with the same card is as limited as before.
  const stranger = await mustReserve(stage, 'stranger', [4]);
  const refused = await desk.checkout.pay(payCommand(stranger, 'pm_card_visa'));
  assert.ok(refused.kind === 'ended' && refused.order.reason === 'card_limit', refused.kind);

  const { allowance } = allowed.allowance;
  const ended = await endAllowance(desk.db, { event, allowance, actor: 'second organiser' });
  assert.ok(ended.kind === 'ended' && !ended.allowance.inForce);
  assert.equal((await endAllowance(desk.db, { event, allowance, actor: 'x' })).kind, 'ended', 'repeatable');
  assert.equal((await reserve(stage, 'club', [5], 'club@example.org')).kind, 'limit');
  // A term that is over lifts nothing.
  await allowBuyer(desk.db, { ...by, buyer: { account: 'club@example.org' }, until: Date.now() - 1_000 });
  assert.equal((await reserve(stage, 'club', [5], 'club@example.org')).kind, 'limit');
  assert.deepEqual(
    (await listAllowances(desk.db, event)).map(({ inForce, endedBy }) => [inForce, endedBy]),
    [
      [false, null],
      [false, 'second organiser'],
    ],
  );
  const log = await database.query('SELECT actor, action FROM audit_log WHERE event_no = $1 ORDER BY entry', [
    event,
  ]);
  assert.deepEqual(
    log.map(({ actor, action }) => `${actor}: ${action}`),
    ['organiser: limits_allow', 'second organiser: limits_disallow', 'organiser: limits_allow'],
  );
  await reconcile(database, desk);
  await auditEvent(database, simulator, event);
});

test('P7: one browser buys no more than its limit, whatever accounts it names; an order that is open is named first', async () => {
  const stage = await stageEvent(database, { settings: { visitorSeatsMax: 4 } });
  const first = await mustReserve(stage, 'browser', [0, 1, 2], 'a@example.org');
  // The buyer has to pay or close that order.
  assert.equal((await reserve(stage, 'browser', [3, 4], 'b@example.org')).kind, 'open_order');
  assert.equal((await desk.checkout.pay(payCommand(first, 'pm_card_visa'))).kind, 'bought');
  assert.deepEqual(await reserve(stage, 'browser', [3, 4], 'b@example.org'), {
    kind: 'limit',
    limit: 'visitor',
    max: 4,
    used: 3,
  });
  assert.equal((await reserve(stage, 'other', [3, 4], 'b@example.org')).kind, 'order');
  await mustReserve(stage, 'browser', [5], 'c@example.org');
});

test('S7: ten browsers of one account reserve at once what they hold in several parts: the quota holds over all of them', async () => {
  const stage = await stageEvent(database, { seats: 40, settings: { holdSeatsMax: 6, accountFirst: true } });
  const account = 'sub:club';
  const outcomes = await Promise.all(
    Array.from({ length: 10 }, (_, n) => {
      const hold = { ...holdOf(stage, `browser-${n}`, [3 * n, 3 * n + 1, 3 * n + 2]), holder: account };
      return desk.checkout.reserve(reserveCommand(hold, account));
    }),
  );
  const refused = { kind: 'limit', limit: 'holder', max: 6, used: 6 };
  assert.equal(outcomes.filter(({ kind }) => kind === 'order').length, 2);
  for (const outcome of outcomes) if (outcome.kind !== 'order') assert.deepEqual(outcome, refused);
});
