import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Logger, runMigrations } from 'graphile-worker';
import pg from 'pg';
import { projectDir } from '../runtime/project-dir.ts';

const migrationsDir = join(projectDir, 'migrations');
/** Any fixed number: two processes that migrate at once take turns. */
const migrationLock = 7_346_502;

export type MigrateOutcome =
  | { kind: 'migrated'; applied: string[]; version: number }
  /** The database is newer than this program: nothing was changed. */
  | { kind: 'newer'; databaseVersion: number; programVersion: number }
  /** A file that ran before has other contents now. */
  | { kind: 'changed'; file: string };

interface Migration {
  version: number;
  file: string;
  sql: string;
  hash: string;
}

/**
 * Brings the database at `url` to this program's schema, the job queue's (graphile_worker) first. Forward only; each file in
 * a transaction of its own.
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
    const { rows } = await client.query<{ version: number; file: string; hash: string }>(
      'SELECT version, file, hash FROM schema_migrations ORDER BY version',
    );
    const programVersion = migrations.at(-1)?.version ?? 0;
    const databaseVersion = rows.at(-1)?.version ?? 0;
    if (databaseVersion > programVersion) return { kind: 'newer', databaseVersion, programVersion };
    const ran = new Map(rows.map((row) => [row.version, row]));
    // The job queue's own, known by its own ledger: ours call its functions.
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
    return { kind: 'migrated', applied, version: programVersion };
  } finally {
    await client.end();
  }
}

async function apply(client: pg.Client, migration: Migration): Promise<void> {
  await client.query('BEGIN');
  try {
    // The ledger row first: two programs that race here meet at its primary key.
    await client.query('INSERT INTO schema_migrations (version, file, hash) VALUES ($1, $2, $3)', [
      migration.version,
      migration.file,
      migration.hash,
    ]);
    await client.query(migration.sql);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    throw new Error(`migration ${migration.file} failed: ${(error as Error).message}`, { cause: error });
  }
}

/** Nothing to tell: what fails throws. */
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
