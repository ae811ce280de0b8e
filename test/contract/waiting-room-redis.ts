import type { TestContext } from 'node:test';
import type { Redis } from 'ioredis';
import type { Phase } from '../../src/core/phase.ts';
import { createDb, type Db } from '../../src/postgres/db.ts';
import { createRedisStore } from '../../src/redis/client.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { defaultRedis } from '../../src/runtime/config.ts';
import { type Logger, silentLogger } from '../../src/runtime/log.ts';
import type { NumberStore } from '../../src/waiting-room/numbers.ts';
import { createPostgresWaitingRoom } from '../../src/waiting-room/postgres.ts';
import { createQueueControl } from '../../src/waiting-room/queue-control.ts';
import { createQueueStores } from '../../src/waiting-room/queue-stores.ts';
import { createRedisNumbers } from '../../src/waiting-room/redis/numbers.ts';
import { createRoutedWaitingRoom } from '../../src/waiting-room/routed.ts';
import { leads, setPhase } from '../support/acts.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { until } from '../support/wait.ts';
import type { RoomUnderTest } from './waiting-room-cases.ts';
import { insertTestEvent } from './waiting-room-event.ts';

/** The interface of a Redis under test. A cluster has several nodes. */
export interface RedisUnderTest {
  url: string;
  clients: () => Redis[];
}

export interface QueueProcess {
  db: Db;
  numbers: Map<string, NumberStore>;
  control: ReturnType<typeof createQueueControl>;
  room: ReturnType<typeof createRoutedWaitingRoom>;
  stores: ReturnType<typeof createQueueStores>;
}

let prefixes = 0;
export const newPrefix = (): string => {
  prefixes += 1;
  return `t${process.pid}n${prefixes}`;
};

/** One process of the engine as far as its queue goes: connections, router, and what it does while it leads. */
export function queueProcess(
  t: TestContext,
  options: {
    database: TestDatabase;
    redis: readonly { url: string }[];
    prefix: string;
    owner?: string;
    settleMs?: number;
    memoryMs?: number;
    log?: Logger;
    wake?: (event: number) => Promise<void>;
  },
): QueueProcess {
  const {
    database,
    redis,
    prefix,
    owner = 'test',
    settleMs = 0,
    memoryMs,
    log = silentLogger,
    wake,
  } = options;
  const shared = { clock: systemClock, log };
  const db = createDb({ url: database.url, poolSize: 10, ...shared });
  t.after(() => db.close());
  const control = createQueueControl({ db, clock: systemClock, settleMs });
  const numbers = new Map(
    redis.map(({ url }, index) => {
      const store = createRedisStore({ name: index === 0 ? defaultRedis : `r${index}`, url, ...shared });
      t.after(() => store.close());
      return [store.name, createRedisNumbers({ store, prefix, memoryMs })];
    }),
  );
  const postgres = createPostgresWaitingRoom({ db });
  const room = createRoutedWaitingRoom({ postgres, control, numbers, owner, wake, ...shared });
  const stores = createQueueStores({ control, numbers, owner, backoffFirstMs: 10, ...shared });
  return { db, numbers, control, room, stores };
}

export const rule = (database: TestDatabase, event: number, term: number): Promise<unknown> =>
  leads(database, event, term);

/** As the leader does with each tick until Redis has the numbering of every shard. */
export async function turnToRedis(
  { stores, control }: QueueProcess,
  event: number,
  term: number,
): Promise<void> {
  let last = '';
  await until(
    async () => {
      await stores.refresh(event, term);
      const { shards } = await control.read(event, systemClock.monotonic());
      last = JSON.stringify(shards);
      return shards.every(({ mode }) => mode === 'redis');
    },
    () => `Redis to have the numbering: ${last}`,
  );
}

let shared: Promise<TestDatabase> | undefined;

/** The room of an event whose numbers come from these servers, one shard for each. Events of one file share a database. */
export function redisRoom(servers: () => Promise<RedisUnderTest[]>) {
  return async (t: TestContext, phase: Phase): Promise<RoomUnderTest> => {
    shared ??= testDatabase();
    const [redis, database] = await Promise.all([servers(), shared]);
    const event = await insertTestEvent(database, { phase, queueShards: redis.length });
    const prefix = newPrefix();
    const process = queueProcess(t, { database, redis, prefix });
    let term = 1;
    await rule(database, event, term);
    await turnToRedis(process, event, term);
    const refresh = () => process.stores.refresh(event, term);
    return {
      room: {
        ...process.room,
        lastNumbers: async (no) => {
          await refresh();
          return (await process.room.lastNumbers(no)).slice(0, 1);
        },
        // The leader reads how far Redis has come, and then decides.
        publish: async (no, asTerm, decision) => {
          await refresh();
          return process.room.publish(no, asTerm, decision);
        },
      },
      event,
      setPhase: async (next) => {
        await setPhase(database, event, next);
        await process.control.read(event, systemClock.monotonic());
      },
      setTerm: async (next) => {
        term = next;
        await rule(database, event, next);
      },
      elapse: async (ms) => {
        await elapseInPostgres(database, event, ms);
        for (const { clients } of redis) await elapseInRedis(clients(), prefix, ms);
      },
      ceiling: async () => (await process.control.read(event, systemClock.monotonic())).shards[0]!.ceiling,
      aheadMax: 1_000_000,
      forgetsAlone: true,
    };
  };
}

export async function elapseInPostgres(database: TestDatabase, event: number, ms: number): Promise<void> {
  await database.query(
    `WITH recent AS (
       UPDATE queue_recent SET issued_at = issued_at - $2 * interval '1 ms' WHERE event_no = $1
     ), sessions AS (
       UPDATE passes SET issued_at = issued_at - $2 * interval '1 ms',
         expires_at = expires_at - $2 * interval '1 ms' WHERE event_no = $1
     )
     UPDATE admissions SET refilled_at = refilled_at - $2 * interval '1 ms' WHERE event_no = $1`,
    [event, ms],
  );
}

/** Moves every expiry closer by the given time. */
async function elapseInRedis(clients: Redis[], prefix: string, ms: number): Promise<void> {
  for (const client of clients) {
    for (const key of await client.keys(`{${prefix}:*`)) {
      const left = await client.pttl(key);
      if (left > ms) await client.pexpire(key, left - ms);
      else if (left >= 0) await client.del(key);
    }
  }
}
