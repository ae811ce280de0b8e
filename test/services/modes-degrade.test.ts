import assert from 'node:assert/strict';
import test, { after } from 'node:test';
import { graceMs, settleMs, witnessMs } from '../../src/inventory/modes.ts';
import { testDb } from '../contract/arbiter-postgres-world.ts';
import { testDatabase } from '../support/postgres.ts';
import { orderIdOf } from '../support/stage.ts';
import { committingLate, modesWorld, waiting } from './modes-world.ts';

const database = await testDatabase();
const db = testDb(database, 12);
after(() => db.close());

const kindsOf = (outcomes: { kind: string }[]) => outcomes.map((outcome) => outcome.kind).sort();

const claim = { owner: 'me', leaseMs: 30_000 };

test('D1: two processes have to see it: one that says it twice is one', async () => {
  const world = await modesWorld(database, db);
  for (const reporter of ['web-1', 'web-1'])
    assert.deepEqual(await world.report(reporter), { kind: 'noted' });
  // An observation that is too old, or of another epoch, is no witness.
  await database.query(`UPDATE partition_witnesses SET at = at - $2 * interval '1 ms' WHERE event_no = $1`, [
    world.event,
    witnessMs,
  ]);
  assert.deepEqual(await world.report('web-2'), { kind: 'noted' });
  assert.deepEqual(await world.report('web-1', { epoch: world.epoch - 1 }), { kind: 'changed' });
  assert.equal((await world.row()).mode, 'redis');

  const before = Date.now();
  const outcome = await world.report('web-1');
  assert.ok(outcome.kind === 'degraded' && outcome.epoch > world.epoch);
  const after = Date.now();
  const row = await world.row();
  assert.deepEqual([row.mode, row.epoch], ['postgres', outcome.epoch]);
  const began = row.grace_until!.getTime() - graceMs;
  assert.ok(began >= before - 1 && began <= after + 1, `grace from ${began}, not ${before} to ${after}`);
  assert.deepEqual(await world.report('web-3'), { kind: 'changed' });
  await world.audit();
});

test('D1: many reports at once degrade once', async () => {
  const world = await modesWorld(database, db);
  const { rows, outcome } = await committingLate(
    database,
    [
      `SELECT kind FROM partition_report($1, 0::smallint, $2, 'web-1', 'timeout', NULL, $3, 0, 1000)`,
      [world.event, world.epoch, witnessMs],
    ],
    async (commit) => {
      const second = world.report('web-2');
      await waiting(database, 1);
      await commit();
      return second;
    },
  );
  assert.deepEqual([rows[0].kind, outcome.kind], ['noted', 'degraded'], 'the second sees the first');
  const other = await modesWorld(database, db);
  const term = await other.lead();
  const reports = Array.from({ length: 12 }, (_, i) =>
    other.report(`web-${i}`, { term: i % 3 === 0 ? term : null }),
  );
  const kinds = kindsOf(await Promise.all(reports));
  assert.equal(kinds.filter((kind) => kind === 'degraded').length, 1, kinds.join());
  await other.audit();
});

test('D1: the leader’s own report is enough; one under another term is a witness only', async () => {
  const world = await modesWorld(database, db);
  const former = await world.lead();
  const term = await world.lead();
  assert.deepEqual(await world.report('former', { term: former }), { kind: 'noted' });
  assert.equal((await world.row()).mode, 'redis');
  assert.equal((await world.report('leader', { term })).kind, 'degraded');
});

test('D1: no degrade within 30 s of a restore, whatever reports it; then again', async () => {
  const world = await modesWorld(database, db);
  const term = await world.lead();
  const restoredAgo = (ms: number) =>
    database.query(
      `UPDATE event_partitions SET restored_at = clock_timestamp() - $2 * interval '1 ms' WHERE event_no = $1`,
      [world.event, ms],
    );
  await restoredAgo(settleMs - 5_000);
  for (const more of [{ term }, {}]) {
    const outcome = await world.report('leader', more);
    assert.ok(outcome.kind === 'settling' && outcome.afterMs > 0 && outcome.afterMs <= 5_000);
  }
  assert.equal((await world.row()).mode, 'redis');
  await restoredAgo(settleMs);
  assert.equal((await world.report('leader', { term })).kind, 'degraded');
});

test('D1: a rebuild waits for the end of grace, and is refused under another term', async () => {
  const world = await modesWorld(database, db);
  await world.degrade();
  const at = { event: world.event, partition: 0, term: await world.lead() };
  assert.deepEqual(await world.modes.begin(at), { kind: 'refused', reason: 'in_grace' });
  await world.endGrace();
  const begun = await world.modes.begin(at);
  assert.ok(begun.kind === 'begun');
  assert.deepEqual(await world.modes.move({ ...at, term: at.term - 1, rebuild: begun.epoch }), {
    kind: 'refused',
    reason: 'other_term',
  });
  assert.equal((await world.modes.move({ ...at, rebuild: begun.epoch })).kind, 'moving');
});

test('S7: after a degrade open orders count, and what Postgres held before Redis does not', async () => {
  const world = await modesWorld(database, db, { mode: 'postgres' });
  const { modes, event } = world;
  const old = await world.hold('visitor-a', [10, 11]);
  assert.ok(old.kind === 'granted');
  const at = { event, partition: 0, term: await world.lead() };
  const begun = await modes.begin(at);
  assert.ok(begun.kind === 'begun');
  await modes.move({ ...at, rebuild: begun.epoch });
  await modes.flip({ ...at, rebuild: begun.epoch, runIds: ['r'] });
  await database.query(
    `UPDATE event_partitions SET restored_at = now() - interval '1 hour' WHERE event_no = $1`,
    [event],
  );
  // In Redis mode a seat is free if Postgres has no order for it. The leases in its rows are of another epoch.
  const inRedis = (visitor: string, seats: number[], grant: number) =>
    world.receipt(visitor, seats, grant, { epoch: begun.epoch, holder: 'account' });
  const open = inRedis('visitor-b', [10, 1], 2);
  const closed = inRedis('visitor-c', [3], 3);
  for (const receipt of [open, closed]) assert.equal((await world.reserve(receipt)).kind, 'reserved');
  await world.record.close(orderIdOf(closed.hold), 'closed_by_buyer', 'key', claim);
  // A row that was left from before would count without end.
  await database.query(
    `INSERT INTO holds (event_no, hold_id, partition, visitor, holder, request, seats, granted_at, deadline, epoch, grant_no, state)
     VALUES ($1, $2, 0, 'x', 'account', '', '{15,16,17}', now(), now(), $3, 1, 'ordered')`,
    [event, orderIdOf('left over'), world.epoch],
  );

  await world.degrade();
  await world.endGrace();
  const account = { holder: 'account' };
  assert.equal((await world.hold('visitor-d', [3, 11, 12, 13], account)).kind, 'granted');
  assert.deepEqual(await world.hold('visitor-e', [14], account), { kind: 'quota', used: 6, max: 6 });
  await world.audit();
  await world.record.close(orderIdOf(open.hold), 'closed_by_buyer', 'key', claim);
  assert.equal((await world.hold('visitor-e', [10], account)).kind, 'granted');
  await world.audit();
});

test('S7: an order that ends while the degrade waits for it is not counted for ever', async () => {
  const world = await modesWorld(database, db);
  const receipt = world.receipt('visitor-a', [1, 2], 1);
  assert.equal((await world.reserve(receipt)).kind, 'reserved');
  const term = await world.lead();
  const close = `SELECT order_close($1, 'closed_by_buyer', 'key', 'me', 30000)`;
  const { outcome } = await committingLate(database, [close, [orderIdOf(receipt.hold)]], async (commit) => {
    const degraded = world.report('leader', { term });
    await waiting(database, 1);
    await commit();
    return degraded;
  });
  assert.equal(outcome.kind, 'degraded');
  const held = await world.modes.holds(world.event, 0);
  assert.deepEqual(
    held.map(({ hold, state }) => [hold, state]),
    [[receipt.hold, 'ended']],
  );
  await world.audit();
});

test('D1: a stale process cannot turn its old hold into a sale when the seat has gone', async () => {
  const world = await modesWorld(database, db);
  // The process proved its hold to the former Redis, and was then stopped during all that followed.
  const stale = world.receipt('sleeper', [4, 5], 7);
  const epoch = await world.degrade();
  await world.endGrace();
  const fresh = await world.hold('visitor-b', [5]);
  assert.ok(fresh.kind === 'granted');
  for (const at of [world.epoch, epoch]) {
    assert.equal((await world.reserve({ ...stale, epoch: at })).kind, at === epoch ? 'hold_gone' : 'stale');
  }
  await world.arbiter.extend({ ...fresh.hold, order: orderIdOf(fresh.hold.hold) });
  assert.equal((await world.reserve(fresh.hold)).kind, 'reserved');
  assert.equal((await world.reserve({ ...stale, epoch })).kind, 'hold_gone');
  await world.audit();

  // And back in Redis: only the record stands between the two now.
  const at = { event: world.event, partition: 0, term: await world.lead() };
  const begun = await world.modes.begin(at);
  assert.ok(begun.kind === 'begun');
  await world.modes.move({ ...at, rebuild: begun.epoch });
  assert.equal((await world.reserve({ ...stale, epoch })).kind, 'retry');
  await world.modes.flip({ ...at, rebuild: begun.epoch, runIds: ['r'] });
  assert.equal((await world.reserve({ ...stale, epoch })).kind, 'stale');
  assert.equal((await world.reserve({ ...stale, epoch: begun.epoch })).kind, 'hold_gone');
  const [tickets] = await database.query(
    `SELECT array_agg(seat_no || ' ' || status) AS all FROM tickets WHERE event_no = $1`,
    [world.event],
  );
  assert.deepEqual(tickets.all, ['5 reserved']);
  await world.audit();
});
