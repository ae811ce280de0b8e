import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import pg from 'pg';
import { applyFunctions, inspectFunctions } from '../../src/postgres/functions.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import { projectDir } from '../../src/runtime/project-dir.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';

const lastHash = 'ca63e92768743a1c724aaaa40ecaf7229351fcc04a1522cba8cd2266784957d3';
/** Ended by the server when the test's database is dropped. */
async function connectTo(database: TestDatabase): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url });
  client.on('error', () => {});
  await client.connect();
  return client;
}
const bodyOf = async (database: TestDatabase, name: string): Promise<string> =>
  (await database.query('SELECT prosrc FROM pg_proc WHERE proname = $1', [name]))[0].prosrc;
const changeFunction = (database: TestDatabase): Promise<unknown> =>
  database.query(
    `CREATE OR REPLACE FUNCTION arbiter_now() RETURNS timestamptz LANGUAGE sql AS 'SELECT now()'`,
  );

test('three processes that start at once on an empty database get one schema and one set of functions', async (t) => {
  const database = await testDatabase(t, { migrate: false });
  const outcomes = await Promise.all([1, 2, 3].map(() => migrate(database.url)));
  const kinds = outcomes.map((outcome) => outcome.kind === 'migrated' && outcome.functions.kind);
  assert.deepEqual(kinds.sort(), ['applied', 'current', 'current']);
  const files = fs.readdirSync(path.join(projectDir, 'migrations')).filter((name) => /^\d{4}_/.test(name));
  assert.deepEqual(
    (await database.query('SELECT file FROM schema_migrations ORDER BY version')).map(({ file }) => file),
    files.sort(),
  );
});

test('every body in functions/ is valid', async (t) => {
  const database = await testDatabase(t);
  const folder = path.join(projectDir, 'functions');
  // When they are applied, bodies are not checked, because they call functions of files that come later.
  for (const name of fs.readdirSync(folder))
    await assert.doesNotReject(database.query(fs.readFileSync(path.join(folder, name), 'utf8')), name);
});

test('functions are applied again when they changed, but an older program leaves those of a newer one', async (t) => {
  const database = await testDatabase(t);
  const client = await connectTo(database);
  const ours = await bodyOf(database, 'arbiter_now');
  await changeFunction(database);
  assert.deepEqual(await applyFunctions(client), { kind: 'current' }, 'the set is the recorded one');

  await database.query(`UPDATE schema_functions SET hash = 'newer', program = '1.2.0'`);
  const newer = { kind: 'newer', databaseProgram: '1.2.0' };
  for (const program of ['1.1.9', '1.2.0-rc.1', '0.10.0']) {
    assert.deepEqual(await inspectFunctions(client, program), { ...newer, program });
    assert.deepEqual(await applyFunctions(client, program), { ...newer, program });
  }
  assert.notEqual(await bodyOf(database, 'arbiter_now'), ours);

  assert.deepEqual(await inspectFunctions(client, '1.10.0'), { kind: 'missing' });
  assert.deepEqual(await applyFunctions(client, '1.10.0'), { kind: 'applied' });
  assert.equal(await bodyOf(database, 'arbiter_now'), ours);
  assert.deepEqual(await inspectFunctions(client, '1.10.0'), { kind: 'current' });
  // A release with the same functions keeps its version on record against the releases before it.
  assert.deepEqual(await applyFunctions(client, '1.11.0'), { kind: 'current' });
  assert.deepEqual(await database.query('SELECT program FROM schema_functions'), [{ program: '1.11.0' }]);
});

test('a step of a sale that meets the functions being applied goes on, whatever it has locked', async (t) => {
  const database = await testDatabase(t);
  await database.query(`UPDATE schema_functions SET hash = 'before'`);
  const [sale, client] = [await connectTo(database), await connectTo(database)];
  // Triggers of orders are replaced before those of admissions: the other order is a deadlock, unless applying gives way. The
  // wait is longer than deadlock_timeout, after which Postgres would end the sale's transaction.
  await sale.query('BEGIN; UPDATE admissions SET rate = rate; LOCK TABLE admissions IN ROW EXCLUSIVE MODE');
  const applied = applyFunctions(client);
  await sale.query('SELECT pg_sleep(1.3)');
  await sale.query('UPDATE orders SET state = state');
  await sale.query('COMMIT');
  assert.deepEqual(await applied, { kind: 'applied' });
});

async function standAt(database: TestDatabase, version: number): Promise<void> {
  await database.query('DELETE FROM schema_migrations');
  await database.query(
    `INSERT INTO schema_migrations (version, file, hash) VALUES (1, '0001_tables.sql', ''), ($1, 'last.sql', $2)`,
    [version, lastHash],
  );
  await database.query('DROP TABLE schema_functions');
  await database.query(`DROP INDEX tickets_one_owner;
    CREATE UNIQUE INDEX tickets_one_owner ON tickets ((CASE WHEN status <> 'cancelled' THEN seat_no END), event_no)`);
}

test('a database at the last development migration is carried over, with the index of S1', async (t) => {
  const database = await testDatabase(t);
  const indexOf = async (): Promise<string> =>
    (await database.query(`SELECT indexdef FROM pg_indexes WHERE indexname = 'tickets_one_owner'`))[0]
      .indexdef;
  const [index, ledger] = [
    await indexOf(),
    await database.query('SELECT version, file, hash FROM schema_migrations'),
  ];
  await standAt(database, 31);
  await changeFunction(database);
  const outcome = await migrate(database.url);
  assert.ok(outcome.kind === 'migrated' && outcome.functions.kind === 'applied', JSON.stringify(outcome));
  assert.equal(await indexOf(), index);
  assert.deepEqual(await database.query('SELECT version, file, hash FROM schema_migrations'), ledger);
});

test('a database at another development migration is refused and left as it is', async (t) => {
  const database = await testDatabase(t);
  await standAt(database, 30);
  assert.deepEqual(await migrate(database.url), { kind: 'too_old', databaseVersion: 30 });
  assert.equal((await database.query('SELECT FROM schema_migrations')).length, 2);
});
