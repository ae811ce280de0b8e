import {
  clockHealth,
  clockSkewMaxMs,
  processStopped,
  reportEveryMs,
  reportProcess,
} from '../health/background-work.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Loops } from '../runtime/loops.ts';
import type { Shutdown } from '../runtime/shutdown.ts';

/** Stores the health of this process's loops every few seconds, and compares its clock with Postgres's while doing so. */
export function startHealthReports(parts: {
  db: Db;
  /** New with each start of a process. */
  process: string;
  roles: readonly string[];
  loops: Loops;
  clock: Clock;
  shutdown: Shutdown;
}): void {
  const { db, process, roles, loops, clock, shutdown } = parts;
  const startedAt = clock.monotonic();
  let skewMs: number | null = null;
  let farSince: number | null = null;

  /** An answer that took long says little about the clocks: only what exceeds its travel counts. */
  function compare(postgres: number, asked: number, answered: number): void {
    const skew = postgres - (asked + answered) / 2;
    const doubt = (answered - asked) / 2;
    if (Math.abs(skew) <= clockSkewMaxMs) {
      skewMs = skew;
      farSince = null;
    } else if (Math.abs(skew) - doubt > clockSkewMaxMs) {
      skewMs = skew;
      farSince ??= answered;
    }
  }

  loops.observe(() => [clockHealth(skewMs, farSince)]);
  shutdown.add('health reports', () => processStopped(db, process).catch(() => {}));
  loops.run({
    name: 'report health',
    everyMs: reportEveryMs,
    retryMaxMs: reportEveryMs,
    turn: async () => {
      const asked = clock.now();
      const began = clock.monotonic();
      const report = { process, roles, upMs: began - startedAt, health: loops.health() };
      const postgres = await reportProcess(db, report, asked);
      compare(postgres, asked, asked + clock.monotonic() - began);
    },
  });
}
