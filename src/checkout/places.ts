import type { Clock } from '../runtime/clock.ts';

export interface Places<Item> {
  /**
   * Claims what is due and starts `work` on it, as places become free. Resolves when nothing more is due; work that has been
   * started may go on, and keeps only its own place.
   */
  fill(work: (item: Item) => Promise<void>, signal?: AbortSignal): Promise<void>;
  /** Fills, and resolves when nothing is due and nothing is being worked on. */
  drain(work: (item: Item) => Promise<void>, signal?: AbortSignal): Promise<void>;
  /** Resolves when all work that was started has ended. */
  ended(): Promise<void>;
}

/** Places that became free within this time are filled by one claim. */
const gatherMs = 25;
/** A round of the loop ends even when new work keeps coming. */
const claimsMax = 1_000;

/**
 * A fixed number of places for work that waits for the payment provider. A place is filled again as soon as its own work has
 * ended, so that a call without an answer holds up nothing else. `work` must not throw.
 */
export function createPlaces<Item>(options: {
  places: number;
  claim(limit: number): Promise<Item[]>;
  clock: Clock;
}): Places<Item> {
  const { places, claim, clock } = options;
  const busy = new Set<Promise<void>>();

  /** True: more may be due. */
  async function start(work: (item: Item) => Promise<void>): Promise<boolean> {
    const free = places - busy.size;
    if (free === 0) return true;
    const claimed = await claim(free);
    for (const item of claimed) {
      const working = work(item).finally(() => busy.delete(working));
      busy.add(working);
    }
    return claimed.length === free;
  }

  async function freed(): Promise<void> {
    await Promise.race(busy);
    await clock.sleep(gatherMs);
  }

  async function fill(work: (item: Item) => Promise<void>, signal?: AbortSignal): Promise<void> {
    for (let claims = 0; claims < claimsMax && !signal?.aborted; claims += 1) {
      if (!(await start(work))) return;
      if (busy.size === places) await freed();
    }
  }

  async function ended(): Promise<void> {
    await Promise.all(busy);
  }

  async function drain(work: (item: Item) => Promise<void>, signal?: AbortSignal): Promise<void> {
    for (;;) {
      await fill(work, signal);
      if (busy.size === 0 || signal?.aborted) return ended();
      await freed();
    }
  }

  return { fill, drain, ended };
}
