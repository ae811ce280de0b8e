import { problem } from '../core/problems.ts';
import type { Clock } from '../runtime/clock.ts';

/** How fast one subject (a visitor, an address range) may try. */
export interface AttemptPolicy {
  /** Entry n is the wait in ms after an attempt that n others preceded. The last entry applies to all further ones. */
  spacingsMs: readonly number[];
  /** An attempt is forgotten after this long. */
  forgetMs: number;
}

/** Time slots for attempts, in the memory of this process: attempts that arrive together get slots one after the other. */
export interface AttemptSlots {
  /** Time until the subject's next slot. */
  waitMs(subject: string): number;
  /** Reserves the next slot. The attempt counts from now on. */
  take(subject: string): void;
  /** The attempt was right: it does not count. */
  giveBack(subject: string): void;
}

/** Subjects in memory. Beyond that the one that tried first is forgotten. */
const subjectsMax = 20_000;

export function createAttemptSlots(clock: Pick<Clock, 'monotonic'>, policy: AttemptPolicy): AttemptSlots {
  const { spacingsMs, forgetMs } = policy;
  const known = new Map<string, { attempts: number; countedAt: number; nextAt: number }>();

  return {
    waitMs: (subject) => Math.max(0, (known.get(subject)?.nextAt ?? 0) - clock.monotonic()),
    take(subject) {
      const now = clock.monotonic();
      const { attempts, countedAt, nextAt } = known.get(subject) ?? {
        attempts: 0,
        countedAt: now,
        nextAt: 0,
      };
      const left = Math.max(0, attempts - (now - countedAt) / forgetMs);
      const spacing = spacingsMs[Math.min(Math.ceil(left), spacingsMs.length - 1)]!;
      known.delete(subject);
      known.set(subject, {
        attempts: Math.min(left + 1, spacingsMs.length),
        countedAt: now,
        nextAt: Math.max(now, nextAt) + spacing,
      });
      if (known.size > subjectsMax) known.delete(known.keys().next().value!);
    },
    giveBack(subject) {
      const seen = known.get(subject);
      if (seen) seen.attempts = Math.max(0, seen.attempts - 1);
    },
  };
}

/** Waits for a reserved slot. A server that stops answers those who wait at once. */
export async function waitForSlot(
  { clock, closing }: { clock: Clock; closing: AbortSignal },
  waitMs: number,
): Promise<void> {
  if (waitMs <= 0) return;
  await clock.sleep(waitMs, closing).catch(() => {
    throw problem('unavailable', { retryAfterMs: 1_000 });
  });
}

/** The refusal when the next slot is too far away. It names whole seconds. */
export function tooManyAttempts(what: string, retryAfterMs: number, field?: string): Error {
  const seconds = Math.ceil(retryAfterMs / 1_000);
  return problem('too_many_requests', {
    detail: `${what} Try again in ${seconds} ${seconds === 1 ? 'second' : 'seconds'}.`,
    field,
    retryAfterMs: seconds * 1_000,
  });
}
