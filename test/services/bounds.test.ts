import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { addressSeatsNow, newEventLimits, noLimits } from '../../src/core/limits.ts';
import { createPace } from '../../src/http/pace.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { type Buyer, createBuyer } from '../../tools/crowd/buyer.ts';
import { createHttpClients, type HttpClients } from '../../tools/crowd/http-client.ts';
import { startTestApp, type TestApp, testScope, until } from '../support/app.ts';
import { createTestBuyer, type TestBuyer } from '../support/buyer.ts';

/** The limits of a new event, and the seats that a script with many cookie jars gets under them. */
const limits = newEventLimits(6);

const tally = (codes: readonly (string | undefined)[]) =>
  codes.reduce<Record<string, number>>((sum, code = '') => {
    sum[code] = (sum[code] ?? 0) + 1;
    return sum;
  }, {});

const seatsFrom = (first: number, count: number) => Array.from({ length: count }, (_, i) => first + i);

describe('bounds of a new event', () => {
  let app: TestApp;
  let organiser: TestBuyer;
  const scope = testScope();
  test.before(async () => {
    app = await startTestApp(scope, { seats: 400, settings: limits });
    organiser = createTestBuyer(app.url, 'none');
    assert.equal((await organiser.post('/api/organiser/sessions', app.app.organiser)).status, 200);
  });
  test.after(() => scope.close());

  const visitorOf = (cookies: string) =>
    app.credentials.visitorOf(/onsale_visitor=([^;]+)/.exec(cookies)?.[1] ?? '')!;

  /** A browser at another address of this machine, with a pass. */
  async function elsewhere(clients: HttpClients): Promise<{ buyer: Buyer; pass: string }> {
    const buyer = createBuyer(clients.browser(), app.event, systemRandom);
    await buyer.client.request('POST', `/api/events/${app.event}/queue`, { body: {} });
    const issuedAt = Date.now();
    const visitor = visitorOf(buyer.client.cookies());
    const pass = { event: app.eventNo, visitor, passId: randomUUID(), number: 1, issuedAt };
    return { buyer, pass: app.credentials.signPass({ ...pass, expiresAt: issuedAt + 900_000 }) };
  }

  async function exceptBuyer(reference: unknown): Promise<void> {
    const allowed = await organiser.post(`/api/organiser/events/${app.event}/limits/allowances`, {
      visitor: reference,
      reason: 'called us',
    });
    assert.equal(allowed.status, 201, JSON.stringify(allowed.body));
  }

  test('twenty cookie jars at one address hold 48 seats and not 120; another address and an excepted buyer are not concerned', async (t) => {
    const jars = await Promise.all(seatsFrom(0, 20).map(() => app.admitted()));
    const answers = await Promise.all(jars.map((jar, i) => jar.hold(seatsFrom(i * 6, 6))));
    assert.deepEqual(tally(answers.map(({ body }) => body.code)), { '': 8, address_limit: 12 });
    const nth = answers.findIndex(({ status }) => status === 429);
    const { body, headers } = answers[nth]!;
    assert.deepEqual([body.used, body.max], [48, 48]);
    assert.equal(headers.get('retry-after'), '30');
    assert.equal(body.retryAfterMs, 30_000);

    const clients = createHttpClients({ url: app.url, clock: systemClock, addresses: ['127.0.0.7'] });
    t.after(async () => clients.close());
    const other = await elsewhere(clients);
    assert.equal((await other.buyer.holdSeats(other.pass, [300])).status, 201, 'another address');

    const cookie = jars[nth]!.cookies.get('onsale_visitor')!;
    assert.equal(body.reference, app.credentials.visitorOf(cookie), 'the reference names the browser');
    await exceptBuyer(body.reference);
    const excepted = await jars[nth]!.hold([290]);
    assert.equal(excepted.status, 201, JSON.stringify(excepted.body));

    // Seats that are given back are free for the neighbours.
    const held = answers.findIndex(({ status }) => status === 201);
    await jars[held]!.request('DELETE', `/api/holds/${answers[held]!.body.hold}`);
    await jars.at(-1)!.request('DELETE', `/api/holds/${excepted.body.hold}`);
    const neighbour = await app.admitted();
    assert.equal((await neighbour.hold(seatsFrom(310, 5))).status, 201);
  });

  test('one script draws 30 queue numbers at once and not 60, and learns when to come back', async (t) => {
    const clients = createHttpClients({ url: app.url, clock: systemClock, addresses: ['127.0.0.8'] });
    t.after(async () => clients.close());
    const joins = await Promise.all(
      seatsFrom(0, 60).map(() => createBuyer(clients.browser(), app.event, systemRandom).join()),
    );
    const drawn = joins.filter(({ status }) => status === 200).length;
    // The bucket fills by one every two seconds.
    assert.ok(drawn >= 30 && drawn <= 40, `${drawn} places`);
    const refused = joins.find(({ status }) => status === 429)!;
    assert.equal(refused.body.code, 'too_many_joins');
    assert.equal(Number(refused.body.retryAfterMs) % 1_000, 0, 'whole seconds');
    assert.equal(Number(refused.headers['retry-after']) * 1_000, refused.body.retryAfterMs);
  });

  test('one session sends 120 claims: 30 are looked at, the others told to wait; its hold stays', async (t) => {
    const clients = createHttpClients({ url: app.url, clock: systemClock, addresses: ['127.0.0.9'] });
    t.after(async () => clients.close());
    const { buyer, pass } = await elsewhere(clients);
    const held = await buyer.holdSeats(pass, [200]);
    assert.equal(held.status, 201, JSON.stringify(held.body));
    const claims = await Promise.all(seatsFrom(0, 120).map((n) => buyer.holdSeats(pass, [201 + n])));
    const codes = tally(claims.map(({ body }) => body.code));
    const looked = 120 - (codes.too_many_claims ?? 0);
    assert.ok(looked >= 29 && looked <= 40, JSON.stringify(codes));
    assert.equal((await buyer.hold(held.body.hold)).status, 200);
  });

  test('one browser, address and card buys 12 seats and not 24, then one more hold lapses sooner; each refusal has a reference', async (t) => {
    const clients = createHttpClients({ url: app.url, clock: systemClock, addresses: ['127.0.0.10'] });
    t.after(async () => clients.close());
    const { buyer, pass } = await elsewhere(clients);
    const me = { name: 'Any Buyer', email: 'me@example.org' };
    const card = 'pm_card_mastercard_7';
    for (const first of [100, 106]) {
      const { body: held } = await buyer.holdSeats(pass, seatsFrom(first, 6));
      const { body: order } = await buyer.order(held.hold, me);
      const paid = await buyer.pay(order.order, card);
      assert.equal(paid.status, 200, JSON.stringify(paid.body));
    }
    const reference = visitorOf(buyer.client.cookies());
    const third = await buyer.holdSeats(pass, [112]);
    const sameAddress = await buyer.order(third.body.hold, me);
    assert.deepEqual([sameAddress.status, sameAddress.body.code], [409, 'account_limit']);
    assert.equal(sameAddress.body.reference, reference);
    const newAddress = await buyer.order(third.body.hold, { name: 'Any Buyer', email: 'new@example.org' });
    assert.deepEqual([newAddress.status, newAddress.body.code], [409, 'visitor_limit']);
    assert.deepEqual(
      [newAddress.body.max, newAddress.body.used, newAddress.body.reference],
      [12, 12, reference],
    );
    await buyer.release(third.body.hold);

    // A new browser and a new mailbox, the same card.
    const fresh = await elsewhere(clients);
    const held = await fresh.buyer.holdSeats(fresh.pass, [113]);
    const { body: order } = await fresh.buyer.order(held.body.hold);
    const refused = await fresh.buyer.pay(order.order, card);
    assert.deepEqual([refused.body.code, refused.body.reason], ['order_ended', 'card_limit']);
    assert.equal(refused.body.reference, visitorOf(fresh.buyer.client.cookies()));
    await exceptBuyer(reference);
    const standing = (await organiser.get(`/api/organiser/events/${app.event}/limits/buyers/${reference}`))
      .body;
    assert.deepEqual(
      [standing.bought, standing.unpaid, standing.excepted, standing.orders.length],
      [12, 0, true, 3],
    );
    const again = await buyer.holdSeats(pass, [112]);
    const lifted = await buyer.order(again.body.hold, me);
    assert.equal(lifted.status, 201, JSON.stringify(lifted.body));
  });

  test('whose hold ended unpaid gets no second term with an order, and an address whose holds end unpaid gets fewer seats at once', async (t) => {
    const address = '127.0.0.11';
    const clients = createHttpClients({ url: app.url, clock: systemClock, addresses: [address] });
    t.after(async () => clients.close());
    const { buyer, pass } = await elsewhere(clients);
    const first = await buyer.holdSeats(pass, [120]);
    const { body: ordered } = await buyer.order(first.body.hold);
    const termOf = ({ paymentDeadline, serverTime }: typeof ordered) =>
      Math.round((Date.parse(paymentDeadline) - Date.parse(serverTime)) / 60_000);
    assert.equal(termOf(ordered), 10, 'the first order has ten minutes');
    // Held for minutes, and then left.
    const id = app.credentials.addressIdOf(app.eventNo, address);
    await until(async () => {
      const noted = await app.database.query(
        `UPDATE hold_ends SET granted_at = now() - interval '5 minutes' WHERE hold_id = $1 RETURNING address`,
        [first.body.hold],
      );
      return noted[0]?.address === id;
    }, 'a note of the hold and its address');
    assert.equal((await buyer.closeOrder(ordered.order)).status, 200);
    const counted = async () =>
      (
        await app.database.query(`SELECT unpaid FROM cooldowns WHERE kind = 'address' AND subject = $1`, [id])
      )[0]?.unpaid;
    await until(async () => (await counted()) === 1, 'the count of the address');
    // The lease of a hold that is nearly over: its order goes on with what is left, five minutes at least.
    const second = await buyer.holdSeats(pass, [121]);
    await app.database.query(
      `WITH h AS (UPDATE holds SET deadline = now() + interval '1 minute' WHERE hold_id = $1 RETURNING deadline)
       UPDATE seats SET hold_until = h.deadline FROM h WHERE hold_id = $1`,
      [second.body.hold],
    );
    const again = await buyer.order(second.body.hold);
    assert.equal(again.status, 201, JSON.stringify(again.body));
    assert.equal(termOf(again.body), 5, 'no second term');
    assert.equal((await buyer.closeOrder(again.body.order)).status, 200);

    // Ten jars that never paid: the next ones share what is left of the address.
    await app.database.query(
      `INSERT INTO hold_ends (event_no, hold_id, visitor, address, granted_at, ends_at)
       SELECT $1, gen_random_uuid(), 'jar ' || n, $2, now() - interval '5 minutes', now() FROM generate_series(1, 18) n`,
      [app.eventNo, id],
    );
    const keeper = await elsewhere(clients);
    assert.equal((await keeper.buyer.holdSeats(keeper.pass, seatsFrom(130, 5))).status, 201);
    await until(async () => {
      const jar = await elsewhere(clients);
      const { status, body } = await jar.buyer.holdSeats(jar.pass, [140, 141]);
      if (status === 201) await jar.buyer.release(body.hold);
      return body.code === 'address_limit' && body.max === 6;
    }, 'fewer seats at once');
  });
});

test('an address is never locked, and each six unpaid holds halve its seats', () => {
  const settings = { ...noLimits, holdSeatsMax: 6, addressSeatsMax: 48 };
  const now = [0, 5, 6, 12, 18, 1_000].map((unpaid) => addressSeatsNow(settings, unpaid));
  assert.deepEqual(now, [48, 48, 24, 12, 6, 6]);
  assert.equal(addressSeatsNow({ ...settings, addressSeatsMax: 2 }, 50), 2);
});

test('turns come back over a minute, and no number of keys takes more memory than was said', () => {
  let now = 0;
  const pace = createPace({ clock: { monotonic: () => now }, limit: 100 });
  const take = (key: string) => pace.take(key, 2);
  assert.deepEqual([take('a'), take('a'), take('a')], [0, 0, 30_000]);
  now = 30_000;
  assert.deepEqual([take('a'), take('a')], [0, 30_000]);
  for (let n = 0; n < 1_000; n += 1) take(`key ${n}`);
  assert.equal(take('a'), 0, 'the key that was used longest ago is forgotten first');
});
