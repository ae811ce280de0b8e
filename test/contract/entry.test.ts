import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import test, { after, before } from 'node:test';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { createDb, type Db } from '../../src/sales/db.ts';
import { checkIn, entryCounts } from '../../src/sales/entry.ts';
import { createSalesRecord } from '../../src/sales/orders-record.ts';
import { createRefundRecord, revokedTickets } from '../../src/sales/refunds.ts';
import { ticketsOfOrder } from '../../src/sales/tickets.ts';
import { paidOrder } from '../support/paid-order.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { stageEvent } from '../support/stage.ts';

let database: TestDatabase;
let db: Db;
before(async () => {
  database = await testDatabase();
  db = createDb({ url: database.url, poolSize: 12, clock: systemClock, log: silentLogger });
});
after(async () => {
  await db?.close();
});

async function sold(seats: number[]) {
  const stage = await stageEvent(database);
  const { order } = await paidOrder(createSalesRecord({ db }), stage, { seats });
  const tickets = (await ticketsOfOrder(db, stage.event, order)).map(({ ticket }) => ticket);
  assert.equal(tickets.length, seats.length);
  return { event: stage.event, order, tickets };
}

const enter = (event: number, ticket: string, gate: string | null = null, scan: string | null = null) =>
  checkIn(db, { event, ticket, gate, scan, actor: 'gate' });

async function refund(order: string, tickets: string[]): Promise<void> {
  const operation = randomUUID();
  const outcome = await createRefundRecord({ db }).make(
    {
      tickets,
      fees: 'returned',
      goodwill: 0,
      refund: randomUUID(),
      order,
      operation,
      key: operation,
      requestKey: operation,
      request: 'r',
      actor: 'organiser',
      reason: 'asked for it',
      seats: 'release',
      step: 1,
    },
    { owner: 'me', leaseMs: 30_000 },
  );
  assert.equal(outcome.kind, 'made');
}

test('a ticket at twenty gates at once lets in at exactly one; all others are told which and when', async () => {
  const { event, tickets } = await sold([1]);
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => enter(event, tickets[0]!, `Gate ${i}`, `scan ${i}`)),
  );
  const [valid, ...more] = answers.filter(({ kind }) => kind === 'valid');
  assert.deepEqual(more, []);
  assert.ok(valid?.kind === 'valid' && !valid.repeated);
  const used = answers.filter((one) => one.kind === 'used');
  assert.equal(used.length, 19);
  assert.ok(used.every(({ gate, at }) => gate === valid.gate && at === valid.at));
  assert.equal((await entryCounts(db, event)).entered, 1);
});

test('a refund and a gate meet at a ticket: in whichever order, and afterwards it is revoked for all', async () => {
  const seats = [0, 1, 2, 3, 4, 5, 6, 7];
  const { event, order, tickets } = await sold(seats);
  const first = await Promise.all(
    tickets.map(async (ticket) => (await Promise.all([enter(event, ticket), refund(order, [ticket])]))[0]),
  );
  for (const [i, ticket] of tickets.entries()) {
    const [row] = await database.query(
      `SELECT t.revoked_at IS NOT NULL AS revoked, n.at IS NOT NULL AS entered
       FROM tickets t LEFT JOIN entries n USING (event_no, ticket_id) WHERE t.event_no = $1 AND t.ticket_id = $2`,
      [event, ticket],
    );
    assert.deepEqual(row, { revoked: true, entered: first[i]!.kind === 'valid' });
    // Validity is judged before use: also of one that came in.
    const later = await enter(event, ticket);
    assert.ok(later.kind === 'revoked' && later.why === 'refunded', JSON.stringify(later));
  }
});

test('a gate does not decide between the two halves of a refund: it waits for its end', async () => {
  const { event, tickets } = await sold([1]);
  const client = await database.pool(1).connect();
  await client.query('BEGIN');
  await client.query(`UPDATE tickets SET status = 'cancelled', revoked_at = now() WHERE ticket_id = $1`, [
    tickets[0],
  ]);
  const asked = enter(event, tickets[0]!);
  const state = await Promise.race([
    asked.then(({ kind }) => kind),
    systemClock.sleep(300).then(() => 'waits'),
  ]);
  assert.equal(state, 'waits');
  await client.query('COMMIT');
  client.release();
  assert.equal((await asked).kind, 'revoked');
});

test('nobody enters a cancelled event, with an unpaid ticket, or with one that is not in the record', async () => {
  const { event, order, tickets } = await sold([1, 2]);
  assert.equal((await enter(event, tickets[0]!)).kind, 'valid');
  const why = async (ticket: string) => {
    const answer = await enter(event, ticket);
    return answer.kind === 'revoked' ? answer.why : answer.kind;
  };
  assert.equal(await why(randomUUID()), 'unknown');
  await database.query(`UPDATE orders SET state = 'confirmed' WHERE order_id = $1`, [order]);
  assert.deepEqual([await why(tickets[0]!), await why(tickets[1]!)], ['not_paid', 'not_paid']);
  await database.query(`UPDATE orders SET state = 'paid' WHERE order_id = $1`, [order]);
  await database.query(`UPDATE events SET phase = 'cancelled' WHERE event_no = $1`, [event]);
  assert.deepEqual([await why(tickets[0]!), await why(tickets[1]!)], ['event_cancelled', 'event_cancelled']);
  const revoked = (await revokedTickets(db, event)).map(({ ticket }) => ticket);
  assert.deepEqual(revoked.sort(), [...tickets].sort());
});
