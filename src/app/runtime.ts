import type { Events } from '../catalogue/events.ts';
import type { Arbiter } from '../inventory/arbiter.ts';
import type { PaymentProvider } from '../payments/provider.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Loops } from '../runtime/loops.ts';
import type { Random } from '../runtime/random.ts';
import type { Shutdown } from '../runtime/shutdown.ts';

export const roles = ['web', 'controller', 'worker'] as const;
export type Role = (typeof roles)[number];

export interface Runtime {
  clock: Clock;
  random: Random;
  log: Logger;
}

export interface AppOptions extends Runtime {
  /** All of them unless told otherwise. */
  roles?: readonly Role[];
  /** Called with one line at a time about the progress, for the person who waits. */
  onProgress?: (line: string) => void;
  /** Stops what was started; the caller's, so that signals reach it from the first moment on. */
  shutdown?: Shutdown;
  /** Replaces parts, for tests: a proxy that counts calls, an arbiter that grants everything. */
  replace?: { arbiter?: (made: Arbiter) => Arbiter; provider?: (made: PaymentProvider) => PaymentProvider };
}

export interface App {
  /** The address that buyers see; without the web role, null. */
  url: string | null;
  db: Db;
  events: Events;
  databaseUrl: string;
  organiser: Organiser;
  /** The simulator's page, where it takes the payments. */
  simulatorUrl: string | null;
  /** The local mailbox's page, where it takes the mails. */
  mailboxUrl: string | null;
  stop(): Promise<void>;
}

export interface Organiser {
  email: string;
  password: string;
  /** `made`: in this very start. Otherwise it is in the file, or set by ONSALE_ORGANISER_PASSWORD (`environment`). */
  passwordFrom: 'made' | 'file' | 'environment';
}

/** A reason that keeps the program from starting, as a sentence for the person who started it. */
export class StartProblem extends Error {
  override readonly name = 'StartProblem';
}

/** A stop was requested before the start was done. */
export class StartInterrupted extends Error {
  override readonly name = 'StartInterrupted';
}

/** Reports this process's measurements of the last seconds, for the admission rate. */
export function reportEverySecond<Window>(
  loops: Loops,
  name: string,
  meter: { window(): Window | null },
  report: (window: Window) => Promise<void>,
): void {
  loops.run({
    name,
    everyMs: 1_000,
    waitsFirst: true,
    turn: async () => {
      const window = meter.window();
      if (window) await report(window);
    },
  });
}

/** The host in an address that people can open. */
export function urlHost(host: string): string {
  if (host === '0.0.0.0' || host === '::') return 'localhost';
  return host.includes(':') ? `[${host}]` : host;
}
