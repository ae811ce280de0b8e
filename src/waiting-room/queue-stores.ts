import type { EventNo } from '../core/hold.ts';
import type { Clock } from '../runtime/clock.ts';
import { defaultRedis } from '../runtime/config.ts';
import type { Logger } from '../runtime/log.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import type { LookOutcome, NumberStore } from './numbers.ts';
import type { QueueControl, ShardRow } from './queue-control.ts';
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
  /** By the name of the configured Redis server; empty: all numbers come from Postgres. */
  numbers: ReadonlyMap<string, NumberStore>;
  clock: Pick<Clock, 'monotonic' | 'now'>;
  log: Logger;
  owner: string;
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
  /** By shard and epoch: the second up to which arrivals were written. */
  const written = new Map<string, number>();
  /** By shard and epoch: since when each tick found it busy. */
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
    // Half of the way there and back, as nobody knows which half was longer.
    const ageMs = (clock.monotonic() - began) / 2;
    if (!(await control.note(at, term, { ...looked, ageMs }))) return;
    if (written.size > 1_000) written.clear();
    written.set(key, Math.floor(looked.at / 1000) - overlapSeconds);
  }

  async function giveUp(event: EventNo, term: number, row: ShardRow, reason: string): Promise<void> {
    const at = { event, shard: row.shard, epoch: row.epoch };
    const outcome = await control.toPostgres({
      ...at,
      term,
      reporter: owner,
      reason,
      seen: 0,
      step: ceilingStep,
    });
    log.warn({ ...at, term, reason, outcome }, 'numbers come from Postgres: Redis is lost');
    for (const store of numbers.values()) store.trust(event, row.shard, null);
  }

  async function handOver(event: EventNo, term: number, row: ShardRow): Promise<void> {
    const name = storeOf(row.shard);
    const store = name === null ? undefined : numbers.get(name);
    if (name === null || !store) return;
    const primaries = await store.primaries().catch(() => []);
    if (primaries.length === 0 || primaries.some(({ readOnly }) => readOnly)) return;
    // The one that stands worst: a shard's slot may be on any of them.
    const offset = primaries
      .map(({ time, localTime }) => time - localTime)
      .reduce((worst, one) => (Math.abs(one) > Math.abs(worst) ? one : worst));
    const runIds = primaries.map(({ runId }) => runId);
    const outcome = await control.toRedis({
      event,
      shard: row.shard,
      epoch: row.epoch,
      term,
      store: name,
      runIds,
      step: ceilingStep,
      redisMs: clock.now() + offset,
    });
    if (outcome.kind !== 'turned') {
      if (outcome.kind === 'clock')
        log.warn({ event, store: name, offset }, "Redis's clock is not Postgres's");
      return;
    }
    const { epoch, last, ceiling } = outcome;
    store.trust(event, row.shard, runIds);
    // Never a second time, also when the answer is lost: numbers may have been issued in between.
    const opened = await store
      .open({ event, shard: row.shard, epoch, last, ceiling })
      .catch((fault: Error) => ({ kind: 'failed' as const, reason: fault.message }));
    if (opened.kind === 'opened') {
      log.info({ event, shard: row.shard, epoch, store: name }, 'numbers come from Redis');
      return;
    }
    const reason = opened.kind === 'failed' ? opened.reason : `knows epoch ${opened.epoch}`;
    await giveUp(event, term, { ...row, epoch }, reason);
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
 * The server that a shard belongs to: dealt out in turn, the default one first. Servers that are only there for partitions
 * pinned to them number nothing by themselves: without a default one the numbers come from Postgres.
 */
function dealtOut(names: readonly string[]): (shard: number) => string | null {
  if (!names.includes(defaultRedis)) return () => null;
  const inTurn = [defaultRedis, ...names.filter((name) => name !== defaultRedis)];
  return (shard) => inTurn[shard % inTurn.length]!;
}
