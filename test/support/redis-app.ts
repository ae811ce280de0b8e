import assert from 'node:assert/strict';
import { type DecidedState, seatStates } from '../../src/core/hold.ts';
import { createRedisArbiter } from '../../src/inventory/redis/arbiter.ts';
import { partitionTag } from '../../src/inventory/redis/scripts.ts';
import type { PartitionMode } from '../../src/orders/record.ts';
import { createRedisStore } from '../../src/redis/client.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { endGrace, installationOf } from './acts.ts';
import { startTestApp, type TestApp, type TestAppOptions, until } from './app.ts';
import { type TestRedis, testRedis } from './redis.ts';

/** The whole application with Redis servers of its own; its event is arbitrated by Redis when the start is over. */
export interface RedisApp extends TestApp {
  /** The default one. */
  redis: TestRedis;
  /** Servers by name. */
  servers: ReadonlyMap<string, TestRedis>;
  /** The partition's row as it is now, without the number that rises with each grant. */
  row(partition?: number): Promise<Omit<PartitionMode, 'granted'>>;
  /** Waits for the mode and returns how long it took, in ms. */
  untilMode(mode: PartitionMode['mode'], within?: { ms?: number; partition?: number }): Promise<number>;
  /** Grace is 10 s: over now. */
  endGrace(partition?: number): Promise<void>;
  /**
   * S8, at rest and with all partitions in Redis: the seats of which Redis and Postgres believe different things, after the
   * five seconds that the promise gives.
   */
  assertAgreement(): Promise<void>;
}

type Context = { after(run: () => Promise<void>): void };

export async function startRedisApp(
  t: Context,
  options: TestAppOptions & {
    /** Names of further servers (ONSALE_REDIS_SERVERS). */
    servers?: string[];
  } = {},
): Promise<RedisApp> {
  const redis = await testRedis();
  const named = new Map<string, TestRedis>();
  for (const name of options.servers ?? []) named.set(name, await testRedis());
  const env: Record<string, string> = { REDIS_URL: redis.url, ...options.env };
  if (named.size > 0) {
    env.ONSALE_REDIS_SERVERS = [...named].map(([name, { url }]) => `${name}=${url}`).join(';');
  }
  const app = await startTestApp(t, { ...options, env });
  // After the app, which would take their end for a loss.
  for (const server of [redis, ...named.values()]) t.after(() => server.stop());

  const rows = async (): Promise<PartitionMode[]> =>
    (await app.app.events.modesRead(app.eventNo, systemClock.monotonic())).modes;
  const row: RedisApp['row'] = async (partition = 0) => {
    const found = (await rows()).find((each) => each.partition === partition);
    assert.ok(found, `partition ${partition}`);
    const { granted: _granted, ...rest } = found;
    return rest;
  };
  async function untilMode(
    mode: PartitionMode['mode'],
    { partition = 0 }: { partition?: number } = {},
  ): Promise<number> {
    const began = systemClock.monotonic();
    await until(async () => (await row(partition)).mode === mode, `partition ${partition} in ${mode}`);
    return systemClock.monotonic() - began;
  }

  for (const { partition } of await rows()) await untilMode('redis', { partition });
  return {
    ...app,
    redis,
    servers: named,
    row,
    untilMode,
    async endGrace(partition = 0) {
      await endGrace(app.database, app.eventNo, partition);
    },
    async assertAgreement() {
      const differing = async (): Promise<string[]> =>
        (
          await Promise.all(
            (await rows()).map((each) => differences(app, (named.get(each.store ?? '') ?? redis).url, each)),
          )
        ).flat();
      let found: string[] = [];
      await until(
        async () => {
          found = await differing();
          return found.length === 0;
        },
        () => `S8: Redis and Postgres to agree seat by seat: ${found.join('; ')}`,
        30_000,
      );
    },
  };
}

/** Prefix of the application's keys, unless ONSALE_REDIS_PREFIX was set. */
export async function redisPrefix({ database }: Pick<TestApp, 'database'>): Promise<string> {
  return `onsale:${await installationOf(database)}`;
}

/** Compares over a separate connection, which trusts only the run ids in the row. */
async function differences(app: TestApp, url: string, row: PartitionMode): Promise<string[]> {
  assert.equal(row.mode, 'redis', `partition ${row.partition}`);
  const store = createRedisStore({ name: 'test', url, clock: systemClock, log: silentLogger });
  try {
    await store.primaries();
    const prefix = await redisPrefix(app);
    store.trust(partitionTag(prefix, app.eventNo, row.partition), row.runIds);
    const arbiter = createRedisArbiter({ store, prefix, clock: systemClock });
    const { codes, epoch } = await arbiter.snapshot(app.eventNo, row.partition);
    assert.equal(epoch, row.epoch);
    const seats = await app.database.query<{ seat_no: number; state: DecidedState }>(
      'SELECT seat_no, state FROM seats WHERE event_no = $1 AND partition = $2',
      [app.eventNo, row.partition],
    );
    return seats.flatMap(({ seat_no, state }) => {
      const seen = seatStates[codes[seat_no] ?? 255];
      const fits = seen === state || (seen === 'held' && state === 'available');
      return fits ? [] : [`seat ${seat_no} is ${state}, in Redis ${seen}`];
    });
  } finally {
    await store.close();
  }
}
