import type { Db } from '../../src/postgres/db.ts';
import type { TestDatabase } from './postgres.ts';
import { pause } from './wait.ts';

/** Rows that statements read, by Postgres's own count. Times would depend on the machine. */

/** Turns off automatic ANALYZE, so that plans stay those of empty tables. */
export async function withoutStatistics(database: TestDatabase): Promise<void> {
  await database.query(`DO $$
    DECLARE r regclass;
    BEGIN
      FOR r IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', r);
      END LOOP;
    END $$`);
}

/** Makes the counts of each of the pool's sessions visible to other sessions. */
export async function flushStatistics(db: Db, poolSize: number): Promise<void> {
  await Promise.all(
    Array.from({ length: poolSize }, () =>
      db.query('test_flush', 'SELECT pg_stat_force_next_flush(), pg_sleep(0.1)', []),
    ),
  );
  await pause(50, 'Postgres does not say when the other sessions have reported their counts');
}

/**
 * Rows read so far, by table. Entries of dead row versions are not counted: how soon Postgres clears them away depends on what else
 * runs in the cluster. Without VACUUM no page is known to be visible to all, so that index-only scans are counted too.
 */
export async function rowsRead(database: TestDatabase): Promise<Map<string, number>> {
  const rows = await database.query<{ table: string; rows: number }>(
    `SELECT relname AS "table", (seq_tup_read + coalesce(idx_tup_fetch, 0))::float8 AS rows FROM pg_stat_user_tables`,
  );
  return new Map(rows.map(({ table, rows }) => [table, rows]));
}

export function between(before: Map<string, number>, after: Map<string, number>): Map<string, number> {
  return new Map([...after].map(([table, rows]) => [table, rows - (before.get(table) ?? 0)]));
}
