import type { Clock } from '../runtime/clock.ts';

/** How long the leader leaves a shard's numbering in Postgres after Redis failed it, and what it has complained of so far. */
export interface QueuePatience {
  /** Whether Redis may be given the shard (a text that names it) again. */
  due(shard: string): boolean;
  /** Redis has the shard: from here on good health counts. */
  succeeded(shard: string): void;
  /** Redis lost the shard, or could not be opened. */
  failed(shard: string): void;
  /**
   * Returns false if the last complaint about the shard was the same, so that each is logged once. Null means that there is
   * none any more.
   */
  isNews(shard: string, complaint: string | null): boolean;
}

const backoffMaxMs = 60_000;
/** After this long on Redis, one failure is forgiven. */
const forgivenAfterMs = 60_000;
const shardsMax = 10_000;

interface Tried {
  failures: number;
  dueAt: number;
  /** Time since which it has been on Redis. Null if it is not. */
  wellSince: number | null;
  complaint: string | null;
}

/**
 * A Redis that fails again and again skips a range of numbers each time. After the first failure it is tried again at once,
 * then after `firstMs` (2.5 s), then each time twice as long, at most a minute. Kept in this process: another leader starts
 * from zero.
 */
export function createQueuePatience(options: {
  clock: Pick<Clock, 'monotonic'>;
  firstMs?: number;
}): QueuePatience {
  const { clock, firstMs = 2_500 } = options;
  const tried = new Map<string, Tried>();

  function triedOf(shard: string): Tried {
    let entry = tried.get(shard);
    if (!entry) {
      if (tried.size >= shardsMax) tried.clear();
      entry = { failures: 0, dueAt: Number.NEGATIVE_INFINITY, wellSince: null, complaint: null };
      tried.set(shard, entry);
    }
    return entry;
  }

  return {
    due: (shard) => clock.monotonic() >= triedOf(shard).dueAt,
    succeeded(shard) {
      triedOf(shard).wellSince = clock.monotonic();
    },
    failed(shard) {
      const entry = triedOf(shard);
      const now = clock.monotonic();
      const forgiven = entry.wellSince === null ? 0 : Math.floor((now - entry.wellSince) / forgivenAfterMs);
      entry.failures = Math.max(0, entry.failures - forgiven) + 1;
      entry.wellSince = null;
      const waitMs = entry.failures === 1 ? 0 : Math.min(backoffMaxMs, firstMs * 2 ** (entry.failures - 2));
      entry.dueAt = now + waitMs;
    },
    isNews(shard, complaint) {
      const entry = triedOf(shard);
      const isNew = entry.complaint !== complaint;
      entry.complaint = complaint;
      return isNew;
    },
  };
}
