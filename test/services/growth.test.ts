import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { overStore } from '../../models/one-store.ts';
import { checkIn } from '../../src/fulfilment/entry.ts';
import { createPostgresArbiter } from '../../src/inventory/postgres.ts';
import { createSalesRecord } from '../../src/orders/orders-record.ts';
import { orderedHolds } from '../../src/orders/projection.ts';
import { ticketsOfOrder } from '../../src/orders/tickets.ts';
import { createDb } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { createPostgresWaitingRoom } from '../../src/waiting-room/postgres.ts';
import { leads } from '../support/acts.ts';
import { testDatabase } from '../support/postgres.ts';
import { madeRefund, refundDesk } from '../support/refund-desk.ts';
import { between, flushStatistics, rowsRead, withoutStatistics } from '../support/rows-read.ts';
import { startTestSimulator } from '../support/simulator.ts';
import { payCommand, reserveCommand, stageEvent, till } from '../support/stage.ts';

/** In each phase so many buyers are measured; between the two the sale grows to ten times of what it was. */
const measured = 30;
const grown = 10 * measured;
/** Rows of one table that a buyer's whole way may read; the venue has many more seats. */
const rowsMax = 200;
/** Connections, each with its own plans, all of them made while the tables were empty. */
const poolSize = 3;

/**
 * A sale's first minutes: the tables were empty when plans were made, and there are no statistics yet. Counts
 * the rows read, because time would show nothing: these tables are in memory, and this machine is shared.
 */
test('what a buyer’s way from the line to the door reads does not grow with the sale', async (t) => {
  const database = await testDatabase(t);
  const simulator = await startTestSimulator();
  t.after(() => simulator.stop());
  const stage = await stageEvent(database, {
    mode: 'postgres',
    seats: 2 * grown,
    settings: { accountSeatsMax: 8, instrumentSeatsMax: 10_000 },
  });
  await withoutStatistics(database);
  await leads(database, stage.event);
  const db = createDb({ url: database.url, poolSize, clock: systemClock, log: silentLogger });
  t.after(() => db.close());
  const arbiter = createPostgresArbiter({ db });
  const room = createPostgresWaitingRoom({ db });
  const desk = refundDesk(database.url, simulator.provider, { poolSize });
  t.after(() => desk.close());
  const shop = till(database.url, simulator.provider, {
    arbiter: overStore(arbiter, () => stage.epoch),
    poolSize,
  });
  t.after(() => shop.close());

  let buyers = 0;
  async function buyer(): Promise<void> {
    const n = buyers++;
    const { event, epoch } = stage;
    const visitor = `buyer-${n}`;
    const [joined] = await room.join(event, 0, [visitor]);
    assert.equal(joined?.kind, 'joined');
    await room.publish(event, 1, { frontier: [n + 1], rate: 1e6, burst: 1e6 });
    const passId = randomUUID();
    const pass = await room.redeem({ event, shard: 0, number: n + 1, visitor, passId, sessionMs: 900_000 });
    assert.equal(pass.kind, 'issued', JSON.stringify(pass));
    const held = await arbiter.hold({
      ...{ event, partition: 0, epoch, hold: randomUUID(), visitor, holder: visitor, request: 'r' },
      ...{ claim: { kind: 'seats', seats: [2 * n, 2 * n + 1] }, ttlMs: 600_000, seatsMax: 6 },
      ...{ replaces: null, notAfter: null },
    });
    assert.ok(held.kind === 'granted', JSON.stringify(held));
    const reserved = await shop.checkout.reserve(reserveCommand(held.hold));
    assert.ok(reserved.kind === 'order', JSON.stringify(reserved));
    const { order } = reserved.order;
    const paid = await shop.checkout.pay(payCommand(order, 'pm_card_visa'));
    assert.ok(paid.kind === 'bought', JSON.stringify(paid));
    const tickets = await ticketsOfOrder(db, event, order);
    assert.equal(tickets.length, 2);
    await desk.record.findOpenOrder(event, visitor);
    await desk.refundRecord.ofOrder(order);
    if (n % 3 === 0) await madeRefund(desk, { order }, { tickets: [tickets[0]!.ticket] });
    const gate = { gate: 'north', scan: null, actor: 'scanner' };
    const entered = await checkIn(db, { event, ticket: tickets[1]!.ticket, ...gate });
    assert.equal(entered.kind, 'valid');
  }
  const all = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i += 1) await buyer();
  };
  const read = async (): Promise<Map<string, number>> => {
    await Promise.all([db, desk.db, shop.db].map((each) => flushStatistics(each, poolSize)));
    return await rowsRead(database);
  };

  // Runs each statement often enough for its plan to be kept: a session plans the first five executions separately.
  await all(6 * poolSize);
  const before = await read();
  await all(measured);
  const early = between(before, await read());
  await all(grown - buyers - measured);
  const later = await read();
  await all(measured);
  const late = between(later, await read());

  const sum = (reads: Map<string, number>) => [...reads.values()].reduce((a, b) => a + b, 0);
  t.diagnostic(
    `rows read a buyer: ${sum(early) / measured} early, ${sum(late) / measured} at ten times the sale`,
  );
  for (const [table, rows] of late) {
    const [first, last] = [(early.get(table) ?? 0) / measured, rows / measured];
    assert.ok(
      last <= 1.5 * first + 4,
      `${table}: ${first} rows a buyer early, ${last} at ten times the sale`,
    );
    assert.ok(last < rowsMax, `${table}: ${last} rows a buyer, in a venue of ${2 * grown} seats`);
  }
  assert.ok(sum(early) > measured, 'reads are seen at all');
});

/** Other orders, whose number must not matter. */
const others = 5_000;

test('naming one operation, claiming due work and reporting changes to Redis read nothing of 5,000 other orders', async (t) => {
  const database = await testDatabase(t);
  const { event } = await stageEvent(database, { mode: 'redis', seats: 10 });
  await withoutStatistics(database);
  const db = createDb({ url: database.url, poolSize: 1, clock: systemClock, log: silentLogger });
  t.after(() => db.close());
  const record = createSalesRecord({ db });
  const make = async (count: number, state: string, updated: string, dueAt: string): Promise<string> => {
    // In the session that is counted: another one would report its look-ups of foreign keys at any time.
    const [made] = await db.query<{ operation: string }>(
      'test_make',
      `WITH made AS (
         INSERT INTO orders (order_id, event_no, hold_id, visitor, holder, account, buyer, seats, lines, amount, currency, state,
                             payment_deadline, updated_at)
         SELECT gen_random_uuid(), $1, gen_random_uuid(), gen_random_uuid(), 'h', 'a', '{}', '{}', '[]', 1000, 'EUR', $3,
                now() + interval '10 minutes', now() - $4::interval
         FROM generate_series(1, $2::integer) RETURNING order_id)
       INSERT INTO money_operations (operation_id, order_id, kind, state, key, amount, currency, due_at)
       SELECT gen_random_uuid(), order_id, 'authorise', 'waiting', gen_random_uuid(), 1000, 'EUR', now() + $5::interval FROM made
       RETURNING operation_id AS operation`,
      [event, count, state, updated, dueAt],
    );
    return made!.operation;
  };
  const named = await make(1, 'reserved', '0 s', '1 h');
  const acts: [string, () => Promise<unknown>][] = [
    ['named', () => record.claim({ owner: 'test', limit: 1, leaseMs: 60_000, operation: named })],
    ['due', () => record.claim({ owner: 'test', limit: 20, leaseMs: 60_000 })],
    ['changed', () => orderedHolds(db, event, { withinMs: 30_000, open: false })],
    ['open', () => orderedHolds(db, event, { withinMs: 30_000, open: true })],
  ];
  // So that plans are kept, made for tables that were all but empty.
  for (let i = 0; i < 6; i++) for (const [, act] of acts) await act();
  await make(others, 'paid', '1 h', '1 h');
  await make(5, 'reserved', '1 h', '-1 s');
  for (const [what, act] of acts) {
    await flushStatistics(db, 1);
    const before = await rowsRead(database);
    await act();
    await flushStatistics(db, 1);
    const read = between(before, await rowsRead(database));
    const rows = (read.get('orders') ?? 0) + (read.get('money_operations') ?? 0);
    assert.ok(rows < 100, `${what}: ${rows} rows`);
  }
  await database.query('UPDATE money_operations SET claimed_until = NULL WHERE operation_id = $1', [named]);
  const [claimed] = await record.claim({ owner: 'test', limit: 1, leaseMs: 60_000, operation: named });
  assert.equal(claimed?.operation, named);
});
