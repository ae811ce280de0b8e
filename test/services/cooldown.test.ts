import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { createCooldowns, judgeHoldEnds } from '../../src/orders/cooldowns.ts';
import { allowBuyer } from '../../src/orders/limits.ts';
import { createDb } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { startTestApp, type TestApp, testScope, until } from '../support/app.ts';
import { createTestBuyer, type TestBuyer } from '../support/buyer.ts';
import { testLoops } from '../support/loops.ts';
import { testDatabase } from '../support/postgres.ts';
import { holdOf, stageEvent } from '../support/stage.ts';

const cooldown = { afterUnpaid: 2, firstMs: 60_000, maxMs: 150_000, forgetMs: 3_600_000 };

test('holds that end unpaid one after the other bring a growing cooldown; paying, faults of ours and a changed mind do not', async (t) => {
  const database = await testDatabase(t);
  const db = createDb({ url: database.url, poolSize: 4, clock: systemClock, log: silentLogger });
  t.after(() => db.close());
  const { event, epoch } = await stageEvent(database, { settings: { cooldown } });

  /** A hold that was granted five minutes ago and ends now, with what became of it. */
  async function ended(
    visitor: string,
    became?: { state: string; reason?: string },
    account?: string,
    more: { address?: string; quick?: boolean } = {},
  ): Promise<void> {
    const hold = randomUUID();
    await database.query(
      `INSERT INTO hold_ends (event_no, hold_id, visitor, account, granted_at, ends_at, address, quick)
       VALUES ($1, $2, $3, $4, now() - interval '5 minutes', now(), $5, $6)`,
      [event, hold, visitor, account ?? null, more.address ?? null, more.quick ?? false],
    );
    if (became) {
      await database.query(
        `INSERT INTO orders (order_id, event_no, hold_id, visitor, holder, account, buyer, seats, lines, amount, currency, state,
                             reason, payment_deadline)
         VALUES ($1, $2, $3, $4, $4, 'a', '{}', '{}', '[]', 0, 'EUR', $5, $6, now())`,
        [randomUUID(), event, hold, visitor, became.state, became.reason ?? null],
      );
    }
    assert.equal(await judgeHoldEnds(db), 1);
  }
  /** Seconds of the cooldown, and the holds counted. */
  async function of(subject: string, kind = 'visitor'): Promise<[seconds: number | null, unpaid: number]> {
    const [row] = await database.query(
      `SELECT round(extract(epoch FROM until - last_at))::integer AS seconds, unpaid FROM cooldowns
       WHERE event_no = $1 AND kind = $2 AND subject = $3`,
      [event, kind, subject],
    );
    return row ? [row.seconds, row.unpaid] : [null, 0];
  }

  // Cookies that are thrown away: their address goes on counting, a purchase from it halves that.
  for (let jar = 0; jar < 5; jar += 1) await ended(`jar ${jar}`, undefined, undefined, { address: 'home' });
  assert.deepEqual(await of('home', 'address'), [3_600, 5]);
  await ended('neighbour', { state: 'paid' }, undefined, { address: 'home' });
  assert.equal((await of('home', 'address'))[1], 2);
  for (const unpaid of [0, 0, 1, 1]) {
    await ended('quick', undefined, undefined, { address: 'office', quick: true });
    assert.deepEqual([(await of('quick'))[1], (await of('office', 'address'))[1]], [unpaid, unpaid]);
  }

  for (const expected of [null, 60, 120, 150, 150]) {
    await ended('again and again');
    assert.equal((await of('again and again'))[0], expected);
  }
  await ended('declined', { state: 'closed', reason: 'not_paid_in_time' });
  await ended('declined', { state: 'closed', reason: 'closed_by_buyer' });
  assert.deepEqual(await of('declined'), [60, 2], 'orders that end unpaid count');

  await ended('pays');
  await ended('pays', { state: 'paid' });
  await ended('pays');
  assert.deepEqual(await of('pays'), [null, 1], 'a purchase forgets what was before');

  for (const reason of ['seats_lost', 'event_cancelled', 'card_limit', 'payment_mismatch']) {
    await ended('unlucky', { state: 'closed', reason });
  }
  assert.deepEqual(await of('unlucky'), [null, 0], 'what was not his doing');

  await ended('open', { state: 'reserved' });
  assert.deepEqual(await of('open'), [null, 0]);
  const [waits] = await database.query(
    `SELECT ends_at > now() AS later FROM hold_ends WHERE visitor = 'open'`,
  );
  assert.equal(waits.later, true, 'an order that is not paid yet is looked at after its deadline');

  await ended('one browser', undefined, 'known account');
  await ended('another browser', undefined, 'known account');
  assert.deepEqual(
    await of('known account', 'account'),
    [60, 2],
    'where the account is known before holding',
  );
  assert.deepEqual(await of('one browser'), [null, 0], 'and by it alone: one exception lifts all of it');

  await ended('long ago');
  await database.query(
    `UPDATE cooldowns SET last_at = now() - interval '2 hours' WHERE subject = 'long ago'`,
  );
  await ended('long ago');
  assert.deepEqual(await of('long ago'), [null, 1], 'a quiet time forgets');

  const exception = { event, actor: 'organiser', reason: 'support', until: null };
  await allowBuyer(db, { ...exception, buyer: { visitor: 'again and again' } });
  assert.deepEqual(await of('again and again'), [null, 0], 'an exception ends it');
  await ended('again and again');
  assert.deepEqual(await of('again and again'), [null, 0], 'and keeps it away');

  // The web process's reports: grants, and their early ends.
  const book = createCooldowns({ db, clock: systemClock, log: silentLogger });
  const loops = testLoops();
  await book.start(loops);
  const stage = { event, epoch };
  const held = holdOf(stage, 'noted', [1]);
  const quick = holdOf(stage, 'noted', [2]);
  const swapped = { ...holdOf(stage, 'noted', [3]), grantedAt: Date.now() - 120_000 };
  const late = { ...holdOf(stage, 'noted', [4]), grantedAt: Date.now() - 120_000 };
  for (const hold of [held, quick, late]) book.granted(hold, null, 'home');
  book.granted(swapped, held.hold, 'home');
  book.released(event, quick.hold);
  book.released(event, late.hold);
  await loops.stop();
  await book.flush();
  const noted = await database.query(
    `SELECT hold_id, concat_ws(' ', CASE WHEN ends_at <= now() THEN 'over' END, CASE WHEN quick THEN 'quick' END) AS how
     FROM hold_ends WHERE visitor = 'noted'`,
  );
  assert.deepEqual(
    Object.fromEntries(noted.map((row) => [row.hold_id, row.how])),
    { [swapped.hold]: '', [quick.hold]: 'over quick', [late.hold]: 'over' },
    'a swap is one hold, one given back within a minute is a changed mind, one given back later ends now',
  );
});

describe('a cooldown at the page', () => {
  let app: TestApp;
  const scope = testScope();
  test.before(async () => {
    app = await startTestApp(scope, { settings: { cooldown: { ...cooldown, afterUnpaid: 1 } } });
  });
  test.after(() => scope.close());

  test('the next hold is refused with until when; repeats and exchanges go on; an exception by the reference lifts it', async () => {
    const buyer = await app.admitted();
    const first = await buyer.mustHold([1]);
    const noted = async () =>
      (await app.database.query('SELECT 1 FROM hold_ends WHERE hold_id = $1', [first.hold])).length;
    await until(async () => (await noted()) === 1, 'a note of the hold');
    assert.equal((await buyer.request('DELETE', `/api/holds/${first.hold}`)).status, 204);
    await until(async () => (await noted()) === 0, 'a changed mind to count for nothing');
    const second = await buyer.hold([2], { key: 'second' });
    assert.equal(second.status, 201);
    // A hold that the buyer had for minutes has just lapsed.
    const visitor = app.credentials.visitorOf(buyer.cookies.get('onsale_visitor') ?? '');
    await app.database.query(
      `INSERT INTO hold_ends (event_no, hold_id, visitor, granted_at, ends_at)
       VALUES ($1, gen_random_uuid(), $2, now() - interval '5 minutes', now())`,
      [app.eventNo, visitor],
    );
    let refused = await buyer.hold([9]);
    await until(async () => {
      refused = await buyer.hold([9]);
      return refused.body.code === 'cooldown';
    }, 'a cooldown');
    assert.equal(refused.status, 409);
    const left = Date.parse(String(refused.body.until)) - Date.now();
    assert.ok(left > 30_000 && left < 130_000, `until ${refused.body.until}`);
    assert.equal(refused.body.reference, visitor);
    assert.ok(Number(refused.headers.get('retry-after')) > 30);

    assert.equal((await buyer.hold([2], { key: 'second' })).status, 200, 'a repeat is the same hold');
    const swapped = await buyer.hold([3], { replaces: second.body.hold });
    assert.equal(swapped.status, 201, 'what is held may be exchanged');
    assert.equal((await buyer.get(`/api/holds/${swapped.body.hold}`)).status, 200);
    const other = await app.admitted();
    assert.equal((await other.hold([30])).status, 201, 'nobody else waits');

    await buyer.request('DELETE', `/api/holds/${swapped.body.hold}`);
    const organiser = createTestBuyer(app.url, 'none');
    const { email, password } = app.app.organiser;
    assert.equal((await organiser.post('/api/organiser/sessions', { email, password })).status, 200);
    const limits = `/api/organiser/events/${app.event}/limits`;
    const { body: before } = await organiser.get(limits);
    assert.equal(before.coolingCount, 1);
    const excepted = await organiser.post(`${limits}/allowances`, {
      visitor: refused.body.reference,
      reason: 'called us',
    });
    assert.equal(excepted.status, 201, JSON.stringify(excepted.body));
    await until(async () => (await buyer.hold([9])).status === 201, 'the cooldown to be lifted');
    assert.equal((await organiser.get(limits)).body.coolingCount, 0);
  });

  test('a purchase ends the count at once, not when its hold would have ended', async () => {
    const buyer = await app.admitted();
    const visitor = app.credentials.visitorOf(buyer.cookies.get('onsale_visitor') ?? '');
    const unpaid = async () =>
      (await app.database.query('SELECT unpaid FROM cooldowns WHERE subject = $1', [visitor]))[0]?.unpaid;
    await app.database.query(
      `INSERT INTO cooldowns (event_no, kind, subject, unpaid, last_at, until, changed_at)
       VALUES ($1, 'visitor', $2, 3, now(), now() - interval '1 second', now() - interval '1 minute')`,
      [app.eventNo, visitor],
    );
    await buyer.mustBuy([60]);
    // Its hold had ten minutes to live.
    await until(async () => (await unpaid()) === 0, 'the count to begin anew');
    assert.equal((await buyer.hold([61])).status, 201);
  });
});

test('a cooldown of an account keeps all of its browsers, and is lifted by the reference that any of them shows', async (t) => {
  const secret = 'a secret that platform and sale both know';
  const app = await startTestApp(t, {
    settings: { cooldown: { ...cooldown, afterUnpaid: 1 }, accountFirst: true },
    env: { ONSALE_ACCOUNT_SECRET: secret },
  });
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const exp = Math.floor(Date.now() / 1000) + 600;
  const text = `${part({ alg: 'HS256' })}.${part({ sub: 'member-17', aud: app.event, exp })}`;
  const account = `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`;
  const browsers = [await app.admitted(), await app.admitted()];
  const [first, second] = browsers as [TestBuyer, TestBuyer];
  const hold = (browser: TestBuyer, seat: number) =>
    browser.post(
      `/api/events/${app.event}/holds`,
      { pass: browser.pass, account, seats: [{ seat }] },
      { 'idempotency-key': randomUUID() },
    );
  const held = await hold(first, 1);
  assert.equal(held.status, 201, JSON.stringify(held.body));
  await until(async () => {
    const { length } = await app.database.query(
      `UPDATE hold_ends SET granted_at = now() - interval '5 minutes' WHERE hold_id = $1 RETURNING 1`,
      [held.body.hold],
    );
    return length === 1;
  }, 'a note of the hold');
  assert.equal((await first.request('DELETE', `/api/holds/${held.body.hold}`)).status, 204);
  let refused = await hold(second, 2);
  await until(async () => {
    if (refused.status === 201) await second.request('DELETE', `/api/holds/${refused.body.hold}`);
    refused = await hold(second, 2);
    return refused.body.code === 'cooldown';
  }, 'a cooldown of the other browser');
  assert.equal(refused.body.reference, 'sub:member-17');
  assert.equal((await hold(first, 3)).body.code, 'cooldown');

  const organiser = createTestBuyer(app.url, 'none');
  assert.equal((await organiser.post('/api/organiser/sessions', app.app.organiser)).status, 200);
  const excepted = await organiser.post(`/api/organiser/events/${app.event}/limits/allowances`, {
    visitor: refused.body.reference,
    reason: 'called us',
  });
  assert.deepEqual([excepted.status, excepted.body.account], [201, 'sub:member-17']);
  await until(async () => (await hold(first, 3)).status === 201, 'the cooldown to be lifted');
  assert.equal((await hold(second, 4)).status, 201);
});
