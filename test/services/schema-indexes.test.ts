import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testDatabase } from '../support/postgres.ts';

/** Tables with so few rows that reading all of them costs nothing. */
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

/** A crowd calls these. Their plans are made while tables are empty, and kept (the head of functions/orders.sql). */
const kept = [
  ...[
    'queue_join',
    'queue_redeem',
    'queue_redeem_all',
    'order_reserve',
    'order_reserve_with_code',
    'order_abandon',
  ],
  ...[
    'order_confirm',
    'order_close',
    'order_taken',
    'order_left',
    'money_begin',
    'money_opened',
    'money_authorised',
  ],
  ...[
    'money_refused',
    'money_park',
    'money_end',
    'money_voided',
    'money_captured',
    'money_stray',
    'refund_make',
  ],
  ...['refund_settle', 'reversals_record', 'entry_check_in'],
  ...['arbiter_hold', 'arbiter_hold_many', 'arbiter_extend', 'arbiter_release', 'arbiter_recover'],
  ...['arbiter_project', 'arbiter_sweep', 'arbiter_refusal'],
];

test('functions that a crowd asks for keep plans that read no table from its first row to its last, also after they were replaced', async (t) => {
  const database = await testDatabase(t);
  const found = await database.query<{ name: string; settings: string[] | null }>(
    `SELECT proname AS name, proconfig AS settings FROM pg_proc
     WHERE pronamespace = 'public'::regnamespace AND proname = ANY ($1)`,
    [kept],
  );
  const without = found.filter(({ settings }) => !settings?.includes('enable_seqscan=off'));
  assert.deepEqual(
    without.map(({ name }) => name),
    [],
  );
  assert.equal(new Set(found.map(({ name }) => name)).size, kept.length);
});
