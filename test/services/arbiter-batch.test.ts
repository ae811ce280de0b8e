import assert from 'node:assert/strict';
import test, { after } from 'node:test';
import type { Claim, HoldOutcome } from '../../src/inventory/arbiter.ts';
import { createPostgresArbiter } from '../../src/inventory/postgres.ts';
import type { Db } from '../../src/postgres/db.ts';
import { seededRandom } from '../../src/runtime/random.ts';
import { inProcessWorld } from '../contract/arbiter-in-process-world.ts';
import { postgresWorld, testDb } from '../contract/arbiter-postgres-world.ts';
import { commandsOf, idOf, seatsOf } from '../contract/arbiter-world.ts';
import { testDatabase } from '../support/postgres.ts';

// Claims that share a call to Postgres; that a claim alone goes as in the reference is in the contract suite.
const database = await testDatabase();
let retries = 0;
const newDb = (): Db => testDb(database, 8, () => void retries++);
const db = newDb();
after(() => db.close());

const times = <T>(count: number, make: (i: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => make(i));
function tally(outcomes: readonly { kind: string }[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { kind } of outcomes) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}

/** Counts the calls by the name of their statement. */
function watched(inner: Db): { db: Db; calls: Map<string, number> } {
  const calls = new Map<string, number>();
  const query: Db['query'] = (name, text, values) => {
    calls.set(name, (calls.get(name) ?? 0) + 1);
    return inner.query(name, text, values);
  };
  return { db: { ...inner, query }, calls };
}

async function open(seats: number) {
  const world = await postgresWorld(database, db);
  const { db: counted, calls } = watched(db);
  const shared = { ...world, arbiter: createPostgresArbiter({ db: counted }) };
  const commands = commandsOf(shared);
  await commands.load(seats);
  return { world: shared, calls, ...commands };
}

test('S2: claims that share calls are granted and refused as one after the other', async () => {
  const { hold, codes, calls } = await open(64);
  const reference = await inProcessWorld();
  const expected = commandsOf(reference);
  await expected.load(64);
  const random = seededRandom(815);
  // Within eight seats that go one way, so that the order of arrival is the order of deciding.
  const claims = times(300, (): Claim => {
    const block = 16 * random.int(4);
    const pick = (count: number): number[] => {
      const first = block + random.int(9 - count);
      return times(count, (i) => first + i);
    };
    if (random.int(3) === 0) return { kind: 'groups', groups: times(1 + random.int(3), () => pick(2)) };
    return seatsOf(...pick(1 + random.int(3)));
  });
  const more = (i: number) => (i % 50 === 49 ? { notAfter: 1 } : {});
  const outcomes = await Promise.all(claims.map((claim, i) => hold(i, `visitor-${i}`, claim, more(i))));
  for (const [i, claim] of claims.entries()) {
    const wanted = await expected.hold(i, `visitor-${i}`, claim, more(i));
    assert.equal(outcomes[i]!.kind, wanted.kind, `claim ${i}: ${JSON.stringify(claim)}`);
    if (wanted.kind === 'granted') {
      assert.deepEqual((outcomes[i] as typeof wanted).hold.seats, wanted.hold.seats, `claim ${i}`);
    }
  }
  assert.deepEqual(await codes(), await expected.codes());
  assert.deepEqual(Object.keys(tally(outcomes)).sort(), ['granted', 'taken', 'too_late']);
  assert.ok(calls.get('arbiter_hold_many')! < 10, `${calls.get('arbiter_hold_many')} calls for 300 claims`);
  assert.equal(calls.get('arbiter_hold') ?? 0, 0, 'none had to be asked about alone');
});

test('S7: of one visitor who asks ten times at once, one hold is granted, whatever shares a call', async () => {
  const { hold, codes } = await open(100);
  const outcomes = await Promise.all([
    ...times(10, (i) => hold(i, 'eager', seatsOf(i))),
    ...times(10, () => hold(50, 'repeating', seatsOf(60, 61))),
    ...times(10, (i) =>
      hold(100 + i, `v-${i}`, seatsOf(20 + 2 * i, 21 + 2 * i), { holder: 'account', seatsMax: 6 }),
    ),
  ]);
  assert.deepEqual(tally(outcomes.slice(0, 10)), { granted: 1, hold_exists: 9 });
  const repeats = outcomes.slice(10, 20) as Extract<HoldOutcome, { kind: 'granted' }>[];
  assert.deepEqual(tally(repeats), { granted: 10 });
  assert.equal(repeats.filter(({ repeated }) => !repeated).length, 1);
  assert.deepEqual(tally(outcomes.slice(20)), { granted: 3, quota: 7 });
  assert.equal((await codes()).filter((code) => code === 1).length, 1 + 2 + 6);
});

test('S3: three processes with 900 claims to the same 40 seats: each once, no deadlock', async () => {
  const { world, load, codes } = await open(40);
  await load(40);
  const pools = times(2, newDb);
  const processes = [db, ...pools].map((each) => createPostgresArbiter({ db: each }));
  const random = seededRandom(2_026);
  const outcomes = await Promise.all(
    times(900, (i) => {
      const own = { ...world, arbiter: processes[i % 3]! };
      const first = random.int(38);
      const claim: Claim =
        i % 4 === 0
          ? { kind: 'groups', groups: times(3, (n) => [(first + 3 * n) % 38, ((first + 3 * n) % 38) + 1]) }
          : seatsOf(...times(1 + random.int(3), (n) => first + n));
      return commandsOf(own).hold(1_000 + i, `visitor-${i}`, claim);
    }),
  );
  await Promise.all(pools.map((pool) => pool.close()));
  const granted = outcomes.flatMap((outcome) => (outcome.kind === 'granted' ? outcome.hold.seats : []));
  assert.equal(new Set(granted).size, granted.length, 'no seat twice');
  assert.deepEqual(Object.keys(tally(outcomes)).sort(), ['granted', 'taken']);
  assert.equal((await codes()).filter((code) => code === 1).length, granted.length);
  const [row] = await database.query<{ n: number }>(
    `SELECT count(*)::int AS n FROM holds h WHERE h.event_no = $1 AND cardinality(h.seats) <>
       (SELECT count(*) FROM seats s WHERE s.event_no = $1 AND s.hold_id = h.hold_id)`,
    [world.event],
  );
  assert.equal(row!.n, 0, 'S2: no half holds');
  assert.equal(retries, 0, 'deadlocks');
});

test('a claim that waits for another decision does not delay the claims that share its call', async () => {
  const { world, hold } = await open(16);
  const client = await database.pool(1).connect();
  await client.query('BEGIN');
  await client.query('SELECT FROM seats WHERE event_no = $1 AND seat_no = 3 FOR UPDATE', [world.event]);
  const waiting = hold(1, 'patient', seatsOf(3));
  const others = await Promise.all(times(3, (i) => hold(10 + i, `v-${i}`, seatsOf(i))));
  assert.deepEqual(tally(others), { granted: 3 });
  await client.query('COMMIT');
  client.release();
  assert.equal((await waiting).kind, 'granted');
});

test('a loser learns that the seat is taken although the winner’s decision takes seconds, and a free seat is not reported as taken', async () => {
  const { world, hold } = await open(16);
  const client = await database.pool(1).connect();
  await client.query('BEGIN');
  await client.query('SELECT FROM seats WHERE event_no = $1 AND seat_no = 3 FOR UPDATE', [world.event]);
  try {
    const losers = await Promise.all(times(12, (i) => hold(i, `v-${i}`, seatsOf(3, 4))));
    assert.deepEqual(
      losers,
      times(12, () => ({ kind: 'taken', seats: [3] })),
    );
    await client.query('SELECT event_lock_alone($1)', [world.event]);
    await assert.rejects(hold(100, 'v-100', seatsOf(5)), { code: 'store_busy' });
  } finally {
    await client.query('ROLLBACK');
    client.release();
  }
  assert.equal((await hold(101, 'v-101', seatsOf(3, 4))).kind, 'granted');
});

test('a batch during a pause returns paused for each of its claims', async () => {
  const { world, hold } = await open(16);
  await world.setPhase('paused');
  const outcomes = await Promise.all(times(20, (i) => hold(i, `v-${i}`, seatsOf(i % 8))));
  assert.deepEqual(
    outcomes,
    times(20, () => ({ kind: 'not_open', phase: 'paused' })),
  );
  assert.equal(await world.arbiter.find(world.event, 0, idOf(1)), null);
});
