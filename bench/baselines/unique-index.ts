import type pg from 'pg';
import { hotSeats, type StoredArena } from '../hot-seats.ts';

async function lockTable(
  pool: pg.Pool,
  seats: number,
): Promise<Pick<StoredArena, 'rounds' | 'held' | 'close'>> {
  await pool.query('DROP TABLE IF EXISTS plain_locks');
  await pool.query(
    `CREATE TABLE plain_locks (event_no integer, seat_no integer, held_by text, held_until timestamptz,
       PRIMARY KEY (event_no, seat_no))`,
  );
  return {
    rounds: Math.floor(seats / hotSeats),
    held: async () => {
      const { rows } = await pool.query('SELECT seat_no FROM plain_locks WHERE held_until > now()');
      return rows.map((row: { seat_no: number }) => row.seat_no);
    },
    close: async () => {
      await pool.query('DROP TABLE plain_locks');
    },
  };
}

/** A row for each hold; the index refuses a second one, as an error. An expired row stays in the way until something deletes it. */
export async function openPlainInsert(pool: pg.Pool, seats: number): Promise<StoredArena> {
  const table = await lockTable(pool, seats);
  return {
    ...table,
    claim: async (round, place, buyer) => {
      const seat = round * hotSeats + place;
      // Not `pool.query`, which would throw the connection away with each refusal.
      const client = await pool.connect();
      try {
        await client.query({
          name: 'pi_insert',
          text: `INSERT INTO plain_locks VALUES (1, $1, $2, now() + interval '10 minutes')`,
          values: [seat, `b${buyer}`],
        });
        return seat;
      } catch (error) {
        if ((error as { code?: string }).code === '23505') return null;
        throw error;
      } finally {
        client.release();
      }
    },
  };
}

/** The same row, taken over when its time is up: one upsert on (event, seat). */
export async function openTakeOver(pool: pg.Pool, seats: number): Promise<StoredArena> {
  const table = await lockTable(pool, seats);
  return {
    ...table,
    claim: async (round, place, buyer) => {
      const seat = round * hotSeats + place;
      const { rowCount } = await pool.query({
        name: 'to_upsert',
        text: `INSERT INTO plain_locks AS l VALUES (1, $1, $2, now() + interval '10 minutes')
               ON CONFLICT (event_no, seat_no) DO UPDATE SET held_by = excluded.held_by, held_until = excluded.held_until
                WHERE l.held_until <= now()`,
        values: [seat, `b${buyer}`],
      });
      return rowCount === 1 ? seat : null;
    },
  };
}
