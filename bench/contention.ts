import type pg from 'pg';
import { createPostgresArbiter } from '../src/inventory/postgres-proto.ts';
import { arbiterArena, openPostgresEvent } from './arbiter-arena.ts';
import { openEventLock, openSeatLocks } from './baselines/advisory-locks.ts';
import { openForUpdate } from './baselines/for-update.ts';
import { openCounterRow, openSkipLocked } from './baselines/interchangeable-units.ts';
import { openPlainInsert, openTakeOver } from './baselines/unique-index.ts';
import { type Arena, contend } from './hot-seats.ts';
import { type Case, type Comparison, compare, interleave } from './measure.ts';
import type { Bench, BenchContext } from './run.ts';
import { benchDb, benchPool } from './servers.ts';

/** Fresh seats that a case may use up: enough for `seconds` at the pace that was seen, with room. */
const seatsForPostgres = 40_000;
const gapMs = 2;
const pools = [10, 50, 100];

export const bench: Bench = {
  name: 'contention',
  question:
    'How many claims a second are answered when 500 buyers at any instant want the same 100 seats, against the locking rules that shops use?',
  async run(context) {
    const cases = await contenders(context);
    const chosen = cases.filter(({ name }) => name.includes(context.only));
    const spreads = await interleave(chosen, context.runs, context.progress);
    const measured = new Set(spreads.map(({ case: name }) => name));
    const known = comparisons.filter(
      ({ case: name, baseline }) => measured.has(name) && [baseline].flat().every((one) => measured.has(one)),
    );
    return { spreads, lines: compare('contention', spreads, known) };
  },
};

const forUpdate = pools.map((size) => `row lock with a 2 ms gap, pool ${size}`);
const seatRules = ['one advisory lock an event', 'advisory locks a seat', 'take-over by upsert', 'plain insert, unique index'];
const unitRules = ['a row a unit, SKIP LOCKED', 'one counter row an area'];

const comparisons: Comparison[] = [
  { case: 'Postgres: seats', baseline: forUpdate, budget: 2 },
  ...seatRules.map((baseline) => ({ case: 'Postgres: seats', baseline, budget: null })),
  ...unitRules.map((baseline) => ({ case: 'Postgres: units', baseline, budget: null })),
];

async function contenders({ servers, seconds }: BenchContext): Promise<Case[]> {
  const url = await servers.postgres();
  const contender = (name: string, open: () => Promise<Arena>): Case => ({
    name,
    unit: 'answers/s',
    measure: () => contend(open, seconds),
  });
  const plain = (name: string, open: (pool: pg.Pool) => Promise<Arena>, poolSize: number): Case =>
    contender(name, async () => {
      const pool = benchPool(url, poolSize);
      const arena = await open(pool);
      const close = async () => {
        await arena.close();
        await pool.end();
      };
      return { ...arena, close };
    });
  const postgres = (units: boolean) => async () => {
    const db = benchDb(url);
    const opened = await openPostgresEvent({ db, arbiter: createPostgresArbiter({ db }) }, seatsForPostgres);
    return arbiterArena(opened, { seats: seatsForPostgres, units, close: () => db.close() });
  };
  const seats = seatsForPostgres;
  return [
    contender('Postgres: seats', postgres(false)),
    ...pools.map((size, index) =>
      plain(forUpdate[index]!, (pool) => openForUpdate(pool, { seats, gapMs, gapOnRefusal: false }), size),
    ),
    ...pools.map((size) =>
      plain(
        `row lock with a 2 ms gap also when refused, pool ${size}`,
        (pool) => openForUpdate(pool, { seats, gapMs, gapOnRefusal: true }),
        size,
      ),
    ),
    plain(seatRules[0]!, (pool) => openEventLock(pool, seats), 10),
    plain(seatRules[1]!, (pool) => openSeatLocks(pool, seats), 24),
    plain(seatRules[2]!, (pool) => openTakeOver(pool, seats), 24),
    plain(seatRules[3]!, (pool) => openPlainInsert(pool, seats), 24),
    contender('Postgres: units', postgres(true)),
    plain(unitRules[0]!, (pool) => openSkipLocked(pool, seats), 24),
    plain(unitRules[1]!, (pool) => openCounterRow(pool, seats), 24),
  ];
}
