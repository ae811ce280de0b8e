import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { systemClock } from '../../src/runtime/clock.ts';
import { startTestApp, type TestApp, testScope, until } from '../support/app.ts';
import { type Answer, createTestBuyer, type TestBuyer } from '../support/buyer.ts';

describe('kinds of buyers and access codes, over HTTP', () => {
  const scope = testScope();
  after(() => scope.close());
  let app: TestApp;
  let token: string;
  let category: string;
  let locked: string;
  const call = (method: string, path: string, body?: unknown): Promise<Answer> =>
    createTestBuyer(app.url, 'any').request(method, `/api/organiser${path}`, {
      body,
      headers: { authorization: `Bearer ${token}` },
    });
  let draft: Record<string, unknown>;

  before(async () => {
    app = await startTestApp(scope, { env: { ONSALE_TRUST_PROXY: 'loopback' } });
    const { email, password } = app.app.organiser;
    const signedIn = await createTestBuyer(app.url, 'any').post('/api/organiser/sessions', {
      email,
      password,
    });
    token = signedIn.body.token;
    const { body } = await call('GET', `/events/${app.event}`);
    const rows = await app.database.query(
      'SELECT category FROM event_seats GROUP BY 1 ORDER BY count(*) DESC',
    );
    [category = '', locked = ''] = rows.map((row) => row.category);
    const { plan, currency, prices } = body;
    const members = { id: 'members', name: 'Members', prices: { [category]: 700 }, locked: true };
    const reduced = { id: 'reduced', name: 'Reduced', conditions: 'Students', prices: { [category]: 900 } };
    draft = {
      ...{ plan, currency, prices: { ...prices, [category]: 1_500 }, seatFee: 50, orderFee: 100 },
      ...{ kinds: [reduced, members], lockedCategories: [locked] },
    };
  });

  async function openEvent(id: string, more: object = {}): Promise<void> {
    const created = await call('POST', '/events', { ...draft, id, name: id, ...more });
    assert.equal(created.status, 201, JSON.stringify(created.body));
    assert.equal((await call('POST', `/events/${id}/publish`)).status, 200);
    if (!('onSaleAt' in more)) {
      const opened = await call('PATCH', `/events/${id}/on-sale`, { expectedVersion: 2, phase: 'open' });
      assert.equal(opened.status, 200, JSON.stringify(opened.body));
    }
    await until(async () => {
      const status = await createTestBuyer(app.url, id).get(`/api/events/${id}/status`);
      return status.status === 200 && status.body.phase === 'open';
    }, 'an open sale');
  }

  /** With a pass that did not come through the line. */
  async function admitted(event: string): Promise<TestBuyer> {
    const buyer = createTestBuyer(app.url, event);
    await buyer.post(`/api/events/${event}/queue`);
    const visitor = app.credentials.visitorOf(buyer.cookies.get('onsale_visitor') ?? '');
    assert.ok(visitor);
    const { eventNo } = (await app.app.events.find(event))!;
    const issuedAt = systemClock.now();
    const pass = { event: eventNo, visitor, passId: crypto.randomUUID(), number: 1, issuedAt };
    buyer.pass = app.credentials.signPass({ ...pass, expiresAt: issuedAt + 900_000 });
    return buyer;
  }

  /** As a page does it: a busy server is asked again with the same key. */
  async function hold(
    buyer: TestBuyer,
    event: string,
    wish: object,
    key: string = crypto.randomUUID(),
  ): Promise<Answer> {
    const body = { pass: buyer.pass, ...wish };
    for (let tries = 1; ; tries += 1) {
      const answer = await buyer.post(`/api/events/${event}/holds`, body, { 'idempotency-key': key });
      if (answer.status !== 503 || tries === 10) return answer;
    }
  }
  const person = { name: 'Any Buyer', email: 'any@example.org' };
  async function seatsOf(event: string, name: string, count: number, from = 0): Promise<number[]> {
    const rows = await app.database.query(
      `SELECT seat_no FROM event_seats JOIN events USING (event_no) WHERE event_id = $1 AND category = $2
       ORDER BY seat_no OFFSET $3 LIMIT $4`,
      [event, name, from, count],
    );
    return rows.map((row) => row.seat_no);
  }

  test('each seat is priced by the kind that the buyer chose, from hold to ticket; the hash of a hold covers kinds', async () => {
    await openEvent('kinds');
    const shown = (await createTestBuyer(app.url, 'kinds').get('/api/events/kinds')).body;
    const listed = shown.prices.find((one: { category: string }) => one.category === category);
    assert.deepEqual(listed.kinds, { reduced: 900, members: 700 });
    assert.equal(shown.prices.find((one: { category: string }) => one.category === locked).locked, true);
    assert.deepEqual(shown.kinds[0], { id: 'reduced', name: 'Reduced', conditions: 'Students' });

    const buyer = await admitted('kinds');
    const [one, two] = await seatsOf('kinds', category, 2);
    const wish = { seats: [{ seat: one, kind: 'reduced' }, { seat: two }] };
    const held = await hold(buyer, 'kinds', wish, 'same');
    assert.equal(held.status, 201, JSON.stringify(held.body));
    assert.equal(held.body.total, 900 + 1_500 + 2 * 50 + 100);
    assert.equal((await hold(buyer, 'kinds', wish, 'same')).status, 200);
    const others = await hold(buyer, 'kinds', { seats: [{ seat: one }, { seat: two }] }, 'same');
    assert.deepEqual([others.status, others.body.code], [422, 'idempotency_mismatch']);

    const order = (body: object) =>
      buyer.post(`/api/holds/${held.body.hold}/order`, { buyer: person, ...body });
    const seats = [{ seat: one, kind: 'reduced' }];
    const dearer = await order({ total: held.body.total });
    assert.deepEqual([dearer.status, dearer.body.code, dearer.body.amount], [409, 'price_differs', 3_200]);
    const none = await order({ seats: [{ seat: one, kind: 'child' }] });
    assert.deepEqual([none.status, none.body.field], [400, '/seats/0/kind']);
    const foreign = await order({ seats: [{ seat: two! + 50, kind: 'full' }] });
    assert.deepEqual([foreign.status, foreign.body.field], [400, '/seats/0/seat']);
    const made = await order({ seats, total: held.body.total });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    assert.equal(made.body.amount, 2_600);
    assert.deepEqual(
      made.body.seats.map(({ kind, kindName, price }: Record<string, unknown>) => [kind, kindName, price]),
      [
        ['reduced', 'Reduced', 900],
        ['full', undefined, 1_500],
      ],
    );
    const paid = await buyer.pay(made.body.order);
    assert.equal(paid.status, 200, JSON.stringify(paid.body));
    const tickets = await app.database.query(
      'SELECT kind, price::integer, fee::integer FROM tickets WHERE order_id = $1 ORDER BY seat_no',
      [made.body.order],
    );
    assert.deepEqual(tickets, [
      { kind: 'reduced', price: 900, fee: 50 },
      { kind: 'full', price: 1_500, fee: 50 },
    ]);
  });

  test('best available: only where all the kinds are sold, and never behind a lock', async () => {
    const buyer = await admitted('kinds');
    const held = await hold(buyer, 'kinds', { best: { quantity: 3, kinds: ['reduced', 'reduced'] } });
    assert.equal(held.status, 201, JSON.stringify(held.body));
    assert.deepEqual(
      held.body.seats.map((seat: { kind: string; category: string }) => [seat.category, seat.kind]),
      [
        [category, 'reduced'],
        [category, 'reduced'],
        [category, 'full'],
      ],
    );
    // The next test names seats, and which of the best were chosen here is left to chance.
    const released = await buyer.request('DELETE', `/api/holds/${held.body.hold}`);
    assert.equal(released.status, 204);
    for (const [best, field] of [
      [{ quantity: 1, kinds: ['child'] }, '/best/kinds/0'],
      [{ quantity: 1, kinds: ['full', 'full'] }, '/best/kinds'],
      [{ quantity: 1, category: locked, kinds: ['reduced'] }, '/best/kinds/0'],
    ] as const) {
      const refused = await hold(await admitted('kinds'), 'kinds', { best });
      assert.deepEqual([refused.status, refused.body.field], [400, field]);
    }
    for (const best of [
      { quantity: 1, category: locked },
      { quantity: 1, kinds: ['members'] },
    ]) {
      const refused = await hold(await admitted('kinds'), 'kinds', { best });
      assert.deepEqual(
        [refused.status, refused.body.code, refused.body.field],
        [403, 'code_required', '/code'],
      );
    }
  });

  test('a code opens a locked category and a locked kind for as many orders as it says', async () => {
    const make = (body: object) => call('POST', '/events/kinds/codes', { label: 'Club', ...body });
    const made = await make({
      ...{ categories: [locked], kinds: ['members'], usesMax: 1, seatsMax: 2 },
      codes: [{ code: 'club-2026' }],
    });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    assert.deepEqual(made.body.codes, ['CLUB2026']);
    const twice = await make({ kinds: ['members'], codes: [{ code: 'CLUB 2026' }, { code: 'club2027' }] });
    assert.deepEqual([twice.status, twice.body.code, twice.body.codes], [409, 'code_exists', ['CLUB2026']]);
    const wrong: [object, string][] = [
      [{ generate: { count: 1 } }, '/categories'],
      [{ generate: { count: 1 }, categories: [category] }, '/categories/0'],
      [{ generate: { count: 1 }, kinds: ['reduced'] }, '/kinds/0'],
      [{ generate: { count: 1 }, presale: true }, '/presale'],
      [{ kinds: ['members'] }, '/generate'],
      [{ kinds: ['members'], codes: [{ code: '=1+1' }] }, '/codes/0/code'],
    ];
    for (const [body, field] of wrong) {
      const refused = await make(body);
      assert.deepEqual([refused.status, refused.body.field], [400, field], JSON.stringify(refused.body));
    }

    const show = (buyer: TestBuyer, code: string) => buyer.post('/api/events/kinds/code', { code });
    const [inside, besides] = await seatsOf('kinds', locked, 2);
    const [outside] = await seatsOf('kinds', category, 1, 8);
    const first = await admitted('kinds');
    assert.equal((await hold(first, 'kinds', { seats: [{ seat: inside }] })).body.code, 'code_required');
    const shown = await show(first, ' Club–2026 ');
    assert.deepEqual(
      [shown.status, shown.body],
      [200, { code: 'CLUB2026', categories: [locked], kinds: ['members'], presale: false, seatsMax: 2 }],
    );
    const wish = { seats: [{ seat: inside }, { seat: outside, kind: 'members' }] };
    const held = await hold(first, 'kinds', wish);
    assert.equal(held.status, 201, JSON.stringify(held.body));
    const second = await admitted('kinds');
    assert.equal((await show(second, 'club2026')).status, 200, 'a hold takes no use');
    const other = await hold(second, 'kinds', { seats: [{ seat: besides }] });
    assert.equal(other.status, 201, JSON.stringify(other.body));

    const order = (buyer: TestBuyer, id: string, seats: object[] = []) =>
      buyer.post(`/api/holds/${id}/order`, { buyer: person, seats });
    const made1 = await order(first, held.body.hold, [{ seat: outside, kind: 'members' }]);
    assert.equal(made1.status, 201, JSON.stringify(made1.body));
    assert.equal(
      (await order(first, held.body.hold)).body.order,
      made1.body.order,
      'a repeat is the same order',
    );
    const late = await order(second, other.body.hold);
    assert.deepEqual([late.status, late.body.code, late.body.field], [409, 'code_used_up', '/code']);
    assert.equal((await first.request('DELETE', `/api/orders/${made1.body.order}`)).status, 200);
    assert.equal((await order(second, other.body.hold)).status, 201, 'given back by the order that ended');

    const listed = await call('GET', `/events/kinds/codes?batch=${made.body.batch}`);
    assert.deepEqual([listed.body.codes[0].used, listed.body.batches[0].used], [1, 1]);
    const csv = await call('GET', '/events/kinds/codes.csv');
    assert.match(String(csv.headers.get('content-type')), /^text\/csv/);
    assert.match(Buffer.from(csv.body).toString('utf8'), /^code,label,.*\r\nCLUB2026,Club,/);
    const revoked = await call('POST', '/events/kinds/codes/revoke', { code: 'club 2026' });
    assert.deepEqual(revoked.body, { event: 'kinds', revoked: 1 });
    const third = await admitted('kinds');
    const ended = await show(third, 'club2026');
    assert.deepEqual([ended.status, ended.body.code], [410, 'code_ended']);
    assert.equal((await call('POST', '/events/kinds/codes/revoke', { code: 'nothing' })).status, 404);
  });

  test('a presale opens by itself, and its line and its seats are for those with a code', async () => {
    const at = (ms: number) => new Date(systemClock.now() + ms).toISOString();
    const late = await call('POST', '/events', { ...draft, id: 'late', name: 'Late', presaleAt: at(0) });
    assert.deepEqual([late.status, late.body.field], [400, '/presaleAt']);
    await openEvent('presale', { presaleAt: at(-1_000), onSaleAt: at(3_600_000) });
    const made = await call('POST', '/events/presale/codes', {
      ...{ label: 'Fans', presale: true, usesMax: null, generate: { count: 1, prefix: 'fan' } },
    });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    const [code] = made.body.codes;
    assert.match(code, /^FAN/);
    const seats = await seatsOf('presale', category, 2);

    const stranger = createTestBuyer(app.url, 'presale');
    const refused = await stranger.join();
    assert.deepEqual([refused.status, refused.body.code], [403, 'code_required']);
    assert.deepEqual(refused.body.needs, { categories: [], kinds: [], presale: true });
    const sneaking = await hold(await admitted('presale'), 'presale', { seats: [{ seat: seats[0] }] });
    assert.deepEqual([sneaking.status, sneaking.body.code], [403, 'code_required']);

    const fan = createTestBuyer(app.url, 'presale');
    assert.equal((await fan.post('/api/events/presale/code', { code: code.toLowerCase() })).status, 200);
    await fan.admit();
    const order = await fan.mustOrder([seats[0]!]);
    assert.equal(order.state, 'reserved');
    const listed = await call('GET', `/events/presale/codes?batch=${made.body.batch}`);
    assert.deepEqual([listed.body.codes[0].used, listed.body.codes[0].usesMax], [1, null]);

    // The sale opens to everybody: no code is needed, and none is used.
    await app.database.query(
      `UPDATE events SET on_sale_at = now() - interval '1 second' WHERE event_id = 'presale'`,
    );
    await until(async () => (await stranger.join()).status === 200, 'a place in the line');
    await stranger.admit();
    await stranger.mustOrder([seats[1]!]);
    const [row] =
      await app.database.query(`SELECT count(access_code)::integer AS codes, count(*)::integer AS orders FROM orders JOIN events USING (event_no)
       WHERE event_id = 'presale'`);
    assert.deepEqual(row, { codes: 1, orders: 2 });
  });

  test('an event is the same by its name and by its number, also in the second in which it changes', async () => {
    const { events } = app.app;
    const before = (await events.find('presale'))!;
    events.forget(before);
    const remembered = (await events.findByNo(before.eventNo))!;
    await app.database.query(`UPDATE events SET message = 'changed' WHERE event_id = 'presale'`);
    assert.equal((await events.find('presale'))!.message, (await events.findByNo(before.eventNo))!.message);
    events.forget(remembered);
    assert.equal((await events.findByNo(before.eventNo))!.message, 'changed');
  });

  test('guessing codes slows down the guesser and its address, and no buyer who has an accepted code', async () => {
    const made = await call('POST', '/events/kinds/codes', {
      label: 'Guessed at',
      categories: [locked],
      codes: [{ code: 'FANS2026', usesMax: 5 }],
    });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    const show = (buyer: TestBuyer, code: string, address: string, event = 'kinds') =>
      buyer.post(`/api/events/${event}/code`, { code }, { 'x-forwarded-for': address });
    const home = '198.51.100.20';
    const fan = await admitted('kinds');
    assert.equal((await show(fan, 'fans 2026', home)).status, 200);

    // One visitor, all at once: the sixth is the last one without a wait, and the ninth would wait for 17 s.
    const guesser = await admitted('kinds');
    const guesses = Array.from({ length: 9 }, (_, n) => show(guesser, `guess${n}`, '198.51.100.21'));
    const last = await Promise.any(
      guesses.map(async (guess) => ((await guess).status === 429 ? await guess : Promise.reject())),
    );
    assert.deepEqual([last.body.code, last.body.field], ['too_many_requests', '/code']);
    assert.ok(last.body.retryAfterMs <= 10_000, `${last.body.retryAfterMs} ms: seconds, never minutes`);
    assert.equal(last.body.retryAfterMs % 1_000, 0, 'whole seconds');

    // An address with 21 wrong codes of as many visitors.
    const wrong = await Promise.all(
      Array.from({ length: 21 }, async (_, n) => show(await admitted('kinds'), `wrong${n}`, home)),
    );
    assert.deepEqual(new Set(wrong.map(({ body }) => body.code)), new Set(['code_unknown']));
    const before = systemClock.monotonic();
    assert.equal((await show(fan, 'FANS2026', home)).status, 200, 'an accepted code is never throttled');
    const held = await hold(fan, 'kinds', { best: { quantity: 1, category: locked } });
    assert.equal(held.status, 201, JSON.stringify(held.body));
    const other = await show(await admitted('kinds'), 'wrong', home, 'presale');
    assert.equal(other.body.code, 'code_unknown', 'each event has its own count');
    const quick = systemClock.monotonic() - before;
    const late = await show(await admitted('kinds'), 'FANS2026', home);
    assert.equal(late.status, 200, 'a new visitor of a spent address waits for some seconds');
    const waited = systemClock.monotonic() - before;
    assert.ok(waited - quick > 500, `${quick} and ${waited} ms`);

    // A cookie that we did not sign opens nothing, and is no way to try codes.
    const forger = await admitted('kinds');
    for (const text of ['FANS2026', app.credentials.signAcceptedCode('FANS2026', app.eventNo)]) {
      forger.cookies.set('onsale_code_kinds', text);
      const refused = await hold(forger, 'kinds', { best: { quantity: 1, category: locked } });
      assert.deepEqual([refused.status, refused.body.code], [403, 'code_required'], text);
    }
    // The rest waits until the application stops.
    for (const one of guesses) one.catch(() => {});
  });
});
