import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { createDb } from '../../src/sales/db.ts';
import { readPath, reportPath } from '../../src/sales/path-signals.ts';
import { startTestApp, until } from '../support/app.ts';
import { testDatabase } from '../support/postgres.ts';

test('the leader reads the slowest process and the errors of all; too few and stale windows say nothing', async (t) => {
  const database = await testDatabase(t);
  const db = createDb({ url: database.url, poolSize: 2, clock: systemClock, log: silentLogger });
  t.after(() => db.close());
  assert.equal(await readPath(db), null);
  await reportPath(db, 'one', { requests: 10, latencyP95Ms: 50, errorShare: 0 });
  assert.equal(await readPath(db), null, 'ten requests are chance');
  await reportPath(db, 'two', { requests: 30, latencyP95Ms: 900, errorShare: 0.4 });
  assert.deepEqual(await readPath(db), { requests: 40, latencyP95Ms: 900, errorShare: 0.3 });
  // The same process again replaces its window.
  await reportPath(db, 'two', { requests: 30, latencyP95Ms: 70, errorShare: 0 });
  assert.deepEqual(await readPath(db), { requests: 40, latencyP95Ms: 70, errorShare: 0 });
  await database.query(`UPDATE path_signals SET measured_at = measured_at - interval '6 seconds'`);
  assert.equal(await readPath(db), null);
});

test('a web process reports its holds by itself', async (t) => {
  const app = await startTestApp(t);
  const buyer = await app.admitted();
  for (let i = 0; i < 25; i++) await buyer.hold([1_000_000 + i]);
  await until(
    async () => (await app.database.query('SELECT requests FROM path_signals'))[0]?.requests === 25,
    'the report',
  );
});
