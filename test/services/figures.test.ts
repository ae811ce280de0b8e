import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startTestApp, type TestApp, testScope, until } from '../support/app.ts';
import { type Answer, createTestBuyer } from '../support/buyer.ts';
import { onsale } from '../support/onsale.ts';

describe('the organiser’s figures', () => {
  const scope = testScope();
  after(() => scope.close());
  let app: TestApp;
  let token: string;
  const call = (method: string, path: string, body?: unknown): Promise<Answer> =>
    createTestBuyer(app.url, 'any').request(method, `/api/organiser${path}`, {
      body,
      headers: { authorization: `Bearer ${token}`, 'idempotency-key': crypto.randomUUID() },
    });
  const kept = async () => {
    const [row] = await app.database.query(`SELECT at::text, figures FROM sales_figures`);
    return row;
  };

  before(async () => {
    app = await startTestApp(scope, { seats: 200 });
    const { email, password } = app.app.organiser;
    const signedIn = await createTestBuyer(app.url, 'any').post('/api/organiser/sessions', {
      email,
      password,
    });
    token = signedIn.body.token;
  });

  test('a job counts what was sold and taken after a confirmed order, and what went back after a refund', async () => {
    assert.equal(await kept(), undefined, 'nobody has looked');
    const order = await (await app.admitted()).mustBuy([10, 11]);
    await until(async () => (await kept())?.figures.taken === order.amount, 'the job', 30_000);
    const shown = await call('GET', '/events/show/figures');
    assert.equal(shown.status, 200, JSON.stringify(shown.body));
    const { orders, sold, taken, refunded, owed, currency } = shown.body;
    assert.deepEqual(
      { orders, taken, refunded, owed, currency },
      {
        ...{ orders: { paid: 1 }, taken: order.amount, refunded: 0, owed: 0, currency: 'EUR' },
      },
    );
    const sum = (key: string) =>
      sold.reduce((all: number, line: Record<string, number>) => all + line[key]!, 0);
    assert.equal(sum('tickets'), 2);
    assert.equal(sum('prices') + sum('fees') + order.orderFee, order.amount);

    const { body } = await call('GET', `/orders/${order.order}`);
    const one = { tickets: [body.tickets[0].ticket], reason: 'fell ill' };
    const made = await call('POST', `/orders/${order.order}/refunds`, one);
    assert.equal(made.status, 201, JSON.stringify(made.body));
    await until(async () => (await kept())?.figures.refunded === made.body.amount, 'the job', 30_000);
    const said = await onsale(['event', 'figures', 'show', '--json'], app.env);
    assert.equal(said.code, 0, said.err);
    const told = JSON.parse(said.out);
    assert.deepEqual([told.taken, told.refunded, told.owed], [order.amount, made.body.amount, 0]);
    assert.match((await onsale(['event', 'figures', 'show'], app.env)).out, /Tickets sold: 1\n/);
  });

  test('older figures do not replace newer ones, and no reader gets figures older than half a minute', async () => {
    const wrong = JSON.stringify({ orders: {}, sold: [], taken: 7, refunded: 0, owed: 0 });
    await app.database.query(`UPDATE sales_figures SET at = now() + interval '1 hour', figures = $1`, [
      wrong,
    ]);
    await app.database.query('SELECT sales_figures_refresh(event_no) FROM events');
    assert.equal((await kept())!.figures.taken, 7, 'a later count stays');
    await app.database.query(`UPDATE sales_figures SET at = now() - interval '31 seconds'`);
    assert.notEqual((await call('GET', '/events/show/figures')).body.taken, 7);
    assert.equal((await call('GET', '/events/nothing/figures')).status, 404);
  });

  test('of a crowd of orders one job waits, and it does not wait for the last of them', async () => {
    await until(async () => (await waiting()).length === 0, 'nothing to count', 30_000);
    const asked = () =>
      app.database.query(`SELECT job_enqueue('figures', '{"event":1}', 'figures/1', 60000)`);
    await asked();
    await until(async () => (await waiting()).length === 1, 'the job in the queue');
    const [first] = await waiting();
    for (let order = 0; order < 20; order += 1) await asked();
    await until(async () => {
      const [outbox] = await app.database.query('SELECT count(*)::integer AS n FROM job_outbox');
      return outbox!.n === 0;
    }, 'the outbox handed over');
    assert.deepEqual(await waiting(), [first]);
  });

  const waiting = () =>
    app.database.query<{ due: string }>(
      `SELECT run_at::text AS due FROM graphile_worker.jobs WHERE key = 'figures/1'`,
    );
});
