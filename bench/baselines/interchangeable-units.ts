import type pg from 'pg';
import { hotSeats, type StoredArena } from '../hot-seats.ts';

/** General admission with one row for each unit: takes the first free unit that no other claim has locked. One statement. */
export async function openSkipLocked(pool: pg.Pool, units: number): Promise<StoredArena> {
  await pool.query('DROP TABLE IF EXISTS plain_units');
  await pool.query(
    `CREATE TABLE plain_units (area integer, unit integer, held_by text, held_until timestamptz,
       PRIMARY KEY (area, unit)) WITH (fillfactor = 50)`,
  );
  await pool.query('INSERT INTO plain_units SELECT n / $2::int, n FROM generate_series(0, $1::int - 1) n', [
    units,
    hotSeats,
  ]);
  await pool.query('ANALYZE plain_units');
  return {
    rounds: Math.floor(units / hotSeats),
    claim: async (round, _place, buyer) => {
      const { rows } = await pool.query({
        name: 'su_take',
        text: `UPDATE plain_units u SET held_by = $2, held_until = now() + interval '10 minutes'
                WHERE (u.area, u.unit) = (SELECT area, unit FROM plain_units
                  WHERE area = $1 AND (held_until IS NULL OR held_until <= now()) LIMIT 1 FOR UPDATE SKIP LOCKED)
               RETURNING u.unit`,
        values: [round, `b${buyer}`],
      });
      return rows[0]?.unit ?? null;
    },
    held: async () => {
      const { rows } = await pool.query('SELECT unit FROM plain_units WHERE held_until > now()');
      return rows.map((row: { unit: number }) => row.unit);
    },
    close: async () => {
      await pool.query('DROP TABLE plain_units');
    },
  };
}

/**
 * General admission, one counter row an area: who gets which is not known, and a hold that lapses gives nothing back by itself.
 * The number answered is the count before the claim.
 */
export async function openCounterRow(pool: pg.Pool, units: number): Promise<StoredArena> {
  const rounds = Math.floor(units / hotSeats);
  await pool.query('DROP TABLE IF EXISTS plain_areas');
  await pool.query(
    `CREATE TABLE plain_areas (area integer PRIMARY KEY, free integer NOT NULL) WITH (fillfactor = 50)`,
  );
  await pool.query('INSERT INTO plain_areas SELECT n, $2 FROM generate_series(0, $1::int - 1) n', [
    rounds,
    hotSeats,
  ]);
  await pool.query('ANALYZE plain_areas');
  return {
    rounds,
    claim: async (round) => {
      const { rows } = await pool.query({
        name: 'cr_take',
        text: 'UPDATE plain_areas SET free = free - 1 WHERE area = $1 AND free >= 1 RETURNING free',
        values: [round],
      });
      return rows[0] ? round * hotSeats + rows[0].free : null;
    },
    held: async () => {
      const { rows } = await pool.query('SELECT area, free FROM plain_areas WHERE free < $1', [hotSeats]);
      return rows.flatMap(({ area, free }: { area: number; free: number }) =>
        Array.from({ length: hotSeats - free }, (_, index) => area * hotSeats + free + index),
      );
    },
    close: async () => {
      await pool.query('DROP TABLE plain_areas');
    },
  };
}
