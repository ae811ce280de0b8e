import type { EventNo, PartitionNo } from '../core/hold.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import type { Arbiter, ArbiterStore, ProjectCommand, Retry, Snapshot, Stale, UnderEpoch } from './arbiter.ts';
import { retryAfterMs } from './claims.ts';
import { createLossReports, type LossReports } from './loss-reports.ts';
import type { ModeReader, PartitionModes, PartitionRow, RebuildableArbiter } from './modes.ts';

/** One configured Redis: its arbiter, and which of its servers are trusted with a partition. */
export interface RedisArbiter {
  arbiter: RebuildableArbiter;
  /** `known`: a number given under that epoch; a server that has given fewer is not believed. Cheap when nothing changes. */
  trust(
    event: EventNo,
    partition: PartitionNo,
    runIds: readonly string[],
    known?: { epoch: number; granted: number },
  ): void;
}
/** Finds an arbiter by the name in a partition's row. Null if this process has no store of that name. */
export type RedisArbiters = (store: string | null) => RedisArbiter | null;

export interface RoutedArbiterOptions {
  postgres: ArbiterStore;
  redis: RedisArbiters;
  modes: ModeReader;
  report: PartitionModes['report'];
  granted: PartitionModes['granted'];
  /** This process's name in its reports. */
  reporter: string;
  /** Called at each sign of a lost Redis, before any report, so that the leader probes at once. Must not throw. */
  onLoss?: (event: EventNo, partition: PartitionNo) => void;
  /** Awaited before a claim in Redis: Postgres does not see what comes of it, and an event at rest needs its leader. */
  wake?: (event: EventNo) => Promise<void>;
  clock: Clock;
  log: Logger;
}

/** "Granted" is returned only under a mode that was read less than this long ago. */
const trustedForMs = 1_000;
/** Retry hint for the buyer. A Redis that does not respond is reported and replaced within two seconds. */
const lostRetryMs = 500;
/** How often a question is repeated because the row changed during the reply. */
const readsMax = 4;

interface Routed {
  row: PartitionRow;
  at: number;
}
interface Partition {
  event: EventNo;
  partition: PartitionNo;
}

/**
 * The arbiter that the rest of the program calls. It asks the store that the partition's row in Postgres names and decides
 * nothing itself. A late or wrong router is harmless: Postgres's functions read the row behind the event's lock, Redis compares
 * the epoch within the script, and a hold becomes an order only through Postgres, under the epoch of that instant.
 */
export function createRoutedArbiter(options: RoutedArbiterOptions): Arbiter {
  const { postgres, redis, modes, wake = async () => {}, clock, log } = options;
  const losses: LossReports = createLossReports(options);

  async function routeOf(event: EventNo, partition: PartitionNo, notBefore?: number): Promise<Routed | null> {
    const { at, modes: rows } = await modes.read(event, notBefore);
    const row = rows.find((each) => each.partition === partition);
    return row ? { row, at } : null;
  }

  function redisOf(event: EventNo, row: PartitionRow): RebuildableArbiter | null {
    const store = redis(row.store);
    if (!store) {
      losses.unconfigured(event, row);
      return null;
    }
    store.trust(event, row.partition, row.runIds, row);
    return store.arbiter;
  }

  /**
   * hold, extend, release, recover: asks the store of the partition's mode, under the row's epoch. If the store is at another
   * epoch the row is read again, once.
   */
  async function claim<Command extends Partition, Outcome extends { kind: string }>(
    command: Command,
    ask: (arbiter: ArbiterStore, command: UnderEpoch<Command>) => Promise<Outcome | Stale>,
  ): Promise<Exclude<Outcome, Stale> | Retry> {
    for (let again = false; ; again = true) {
      const route = await routeOf(command.event, command.partition, again ? clock.monotonic() : undefined);
      if (!route || route.row.mode === 'moving') return { kind: 'retry', afterMs: retryAfterMs };
      const under = { ...command, epoch: route.row.epoch };
      const outcome =
        route.row.mode === 'postgres'
          ? await ask(postgres, under)
          : await claimInRedis(command, route, (arbiter) => ask(arbiter, under));
      if (outcome.kind !== 'stale') return outcome as Exclude<Outcome, Stale> | Retry;
      if (again) return { kind: 'retry', afterMs: retryAfterMs };
    }
  }

  async function claimInRedis<Outcome extends { kind: string }>(
    { event, partition }: Partition,
    { row, at }: Routed,
    ask: (arbiter: ArbiterStore) => Promise<Outcome | Stale>,
  ): Promise<Outcome | Stale | Retry> {
    const arbiter = redisOf(event, row);
    if (!arbiter) return { kind: 'retry', afterMs: lostRetryMs };
    await wake(event);
    let outcome: Outcome | Stale;
    try {
      outcome = await ask(arbiter);
      losses.well(event, row);
    } catch (error) {
      if (!(error instanceof StoreFault)) throw error;
      losses.fault(event, row, error);
      // Also when the response was lost: the repeat by the same id finds the result of the first call.
      return { kind: 'retry', afterMs: error.code === 'store_busy' ? retryAfterMs : lostRetryMs };
    }
    const isOld = clock.monotonic() - at >= trustedForMs;
    if (outcome.kind !== 'stale' && !(isOld && isPromise(outcome))) return outcome;
    const now = await routeOf(event, partition, outcome.kind === 'stale' ? clock.monotonic() : undefined);
    if (!now || now.row.mode === 'moving') return { kind: 'retry', afterMs: retryAfterMs };
    if (now.row.mode !== 'redis' || now.row.epoch !== row.epoch)
      return { kind: 'stale', epoch: now.row.epoch };
    if (outcome.kind !== 'stale') return outcome;
    // The row still names the epoch that the store does not know: it lost its memory, or is an older copy.
    losses.forgot(event, row, arbiter.floor({ event, partition, epoch: row.epoch }));
    return { kind: 'retry', afterMs: lostRetryMs };
  }

  /**
   * One store's reply about the partition, with the row under which it was asked. If `again` is true for a reply, a change of
   * the row may have made it wrong, so it counts only if the row, read afterwards, is the same.
   */
  async function ask<Value>(
    event: EventNo,
    partition: PartitionNo,
    question: {
      postgres: () => Promise<Value>;
      redis: (arbiter: RebuildableArbiter, row: PartitionRow) => Promise<Value>;
      again: (value: Value) => boolean;
    },
  ): Promise<{ value: Value; row: PartitionRow }> {
    let route = await routeOf(event, partition);
    for (let reads = 1; route; reads++) {
      const { row, at } = route;
      const inRedis = row.mode === 'redis';
      const value = inRedis ? await askRedis(event, row, question.redis) : await question.postgres();
      const isOld = inRedis && clock.monotonic() - at >= trustedForMs;
      if (!isOld && !question.again(value)) return { value, row };
      route = await routeOf(event, partition, clock.monotonic());
      if (route?.row.epoch === row.epoch && (route.row.mode === 'redis') === inRedis)
        return { value, row: route.row };
      if (reads === readsMax)
        throw new StoreFault('store_busy', `partition ${partition} of event ${event} is moving`);
    }
    throw new StoreFault('store_unavailable', `partition ${partition} of event ${event} is not known`);
  }

  async function askRedis<Value>(
    event: EventNo,
    row: PartitionRow,
    question: (arbiter: RebuildableArbiter, row: PartitionRow) => Promise<Value>,
  ): Promise<Value> {
    const arbiter = redisOf(event, row);
    if (!arbiter)
      throw new StoreFault('store_unavailable', `Redis "${row.store ?? 'default'}" is not configured`);
    try {
      const value = await question(arbiter, row);
      losses.well(event, row);
      return value;
    } catch (error) {
      if (error instanceof StoreFault) losses.fault(event, row, error);
      throw error;
    }
  }

  async function project(command: ProjectCommand): Promise<boolean> {
    const { event, partition } = command;
    const route = await routeOf(event, partition);
    if (!route) return false;
    const { row } = route;
    if (row.mode !== 'redis') await postgres.project(command);
    if (row.mode === 'postgres') return true;
    // While the partition moves, only the leader that fills the store knows which run to trust. The row does
    // not say it yet.
    const arbiter = row.mode === 'redis' ? redisOf(event, row) : redis(row.store)?.arbiter;
    try {
      return (await arbiter?.project(command)) ?? false;
    } catch (error) {
      if (!(error instanceof StoreFault)) throw error;
      if (row.mode === 'redis') losses.fault(event, row, error);
      const { message } = error;
      log.debug(
        { event, partition, fault: message },
        'Redis was not told of a decision; the leader tells it again',
      );
      return false;
    }
  }

  return {
    hold: (command) => claim(command, (arbiter, under) => arbiter.hold(under)),
    recover: (command) => claim(command, (arbiter, under) => arbiter.recover(under)),
    extend: (command) => claim(command, (arbiter, under) => arbiter.extend(under)),
    release: (command) => claim(command, (arbiter, under) => arbiter.release(under)),

    async find(event, partition, hold) {
      const { value, row } = await ask(event, partition, {
        postgres: () => postgres.find(event, partition, hold),
        redis: (arbiter) => arbiter.find(event, partition, hold),
        // A store that has just been left or lost says so too.
        again: (found) => found === null,
      });
      if (value === null && isInGrace(row, clock)) {
        throw new StoreFault('store_busy', 'holds are being collected from their receipts');
      }
      return value;
    },

    async load(command) {
      const { event, partition } = command;
      const route = await routeOf(event, partition);
      if (!route) return { kind: 'retry', afterMs: retryAfterMs };
      const under = { ...command, epoch: route.row.epoch };
      const outcome =
        route.row.mode === 'redis'
          ? await askRedis(event, route.row, (arbiter) => arbiter.load(under))
          : await postgres.load(under);
      return outcome.kind === 'stale' ? { kind: 'retry', afterMs: retryAfterMs } : outcome;
    },

    project,

    async sweep(event, partition, limit) {
      const route = await routeOf(event, partition);
      if (!route) return 0;
      if (route.row.mode !== 'redis') return await postgres.sweep(event, partition, limit);
      return await askRedis(event, route.row, (arbiter) => arbiter.sweep(event, partition, limit));
    },

    async snapshot(event, partition) {
      const { value } = await ask<Snapshot>(event, partition, {
        postgres: () => postgres.snapshot(event, partition),
        redis: async (arbiter, row) => {
          const taken = await arbiter.snapshot(event, partition);
          if (taken.epoch !== row.epoch)
            throw new StoreFault('store_unavailable', `Redis is at epoch ${taken.epoch}`);
          return taken;
        },
        again: () => false,
      });
      return value;
    },
  };
}

/** An outcome that a buyer relies on. A refusal by a store that is no longer the partition's costs the buyer one attempt at most. */
function isPromise({ kind }: { kind: string }): boolean {
  return kind === 'granted' || kind === 'extended' || kind === 'recovered' || kind === 'released';
}

/** Uses this process's clock, for what a page shows meanwhile. Postgres's clock decides who wins a seat. */
function isInGrace({ mode, graceUntil }: PartitionRow, clock: Clock): boolean {
  return mode === 'postgres' && graceUntil !== null && clock.now() < graceUntil;
}
