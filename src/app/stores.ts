import type { Events } from '../catalogue/events.ts';
import { createWaker } from '../controller/event-rest.ts';
import { projectPhase } from '../controller/projection-task.ts';
import { createStoreWatch, type StoreWatch, type WatchedRedis } from '../controller/store-watch.ts';
import type { EventNo, PartitionNo } from '../core/hold.ts';
import type { Arbiter, ArbiterStore } from '../inventory/arbiter.ts';
import type { ModeReader, StoredHold } from '../inventory/modes.ts';
import { createPostgresArbiter } from '../inventory/postgres.ts';
import { createPartitionModes } from '../inventory/postgres-modes.ts';
import { createRedisArbiter } from '../inventory/redis/arbiter.ts';
import { readRedisHolds } from '../inventory/redis/holds.ts';
import { partitionTag } from '../inventory/redis/scripts.ts';
import { createRoutedArbiter } from '../inventory/routed.ts';
import { decidedPhase } from '../orders/projection.ts';
import type { PartitionMode } from '../orders/record.ts';
import type { Db } from '../postgres/db.ts';
import { installationOf } from '../postgres/installation.ts';
import { createRedisStore } from '../redis/client.ts';
import { runningRedis, startRedis } from '../redis/server.ts';
import type { RedisStore } from '../redis/store.ts';
import type { Clock } from '../runtime/clock.ts';
import { type Config, defaultRedis } from '../runtime/config.ts';
import type { Logger } from '../runtime/log.ts';
import type { Random } from '../runtime/random.ts';
import type { Shutdown } from '../runtime/shutdown.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import type { LookOutcome, NumberStore } from '../waiting-room/numbers.ts';
import { createPostgresWaitingRoom } from '../waiting-room/postgres.ts';
import { createQueueControl } from '../waiting-room/queue-control.ts';
import { createQueueStores, type QueueStores } from '../waiting-room/queue-stores.ts';
import { createRedisNumbers } from '../waiting-room/redis/numbers.ts';
import { createRoutedWaitingRoom } from '../waiting-room/routed.ts';
import type { AdmissionControl, WaitingRoom } from '../waiting-room/waiting-room.ts';

/** The stores that arbitrate: Postgres always, and each Redis that is configured. */

interface Parts {
  clock: Clock;
  random: Random;
  log: Logger;
}

export interface RedisSettings {
  /** Prefix of all keys, because several installations may share a Redis. */
  readonly prefix: string;
  /** The default one, where there is one, is called `default`. */
  readonly servers: readonly { readonly name: string; readonly url: string }[];
}

/** A configured Redis, with the store that uses it. */
export interface OpenRedis extends WatchedRedis {
  store: RedisStore;
}

export interface RedisStores {
  /** Prefix of all keys. */
  prefix: string;
  all: readonly OpenRedis[];
  /** Keyed by the name in a partition's row. Null is the default one. */
  named(store: string | null): OpenRedis | null;
  /** Resolves once each was asked who it is, or a second has passed: a first claim should not find it unconnected. */
  connected(): Promise<void>;
  close(): Promise<void>;
}

/** Starts the private server, where one is asked for; it is then the default one. */
export async function startConfiguredRedis(
  config: Config,
  parts: Parts & { onProgress?: (line: string) => void },
  shutdown: Shutdown,
): Promise<RedisSettings> {
  const { prefix, servers, embedded, dataDir } = config.redis;
  if (!embedded) return { prefix, servers };
  parts.onProgress?.('Starting Redis …');
  const server = await startRedis({ ...parts, dataDir });
  shutdown.add('Redis', () => server.stop(), 8_000);
  return { prefix, servers: [{ name: defaultRedis, url: server.url }, ...servers] };
}

/** For a command that runs at the same time as the servers: includes the private one that another process of ours runs. */
export async function knownRedis(config: Config): Promise<RedisSettings> {
  const { prefix, servers, dataDir } = config.redis;
  if (servers.some(({ name }) => name === defaultRedis)) return { prefix, servers };
  const running = await runningRedis(dataDir);
  return { prefix, servers: running ? [{ name: defaultRedis, url: running.url }, ...servers] : servers };
}

/** With the database's own id behind the prefix: no two of them touch each other's keys. */
export async function ownKeys(db: Db, settings: RedisSettings): Promise<RedisSettings> {
  return { ...settings, prefix: `${settings.prefix}:${await installationOf(db)}` };
}

export function openRedisStores(settings: RedisSettings, parts: Parts): RedisStores {
  const all = new Map(
    settings.servers.map(({ name, url }) => [name, openRedis(name, url, settings.prefix, parts)]),
  );
  return {
    prefix: settings.prefix,
    all: [...all.values()],
    named: (store) => all.get(store ?? defaultRedis) ?? null,
    async connected() {
      await Promise.allSettled([...all.values()].map(({ primaries }) => primaries()));
    },
    async close() {
      await Promise.all([...all.values()].map(({ store }) => store.close()));
    },
  };
}

function openRedis(name: string, url: string, prefix: string, parts: Parts): OpenRedis {
  const store = createRedisStore({ name, url, ...parts });
  const arbiter = createRedisArbiter({ store, prefix, clock: parts.clock });
  return {
    store,
    arbiter,
    trust(event, partition, runIds, known) {
      store.trust(partitionTag(prefix, event, partition), runIds);
      if (known) arbiter.floor({ event, partition, epoch: known.epoch }, known.granted);
    },
    primaries: () => store.primaries(),
    onChange: (listener) => store.onChange(listener),
  };
}

/** Events' modes as the router and the watch read them. */
function modeReader(events: Pick<Events, 'modesRead'>): ModeReader {
  return { read: (event, notBefore) => events.modesRead(event, notBefore) };
}

export interface ArbiterOptions extends Pick<Parts, 'clock' | 'log'> {
  db: Db;
  events: Events;
  redis: RedisStores;
  /** This process's name in what it reports. */
  reporter: string;
  onLoss?: (event: EventNo, partition: PartitionNo) => void;
}

/** The arbiter of all partitions, whichever store each is in. */
export function openArbiters(options: ArbiterOptions): {
  arbiter: Arbiter;
  postgres: ArbiterStore;
} {
  const { db, events, redis } = options;
  const postgres = createPostgresArbiter({ db });
  const { report, granted } = createPartitionModes({ db });
  const arbiter = createRoutedArbiter({
    ...options,
    postgres,
    redis: redis.named,
    modes: modeReader(events),
    report,
    granted,
    wake: createWaker(options),
  });
  return { arbiter, postgres };
}

/** The holds of a partition that Redis arbitrates, as its record names store and runs; for audits. */
export type HoldsReader = (event: EventNo, row: PartitionMode) => Promise<StoredHold[]>;

export function holdsReader(redis: RedisStores): HoldsReader {
  return async (event, { partition, store, runIds }) => {
    const found = redis.named(store);
    if (!found)
      throw new StoreFault('store_unavailable', `no Redis named ${store ?? defaultRedis} is configured`);
    found.trust(event, partition, runIds);
    return await readRedisHolds(found.store, redis.prefix, { event, partition });
  };
}

/** The holds of an event's partitions in `redis` mode, one partition after the other; a StoreFault where one does not answer. */
export function redisHoldsOf(
  parts: Pick<ArbiterOptions, 'redis' | 'log'> & { events: Pick<Events, 'modes'> },
): (event: EventNo) => Promise<StoredHold[]> {
  const { events, redis, log } = parts;
  const read = holdsReader(redis);
  const readAll = async (event: EventNo): Promise<StoredHold[]> => {
    const found: StoredHold[][] = [];
    for (const { partition } of await events.modes(event)) {
      // Reads the mode again for each partition: it is valid for one second, about as long as reading a large partition takes.
      const row = (await events.modes(event)).find((each) => each.partition === partition);
      if (row?.mode === 'redis') found.push(await reported(event, row));
    }
    return found.flat();
  };
  // Logs only faults of Redis. If Postgres does not say which partitions exist, that is logged where Postgres
  // is used.
  const reported = (event: EventNo, row: PartitionMode): Promise<StoredHold[]> =>
    read(event, row).catch((err: unknown) => {
      const why = err instanceof StoreFault ? { fault: err.message } : { err };
      log.warn({ ...why, event, partition: row.partition }, 'could not read the holds in Redis');
      throw err;
    });
  return readAll;
}

/** How far a shard has come in the Redis that issues its numbers; for audits. */
export type NumbersReader = (
  event: EventNo,
  at: { shard: number; store: string | null; epoch: number; runIds: string[] },
) => Promise<LookOutcome>;

/** Keyed by the name of the server. */
function numbersOf({ all, prefix }: RedisStores): Map<string, NumberStore> {
  return new Map(all.map(({ store }) => [store.name, createRedisNumbers({ store, prefix })]));
}

export function numbersReader(redis: RedisStores): NumbersReader {
  const all = numbersOf(redis);
  return async (event, { shard, store, epoch, runIds }) => {
    const found = all.get(store ?? defaultRedis);
    if (!found)
      throw new StoreFault('store_unavailable', `no Redis named ${store ?? defaultRedis} is configured`);
    found.trust(event, shard, runIds);
    return await found.look({ event, shard, epoch, floor: 0, since: Number.MAX_SAFE_INTEGER });
  };
}

/** The waiting room of this process, and, for a leader, the care for the stores that issue its numbers. */
export function openRoom(parts: Pick<ArbiterOptions, 'db' | 'redis' | 'clock' | 'log'> & { owner: string }): {
  room: WaitingRoom & AdmissionControl;
  queueStores: QueueStores;
} {
  const { db, redis, clock } = parts;
  const control = createQueueControl({ db, clock });
  const shared = { ...parts, control, numbers: numbersOf(redis), wake: createWaker(parts) };
  return {
    room: createRoutedWaitingRoom({ ...shared, postgres: createPostgresWaitingRoom({ db }) }),
    queueStores: createQueueStores(shared),
  };
}

/** The process that changes the phase also reports the change to Redis. */
export function announcingEvents(events: Events, arbiter: Pick<Arbiter, 'project'>, log: Logger): Events {
  return {
    ...events,
    async changeOnSale(command) {
      const outcome = await events.changeOnSale(command);
      if (outcome.kind === 'changed') {
        const { eventNo } = command.event;
        await projectPhase({ events, arbiter }, eventNo, outcome.now).catch((err: unknown) =>
          log.warn({ err, event: eventNo }, 'Redis was not told of the phase; the leader tells it again'),
        );
      }
      return outcome;
    },
  };
}

export function openStoreWatch(
  options: Omit<ArbiterOptions, 'onLoss'> & {
    leads: () => ReadonlyMap<EventNo, number>;
    onMoved: (event: EventNo, partition: PartitionNo, to: 'postgres' | 'redis') => void;
  },
): StoreWatch {
  const { db, events, redis } = options;
  return createStoreWatch({
    ...options,
    redis: redis.named,
    stores: redis.all,
    modes: modeReader(events),
    // The leader's own observations need no settling, see settleMs.
    partitionModes: createPartitionModes({ db, settleMs: 0 }),
    phaseOf: (event) => decidedPhase(db, event),
    postgresTime: async () => {
      const [row] = await db.query<{ now: number }>('store_watch_time', 'SELECT clock_timestamp() AS now');
      return row!.now;
    },
  });
}
