import assert from 'node:assert/strict';
import net from 'node:net';
import { after, before, describe, test } from 'node:test';
import { startTestApp, type TestApp, testScope, until } from '../support/app.ts';
import { auditOf, closeUnpaid, violationsOf } from '../support/at-rest.ts';
import { createTestBuyer } from '../support/buyer.ts';
import { onsale } from '../support/onsale.ts';
import { rawCall } from '../support/stripe-calls.ts';

describe('refunds and cancelling over HTTP and at the command line', () => {
  const scope = testScope();
  let app: TestApp;
  let token: string;
  before(async () => {
    app = await startTestApp(scope, { seats: 200 });
    const { email, password } = app.app.organiser;
    const signedIn = await createTestBuyer(app.url, 'none').post('/api/organiser/sessions', {
      email,
      password,
    });
    token = signedIn.body.token;
  });
  after(() => scope.close());

  const call = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
    createTestBuyer(app.url, 'none').request(method, `/api/organiser${path}`, {
      ...(body === undefined ? {} : { body }),
      headers: { authorization: `Bearer ${token}`, ...headers },
    });
  const key = () => ({ 'idempotency-key': crypto.randomUUID() });
  /** A server that counts its connections. */
  const counting = async (take: (socket: net.Socket) => void) => {
    let connections = 0;
    const server = net.createServer((socket) => {
      connections += 1;
      socket.on('error', () => {});
      take(socket);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as net.AddressInfo;
    return { server, port, connections: () => connections };
  };
  const cli = (...argv: string[]) => onsale(argv, app.env);

  test('P8: a part of an order: previewed, refunded once a key, shown to organiser and buyer', async () => {
    const buyer = await app.admitted();
    const { order } = await buyer.mustBuy([10, 11]);
    const shown = await call('GET', `/orders/${order}`);
    assert.equal(shown.status, 200, JSON.stringify(shown.body));
    assert.deepEqual([shown.body.state, shown.body.refunds, shown.body.tickets.length], ['paid', [], 2]);
    assert.ok(shown.body.tickets[0].place.seat);
    const byMail = await call(
      'GET',
      `/events/show/orders?email=${encodeURIComponent(shown.body.buyer.email)}`,
    );
    assert.deepEqual(
      byMail.body.orders.map((one: { order: string }) => one.order),
      [order],
    );

    const [first] = shown.body.tickets;
    const body = { tickets: [first.ticket], reason: 'fell ill', goodwill: 100 };
    const path = `/orders/${order}/refunds`;
    const would = await call('POST', path, { ...body, preview: true });
    assert.deepEqual([would.status, would.body.amount], [200, first.price + first.fee + 100]);
    assert.equal((await call('POST', path, body)).body.code, 'idempotency_key_required');
    const same = key();
    const made = await call('POST', path, body, same);
    assert.deepEqual([made.status, made.body.state, made.body.amount], [201, 'done', would.body.amount]);
    const again = await call('POST', path, body, same);
    assert.deepEqual([again.status, again.body.refund], [200, made.body.refund]);
    assert.equal(
      (await call('POST', path, { ...body, goodwill: 1 }, same)).body.code,
      'idempotency_mismatch',
    );
    assert.equal(
      (await call('POST', path, { ...body, reason: 'another' }, same)).body.code,
      'idempotency_mismatch',
    );
    const blank = await call('POST', path, { ...body, reason: ' \u00a0' }, key());
    assert.deepEqual(
      [blank.status, blank.body.field, /one line of text/.test(blank.body.detail)],
      [400, '/reason', true],
    );
    assert.equal((await call('POST', path, body, key())).body.code, 'tickets_not_valid');
    assert.equal((await call('POST', path, { ...body, more: 1 }, key())).body.code, 'invalid_field');
    const tickets = await buyer.tickets(order);
    assert.deepEqual(
      tickets.body.tickets.map(({ ticket }) => ticket),
      [shown.body.tickets[1].ticket],
    );
    const much = await call('POST', path, { tickets: [], goodwill: 10_000_000, reason: 'x' }, key());
    assert.equal(much.body.code, 'refund_too_much');
    assert.equal((await call('POST', `/refunds/${made.body.refund}/retry`)).body.code, 'refund_decided');
    const unknown = '00000000-0000-4000-8000-000000000000';
    assert.equal((await call('POST', `/refunds/${unknown}/retry`)).body.code, 'unknown_refund');
    assert.equal((await call('GET', `/orders/${unknown}`)).body.code, 'unknown_order');
    const all = await call('GET', '/events/show/refunds?state=done');
    assert.equal(all.body.refunds.length, 1);
  });

  test('P8: a refund made at the provider and a dispute: on the organiser’s list and the order’s page, decided over HTTP and at the command line', async () => {
    const buyer = await app.admitted();
    const { order } = await buyer.mustBuy([150, 151]);
    const intentOf = async (of: string) => (await app.simulator.ledgerOf(of)).intents[0]!.id;
    const listed = async (kind: string, of: string) => {
      const { body } = await call('GET', '/attention');
      return body.entries.find((one: Record<string, unknown>) => one.kind === kind && one.order === of);
    };
    await app.simulator.refundByHand(await intentOf(order), 1_000);
    await until(async () => (await listed('foreign_refund', order)) !== undefined, 'the entry');
    const { body: shown } = await call('GET', `/orders/${order}`);
    assert.deepEqual(
      shown.reversals.map((one: Record<string, unknown>) => [one.kind, one.state, one.amount, one.taken]),
      [['refund', 'done', 1_000, 1_000]],
    );
    const page = await buyer.get(`/api/orders/${order}`);
    assert.deepEqual(
      [page.body.state, page.body.refunds.length, page.body.refunds[0].amount],
      ['paid', 1, 1_000],
    );
    const would = await call('POST', `/orders/${order}/refunds`, { reason: 'x', preview: true });
    assert.equal(would.body.amount, shown.amount - 1_000);
    const both = await call(
      'POST',
      `/orders/${order}/refunds`,
      { reason: 'x', pays: false, goodwill: 1 },
      key(),
    );
    assert.deepEqual([both.status, both.body.field], [400, '/goodwill']);
    // One ticket at the command line, paying nothing; the other by the entry's own action.
    const [first] = shown.tickets;
    const unpaid = await cli(
      'refund',
      'order',
      order,
      '--ticket',
      first.ticket,
      '--unpaid',
      '--reason',
      'x',
      '--json',
    );
    assert.deepEqual([unpaid.code, JSON.parse(unpaid.out).amount], [0, 0], unpaid.err);
    const { entry } = await listed('foreign_refund', order);
    const note = { note: 'agreed by phone' };
    assert.equal((await call('POST', `/attention/${entry}/cancel_tickets`, {})).body.field, '/note');
    assert.equal((await call('POST', `/attention/${entry}/cancel_tickets`, note)).status, 200);
    const twice = await call('POST', `/attention/${entry}/cancel_tickets`, note);
    assert.equal(twice.body.repeated, true, JSON.stringify(twice.body));
    assert.equal(await listed('foreign_refund', order), undefined);
    assert.equal((await buyer.get(`/api/orders/${order}`)).body.state, 'cancelled');

    const another = await app.admitted();
    const other = await another.mustBuy([152]);
    await app.simulator.dispute(await intentOf(other.order));
    await until(async () => (await listed('dispute_opened', other.order)) !== undefined, 'the dispute');
    const left = await call('POST', `/orders/${other.order}/refunds`, { reason: 'x', preview: true });
    assert.equal(left.body.amount, 0);
    const ended = await call('POST', `/orders/${other.order}/refunds`, { reason: 'x', pays: false }, key());
    assert.deepEqual([ended.status, ended.body.amount, ended.body.state], [201, 0, 'done']);
    const over = await another.get(`/api/orders/${other.order}`);
    assert.deepEqual([over.body.state, over.body.refunds], ['cancelled', []], 'no money is promised');
  });

  test('the command line refunds, lists what failed and settles it; a worker gives the money back', async () => {
    const buyer = await app.admitted();
    const { order } = await buyer.mustBuy([20, 21]);
    await app.simulator.fault('refund_insufficient_balance', { match: { reference: order }, times: 1 });
    const would = await cli('refund', 'order', order, '--reason', 'asked', '--preview');
    assert.match(would.out, /^2 tickets, [0-9.]+ EUR\. Nothing was changed\./);
    const [{ ticket }] = (await call('GET', `/orders/${order}`)).body.tickets;
    const preview = [
      'refund',
      'order',
      order,
      '--ticket',
      ticket,
      '--reason',
      'asked',
      '--preview',
      '--json',
    ];
    const extra = (amount: string) => cli(...preview, '--goodwill', amount);
    assert.equal(JSON.parse((await extra('1.5')).out).goodwill, 150);
    assert.match((await extra('1.005')).err, /--goodwill takes an amount/);
    const made = await cli('refund', 'order', order, '--reason', 'asked', '--json');
    assert.equal(made.code, 0, made.err);
    const { refund } = JSON.parse(made.out);
    const state = async () => (await call('GET', `/orders/${order}`)).body.refunds[0].state;
    await until(async () => (await state()) === 'failed', 'the refund to fail');
    // A list needs no store of holds: nothing connects to Redis.
    const redis = await counting((socket) => socket.destroy());
    const env = { ...app.env, REDIS_URL: `redis://127.0.0.1:${redis.port}` };
    const failed = await onsale(['refund', 'list', 'show', '--state', 'failed'], env);
    redis.server.close();
    assert.equal(redis.connections(), 0);
    // Two operations of one command share the connections to the database.
    const real = new URL(app.env.DATABASE_URL!);
    const postgres = await counting((socket) => {
      const behind = net.connect(Number(real.port), real.hostname);
      behind.on('error', () => socket.destroy());
      socket.pipe(behind).pipe(socket);
    });
    const proxied = new URL(real);
    proxied.host = `127.0.0.1:${postgres.port}`;
    const again = await onsale(preview, { ...app.env, DATABASE_URL: String(proxied) });
    postgres.server.close();
    assert.match(again.err, /Nothing was refunded/);
    assert.ok(postgres.connections() <= 5, 'two to migrate, three of the pool');
    assert.match(failed.out, new RegExp(`${refund}  failed .*balance_insufficient`));
    assert.equal((await cli('refund', 'retry', refund)).code, 0);
    await until(async () => (await state()) === 'done', 'the refund to be done');
    assert.equal((await cli('refund', 'elsewhere', refund, '--note', 'x')).code, 1);
    assert.equal((await cli('refund', 'order', order, '--reason', 'again')).code, 1);
    assert.equal((await cli('refund', 'list', 'show', '--state', 'odd')).code, 1);
  });

  test('P2 P3: payments that need a decision, as API and at the command line: listed with what can be done, decided once', async () => {
    const partly = async (seat: number): Promise<string> => {
      const buyer = await app.admitted();
      const { order } = await buyer.mustOrder([seat]);
      const fault = await app.simulator.fault('unavailable', {
        match: { route: 'capture', reference: order },
      });
      await buyer.pay(order);
      await app.simulator.endFault(fault);
      const { id } = (await app.simulator.ledger()).intents.find(({ reference }) => reference === order)!;
      // Captured by hand at the provider; if our capture was faster there is nothing to decide.
      const taken = await rawCall(app.simulator, 'payment_intents.capture', { id, amount_to_capture: '400' });
      assert.equal(taken.status, 200, 'captured by hand before our next try');
      return order;
    };
    const [first, second] = [await partly(40), await partly(41)];
    type Listed = { order: string; kind: string; entry: string };
    const pages = async (): Promise<Listed[]> => {
      const all: Listed[] = [];
      for (let next: string | null = ''; next !== null; ) {
        const after: string = next && `&after=${encodeURIComponent(next)}`;
        const { status, body } = await call('GET', `/attention?event=show&limit=1${after}`);
        assert.equal(status, 200, JSON.stringify(body));
        all.push(...body.entries);
        next = body.next;
      }
      return all;
    };
    const both = async () => (await pages()).filter(({ kind }) => kind === 'captured_amount');
    await until(async () => (await both()).length === 2, 'both on the list', 60_000);
    assert.deepEqual(
      (await both()).map(({ order }) => order),
      [first, second],
    );
    assert.equal((await pages()).length, (await call('GET', '/attention?event=show')).body.total);
    const [{ entry: named }] = (await both()) as [Listed];
    const entry = (await call('GET', '/attention')).body.entries.find((one: Listed) => one.entry === named);
    assert.deepEqual(
      [
        entry.kind,
        entry.order,
        entry.orderState,
        entry.captured,
        entry.operation.kind,
        entry.operation.state,
      ],
      ['captured_amount', first, 'confirmed', 400, 'capture', 'unknown'],
    );
    assert.ok(entry.ageMs >= 0 && entry.seatNames.length === 1 && entry.means && entry.charged);
    assert.deepEqual(
      entry.actions.map((one: { action: string; note: boolean }) => [one.action, one.note]),
      [
        ['look', false],
        ['give_back', false],
        ['accept', true],
      ],
    );
    const refund = await call('POST', `/orders/${first}/refunds`, { reason: 'asked for it' }, key());
    assert.deepEqual([refund.status, refund.body.code], [409, 'not_refundable']);
    assert.match(refund.body.detail, /list of payments/);

    for (const [path, status, code] of [
      ['/attention?event=none', 404, 'unknown_event'],
      ['/attention?after=x', 400, 'invalid_field'],
      ['/attention?after=999999999999999~operation-x', 200, undefined],
      ['/attention?limit=0', 400, 'invalid_field'],
    ] as const) {
      const answer = await call('GET', path);
      assert.deepEqual([answer.status, answer.body.code], [status, code], path);
    }
    for (const [path, body, status, code] of [
      [`/attention/${entry.entry}/accept`, undefined, 400, 'invalid_field'],
      [`/attention/${entry.entry}/retry`, undefined, 409, 'action_not_possible'],
      [`/attention/${entry.entry}/explode`, undefined, 400, 'invalid_field'],
      ['/attention/operation-x/look', undefined, 404, 'unknown_entry'],
      ['/attention/finding-99999999999999999999/look', undefined, 404, 'unknown_entry'],
      [`/attention/event-${'x'.repeat(60)}/dismiss`, { note: 'none of ours' }, 404, 'unknown_entry'],
    ] as const) {
      const answer = await call('POST', path, body);
      assert.deepEqual([answer.status, answer.body.code], [status, code], path);
    }

    const note = { note: 'the rest was paid in cash' };
    const accepted = await call('POST', `/attention/${entry.entry}/accept`, note);
    assert.deepEqual([accepted.status, accepted.body], [200, { repeated: false, entry: null }]);
    assert.ok((await call('POST', `/attention/${entry.entry}/accept`, note)).body.repeated);
    assert.equal((await call('GET', `/orders/${first}`)).body.state, 'paid');
    // No more than what was captured can be given back.
    const would = await call('POST', `/orders/${first}/refunds`, { reason: 'fell ill', preview: true });
    assert.equal(would.body.amount, 400);
    const given = await call('POST', `/orders/${first}/refunds`, { reason: 'fell ill' }, key());
    assert.deepEqual([given.body.state, given.body.amount], ['done', 400]);

    const listed = await cli('payments', 'list', '--event', 'show');
    assert.equal(listed.code, 1);
    assert.match(listed.out, new RegExp(`order ${second} \\(confirmed\\)`));
    const other = (await both())[0]!.entry;
    assert.ok(listed.out.includes(`onsale payments act ${other} give_back`), listed.out);
    assert.equal((await cli('payments', 'act', other, 'accept')).code, 1);
    const back = await cli('payments', 'act', other, 'give_back');
    assert.equal(back.code, 0, back.err);
    await until(
      async () => (await call('GET', `/orders/${second}`)).body.returned.length === 1,
      'the money to be given back',
    );
    const shown = await call('GET', `/orders/${second}`);
    assert.deepEqual([shown.body.state, shown.body.returned[0].amount], ['cancelled', 400]);
    assert.deepEqual(await both(), []);
  });

  test('W5 P8: the event is cancelled after its confirmation; the queue learns of it within a poll, orders are refunded', async () => {
    const holder = await app.admitted();
    await holder.mustHold([30]);
    const buyer = await app.admitted();
    const { order } = await buyer.mustBuy([31]);
    const wish = { reason: 'flooded' };
    const path = '/events/show/cancellation';
    assert.equal((await call('GET', path)).body.code, 'not_cancelled');
    const asked = await call('POST', path, wish);
    assert.equal(asked.status, 202, JSON.stringify(asked.body));
    assert.equal(asked.body.orders, 2, 'one of which keeps one of its two tickets');
    assert.match(asked.body.confirmation, /^[0-9A-Z]{4}-[0-9A-Z]{4}$/);
    const wrong = await call('POST', path, { ...wish, confirmation: 'AAAA-AAAA' });
    assert.equal(wrong.body.code, 'not_confirmed');
    assert.equal((await call('GET', '/events/show')).body.phase, 'open');
    // There is no way around the confirmation and the refunds.
    const { version } = (await call('GET', '/events/show')).body;
    const sideways = { expectedVersion: version, phase: 'cancelled' };
    const refused = await call('PATCH', '/events/show/on-sale', sideways);
    assert.deepEqual([refused.status, refused.body.code], [409, 'phase_impossible']);
    assert.ok(!refused.body.possible.includes('cancelled'));
    const slow = await call('POST', path, { ...wish, perSecond: 0.001 });
    assert.deepEqual([slow.status, slow.body.field], [400, '/perSecond']);
    for (const before of ['2026-12-31T23:59:60Z', '9999-12-31T23:59:59Z']) {
      const odd = await call('GET', `/events/show/refunds?before=${before}`);
      assert.deepEqual([odd.status, odd.body.code, odd.body.field], [400, 'invalid_field', 'before']);
    }

    const asking = await cli('event', 'cancel', 'show', '--reason', 'flooded');
    assert.match(asking.out, /refund 2 orders with 2 tickets[\s\S]*--confirm ([0-9A-Z-]+)/);
    const [, code] = /--confirm ([0-9A-Z-]+)/.exec(asking.out)!;
    const done = await cli('event', 'cancel', 'show', '--reason', 'flooded', '--confirm', code!, '--watch');
    assert.equal(done.code, 0, done.err);
    assert.match(done.out, /the run is done/);

    const status = await fetch(`${app.url}/api/events/show/status`).then((answer) => answer.json());
    assert.equal(status.phase, 'cancelled');
    assert.equal((await holder.order('00000000-0000-4000-8000-000000000000')).status, 404);
    assert.equal((await call('POST', path, wish)).body.code, 'event_cancelled');
    const now = await call('GET', path);
    assert.deepEqual([now.body.state, now.body.refunds.done.refunds], ['done', 2]);
    const orders = await call('GET', `${path}/orders`);
    assert.ok(
      orders.body.orders.some(
        (one: { order: string; outcome: string }) => one.order === order && one.outcome === 'done',
      ),
    );
    assert.deepEqual((await call('POST', `${path}/retry`)).body, { refunds: 0 });
    const outcomes = await cli('event', 'cancellation', 'show', '--orders');
    assert.match(outcomes.out, new RegExp(`${order}  done  \\d+\\.\\d\\d EUR  1 ticket`));
    await closeUnpaid(app);
    assert.deepEqual(violationsOf(await auditOf(app)), []);
  });
});
