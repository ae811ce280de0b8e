// Writes migrations/schema.sql: the tables, types, sequences, indexes and constraints that all migrations together make, as Debian's
// Postgres 15 dumps them. Functions, triggers and views have their one home in functions/. With --check it only compares.
// node --import tsx scripts/dump-schema.ts [--check]
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { migrate } from '../src/postgres/migrate.ts';
import { startPostgres } from '../src/postgres/server.ts';
import { systemClock } from '../src/runtime/clock.ts';
import { silentLogger } from '../src/runtime/log.ts';

const binDir = process.env.ONSALE_TEST_POSTGRES_BIN || '/usr/lib/postgresql/15/bin';
const file = path.resolve(import.meta.dirname, '../migrations/schema.sql');
const isCheck = process.argv.includes('--check');

async function dump(): Promise<string> {
  const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-schema-'));
  fs.chmodSync(dataDir, 0o755);
  const server = await startPostgres({
    dataDir,
    binDir,
    durable: false,
    log: silentLogger,
    clock: systemClock,
  });
  try {
    await server.ensureDatabase('onsale');
    const url = server.url('onsale');
    await migrate(url);
    const { stdout } = await promisify(execFile)(
      path.join(binDir, 'pg_dump'),
      // The job queue's schema is its package's.
      ['--schema-only', '--no-owner', '--no-privileges', '--exclude-schema=graphile_worker', url],
      { maxBuffer: 16 * 1024 * 1024 },
    );
    return tidy(stdout);
  } finally {
    await server.stop();
    fs.rmSync(dataDir, { recursive: true, force: true });
  }
}

const inFunctions = new Set(['FUNCTION', 'TRIGGER', 'VIEW']);

/** Removes what is in functions/, and lines that differ from one minor release or one run to the next. */
function tidy(sql: string): string {
  const entries = sql.split(/^(?=--\n-- Name: )/m);
  const lines = entries
    .filter((entry) => !inFunctions.has(/^--\n-- Name: .*; Type: ([^;]+);/.exec(entry)?.[1] ?? ''))
    .join('')
    .split('\n')
    .filter((line) => !/^-- Dumped|^\\(un)?restrict /.test(line))
    .join('\n');
  return `${lines.replace(/\n{3,}/g, '\n\n').trim()}\n`;
}

const now = await dump();
if (!isCheck) fs.writeFileSync(file, now);
else if (!fs.existsSync(file) || fs.readFileSync(file, 'utf8') !== now) {
  process.stderr.write(
    'migrations/schema.sql does not match the migrations. Run: node --import tsx scripts/dump-schema.ts\n',
  );
  process.exitCode = 1;
}
