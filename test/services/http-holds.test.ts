import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Layout } from '../../src/core/seat-map.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { startTestApp, type TestApp, testScope, until } from '../support/app.ts';
import type { Answer, TestBuyer } from '../support/buyer.ts';

let app: TestApp;
let nextSeat = 100;
const seats = (count: number): number[] => Array.from({ length: count }, () => nextSeat++);
const outcome = ({ status, body }: Answer) => [status, body.code];
const holds = '/api/events/show/holds';

describe('holds and the line over HTTP', () => {
  const scope = testScope();
  before(async () => {
    app = await startTestApp(scope, { seats: 600, settings: { accountSeatsMax: 4 } });
  });
  after(() => scope.close());

  test('W1: a repeat join that brings its ticket returns the same number', async () => {
    const buyer = app.buyer();
    const first = await buyer.join();
    assert.equal(first.status, 200);
    assert.equal(first.body.repeated, false);
    const again = await buyer.join();
    assert.deepEqual([again.body.number, again.body.repeated], [first.body.number, true]);
    buyer.cookies.delete('onsale_ticket');
    assert.equal((await buyer.join()).body.number, first.body.number, 'the store remembers it for a minute');
    assert.ok((await app.buyer().join()).body.number > first.body.number);
  });

  test('the visitor cookie is HttpOnly, Lax, long-lived, for the whole site, and replaced when it is none of ours', async () => {
    const buyer = app.buyer();
    buyer.cookies.set('onsale_visitor', 'nonsense');
    const answer = await buyer.post('/api/events/show/queue');
    assert.deepEqual(outcome(answer), [428, 'cookie_required']);
    const [cookie = ''] = answer.headers.getSetCookie();
    for (const part of ['HttpOnly', 'SameSite=Lax', 'Path=/']) assert.ok(cookie.includes(part), cookie);
    assert.ok(Number(/Max-Age=(\d+)/.exec(cookie)?.[1]) > 300 * 24 * 3600);
    assert.doesNotMatch(cookie, /Secure/, 'not on a plain http address');
  });

  test('W2: forged, altered, foreign and copied tickets and passes are refused', async () => {
    const owner = app.buyer();
    const ticket = (await owner.join()).body.ticket as string;
    const thief = app.buyer();
    await thief.join();
    const passOf = (buyer: TestBuyer, text: unknown) => buyer.post('/api/events/show/pass', { ticket: text });
    for (const text of [`${ticket.slice(0, -2)}AA`, 'x', '', ticket.toUpperCase(), `${ticket}A`]) {
      const answer = await passOf(owner, text);
      // An empty ticket is none: the one in the cookie would be taken.
      assert.ok(
        text === '' || answer.body.code === 'ticket_refused',
        `${text}: ${JSON.stringify(answer.body)}`,
      );
    }
    assert.deepEqual(outcome(await passOf(thief, ticket)), [403, 'ticket_refused'], 'a copy');
    const bare = app.buyer();
    assert.deepEqual(outcome(await passOf(bare, ticket)), [403, 'ticket_refused'], 'without any cookie');

    const admitted = await app.admitted();
    const { pass } = admitted;
    const wanted = seats(1);
    for (const text of ['x', '', `${pass.slice(0, -2)}AA`, ticket]) {
      admitted.pass = text;
      assert.deepEqual(outcome(await admitted.hold(wanted)), [403, 'pass_refused'], text);
    }
    thief.pass = pass;
    assert.deepEqual(outcome(await thief.hold(wanted)), [403, 'pass_refused'], 'a copy');
    const visitor = app.credentials.visitorOf(admitted.cookies.get('onsale_visitor') ?? '')!;
    const issued = { passId: systemRandom.uuid(), visitor, number: 1, issuedAt: 0 };
    const later = systemClock.now() + 60_000;
    admitted.pass = app.credentials.signPass({ ...issued, event: app.eventNo + 1, expiresAt: later });
    assert.deepEqual(outcome(await admitted.hold(wanted)), [403, 'pass_refused'], 'of another event');
    admitted.pass = app.credentials.signPass({ ...issued, event: app.eventNo, expiresAt: 1 });
    assert.deepEqual(outcome(await admitted.hold(wanted)), [403, 'pass_expired']);
    admitted.pass = pass;
    assert.equal((await admitted.hold(wanted)).status, 201);
  });

  test('W3: the pass is issued once; a repeat returns the same one', async () => {
    const buyer = app.buyer();
    await buyer.admit();
    const again = await buyer.post('/api/events/show/pass', {});
    assert.deepEqual([again.status, again.body.pass], [200, buyer.pass]);
  });

  test('W3: when the session is over by the store, the ticket is dropped and a new number is drawn', async () => {
    const buyer = app.buyer();
    await buyer.admit();
    const first = (await buyer.join()).body.number;
    await app.database.query(
      `UPDATE passes SET expires_at = clock_timestamp() WHERE event_no = $1 AND number = $2`,
      [app.eventNo, first],
    );
    await app.database.query('DELETE FROM queue_recent WHERE event_no = $1', [app.eventNo]);
    const over = await buyer.post('/api/events/show/pass', {});
    assert.deepEqual(outcome(over), [403, 'pass_expired']);
    assert.match(over.headers.getSetCookie().join(), /onsale_ticket=;/);
    buyer.cookies.delete('onsale_ticket');
    assert.ok((await buyer.join()).body.number > first);
  });

  test('a pass without any ticket names the missing field', async () => {
    const buyer = app.buyer();
    const answer = await buyer.post('/api/events/show/pass', {});
    assert.deepEqual([...outcome(answer), answer.body.field], [400, 'invalid_field', '/ticket']);
  });

  test('Idempotency-Key: required, printable, and its repeat is the same hold whatever the order of seats', async () => {
    const buyer = await app.admitted();
    const [a, b] = seats(2) as [number, number];
    const body = { pass: buyer.pass, seats: [{ seat: a }, { seat: b }] };
    const missing = await buyer.post(holds, body);
    assert.deepEqual(outcome(missing), [400, 'idempotency_key_required']);
    for (const key of ['x'.repeat(201), 'a\tb', 'ü', ' ']) {
      const answer = await buyer.post(holds, body, { 'idempotency-key': key }).catch(() => null);
      // Some of these fetch itself trims or does not send.
      if (!answer) continue;
      assert.equal(answer.status, 400, key);
      assert.equal(answer.body.field, 'Idempotency-Key');
    }
    const first = await buyer.hold([a, b], { key: 'one' });
    assert.equal(first.status, 201);
    const repeat = await buyer.hold([b, a], { key: 'one' });
    assert.deepEqual([repeat.status, repeat.body.hold], [200, first.body.hold]);
    assert.deepEqual(outcome(await buyer.hold([a], { key: 'one' })), [422, 'idempotency_mismatch']);
  });

  test('a repeated best-available request is the same hold, whatever is best by then', async () => {
    const buyer = await app.admitted();
    const first = await buyer.best({ quantity: 3 }, { key: 'best' });
    assert.equal(first.status, 201, JSON.stringify(first.body));
    const repeat = await buyer.best({ quantity: 3 }, { key: 'best' });
    assert.deepEqual([repeat.status, repeat.body.hold], [200, first.body.hold]);
    assert.deepEqual(outcome(await buyer.best({ quantity: 2 }, { key: 'best' })), [
      422,
      'idempotency_mismatch',
    ]);
  });

  test('S2: one taken seat refuses the whole set, names it and offers the nearest free ones', async () => {
    const wanted = seats(3);
    await (await app.admitted()).mustHold([wanted[1]!]);
    await until(async () => {
      const bits = (await app.buyer().get('/api/events/show/availability')).body as Buffer;
      return ((bits[wanted[1]! >> 3]! >> (wanted[1]! & 7)) & 1) === 0;
    }, 'the published availability');
    const buyer = await app.admitted();
    const refused = await buyer.hold(wanted);
    assert.deepEqual([...outcome(refused), refused.body.seats], [409, 'taken', [wanted[1]]]);
    const nearest = (refused.body.nearest as { seat: number }[]).map(({ seat }) => seat);
    assert.equal(nearest.length, 3);
    assert.ok(!nearest.includes(wanted[1]!));
    assert.equal((await buyer.hold(nearest)).status, 201, 'they are free');
    // The next one who is refused the same seats is not sent to those that have just gone.
    const next = await app.admitted();
    const offered = (await next.hold(wanted)).body.nearest as { seat: number }[];
    const again = offered.map(({ seat }) => seat);
    assert.ok(again.length === 3 && !again.some((seat) => nearest.includes(seat)), `${again}`);
  });

  test('one live hold: the same set again is the same hold, another needs `replaces`', async () => {
    const buyer = await app.admitted();
    const [a, b, c] = seats(3) as [number, number, number];
    const first = await buyer.mustHold([a, b]);
    const same = await buyer.hold([a, b]);
    assert.deepEqual([same.status, same.body.hold], [200, first.hold]);
    const other = await buyer.hold([b, c]);
    assert.deepEqual([...outcome(other), other.body.hold], [409, 'hold_exists', first.hold]);
    const swapped = await buyer.hold([b, c], { replaces: first.hold });
    assert.equal(swapped.status, 201, JSON.stringify(swapped.body));
    assert.equal(swapped.body.expiresAt, first.expiresAt, 'S6: the deadline is not moved');
    assert.equal((await (await app.admitted()).hold([a])).status, 201, 'the seat that was given up is free');
    assert.deepEqual(outcome(await buyer.get(`/api/holds/${first.hold}`)), [410, 'hold_gone']);
  });

  test('a hold changed long after its grant delays no other claim', async () => {
    const changer = await app.admitted();
    const [a, b, c] = seats(3) as [number, number, number];
    const { hold } = await changer.mustHold([a]);
    await app.database.query(
      `UPDATE holds SET granted_at = granted_at - interval '5 minutes' WHERE hold_id = $1`,
      [hold],
    );
    assert.equal((await changer.hold([b], { replaces: hold })).status, 201);
    assert.deepEqual(outcome(await (await app.admitted()).hold([c])), [201, undefined]);
  });

  test('S5: release gives the seats back, twice is once, and a released hold becomes no order', async () => {
    const buyer = await app.admitted();
    const wanted = seats(2);
    const hold = await buyer.mustHold(wanted);
    assert.equal((await buyer.get(`/api/holds/${hold.hold}`)).body.expiresAt, hold.expiresAt);
    for (const _ of [1, 2]) {
      assert.equal((await buyer.request('DELETE', `/api/holds/${hold.hold}`)).status, 204);
    }
    assert.deepEqual(outcome(await buyer.order(hold.hold)), [410, 'hold_gone']);
    const recover = await buyer.post(`/api/holds/${hold.hold}/recover`, { receipt: hold.receipt });
    assert.deepEqual(outcome(recover), [410, 'hold_gone']);
    await (await app.admitted()).mustBuy(wanted);
  });

  test('a receipt returns its hold as it is, and no other', async () => {
    const buyer = await app.admitted();
    const hold = await buyer.mustHold(seats(1));
    const place = `/api/holds/${hold.hold}/recover`;
    const shown = await buyer.post(place, { receipt: hold.receipt });
    assert.deepEqual([shown.status, shown.body.expiresAt], [200, hold.expiresAt]);
    const altered = await buyer.post(place, { receipt: `${hold.receipt.slice(0, -2)}AA` });
    assert.deepEqual(outcome(altered), [403, 'receipt_refused']);
    const other = await app.admitted();
    const theirs = await other.mustHold(seats(1));
    assert.deepEqual(outcome(await buyer.post(place, { receipt: theirs.receipt })), [403, 'receipt_refused']);
  });

  test('a hold that became an order refuses release and says where to go on', async () => {
    const buyer = await app.admitted();
    const hold = await buyer.mustHold(seats(1));
    const { order } = (await buyer.order(hold.hold)).body;
    const seen = await buyer.get(`/api/holds/${hold.hold}`);
    assert.equal(seen.body.order, order, JSON.stringify(seen.body));
    const released = await buyer.request('DELETE', `/api/holds/${hold.hold}`);
    assert.deepEqual([...outcome(released), released.body.order], [409, 'hold_ordered', order]);
    assert.equal(
      (await buyer.get(`/api/orders/${order}`)).body.state,
      'reserved',
      'the order keeps its seats',
    );
  });

  test('seats are named by number or by guid; unknown, repeated and too many are refused by field', async () => {
    const buyer = await app.admitted();
    const first = await buyer.mustHold(seats(1));
    const { guid } = first.seats[0]!;
    const same = await buyer.hold([guid]);
    assert.deepEqual([same.status, same.body.hold], [200, first.hold]);
    const fresh = await app.admitted();
    for (const [list, code, field] of [
      [[600], 'unknown_seat', '/seats/0/seat'],
      [['no such seat'], 'unknown_seat', '/seats/0/seat'],
      [['__proto__'], 'unknown_seat', '/seats/0/seat'],
      [[200, 200], 'invalid_field', '/seats/1/seat'],
      [[], 'invalid_field', '/seats'],
    ] as const) {
      const answer = await fresh.hold([...list]);
      assert.deepEqual([...outcome(answer), answer.body.field], [400, code, field], JSON.stringify(list));
    }
    assert.deepEqual(outcome(await fresh.hold(seats(7))), [409, 'hold_quota']);
    assert.deepEqual(outcome(await fresh.best({ quantity: 7 })), [409, 'hold_quota']);
    for (const [best, field] of [
      [{ quantity: 1, category: 'none' }, '/best/category'],
      [{ quantity: 1, category: '__proto__' }, '/best/category'],
      [{ quantity: 1, section: 'none' }, '/best/section'],
      [{ quantity: 1, kinds: ['child'] }, '/best/kinds/0'],
      [{ quantity: 0 }, '/best/quantity'],
    ] as const) {
      const answer = await fresh.best(best);
      assert.deepEqual([...outcome(answer), answer.body.field], [400, 'invalid_field', field]);
    }
  });

  test('S2: general admission: any units of the area, each one a seat, and as many as asked', async () => {
    const { layout: place } = (await app.buyer().get('/api/events/show')).body;
    const { sections } = (await app.buyer().get(place)).body as Layout;
    const area = sections.find(({ kind }) => kind === 'ga');
    assert.ok(area, 'the demo stadium has a standing area');
    const units = new Set(
      area.seats.flatMap(([first, count]) => Array.from({ length: count }, (_, i) => first + i)),
    );
    const holds = await Promise.all(
      [1, 2, 3, 4].map(async () => await (await app.admitted()).best({ quantity: 3, section: area.id })),
    );
    const held = holds.flatMap(({ status, body }) => {
      assert.equal(status, 201, JSON.stringify(body));
      assert.equal(body.asAsked, true);
      return body.seats.map(({ seat }) => seat);
    });
    assert.equal(new Set(held).size, 12, 'no unit twice');
    for (const seat of held) assert.ok(units.has(seat));
  });

  test('P7: an account buys no more seats of an event than the limit', async () => {
    const mail = { name: 'One Person', email: 'one@example.org' };
    const first = await app.admitted();
    const bought = await first.order((await first.mustHold(seats(4))).hold, mail);
    assert.equal((await first.pay(bought.body.order)).status, 200);
    const second = await app.admitted();
    const upper = { ...mail, email: ' ONE@Example.org ' };
    const refused = await second.order((await second.mustHold(seats(1))).hold, upper);
    assert.deepEqual([...outcome(refused), refused.body.max], [409, 'account_limit', 4]);
  });

  test('P7: seats whose order was refused for a limit stay a basket: shown without an order, exchanged for fewer, given back', async () => {
    const buyer = await app.admitted();
    const person = { name: 'One Person', email: 'five-seats@example.org' };
    const held = await buyer.mustHold(seats(5));
    assert.deepEqual(outcome(await buyer.order(held.hold, person)), [409, 'account_limit']);
    const shown = await buyer.get(`/api/holds/${held.hold}`);
    assert.deepEqual([shown.status, shown.body.order ?? null, shown.body.seats.length], [200, null, 5]);
    const again = await buyer.hold(seats(1));
    const theirs = again.body.held as { order?: string };
    assert.deepEqual([...outcome(again), theirs.order ?? null], [409, 'hold_exists', null]);

    const fewer = held.seats.slice(0, 3).map(({ seat }) => seat);
    const exchanged = await buyer.hold(fewer, { replaces: held.hold });
    assert.equal(exchanged.status, 201, JSON.stringify(exchanged.body));
    assert.deepEqual(
      exchanged.body.seats.map(({ seat }) => seat),
      [...fewer].sort((a, b) => a - b),
    );
    const ordered = await buyer.order(exchanged.body.hold, person);
    assert.equal(ordered.status, 201, JSON.stringify(ordered.body));

    const other = await app.admitted();
    const back = await other.mustHold(seats(5));
    assert.equal((await other.order(back.hold, { ...person, email: 'six@example.org' })).status, 409);
    assert.equal((await other.request('DELETE', `/api/holds/${back.hold}`)).status, 204);
    assert.equal((await (await app.admitted()).hold(back.seats.map(({ seat }) => seat))).status, 201);
  });

  test('the buyer: names of any script, sane addresses', async () => {
    const buyer = await app.admitted();
    const { hold } = await buyer.mustHold(seats(1));
    for (const [name, email, field] of [
      ['', 'a@example.org', '/buyer/name'],
      ['   ', 'a@example.org', '/buyer/name'],
      ['x'.repeat(201), 'a@example.org', '/buyer/name'],
      ['a\u0007b', 'a@example.org', '/buyer/name'],
      ['a\u202eb', 'a@example.org', '/buyer/name'],
      ['Ada', 'a', '/buyer/email'],
      ['Ada', 'a@b', '/buyer/email'],
      ['Ada', 'a b@example.org', '/buyer/email'],
      ['Ada', `${'x'.repeat(64)}@${'y'.repeat(200)}.org`, '/buyer/email'],
      ['Ada', 'a@example.org\r\nBcc: all@example.org', '/buyer/email'],
    ] as const) {
      const answer = await buyer.order(hold, { name, email });
      assert.deepEqual(
        [...outcome(answer), answer.body.field],
        [400, 'invalid_field', field],
        `${name} ${email}`,
      );
    }
    const ordered = await buyer.order(hold, { name: '  Þórbjörg 买家甲 👩‍🎤 ', email: 'þór@exämple.org' });
    assert.equal(ordered.status, 201, JSON.stringify(ordered.body));
    assert.equal(ordered.body.buyer.name, 'Þórbjörg 买家甲 👩‍🎤');
  });

  test('phases: paused refuses passes and holds, a live hold is still paid; closed says so', async () => {
    const buyer = await app.admitted();
    const { hold } = await buyer.mustHold(seats(1));
    const waiting = app.buyer();
    const joined = await waiting.join();
    assert.equal(joined.status, 200);
    const turn = async (phase: 'paused' | 'open' | 'closed'): Promise<void> => {
      const event = (await app.app.events.list())[0]!;
      const command = { event, actor: 'test', expectedVersion: event.version, phase };
      assert.equal((await app.app.events.changeOnSale(command)).kind, 'changed');
    };
    await turn('paused');
    assert.deepEqual(outcome(await waiting.post('/api/events/show/pass', {})), [409, 'paused']);
    assert.deepEqual(outcome(await (await app.admitted()).hold(seats(1))), [409, 'paused']);
    const ordered = await buyer.order(hold);
    assert.equal(ordered.status, 201);
    assert.equal((await buyer.pay(ordered.body.order)).status, 200);
    await turn('open');
    await turn('closed');
    assert.deepEqual(outcome(await (await app.admitted()).hold(seats(1))), [410, 'sale_closed']);
    assert.deepEqual(outcome(await app.buyer().join()), [410, 'sale_closed']);
  });
});
