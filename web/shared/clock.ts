import { useEffect, useState } from 'preact/hooks';

/**
 * The server's time in the browser. The device's clock is never trusted: only its differences are used. A cached object is
 * older than it says, never newer, so of several samples the greatest offset is the nearest to the truth.
 */
const samplesMax = 8;

export interface ServerClock {
  /** Epoch ms by the server's clock, as well as we know it. */
  now(): number;
  /** Takes a server time (epoch ms) that has just arrived. */
  sample(serverTime: number): void;
  /** After sleep the device's clock may have been set: old samples say nothing any more. */
  forget(): void;
}

export function createServerClock(deviceNow: () => number): ServerClock {
  let offsets: number[] = [];
  let offset = 0;
  return {
    now: () => deviceNow() + offset,
    sample(serverTime) {
      if (!Number.isFinite(serverTime)) return;
      offsets = [...offsets, serverTime - deviceNow()].slice(-samplesMax);
      offset = Math.max(...offsets);
    },
    forget() {
      offsets = [];
    },
  };
}

export const serverClock = createServerClock(() => Date.now());

/** Re-renders each second while `running`. Returns the server's time. */
export function useServerNow(running = true): number {
  const [now, setNow] = useState(() => serverClock.now());
  useEffect(() => {
    if (!running) return;
    const timer = window.setInterval(() => setNow(serverClock.now()), 1000);
    return () => window.clearInterval(timer);
  }, [running]);
  return running ? Math.max(now, 0) : serverClock.now();
}

/** A payment is looked at more rarely the longer it takes: after 2 s at first, after 10 s in the end. `asked`: by the server, at least. */
export function lookAgainMs(looks: number, asked = 0): number {
  return Math.max(asked, Math.min(10_000, 2_000 * 1.4 ** Math.max(0, looks - 1)));
}

/** Ends early when the page is seen again: its reader comes back from the bank, or from another tab. */
export async function pauseUnlessSeen(ms: number, signal?: AbortSignal): Promise<void> {
  const stop = new AbortController();
  const onVisible = () => document.visibilityState === 'visible' && stop.abort();
  document.addEventListener('visibilitychange', onVisible);
  signal?.addEventListener('abort', () => stop.abort(), { once: true });
  if (signal?.aborted) stop.abort();
  await pause(ms, stop.signal);
  document.removeEventListener('visibilitychange', onVisible);
}

export const pause = (ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const timer = window.setTimeout(resolve, ms);
    signal?.addEventListener('abort', () => {
      window.clearTimeout(timer);
      resolve();
    });
  });
