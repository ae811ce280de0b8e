import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import test, { type TestContext } from 'node:test';
import { createAdmissionTask, type SeatCounts } from '../../src/controller/admission-task.ts';
import { createLease } from '../../src/controller/lease.ts';
import { type HoldElsewhere, measureLine, measureSessions } from '../../src/controller/measure.ts';
import { createPhaseTask } from '../../src/controller/phase-task.ts';
import { admissionSettingsDefault } from '../../src/core/admission.ts';
import { createDb } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { StoreFault } from '../../src/runtime/store-fault.ts';
import { createPostgresWaitingRoom } from '../../src/waiting-room/postgres.ts';
import { issued, joined, visitorNamed } from '../contract/waiting-room-cases.ts';
import { insertTestEvent } from '../contract/waiting-room-event.ts';
import { keepsWaiting, leads, setPhase } from '../support/acts.ts';
import { testDatabase } from '../support/postgres.ts';
import { until } from '../support/wait.ts';

type EventOptions = Parameters<typeof insertTestEvent>[1];

async function setUp(t: TestContext, options: EventOptions = {}) {
  const database = await testDatabase(t);
  const event = await insertTestEvent(database, { seats: 20, ...options });
  const db = createDb({ url: database.url, poolSize: 6, clock: systemClock, log: silentLogger });
  t.after(() => db.close());
  await leads(database, event);
  const room = createPostgresWaitingRoom({ db });
  const seatCounts = async (no: number): Promise<SeatCounts> => {
    const rows = await database.query<{ state: string; n: number }>(
      `SELECT CASE WHEN state = 'available' AND hold_until > clock_timestamp() THEN 'held' ELSE state END AS state,
         count(*)::int AS n FROM seats WHERE event_no = $1 GROUP BY 1`,
      [no],
    );
    const none: SeatCounts = { available: 0, held: 0, reserved: 0, sold: 0, blocked: 0 };
    return { ...none, ...Object.fromEntries(rows.map((row) => [row.state, row.n])) };
  };
  const phaseNow = async (): Promise<string> =>
    (await database.query('SELECT phase FROM events WHERE event_no = $1', [event]))[0].phase;
  const run = (task: { run: ReturnType<typeof createPhaseTask>['run'] }, term = 1) =>
    task.run({ event, term, tick: 0, signal: new AbortController().signal });
  const phase = createPhaseTask({ db, seatCounts });
  return { database, event, db, room, seatCounts, phaseNow, run, phase };
}

const soon = (ms: number): string => new Date(Date.now() + ms).toISOString();

test('the sale opens at its start by Postgres’s clock, not before, and closes at its end', async (t) => {
  const { database, run, phase, phaseNow } = await setUp(t, { phase: 'scheduled', onSaleAt: soon(60_000) });
  await run(phase);
  assert.equal(await phaseNow(), 'scheduled');
  await database.query(`UPDATE events SET on_sale_at = clock_timestamp()`);
  await run(phase, 2);
  assert.equal(await phaseNow(), 'scheduled', 'another term rules');
  await run(phase);
  assert.equal(await phaseNow(), 'open');
  await database.query(`UPDATE events SET sale_ends_at = clock_timestamp() - interval '1 s'`);
  await run(phase);
  await run(phase);
  assert.equal(await phaseNow(), 'closed');
  const log = await database.query('SELECT actor, action, detail FROM audit_log ORDER BY entry');
  assert.deepEqual(
    log.map((entry) => [entry.actor, entry.action, entry.detail]),
    [
      ['leader', 'phase', { from: 'scheduled', to: 'open', term: 1 }],
      ['leader', 'phase', { from: 'open', to: 'closed', term: 1 }],
    ],
  );
  assert.equal((await database.query('SELECT version FROM events'))[0].version, 3);
});

test('W5: sold out when no seat is available, held or reserved; open again when one comes back', async (t) => {
  const { database, run, phase, phaseNow } = await setUp(t);
  await database.query(`UPDATE seats SET state = 'sold' WHERE seat_no > 1`);
  await database.query(`UPDATE seats SET state = 'reserved' WHERE seat_no = 0`);
  await database.query(
    `UPDATE seats SET hold_until = clock_timestamp() + interval '1 min' WHERE seat_no = 1`,
  );
  await run(phase);
  assert.equal(await phaseNow(), 'open', 'one is held, one reserved');
  await database.query(`UPDATE seats SET state = 'sold' WHERE seat_no = 1`);
  await run(phase);
  assert.equal(await phaseNow(), 'open', 'one is reserved');
  await database.query(`UPDATE seats SET state = 'blocked' WHERE seat_no = 0`);
  await run(phase);
  assert.equal(await phaseNow(), 'sold_out');
  await run(phase);
  assert.equal(await phaseNow(), 'sold_out');
  await database.query(`UPDATE seats SET state = 'available', hold_until = NULL WHERE seat_no = 7`);
  await run(phase);
  assert.equal(await phaseNow(), 'open');
});

test('W5: an old view of the seats sells nothing out and reopens nothing', async (t) => {
  const { db, event, run, phaseNow, database } = await setUp(t);
  const gone: SeatCounts = { available: 0, held: 0, reserved: 0, sold: 20, blocked: 0 };
  await run(createPhaseTask({ db, seatCounts: async () => gone }));
  assert.equal(await phaseNow(), 'open');
  await database.query(`UPDATE seats SET state = 'sold'`);
  await setPhase(database, event, 'sold_out');
  await run(createPhaseTask({ db, seatCounts: async () => ({ ...gone, available: 3 }) }));
  assert.equal(await phaseNow(), 'sold_out');
});

test('what the operator changed meanwhile is not overwritten', async (t) => {
  const { db, event, phaseNow, database } = await setUp(t, { phase: 'paused', onSaleAt: soon(-1_000) });
  const advance = async (expected: string, next: string): Promise<string> =>
    (
      await db.query<{ out: string }>('t', 'SELECT phase_advance($1, 1, $2, $3) AS out', [
        event,
        expected,
        next,
      ])
    )[0]!.out;
  assert.equal(await advance('scheduled', 'open'), 'changed');
  assert.equal(await advance('paused', 'open'), 'not_due', 'only the operator ends a pause');
  assert.equal(await phaseNow(), 'paused');
  assert.equal((await database.query('SELECT count(*)::int AS n FROM audit_log'))[0].n, 0);
});

test('the admission task lets a short line in within two ticks and measures what it did', async (t) => {
  const { db, event, room, run, seatCounts, database } = await setUp(t, { seats: 500 });
  const task = createAdmissionTask({ db, control: room, clock: systemClock, seatCounts });
  assert.equal(task.measured(event, 1), null);
  const visitors = Array.from({ length: 8 }, (_, index) => visitorNamed(`v${index}`));
  const places = (await room.join(event, 0, visitors)).map(joined);
  await run(task);
  assert.deepEqual(task.measured(event, 1)?.frontier, [8]);
  assert.equal(task.measured(event, 1)?.reason, 'everybody');
  await database.query(`UPDATE admissions SET refilled_at = refilled_at - interval '1 s'`);
  for (const [index, place] of places.entries()) {
    const { number } = place;
    const visitor = visitors[index]!;
    issued(await room.redeem({ event, shard: 0, number, visitor, passId: randomUUID(), sessionMs: 900_000 }));
  }
  await run(task);
  const measured = task.measured(event, 1)!;
  assert.ok(measured.measuredRate > 0);
  assert.deepEqual([measured.last, measured.pending, measured.term], [[8], 0, 1]);
  assert.equal(measured.seats.available, 500);
});

test('the admission task of another term publishes nothing and shows nothing', async (t) => {
  const { db, event, room, run, seatCounts, database } = await setUp(t);
  await room.join(event, 0, [visitorNamed('a')]);
  const task = createAdmissionTask({ db, control: room, clock: systemClock, seatCounts });
  await run(task, 7);
  assert.equal(task.measured(event, 7), null);
  const [row] = await database.query('SELECT frontier, rate, term FROM admissions');
  assert.deepEqual([row.frontier.map(Number), row.rate, Number(row.term)], [[0], 0, 0]);
});

test('W6: a leader that comes back shows no figures of its former term', async (t) => {
  const { db, event, room, run, seatCounts, database } = await setUp(t);
  await room.join(event, 0, [visitorNamed('a')]);
  const task = createAdmissionTask({ db, control: room, clock: systemClock, seatCounts });
  await run(task);
  assert.deepEqual(task.measured(event, 1)?.frontier, [1]);
  await database.query('UPDATE leases SET term = 3');
  assert.equal(task.measured(event, 3), null);
  await run(task, 3);
  assert.equal(task.measured(event, 3)?.term, 3);
  assert.equal(task.measured(event, 1), null);
});

test('W5: the admission task stops the passes when the last seat is gone, and in a pause', async (t) => {
  const { db, event, room, run, seatCounts, database } = await setUp(t);
  await room.join(event, 0, [visitorNamed('a')]);
  const task = createAdmissionTask({ db, control: room, clock: systemClock, seatCounts });
  await run(task);
  assert.ok(task.measured(event, 1)!.targetRate > 0);
  await database.query(`UPDATE seats SET state = 'sold'`);
  await run(task);
  const rateNow = async () => (await database.query('SELECT rate, burst, tokens FROM admissions'))[0];
  assert.deepEqual(await rateNow(), { rate: 0, burst: 0, tokens: 0 });
  await database.query(`UPDATE seats SET state = 'available'`);
  await database.query(`UPDATE events SET phase = 'paused'`);
  await run(task);
  assert.deepEqual(await rateNow(), { rate: 0, burst: 0, tokens: 0 });
  assert.equal(task.measured(event, 1)!.reason, 'not_open');
});

test('called numbers that stay away are no-shows after their grace, pending before it', async (t) => {
  const { db, event, room, database } = await setUp(t);
  const visitors = Array.from({ length: 10 }, (_, index) => visitorNamed(`v${index}`));
  await room.join(event, 0, visitors);
  await room.publish(event, 1, { frontier: [6], rate: 100, burst: 100 });
  await database.query(`UPDATE admissions SET tokens = 100`);
  for (const number of [1, 2]) {
    const visitor = visitors[number - 1]!;
    issued(await room.redeem({ event, shard: 0, number, visitor, passId: randomUUID(), sessionMs: 900_000 }));
  }
  const fresh = await measureLine(db, event, 60_000);
  assert.deepEqual([fresh.pending, fresh.due, fresh.came, fresh.issued], [4, 0, 0, 2]);
  await database.query(`UPDATE frontier_moves SET at = at - interval '61 s'`);
  await room.publish(event, 1, { frontier: [9], rate: 100, burst: 100 });
  const later = await measureLine(db, event, 60_000);
  assert.deepEqual([later.pending, later.due, later.came], [3, 6, 2]);
  const frozen = await measureLine(db, event, 60_000 + 30_000);
  assert.deepEqual([frozen.pending, frozen.due], [7, 0], 'a pause of 30 s within the grace');
  await database.query(`UPDATE frontier_moves SET at = at - interval '10 min'`);
  const old = await measureLine(db, event, 60_000);
  assert.deepEqual([old.pending, old.due, old.came], [0, 0, 0], 'out of the window');
});

test('sessions are counted by age, by hold and by payment', async (t) => {
  const { db, event, database } = await setUp(t);
  const hold = (index: number, state: string, seats: number[]) =>
    database.query(
      `INSERT INTO holds (event_no, hold_id, partition, visitor, holder, request, seats, granted_at, deadline, epoch,
         grant_no, state) VALUES ($1, gen_random_uuid(), 0, $2, $2, '', $3, now(), now(), 1, 1, $4)`,
      [event, visitorNamed(`v${index}`), seats, state],
    );
  await hold(0, 'live', [1, 2]);
  await hold(4, 'live', [3]);
  await hold(5, 'tombstone', [4]);
  await hold(7, 'ended', [5, 6, 7]);
  const order = (index: number, state: string) =>
    database.query(
      `INSERT INTO orders (order_id, event_no, hold_id, visitor, holder, account, buyer, seats, lines, amount, currency,
         state, payment_deadline) VALUES (gen_random_uuid(), $1, gen_random_uuid(), $2, $2, 'a', '{}', '{5}', '[]', 1,
         'EUR', $3, now())`,
      [event, visitorNamed(`v${index}`), state],
    );
  await order(7, 'paid');
  await order(8, 'reserved');
  // Early in their classes and last of all, so that a slow machine does not age them into the next.
  const ages = [1, 3, 31, 121, 123, 151, 481, 483, 511, 513];
  await database.query(
    `INSERT INTO passes SELECT $1, a.visitor, gen_random_uuid(), 0, a.nth, now() - a.age * interval '1 s',
       now() - a.age * interval '1 s' + interval '15 min'
     FROM unnest($2::text[], $3::integer[]) WITH ORDINALITY AS a (visitor, age, nth)`,
    [event, ages.map((_, index) => visitorNamed(`v${index}`)), ages],
  );
  assert.deepEqual(await measureSessions(db, event, []), {
    issued: 0,
    opened: [2, 1, 0, 0, 2, 1, ...Array(10).fill(0), 2, 2],
    lookers: [1, 1, 0, 0, 1, 1, ...Array(10).fill(0), 1, 1],
    settled: { sessions: 4, buyers: 1 },
    holds: { count: 3, seats: 6 },
  });
  // v0 has one here too, and the last one no session any more.
  const elsewhere: HoldElsewhere[] = [
    { visitor: visitorNamed('v0'), seats: [8], state: 'live' },
    { visitor: visitorNamed('v1'), seats: [9, 10, 11, 12], state: 'live' },
    { visitor: visitorNamed('v2'), seats: [13, 14], state: 'expired' },
    { visitor: visitorNamed('v6'), seats: [], state: 'tombstone' },
    { visitor: visitorNamed('gone'), seats: [15], state: 'ordered' },
  ];
  const both = await measureSessions(db, event, elsewhere);
  assert.deepEqual(both.lookers, [0, 0, 0, 0, 1, 1, ...Array(10).fill(0), 1, 1]);
  assert.deepEqual(both.holds, { count: 7, seats: 14 });
  assert.deepEqual(both.settled, { sessions: 4, buyers: 1 });
});

test('holds in Redis count for share and size of holds; a Redis that cannot be read stops no tick', async (t) => {
  const { db, event, room, run, seatCounts, database } = await setUp(t, { seats: 500 });
  const visitors = Array.from({ length: 10 }, (_, index) => visitorNamed(`v${index}`));
  await database.query(
    `INSERT INTO passes SELECT $1, a.visitor, gen_random_uuid(), 0, a.nth, now(), now() + interval '15 min'
     FROM unnest($2::text[]) WITH ORDINALITY AS a (visitor, nth)`,
    [event, visitors],
  );
  const held = visitors.map((visitor, index) => ({
    visitor,
    seats: [0, 1, 2, 3].map((seat) => index * 4 + seat),
    state: 'live' as const,
  }));
  let failed = 0;
  let redis: 'there' | 'gone' = 'gone';
  const task = createAdmissionTask({
    db,
    control: room,
    clock: systemClock,
    seatCounts,
    redisHolds: async () => {
      if (redis === 'there') return held;
      failed += 1;
      throw new StoreFault('store_unavailable', 'gone');
    },
  });
  const estimates = async (term: number) => {
    await database.query('UPDATE leases SET term = $1', [term]);
    await run(task, term);
    const { holdShare, seatsPerHold } = task.measured(event, term)!.estimates;
    return { holdShare, seatsPerHold };
  };
  const { holdShare, seatsPerHold } = admissionSettingsDefault.priors;
  const without = await estimates(1);
  assert.equal(failed, 1);
  assert.equal(without.seatsPerHold, seatsPerHold, 'nothing was ever read: as if there were none');
  assert.ok(without.holdShare <= holdShare);

  redis = 'there';
  const read = await estimates(2);
  assert.ok(read.seatsPerHold > seatsPerHold, 'four seats each, where two were expected');
  assert.ok(read.holdShare > holdShare, 'every one of them holds');

  redis = 'gone';
  let kept = read;
  await until(async () => {
    kept = await estimates(2);
    return failed > 1;
  }, 'the next measurement');
  assert.equal(failed, 2, 'measured again');
  assert.equal(kept.seatsPerHold, read.seatsPerHold, 'what was read last');
  assert.ok(kept.holdShare > holdShare);
});

test('a lease: one owner at a time, a new term with each change, gone at once when released', async (t) => {
  const { db, event, database } = await setUp(t);
  await database.query('DELETE FROM leases');
  const mine = createLease({ db, owner: 'a', clock: systemClock });
  const other = createLease({ db, owner: 'b', clock: systemClock });
  const kept = await Promise.all([mine.keep([event]), other.keep([event])]);
  assert.equal(
    kept.reduce((sum, terms) => sum + terms.size, 0),
    1,
    'both asked at once, one leads',
  );
  const [leader, second] = kept[0]!.size === 1 ? [mine, other] : [other, mine];
  assert.equal((await leader.keep([event])).get(event), 1, 'renewed, same term');
  assert.equal(leader.termOf(event), 1);
  assert.equal((await second.keep([event])).size, 0);
  assert.equal(second.termOf(event), null);
  await database.query(`UPDATE leases SET until = clock_timestamp()`);
  assert.equal((await leader.keep([event])).get(event), 2, 'its own lease had run out: a new term');
  await leader.release();
  assert.equal(leader.termOf(event), null);
  assert.equal((await second.keep([event])).get(event), 3);
  assert.equal((await leader.keep([event])).size, 0, 'released for good');
});

test('D4: a take-over waits for a write under way, and no write of the old term begins after it', async (t) => {
  const { db, event, room, database } = await setUp(t);
  await room.join(event, 0, [visitorNamed('a'), visitorNamed('b')]);
  const client = await database.pool(1).connect();
  await client.query('BEGIN');
  await client.query('SELECT admission_publish($1, 1, $2, 5, 5)', [event, [1]]);
  const steps: string[] = [];
  const takeOver = db
    .query(
      'take_over',
      `UPDATE leases SET owner = 'other', term = term + 1, until = 'infinity' WHERE event_no = $1`,
      [event],
    )
    .then(() => steps.push('taken over'));
  const [pid] = (await client.query('SELECT pg_backend_pid() AS pid')).rows;
  await until(() => keepsWaiting(database, pid.pid), 'the other to wait for this one');
  steps.push('committed');
  await client.query('COMMIT');
  await takeOver;
  client.release();
  assert.deepEqual(steps, ['committed', 'taken over']);
  assert.equal(await room.publish(event, 1, { frontier: [2], rate: 9, burst: 9 }), false);
  const [row] = await database.query('SELECT frontier, rate FROM admissions');
  assert.deepEqual([row.frontier.map(Number), row.rate], [[1], 5]);
});
