import type { EventNo } from '../core/hold.ts';
import { RedisFault } from '../redis/faults.ts';
import { unfitness } from '../redis/store.ts';
import type { Clock } from '../runtime/clock.ts';
import { defaultRedis } from '../runtime/config.ts';
import type { Logger } from '../runtime/log.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import type { LookOutcome, NumberStore } from './numbers.ts';
import type { QueueControl, ShardRow } from './queue-control.ts';
import { createQueuePatience } from './queue-patience.ts';
import { ceilingStep } from './waiting-room.ts';

/**
 * The leader's care for the stores that issue its events' numbers: writes to Postgres how far Redis has come, turns a shard
 * whose Redis is lost to Postgres, and gives it to Redis again.
 */
export interface QueueStores {
  /** Once a tick, before the line is measured. Faults of one shard's Redis stop nothing. */
  refresh(event: EventNo, term: number): Promise<void>;
}

export interface QueueStoresOptions {
  control: QueueControl;
  /** Keyed by the name of the configured Redis server. Empty if all numbers come from Postgres. */
  numbers: ReadonlyMap<string, NumberStore>;
  clock: Pick<Clock, 'monotonic' | 'now'>;
  log: Logger;
  owner: string;
  /** Wait after a second failure: 2.5 s; tests shorten it. */
  backoffFirstMs?: number;
}

/** One answer that is missing may be a hiccup of ours; two make the loss, within a second. */
const looksMax = 2;
/** A slot that moves to another node keeps its shard busy for that long at most, before it counts as lost. */
const busyMaxMs = 5_000;
/** A second that was read may still have been going on. */
const overlapSeconds = 2;

export function createQueueStores(options: QueueStoresOptions): QueueStores {
  const { control, numbers, clock, log, owner } = options;
  const storeOf = dealtOut([...numbers.keys()]);
  const patience = createQueuePatience({ clock, firstMs: options.backoffFirstMs });
  const nameOf = (event: EventNo, { shard }: ShardRow): string => `${event}:${shard}`;
  /** Keyed by shard and epoch: the second up to which arrivals were written. */
  const written = new Map<string, number>();
  /** Keyed by shard and epoch: the time since which each tick found it busy. */
  const busy = new Map<string, number>();

  async function lookTwice(
    store: NumberStore,
    event: EventNo,
    row: ShardRow,
    since: number,
  ): Promise<LookOutcome> {
    const at = { event, shard: row.shard, epoch: row.epoch, floor: row.last, since };
    store.trust(event, row.shard, row.runIds);
    for (let look = 1; ; look++) {
      try {
        return await store.look(at);
      } catch (fault) {
        if (look >= looksMax || !(fault instanceof StoreFault)) throw fault;
      }
    }
  }

  async function watch(event: EventNo, term: number, row: ShardRow): Promise<void> {
    const key = `${event}:${row.shard}:${row.epoch}`;
    const store = row.store === null ? undefined : numbers.get(row.store);
    if (!store) return giveUp(event, term, row, `no Redis named ${row.store} is configured`);
    let looked: LookOutcome;
    const began = clock.monotonic();
    try {
      looked = await lookTwice(store, event, row, written.get(key) ?? 0);
    } catch (fault) {
      if (!(fault instanceof StoreFault)) throw fault;
      if (fault.code === 'store_busy') {
        const since = busy.get(key) ?? clock.monotonic();
        busy.set(key, since);
        if (clock.monotonic() - since < busyMaxMs) return;
      }
      busy.delete(key);
      return giveUp(event, term, row, fault.message);
    }
    busy.delete(key);
    if (looked.kind === 'stale') return giveUp(event, term, row, `knows epoch ${looked.epoch}`);
    const at = { event, shard: row.shard, epoch: row.epoch };
    // Half of the round trip, because it is not known which half was longer.
    const ageMs = (clock.monotonic() - began) / 2;
    if (!(await control.note(at, term, { ...looked, ageMs }))) return;
    if (written.size > 1_000) written.clear();
    written.set(key, Math.floor(looked.at / 1000) - overlapSeconds);
  }

  async function giveUp(event: EventNo, term: number, row: ShardRow, reason: string): Promise<void> {
    const at = { event, shard: row.shard, epoch: row.epoch };
    patience.failed(nameOf(event, row));
    const outcome = await control.toPostgres({
      ...at,
      term,
      reporter: owner,
      reason,
      seen: 0,
      step: ceilingStep,
    });
    log.warn({ ...at, term, reason, outcome }, 'numbers come from Postgres: Redis is lost');
    trustNone(event, row);
  }

  function trustNone(event: EventNo, row: ShardRow): void {
    for (const store of numbers.values()) store.trust(event, row.shard, null);
  }

  async function handOver(event: EventNo, term: number, row: ShardRow): Promise<void> {
    const name = storeOf(row.shard);
    const store = name === null ? undefined : numbers.get(name);
    if (name === null || !store || !patience.due(nameOf(event, row))) return;
    const fitness = await fitnessOf(store, event, row);
    if (fitness.kind === 'unfit') {
      trustNone(event, row);
      if (patience.isNews(nameOf(event, row), fitness.complaint)) {
        const { reason } = fitness;
        log.warn({ event, shard: row.shard, store: name, reason }, 'Redis cannot take the numbers yet');
      }
      return;
    }
    const { runIds, offset, above } = fitness;
    const outcome = await control.toRedis({
      event,
      shard: row.shard,
      epoch: row.epoch,
      term,
      store: name,
      runIds,
      step: ceilingStep,
      redisMs: clock.now() + offset,
      above,
    });
    if (outcome.kind !== 'turned') {
      trustNone(event, row);
      const complaint = outcome.kind === 'clock' ? 'clock' : null;
      if (patience.isNews(nameOf(event, row), complaint) && complaint)
        log.warn({ event, store: name, offset }, "Redis's clock is not Postgres's");
      return;
    }
    patience.isNews(nameOf(event, row), null);
    const { epoch, last, ceiling } = outcome;
    await openOnce(store, event, term, { ...row, store: name, epoch, last, ceiling });
  }

  type Fitness =
    | { kind: 'fit'; runIds: string[]; offset: number; above: number }
    /** `complaint` stays the same as long as the cause does. */
    | { kind: 'unfit'; complaint: string; reason: string };

  /** Asked before the row is turned: a Redis that can be asked but not opened is left alone. */
  async function fitnessOf(store: NumberStore, event: EventNo, row: ShardRow): Promise<Fitness> {
    try {
      const primaries = await store.primaries();
      for (const primary of primaries) {
        const reason = unfitness(primary);
        if (reason !== null) return { kind: 'unfit', complaint: reason, reason };
      }
      if (primaries.length === 0) return { kind: 'unfit', complaint: 'none', reason: 'it has no primary' };
      // The one that stands worst: a shard's slot may be on any of them.
      const offset = primaries
        .map(({ time, localTime }) => time - localTime)
        .reduce((worst, one) => (Math.abs(one) > Math.abs(worst) ? one : worst));
      const runIds = primaries.map(({ run }) => run);
      store.trust(event, row.shard, runIds);
      const { epoch } = await store.probe(event, row.shard);
      return { kind: 'fit', runIds, offset, above: epoch };
    } catch (fault) {
      if (!(fault instanceof StoreFault)) throw fault;
      const complaint = fault instanceof RedisFault ? fault.reason : fault.code;
      return { kind: 'unfit', complaint, reason: fault.message };
    }
  }

  /** Never a second time, also when the answer is lost: numbers may have been issued in between. */
  async function openOnce(store: NumberStore, event: EventNo, term: number, row: ShardRow): Promise<void> {
    const { epoch, last, ceiling } = row;
    const at = { event, shard: row.shard, epoch };
    const opened = await store.open({ ...at, last, ceiling }).catch((fault: Error) => ({
      kind: 'failed' as const,
      reason: fault.message,
      isSure: fault instanceof StoreFault && fault.retriable,
    }));
    if (opened.kind === 'opened') {
      patience.succeeded(nameOf(event, row));
      log.warn({ ...at, store: row.store }, 'numbers come from Redis');
      return;
    }
    const reason = opened.kind === 'failed' ? opened.reason : `knows epoch ${opened.epoch}`;
    // Another memory with the very same epoch may have let a visitor draw under it.
    const neverOpened = opened.kind === 'failed' ? opened.isSure : opened.epoch > epoch;
    if (!neverOpened) return giveUp(event, term, row, reason);
    patience.failed(nameOf(event, row));
    const outcome = await control.withdraw(at, term, reason);
    log.warn({ ...at, term, reason, outcome }, 'numbers go on in Postgres: Redis did not open');
    trustNone(event, row);
  }

  return {
    async refresh(event, term) {
      const reading = await control.read(event, clock.monotonic());
      const done = await Promise.allSettled(
        reading.shards.map((row) =>
          row.mode === 'redis' ? watch(event, term, row) : handOver(event, term, row),
        ),
      );
      for (const one of done) if (one.status === 'rejected') throw one.reason;
    },
  };
}

/**
 * The server that a shard belongs to. Shards are dealt out to the servers in turn, the default one first.
 * Without a default server the numbers come from Postgres, because the other servers are only there for
 * partitions that are pinned to them.
 */
function dealtOut(names: readonly string[]): (shard: number) => string | null {
  if (!names.includes(defaultRedis)) return () => null;
  const inTurn = [defaultRedis, ...names.filter((name) => name !== defaultRedis)];
  return (shard) => inTurn[shard % inTurn.length]!;
}
