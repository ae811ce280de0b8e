import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import test, { type TestContext } from 'node:test';
import { createDb, type Db } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { createJoinBatcher } from '../../src/waiting-room/join-batcher.ts';
import { createPostgresWaitingRoom } from '../../src/waiting-room/postgres.ts';
import { type JoinOutcome, joinBatchMax } from '../../src/waiting-room/waiting-room.ts';
import { issued, joined, visitorNamed } from '../contract/waiting-room-cases.ts';
import { insertTestEvent } from '../contract/waiting-room-event.ts';
import { leads } from '../support/acts.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { until } from '../support/wait.ts';

async function setUp(t: TestContext, poolSize = 20) {
  const database = await testDatabase(t);
  const event = await insertTestEvent(database);
  const db = connect(t, database, poolSize);
  await leads(database, event);
  return { database, event, db, room: createPostgresWaitingRoom({ db }) };
}

function connect(t: TestContext, database: TestDatabase, poolSize: number): Db {
  const db = createDb({ url: database.url, poolSize, clock: systemClock, log: silentLogger });
  t.after(() => db.close());
  return db;
}

const names = (count: number, prefix = 'v'): string[] =>
  Array.from({ length: count }, (_, index) => visitorNamed(`${prefix}${index}`));

test('W1: 5,000 joins in batches over 20 connections: never twice, no gap, in order within each batch', async (t) => {
  const { event, room } = await setUp(t);
  const visitors = names(5_000);
  const batches = Array.from({ length: 100 }, (_, index) => visitors.slice(index * 50, index * 50 + 50));
  const answers = await Promise.all(batches.map((batch) => room.join(event, 0, batch)));
  for (const batch of answers) {
    const drawn = batch.map((outcome) => joined(outcome).number);
    assert.deepEqual(
      drawn,
      drawn.toSorted((a, b) => a - b),
    );
    assert.equal(drawn.at(-1)! - drawn[0]!, 49, 'a batch gets its numbers in one step');
    assert.equal(new Set(batch.map((outcome) => joined(outcome).issuedAt)).size, 1);
  }
  const all = answers.flat().map((outcome) => joined(outcome).number);
  assert.deepEqual(
    all.toSorted((a, b) => a - b),
    Array.from({ length: 5_000 }, (_, index) => index + 1),
  );
  const byNumber = answers
    .flat()
    .map(joined)
    .toSorted((a, b) => a.number - b.number);
  for (const [index, one] of byNumber.entries()) {
    assert.ok(index === 0 || one.issuedAt >= byNumber[index - 1]!.issuedAt, 'a later number is not older');
  }
});

test('W1: the same visitors joining at once over many connections each get one number', async (t) => {
  const { event, room } = await setUp(t);
  const visitors = names(100);
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, index) => {
      const turned = [...visitors.slice(index * 5), ...visitors.slice(0, index * 5)];
      return room
        .join(event, 0, turned)
        .then((outcomes) => turned.map((name, at) => [name, joined(outcomes[at]).number]));
    }),
  );
  const numbers = new Map<string, Set<number>>();
  for (const [name, number] of answers.flat() as [string, number][]) {
    numbers.set(name, (numbers.get(name) ?? new Set()).add(number));
  }
  assert.ok([...numbers.values()].every((drawn) => drawn.size === 1));
  assert.deepEqual(await room.lastNumbers(event), [100]);
});

test('W1: sweeping while people join loses and repeats nothing', async (t) => {
  const { database, event, room } = await setUp(t);
  const visitors = names(300);
  const drawn: number[] = [];
  for (let round = 0; round < 5; round++) {
    await database.query(`UPDATE queue_recent SET issued_at = issued_at - interval '2 minutes'`);
    const [first, second] = await Promise.all([
      room.join(event, 0, visitors),
      room.join(event, 0, visitors.toReversed()),
      room.sweep(event),
      room.sweep(event),
    ]);
    const numbers = (outcomes: JoinOutcome[]): number[] => outcomes.map((outcome) => joined(outcome).number);
    assert.deepEqual(numbers(first), numbers(second).toReversed());
    drawn.push(...numbers(first));
  }
  assert.equal(new Set(drawn).size, 1_500);
});

test('W1: a batch is answered although the sweep forgets its visitors while it runs', async (t) => {
  const { database, event, room } = await setUp(t);
  const known = names(100);
  const before = (await room.join(event, 0, known)).map((outcome) => joined(outcome).number);
  // The new one's insert takes half a second, in which all the others reach the end of their minute.
  await database.query(`CREATE FUNCTION wait_a_moment() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(0.5); RETURN NEW; END $$`);
  await database.query(
    'CREATE TRIGGER slow BEFORE INSERT ON queue_recent FOR EACH ROW EXECUTE FUNCTION wait_a_moment()',
  );
  await database.query(`UPDATE queue_recent SET issued_at = clock_timestamp() - interval '59.8 seconds'`);
  const joining = room.join(event, 0, [...known, ...names(1, 'new')]);
  const isForgotten = async () => {
    await room.sweep(event);
    const rows = await database.query('SELECT count(*)::integer AS left FROM queue_recent');
    return rows[0].left === 0;
  };
  await until(isForgotten, 'the visitors to be forgotten');
  const answers = (await joining).map((outcome) => joined(outcome));
  assert.deepEqual(
    answers.map(({ number, repeated }) => [number, repeated]),
    [...before.map((number) => [number, true]), [101, false]],
  );
});

test('W3: 200 concurrent redeems of one visitor give one pass for one token', async (t) => {
  const { database, event, room } = await setUp(t);
  const [visitor] = names(1) as [string];
  await room.join(event, 0, [visitor]);
  await room.publish(event, 1, { frontier: [1], rate: 0, burst: 200 });
  await database.query('UPDATE admissions SET tokens = 200');
  const redeem = () =>
    room.redeem({ event, shard: 0, number: 1, visitor, passId: randomUUID(), sessionMs: 900_000 });
  const answers = (await Promise.all(Array.from({ length: 200 }, redeem))).map(issued);
  assert.equal(new Set(answers.map((answer) => answer.passId)).size, 1);
  assert.equal(answers.filter((answer) => !answer.repeated).length, 1);
  const [row] = await database.query('SELECT tokens, issued FROM admissions');
  assert.deepEqual([row.tokens, Number(row.issued)], [199, 1]);
});

test('W2: of 100 visitors who redeem one number at once, one gets a pass', async (t) => {
  const { database, event, room } = await setUp(t);
  await room.join(event, 0, names(1));
  await room.publish(event, 1, { frontier: [1], rate: 0, burst: 200 });
  await database.query('UPDATE admissions SET tokens = 200');
  const answers = await Promise.all(
    names(100, 'thief').map((visitor) =>
      room.redeem({ event, shard: 0, number: 1, visitor, passId: randomUUID(), sessionMs: 900_000 }),
    ),
  );
  assert.equal(answers.filter((answer) => answer.kind === 'issued').length, 1);
  assert.equal(answers.filter((answer) => answer.kind === 'used').length, 99);
  assert.equal((await database.query('SELECT tokens FROM admissions'))[0].tokens, 199);
});

test('W3: 500 late sleepers over 20 connections do not get more than the bucket and its rate', async (t) => {
  const { database, event, room } = await setUp(t);
  const visitors = names(500);
  await room.join(event, 0, visitors);
  await room.publish(event, 1, { frontier: [500], rate: 20, burst: 40 });
  await database.query(`UPDATE admissions SET refilled_at = refilled_at - interval '1 hour'`);
  const [before] = await database.query('SELECT clock_timestamp() AS at');
  const answers = await Promise.all(
    visitors.map((visitor, index) =>
      room.redeem({ event, shard: 0, number: index + 1, visitor, passId: randomUUID(), sessionMs: 900_000 }),
    ),
  );
  const [after] = await database.query('SELECT clock_timestamp() AS at');
  const passes = answers.filter((answer) => answer.kind === 'issued').length;
  const allowed = 40 + (20 * (after.at.getTime() - before.at.getTime() + 1)) / 1000;
  assert.ok(passes >= 40 && passes <= allowed, `${passes} passes, at most ${allowed}`);
  assert.equal((await database.query('SELECT count(*)::int AS n FROM passes'))[0].n, passes);
});

test('W3: no pass is issued under a phase that was changed before it', async (t) => {
  const { database, event, room } = await setUp(t);
  const visitors = names(300);
  await room.join(event, 0, visitors);
  await room.publish(event, 1, { frontier: [300], rate: 0, burst: 300 });
  await database.query('UPDATE admissions SET tokens = 300');
  // Connected beforehand, so that the pause meets the redeems in the middle.
  const client = await database.pool(1).connect();
  const pause = async (): Promise<Date> => {
    await client.query('BEGIN');
    await client.query('SELECT event_lock_alone($1)', [event]);
    await client.query(`UPDATE events SET phase = 'paused' WHERE event_no = $1`, [event]);
    const { rows } = await client.query('SELECT clock_timestamp() AS at');
    await client.query('COMMIT');
    client.release();
    return rows[0].at;
  };
  const redeems = visitors.map((visitor, index) =>
    room.redeem({ event, shard: 0, number: index + 1, visitor, passId: randomUUID(), sessionMs: 900_000 }),
  );
  const [pausedAt] = await Promise.all([pause(), ...redeems]);
  const late = await database.query('SELECT count(*)::int AS n FROM passes WHERE issued_at > $1', [pausedAt]);
  assert.equal(late[0].n, 0);
  const answers = await Promise.all(redeems);
  assert.ok(
    answers.some((answer) => answer.kind === 'not_open'),
    'the pause came in between',
  );
});

test('W6: every move of the frontier is kept with its term and instant', async (t) => {
  const { database, event, room } = await setUp(t);
  await room.join(event, 0, names(50));
  for (const frontier of [10, 10, 5, 30, 90]) {
    await room.publish(event, 1, { frontier: [frontier], rate: 1, burst: 1 });
  }
  const moves = await database.query('SELECT shard, term, frontier FROM frontier_moves ORDER BY at');
  assert.deepEqual(
    moves.map((move) => [move.shard, Number(move.term), Number(move.frontier)]),
    [
      [0, 1, 10],
      [0, 1, 30],
      [0, 1, 50],
    ],
  );
});

test('joins that arrive together share calls, keep their order and are each answered', async (t) => {
  const { event, room } = await setUp(t, 2);
  const batches: number[] = [];
  const batcher = createJoinBatcher({
    clock: systemClock,
    room: {
      join: (no, shard, visitors) => {
        batches.push(visitors.length);
        return room.join(no, shard, visitors);
      },
    },
  });
  const outcomes = await Promise.all(names(1_200).map((visitor) => batcher.join(event, 0, visitor)));
  const numbers = outcomes.map((outcome) => (outcome.kind === 'joined' ? outcome.number : 0));
  assert.deepEqual(
    numbers,
    Array.from({ length: 1_200 }, (_, index) => index + 1),
  );
  assert.deepEqual(batches, [joinBatchMax, joinBatchMax, 200]);
});

test('a sweep of one event forgets what another event, which is no longer swept, remembered for too long', async (t) => {
  const { database, event, room } = await setUp(t);
  const ended = await insertTestEvent(database);
  await room.join(ended, 0, names(3));
  await database.query(`UPDATE queue_recent SET issued_at = issued_at - interval '2 minutes'`);
  await room.join(event, 0, names(2));
  assert.equal(await room.sweep(event), 3);
  assert.equal(await room.sweep(ended), 0, 'what is younger stays');
});
