import type pg from 'pg';
import { systemClock } from '../../src/runtime/clock.ts';
import { hotSeats, type StoredArena } from '../hot-seats.ts';

/** One call of a driver's client, prepared by name as ours are. */
export type Ask = (name: string, text: string, values: unknown[]) => Promise<pg.QueryResult>;

/** Runs `work` in one transaction on one connection; `commit` false: rolls back. */
export async function transaction<Result>(
  pool: pg.Pool,
  work: (ask: Ask) => Promise<{ commit: boolean; result: Result }>,
): Promise<Result> {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    const { commit, result } = await work((name, text, values) => client.query({ name, text, values }));
    await client.query(commit ? 'COMMIT' : 'ROLLBACK');
    return result;
  } finally {
    client.release();
  }
}

export const gap = (ms: number): Promise<void> => systemClock.sleep(ms);

/**
 * The table that a shop would usually make for itself: one row for each seat, with who holds it and until
 * when. The baselines know no quotas, repeats, sessions or epochs, only whether the seat is free.
 */
export async function seatTable(
  pool: pg.Pool,
  seats: number,
): Promise<Pick<StoredArena, 'rounds' | 'held' | 'close'>> {
  await pool.query('DROP TABLE IF EXISTS plain_seats');
  await pool.query(
    `CREATE TABLE plain_seats (event_no integer, seat_no integer, held_by text, held_until timestamptz,
       PRIMARY KEY (event_no, seat_no)) WITH (fillfactor = 50)`,
  );
  await pool.query('INSERT INTO plain_seats SELECT 1, n FROM generate_series(0, $1::int - 1) n', [seats]);
  await pool.query('ANALYZE plain_seats');
  return {
    rounds: Math.floor(seats / hotSeats),
    held: async () => {
      const { rows } = await pool.query('SELECT seat_no FROM plain_seats WHERE held_until > now()');
      return rows.map((row: { seat_no: number }) => row.seat_no);
    },
    close: async () => {
      await pool.query('DROP TABLE plain_seats');
    },
  };
}

export const readFree = `SELECT held_until IS NULL OR held_until <= now() AS free FROM plain_seats
  WHERE event_no = 1 AND seat_no = $1`;
export const writeHold = `UPDATE plain_seats SET held_by = $2, held_until = now() + interval '10 minutes'
  WHERE event_no = 1 AND seat_no = $1`;
