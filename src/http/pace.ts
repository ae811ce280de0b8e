import type { Clock } from '../runtime/clock.ts';

export interface Pace {
  /**
   * Takes a turn of the key. Returns 0, or the milliseconds until the next turn if none is left. A key has `perMinute` turns at
   * once, and gets them back over a minute.
   */
  take(key: string, perMinute: number): number;
}

/** About 10 MB. Beyond it the keys that were used longest ago are forgotten, which gives them all their turns back. */
const keysMax = 50_000;
const minuteMs = 60_000;

/** Token buckets in the memory of this process: several processes allow that many turns each. */
export function createPace({
  clock,
  limit = keysMax,
}: {
  clock: Pick<Clock, 'monotonic'>;
  limit?: number;
}): Pace {
  const buckets = new Map<string, { turns: number; at: number }>();

  return {
    take(key, perMinute) {
      const now = clock.monotonic();
      const before = buckets.get(key) ?? { turns: perMinute, at: now };
      const turns = Math.min(perMinute, before.turns + ((now - before.at) * perMinute) / minuteMs);
      const isFree = turns >= 1;
      // Deleted and set again, so that the order of the map is that of use.
      buckets.delete(key);
      buckets.set(key, { turns: isFree ? turns - 1 : turns, at: now });
      for (const oldest of buckets.keys()) {
        if (buckets.size <= limit) break;
        buckets.delete(oldest);
      }
      return isFree ? 0 : Math.ceil(((1 - turns) * minuteMs) / perMinute);
    },
  };
}
