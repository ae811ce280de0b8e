import type pg from 'pg';
import { createPostgresArbiter } from '../src/inventory/postgres.ts';
import { arbiterArena, closeRedisEvent, openPostgresEvent, openRedisEvent } from './arbiter-arena.ts';
import { openEventLock, openSeatLocks } from './baselines/advisory-locks.ts';
import { openForUpdate } from './baselines/for-update.ts';
import { openCounterRow, openSkipLocked } from './baselines/interchangeable-units.ts';
import { openPlainInsert, openTakeOver } from './baselines/unique-index.ts';
import { contend, type StoredArena } from './hot-seats.ts';
import { type Case, type Comparison, compare, cpuOf, cpuSpreads, interleave } from './measure.ts';
import type { Bench, BenchContext } from './run.ts';
import { benchDb, benchPool } from './servers.ts';

/** Fresh seats that a case may use up: enough for `seconds` at the pace that was seen, with room. */
const seatsForPostgres = 20_000;
const seatsForRedis = 200_000;
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
    const all = [...spreads, ...cpuSpreads(spreads, ['clientCpuUs', 'storeCpuUs'])];
    const measured = new Set(all.map(({ case: name }) => name));
    const known = comparisons.filter(
      ({ case: name, baseline }) => measured.has(name) && [baseline].flat().every((one) => measured.has(one)),
    );
    return { spreads: all, lines: compare('contention', all, known) };
  },
};

const forUpdate = pools.map((size) => `row lock with a 2 ms gap, pool ${size}`);
const forUpdateAlways = 'row lock with a 2 ms gap also when refused, pool 50';
const seatRules = [
  'one advisory lock an event',
  'advisory locks a seat',
  'take-over by upsert',
  'plain insert, unique index',
];
const unitRules = ['a row a unit, SKIP LOCKED', 'one counter row an area'];

const comparisons: Comparison[] = [
  { case: 'Redis: seats', baseline: forUpdate, budget: 20 },
  { case: 'Postgres: seats', baseline: forUpdate, budget: 2 },
  ...['Redis: seats', 'Postgres: seats'].map((name) => ({
    case: cpuOf(name),
    baseline: forUpdate.map(cpuOf),
    budget: null,
    atMost: true,
  })),
  ...['Redis: seats', 'Postgres: seats'].flatMap((name) => [
    { case: name, baseline: forUpdateAlways, budget: null },
    ...seatRules.map((baseline) => ({ case: name, baseline, budget: null })),
  ]),
  ...['Redis: units', 'Postgres: units'].flatMap((name) =>
    unitRules.map((baseline) => ({ case: name, baseline, budget: null })),
  ),
];

async function contenders({ servers, seconds }: BenchContext): Promise<Case[]> {
  const url = await servers.postgres();
  const redisServer = await servers.redis();
  const contender = (
    name: string,
    open: () => Promise<StoredArena>,
    storeCpuMs: () => number = servers.postgresCpuMs,
  ): Case => ({
    name,
    unit: 'answers/s',
    measure: () => contend(async () => ({ ...(await open()), storeCpuMs }), seconds),
  });
  const plain = (name: string, open: (pool: pg.Pool) => Promise<StoredArena>, poolSize: number): Case =>
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
  const redis = (units: boolean) => async () => {
    const opened = await openRedisEvent(redisServer, { seats: seatsForRedis });
    const close = () => closeRedisEvent(opened, redisServer);
    return arbiterArena(opened, { seats: seatsForRedis, units, close });
  };
  const seats = seatsForPostgres;
  return [
    contender('Redis: seats', redis(false), servers.redisCpuMs),
    contender('Postgres: seats', postgres(false)),
    ...pools.map((size, index) =>
      plain(forUpdate[index]!, (pool) => openForUpdate(pool, { seats, gapMs, gapOnRefusal: false }), size),
    ),
    plain(forUpdateAlways, (pool) => openForUpdate(pool, { seats, gapMs, gapOnRefusal: true }), 50),
    plain(seatRules[0]!, (pool) => openEventLock(pool, seats), 10),
    plain(seatRules[1]!, (pool) => openSeatLocks(pool, seats), 24),
    plain(seatRules[2]!, (pool) => openTakeOver(pool, seats), 24),
    plain(seatRules[3]!, (pool) => openPlainInsert(pool, seats), 24),
    contender('Redis: units', redis(true), servers.redisCpuMs),
    contender('Postgres: units', postgres(true)),
    plain(unitRules[0]!, (pool) => openSkipLocked(pool, seats), 24),
    plain(unitRules[1]!, (pool) => openCounterRow(pool, seats), 24),
  ];
}
