import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createDemoEvent } from '../src/cli/demo-event.ts';
import type { Db } from '../src/postgres/db.ts';
import { systemClock } from '../src/runtime/clock.ts';
import { copyEvent } from '../test/support/copied-events.ts';
import { serveIn } from './child.ts';
import { type Line, type Sample, type Spread, spreadOf } from './measure.ts';
import { until } from './open-sale.ts';
import type { Bench, BenchContext } from './run.ts';
import { benchDb } from './servers.ts';

const seats = 2_000;
/** Percent of one core, with the fewest events. */
const budget = 3;
const secondsMin = 60;
const sizes = [100, 1_000] as const;

const figures = { server: '% of a core', Postgres: '% of a core', 'seats read': 'rows/s' } as const;
type Figure = keyof typeof figures;

export const bench: Bench = {
  name: 'idle',
  question: `What do published events of ${seats.toLocaleString('en')} seats cost while nothing happens?`,
  async run(context) {
    const kept: Spread[] = [];
    for (const events of sizes) {
      const names = Object.keys(figures) as Figure[];
      if (!names.some((name) => caseOf(name, events).includes(context.only))) continue;
      // The larger number takes minutes to make: only when asked for.
      if (context.only === '' && events !== sizes[0]) continue;
      kept.push(...(await measureIdle(context, events)));
    }
    const lines = kept.map((spread): Line => {
      const [most, isBudget] =
        spread.unit === 'rows/s' ? [0, true] : [budget, spread.case.includes(` ${sizes[0]} `)];
      return {
        bench: 'idle',
        case: spread.case,
        value: spread.median,
        unit: spread.unit,
        baseline: 'most',
        baselineValue: most,
        ratio: most === 0 ? 0 : Math.round((spread.median / most) * 100) / 100,
        budget: isBudget ? most : null,
        reached: isBudget ? spread.median <= most : null,
        runs: spread.values.length,
      };
    });
    return { spreads: kept, lines };
  },
};

const caseOf = (figure: Figure, events: number): string => `${figure}, ${events} idle events`;

async function measureIdle(
  { servers, runs, seconds, progress }: BenchContext,
  events: number,
): Promise<Spread[]> {
  const own = await servers.ownDatabase();
  const db = benchDb(own.url, 4);
  const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-bench-app-'));
  try {
    progress(`making ${events} events`);
    await makeEvents(db, events);
    const served = await serveIn('served-app.ts', {
      DATABASE_URL: own.url,
      ONSALE_DATA_DIR: dataDir,
      PORT: '0',
    });
    try {
      const startedAt = systemClock.monotonic();
      const atRest = async (): Promise<boolean> => {
        const [row] = await db.query<{ count: number }>(
          'bench_at_rest',
          'SELECT count(*) FROM event_rests WHERE settled',
        );
        return row!.count === events;
      };
      await until(atRest, 'every event to be at rest', 600_000);
      progress(
        `${events} events at rest after ${Math.round((systemClock.monotonic() - startedAt) / 1_000)} s`,
      );
      const samples = new Map<Figure, Sample[]>();
      // Sessions report what they read up to ten seconds later.
      await systemClock.sleep(12_000);
      for (let run = 1; run <= runs; run++) {
        const before = { server: served.cpuMs(), store: servers.postgresCpuMs(), rows: await seatsRead(db) };
        const began = systemClock.monotonic();
        await systemClock.sleep(Math.max(seconds, secondsMin) * 1_000);
        const ms = systemClock.monotonic() - began;
        const found: Record<Figure, number> = {
          server: ((served.cpuMs() - before.server) / ms) * 100,
          Postgres: ((servers.postgresCpuMs() - before.store) / ms) * 100,
          'seats read': ((await seatsRead(db)) - before.rows) / (ms / 1_000),
        };
        for (const [name, value] of Object.entries(found) as [Figure, number][]) {
          samples.set(name, [...(samples.get(name) ?? []), { value }]);
          progress(`run ${run}/${runs}  ${caseOf(name, events)}: ${value.toFixed(2)} ${figures[name]}`);
        }
      }
      return [...samples].map(([name, all]) => spreadOf(caseOf(name, events), figures[name], all));
    } finally {
      await served.stop();
    }
  } finally {
    await db.close();
    await own.drop();
    fs.rmSync(dataDir, { recursive: true, force: true });
  }
}

async function makeEvents(db: Db, events: number): Promise<void> {
  await createDemoEvent({ db, clock: systemClock, seats, onProgress: () => {} });
  const [first] = await db.query<{ event_no: number }>('bench_first', 'SELECT event_no FROM events');
  const query = (sql: string, values: unknown[]) =>
    db.query<{ event_no: number }>(`bench_${sql.length}`, sql, values);
  await copyEvent(query, first!.event_no, events - 1);
  await db.query('bench_analyze', 'ANALYZE');
}

async function seatsRead(db: Db): Promise<number> {
  const [row] = await db.query<{ rows: number }>(
    'bench_seats_read',
    `SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::float8 AS rows FROM pg_stat_user_tables
     WHERE relname ~ '^(seats(_[0-9]+)?|event_seats|layouts)$'`,
  );
  return row!.rows;
}
