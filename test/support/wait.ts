import { systemClock } from '../../src/runtime/clock.ts';

/** Only a condition that never holds takes this long: how busy the machine is must not decide a test. */
const patienceMs = 90_000;

/** Looks again and again until it finds something, and returns that. `what` is for the message if it never does. */
export async function until<Found>(
  look: () => Found | Promise<Found>,
  what: string | (() => string),
  withinMs = patienceMs,
): Promise<Exclude<Found, false | null | undefined>> {
  const end = systemClock.monotonic() + withinMs;
  for (;;) {
    const found = await look();
    if (found) return found as Exclude<Found, false | null | undefined>;
    if (systemClock.monotonic() > end)
      throw new Error(`waited in vain for ${typeof what === 'string' ? what : what()}`);
    await systemClock.sleep(20);
  }
}

/**
 * Waits for a fixed time. Only where no condition can be looked at: the time itself is tested, a client paces its requests, or
 * a moment is chosen at random. `why` says which.
 */
export async function pause(ms: number, why: string, signal?: AbortSignal): Promise<void> {
  if (why === '') throw new Error('a pause needs a reason');
  await systemClock.sleep(ms, signal);
}
