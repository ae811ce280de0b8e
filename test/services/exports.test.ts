import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import v8 from 'node:v8';
import vm from 'node:vm';
import { parse } from 'csv-parse/sync';
import { writeExport } from '../../src/fulfilment/exports.ts';
import { exportsAtOnceMax } from '../../src/http/organiser-exports.ts';
import { readSnapshot, SnapshotAborted } from '../../src/postgres/snapshot.ts';
import { startTestApp, type TestApp, testScope, until } from '../support/app.ts';
import { createTestBuyer } from '../support/buyer.ts';
import { onsale } from '../support/onsale.ts';

const hostile = '=cmd|\' /C calc\'!A0 "x",\nالمشتري';

describe('exports, and forgetting over HTTP and at the command line', () => {
  const scope = testScope();
  let app: TestApp;
  let token: string;
  before(async () => {
    app = await startTestApp(scope, { seats: 200 });
    const { email, password } = app.app.organiser;
    const signing = createTestBuyer(app.url, 'none');
    token = (await signing.post('/api/organiser/sessions', { email, password })).body.token;
  });
  after(() => scope.close());

  const get = (route: string, signal?: AbortSignal): Promise<Response> =>
    fetch(`${app.url}/api/organiser${route}`, { headers: { authorization: `Bearer ${token}` }, signal });
  const text = async (route: string): Promise<string> => (await get(route)).text();
  const call = (body: object) =>
    createTestBuyer(app.url, 'none').request('POST', '/api/organiser/buyers/forget', {
      body,
      headers: { authorization: `Bearer ${token}` },
    });
  const exporting = () =>
    app.database.query<{ wait_event_type: string | null }>(
      `SELECT wait_event_type FROM pg_stat_activity WHERE application_name = 'onsale export' AND datname = current_database()`,
    );

  test('orders, tickets and refunds: hostile names are harmless in CSV and exact in JSON, secrets are in none', async () => {
    const buyer = await app.admitted();
    const { order } = await buyer.mustBuy([10, 11]);
    const own = await buyer.tickets(order);
    await app.database.query(
      `UPDATE orders SET buyer = jsonb_set(buyer, '{name}', to_jsonb($2::text)) WHERE order_id = $1`,
      [order, hostile],
    );
    await createTestBuyer(app.url, 'none').request('POST', `/api/organiser/orders/${order}/refunds`, {
      body: { tickets: [own.body.tickets[0]!.ticket], reason: '+1 in one;=2' },
      headers: { authorization: `Bearer ${token}`, 'idempotency-key': randomUUID() },
    });

    const answer = await get('/events/show/exports/orders.csv');
    assert.equal(answer.status, 200);
    assert.match(
      answer.headers.get('content-disposition') ?? '',
      /^attachment; filename="show-orders-\d{4}-\d\d-\d\d\.csv"$/,
    );
    assert.deepEqual(
      [answer.headers.get('content-type'), answer.headers.get('cache-control')],
      ['text/csv; charset=utf-8', 'no-store'],
    );
    const bytes = Buffer.from(await answer.arrayBuffer());
    assert.equal(Number(answer.headers.get('content-length')), bytes.length);
    assert.equal(bytes.subarray(0, 3).toString('hex'), 'efbbbf');
    const [inCsv] = parse(bytes, { columns: true, bom: true }) as Record<string, string>[];
    const [inJson] = JSON.parse(await text('/events/show/exports/orders.json'));
    assert.deepEqual([inCsv!.buyer_name, inJson.buyerName], [`'${hostile}`, hostile]);
    assert.deepEqual([inCsv!.order, inCsv!.amount, inCsv!.state], [order, String(inJson.amount), 'paid']);
    assert.equal(inJson.amountDecimal, (inJson.amount / 100).toFixed(2));
    assert.ok(inJson.refunded + inJson.refundOwed > 0);
    assert.match(inJson.createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

    const refunds = parse(await text('/events/show/exports/refunds.csv?bom=false'), {
      columns: true,
    }) as Record<string, string>[];
    assert.deepEqual(
      refunds.map((one) => [one.order, one.reason, one.goodwill, one.goodwill_decimal, one.event_cancelled]),
      [[order, "'+1 in one;'=2", '0', '0.00', 'no']],
    );
    const lines = (await text('/exports/tickets.ndjson?codes=true'))
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.deepEqual(
      lines.map(({ state }) => state),
      ['revoked', 'valid'],
    );
    assert.deepEqual(
      lines.map(({ code }) => code),
      [null, own.body.tickets[1]!.code],
    );
    assert.ok(lines.every((one) => one.section && one.seat && one.buyerName === hostile));
    const without = await text('/events/show/exports/tickets.json');
    assert.ok(!without.includes(own.body.tickets[1]!.code) && JSON.parse(without).length === 2);

    const all =
      (await Promise.all(['orders', 'refunds'].map((what) => text(`/exports/${what}.ndjson`)))).join('') +
      without;
    for (const secret of [app.credentials.orderSecretOf(order), '_secret_', token])
      assert.ok(!all.includes(secret));
    const entries = await app.database.query(
      `SELECT actor, event_no, detail FROM audit_log WHERE action = 'export' ORDER BY entry`,
    );
    assert.deepEqual(entries[0].detail, { what: 'orders', format: 'csv', codes: false });
    assert.deepEqual([entries[0].actor, entries[0].event_no], [app.app.organiser.email, app.eventNo]);
    assert.ok(entries.some(({ event_no, detail }) => event_no === null && detail.codes === true));

    const stranger = await fetch(`${app.url}/api/organiser/exports/orders.csv`);
    assert.equal(stranger.status, 401);
    const refused = await Promise.all([get('/events/none/exports/orders.csv'), get('/exports/orders.xls')]);
    const codes = await Promise.all(refused.map(async (one) => (await one.json()).code));
    assert.deepEqual(codes, ['unknown_event', 'invalid_field']);
  });

  test('a client that disconnects ends the query; more than a few exports at once have to come again', async () => {
    const locker = await app.database.pool(1).connect();
    await locker.query('BEGIN');
    await locker.query('LOCK TABLE refunds IN ACCESS EXCLUSIVE MODE');
    const clients = Array.from({ length: exportsAtOnceMax }, () => new AbortController());
    const running = clients.map(({ signal }) =>
      get('/exports/refunds.csv', signal).catch((error: Error) => error.name),
    );
    await until(
      async () =>
        (await exporting()).filter(({ wait_event_type }) => wait_event_type === 'Lock').length ===
        exportsAtOnceMax,
      'the exports to wait for the lock',
    );
    const further = await get('/exports/orders.csv');
    assert.deepEqual([further.status, (await further.json()).code], [503, 'busy']);
    for (const client of clients) client.abort();
    assert.deepEqual(
      await Promise.all(running),
      clients.map(() => 'AbortError'),
    );
    // The lock still stands: nothing but the clients' going away can have ended the queries.
    await until(async () => (await exporting()).length === 0, 'the queries to end');
    await locker.query('ROLLBACK');
    locker.release();
    await until(async () => (await get('/exports/refunds.csv')).status === 200, 'their places to be free');
    assert.deepEqual(fs.readdirSync(path.join(app.dataDir, 'exports')), [], 'no file is left');
  });

  test('a buyer is forgotten behind a confirmation for this very wish, and with one command', async () => {
    const buyer = await app.admitted();
    const { order } = await buyer.mustBuy([30]);
    const [{ email }] = await app.database.query(
      `SELECT buyer ->> 'email' AS email FROM orders WHERE order_id = $1`,
      [order],
    );
    await until(
      async () =>
        (await app.database.query(`SELECT FROM mails WHERE order_id = $1 AND state <> 'sent'`, [order]))
          .length === 0,
      'the mail to be sent',
    );
    await app.database.query(`UPDATE orders SET account = $2, buyer = $3 WHERE order_id = $1`, [
      order,
      'forget.me@example.org',
      JSON.stringify({ name: 'Forget', email: 'forget.me@example.org' }),
    ]);
    const wish = { buyer: 'Forget.Me@example.org' };
    const needed = await call(wish);
    assert.deepEqual([needed.status, needed.body.code], [409, 'buyer_needed'], JSON.stringify(needed.body));
    assert.deepEqual(needed.body.orders, [{ order, event: 'show', why: 'event_not_over' }]);
    const asked = await call({ ...wish, nameless: true });
    assert.equal(asked.status, 202, JSON.stringify(asked.body));
    assert.deepEqual([asked.body.orders, asked.body.kept.validTickets], [[order], 1]);
    const { confirmation } = asked.body;
    for (const other of [wish, { order, nameless: true }, { buyer: 'other@example.org', nameless: true }]) {
      const answer = await call({ ...other, confirmation });
      assert.ok(
        ['buyer_needed', 'not_confirmed', 'unknown_buyer'].includes(answer.body.code),
        JSON.stringify(answer.body),
      );
    }
    const done = await call({ ...wish, nameless: true, confirmation });
    assert.equal(done.status, 200, JSON.stringify(done.body));
    assert.equal((await call({ ...wish, nameless: true, confirmation })).body.code, 'unknown_buyer');
    assert.equal((await call({ buyer: 'no address' })).body.code, 'invalid_field');
    assert.equal((await call({ buyer: 'a\u0000@example.org' })).body.code, 'invalid_field');
    assert.equal((await buyer.tickets(order)).status, 404, 'his browser is not known any more');
    const [row] = JSON.parse(await text('/events/show/exports/orders.json')).filter(
      (one: { order: string }) => one.order === order,
    );
    assert.deepEqual([row.buyerName, row.buyerEmail, row.cardLast4], ['', '', '']);
    assert.ok(row.forgottenAt && row.account.startsWith('forgotten:'));

    assert.equal((await onsale(['buyer', 'forget'], app.env)).code, 2);
    const again = await onsale(['buyer', 'forget', '--order', order], app.env);
    assert.deepEqual(
      [again.code, again.out],
      [0, 'Nothing is known, or left, of a buyer of this name.\n'],
      again.err,
    );
    const [other] = await app.database.query(
      `SELECT order_id AS id FROM orders WHERE buyer ->> 'name' = $1`,
      [hostile],
    );
    const refused = await onsale(['buyer', 'forget', '--order', other.id], app.env);
    assert.equal(refused.code, 1);
    assert.match(refused.err, /has valid tickets, and the event is not over/);
    const flags = ['--even-though-tickets-become-nameless', '--dry-run'];
    const would = await onsale(['buyer', 'forget', '--order', other.id, ...flags], app.env);
    assert.match(would.out, /^Would be deleted \(1 order of show\)[\s\S]*bookkeeping/, would.err);
    assert.ok(email);
  });

  test('20,000 orders are read at one moment and never lie in memory together; the command writes a whole file', async () => {
    const count = 20_000;
    const insert = (n: number, name: string): Promise<unknown> =>
      app.database.query(
        `INSERT INTO orders (order_id, event_no, hold_id, visitor, holder, account, buyer, seats, lines, amount, currency, state, payment_deadline)
         SELECT gen_random_uuid(), $1, gen_random_uuid(), 'v', 'v', 'a', jsonb_build_object('name', $3::text, 'email', 'e'),
                '{1}', '[]', 1, 'EUR', 'closed', now() FROM generate_series(1, $2)`,
        [app.eventNo, n, name],
      );
    const [{ before: earlier }] = await app.database.query(
      `SELECT count(*)::integer AS before FROM orders WHERE seats <> '{}'`,
    );
    await insert(count, 'x'.repeat(1_500));
    v8.setFlagsFromString('--expose-gc');
    const collect: () => void = vm.runInNewContext('gc');
    const inUse = (): number => {
      collect();
      const { heapUsed, external } = process.memoryUsage();
      return heapUsed + external;
    };
    const start = inUse();
    let [bytes, most, first] = [0, 0, true];
    const wish = {
      what: 'orders',
      format: 'ndjson',
      event: app.eventNo,
      codes: false,
      byteOrderMark: false,
    } as const;
    const { url } = app.database;
    const rows = await writeExport({ url, events: app.app.events }, wish, async (part, written) => {
      if (written > 0 && first) {
        first = false;
        await insert(1, 'came later');
      }
      bytes += part.length;
      most = Math.max(most, inUse() - start);
    });
    assert.equal(rows, earlier + count, 'what came while it was written is of another moment');
    assert.ok(bytes > 35e6);
    assert.ok(most < 15e6, `${most} bytes were in use at once, of ${bytes}`);

    const gone = new AbortController();
    const reading = readSnapshot({
      url,
      text: 'SELECT * FROM orders',
      values: [],
      signal: gone.signal,
      batch: 10,
    });
    assert.equal((await reading.next()).value?.length, 10);
    gone.abort();
    await assert.rejects(reading.next(), SnapshotAborted);
    await until(async () => (await exporting()).length === 0, 'the abandoned reading to end');

    const out = path.join(app.dataDir, 'orders.csv');
    const made = await onsale(['export', 'orders', 'show', '--out', out, '--no-bom'], app.env);
    assert.equal(made.code, 0, made.err);
    assert.equal(made.out, `${(rows + 1).toLocaleString('en')} orders of show in ${out}.\n`);
    assert.match(made.err, /^10000 …\n20000 …$/m);
    assert.deepEqual([fs.existsSync(`${out}.part`), fs.statSync(out).mode & 0o777], [false, 0o600]);
    assert.ok(fs.statSync(out).size > 30e6);
    const failed = await onsale(['export', 'orders', 'none', '--out', path.join(app.dataDir, 'x')], app.env);
    assert.equal(failed.code, 1);
    const all = [
      'export',
      'tickets',
      '--format',
      'json',
      '--codes',
      '--out',
      path.join(app.dataDir, 't.json'),
    ];
    const tickets = await onsale(all, app.env);
    assert.equal(tickets.code, 0, tickets.err);
    const parsed = JSON.parse(fs.readFileSync(path.join(app.dataDir, 't.json'), 'utf8'));
    assert.ok(parsed.length >= 3 && parsed.some((one: { code: string | null }) => one.code));
  });
});
