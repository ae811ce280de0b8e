import assert from 'node:assert/strict';
import test, { after } from 'node:test';
import { testDb } from '../contract/arbiter-postgres-world.ts';
import { testDatabase } from '../support/postgres.ts';
import { orderIdOf, uuidOf } from '../support/stage.ts';
import { until } from '../support/wait.ts';
import { committingLate, modesWorld, waiting } from './modes-world.ts';

const database = await testDatabase();
const db = testDb(database, 12);
after(() => db.close());

const postgres = { mode: 'postgres' } as const;

test('D1: a rebuild begins, moves and flips; holds and decisions are copied, and Postgres keeps no lease', async () => {
  const world = await modesWorld(database, db, postgres);
  const { modes, event } = world;
  const at = { event, partition: 0, term: await world.lead() };
  const mine = await world.hold('visitor-a', [2, 3]);
  assert.ok(mine.kind === 'granted');
  await database.query(`UPDATE holds SET address = 'home' WHERE hold_id = $1`, [mine.hold.hold]);
  const gone = await world.hold('visitor-b', [5]);
  assert.ok(gone.kind === 'granted');
  await world.arbiter.release({ ...gone.hold, hold: gone.hold.hold });
  const bought = await world.hold('visitor-c', [7]);
  assert.ok(bought.kind === 'granted');
  await world.arbiter.extend({ ...bought.hold, order: orderIdOf(bought.hold.hold) });
  assert.equal((await world.reserve(bought.hold)).kind, 'reserved');

  const begun = await modes.begin(at);
  assert.ok(begun.kind === 'begun' && begun.epoch > world.epoch);
  const rebuild = begun.epoch;
  assert.deepEqual(await world.row(), { ...(await world.row()), mode: 'postgres', epoch: world.epoch });
  assert.deepEqual(await modes.flip({ ...at, rebuild, runIds: ['r'] }), {
    kind: 'refused',
    reason: 'other_mode',
  });
  assert.equal((await modes.move({ ...at, rebuild })).kind, 'moving');
  assert.equal((await world.hold('visitor-d', [9])).kind, 'retry');
  assert.equal((await world.reserve(mine.hold)).kind, 'retry');

  const seats = await modes.seats(event, 0);
  assert.deepEqual(
    seats.seats,
    Array.from({ length: 20 }, (_, seat) => seat),
  );
  assert.deepEqual(
    seats.states,
    seats.seats.map((seat) => (seat === 7 ? 2 : 0)),
  );
  assert.deepEqual(
    seats.versions,
    seats.seats.map((seat) => (seat === 7 ? 2 : 1)),
  );
  const holds = await modes.holds(event, 0);
  const live = holds.find((one) => one.hold === mine.hold.hold);
  const { grantedAt, deadline, grant } = mine.hold;
  assert.deepEqual(live, {
    ...{ hold: mine.hold.hold, visitor: 'visitor-a', holder: 'visitor-a', request: '[2,3]', seats: [2, 3] },
    ...{ grantedAt, deadline, grant, order: null, address: 'home', state: 'live' },
  });
  assert.deepEqual(holds.map((one) => one.state).sort(), ['live', 'ordered', 'released']);

  assert.deepEqual(await modes.flip({ ...at, rebuild, runIds: ['run-1', 'run-2'] }), { kind: 'flipped' });
  assert.deepEqual(await modes.holds(event, 0), []);
  const [row] = await database.query(
    'SELECT mode, epoch::int, run_ids FROM event_partitions WHERE event_no = $1',
    [event],
  );
  assert.deepEqual(row, { mode: 'redis', epoch: rebuild, run_ids: ['run-1', 'run-2'] });
  assert.deepEqual(await world.present(mine.hold), { kind: 'stale', epoch: rebuild });
  await world.audit();
});

test('D1: two rebuilds at once: the last begun wins, the move and the flip of the other are refused', async () => {
  const world = await modesWorld(database, db, postgres);
  const at = { event: world.event, partition: 0, term: await world.lead() };
  const begun = await Promise.all([world.modes.begin(at), world.modes.begin(at)]);
  const [first, second] = begun.map((one) => (one.kind === 'begun' ? one.epoch : 0)).sort((a, b) => a - b);
  const refused = { kind: 'refused', reason: 'other_rebuild' };
  assert.deepEqual(await world.modes.move({ ...at, rebuild: first! }), refused);
  assert.equal((await world.modes.move({ ...at, rebuild: second! })).kind, 'moving');
  assert.deepEqual(await world.modes.flip({ ...at, rebuild: first!, runIds: [] }), refused);
  assert.deepEqual(await world.modes.begin(at), { kind: 'refused', reason: 'other_mode' });
  assert.deepEqual(await world.modes.flip({ ...at, rebuild: second!, runIds: [] }), { kind: 'flipped' });
  assert.equal((await world.row()).epoch, second);
});

test('D1: a leader that pauses in mid-rebuild: its flip is refused, the next one aborts, holds survive', async () => {
  const world = await modesWorld(database, db, postgres);
  const { modes, arbiter, event } = world;
  const mine = await world.hold('visitor-a', [1, 2]);
  assert.ok(mine.kind === 'granted');
  const paused = { event, partition: 0, term: await world.lead() };
  const begun = await modes.begin(paused);
  assert.ok(begun.kind === 'begun');
  assert.equal((await modes.move({ ...paused, rebuild: begun.epoch })).kind, 'moving');

  const next = { event, partition: 0, term: await world.lead() };
  const flip = { ...paused, rebuild: begun.epoch, runIds: ['r'] };
  assert.deepEqual(await modes.flip(flip), { kind: 'refused', reason: 'other_term' });
  assert.deepEqual(await modes.abort(paused), { kind: 'refused', reason: 'other_term' });
  const aborted = await modes.abort(next);
  assert.ok(aborted.kind === 'aborted' && aborted.epoch > begun.epoch);
  assert.deepEqual(await modes.abort(next), { kind: 'refused', reason: 'other_mode' });
  assert.deepEqual(await modes.flip({ ...flip, ...next }), { kind: 'refused', reason: 'other_mode' });

  // The hold came along: it keeps its seats, and goes on to be an order, under the fresh epoch.
  assert.deepEqual(await world.hold('visitor-b', [2, 3]), { kind: 'taken', seats: [2] });
  const found = await arbiter.find(event, 0, mine.hold.hold);
  assert.deepEqual(found, { ...mine.hold, epoch: aborted.epoch });
  await world.audit();
  const later = await world.hold('visitor-b', [3]);
  assert.ok(later.kind === 'granted' && later.hold.grant > found!.grant);
  const order = orderIdOf(mine.hold.hold);
  assert.equal((await arbiter.extend({ ...found!, order })).kind, 'extended');
  assert.equal((await world.reserve(mine.hold)).kind, 'stale');
  assert.equal((await world.reserve(found!)).kind, 'reserved');
  await world.audit();
});

async function asksForLock(): Promise<boolean> {
  const rows = await database.query(
    `SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'SELECT event_lock_is_free%'`,
  );
  return rows.length > 0;
}

for (const change of ['move', 'degrade'] as const) {
  test(`D1: a hold that commits late is waited for by a ${change}, and one that waited for it is not granted`, async () => {
    const world = await modesWorld(database, db, postgres);
    const { modes, event } = world;
    const at = { event, partition: 0, term: await world.lead() };
    const begun = await modes.begin(at);
    assert.ok(begun.kind === 'begun');
    const rebuild = begun.epoch;
    // In a degrade, a reserve may be late; both kinds share the event's lock in their one call.
    if (change === 'degrade') {
      await modes.move({ ...at, rebuild });
      await modes.flip({ ...at, rebuild, runIds: ['r'] });
      await database.query(
        `UPDATE event_partitions SET restored_at = now() - interval '1 minute' WHERE event_no = $1`,
        [event],
      );
    }
    const id = uuidOf(`late ${change}`);
    const late: [string, unknown[]] =
      change === 'move'
        ? [
            `SELECT kind FROM arbiter_hold($1, 0::smallint, $2, $3, 'late', 'late', 'r', '{4}', 1, true, NULL, 600000, 6, NULL, NULL)`,
            [event, world.epoch, id],
          ]
        : [
            `SELECT order_reserve($1, $2, $3, 0::smallint, $4, now() + interval '9 minutes', 'late', 'late', 'l@x', '{}',
                                  '[{"seat":4,"price":1,"fee":0}]', 0, 'EUR') ->> 'kind' AS kind`,
            [orderIdOf(id), id, event, rebuild],
          ];
    const { rows, outcome } = await committingLate(database, late, async (commit) => {
      let done = false;
      const changed = (
        change === 'move'
          ? modes.move({ ...at, rebuild })
          : modes.report({ ...at, epoch: rebuild, reporter: 'leader', reason: 'timeout' })
      ).finally(() => {
        done = true;
      });
      await waiting(database, 1);
      // A call that comes now waits for the change, without a connection: it asks whether the event is free.
      const next =
        change === 'move'
          ? world.hold('next', [6])
          : world.reserve({ ...world.receipt('next', [6], 1), epoch: rebuild });
      await until(asksForLock, 'the call to ask for the lock');
      assert.equal(done, false);
      await commit();
      return [(await changed).kind, (await next).kind];
    });
    assert.equal(rows[0].kind, change === 'move' ? 'granted' : 'reserved');
    assert.deepEqual(outcome, change === 'move' ? ['moving', 'retry'] : ['degraded', 'stale']);
    const [told, ...others] = await modes.holds(event, 0);
    assert.deepEqual(
      [told?.hold, told?.state, others],
      [id, change === 'move' ? 'live' : 'ordered', []],
      'what committed late is counted, and nothing else',
    );
    await world.audit();
  });
}

test('D1: six thousand holds that no statistics know of move to Redis within one statement’s time', async () => {
  const world = await modesWorld(database, db, { ...postgres, seats: 12_000 });
  const { modes, event } = world;
  await database.query('ANALYZE');
  await database.query(
    `WITH made AS (
       INSERT INTO holds (event_no, hold_id, partition, visitor, holder, request, seats, granted_at, deadline, epoch, grant_no,
                          state)
       SELECT $1, gen_random_uuid(), 0, 'v' || n, 'v' || n, 'r', ARRAY[2 * n, 2 * n + 1], now(), now() + interval '10 min', $2,
              nextval('grant_numbers'), 'live'
         FROM generate_series(0, 5999) n RETURNING *)
     UPDATE seats s SET hold_id = m.hold_id, hold_until = m.deadline, hold_epoch = m.epoch
       FROM made m, unnest(m.seats) seat WHERE s.event_no = $1 AND s.seat_no = seat`,
    [event, world.epoch],
  );
  const at = { event, partition: 0, term: await world.lead() };
  const begun = await modes.begin(at);
  assert.ok(begun.kind === 'begun');
  // Sessions end a statement after 5 s: reading all seats again for each hold takes twice as long.
  assert.equal((await modes.holds(event, 0)).length, 6_000);
  const moved = await modes.move({ ...at, rebuild: begun.epoch });
  assert.ok(moved.kind === 'moving');
  assert.equal(moved.holds.length, 6_000);
});
