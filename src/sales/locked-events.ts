import type { EventNo } from '../core/hold.ts';
import type { Clock } from '../runtime/clock.ts';

/** A call waits this long for its event, in all, before its caller is told that the event is busy. */
export const lockedPatienceMs = 2_000;
/** Whether the lock is free is asked this often: at first quickly, since most changes take milliseconds. */
const askFirstMs = 5;
const askMostMs = 100;
const waitingMax = 1_000;

export interface LockedEvents {
  /** Resolves once the event's lock is free (true), or `ms` have passed or too many wait already (false). */
  free(event: EventNo, ms: number): Promise<boolean>;
}

/**
 * Calls that met an event's lock wait for it here, without a connection: one of them asks for all. A lock that is held alone
 * for seconds takes no connection from other events.
 */
export function createLockedEvents(options: {
  clock: Pick<Clock, 'after' | 'sleep'>;
  /** Whether the event's lock can be shared now. */
  isFree: (event: EventNo) => Promise<boolean>;
}): LockedEvents {
  const { clock, isFree } = options;
  const events = new Map<EventNo, Set<() => void>>();

  async function watch(event: EventNo, waiting: Set<() => void>): Promise<void> {
    for (let ms = askFirstMs; waiting.size > 0; ms = Math.min(askMostMs, ms * 2)) {
      await clock.sleep(ms);
      // A store that does not answer says more to the calls themselves.
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
