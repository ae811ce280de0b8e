import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import test, { after, before } from 'node:test';
import fc from 'fast-check';
import { stepOf } from '../../src/core/money.ts';
import { decideRefund, dueOf, leftOf, type PaidOrder, type RefundWish } from '../../src/core/money-due.ts';
import { createSalesRecord } from '../../src/orders/orders-record.ts';
import type { Order } from '../../src/orders/record.ts';
import { createRefundRecord, type MakeRefundCommand, revokedTickets } from '../../src/orders/refunds.ts';
import { createDb, type Db } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { paidOrder } from '../support/paid-order.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { stageEvent } from '../support/stage.ts';

let database: TestDatabase;
let db: Db;
before(async () => {
  database = await testDatabase();
  db = createDb({ url: database.url, poolSize: 8, clock: systemClock, log: silentLogger });
});
after(async () => {
  await db?.close();
});

const claim = { owner: 'me', leaseMs: 30_000 };
const all: RefundWish = { tickets: 'all', fees: 'returned', goodwill: 0 };

function refundCommand(order: Order, wish: Partial<MakeRefundCommand> = {}): MakeRefundCommand {
  const operation = randomUUID();
  return {
    ...all,
    refund: randomUUID(),
    order: order.order,
    operation,
    key: operation,
    requestKey: operation,
    request: 'r',
    actor: 'organiser',
    reason: 'asked for it',
    seats: 'release',
    step: stepOf(order.currency),
    ...wish,
  };
}

function parts() {
  return { record: createSalesRecord({ db }), refunds: createRefundRecord({ db }) };
}

async function standing(order: Order): Promise<PaidOrder> {
  const { refunds } = parts();
  return {
    tickets: await refunds.paidTickets(order.eventNo, order.order),
    orderFee: order.orderFee,
    refunds: await refunds.ofOrder(order.order),
  };
}

const seatStates = async (event: number) =>
  (
    await database.query(
      "SELECT string_agg(state, ' ' ORDER BY seat_no) AS states FROM seats WHERE event_no = $1",
      [event],
    )
  )[0].states as string;

test('P8: every answer of Postgres is the pure rule’s, whatever is refunded of an order and in which currency', async () => {
  const { record, refunds } = parts();
  const stage = await stageEvent(database, { seats: 400 });
  let seat = 0;
  const wish = fc.record({
    // The tickets to refund, by index in the order; 4 is another order's ticket.
    tickets: fc.oneof(fc.constant('all' as const), fc.subarray([0, 1, 2, 3, 4], { maxLength: 3 })),
    fees: fc.constantFrom('returned' as const, 'kept' as const),
    goodwill: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(4_000) }),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.nat(3_000), { minLength: 1, maxLength: 4 }),
      fc.constantFrom('EUR', 'JPY', 'KWD'),
      fc.array(wish, { minLength: 1, maxLength: 6 }),
      async (prices, currency, wishes) => {
        const step = stepOf(currency);
        const raw = prices.reduce((sum, price) => sum + price + 31, 17);
        const order = await paidOrder(record, stage, {
          lines: prices.map((price) => ({ seat: seat++, category: 'A', kind: 'full', price, fee: 31 })),
          orderFee: 17 + ((step - (raw % step)) % step),
          currency,
        });
        const ids = (await standing(order)).tickets.map(({ ticket }) => ticket);
        for (const { tickets, ...rest } of wishes) {
          const asked = tickets === 'all' ? tickets : tickets.map((n) => ids[n] ?? randomUUID());
          const before = await standing(order);
          const expected = decideRefund(before, { ...rest, tickets: asked }, step);
          const made = await refunds.make(refundCommand(order, { ...rest, tickets: asked }), claim);
          const ended = (await record.findOrder(order.order))!.state === 'cancelled';
          if (made.kind === 'made') {
            assert.ok(expected.kind === 'refund', JSON.stringify({ expected, made }));
            const { feesKept, orderFee, goodwill, amount } = made.refund;
            assert.deepEqual(
              [feesKept, orderFee, goodwill, amount],
              [expected.feesKept, expected.orderFee, expected.goodwill, expected.amount],
            );
            assert.deepEqual(made.refund.tickets, [...expected.tickets].sort());
            assert.equal(made.operation?.amount ?? 0, amount);
            assert.equal(made.seats.length, expected.tickets.length);
            const now = await standing(order);
            assert.equal(leftOf(now), dueOf(now), 'captured − refunded is what is due');
          } else if (made.kind === 'not_paid') {
            assert.ok(ended && before.refunds.length > 0, 'only what has no ticket left');
          } else {
            assert.equal(made.kind, expected.kind);
            assert.deepEqual(await standing(order), before, 'what is refused changes nothing');
          }
          assert.equal(ended, !(await standing(order)).tickets.some(({ valid }) => valid));
        }
      },
    ),
    { numRuns: 25 },
  );
});

test('P8, S5: a refund cancels tickets, revokes their codes, gives limits and seats back in one step; blocked ones stay back', async () => {
  const { record, refunds } = parts();
  const stage = await stageEvent(database, {
    seats: 5,
    settings: { accountSeatsMax: 4, instrumentSeatsMax: 4 },
  });
  const order = await paidOrder(record, stage, {
    seats: [0, 1, 2, 3],
    visitor: `buyer-${stage.event}`,
    card: 'c',
  });
  const tickets = (await refunds.paidTickets(stage.event, order.order)).map(({ ticket }) => ticket);
  const counts = () =>
    database.query('SELECT kind, seats FROM limit_counts WHERE event_no = $1 ORDER BY kind', [stage.event]);
  assert.deepEqual(await counts(), [
    { kind: 'account', seats: 4 },
    { kind: 'instrument', seats: 4 },
  ]);

  const first = await refunds.make(refundCommand(order, { tickets: tickets.slice(0, 1) }), claim);
  assert.ok(first.kind === 'made');
  assert.deepEqual(
    first.seats.map(({ seat, state }) => [seat, state]),
    [[0, 'available']],
  );
  assert.equal(first.order.state, 'paid');
  const second = await refunds.make(
    refundCommand(order, { tickets: tickets.slice(1, 2), seats: 'block', reason: 'kept back' }),
    claim,
  );
  assert.ok(second.kind === 'made');
  assert.equal(await seatStates(stage.event), 'available blocked sold sold available');
  const [block] = await database.query('SELECT seat_no, reason, actor FROM blocks WHERE event_no = $1', [
    stage.event,
  ]);
  assert.deepEqual(block, { seat_no: 1, reason: 'kept back', actor: 'organiser' });
  assert.deepEqual(await counts(), [
    { kind: 'account', seats: 2 },
    { kind: 'instrument', seats: 2 },
  ]);
  assert.deepEqual(
    (await revokedTickets(db, stage.event)).map(({ ticket }) => ticket),
    tickets.slice(0, 2),
  );

  const rest = await refunds.make(refundCommand(order), claim);
  assert.ok(rest.kind === 'made' && rest.order.state === 'cancelled');
  assert.equal(rest.order.reason, 'refunded');
  assert.equal(rest.refund.orderFee, 100);
  assert.equal(await seatStates(stage.event), 'available blocked available available available');
  const told = await database.query(
    'SELECT what, count(*)::int AS n FROM mails WHERE order_id = $1 GROUP BY what ORDER BY what',
    [order.order],
  );
  assert.deepEqual(told, [
    { what: 'order.cancelled', n: 1 },
    { what: 'order.confirmed', n: 1 },
    { what: 'refund.created', n: 3 },
  ]);
  const acts = await database.query(
    `SELECT count(*)::int AS n FROM audit_log WHERE event_no = $1 AND action = 'refund'`,
    [stage.event],
  );
  assert.equal(acts[0].n, 3);
});

test('P5: the same request is one refund; another wish with its key is refused; of two at once for a ticket one is made', async () => {
  const { record, refunds } = parts();
  const stage = await stageEvent(database, { seats: 8 });
  const order = await paidOrder(record, stage, { seats: [0, 1] });
  const wish = { tickets: [], goodwill: 300, fees: 'kept', requestKey: 'again' } as const;
  const outcomes = await Promise.all(
    Array.from({ length: 6 }, () => refunds.make(refundCommand(order, wish), claim)),
  );
  assert.deepEqual(outcomes.map(({ kind }) => kind).sort(), ['made', ...Array(5).fill('repeated')]);
  const other = await refunds.make(refundCommand(order, { ...wish, request: 'another' }), claim);
  assert.equal(other.kind, 'mismatch');

  const [ticket] = await refunds.paidTickets(stage.event, order.order);
  const raced = await Promise.all(
    Array.from({ length: 6 }, () => refunds.make(refundCommand(order, { tickets: [ticket!.ticket] }), claim)),
  );
  assert.deepEqual(raced.map(({ kind }) => kind).sort(), ['made', ...Array(5).fill('not_valid')]);
  const now = await standing(order);
  assert.equal(leftOf(now), dueOf(now));
});

test('pages of refunds miss none that were made in the same millisecond', async () => {
  const { record, refunds } = parts();
  const stage = await stageEvent(database, { seats: 4 });
  const order = await paidOrder(record, stage, { seats: [0] });
  for (const second of ['01.000900', '02.000100', '02.000500', '02.000900', '03.000500']) {
    const refund = refundCommand(order, { tickets: [], goodwill: 100 });
    await refunds.make(refund, claim);
    await database.query('UPDATE refunds SET created_at = $2 WHERE refund_id = $1', [
      refund.refund,
      `2030-01-01T00:00:${second}Z`,
    ]);
  }
  const pages: number[] = [];
  for (let before: number | undefined; ; ) {
    const page = await refunds.list(stage.event, { limit: 2, before });
    if (page.length === 0) break;
    pages.push(page.length);
    before = page.at(-1)!.createdAt;
  }
  assert.deepEqual(pages, [4, 1]);
});

test('P2: nothing is refunded of an order that is not paid; goodwill never exceeds what is left', async () => {
  const { record, refunds } = parts();
  const stage = await stageEvent(database, { seats: 4 });
  const order = await paidOrder(record, stage, { seats: [0] });
  assert.equal(
    (await refunds.make(refundCommand({ ...order, order: randomUUID() }), claim)).kind,
    'unknown_order',
  );
  const much = await refunds.make(refundCommand(order, { tickets: [], goodwill: 5351 }), claim);
  assert.deepEqual(much, { kind: 'too_much', amount: 5351, most: 5350 });
  await database.query(`UPDATE orders SET state = 'confirmed' WHERE order_id = $1`, [order.order]);
  assert.equal((await refunds.make(refundCommand(order), claim)).kind, 'not_paid');
});

test('P5: attempts: a retry is a new row with its own key, only after a failure, and one at a time', async () => {
  const { record, refunds } = parts();
  const stage = await stageEvent(database, { seats: 4 });
  const order = await paidOrder(record, stage, { seats: [0] });
  const made = await refunds.make(refundCommand(order), claim);
  assert.ok(made.kind === 'made' && made.operation);
  const { refund } = made.refund;
  const first = made.operation.operation;
  const again = () => {
    const operation = randomUUID();
    return refunds.retry({ refund, operation, key: operation, actor: 'organiser' }, claim);
  };
  assert.equal((await again()).kind, 'decided');

  const waits = await refunds.settle({
    operation: first,
    state: 'waiting',
    dueMs: 1,
    detail: 'insufficient_funds',
  });
  assert.deepEqual([waits.refund.state, waits.refund.detail], ['pending', 'insufficient_funds']);
  assert.equal((await again()).kind, 'decided');
  const failed = await refunds.settle({ operation: first, state: 'refused', detail: 'lost_card' });
  assert.deepEqual([failed.refund.state, failed.refund.detail], ['failed', 'lost_card']);

  const retries = await Promise.all([again(), again(), again()]);
  assert.deepEqual(retries.map(({ kind }) => kind).sort(), ['decided', 'decided', 'retried']);
  const retried = retries.find(({ kind }) => kind === 'retried');
  assert.ok(retried?.kind === 'retried');
  const attempt = await refunds.attemptOf(retried.operation.operation);
  assert.deepEqual([attempt?.refund.attempts, attempt?.others[0]?.operation], [2, first]);
  // The first one had gone through after all, while the second is under way: not silently.
  const late = await refunds.settle({ operation: first, state: 'done' });
  assert.deepEqual([late.refund.state, late.operation.attention], ['open', 'refunded_twice']);

  const done = await refunds.settle({ operation: retried.operation.operation, state: 'done' });
  assert.equal(done.refund.state, 'done');
  const repeated = await refunds.settle({
    operation: retried.operation.operation,
    state: 'unknown',
    dueMs: 1,
  });
  assert.equal(repeated.refund.state, 'done', 'a late answer changes nothing');
  // Days later the bank sends it back.
  const back = await refunds.settle({
    operation: retried.operation.operation,
    state: 'refused',
    detail: 'closed',
  });
  assert.equal(back.refund.state, 'failed');
  const elsewhere = await refunds.elsewhere(refund, 'organiser', 'in cash');
  assert.ok(elsewhere.kind === 'elsewhere');
  assert.deepEqual([elsewhere.refund.state, elsewhere.refund.detail], ['elsewhere', 'in cash']);
  assert.equal((await again()).kind, 'decided');
  assert.equal((await refunds.elsewhere(randomUUID(), 'organiser', 'x')).kind, 'unknown_refund');
});

test('a refund that comes to nothing is done at once; what fees were kept may still be given back', async () => {
  const { record, refunds } = parts();
  const stage = await stageEvent(database, { seats: 4 });
  const free = await paidOrder(record, stage, {
    lines: [{ seat: 0, category: 'A', kind: 'full', price: 0, fee: 250 }],
    orderFee: 0,
  });
  const made = await refunds.make(refundCommand(free, { fees: 'kept' }), claim);
  assert.ok(made.kind === 'made' && made.operation === null);
  assert.deepEqual([made.refund.state, made.refund.amount, made.order.state], ['done', 0, 'cancelled']);
  const later = await refunds.make(refundCommand(free, { tickets: [], goodwill: 250 }), claim);
  assert.ok(later.kind === 'made' && later.refund.amount === 250);
});
