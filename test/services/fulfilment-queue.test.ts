import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { createJobQueue, type Tasks, workerLeaseMs } from '../../src/fulfilment/job-queue.ts';
import { createDb } from '../../src/postgres/db.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { until } from '../support/app.ts';
import { testLoops } from '../support/loops.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { programArguments } from '../support/program.ts';

type Context = { after(run: () => Promise<void>): void };

const enqueue = (database: TestDatabase, names: string[]): Promise<unknown> =>
  database.query(
    `SELECT job_enqueue('note', jsonb_build_object('name', name), NULL) FROM unnest($1::text[]) name`,
    [names],
  );
const named = (count: number): string[] => Array.from({ length: count }, (_, i) => `job ${i}`);
const jobs = async (database: TestDatabase): Promise<{ locked: number; all: number }> => {
  const [row] = await database.query<{ locked: number; all: number }>(
    `SELECT count(locked_by)::integer AS locked, count(*)::integer AS "all" FROM graphile_worker.jobs`,
  );
  return row!;
};

function workerProcess(t: Context, database: TestDatabase, ms: number): ChildProcess {
  const args = [
    ...programArguments('test/support/queue-worker.ts'),
    JSON.stringify({ url: database.url, ms }),
  ];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'inherit', 'inherit'] });
  t.after(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  return child;
}

function worker(t: Context, database: TestDatabase, tasks: Tasks) {
  const db = createDb({ url: database.url, poolSize: 3, clock: systemClock, log: silentLogger });
  const parts = { databaseUrl: database.url, db, tasks, clock: systemClock, log: silentLogger };
  const queue = createJobQueue(parts);
  t.after(async () => {
    await queue.stop();
    await db.close();
  });
  queue.start(testLoops());
  return queue;
}

test('D4: a worker killed with its local queue full loses no job: another does them within 30 s', async (t) => {
  const database = await testDatabase(t);
  await database.query('CREATE TABLE noted (name text, pid integer)');
  const names = named(80);
  await enqueue(database, names);
  const first = workerProcess(t, database, 400);
  await until(async () => {
    const { locked, all } = await jobs(database);
    return locked >= 20 && all < names.length;
  }, 'some jobs done and many fetched');
  first.kill('SIGKILL');
  await once(first, 'exit');
  const { locked } = await jobs(database);
  assert.ok(locked >= 16, `${locked} jobs were locked by the dead worker`);

  const second = workerProcess(t, database, 5);
  await until(async () => (await jobs(database)).all === 0, 'all jobs done');
  assert.ok(2 * workerLeaseMs <= 30_000, 'a dead worker’s jobs are free one lease after its own ran out');
  const done = await database.query<{ name: string; times: number }>(
    'SELECT name, count(*)::integer AS times FROM noted GROUP BY name',
  );
  assert.deepEqual(new Set(done.map(({ name }) => name)), new Set(names));
  const repeated = done.filter(({ times }) => times > 1);
  assert.ok(repeated.length <= 4, `${repeated.length} jobs twice: at most those that ran when it was killed`);
  second.kill('SIGTERM');
  const [code] = await once(second, 'exit');
  assert.equal(code, 0, 'a worker that is asked to ends by itself');
  assert.deepEqual(await database.query('SELECT * FROM job_workers WHERE until > now()'), []);
});

test('a job is enqueued with its transaction, and not without it', async (t) => {
  const database = await testDatabase(t);
  const client = await database.pool(1).connect();
  await client.query('BEGIN');
  await client.query(`SELECT job_enqueue('note', '{"name": "undone"}', NULL)`);
  await client.query('ROLLBACK');
  await client.query(`SELECT job_enqueue('note', '{"name": "kept"}', NULL)`);
  client.release();
  const seen: string[] = [];
  worker(t, database, {
    note: async (payload) => {
      seen.push((payload as { name: string }).name);
    },
  });
  await until(async () => seen.length > 0 && (await jobs(database)).all === 0, 'the job');
  assert.deepEqual(seen, ['kept']);
});

test('jobs with one key wait as one, the latest; two that forward at once move each job once', async (t) => {
  const database = await testDatabase(t);
  for (const name of ['old', 'new']) {
    await database.query(`SELECT job_enqueue('note', jsonb_build_object('name', $1::text), 'one key')`, [
      name,
    ]);
  }
  await enqueue(database, named(300));
  const moved = await Promise.all(
    Array.from({ length: 8 }, () => database.query('SELECT job_forward(50) AS moved')),
  );
  assert.equal(
    moved.reduce((sum, [row]) => sum + row.moved, 0),
    302,
  );
  assert.equal((await jobs(database)).all, 301);
  const keyed = await database.query(
    `SELECT payload ->> 'name' AS name FROM graphile_worker._private_jobs WHERE key = 'one key'`,
  );
  assert.deepEqual(keyed, [{ name: 'new' }]);
});

test('a worker that stops gives back what it only fetched, and ends after what it runs', async (t) => {
  const database = await testDatabase(t);
  await enqueue(database, named(60));
  let begun = 0;
  let ended = 0;
  let letGo: () => void = () => {};
  const gate = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const queue = worker(t, database, {
    note: async () => {
      begun += 1;
      await gate;
      ended += 1;
    },
  });
  await until(async () => begun === 4 && (await jobs(database)).locked > 4, 'a full local queue');
  const stopped = queue.stop();
  await until(async () => (await jobs(database)).locked === 4, 'the fetched ones given back');
  letGo();
  await stopped;
  assert.deepEqual([begun, ended], [4, 4]);
  assert.deepEqual(await jobs(database), { locked: 0, all: 56 });
  assert.deepEqual(await database.query('SELECT * FROM job_workers'), []);
});

test('a job that fails is tried again later, and keeps what it said', async (t) => {
  const database = await testDatabase(t);
  let tries = 0;
  worker(t, database, {
    note: async () => {
      tries += 1;
      if (tries === 1) throw new Error('not this time');
    },
  });
  await enqueue(database, ['once more']);
  await until(async () => tries === 1 && (await jobs(database)).locked === 0, 'the first try');
  const [failed] = await database.query(
    `SELECT last_error, attempts, run_at > now() AS later FROM graphile_worker.jobs`,
  );
  assert.deepEqual(failed, { last_error: 'not this time', attempts: 1, later: true });
  await until(async () => (await jobs(database)).all === 0, 'the second try');
  assert.equal(tries, 2);
});

test('migrating again changes nothing, even while a worker runs', async (t) => {
  const database = await testDatabase(t);
  worker(t, database, { note: async () => {} });
  const outcome = await migrate(database.url);
  assert.deepEqual(outcome.kind === 'migrated' && outcome.applied, []);
});
