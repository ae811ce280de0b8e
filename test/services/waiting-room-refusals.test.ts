import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { systemClock } from '../../src/runtime/clock.ts';
import type { Logger } from '../../src/runtime/log.ts';
import { StoreFault } from '../../src/runtime/store-fault.ts';
import type { NumberStore } from '../../src/waiting-room/numbers.ts';
import { visitorNamed } from '../contract/waiting-room-cases.ts';
import { insertTestEvent } from '../contract/waiting-room-event.ts';
import { newPrefix, queueProcess, rule, turnToRedis } from '../contract/waiting-room-redis.ts';
import { testDatabase } from '../support/postgres.ts';
import { testRedis, withoutRedis } from '../support/redis.ts';
import { until } from '../support/wait.ts';

// A Redis that can be asked but does not open: what that costs the line.

const skip = withoutRedis;

/** The leader's messages about an event that a person would be called for. */
function listener(): { log: Logger; warnings: string[] } {
  const warnings: string[] = [];
  const nothing = (): void => {};
  const log = {
    debug: nothing,
    info: nothing,
    error: nothing,
    warn: (_: object, message: string) => warnings.push(message),
  };
  return { log: log as unknown as Logger, warnings };
}

async function setUp(t: TestContext) {
  const [database, redis] = await Promise.all([testDatabase(t), testRedis(t)]);
  const event = await insertTestEvent(database);
  await rule(database, event, 1);
  const prefix = newPrefix();
  const { log, warnings } = listener();
  const process = queueProcess(t, { database, redis: [redis], prefix, log });
  const [[name, store]] = [...process.numbers] as [[string, NumberStore]];
  const client = redis.client();
  let people = 0;
  return {
    event,
    database,
    redis,
    process,
    client,
    warnings,
    store,
    meta: `{${prefix}:q:${event}:0}:meta`,
    /** The leader meets this instead of opening. */
    opensBy: (open: NumberStore['open']) => process.numbers.set(name, { ...store, open }),
    connected: async () => {
      await until(async () => (await store.primaries().catch(() => [])).length > 0, 'the connection');
    },
    join: async () => {
      people += 1;
      const [outcome] = await process.room.join(event, 0, [visitorNamed(`r${people}`)]);
      return outcome?.kind === 'joined' ? outcome.number : outcome;
    },
    full: () => client.config('SET', 'maxmemory', '1', 'maxmemory-policy', 'noeviction'),
    roomy: () => client.config('SET', 'maxmemory', '0'),
    row: async () => (await process.control.read(event, systemClock.monotonic())).shards[0]!,
    gaps: () => database.query('SELECT first::int, last::int FROM queue_gaps'),
  };
}

test('W1: a Redis that is full is not given the numbering, is complained of once, and the numbers go on', {
  skip,
}, async (t) => {
  const { event, process, full, roomy, join, row, gaps, warnings, connected } = await setUp(t);
  await connected();
  await full();
  const { epoch } = await row();
  for (const number of [1, 2, 3]) {
    await process.stores.refresh(event, 1);
    assert.equal(await join(), number);
  }
  assert.equal((await row()).epoch, epoch, 'nothing was even tried');
  assert.deepEqual(warnings, ['Redis cannot take the numbers yet']);
  await roomy();
  await turnToRedis(process, event, 1);
  assert.equal(await join(), 4);
  assert.deepEqual(await gaps(), []);
});

test('W1: an opening that was certainly refused leaves no gap, one with an unknown outcome does', {
  skip,
}, async (t) => {
  const { event, process, full, roomy, join, row, gaps, warnings, connected, opensBy, store, client, meta } =
    await setUp(t);
  await connected();
  let opened = 0;
  opensBy(async (at) => {
    opened += 1;
    await full();
    try {
      return await store.open(at);
    } finally {
      await roomy();
    }
  });
  await process.stores.refresh(event, 1);
  assert.equal(await join(), 1);
  opensBy(async (at) => {
    opened += 1;
    await client.hset(meta, 'epoch', at.epoch + 1);
    return store.open(at);
  });
  await process.stores.refresh(event, 1);
  assert.equal(await join(), 2);
  assert.equal(opened, 2, 'the first failure makes nobody wait');
  assert.equal((await row()).mode, 'postgres');
  assert.deepEqual(await gaps(), []);
  const refused = 'numbers go on in Postgres: Redis did not open';
  assert.deepEqual(warnings, [refused, refused]);

  opensBy(async (at) => {
    await store.open(at);
    throw new StoreFault('outcome_unknown', 'the answer was lost');
  });
  await until(async () => {
    await process.stores.refresh(event, 1);
    return (await gaps()).length > 0;
  }, 'the gap');
  const [gap] = await gaps();
  assert.equal(gap!.first, 3);
  assert.equal(await join(), Number(gap!.last) + 1);
});

test('W1: a Redis that knows the very epoch, or a higher one, of another memory issues nothing by it', {
  skip,
}, async (t) => {
  const { event, process, join, row, gaps, opensBy, store, client, meta } = await setUp(t);
  await client.hset(meta, 'epoch', '1000000', 'last', '5', 'ceiling', '10000');
  await turnToRedis(process, event, 1);
  assert.ok((await row()).epoch > 1_000_000);
  assert.equal(await join(), 1);
  assert.deepEqual(await gaps(), []);

  await client.flushall();
  await process.stores.refresh(event, 1);
  assert.equal((await gaps()).length, 1);
  const next = await join();
  opensBy(async (at) => {
    await client.hset(meta, 'epoch', at.epoch, 'last', at.last + 5, 'ceiling', at.ceiling);
    return store.open(at);
  });
  await until(async () => {
    await process.stores.refresh(event, 1);
    return (await gaps()).length > 1;
  }, 'a second gap');
  const skipped = (await gaps()).at(-1)!;
  assert.equal(Number(skipped.first), Number(next) + 1, 'somebody may have drawn under it');
});

test('W1: what was handed over is taken back by the ruling term, once, and only for its epoch', {
  skip,
}, async (t) => {
  const { event, process, row, gaps } = await setUp(t);
  const { control } = process;
  const before = await row();
  const turned = await control.toRedis({
    event,
    shard: 0,
    epoch: before.epoch,
    term: 1,
    store: 'default',
    runIds: ['r'],
    step: 100,
    redisMs: Date.now(),
    above: before.epoch + 50,
  });
  assert.ok(turned.kind === 'turned' && turned.epoch > before.epoch + 50);
  const at = { event, shard: 0, epoch: turned.epoch };
  assert.equal(await control.withdraw(at, 2, 'test'), 'other_term');
  assert.equal(await control.withdraw({ ...at, epoch: before.epoch }, 1, 'test'), 'already');
  assert.equal((await row()).mode, 'redis');
  assert.equal(await control.withdraw(at, 1, 'test'), 'withdrawn');
  assert.equal(await control.withdraw(at, 1, 'test'), 'already');
  const after = await row();
  assert.ok(after.epoch > turned.epoch);
  assert.deepEqual([after.mode, after.last], ['postgres', before.last]);
  assert.deepEqual(await gaps(), []);
});

test('D1: a process that sees the same loss again and again says so once', { skip }, async (t) => {
  const { event, database, redis, process, join, row, warnings } = await setUp(t);
  await turnToRedis(process, event, 1);
  assert.equal(await join(), 1);
  await database.query(`UPDATE queue_counters SET changed_at = now() - interval '1 min'`);
  await row();
  await redis.kill();
  const reportedAt = async () => (await database.query('SELECT reported_at AS at FROM queue_counters'))[0].at;
  const reports = new Set<number>();
  await until(async () => {
    await join();
    const at = await reportedAt();
    if (at !== null) reports.add(Number(at));
    return reports.size >= 3;
  }, 'three reports');
  assert.equal((await row()).mode, 'redis', 'one witness is none');
  assert.deepEqual(warnings, ['numbers come from Redis', 'Redis does not issue numbers']);
});
