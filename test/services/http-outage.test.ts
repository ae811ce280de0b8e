import assert from 'node:assert/strict';
import { test } from 'node:test';
import pg from 'pg';
import { startTestApp, type TestApp, until } from '../support/app.ts';
import { testServer } from '../support/postgres.ts';

/** From the server's side: no new connections, and the present ones end. */
async function outage(app: TestApp, work: () => Promise<void>): Promise<void> {
  const client = new pg.Client({ connectionString: (await testServer()).url });
  await client.connect();
  const allow = (yes: boolean) =>
    client.query(`ALTER DATABASE ${app.database.name} WITH ALLOW_CONNECTIONS ${yes}`);
  try {
    await allow(false);
    const end = 'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1';
    await client.query(end, [app.database.name]);
    await work();
  } finally {
    await allow(true);
    await client.end();
  }
}

test('D2: without Postgres nothing is sold or charged, reads and places stay, and the sale goes on afterwards', async (t) => {
  const app = await startTestApp(t, { seats: 200 });
  const buyer = await app.admitted();
  const { order } = await buyer.mustOrder([150]);
  const line = app.buyer();
  const place = (await line.join()).body.number;
  const stranger = app.buyer();
  await stranger.post('/api/events/show/queue');

  await outage(app, async () => {
    for (const path of ['/status', '/counts', '/availability', '']) {
      assert.equal((await stranger.get(`/api/events/show${path}`)).status, 200, path);
    }
    assert.equal((await stranger.get('/healthz')).status, 200);
    await until(async () => (await stranger.get('/readyz')).status === 503, 'not ready');
    for (const ask of [
      () => buyer.pay(order),
      () => buyer.get(`/api/orders/${order}`),
      () => buyer.hold([151]),
      () => stranger.join(),
    ]) {
      const answer = await ask();
      assert.equal(answer.status, 503, JSON.stringify(answer.body));
      assert.match(answer.headers.get('content-type') ?? '', /problem\+json/);
      assert.ok(Number(answer.headers.get('retry-after')) >= 1);
    }
  });

  await until(async () => (await stranger.get('/readyz')).status === 200, 'ready again');
  const { intents } = await app.simulator.ledger();
  assert.equal(
    intents.reduce((sum, { authorised, captured }) => sum + authorised + captured, 0),
    0,
    'nothing was taken',
  );
  const again = await line.join();
  assert.deepEqual([again.status, again.body.number], [200, place]);
  assert.equal((await stranger.join()).status, 200);
  assert.equal((await buyer.pay(order)).status, 200);
});

test('D4: a stop lets the payment under way finish and sends its response', async (t) => {
  const app = await startTestApp(t, { seats: 200 });
  const buyer = await app.admitted();
  const { order } = await buyer.mustOrder([150]);
  await app.simulator.fault('delay', { match: { route: 'confirm' }, delayMs: 1_000, times: 1 });
  const paying = buyer.pay(order);
  await until(async () => {
    const [operation] = await app.database.query(
      `SELECT 1 FROM money_operations WHERE order_id = $1 AND kind = 'authorise'`,
      [order],
    );
    return operation !== undefined;
  }, 'the payment to be under way');
  await app.stop();
  const paid = await paying;
  assert.equal(paid.status, 200, JSON.stringify(paid.body));
  assert.equal(paid.body.state, 'paid');
  await assert.rejects(buyer.get('/healthz'), 'nobody listens any more');
});
