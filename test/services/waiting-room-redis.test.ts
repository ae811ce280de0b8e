import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { systemClock } from '../../src/runtime/clock.ts';
import { StoreFault } from '../../src/runtime/store-fault.ts';
import type { NumberStore } from '../../src/waiting-room/numbers.ts';
import type { JoinOutcome } from '../../src/waiting-room/waiting-room.ts';
import { visitorNamed } from '../contract/waiting-room-cases.ts';
import { insertTestEvent } from '../contract/waiting-room-event.ts';
import {
  newPrefix,
  type QueueProcess,
  queueProcess,
  rule,
  turnToRedis,
} from '../contract/waiting-room-redis.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { type TestRedis, testRedis, withoutRedis } from '../support/redis.ts';
import { pause, until } from '../support/wait.ts';

const skip = withoutRedis;

interface Setting {
  database: TestDatabase;
  redis: TestRedis;
  event: number;
  prefix: string;
  /** Another process of the same installation. */
  start(owner: string): QueueProcess;
}

async function setUp(
  t: TestContext,
  options: { settleMs?: number; queueShards?: number } = {},
): Promise<Setting> {
  const { settleMs = 0, queueShards = 1 } = options;
  const [database, redis] = await Promise.all([testDatabase(t), testRedis(t)]);
  const event = await insertTestEvent(database, { queueShards });
  await rule(database, event, 1);
  const prefix = newPrefix();
  const start = (owner: string) => queueProcess(t, { database, redis: [redis], prefix, owner, settleMs });
  return { database, redis, event, prefix, start };
}

const counterOf = async ({ database, event }: Setting) =>
  (
    await database.query<{ mode: string; epoch: number; last: number; ceiling: number }>(
      'SELECT mode, epoch::int, last_no::int AS last, ceiling::int FROM queue_counters WHERE event_no = $1 AND shard = 0',
      [event],
    )
  )[0]!;

const gapsOf = ({ database, event }: Setting) =>
  database.query<{ first: number; last: number }>(
    'SELECT first::int, last::int FROM queue_gaps WHERE event_no = $1 ORDER BY first',
    [event],
  );

let people = 0;
const newcomers = (count: number): string[] =>
  Array.from({ length: count }, () => {
    people += 1;
    return visitorNamed(`p${people}`);
  });
const numbersOf = (outcomes: JoinOutcome[]): number[] =>
  outcomes.flatMap((outcome) => (outcome.kind === 'joined' ? [outcome.number] : []));

interface Call {
  began: number;
  ended: number;
  numbers: number[];
}

/** Joins without pause until it is stopped. */
function crowdAt(process: QueueProcess, event: number, calls: Call[], stop: AbortSignal): Promise<void> {
  return (async () => {
    while (!stop.aborted) {
      const began = systemClock.monotonic();
      const outcomes = await process.room.join(event, 0, newcomers(20));
      calls.push({ began, ended: systemClock.monotonic(), numbers: numbersOf(outcomes) });
      const unanswered = outcomes.some(({ kind }) => kind === 'retry');
      await pause(unanswered ? 20 : 2, 'a web process paces its calls');
    }
  })();
}

/** Later numbers are higher, as far as one call ended before the other began; and no number is issued twice. */
function assertOrder(calls: Call[]): void {
  const all = calls.flatMap((call) => call.numbers);
  assert.equal(new Set(all).size, all.length, 'no number is issued twice');
  const ends = calls
    .filter(({ numbers }) => numbers.length > 0)
    .map(({ ended, numbers }) => ({ at: ended, highest: Math.max(...numbers) }))
    .toSorted((a, b) => a.at - b.at);
  const begins = calls.filter(({ numbers }) => numbers.length > 0).toSorted((a, b) => a.began - b.began);
  let [next, highest] = [0, 0];
  for (const { began, numbers } of begins) {
    while (next < ends.length && ends[next]!.at < began) highest = Math.max(highest, ends[next++]!.highest);
    assert.ok(numbers[0]! > highest, `${numbers[0]} after ${highest}`);
    assert.deepEqual(
      numbers,
      numbers.toSorted((a, b) => a - b),
    );
  }
}

async function lose(redis: TestRedis, how: string): Promise<void> {
  if (how === 'killed, back empty') {
    await redis.kill();
    await redis.restart('empty');
  } else if (how === 'flushed') {
    await redis.flush();
  } else if (how === 'back with an old file') {
    await redis.restart('saved');
  } else {
    redis.freeze();
    await pause(1_500, 'frozen for longer than a call waits');
    redis.thaw();
  }
}

test('W1: never twice and always higher, over a Redis killed, flushed, brought back old, and frozen', {
  skip,
}, async (t) => {
  const world = await setUp(t);
  const { redis, event } = world;
  const [a, b] = [world.start('a'), world.start('b')];
  const calls: Call[] = [];
  const stopping = new AbortController();
  const leader = (async () => {
    while (!stopping.signal.aborted) {
      await a.stores.refresh(event, 1);
      await pause(200, 'the leader’s tick', stopping.signal).catch(() => {});
    }
  })();
  const crowds = [a, b].map((process) => crowdAt(process, event, calls, stopping.signal));
  const onRedisAgain = (epoch: number) =>
    until(async () => {
      const now = await counterOf(world);
      return now.mode === 'redis' && now.epoch > epoch && now;
    }, 'Redis to have the numbering again');
  let { epoch } = await onRedisAgain(0);
  for (const how of ['killed, back empty', 'flushed', 'back with an old file', 'frozen']) {
    await redis.save();
    const before = calls.length;
    await until(() => calls.length > before + 20, 'some joins after the file was written');
    await lose(redis, how);
    ({ epoch } = await onRedisAgain(epoch));
    const drawn = calls.flatMap(({ numbers }) => numbers).length;
    await until(
      () => calls.flatMap(({ numbers }) => numbers).length > drawn + 200,
      `joins after it was ${how}`,
    );
  }
  stopping.abort();
  await Promise.all([leader, ...crowds]);
  assertOrder(calls);
  const gaps = await gapsOf(world);
  assert.equal(gaps.length, 4, 'each loss leaves one');
  await a.stores.refresh(event, 1);
  const highest = Math.max(...calls.flatMap(({ numbers }) => numbers));
  assert.equal((await counterOf(world)).last, highest);
});

test('W1: a process that still draws in the old Redis gets numbers that no other visitor gets', {
  skip,
}, async (t) => {
  const world = await setUp(t);
  const { event, database } = world;
  const [a, b] = [world.start('a'), world.start('b')];
  await turnToRedis(a, event, 1);
  await b.room.join(event, 0, newcomers(10));
  // As if it had been stopped since: it goes on with what it read.
  const old = await b.control.read(event);
  b.control.read = async () => old;
  const at = { event, shard: 0, epoch: old.shards[0]!.epoch };
  const turn = (epoch: number, term: number | null, reporter: string) =>
    a.control.toPostgres({ ...at, epoch, term, reporter, reason: 'test', seen: 0, step: 10_000 });
  assert.equal(await turn(at.epoch, 2, 'a'), 'other_term');
  assert.equal(await turn(at.epoch, 1, 'a'), 'turned');
  assert.equal(await turn(at.epoch, 1, 'a'), 'already');
  await a.control.read(event, systemClock.monotonic());
  const all: number[] = [];
  for (let round = 0; round < 60; round++) {
    const answers = await Promise.all([a, b].map((one) => one.room.join(event, 0, newcomers(200))));
    all.push(...answers.flatMap(numbersOf));
  }
  const [gap] = await gapsOf(world);
  assert.equal(new Set(all).size, all.length);
  const inGap = all.filter((number) => number >= gap!.first && number <= gap!.last).length;
  assert.ok(inGap > 9_000, `${inGap} of the stale process`);
  assert.ok(inGap < 10_000, 'the ceiling stops it');
  assert.ok(all.every((number) => number <= gap!.last || number >= old.shards[0]!.ceiling));

  await turnToRedis(a, event, 1);
  const late = await b.room.join(event, 0, newcomers(5));
  assert.ok(
    late.every(({ kind }) => kind === 'retry'),
    'the store refuses the old epoch',
  );
  assert.equal((await database.query('SELECT FROM queue_gaps')).length, 1);
});

test('W1: an epoch is opened once, and nothing at or above its ceiling is issued', { skip }, async (t) => {
  const world = await setUp(t);
  const { event, redis } = world;
  const store = [...world.start('a').numbers.values()][0] as NumberStore;
  const at = { event, shard: 0, epoch: 7 };
  await until(() => store.primaries().catch(() => null), 'the connection');
  store.trust(event, 0, [redis.runId]);
  assert.deepEqual(await store.open({ ...at, last: 5, ceiling: 16 }), { kind: 'opened' });
  assert.deepEqual(await store.open({ ...at, last: 0, ceiling: 99 }), { kind: 'stale', epoch: 7 });
  assert.deepEqual(await store.open({ ...at, epoch: 6, last: 0, ceiling: 99 }), { kind: 'stale', epoch: 7 });
  const names = newcomers(30);
  const draw = async (ceiling: number, floor = 5, epoch = 7) =>
    store.draw({ ...at, epoch, ceiling, floor, visitors: names });
  const numbers = async (ceiling: number) => {
    const outcome = await draw(ceiling);
    return outcome.kind === 'drawn' ? outcome.drawn.map((one) => one?.number ?? null) : outcome;
  };
  const upTo = (last: number): (number | null)[] =>
    names.map((_, index) => (6 + index <= last ? 6 + index : null));
  assert.deepEqual(await numbers(16), upTo(15));
  assert.deepEqual(await numbers(10), upTo(15), 'an older ceiling lowers nothing');
  assert.deepEqual(await numbers(21), upTo(20), 'who has a number keeps it');
  assert.deepEqual(
    await draw(99, 21),
    { kind: 'stale', epoch: 0 },
    'it forgot a number that is known to be issued',
  );
  assert.deepEqual(await draw(99, 5, 8), { kind: 'stale', epoch: 7 });
  assert.deepEqual(await numbers(99), upTo(35));
  await redis.flush();
  assert.deepEqual(await draw(99), { kind: 'stale', epoch: 0 });
});

test('W1: numbering is handed over by the ruling term, on the epoch it expects, to a clock that is right, once it has settled', {
  skip,
}, async (t) => {
  const world = await setUp(t, { settleMs: 60_000 });
  const { event, database } = world;
  const { control } = world.start('a');
  const [row] = (await control.read(event)).shards;
  const command = {
    event,
    shard: 0,
    epoch: row!.epoch,
    term: 1,
    store: 'default',
    runIds: ['r'],
    step: 100,
    redisMs: Date.now(),
    above: 0,
  };
  assert.deepEqual(await control.toRedis({ ...command, term: 2 }), { kind: 'other_term' });
  assert.deepEqual(await control.toRedis({ ...command, epoch: row!.epoch - 1 }), { kind: 'other_mode' });
  for (const off of [-5_000, 5_000]) {
    assert.deepEqual(await control.toRedis({ ...command, redisMs: Date.now() + off }), { kind: 'clock' });
  }
  const turned = await control.toRedis({ ...command, redisMs: Date.now() });
  assert.ok(turned.kind === 'turned' && turned.epoch > row!.epoch && turned.ceiling >= 101);
  assert.deepEqual(await control.toRedis(command), { kind: 'other_mode' });

  const at = { event, shard: 0, epoch: turned.epoch };
  const looked = { at: Date.now(), ageMs: 0, last: 7, arrivals: [{ second: 5, last: 7 }] };
  assert.equal(await control.note(at, 2, looked), false);
  assert.equal(await control.note({ ...at, epoch: row!.epoch }, 1, looked), false);
  assert.equal(await control.note(at, 1, looked), true);
  assert.equal(await control.note(at, 1, { ...looked, last: 3, arrivals: [{ second: 5, last: 3 }] }), true);
  assert.equal((await counterOf(world)).last, 7, 'it only rises');
  assert.equal((await database.query('SELECT last::int FROM queue_arrivals'))[0].last, 7);
  const ceiling = await control.raise(at, 1_000_000_000, 500);
  assert.equal(ceiling, turned.ceiling - 1 + 500 + 1, 'whatever a caller says was issued');
  assert.equal(await control.raise({ ...at, epoch: row!.epoch }, 10, 500), null);

  const lost = { ...at, term: 1, reporter: 'a', reason: 'test', seen: 20, step: 100 };
  assert.equal(await control.toPostgres(lost), 'turned');
  assert.deepEqual(await gapsOf(world), [{ first: turned.ceiling, last: ceiling! - 1 }]);
  assert.equal(await control.note(at, 1, looked), false);
  const { epoch } = await counterOf(world);
  assert.deepEqual(await control.toRedis({ ...command, epoch, redisMs: Date.now() }), { kind: 'settling' });
});

test('D1: two processes that lose Redis turn the numbering to Postgres without a leader, one alone does not', {
  skip,
}, async (t) => {
  const world = await setUp(t, { settleMs: 60_000 });
  const { event, redis, database } = world;
  const [a, b] = [world.start('a'), world.start('b')];
  await turnToRedis(a, event, 1);
  const drawn = numbersOf(await b.room.join(event, 0, newcomers(50)));
  await database.query(`UPDATE queue_counters SET changed_at = now() - interval '1 min'`);
  await Promise.all([a, b].map(({ control }) => control.read(event, systemClock.monotonic())));
  await redis.kill();
  const reported = async () => (await database.query('SELECT reported_by AS by FROM queue_counters'))[0].by;
  await until(async () => {
    await a.room.join(event, 0, newcomers(1));
    return reported();
  }, 'the first report');
  await pause(600, 'a repeated report counts only after this time');
  await a.room.join(event, 0, newcomers(1));
  assert.equal((await counterOf(world)).mode, 'redis');
  assert.equal(await reported(), 'a');
  const [first] = await until(async () => {
    const outcomes = await b.room.join(event, 0, newcomers(1));
    return numbersOf(outcomes).length > 0 && numbersOf(outcomes);
  }, 'numbers from Postgres');
  const [gap] = await gapsOf(world);
  assert.deepEqual([gap?.first, gap?.last], [drawn.at(-1)! + 1, first! - 1], 'b told how far it had come');
  await a.stores.refresh(event, 1);
  assert.equal((await counterOf(world)).mode, 'postgres', 'not given back while it settles');
});

test('D1: at its next look after a loss the leader has numbers come from Postgres', { skip }, async (t) => {
  for (const how of ['kill', 'freeze'] as const) {
    const world = await setUp(t, { settleMs: 60_000 });
    const { event, redis } = world;
    const a = world.start('a');
    await turnToRedis(a, event, 1);
    assert.equal(numbersOf(await a.room.join(event, 0, newcomers(5))).length, 5);
    await redis[how]();
    // One look and one call, without a repeat: what they take in all is bounded by the time-outs of the store.
    await a.stores.refresh(event, 1);
    const outcomes = await a.room.join(event, 0, newcomers(5));
    assert.equal(numbersOf(outcomes).length, 5, JSON.stringify(outcomes));
    if (how === 'freeze') redis.thaw();
  }
});

test('after its time Redis keeps nothing of a visitor, and of arrivals only the last minutes', {
  skip,
}, async (t) => {
  const world = await setUp(t);
  const { event, redis, prefix, database } = world;
  const client = redis.client();
  const process = queueProcess(t, { database, redis: [redis], prefix, memoryMs: 300 });
  await turnToRedis(process, event, 1);
  for (let batch = 0; batch < 10; batch++) {
    assert.equal(numbersOf(await process.room.join(event, 0, newcomers(500))).length, 500);
  }
  const keys = (await client.keys('*')).length;
  assert.ok(keys > 500, `${keys} visitors are remembered`);
  await until(async () => (await client.dbsize()) === 2, 'only the shard itself to be left');
  const tag = `{${prefix}:q:${event}:0}`;
  const bytes =
    Number(await client.memory('USAGE', `${tag}:meta`)) +
    Number(await client.memory('USAGE', `${tag}:arrivals`));
  assert.ok(bytes < 1_024, `${bytes} bytes after 5,000 visitors`);

  const now = Math.floor(Date.now() / 1000);
  const old = Array.from({ length: 700 }, (_, index) => [now - 1_000 + index, '1']).flat();
  await client.hset(`${tag}:arrivals`, ...old);
  await client.hdel(
    `${tag}:arrivals`,
    ...(await client.hkeys(`${tag}:arrivals`)).filter((second) => Number(second) > now - 300),
  );
  await process.room.join(event, 0, newcomers(1));
  assert.equal(await client.hlen(`${tag}:arrivals`), 1);
});

test('an event at rest is woken before a number is drawn in Redis, of which Postgres sees nothing', {
  skip,
}, async (t) => {
  const setting = await setUp(t);
  const { database, redis, event, prefix } = setting;
  const woken: number[] = [];
  const wake = async (no: number): Promise<void> => {
    woken.push(no);
    if (woken.length === 2) throw new StoreFault('store_unavailable', 'told to');
  };
  const process = queueProcess(t, { database, redis: [redis], prefix, wake });
  const { room } = process;
  await room.join(event, 0, newcomers(1));
  assert.deepEqual(woken, [], 'Postgres sees its own numbers');
  await turnToRedis(process, event, 1);
  await until(async () => {
    await room.join(event, 0, newcomers(1)).catch(() => {});
    return woken.length >= 2;
  }, 'the shard to be known as one in Redis');
  const [next] = numbersOf(await room.join(event, 0, newcomers(1)));
  assert.equal(
    next,
    (await counterOf(setting)).last + 2,
    'none was drawn for the one that could not be noted',
  );
  assert.deepEqual(woken, [event, event, event]);
});
