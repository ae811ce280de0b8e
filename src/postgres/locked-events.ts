import type { EventNo } from '../core/hold.ts';
import type { Clock } from '../runtime/clock.ts';

/** Total time that a call waits for its event's lock before it fails because the event is busy. */
export const lockedPatienceMs = 2_000;
/** Interval between checks of the lock. It starts short, since most changes take milliseconds. */
const askFirstMs = 5;
const askMostMs = 100;
const waitingMax = 1_000;

export interface LockedEvents {
  /** Resolves to true once the event's lock is free, or to false if `ms` have passed or too many calls wait already. */
  free(event: EventNo, ms: number): Promise<boolean>;
}

/**
 * Lets calls wait for an event's lock without a connection: one query checks the lock for all of them. A lock that is held
 * exclusively for seconds takes no connection from other events.
 */
export function createLockedEvents(options: {
  clock: Pick<Clock, 'after' | 'sleep'>;
  /** Returns true if the event's lock can be shared now. */
  isFree: (event: EventNo) => Promise<boolean>;
}): LockedEvents {
  const { clock, isFree } = options;
  const events = new Map<EventNo, Set<() => void>>();

  async function watch(event: EventNo, waiting: Set<() => void>): Promise<void> {
    for (let ms = askFirstMs; waiting.size > 0; ms = Math.min(askMostMs, ms * 2)) {
      await clock.sleep(ms);
      // If the store does not answer, the calls resume and report that error themselves.
      if (waiting.size > 0 && (await isFree(event).catch(() => true))) break;
    }
    events.delete(event);
    for (const resume of waiting) resume();
  }

  return {
    free(event, ms) {
      const found = events.get(event);
      const waiting = found ?? new Set();
      if (ms <= 0 || waiting.size >= waitingMax) return Promise.resolve(false);
      return new Promise((resolve) => {
        const cancel = clock.after(ms, () => {
          waiting.delete(resume);
          resolve(false);
        });
        const resume = (): void => {
          cancel();
          resolve(true);
        };
        waiting.add(resume);
        if (found) return;
        events.set(event, waiting);
        void watch(event, waiting);
      });
    },
  };
}
