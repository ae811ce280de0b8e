import assert from 'node:assert/strict';
import test from 'node:test';
import { overStore } from '../../models/one-store.ts';
import type { Hold } from '../../src/core/hold.ts';
import { createPostgresArbiter } from '../../src/inventory/postgres.ts';
import { passDeadline, setPhase } from '../support/acts.ts';
import { checkoutDesk } from '../support/checkout-desk.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import {
  auditEvent,
  holdOf,
  linesOf,
  orderIdOf,
  payCommand,
  reconcile,
  reserveCommand,
  reserved,
  stageEvent,
  type Till,
  till,
  uuidOf,
} from '../support/stage.ts';

const { database, simulator, desk } = await checkoutDesk({ poolSize: 20 });

/** Each buyer holds (the arbiter grants everything), reserves and pays, all at once. */
async function storm(
  stage: { event: number; epoch: number },
  buyers: number,
  seatsOf: (buyer: number) => number[],
  at: Till = desk,
  on: TestDatabase = database,
) {
  const answers = await Promise.all(
    Array.from({ length: buyers }, async (_, buyer) => {
      const outcome = await at.checkout.reserve(
        reserveCommand(holdOf(stage, `buyer-${buyer}`, seatsOf(buyer))),
      );
      if (outcome.kind !== 'order') return outcome.kind;
      return (await at.checkout.pay(payCommand(outcome.order.order, 'pm_card_visa'))).kind;
    }),
  );
  await reconcile(on, at);
  return answers;
}

test('S1: an arbiter that grants everything to everybody: 50 buyers paying for one seat end in one ticket', async () => {
  const stage = await stageEvent(database);
  const answers = await storm(stage, 50, () => [7]);
  assert.equal(answers.filter((answer) => answer === 'bought').length, 1, answers.join());
  assert.equal(answers.filter((answer) => answer === 'hold_gone').length, 49, answers.join());
  assert.equal((await auditEvent(database, simulator, stage.event)).paid, 1);
});

test("S1: the index alone, with reserve's own look at the seats cut out: still one ticket, no other buyer charged", async (t) => {
  const blind = await testDatabase(t);
  const [{ definition }] = await blind.query(
    `SELECT pg_get_functiondef(oid) AS definition FROM pg_proc WHERE proname = 'order_reserve'`,
  );
  const cut = definition.replace(
    'IF v_free = cardinality(v_seats) AND clock_timestamp()',
    'IF clock_timestamp()',
  );
  assert.notEqual(cut, definition);
  await blind.query(cut);
  await blind.query('DROP FUNCTION order_seats_are(orders, text) CASCADE');
  await blind.query(
    `CREATE FUNCTION order_seats_are(o orders, p_state text) RETURNS boolean LANGUAGE sql AS 'SELECT true'`,
  );
  const stage = await stageEvent(blind);
  const own = till(blind.url, simulator.provider, { poolSize: 20 });
  t.after(() => own.close());
  const answers = await storm(stage, 50, () => [7], own, blind);
  assert.equal(answers.filter((answer) => answer === 'bought').length, 1, answers.join());
  assert.equal(answers.filter((answer) => answer === 'hold_gone').length, 49, answers.join());
  assert.equal((await auditEvent(blind, simulator, stage.event)).paid, 1);
});

test('S1: bare inserts race against the index: one wins', async () => {
  const stage = await stageEvent(database);
  const pool = database.pool(20);
  const results = await Promise.allSettled(
    Array.from({ length: 50 }, (_, n) =>
      pool.query(
        `INSERT INTO tickets (event_no, seat_no, order_id, status, price) VALUES ($1, 3, $2, $3, 1)`,
        [stage.event, uuidOf(`race ${n}`), n % 2 ? 'reserved' : 'sold'],
      ),
    ),
  );
  assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
  for (const result of results) if (result.status === 'rejected') assert.equal(result.reason.code, '23505');
});

test('S2: overlapping sets, all granted by the arbiter: each order has all of its seats or does not exist', async () => {
  const stage = await stageEvent(database, { seats: 12 });
  const answers = await storm(stage, 60, (buyer) =>
    Array.from({ length: 1 + (buyer % 4) }, (_, n) => (buyer * 5 + n * (buyer % 2 ? 1 : 11)) % 12).sort(
      (a, b) => a - b,
    ),
  );
  assert.ok(answers.filter((answer) => answer === 'bought').length >= 3, answers.join());
  await auditEvent(database, simulator, stage.event);
});

test('P7: the account limit holds when one account reserves in many browsers at once', async () => {
  const stage = await stageEvent(database, { settings: { accountSeatsMax: 3 } });
  const answers = await Promise.all(
    Array.from({ length: 10 }, (_, n) =>
      desk.checkout.reserve(reserveCommand(holdOf(stage, `browser-${n}`, [n]), 'one@example.org')),
    ),
  );
  const orders = answers.flatMap((answer) => (answer.kind === 'order' ? [answer.order] : []));
  assert.equal(orders.length, 3, answers.map((answer) => answer.kind).join());
  assert.equal(answers.filter((answer) => answer.kind === 'limit').length, 7);
  // Seats of a closed order may be reserved again.
  await desk.checkout.close(orders[0]!.order);
  const next = await desk.checkout.reserve(reserveCommand(holdOf(stage, 'later', [15]), 'one@example.org'));
  assert.equal(next.kind, 'order');
  for (const order of [...orders.slice(1), ...(next.kind === 'order' ? [next.order] : [])]) {
    assert.equal((await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'))).kind, 'bought');
  }
  const over = await desk.checkout.reserve(reserveCommand(holdOf(stage, 'last', [16]), 'one@example.org'));
  assert.deepEqual(over, { kind: 'limit', limit: 'account', max: 3, used: 3 });
  await auditEvent(database, simulator, stage.event);
});

test('P7: the instrument limit is decided at confirm, before capture: the rest is voided', async () => {
  const stage = await stageEvent(database, { settings: { instrumentSeatsMax: 2 } });
  const orders = await Promise.all(
    Array.from({ length: 6 }, (_, n) => reserved(desk, stage, `buyer-${n}`, [n])),
  );
  const answers = await Promise.all(
    orders.map(({ order }) => desk.checkout.pay(payCommand(order, 'pm_card_mastercard'))),
  );
  assert.equal(answers.filter(({ kind }) => kind === 'bought').length, 2);
  const ended = answers.flatMap((answer) => (answer.kind === 'ended' ? [answer.order.reason] : []));
  assert.deepEqual(ended, Array(4).fill('card_limit'));
  assert.equal((await auditEvent(database, simulator, stage.event)).paid, 2);
});

// The same record behind the real Postgres arbiter, where the hold's row is its proof.

async function arbitrated() {
  const stage = await stageEvent(database, { mode: 'postgres' });
  const arbiter = createPostgresArbiter({ db: desk.db });
  // Nothing is projected: in Postgres mode the record's own step has to be enough.
  const made = till(database.url, simulator.provider, {
    arbiter: { ...overStore(arbiter, () => stage.epoch), project: async () => true },
  });
  const at = { event: stage.event, partition: 0, epoch: stage.epoch };
  async function hold(visitor: string, seats: number[]): Promise<Hold> {
    const answer = await arbiter.hold({
      ...at,
      hold: uuidOf(`${stage.event} ${visitor} ${seats}`),
      visitor,
      holder: visitor,
      request: 'r',
      claim: { kind: 'seats', seats },
      ttlMs: 600_000,
      seatsMax: 4,
      replaces: null,
      notAfter: null,
    });
    assert.ok(answer.kind === 'granted', answer.kind);
    return answer.hold;
  }
  return { stage, arbiter, at, hold, desk: made };
}

test("S5: a lapsed, a released and a stranger's hold never become an order", async () => {
  const { arbiter, at, hold, desk: own, stage } = await arbitrated();
  const lapsed = await hold('buyer1', [1]);
  await database.query(
    `UPDATE holds SET deadline = now() - interval '1 second' WHERE event_no = $1 AND hold_id = $2`,
    [stage.event, lapsed.hold],
  );
  assert.equal((await own.checkout.reserve(reserveCommand(lapsed))).kind, 'hold_gone');
  const released = await hold('buyer2', [2]);
  await arbiter.release({ ...at, hold: released.hold, visitor: 'buyer2' });
  assert.equal((await own.checkout.reserve(reserveCommand(released))).kind, 'hold_gone');
  const foreign = await hold('buyer3', [3]);
  assert.equal(
    (await own.checkout.reserve(reserveCommand({ ...foreign, visitor: 'visitor-e' }))).kind,
    'hold_gone',
  );
  // Straight to the record, past the arbiter, with seats and deadline in order: one condition broken at a time.
  const bound = await hold('elsa', [4]);
  const order = orderIdOf(bound.hold);
  await arbiter.extend({ ...at, hold: bound.hold, visitor: 'elsa', order });
  const reserveWith = async (change: object) => {
    const whole = {
      order,
      hold: bound.hold,
      ...at,
      deadline: Date.now() + 600_000,
      visitor: 'elsa',
      holder: 'elsa',
    };
    return (await own.record.reserve({ ...reserveCommand(bound), ...whole, ...change })).kind;
  };
  const setState = (state: string) =>
    database.query('UPDATE holds SET state = $3 WHERE event_no = $1 AND hold_id = $2', [
      stage.event,
      bound.hold,
      state,
    ]);
  assert.equal(await reserveWith({ visitor: 'visitor-e' }), 'hold_gone');
  assert.equal(await reserveWith({ order: uuidOf('an order that the hold is not bound to') }), 'hold_gone');
  for (const state of ['released', 'replaced', 'ended', 'expired', 'tombstone']) {
    await setState(state);
    assert.equal(await reserveWith({}), 'hold_gone', state);
  }
  await setState('live');
  assert.equal(await reserveWith({}), 'reserved');
  assert.equal((await own.checkout.reserve(reserveCommand(foreign))).kind, 'order');
  await own.close();
});

test('S5: seats that the order does not ask for, or that its hold never had, are refused', async () => {
  const { hold, desk: own } = await arbitrated();
  const mine = await hold('buyer1', [1, 2]);
  const theirs = await hold('buyer2', [3]);
  for (const seats of [[1], [1, 3], [1, 2, 3], [3], [9]]) {
    const outcome = await own.checkout.reserve({ ...reserveCommand(mine), lines: linesOf(seats) });
    assert.equal(outcome.kind, 'hold_gone', `seats ${seats}`);
  }
  assert.equal((await own.checkout.reserve(reserveCommand(mine))).kind, 'order');
  assert.equal((await own.checkout.reserve(reserveCommand(theirs))).kind, 'order');
  await own.close();
});

test('S6: with less than 6 s left on its hold no order is made; extend gives a paying buyer five minutes', async () => {
  const { hold, desk: own, stage } = await arbitrated();
  const late = await hold('buyer1', [1]);
  const setDeadline = (seconds: number, id: string) =>
    database.query(
      `UPDATE holds SET deadline = now() + $3 * interval '1 second', order_id = $4 WHERE event_no = $1 AND hold_id = $2`,
      [stage.event, id, seconds, orderIdOf(id)],
    );
  await setDeadline(5, late.hold);
  assert.equal((await own.checkout.reserve(reserveCommand(late))).kind, 'hold_gone');
  await setDeadline(60, late.hold);
  assert.equal((await own.checkout.reserve(reserveCommand(late))).kind, 'order');
  await own.close();
});

test('S5: giving back a bound hold: a reserve on its way loses, an order that exists is not touched', async () => {
  const { arbiter, at, hold, desk: own, stage } = await arbitrated();
  const bound = await hold('buyer1', [1]);
  const order = orderIdOf(bound.hold);
  await arbiter.extend({ ...at, hold: bound.hold, visitor: 'buyer1', order });
  assert.equal((await arbiter.release({ ...at, hold: bound.hold, visitor: 'buyer1' })).kind, 'bound');
  assert.deepEqual(await own.checkout.abandon(bound), { kind: 'released' });
  assert.deepEqual(await own.checkout.abandon(bound), { kind: 'released' });
  assert.equal((await own.checkout.reserve(reserveCommand(bound))).kind, 'hold_gone');
  const next = await hold('buyer2', [1]);
  const ordered = await own.checkout.reserve(reserveCommand(next));
  assert.equal(ordered.kind, 'order');
  assert.equal((await own.checkout.abandon(next)).kind, 'ordered');
  assert.equal((await own.checkout.pay(payCommand(orderIdOf(next.hold), 'pm_card_visa'))).kind, 'bought');
  // The order without seats is closed; the audit wants nothing of it.
  assert.equal((await auditEvent(database, simulator, stage.event)).paid, 1);
  await own.close();
});

test('S5: an order frees and sells only what is its own, whatever became of its seats', async () => {
  const stage = await stageEvent(database);
  const [closing, paying, other] = [
    await reserved(desk, stage, 'buyer1', [1, 2]),
    await reserved(desk, stage, 'buyer2', [3, 4]),
    await reserved(desk, stage, 'buyer3', [5]),
  ];
  await desk.checkout.pay(payCommand(other.order, 'pm_card_visa'));
  // As after a repair by hand that went wrong: seats 1 and 3 are the third order's.
  await database.query('UPDATE tickets SET order_id = $2 WHERE event_no = $1 AND seat_no IN (1, 3)', [
    stage.event,
    other.order,
  ]);
  await database.query(
    `UPDATE seats SET order_id = $2, state = 'sold' WHERE event_no = $1 AND seat_no IN (1, 3)`,
    [stage.event, other.order],
  );
  await desk.checkout.close(closing.order);
  assert.equal((await desk.checkout.pay(payCommand(paying.order, 'pm_card_visa'))).kind, 'ended');
  const seats = await database.query(
    'SELECT seat_no, state, order_id FROM seats WHERE event_no = $1 AND seat_no < 5 ORDER BY 1',
    [stage.event],
  );
  assert.deepEqual(
    seats.map((seat) => [seat.seat_no, seat.state, seat.order_id]),
    [
      [0, 'available', null],
      [1, 'sold', other.order],
      [2, 'available', null],
      [3, 'sold', other.order],
      [4, 'available', null],
    ],
  );
});

test('S7, S8: the quota entry ends with the order, and seats come back to the next claim', async () => {
  const { arbiter, hold, desk: own, stage } = await arbitrated();
  const first = await hold('buyer1', [1, 2, 3]);
  const ordered = await own.checkout.reserve(reserveCommand(first));
  assert.ok(ordered.kind === 'order');
  await assert.rejects(hold('buyer1', [4, 5]), /quota/);
  await passDeadline(database, ordered.order.order);
  await own.reconciler.runOnce();
  assert.equal((await own.checkout.find(ordered.order.order))?.state, 'closed');
  const again = await hold('buyer1', [1, 2, 4]);
  const sold = await own.checkout.reserve(reserveCommand(again));
  assert.ok(sold.kind === 'order');
  assert.equal((await own.checkout.pay(payCommand(sold.order.order, 'pm_card_visa'))).kind, 'bought');
  await hold('buyer1', [5, 6, 7, 8]);
  const { codes } = await arbiter.snapshot(stage.event, 0);
  assert.deepEqual([...codes.slice(0, 10)], [0, 3, 3, 0, 3, 1, 1, 1, 1, 0]);
  await auditEvent(database, simulator, stage.event);
  await own.close();
});

test('a partition that moves or has another epoch takes no order', async () => {
  const stage = await stageEvent(database);
  const other = await desk.checkout.reserve(
    reserveCommand({ ...holdOf(stage, 'buyer1', [1]), epoch: stage.epoch - 1 }),
  );
  assert.equal(other.kind, 'retry');
  await database.query(`UPDATE event_partitions SET mode = 'moving' WHERE event_no = $1`, [stage.event]);
  const moving = await desk.checkout.reserve(reserveCommand(holdOf(stage, 'buyer1', [1])));
  assert.equal(moving.kind, 'retry');
  for (const phase of ['cancelled', 'pre_queue', 'scheduled', 'draft'] as const) {
    await setPhase(database, stage.event, phase);
    const outcome = await desk.checkout.reserve(reserveCommand(holdOf(stage, 'buyer1', [1])));
    assert.deepEqual(outcome, { kind: 'not_open', phase });
  }
});
