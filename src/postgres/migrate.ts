import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Logger, runMigrations } from 'graphile-worker';
import pg from 'pg';
import { projectDir } from '../runtime/project-dir.ts';
import { applyFunctions, type FunctionsOutcome, inTransaction } from './functions.ts';

const migrationsDir = join(projectDir, 'migrations');
/** Any fixed number: two processes that migrate at once take turns. */
const migrationLock = 7_346_502;

export type MigrateOutcome =
  | { kind: 'migrated'; applied: string[]; version: number; functions: FunctionsOutcome }
  /** The database is newer than this program: nothing was changed. */
  | { kind: 'newer'; databaseVersion: number; programVersion: number }
  /** A file that ran before has other contents now. */
  | { kind: 'changed'; file: string }
  /** The database is from before migrations began at 0001_schema.sql, and is not at the one version that is carried over. */
  | { kind: 'too_old'; databaseVersion: number };

interface Migration {
  version: number;
  file: string;
  sql: string;
  hash: string;
}

interface LedgerRow {
  version: number;
  file: string;
  hash: string;
}

/**
 * Brings the database at `url` to this program's schema: first the job queue's (graphile_worker), then the numbered files that
 * have not run, each in its own transaction, then the functions. Numbered files only move forward.
 */
export async function migrate(
  url: string,
  onProgress: (file: string) => void = () => {},
): Promise<MigrateOutcome> {
  const migrations = await readMigrations();
  const client = new pg.Client({ connectionString: url, application_name: 'onsale migrate' });
  await client.connect();
  try {
    await client.query('SELECT pg_advisory_lock($1)', [migrationLock]);
    await client.query(`CREATE TABLE IF NOT EXISTS schema_migrations (
      version integer PRIMARY KEY, file text NOT NULL, hash text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`);
    const ledger = await readLedger(client);
    if (isFromBeforeSchema(ledger)) {
      if (!isLastBeforeSchema(ledger)) return { kind: 'too_old', databaseVersion: ledger.at(-1)!.version };
      await carryOver(client, migrations[0]!);
    }
    const ran = new Map((await readLedger(client)).map((row) => [row.version, row]));
    const programVersion = migrations.at(-1)?.version ?? 0;
    const databaseVersion = Math.max(0, ...ran.keys());
    if (databaseVersion > programVersion) return { kind: 'newer', databaseVersion, programVersion };
    // The job queue keeps its own ledger. It comes first because our functions call its functions.
    await migrateJobQueue(url);
    const applied: string[] = [];
    for (const migration of migrations) {
      const before = ran.get(migration.version);
      if (before && before.hash !== migration.hash) return { kind: 'changed', file: migration.file };
      if (before) continue;
      onProgress(migration.file);
      await apply(client, migration);
      applied.push(migration.file);
    }
    return { kind: 'migrated', applied, version: programVersion, functions: await applyFunctions(client) };
  } finally {
    await client.end();
  }
}

/** The highest version among the numbered files. */
export async function knownVersion(): Promise<number> {
  return (await readMigrations()).at(-1)?.version ?? 0;
}

async function apply(client: pg.Client, migration: Migration): Promise<void> {
  try {
    await inTransaction(client, async () => {
      // The ledger row first: two programs that race here meet at its primary key.
      await record(client, migration);
      await client.query(migration.sql);
    });
  } catch (error) {
    throw new Error(`migration ${migration.file} failed: ${(error as Error).message}`, { cause: error });
  }
}

async function record(client: pg.Client, { version, file, hash }: Migration): Promise<void> {
  await client.query('INSERT INTO schema_migrations (version, file, hash) VALUES ($1, $2, $3)', [
    version,
    file,
    hash,
  ]);
}

async function readLedger(client: pg.Client): Promise<LedgerRow[]> {
  const { rows } = await client.query<LedgerRow>(
    'SELECT version, file, hash FROM schema_migrations ORDER BY version',
  );
  return rows;
}

/** The last of the development migrations that 0001_schema.sql replaces. Its tables are those of 0001, but for one index. */
const lastBeforeSchema = {
  version: 31,
  hash: 'ca63e92768743a1c724aaaa40ecaf7229351fcc04a1522cba8cd2266784957d3',
};

const isFromBeforeSchema = (ledger: LedgerRow[]): boolean => ledger[0]?.file === '0001_tables.sql';
const isLastBeforeSchema = (ledger: LedgerRow[]): boolean =>
  ledger.at(-1)!.version === lastBeforeSchema.version && ledger.at(-1)!.hash === lastBeforeSchema.hash;

async function carryOver(client: pg.Client, schema: Migration): Promise<void> {
  await inTransaction(client, async () => {
    await client.query('DELETE FROM schema_migrations');
    await record(client, schema);
    // The last two columns were added to a migration that some databases had run already.
    await client.query(`ALTER TABLE money_operations
        ADD COLUMN IF NOT EXISTS check_at timestamptz, ADD COLUMN IF NOT EXISTS checks smallint NOT NULL DEFAULT 0;
      CREATE INDEX IF NOT EXISTS money_operations_check ON money_operations (check_at) WHERE check_at IS NOT NULL;
      DROP INDEX tickets_one_owner;
      CREATE UNIQUE INDEX tickets_one_owner ON tickets (seat_no, event_no) WHERE (status IN ('reserved','sold')) IS TRUE`);
  });
}

/** Logs nothing: failures throw. */
const quiet = new Logger(() => () => {});

async function migrateJobQueue(url: string): Promise<void> {
  const pool = new pg.Pool({ connectionString: url, max: 1, application_name: 'onsale migrate' });
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', () => {}));
  try {
    await runMigrations({ pgPool: pool, logger: quiet });
  } finally {
    await pool.end();
  }
}

async function readMigrations(): Promise<Migration[]> {
  const files = (await readdir(migrationsDir)).filter((name) => /^\d{4}_.+\.sql$/.test(name)).sort();
  return Promise.all(
    files.map(async (file) => {
      const sql = await readFile(join(migrationsDir, file), 'utf8');
      return {
        version: Number(file.slice(0, 4)),
        file,
        sql,
        hash: createHash('sha256').update(sql).digest('hex'),
      };
    }),
  );
}
