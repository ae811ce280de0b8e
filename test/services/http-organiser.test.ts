import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { PlanRow, SeatingPlan } from '../../src/core/seat-map.ts';
import { signInSlot, tidySignIns } from '../../src/http/sign-ins.ts';
import { exportPretix } from '../../src/plans/export-pretix.ts';
import { generateStadium } from '../../src/plans/generate.ts';
import { importPlan } from '../../src/plans/import-plan.ts';
import { createDb } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { startTestApp, type TestApp, until } from '../support/app.ts';
import { type Answer, createTestBuyer, type TestBuyer } from '../support/buyer.ts';

const stadium = () => generateStadium({ seats: 150, name: 'Test Ground' });
const bytesOf = (value: unknown): string => JSON.stringify(value);

describe('organiser', () => {
  let app: TestApp;
  let token: string;
  const closers: (() => Promise<void>)[] = [];
  before(async () => {
    const env = { ONSALE_TRUST_PROXY: 'loopback' };
    app = await startTestApp({ after: (run) => void closers.unshift(run) }, { event: false, env });
    token = (await signIn(app)).body.token;
  });
  test.after(async () => {
    for (const close of closers) await close();
  });

  const call = (
    method: string,
    path: string,
    options: { body?: unknown; raw?: string; token?: string } = {},
  ) =>
    createTestBuyer(app.url, 'none').request(method, `/api/organiser${path}`, {
      ...options,
      headers: { authorization: `Bearer ${options.token ?? token}` },
    });

  async function makeEvent(id: string): Promise<Answer> {
    const plan = await call('POST', '/plans', { raw: bytesOf(stadium()) });
    assert.ok(plan.status === 201 || plan.status === 200, bytesOf(plan.body));
    const prices = Object.fromEntries(
      plan.body.report.categories.map(({ name }: { name: string }) => [name, 5_000]),
    );
    return call('POST', '/events', {
      body: { id, name: id, plan: plan.body.plan, currency: 'EUR', prices, holdSeatsMax: 4 },
    });
  }

  async function openEvent(id: string): Promise<void> {
    assert.equal((await makeEvent(id)).status, 201);
    const published = await call('POST', `/events/${id}/publish`);
    assert.equal(published.status, 200, bytesOf(published.body));
    const opened = await call('PATCH', `/events/${id}/on-sale`, {
      body: { expectedVersion: 2, phase: 'open' },
    });
    assert.equal(opened.body.phase, 'open', bytesOf(opened.body));
  }

  test('signs in with e-mail and password; everything else needs it', async () => {
    const refused = await signIn(app, 'wrong password here');
    assert.equal(refused.status, 401);
    assert.equal(refused.body.code, 'sign_in_refused');
    const { body: described } = await createTestBuyer(app.url, 'none').get('/openapi.json');
    const routes = Object.entries(described.paths as Record<string, object>).flatMap(([path, methods]) =>
      path.startsWith('/api/organiser/')
        ? Object.keys(methods).map((method) => ({
            method: method.toUpperCase(),
            path: path
              .replace('/api/organiser', '')
              .replaceAll(/\{\w+\}/g, '0f8fad5b-d9cb-469f-a165-70867728950e'),
          }))
        : [],
    );
    assert.ok(routes.length > 40, `${routes.length} routes`);
    for (const { method, path } of routes.filter(({ path }) => path !== '/sessions')) {
      // Every request first reports the missing session.
      const answer = await call(method, path, { token: 'nobody' });
      assert.deepEqual([answer.status, answer.body.code], [401, 'sign_in_required'], `${method} ${path}`);
      assert.notEqual((await call(method, path)).status, 401, `${method} ${path}, signed in`);
    }
    const second = (await signIn(app)).body.token;
    assert.equal((await call('GET', '/sessions', { token: second })).status, 200);
    assert.equal((await call('DELETE', '/sessions', { token: second })).status, 204);
    assert.equal((await call('GET', '/sessions', { token: second })).status, 401, 'signed out');
  });

  test('a guesser at the sign-in is slowed down; the right password works after its delay, and at once from a known browser', async () => {
    const from = (address: string, browser: TestBuyer, password: string) =>
      browser.post(
        '/api/organiser/sessions',
        { email: app.app.organiser.email, password },
        { 'x-forwarded-for': address },
      );
    const right = app.app.organiser.password;
    const known = createTestBuyer(app.url, 'none');
    assert.equal((await from('203.0.113.1', known, right)).status, 200);

    // Addresses of one /64, all at once: six are checked at once, the seventh after a second, one more two seconds later.
    const before = systemClock.monotonic();
    const guesses = Array.from({ length: 7 }, (_, n) =>
      from(`2001:db8::${n}`, createTestBuyer(app.url, 'none'), `guess number ${n}`),
    );
    assert.deepEqual(new Set((await Promise.all(guesses)).map(({ status }) => status)), new Set([401]));
    const organiser = await from('2001:db8::99', createTestBuyer(app.url, 'none'), right);
    assert.equal(organiser.status, 200, 'the right password works after its delay');
    const took = systemClock.monotonic() - before;
    assert.ok(took > 2_500, `${took} ms`);

    // A script keeps the next ten seconds full and reads no response.
    const flood = Array.from({ length: 8 }, () =>
      from('2001:db8::1', createTestBuyer(app.url, 'none'), 'another guess'),
    );
    const refused = await Promise.any(
      flood.map(async (guess) => ((await guess).status === 429 ? await guess : Promise.reject())),
    );
    assert.equal(refused.body.code, 'too_many_requests');
    assert.equal(refused.body.retryAfterMs % 1_000, 0, 'whole seconds');
    assert.equal(Number(refused.headers.get('retry-after')) * 1_000, refused.body.retryAfterMs);
    assert.match(refused.body.detail, /Try again in \d+ seconds?\./);
    assert.equal((await from('2001:db8::2', known, right)).status, 200, 'a known browser has its own budget');
    const stolen = createTestBuyer(app.url, 'none');
    stolen.cookies.set('onsale_organiser_device', 'made-up');
    assert.equal((await from('2001:db8::2', stolen, right)).status, 429, 'a made-up device has none');
    assert.equal((await from('203.0.113.1', createTestBuyer(app.url, 'none'), right)).status, 200);
    // The rest waits until the application stops.
    for (const one of flood) one.catch(() => {});
  });

  test('attempts to sign in share one count, whichever process asks, and each gets a slot of its own', async (t) => {
    const clients = [1, 2].map(() =>
      createDb({ url: app.database.url, poolSize: 4, clock: systemClock, log: silentLogger }),
    );
    t.after(() => Promise.all(clients.map((db) => db.close())));
    const attempt = { range: '198.51.100.1', device: null, email: 'organiser@example.org' };
    const slots = await Promise.all(
      Array.from({ length: 12 }, (_, n) => signInSlot(clients[n % 2]!, attempt)),
    );
    const waits = slots.filter(({ refused }) => !refused).map(({ waitMs }) => Math.ceil(waitMs / 1_000));
    assert.deepEqual(
      waits.sort((a, b) => a - b),
      [0, 0, 0, 0, 0, 0, 1, 3, 7],
    );
    const unknown = await signInSlot(clients[0]!, { ...attempt, range: null });
    assert.deepEqual(unknown, { budget: null, waitMs: 0, refused: false }, 'no address, no count');
    await app.database.query(`UPDATE sign_in_budgets SET counted_at = counted_at - interval '2 hours'`);
    await tidySignIns(clients[0]!);
    const left = await app.database.query(`SELECT DISTINCT email FROM sign_in_budgets`);
    assert.deepEqual(left, [{ email: app.app.organiser.email }], 'only known browsers are kept');
  });

  test('names are one line that reads in its own direction', async () => {
    const { body } = await call('POST', '/plans', { raw: bytesOf(stadium()) });
    const event = { plan: body.plan, currency: 'EUR', prices: {} };
    for (const name of ['x\r\nBcc: y@example.org', 'x\u2028y', 'x\u0000', 'x\u202e', 'x\u2067', ' ', '']) {
      const refused = await call('POST', '/events', { body: { ...event, name } });
      assert.deepEqual([refused.status, refused.body.code], [400, 'invalid_field'], JSON.stringify(name));
      assert.match(refused.body.field, /^\/?name$/, JSON.stringify(refused.body));
    }
  });

  test('a dry run reports and stores nothing; a broken file is refused with its places', async () => {
    const countBefore = (await call('GET', '/plans')).body.plans.length;
    const dry = await call('POST', '/plans?dryRun=true', { raw: bytesOf(stadium()) });
    assert.equal(dry.body.report.seats, 150);
    const broken = await call('POST', '/plans', { raw: '{"name": "x"' });
    assert.equal(broken.status, 422);
    assert.equal(broken.body.code, 'plan_refused');
    assert.ok(broken.body.problems[0].place);
    assert.equal((await call('GET', '/plans')).body.plans.length, countBefore);
    const badMap = await call('POST', '/plans?format=csv&map=nonsense', { raw: 'a,b\n1,2\n' });
    assert.equal(badMap.body.field, 'map');
  });

  test('the same plan again is the same plan', async () => {
    const first = await call('POST', '/plans', { raw: bytesOf(stadium()) });
    const again = await call('POST', '/plans', { raw: bytesOf(stadium()) });
    assert.equal(again.status, 200);
    assert.equal(again.body.plan, first.body.plan);
  });

  test('every category that seats are in needs a price from the start: a draft without one would be a dead end', async () => {
    const plan = await call('POST', '/plans', { raw: bytesOf(stadium()) });
    const names = plan.body.report.categories.map(({ name }: { name: string }) => name);
    const [first, ...others] = names;
    for (const [prices, missing] of [
      [{}, names],
      [{ [first]: 5_000 }, others],
    ]) {
      const refused = await call('POST', '/events', {
        body: { id: 'unpriced', name: 'Unpriced', plan: plan.body.plan, currency: 'EUR', prices },
      });
      const { code, field, categories } = refused.body;
      assert.deepEqual([refused.status, code, field, categories], [400, 'invalid_field', '/prices', missing]);
      assert.match(refused.body.detail, /Nothing was created/);
    }
    assert.equal((await call('GET', '/events/unpriced')).status, 404);
    const wrong = await call('POST', '/events', {
      body: { id: 'x', name: 'X', plan: plan.body.plan, currency: 'XYZ', prices: {} },
    });
    assert.equal(wrong.body.field, '/currency');
  });

  test('two operators: the second one, with a stale screen, gets a conflict and changes nothing', async () => {
    await openEvent('stale');
    const first = await call('PATCH', '/events/stale/on-sale', {
      body: { expectedVersion: 3, message: 'Doors at 7' },
    });
    assert.equal(first.body.version, 4);
    const second = await call('PATCH', '/events/stale/on-sale', {
      body: { expectedVersion: 3, phase: 'closed' },
    });
    assert.equal(second.status, 409);
    assert.equal(second.body.code, 'version_conflict');
    assert.equal(second.body.now.message, 'Doors at 7');
    assert.equal((await call('GET', '/events/stale')).body.phase, 'open');
    const impossible = await call('PATCH', '/events/stale/on-sale', {
      body: { expectedVersion: 4, phase: 'scheduled' },
    });
    assert.equal(impossible.body.code, 'phase_impossible');
    assert.deepEqual(impossible.body.possible, ['paused', 'sold_out', 'closed']);
  });

  test('S8: blocking lists seats that a buyer has and leaves them; unblocking gives back', async () => {
    await openEvent('blocks');
    const buyer = await admittedTo(app, 'blocks');
    const held = await buyer.best({ quantity: 2 });
    assert.equal(held.status, 201, bytesOf(held.body));
    const taken = held.body.seats.map(({ seat }) => seat);
    const free = [...Array(150).keys()].filter((seat) => !taken.includes(seat)).slice(0, 3);
    const blocked = await call('POST', '/events/blocks/blocks', {
      body: { seats: [...free, ...taken], reason: 'camera' },
    });
    assert.deepEqual(blocked.body.blocked, free);
    assert.deepEqual(
      blocked.body.refused.map(({ seat, state }: { seat: number; state: string }) => [seat, state]),
      [...taken].sort((a, b) => a - b).map((seat) => [seat, 'held']),
    );
    assert.equal(
      (await call('POST', '/events/blocks/blocks', { body: { seats: free } })).body.field,
      '/reason',
    );
    const back = await call('DELETE', '/events/blocks/blocks', { body: { seats: [...free, ...taken] } });
    assert.deepEqual(
      back.body.unblocked.sort((a: number, b: number) => a - b),
      free,
    );
    const unknown = await call('POST', '/events/blocks/blocks', { body: { seats: [99_999], reason: 'x' } });
    assert.equal(unknown.body.code, 'unknown_seat');
  });

  test('a new version of the plan refuses to lose seats that a buyer has; numbers are never reassigned', async () => {
    await openEvent('replan');
    const imported = importPlan(Buffer.from(bytesOf(stadium())));
    assert.ok(imported.kind === 'imported');
    const { plan } = imported;
    const section = plan.sections.find(
      (one) => one.kind === 'seated' && !one.sellAsUnit && one.rows[0]!.seats.length > 3,
    )!;
    const [lost] = section.rows[0]!.seats.splice(0, 1);
    plan.name = 'Test Ground without a seat';
    const smaller = await call('POST', '/plans', { raw: bytesOf(exportPretix(plan)) });
    assert.equal(smaller.status, 201, bytesOf(smaller.body));
    const buyer = await admittedTo(app, 'replan');
    const held = await buyer.hold([lost!.seatGuid]);
    assert.equal(held.status, 201, bytesOf(held.body));

    const refused = await call('POST', '/events/replan/plan', { body: { plan: smaller.body.plan } });
    assert.equal(refused.body.code, 'seats_in_use');
    assert.equal(refused.body.seats[0].seatGuid, lost!.seatGuid);
    assert.equal(refused.body.seats[0].state, 'held');

    await buyer.request('DELETE', `/api/holds/${held.body.hold}`);
    const done = await call('POST', '/events/replan/plan', { body: { plan: smaller.body.plan } });
    assert.deepEqual(done.body, { kind: 'replanned', added: 0, removed: 1, kept: 149, untold: [] });
    const [row] = await app.database.query(
      `SELECT s.state FROM seats s JOIN event_seats e USING (event_no, seat_no)
       JOIN events v USING (event_no) WHERE seat_guid = $1 AND event_id = 'replan'`,
      [lost!.seatGuid],
    );
    assert.equal(row.state, 'blocked', 'the removed seat stays, as blocked');
  });

  test('S8: of two plan changes at once one is made; the other gets a conflict, and seats keep one name each', async () => {
    await openEvent('twice');
    const imported = importPlan(Buffer.from(bytesOf(stadium())));
    assert.ok(imported.kind === 'imported');
    const row = imported.plan.sections.find((one) => one.kind === 'seated' && !one.sellAsUnit)!.rows[0]!;
    const last = row.seats.at(-1)!;
    const plans: string[] = [];
    for (const which of ['one', 'two', 'three']) {
      const seat = {
        ...last,
        seatGuid: `added-${which}`,
        label: `9${which.length}${which[0]}`,
        x: last.x + 12,
      };
      const plan = structuredClone(imported.plan);
      plan.name = `Test Ground ${which}`;
      plan.sections.find(({ id }) => id === sectionOf(imported.plan, row))!.rows[0]!.seats.push(seat);
      const saved = await call('POST', '/plans', { raw: bytesOf(exportPretix(plan)) });
      assert.equal(saved.status, 201, bytesOf(saved.body));
      plans.push(saved.body.plan);
    }
    // While a claim has the event's lock, all three are made on top of the same plan and wait.
    const claim = await app.database.pool(1).connect();
    await claim.query('BEGIN');
    await claim.query(`SELECT event_lock_shared(event_no) FROM events WHERE event_id = 'twice'`);
    const changing = plans.map((plan) => call('POST', '/events/twice/plan', { body: { plan } }));
    await until(async () => {
      const [row] = await app.database.query(
        `SELECT count(*)::int AS n FROM pg_stat_activity
         WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%event_replan%'`,
      );
      return row.n === plans.length;
    }, 'three changes to wait for the event');
    await claim.query('COMMIT');
    claim.release();
    const answers = await Promise.all(changing);
    assert.deepEqual(
      answers.map(({ status }) => status).sort(),
      [200, 409, 409],
      bytesOf(answers.map(({ body }) => body)),
    );
    for (const { status, body } of answers) if (status === 409) assert.equal(body.code, 'version_conflict');
    const [count] = await app.database.query(
      `SELECT count(*)::integer AS seats, max(seat_count) AS told, max(plan_id) AS plan
       FROM event_seats JOIN events USING (event_no) WHERE event_id = 'twice'`,
    );
    assert.deepEqual(count, {
      seats: 151,
      told: 151,
      plan: plans[answers.findIndex(({ status }) => status === 200)],
    });
  });

  test('S8: a seat that a new plan removed stays blocked until a plan has it again', async () => {
    await openEvent('removed');
    const full = (await call('GET', '/events/removed')).body.plan;
    const imported = importPlan(Buffer.from(bytesOf(stadium())));
    assert.ok(imported.kind === 'imported');
    const { plan } = imported;
    const [lost] = plan.sections
      .find((one) => one.kind === 'seated' && !one.sellAsUnit)!
      .rows[0]!.seats.splice(1, 1);
    plan.name = 'Test Ground without another seat';
    const smaller = await call('POST', '/plans', { raw: bytesOf(exportPretix(plan)) });
    assert.equal(
      (await call('POST', '/events/removed/plan', { body: { plan: smaller.body.plan } })).body.removed,
      1,
    );
    const unblock = () => call('DELETE', '/events/removed/blocks', { body: { seats: [lost!.seatGuid] } });
    assert.deepEqual((await unblock()).body, { unblocked: [] });
    assert.equal((await call('POST', '/events/removed/plan', { body: { plan: full } })).status, 200);
    assert.equal((await unblock()).body.unblocked.length, 1);
  });

  test('a draft has no plan to change', async () => {
    const { body } = await makeEvent('still-draft');
    const answer = await call('POST', '/events/still-draft/plan', { body: { plan: body.plan } });
    assert.deepEqual([answer.status, answer.body.code], [409, 'phase_impossible']);
  });

  test('values that no store takes are refused by field, and the list of events stays readable', async () => {
    const { body } = await makeEvent('values');
    const { plan, currency, prices } = body;
    for (const [field, value] of [
      ['performanceAt', '0000-01-01T00:00:00Z'],
      ['onSaleAt', '0001-01-01T00:00:00+14:00'],
      ['saleEndsAt', '9999-12-31T23:59:59-12:00'],
      ['performanceAt', '2016-12-31T23:59:60Z'],
      ['name', '   '],
    ] as const) {
      const answer = await call('POST', '/events', {
        body: { name: 'X', plan, currency, prices, [field]: value },
      });
      assert.deepEqual([answer.status, answer.body.field], [400, `/${field}`], bytesOf(answer.body));
    }
    const patched = await call('PATCH', '/events/values/on-sale', {
      body: { expectedVersion: 3_000_000_000 },
    });
    assert.deepEqual([patched.status, patched.body.field], [400, '/expectedVersion']);
    assert.equal((await call('GET', '/events')).status, 200);
  });

  test('partitions: checked when the event is made, kept by a new plan, and no seat changes its own', async () => {
    const file = generateStadium({ seats: 600, name: 'Parted Ground' });
    const plan = await call('POST', '/plans', { raw: bytesOf(file) });
    const prices = Object.fromEntries(
      plan.body.report.categories.map(({ name }: { name: string }) => [name, 5_000]),
    );
    const create = (id: string, partitions: unknown) =>
      call('POST', '/events', {
        body: { id, name: id, plan: plan.body.plan, currency: 'EUR', prices, partitions },
      });
    const wrong: [partitions: unknown, field: string, says: RegExp][] = [
      [[{ sections: ['102', 'nowhere'] }], '/partitions/0/sections/1', /no section nowhere/],
      [[{ sections: ['101'] }, { sections: ['101'] }], '/partitions/1/sections/0', /named twice/],
      [[{ sections: ['101'], redis: 'redis://10.0.0.1' }], '/partitions/0/redis', /none is configured/],
      [[{ sections: [] }], '/partitions/0/sections', /fewer/],
      [Array.from({ length: 33 }, () => ({ sections: ['101'] })), '/partitions', /more/],
    ];
    for (const [partitions, field, says] of wrong) {
      const answer = await create('parted', partitions);
      assert.deepEqual([answer.status, answer.body.code, answer.body.field], [400, 'invalid_field', field]);
      assert.match(answer.body.detail, says);
    }
    const created = await create('parted', [{ sections: ['102'] }, { sections: ['standing'] }]);
    assert.equal(created.status, 201, bytesOf(created.body));
    assert.deepEqual(created.body.settings.partitions, [{ sections: ['102'] }, { sections: ['standing'] }]);
    assert.equal((await call('POST', '/events/parted/publish')).status, 200);

    const replan = async (change: (plan: SeatingPlan) => void) => {
      const changed = importPlan(Buffer.from(bytesOf(file)));
      assert.ok(changed.kind !== 'refused');
      change(changed.plan);
      const next = await call('POST', '/plans', { raw: bytesOf(exportPretix(changed.plan)) });
      return call('POST', '/events/parted/plan', { body: { plan: next.body.plan } });
    };
    const seats = async () => {
      const rows = await app.database.query(
        `SELECT e.section_id, s.partition, count(*)::integer AS n FROM seats s JOIN event_seats e USING (event_no, seat_no)
          JOIN events v USING (event_no) WHERE v.event_id = 'parted' GROUP BY 1, 2 ORDER BY 1`,
      );
      return rows.map(({ section_id, partition }) => [section_id, partition]);
    };
    const before = [
      ['101', 0],
      ['102', 1],
      ['standing', 2],
    ];
    assert.deepEqual(await seats(), before);
    const moved = await replan(({ sections: [first, second] }) => {
      second!.rows.push(first!.rows.pop()!);
    });
    assert.deepEqual([moved.status, moved.body.code], [409, 'seats_would_move'], bytesOf(moved.body));
    assert.ok(moved.body.seats.length > 0);
    assert.deepEqual(await seats(), before, 'nothing was changed');
    const grown = await replan(({ sections: [first, second] }) => {
      const [row] = second!.rows;
      const more = (guid: string): PlanRow => ({
        label: 'new',
        seats: [{ ...row!.seats[0]!, seatGuid: guid, label: '1', y: row!.seats[0]!.y - 40 }],
      });
      second!.rows.push(more('added to 102'));
      first!.rows.push(more('added to 101'));
    });
    assert.equal(grown.status, 200, bytesOf(grown.body));
    assert.deepEqual([grown.body.added, grown.body.untold], [2, []]);
    assert.deepEqual(await seats(), before, 'new seats are of their section’s partition');
  });

  test('tickets that cost nothing are refused before anybody holds one', async () => {
    const { body } = await makeEvent('priced');
    const { plan, currency, prices } = body;
    const [category = ''] = Object.keys(prices);
    const event = { name: 'Free', plan, currency, prices: { ...prices, [category]: 0 } };
    const refused = await call('POST', '/events', { body: event });
    assert.deepEqual(
      [refused.status, refused.body.field, refused.body.categories],
      [400, '/prices', [category]],
    );
    assert.equal((await call('POST', '/events', { body: { ...event, orderFee: 100 } })).status, 201);
  });

  test('prices whose largest order no card can be charged for are refused when they are set; each currency has its own maximum', async () => {
    const { body } = await makeEvent('dear');
    const { plan, prices } = body;
    const [category = ''] = Object.keys(prices);
    const priced = (currency: string, price: number, holdSeatsMax?: number) =>
      call('POST', '/events', {
        body: { name: 'Dear', plan, currency, prices: { ...prices, [category]: price }, holdSeatsMax },
      });
    const refused = await priced('EUR', 20_000_000);
    assert.deepEqual(
      [refused.status, refused.body.code, refused.body.field, refused.body.categories],
      [400, 'invalid_field', '/prices', [category]],
    );
    assert.match(refused.body.detail, /order of 6 seats .* 999999\.99 EUR\. Lower the price/);
    assert.equal((await priced('EUR', 20_000_000, 4)).status, 201);
    assert.equal((await priced('IDR', 150_000_000_000)).status, 201);
    assert.equal((await priced('IDR', 170_000_000_000)).body.field, '/prices');
  });

  test('S6: a hold of a fraction of minutes is a hold', async () => {
    const { body } = await makeEvent('whole');
    const { plan, currency, prices } = body;
    const event = { id: 'fraction', name: 'Fraction', plan, currency, prices, holdMinutes: 1.00001 };
    assert.equal((await call('POST', '/events', { body: event })).status, 201);
    assert.equal((await call('POST', '/events/fraction/publish')).status, 200);
    const opened = await call('PATCH', '/events/fraction/on-sale', {
      body: { expectedVersion: 2, phase: 'open' },
    });
    assert.equal(opened.status, 200);
    const held = await (await admittedTo(app, 'fraction')).best({ quantity: 1 });
    assert.equal(held.status, 201, bytesOf(held.body));
  });

  test('a category named as something that every object has needs a price of its own', async () => {
    for (const name of ['constructor', '__proto__']) {
      const raw = bytesOf(stadium()).replaceAll('"Category 1"', bytesOf(name));
      const plan = await call('POST', '/plans', { raw });
      assert.ok(plan.body.report.categories.some((category: { name: string }) => category.name === name));
      const id = `named-${name.replaceAll('_', '')}`;
      const event = { id, name, plan: plan.body.plan, currency: 'EUR', prices: { Standing: 100 } };
      const refused = await call('POST', '/events', { body: event });
      assert.deepEqual(
        [refused.status, refused.body.field, refused.body.categories],
        [400, '/prices', [name]],
      );
    }
  });

  test('a webhook address inside our network is refused when it is entered', async () => {
    const refused = await call('POST', '/webhooks', { body: { url: 'https://postgres:5432/' } });
    assert.deepEqual([refused.status, refused.body.field], [400, '/url'], bytesOf(refused.body));
    const made = await call('POST', '/webhooks', { body: { url: 'https://hooks.invalid/in' } });
    assert.equal(made.status, 201);
    assert.match(made.body.warning, /no address yet/);
    const changed = await call('PATCH', `/webhooks/${made.body.endpoint}`, {
      body: { url: 'https://redis:6379/' },
    });
    assert.deepEqual([changed.status, changed.body.field], [400, '/url']);
  });

  test('names with script in them come out as text', async () => {
    const name = '<img src=x onerror=alert(1)>';
    const plan = await call('POST', '/plans', { raw: bytesOf({ ...(stadium() as object), name }) });
    assert.equal(plan.status, 201);
    assert.equal(plan.body.name, name);
    assert.match(plan.body.plan, /^[a-z0-9-]+$/);
  });
});

function sectionOf(plan: SeatingPlan, row: PlanRow): string {
  return plan.sections.find(({ rows }) => rows.includes(row))!.id;
}

async function signIn(app: TestApp, password = app.app.organiser.password): Promise<Answer> {
  const { email } = app.app.organiser;
  return createTestBuyer(app.url, 'none').post('/api/organiser/sessions', { email, password });
}

/** A buyer with a pass for an event that this test made. */
async function admittedTo(app: TestApp, event: string) {
  const buyer = createTestBuyer(app.url, event);
  await until(async () => (await buyer.get(`/api/events/${event}/status`)).status === 200, 'a status');
  await buyer.admit();
  return buyer;
}
