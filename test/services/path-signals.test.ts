import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readPath, readProvider, reportPath, reportProvider } from '../../src/controller/path-signals.ts';
import { metered } from '../../src/payments/metered.ts';
import { createDb } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { startTestApp, until } from '../support/app.ts';
import { testDatabase } from '../support/postgres.ts';
import { openPayment, startTestSimulator } from '../support/simulator.ts';

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

test('calls that the provider refuses because they are too many are counted; a lock on one payment is not', async (t) => {
  const database = await testDatabase(t);
  const db = createDb({ url: database.url, poolSize: 2, clock: systemClock, log: silentLogger });
  t.after(() => db.close());
  const simulator = await startTestSimulator();
  t.after(() => simulator.stop());
  const { provider, meter } = metered(simulator.provider, systemClock);
  assert.equal(meter.window(), null);
  const { object } = await openPayment(provider);
  await simulator.fault('lock_timeout', { times: 1 });
  assert.equal((await provider.lookup(object)).kind, 'unknown');
  assert.deepEqual(meter.window(), { calls: 2, refused: 0 });
  await simulator.rateLimit(2);
  const answers = await Promise.all(Array.from({ length: 12 }, () => provider.lookup(object)));
  const refused = answers.filter((answer) => answer.kind === 'unknown');
  assert.ok(refused.length >= 6 && refused.length < 12, String(refused.length));
  assert.ok(refused.every((answer) => answer.kind === 'unknown' && answer.reason === 'rate_limited'));
  assert.equal(meter.window()!.refused, refused.length);
  await simulator.rateLimit(null);
  assert.equal((await provider.lookup(object)).kind, 'done');
  await reportProvider(db, 'one', meter.window()!);
  await reportProvider(db, 'two', { calls: 10, refused: 1 });
  assert.deepEqual(await readProvider(db), { calls: 25, refused: refused.length + 1 });
  await database.query(`UPDATE provider_signals SET measured_at = measured_at - interval '6 seconds'`);
  assert.deepEqual(await readProvider(db), { calls: 0, refused: 0 });
});

test('a web process reports its holds, and its calls to the payment provider, by itself', async (t) => {
  const app = await startTestApp(t);
  const buyer = await app.admitted();
  for (let i = 0; i < 25; i++) await buyer.hold([1_000_000 + i]);
  await until(
    async () => (await app.database.query('SELECT requests FROM path_signals'))[0]?.requests === 25,
    'the report',
  );
  const other = await app.admitted();
  const { order } = await other.mustOrder([1]);
  assert.equal((await other.pay(order)).status, 200);
  await until(
    async () =>
      (await app.database.query('SELECT calls FROM provider_signals WHERE refused = 0'))[0]?.calls >= 3,
    'the report of the calls to the provider',
  );
});
