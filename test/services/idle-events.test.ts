import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createWaker } from '../../src/controller/event-rest.ts';
import { createDb } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { createPostgresWaitingRoom } from '../../src/waiting-room/postgres.ts';
import { leads } from '../support/acts.ts';
import { startTestApp, type TestApp, until } from '../support/app.ts';
import { copyEvent } from '../support/copied-events.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { stageEvent } from '../support/stage.ts';
import { pause } from '../support/wait.ts';

const idle = 100;

/** Puts events to rest at once, without the seconds that their leader takes to see that nothing is under way any more. */
async function settle(database: TestDatabase, events: number[]): Promise<void> {
  await database.query(
    `INSERT INTO event_rests (event_no, wake_at, made_as, settled)
       SELECT event_no, event_wake_at(e, 3600000), coalesce((SELECT min(made_as) FROM event_rests), 'test'), true
       FROM events e WHERE event_no = ANY ($1)
     ON CONFLICT (event_no) DO UPDATE SET settled = true, wake_at = excluded.wake_at`,
    [events],
  );
}

async function resting(database: TestDatabase): Promise<number[]> {
  const rows = await database.query<{ event_no: number }>(
    `SELECT event_no FROM event_rests r WHERE settled AND wake_at > now()
       AND NOT EXISTS (SELECT FROM event_wakes w WHERE w.event_no = r.event_no) ORDER BY event_no`,
  );
  return rows.map(({ event_no: event }) => event);
}

test('100 idle events: no seat is read while nothing changes; each is led again within a second of what concerns it', async (t) => {
  const app = await startTestApp(t, { seats: 100 });
  const { database, eventNo } = app;
  const query = (sql: string, values: unknown[]) => database.query<{ event_no: number }>(sql, values);
  const copies = await copyEvent(query, eventNo, idle);
  const published = async (): Promise<boolean> => {
    const [row] = await database.query<{ objects: number }>(
      'SELECT count(*)::integer AS objects FROM published',
    );
    return row!.objects === 4 * (idle + 1);
  };
  await until(published, 'everything to be published', 60_000);
  const rests = async (): Promise<boolean> => {
    const [row] = await database.query<{ rests: number }>(
      'SELECT count(*)::integer AS rests FROM event_rests',
    );
    return row!.rests >= idle;
  };
  await until(rests, 'the leader to find nothing to do', 60_000);
  // One of them rests when its leader finds it so; the test does not wait for the others.
  const [own, joined, blocked, lapsing, opening, ...others] = copies as [
    number,
    number,
    number,
    number,
    number,
  ];
  await settle(database, [joined, blocked, lapsing, opening, ...others]);
  await Promise.all([
    until(async () => (await resting(database)).includes(own), 'a leader to put its event to rest', 60_000),
    // Sessions report what they read up to ten seconds later.
    until(() => nothingRead(database, [eventNo, own]), 'a while without a read seat', 60_000),
  ]);
  await settle(database, [eventNo]);
  assert.deepEqual(
    await resting(database),
    [eventNo, ...copies].sort((a, b) => a - b),
  );
  const ready = await fetch(`${app.url}/readyz`);
  assert.equal(ready.status, 200, await ready.text());
  const first = await statusOf(app, 'show-1');
  await until(
    async () => (await statusOf(app, 'show-1')).serverTime > first.serverTime,
    'the time of a status that nothing has changed to go on',
  );
  assert.deepEqual((await statusOf(app, 'show-1')).v, first.v);

  await Promise.all([
    showsBlock(app, blocked),
    showsLine(app, joined),
    showsLapse(app, lapsing),
    opensInTime(app, opening).then((lateMs) => t.diagnostic(`opened ${lateMs} ms after its start`)),
  ]);
});

async function showsBlock({ database, url }: TestApp, event: number): Promise<void> {
  const name = await nameOf(database, event);
  await database.query(`SELECT * FROM seats_block($1, 'test', 'test', '{3}')`, [event]);
  await until(async () => (await statusOf({ url }, name)).seats.total === 99, 'a block to be shown');
}

async function showsLine({ database, app, url }: TestApp, event: number): Promise<void> {
  const name = await nameOf(database, event);
  await database.query(`UPDATE events SET phase = 'pre_queue' WHERE event_no = $1`, [event]);
  await until(async () => (await statusOf({ url }, name)).phase === 'pre_queue', 'the new phase to be shown');
  await settle(database, [event]);
  await createPostgresWaitingRoom({ db: app.db }).join(event, 0, ['first']);
  await until(async () => (await statusOf({ url }, name)).last[0] === 1, 'the first to join to be shown');
}

async function showsLapse({ database, url }: TestApp, event: number): Promise<void> {
  const name = await nameOf(database, event);
  await database.query(
    `WITH held AS (
       INSERT INTO holds (event_no, hold_id, partition, visitor, holder, request, seats, granted_at, deadline, epoch, grant_no, state)
       SELECT $1, gen_random_uuid(), 0, 'v', 'v', 'r', '{1,2}', now(), now() + interval '6 seconds', epoch, 1, 'live'
       FROM event_partitions WHERE event_no = $1 RETURNING *)
     UPDATE seats s SET hold_id = h.hold_id, hold_until = h.deadline, hold_epoch = h.epoch FROM held h
     WHERE s.event_no = $1 AND s.seat_no = ANY (h.seats)`,
    [event],
  );
  await until(async () => (await statusOf({ url }, name)).seats.inBaskets === 2, 'the hold to be shown');
  await settle(database, [event]);
  await until(
    async () => (await statusOf({ url }, name)).seats.inBaskets === 0,
    'the end of a hold to be shown',
  );
}

/** Returns by how many milliseconds it was late. */
async function opensInTime({ database }: TestApp, event: number): Promise<number> {
  const [row] = await database.query<{ at: Date }>(
    `UPDATE events SET on_sale_at = clock_timestamp() + interval '6 seconds' WHERE event_no = $1 RETURNING on_sale_at AS at`,
    [event],
  );
  await until(async () => !(await resting(database)).includes(event), 'the new start to be seen');
  await settle(database, [event]);
  let opened: { at: Date } | undefined;
  await until(async () => {
    [opened] = await database.query<{ at: Date }>(
      `SELECT at FROM audit_log WHERE event_no = $1 AND action = 'phase'`,
      [event],
    );
    return opened !== undefined;
  }, 'the sale to be opened');
  const lateMs = opened!.at.getTime() - row!.at.getTime();
  // Found again by the start itself, not by a look some time later; the machine may be busy.
  assert.ok(lateMs >= 0 && lateMs < 20_000, `opened ${lateMs} ms after its start`);
  return lateMs;
}

/** Whether no seat, venue or layout was read for three seconds, by Postgres's statistics, but for seats of some events. */
async function nothingRead(database: TestDatabase, but: number[]): Promise<boolean> {
  const read = async (): Promise<number> => {
    const [row] = await database.query<{ rows: number }>(
      `SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::float8 AS rows FROM pg_stat_user_tables
       WHERE relname ~ '^(seats(_[0-9]+)?|event_seats|layouts)$' AND relname <> ALL ($1)`,
      [but.map((event) => `seats_${event}`)],
    );
    return row!.rows;
  };
  const before = await read();
  await pause(3_000, 'that nothing happens can only be seen over a time');
  return (await read()) === before;
}

interface Status {
  v: [number, number];
  phase: string;
  last: number[];
  seats: { total: number; inBaskets: number };
  serverTime: number;
}
async function statusOf(app: Pick<TestApp, 'url'>, event: string): Promise<Status> {
  const answer = await fetch(`${app.url}/api/events/${event}/status`);
  return (await answer.json()) as Status;
}

async function nameOf(database: TestDatabase, event: number): Promise<string> {
  const [row] = await database.query<{ event_id: string }>(
    'SELECT event_id FROM events WHERE event_no = $1',
    [event],
  );
  return row!.event_id;
}

describe('an event at rest', () => {
  const led = async (database: TestDatabase, madeAs = 'test', clearMs = 0) =>
    await database.query<{ event_no: number; clear: boolean | null }>(
      'SELECT * FROM events_to_lead($1, 3000, $2, 5)',
      [madeAs, clearMs],
    );
  const rest = (database: TestDatabase, event: number) =>
    database.query(`SELECT events_rest(ARRAY[$1::int], '{1}', 'test', 15000, 3600000)`, [event]);

  /** An event that is led under term 1. */
  async function quietEvent(database: TestDatabase): Promise<number> {
    const { event } = await stageEvent(database, { mode: 'postgres' });
    await database.query(`UPDATE events SET layout_hash = 'test' WHERE event_no = $1`, [event]);
    await leads(database, event);
    return event;
  }

  test('is woken by each change of seats, line, controls and stores, and by nothing that its leader writes', async (t) => {
    const database = await testDatabase(t);
    const event = await quietEvent(database);
    const other = await quietEvent(database);
    const wakes = async (sql: string): Promise<boolean> => {
      await database.query('DELETE FROM event_wakes');
      await database.query('DELETE FROM event_rests');
      await settle(database, [event, other]);
      await database.query(sql.replaceAll('$1', String(event)));
      const found = (await led(database)).map(({ event_no: no }) => no);
      assert.ok(!found.includes(other), `${sql} wakes another event`);
      return found.includes(event);
    };
    for (const change of [
      `SELECT seats_block($1, 'test', 'test', '{1}')`,
      `SELECT seats_unblock($1, 'test', '{1}')`,
      `SELECT arbiter_hold(e.event_no, 0::smallint, p.epoch, gen_random_uuid(), 'v', 'v', 'r', '{4,5}', 2, true, NULL, 600000, 6,
         NULL, NULL) FROM events e JOIN event_partitions p USING (event_no) WHERE e.event_no = $1`,
      `UPDATE seats SET state = 'sold' WHERE event_no = $1 AND seat_no = 7`,
      `UPDATE seats SET state = 'available' WHERE event_no = $1 AND seat_no = 7`,
      `SELECT queue_join($1, 0::smallint, '{a}', 60000, 10000)`,
      `UPDATE admissions SET issued = issued + 1 WHERE event_no = $1`,
      `UPDATE events SET message = 'hello' WHERE event_no = $1`,
      `UPDATE event_partitions SET mode = 'moving' WHERE event_no = $1`,
      `INSERT INTO partition_witnesses VALUES ($1, 0, 'web', 1, 'timeout', now())`,
      `UPDATE queue_counters SET reported_by = 'web', reported_at = now() WHERE event_no = $1`,
      'SELECT event_wake($1)',
    ]) {
      assert.ok(await wakes(change), `${change} wakes the event`);
    }
    for (const write of [
      `SELECT admission_publish($1, 1, '{1}', 5, 5)`,
      `SELECT publish_objects($1, 1, '{status}', '{1}', ARRAY['x'::bytea])`,
      `SELECT lease_keep('test', '{$1}', 60000)`,
      `SELECT arbiter_sweep($1, 0::smallint, 1000)`,
      `UPDATE queue_counters SET read_ms = 5 WHERE event_no = $1`,
      // Has the effect of queue_note for a queue in Redis that no visitor joined.
      `UPDATE queue_counters SET last_no = greatest(last_no, 0), read_ms = 6 WHERE event_no = $1`,
      `UPDATE event_partitions SET run_ids = run_ids WHERE event_no = $1`,
    ]) {
      assert.ok(!(await wakes(write)), `${write} leaves the event at rest`);
    }
  });

  test('is settled only when each change that began before its rest has ended', async (t) => {
    const database = await testDatabase(t);
    const event = await quietEvent(database);
    const early = await database.pool(1).connect();
    await early.query('BEGIN');
    await early.query('UPDATE seats SET version = version + 1 WHERE event_no = $1 AND seat_no = 1', [event]);
    await rest(database, event);
    assert.deepEqual(await led(database), [{ event_no: event, clear: false }]);
    await early.query('COMMIT');
    early.release();
    await until(async () => (await led(database))[0]?.clear === true, 'the rest to be clear');
    assert.equal((await led(database, 'test', 60_000))[0]?.clear, false, 'young as it is');
    await database.query(`SELECT events_settle(ARRAY[$1::int], '{2}')`, [event]);
    assert.equal((await led(database)).length, 1, 'not by another term');
    await database.query(`SELECT events_settle(ARRAY[$1::int], '{1}')`, [event]);
    assert.deepEqual(await led(database), []);
    const [kept] = await database.query<{ term: string }>(
      `SELECT term FROM lease_keep('test', ARRAY[$1::int], 3000)`,
      [event],
    );
    assert.equal(Number(kept!.term), 2, 'who leads it next does so in a new term');
    await database.query(`UPDATE event_rests SET made_at = now() - interval '2 minutes'`);
    assert.equal((await led(database, 'another version')).length, 1, 'published again by another version');
  });

  test('a process that changes something in Redis notes it first, and again after a while', async (t) => {
    const database = await testDatabase(t);
    const event = await quietEvent(database);
    const db = createDb({ url: database.url, poolSize: 1, clock: systemClock, log: silentLogger });
    t.after(() => db.close());
    let now = 0;
    const wake = createWaker({ db, clock: { monotonic: () => now } });
    await settle(database, [event]);
    await wake(event);
    assert.equal((await led(database)).length, 1);
    await settle(database, [event]);
    await wake(event);
    assert.equal((await led(database)).length, 0, 'what was noted a moment ago');
    now += 5_000;
    await wake(event);
    assert.equal((await led(database)).length, 1);
  });
});
