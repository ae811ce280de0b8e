import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testDatabase } from '../support/postgres.ts';

/** Of so few rows that reading all of them costs nothing. */
const small = new Set(['events', 'limit_allowances', 'confirmations', 'webhook_endpoints']);

test('rows that refer to another are found by an index, however many there are', async (t) => {
  const database = await testDatabase(t);
  const missing = await database.query<{ table: string; column: string }>(
    `SELECT c.conrelid::regclass::text AS "table", a.attname AS "column"
     FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
     WHERE c.contype = 'f' AND c.connamespace = 'public'::regnamespace AND NOT EXISTS (
       SELECT FROM pg_index i
       WHERE i.indrelid = c.conrelid AND i.indisvalid AND i.indkey[0] = c.conkey[1]
         -- An index of some of the rows is of no use to who looks for all of them.
         AND (i.indpred IS NULL OR pg_get_expr(i.indpred, i.indrelid) = format('(%I IS NOT NULL)', a.attname)))`,
  );
  assert.deepEqual(
    missing.filter(({ table }) => !small.has(table)),
    [],
  );
  assert.ok(missing.length > 0, 'the small ones are seen, so the question is a real one');
});
