import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { createPostgresArbiter } from '../../src/inventory/postgres.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { createDb, type Db } from '../../src/sales/db.ts';
import { checkIn } from '../../src/sales/entry.ts';
import { ticketsOfOrder } from '../../src/sales/tickets.ts';
import { createPostgresWaitingRoom } from '../../src/waiting-room/postgres.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { madeRefund, refundDesk } from '../support/refund-desk.ts';
import { startTestSimulator } from '../support/simulator.ts';
import { payCommand, reserveCommand, stageEvent, till } from '../support/stage.ts';

/** In each phase so many buyers are measured; between the two the sale grows to ten times of what it was. */
const measured = 30;
const grown = 10 * measured;
/** Rows of one table that a buyer's whole way may read; the house has many more seats. */
const rowsMax = 200;
/** Connections, each with its own plans, all of them made while the tables were empty. */
const poolSize = 3;

/**
 * A sale's first minutes: tables that were empty when plans were made, no statistics yet. Time would not tell (these tables
 * are in memory, this machine is shared): rows read do.
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
  await database.query(
    `INSERT INTO leases (event_no, owner, term, until) VALUES ($1, 'test', 1, 'infinity')`,
    [stage.event],
  );
  const db = createDb({ url: database.url, poolSize, clock: systemClock, log: silentLogger });
  t.after(() => db.close());
  const arbiter = createPostgresArbiter({ db });
  const room = createPostgresWaitingRoom({ db });
  const desk = refundDesk(database.url, simulator.provider, { poolSize });
  t.after(() => desk.close());
  const shop = till(database.url, simulator.provider, { arbiter, poolSize });
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
    await Promise.all([db, desk.db, shop.db].map(flushStatistics));
    return await rowsRead(database);
  };

  // So that plans are kept: a session plans anew the first five times.
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
    assert.ok(last < rowsMax, `${table}: ${last} rows a buyer, in a house of ${2 * grown} seats`);
  }
  assert.ok(sum(early) > measured, 'reads are seen at all');
});

/** Nobody analyses: plans stay those of empty tables. */
async function withoutStatistics(database: TestDatabase): Promise<void> {
  await database.query(`DO $$
    DECLARE r regclass;
    BEGIN
      FOR r IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', r);
      END LOOP;
    END $$`);
}

/** What each of the pool's sessions has counted so far is shown to others. */
async function flushStatistics(db: Db): Promise<void> {
  await Promise.all(
    Array.from({ length: poolSize }, () =>
      db.query('test_flush', 'SELECT pg_stat_force_next_flush(), pg_sleep(0.1)', []),
    ),
  );
  await systemClock.sleep(50);
}

/** Rows and index entries read so far, by table. */
async function rowsRead(database: TestDatabase): Promise<Map<string, number>> {
  const rows = await database.query<{ table: string; rows: number }>(
    `SELECT t.relname AS "table", (t.seq_tup_read + coalesce(i.entries, 0))::float8 AS rows
     FROM pg_stat_user_tables t
       LEFT JOIN (SELECT relid, sum(idx_tup_read) AS entries FROM pg_stat_user_indexes GROUP BY 1) i USING (relid)`,
  );
  return new Map(rows.map(({ table, rows }) => [table, rows]));
}

function between(before: Map<string, number>, after: Map<string, number>): Map<string, number> {
  return new Map([...after].map(([table, rows]) => [table, rows - (before.get(table) ?? 0)]));
}
