import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startHealthReports } from '../../src/app/health.ts';
import { examineBackground } from '../../src/cli/doctor-background.ts';
import { degradedParts, reportProcess } from '../../src/health/background-work.ts';
import { createDb } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import type { LoopHealth } from '../../src/runtime/loops.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { createShutdown } from '../../src/runtime/shutdown.ts';
import { startTestApp, type TestApp, testScope, until } from '../support/app.ts';
import { testLoops } from '../support/loops.ts';
import { onsale } from '../support/onsale.ts';
import { testDatabase } from '../support/postgres.ts';

describe('an installation whose worker does not run', () => {
  const scope = testScope();
  let app: TestApp;
  const organiser = () => signedIn(app);
  before(async () => {
    app = await startTestApp(scope, { roles: ['web', 'controller'] });
  });
  after(() => scope.close());

  const reasonOf = async (): Promise<string> => {
    const answer = await fetch(`${app.url}/readyz`);
    assert.equal(answer.status, 200, 'degraded is not unready');
    const { parts } = (await answer.json()) as { parts: Record<string, { ok: boolean; reason?: string }> };
    return parts.background!.reason ?? '';
  };

  test('/readyz, the console and the doctor name the missing role and what is overdue, with count and age', async () => {
    await app.database.query(
      `INSERT INTO provider_events (provider_event_id, type, object, due_at)
       SELECT 'evt_' || n, 'x', 'pi_' || n, now() - interval '3 minutes' FROM generate_series(1, 7) n`,
    );
    await app.database.query(
      `INSERT INTO job_outbox (task, payload, enqueued_at)
       SELECT 'note', '{}', now() - interval '1 hour' FROM generate_series(1, 2000)`,
    );
    await until(async () => (await reasonOf()).includes('overdue'), 'the overdue work');
    const reason = await reasonOf();
    assert.match(reason, /no process runs as worker/);
    assert.match(reason, /7 provider events overdue/);
    assert.match(reason, /1000 jobs on their way to the queue overdue/);

    const { degraded } = (await (await organiser()).get('/api/organiser/background')).body;
    const events = degraded.find(({ part }: { part: string }) => part === 'provider events');
    assert.deepEqual([events.code, events.count], ['overdue', 7]);
    const ageMs = Date.now() - Date.parse(events.since);
    assert.ok(ageMs > 170_000 && ageMs < 400_000, `${ageMs} ms old`);
    assert.equal((await app.buyer().get('/api/organiser/background')).status, 401);

    const examined = await onsale(['doctor', '--json'], app.env);
    const findings = JSON.parse(examined.out).findings.filter(
      ({ check }: { check: string }) => check === 'background',
    );
    const details = findings.map(
      ({ state, detail }: { state: string; detail: string }) => `${state}: ${detail}`,
    );
    assert.ok(details.includes('wrong: No process with the role worker reports.'), details.join('\n'));
    assert.ok(
      details.some((line: string) => line.startsWith('wrong: 7 provider events: due for longer than 60 s')),
    );
  });

  test('a process that stops in order leaves nothing behind', async () => {
    const reports = () => app.database.query('SELECT process, roles FROM process_health');
    assert.deepEqual(
      (await reports()).map(({ roles }) => roles),
      [['web', 'controller']],
    );
    await app.app.stop();
    assert.deepEqual(await reports(), []);
  });
});

async function signedIn(app: TestApp) {
  const organiser = app.buyer();
  const { email, password } = app.app.organiser;
  assert.equal((await organiser.post('/api/organiser/sessions', { email, password })).status, 200);
  return organiser;
}

test('a loop that fails, a process that is silent and a clock that is off are each a line', async (t) => {
  const database = await testDatabase(t);
  const db = createDb({ url: database.url, poolSize: 3, clock: systemClock, log: silentLogger });
  t.after(() => db.close());
  const codes = async () => (await degradedParts(db)).map(({ code }) => code);
  const roles = ['web', 'controller', 'worker'];
  const health = (since: number, state: LoopHealth['state'] = 'failing'): LoopHealth[] => [
    { name: 'send webhooks', state, since, lastSuccessAt: null, failures: 3, error: 'as meant' },
  ];
  const now = Date.now();
  await reportProcess(db, { process: 'one', roles, upMs: 60_000, health: health(now - 2_000) }, now);
  assert.deepEqual(await codes(), [], 'a fault of two seconds is not worth a line');
  await reportProcess(db, { process: 'one', roles, upMs: 60_000, health: health(now - 30_000, 'hung') }, now);
  const [hung] = await degradedParts(db);
  assert.match(hung!.detail, /"send webhooks" has been hung for 30 s \(process one\): as meant/);

  await database.query(`UPDATE process_health SET reported_at = now() - interval '1 minute'`);
  assert.deepEqual(await codes(), ['process_silent', 'role_missing', 'role_missing']);
  await database.query(`UPDATE process_health SET reported_at = now() - interval '1 hour'`);

  const fast = { ...systemClock, now: () => Date.now() + 2 * 3_600_000 };
  const loops = testLoops();
  t.after(() => loops.stop());
  const shutdown = createShutdown({ clock: systemClock, log: silentLogger });
  startHealthReports({ db, process: 'two', roles, loops, clock: fast, shutdown });
  await until(async () => (await codes()).includes('clock'), 'the second report');
  const [off] = await degradedParts(db);
  assert.match(off!.detail, /The clock of process two is 2 h ahead of Postgres\./);
  assert.equal(
    (await database.query('SELECT FROM process_health')).length,
    1,
    'one that ended long ago is forgotten',
  );
  await loops.stop();
  await shutdown.stop('the test');
  assert.deepEqual(await codes(), []);
});

test('counting overdue work stays cheap with tens of thousands of rows', async (t) => {
  const database = await testDatabase(t);
  await database.query(
    `INSERT INTO provider_events (provider_event_id, type, object, due_at, processed_at)
     SELECT 'evt_' || n, 'x', 'pi_' || n, CASE WHEN n % 2 = 0 THEN now() - n * interval '1 s' END,
            CASE WHEN n % 2 = 1 THEN now() END FROM generate_series(1, 30000) n`,
  );
  await database.query(
    `INSERT INTO job_outbox (task, payload) SELECT 'note', '{}' FROM generate_series(1, 30000)`,
  );
  await database.query('ANALYZE provider_events, job_outbox');
  const db = createDb({ url: database.url, poolSize: 2, clock: systemClock, log: silentLogger });
  t.after(() => db.close());
  const read = async (): Promise<number> => {
    const [row] = await database.query<{ rows: number }>(
      `SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::integer AS rows FROM pg_stat_user_tables
       WHERE relname IN ('provider_events', 'job_outbox')`,
    );
    return row!.rows;
  };
  await database.query('SELECT pg_stat_clear_snapshot()');
  const before = await read();
  const found = await degradedParts(db);
  assert.ok(found.some(({ part, count }) => part === 'provider events' && count === 1_000));
  await until(async () => (await read()) > before, 'the statistics');
  const rows = (await read()) - before;
  assert.ok(rows <= 5_000, `${rows} rows read`);
});

test('more processes than Postgres has connections for are noted by the doctor', async (t) => {
  const database = await testDatabase(t);
  const runtime = { clock: systemClock, random: systemRandom, log: silentLogger };
  const found = async (count: number) => {
    await database.query(
      `INSERT INTO process_health (process, roles, started_at, reported_at, parts)
       SELECT 'process ' || n, '{web,controller,worker}', now(), clock_timestamp(), '[]' FROM generate_series(1, $1) n
       ON CONFLICT (process) DO UPDATE SET reported_at = clock_timestamp()`,
      [count],
    );
    return (await examineBackground(database.url, runtime)).find(({ check }) => check === 'connections');
  };
  const [few, many] = [await found(1), await found(50)];
  assert.equal(few?.state, 'ok', few?.detail);
  assert.equal(many?.state, 'note', many?.detail);
  assert.match(many.remedy ?? '', /max_connections of Postgres to \d+/);
});
