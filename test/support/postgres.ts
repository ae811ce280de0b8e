import { createHash } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after } from 'node:test';
import pg from 'pg';
import { startPostgres } from '../../src/postgres/server.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { projectDir } from '../../src/runtime/project-dir.ts';
import { until } from './wait.ts';

/**
 * Real databases for tests, one an ask. With ONSALE_TEST_POSTGRES (postgres://user:password@host:port, made by
 * scripts/test.mjs for a whole run) they are made there; without it the test file gets a server of its own.
 */
export interface TestDatabase {
  url: string;
  name: string;
  /** A pool of `size` connections (10 by default), closed for you at the end. */
  pool(size?: number): pg.Pool;
  /** Runs one statement on a connection of its own small pool and returns its rows. */
  // biome-ignore lint/suspicious/noExplicitAny: rows of arbitrary test statements.
  query<Row extends object = any>(sql: string, values?: unknown[]): Promise<Row[]>;
  /** Closes the pools and drops the database; done by itself at the end of the test or of the file. */
  drop(): Promise<void>;
}

const open = new Set<TestDatabase>();
let server: Promise<{ url: string; stop(): Promise<void> }> | undefined;
let count = 0;

/** A test's context (`t`), or nothing: then the database lives until the file's end. */
export async function testDatabase(
  t?: { after(run: () => Promise<void>): void },
  options: { migrate?: boolean } = {},
): Promise<TestDatabase> {
  const admin = (await testServer()).url;
  const template = options.migrate === false ? 'template0' : await migratedTemplate(admin);
  count += 1;
  const name = `test_${process.pid}_${count}`;
  await retryWhileCopied(() => once(admin, `CREATE DATABASE ${name} TEMPLATE ${template}`));
  const database = connectTo(admin, name);
  // A copy is an installation of its own.
  if (options.migrate !== false) {
    await once(database.url, 'UPDATE installation SET id = left(gen_random_uuid()::text, 8)');
  }
  open.add(database);
  t?.after(() => database.drop());
  return database;
}

/** The server's address for its `postgres` database; starts the file's own server when there is no shared one. */
export async function testServer(): Promise<{ url: string }> {
  const shared = process.env.ONSALE_TEST_POSTGRES;
  if (shared) return { url: shared };
  server ??= startOwnServer();
  return await server;
}

// Once a file, when all its tests are done, also those that failed before they could clean up.
after(async () => {
  for (const database of open) await database.drop();
  await (await server)?.stop();
});

function connectTo(admin: string, name: string): TestDatabase {
  const url = withDatabase(admin, name);
  const pools: pg.Pool[] = [];
  const pool = (size = 10): pg.Pool => {
    const made = new pg.Pool({ connectionString: url, max: size });
    // A test that kills the server breaks idle connections: the next query says so, the process need not end.
    made.on('error', () => {});
    pools.push(made);
    return made;
  };
  let own: pg.Pool | undefined;
  let dropped: Promise<void> | undefined;
  const dropOnce = async (): Promise<void> => {
    open.delete(database);
    await Promise.all(pools.filter((made) => !made.ended).map((made) => made.end()));
    await once(admin, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
  };
  const database: TestDatabase = {
    url,
    name,
    pool,
    query: async (sql, values) => {
      own ??= pool(2);
      return (await own.query(sql, values)).rows;
    },
    drop: () => {
      dropped ??= dropOnce();
      return dropped;
    },
  };
  return database;
}

async function startOwnServer(): Promise<{ url: string; stop(): Promise<void> }> {
  const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-test-'));
  fs.chmodSync(dataDir, 0o711);
  const started = await startPostgres({
    dataDir,
    durable: false,
    binDir: process.env.ONSALE_TEST_POSTGRES_BIN || undefined,
    log: silentLogger,
    clock: systemClock,
  });
  return {
    url: started.url('postgres'),
    stop: async () => {
      await started.stop();
      fs.rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

/** Migrated once a server and state of the migrations; every test database is a copy of it. */
async function migratedTemplate(admin: string): Promise<string> {
  const name = `template_${migrationsHash()}`;
  const client = new pg.Client({ connectionString: admin });
  await client.connect();
  try {
    // Test files run side by side: the first makes it, the others wait.
    await client.query('SELECT pg_advisory_lock(20261129)');
    const found = await client.query('SELECT datistemplate FROM pg_database WHERE datname = $1', [name]);
    if (found.rows[0]?.datistemplate) return name;
    await client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    await client.query(`CREATE DATABASE ${name} TEMPLATE template0`);
    const { migrate } = await import('../../src/postgres/migrate.ts');
    const outcome = await migrate(withDatabase(admin, name));
    if (outcome.kind !== 'migrated')
      throw new Error(`the template was not migrated: ${JSON.stringify(outcome)}`);
    await client.query(`ALTER DATABASE ${name} WITH is_template true`);
    return name;
  } finally {
    await client.end();
  }
}

function migrationsHash(): string {
  const hash = createHash('sha256');
  for (const folder of ['migrations', 'functions'].map((name) => path.join(projectDir, name)))
    for (const file of fs.readdirSync(folder).sort())
      hash.update(file).update(fs.readFileSync(path.join(folder, file)));
  for (const file of ['migrate.ts', 'functions.ts'])
    hash.update(fs.readFileSync(path.join(projectDir, 'src/postgres', file)));
  return hash.digest('hex').slice(0, 16);
}

/** Copying needs the template to itself; a copy by another test file may be under way. */
async function retryWhileCopied(create: () => Promise<unknown>): Promise<void> {
  await until(async () => {
    try {
      await create();
      return true;
    } catch (error) {
      if ((error as { code?: string }).code !== '55006') throw error;
      return false;
    }
  }, 'the template to be free');
}

async function once(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

function withDatabase(url: string, name: string): string {
  const changed = new URL(url);
  changed.pathname = `/${name}`;
  return changed.href;
}
