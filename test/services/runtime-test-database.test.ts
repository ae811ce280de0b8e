import assert from 'node:assert/strict';
import test from 'node:test';
import { testDatabase } from '../support/postgres.ts';

test('each test database is empty of the other and real concurrency works in it', async (t) => {
  const [a, b] = await Promise.all([
    testDatabase(t, { migrate: false }),
    testDatabase(t, { migrate: false }),
  ]);
  await a.query('CREATE TABLE only_in_a (n int)');
  assert.equal((await b.query(`SELECT to_regclass('only_in_a') AS found`))[0].found, null);
  const pool = a.pool(5);
  const pids = await Promise.all(
    Array.from({ length: 5 }, () => pool.query('SELECT pg_backend_pid() AS pid, pg_sleep(0.05)')),
  );
  assert.equal(new Set(pids.map(({ rows }) => rows[0].pid)).size, 5);
});

test('a dropped test database is gone', async () => {
  const database = await testDatabase(undefined, { migrate: false });
  const other = await testDatabase(undefined, { migrate: false });
  await database.query('SELECT 1');
  await database.drop();
  const left = await other.query('SELECT 1 FROM pg_database WHERE datname = $1', [database.name]);
  assert.equal(left.length, 0);
});
