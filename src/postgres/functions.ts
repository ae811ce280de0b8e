import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type pg from 'pg';
import { packageVersion, projectDir } from '../runtime/project-dir.ts';

const functionsDir = join(projectDir, 'functions');

/** Whether functions/ (SQL functions, triggers and views) had to be applied. */
export type FunctionsOutcome =
  /** The database has this program's set already. */
  | { kind: 'current' }
  /** The set was applied as a whole. */
  | { kind: 'applied' }
  /** A newer program has applied another set, which stays. */
  | { kind: 'newer'; databaseProgram: string; program: string };

interface FunctionSet {
  files: { name: string; sql: string }[];
  /** SHA-256 of all names and contents. */
  hash: string;
}

/** The set that the database has, and the version of the newest program that had the same set. */
interface AppliedSet {
  hash: string;
  program: string;
}

/**
 * Applies functions/ in one transaction if its hash differs from the recorded one. A program that is older than the recorded
 * one leaves the functions alone, because an old process may restart during a rolling update. The caller holds the migration
 * lock.
 */
export async function applyFunctions(
  client: pg.ClientBase,
  program = packageVersion(),
): Promise<FunctionsOutcome> {
  await client.query(`CREATE TABLE IF NOT EXISTS schema_functions (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row), hash text NOT NULL, program text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now())`);
  const set = await readFunctions();
  const before = await readApplied(client);
  if (before && before.hash !== set.hash && isNewer(before.program, program))
    return { kind: 'newer', databaseProgram: before.program, program };
  if (before?.hash === set.hash) {
    if (isNewer(program, before.program))
      await client.query('UPDATE schema_functions SET program = $1', [program]);
    return { kind: 'current' };
  }
  await replaceAll(client, set, program);
  return { kind: 'applied' };
}

/** Compares the database with this program without a change; `missing` means that `onsale migrate` would apply the set. */
export async function inspectFunctions(
  client: pg.ClientBase,
  program = packageVersion(),
): Promise<Exclude<FunctionsOutcome, { kind: 'applied' }> | { kind: 'missing' }> {
  const { hash } = await readFunctions();
  const { rows } = await client.query("SELECT to_regclass('schema_functions') AS record");
  const before = rows[0].record && (await readApplied(client));
  if (!before) return { kind: 'missing' };
  if (before.hash === hash) return { kind: 'current' };
  return isNewer(before.program, program)
    ? { kind: 'newer', databaseProgram: before.program, program }
    : { kind: 'missing' };
}

/** For people, when an older program meets the functions of a newer one. */
export function newerFunctionsText(databaseProgram: string, program: string): string {
  return `The database has the functions of version ${databaseProgram}. This program is version ${program} and leaves them as they are.`;
}

/** Waits for a table this long before it gives way to the sale and starts again. Less than Postgres' deadlock_timeout (1 s). */
const lockTimeoutMs = 500;
const attemptsMax = 60;

/**
 * Triggers and views lock their tables until the commit, and steps of a sale lock the same tables in another order. So this
 * transaction never waits long enough for a deadlock to be resolved at the expense of a sale.
 */
async function replaceAll(client: pg.ClientBase, set: FunctionSet, program: string): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await inTransaction(client, async () => {
        await client.query(`SET LOCAL lock_timeout = ${lockTimeoutMs}`);
        // Functions call each other across files. test/services/migrate.test.ts checks the bodies.
        await client.query('SET LOCAL check_function_bodies = off');
        for (const file of set.files) await applyFile(client, file);
        await client.query(
          `INSERT INTO schema_functions (hash, program) VALUES ($1, $2)
           ON CONFLICT (only_row) DO UPDATE SET hash = excluded.hash, program = excluded.program, applied_at = now()`,
          [set.hash, program],
        );
      });
    } catch (error) {
      if (!isLockFault(error) || attempt >= attemptsMax) throw error;
      await client.query('SELECT pg_sleep(0.2)');
    }
  }
}

async function applyFile(client: pg.ClientBase, { name, sql }: { name: string; sql: string }): Promise<void> {
  try {
    await client.query(sql);
  } catch (error) {
    if (isLockFault(error)) throw error;
    throw new Error(`functions/${name} failed: ${(error as Error).message}`, { cause: error });
  }
}

/** lock_not_available, deadlock_detected. */
const isLockFault = (error: unknown): boolean =>
  ['55P03', '40P01'].includes((error as { code?: string }).code ?? '');

export async function inTransaction(client: pg.ClientBase, run: () => Promise<void>): Promise<void> {
  await client.query('BEGIN');
  try {
    await run();
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  }
}

async function readApplied(client: pg.ClientBase): Promise<AppliedSet | undefined> {
  const { rows } = await client.query<AppliedSet>('SELECT hash, program FROM schema_functions');
  return rows[0];
}

async function readFunctions(): Promise<FunctionSet> {
  const names = (await readdir(functionsDir)).filter((name) => name.endsWith('.sql')).sort();
  const files = await Promise.all(
    names.map(async (name) => ({ name, sql: await readFile(join(functionsDir, name), 'utf8') })),
  );
  const hash = createHash('sha256');
  for (const { name, sql } of files) hash.update(`${name}\0${sql}\0`);
  return { files, hash: hash.digest('hex') };
}

/** Whether version `a` is newer than `b`: by major, minor and patch number, and a release is newer than its pre-releases. */
function isNewer(a: string, b: string): boolean {
  const parts = (version: string): number[] => {
    const [release = '', preRelease] = version.split('-', 2);
    const numbers = release.split('.').map(Number);
    return [...numbers, preRelease === undefined ? 1 : 0];
  };
  const [left, right] = [parts(a), parts(b)];
  const at = left.findIndex((part, index) => part !== right[index]);
  return at >= 0 && left[at]! > (right[at] ?? 0);
}
