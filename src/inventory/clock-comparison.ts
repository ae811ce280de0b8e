import type { Clock } from '../runtime/clock.ts';

/** A reading of another clock: `time` there when this process's clock was `localTime`, give or take half of the round trip. */
export interface ClockReading {
  time: number;
  localTime: number;
  roundTripMs: number;
}

/** A Redis whose clock differs more than this from Postgres's is not trusted with deadlines. */
export const clockToleranceMs = 500;
/** Clocks drift by far less than a millisecond in this time. */
const freshMs = 1_000;

/** Compares other clocks with Postgres's, through this process's own, whose error cancels out. */
export function createClockComparison(options: { postgresTime: () => Promise<number>; clock: Clock }) {
  const { postgresTime, clock } = options;
  let known: { readAt: number; reading: Promise<ClockReading> } | null = null;

  async function read(): Promise<ClockReading> {
    const sent = clock.monotonic();
    const sentAt = clock.now();
    const time = await postgresTime();
    const roundTripMs = clock.monotonic() - sent;
    return { time, localTime: sentAt + roundTripMs / 2, roundTripMs };
  }

  async function postgres(): Promise<ClockReading> {
    const now = clock.monotonic();
    if (!known || now - known.readAt > freshMs) {
      const entry = { readAt: now, reading: read() };
      known = entry;
      entry.reading.catch(() => {
        if (known === entry) known = null;
      });
    }
    return await known.reading;
  }

  return {
    /** Whether both clocks agree within the tolerance, as far as the round trips tell. */
    async fits(other: ClockReading): Promise<boolean> {
      const truth = await postgres();
      const apart = Math.abs(other.time - other.localTime - (truth.time - truth.localTime));
      return apart <= clockToleranceMs + (other.roundTripMs + truth.roundTripMs) / 2;
    },
  };
}
