import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import test, { after, before } from 'node:test';
import {
  checkIn,
  entryCounts,
  entryDoubles,
  type OfflineScan,
  undoEntry,
  uploadScans,
} from '../../src/fulfilment/entry.ts';
import { recordedTicketKeys, ticketKeySeen } from '../../src/fulfilment/recorded-ticket-keys.ts';
import { createSalesRecord } from '../../src/orders/orders-record.ts';
import { createRefundRecord, revokedTickets } from '../../src/orders/refunds.ts';
import { ticketsOfOrder } from '../../src/orders/tickets.ts';
import { createDb, type Db } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { keepsWaiting, setPhase } from '../support/acts.ts';
import { paidOrder } from '../support/paid-order.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { stageEvent } from '../support/stage.ts';
import { until } from '../support/wait.ts';

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

test('a ticket scanned at twenty gates at once is admitted at exactly one; all others learn which and when', async () => {
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
  let answered = false;
  void asked.then(() => {
    answered = true;
  });
  const [{ pid }] = (await client.query('SELECT pg_backend_pid() AS pid')).rows;
  await until(() => keepsWaiting(database, pid), 'the gate to wait for the refund');
  assert.equal(answered, false);
  await client.query('COMMIT');
  client.release();
  assert.equal((await asked).kind, 'revoked');
});

test('no ticket of a cancelled event, no unpaid ticket, and no ticket outside the record is admitted', async () => {
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
  await setPhase(database, event, 'cancelled');
  assert.deepEqual([await why(tickets[0]!), await why(tickets[1]!)], ['event_cancelled', 'event_cancelled']);
  const revoked = (await revokedTickets(db, event)).map(({ ticket }) => ticket);
  assert.deepEqual(revoked.sort(), [...tickets].sort());
});

const undo = (event: number, ticket: string, at: number | null = null) =>
  undoEntry(db, { event, ticket, at, reason: 'the wrong one', actor: 'steward' });

test('a check-in that was a mistake is taken back once, with its reason in the action log; the ticket lets in again', async () => {
  const { event, tickets } = await sold([1, 2]);
  const [ticket] = tickets as [string];
  assert.equal((await undo(event, ticket)).kind, 'not_entered');
  const first = await enter(event, ticket, 'North', 'scan 1');
  assert.ok(first.kind === 'valid');
  const taken = await undo(event, ticket, first.at);
  assert.deepEqual(taken, { kind: 'undone', at: first.at, gate: 'North', seat: 1, next: null });
  assert.equal((await entryCounts(db, event)).entered, 0);
  // A gate that got no response sends the scan again after it was taken back. It is not admitted.
  const repeat = await enter(event, ticket, 'North', 'scan 1');
  assert.ok(repeat.kind === 'undone' && repeat.at === first.at && repeat.gate === 'North');
  assert.equal((await entryCounts(db, event)).entered, 0);
  const second = await enter(event, ticket, 'South', 'scan 2');
  assert.equal(second.kind, 'valid');
  // The same request again, its answer having been lost, takes back nothing that came later.
  assert.equal((await undo(event, ticket, first.at)).kind, 'not_entered');
  assert.equal((await enter(event, ticket)).kind, 'used');
  const log = await database.query(
    `SELECT actor, detail FROM audit_log WHERE action = 'entry_undo' AND event_no = $1`,
    [event],
  );
  assert.equal(log.length, 1);
  const { ticket: which, gate, by, reason } = log[0].detail;
  assert.deepEqual(
    [log[0].actor, which, gate, by, reason],
    ['steward', ticket, 'North', 'gate', 'the wrong one'],
  );
});

test('scans of gates without a network: the earliest use counts in whatever order they arrive, double uses are reported, repeats change nothing', async () => {
  const { event, order, tickets } = await sold([1, 2, 3]);
  const [twice, once, back] = tickets as [string, string, string];
  const start = Date.now() - 60_000;
  const scan = (ticket: string, name: string, at: number): OfflineScan => ({
    ticket,
    scan: name,
    gate: `Gate ${name}`,
    at,
  });
  const late = scan(twice, 'late', start + 2_000);
  const early = scan(twice, 'early', start + 1_000);
  const online = await enter(event, twice, 'Desk', 'online');
  assert.ok(online.kind === 'valid');
  const upload = (scans: OfflineScan[], actor = 'tablet') => uploadScans(db, event, scans, actor);
  const [one] = await upload([late]);
  assert.deepEqual(one?.others, [{ at: online.at, gate: 'Desk', actor: 'gate' }]);
  assert.deepEqual([one?.kind, one?.repeated, one?.at, one?.seat], ['entered', false, late.at, 1]);
  const answers = await upload([early, scan(once, 'once', start), late]);
  assert.deepEqual(
    answers.map(({ kind, repeated }) => [kind, repeated]),
    [
      ['entered', false],
      ['entered', false],
      ['double', true],
    ],
  );
  const uses = [
    { at: early.at, gate: 'Gate early', actor: 'tablet' },
    { at: late.at, gate: 'Gate late', actor: 'tablet' },
    { at: online.at, gate: 'Desk', actor: 'gate' },
  ];
  assert.deepEqual(await entryDoubles(db, event), [{ ticket: twice, seat: 1, uses }]);
  assert.deepEqual(await enter(event, twice, 'Desk', 'online'), { ...online, repeated: true });
  const used = await enter(event, twice, 'West', 'again');
  assert.ok(used.kind === 'used' && used.at === early.at && used.gate === 'Gate early');

  // The scan before the refund was rightly let in. At the scan after the refund the ticket was no longer
  // valid.
  const before = scan(back, 'before', Date.now());
  await refund(order, [back]);
  const after = scan(back, 'after', Date.now() + 60_000);
  const told = await upload([before, after]);
  assert.deepEqual(
    told.map(({ kind, why }) => [kind, why]),
    [
      ['entered', null],
      ['revoked', 'refunded'],
    ],
  );
  assert.ok(told[1]!.at <= Date.now() + 1_000, 'a clock that is ahead counts as this one');
  const { entered, doubles, revoked } = await entryCounts(db, event);
  assert.deepEqual([entered, doubles, revoked], [3, 2, 1]);
  assert.ok((await upload([after, before, early, late])).every(({ repeated }) => repeated));
  assert.deepEqual(
    (({ entered: n, ...more }) => [n, more.doubles, more.revoked])(await entryCounts(db, event)),
    [3, 2, 1],
  );

  // Not the first use taken back, by its time: the first stays.
  const desk = await undo(event, twice, online.at);
  assert.ok(desk.kind === 'undone' && desk.gate === 'Desk');
  assert.deepEqual(desk.next, { at: early.at, gate: 'Gate early' });
  assert.equal((await undo(event, twice, online.at)).kind, 'not_entered');
  assert.equal((await entryCounts(db, event)).doubles, 1);

  // The first use taken back: the next one counts in its place, and the list that held it brings it no more.
  const taken = await undo(event, twice, early.at);
  assert.ok(taken.kind === 'undone');
  assert.deepEqual(taken.next, { at: late.at, gate: 'Gate late' });
  assert.deepEqual(
    (await upload([early, late])).map(({ kind }) => kind),
    ['undone', 'entered'],
  );
});

test('a scan that is repeated at another gate is another scan: scanners that share a key do not admit a ticket twice', async () => {
  const { event, tickets } = await sold([1, 2]);
  const [atDoor, onLists] = tickets as [string, string];
  const first = await enter(event, atDoor, 'North', '1');
  assert.ok(first.kind === 'valid' && !first.repeated);
  const south = await enter(event, atDoor, 'South', '1');
  assert.ok(south.kind === 'used' && south.gate === 'North', south.kind);
  const north = await enter(event, atDoor, 'North', '1');
  assert.ok(north.kind === 'valid' && north.repeated, 'a repeat at its own gate has its answer again');

  const at = Date.now() - 60_000;
  const list = ['North', 'South'].map((gate, n) => ({ ticket: onLists, scan: '1', gate, at: at + n }));
  for (const repeated of [false, true]) {
    const answers = await uploadScans(db, event, list, 'tablet');
    assert.deepEqual(
      answers.map((one) => [one.kind, one.gate, one.repeated, one.others?.map(({ gate }) => gate)]),
      [
        ['entered', 'North', repeated, ['South']],
        ['double', 'South', repeated, ['North']],
      ],
    );
  }
});

test('who came in before the event was called off was rightly let in, who came after it was not', async () => {
  const { event, tickets } = await sold([1, 2, 3]);
  const [before, after] = tickets as [string, string];
  const scanned = Date.now() - 60_000;
  await database.query(
    `WITH called AS (UPDATE events SET phase = 'cancelled' WHERE event_no = $1)
     INSERT INTO event_cancellations (event_no, actor, reason, fees, seats, per_second, started_at)
     VALUES ($1, 'organiser', 'storm', 'returned', 'release', 1, to_timestamp($2::float8 / 1000))`,
    [event, scanned + 1_000],
  );
  const gate = { gate: 'North' };
  const answers = await uploadScans(
    db,
    event,
    [
      { ...gate, ticket: before, scan: 'in time', at: scanned },
      { ...gate, ticket: after, scan: 'too late', at: scanned + 2_000 },
    ],
    'tablet',
  );
  assert.deepEqual(
    answers.map(({ kind, why }) => [kind, why]),
    [
      ['entered', null],
      ['revoked', 'event_cancelled'],
    ],
  );
});

test('lists and gates that meet at the same tickets: each use is recorded once, the earliest first', async () => {
  const seats = [0, 1, 2, 3, 4, 5];
  const { event, tickets } = await sold(seats);
  const start = Date.now() - 60_000;
  const listOf = (name: string, order: string[], from: number): OfflineScan[] =>
    order.map((ticket) => ({ ticket, scan: `${name} ${ticket}`, gate: name, at: start + from }));
  const lists = [
    listOf('A', tickets, 3_000),
    listOf('B', [...tickets].reverse(), 1_000),
    listOf('C', [...tickets.slice(3), ...tickets.slice(0, 3)], 2_000),
  ];
  const gates = tickets.map((ticket) => enter(event, ticket, 'Desk', `desk ${ticket}`));
  await Promise.all([...lists, ...lists].map((list) => uploadScans(db, event, list, 'tablet')));
  const valid = (await Promise.all(gates)).filter(({ kind }) => kind === 'valid').length;
  const doubles = await entryDoubles(db, event);
  assert.deepEqual(
    doubles.map(({ uses }) => uses.slice(0, 3).map(({ gate }) => gate)),
    tickets.map(() => ['B', 'C', 'A']),
  );
  const counts = await entryCounts(db, event);
  assert.deepEqual([counts.entered, counts.doubles], [seats.length, seats.length * 2 + valid]);
  const used = await enter(event, tickets[0]!);
  assert.ok(used.kind === 'used' && used.gate === 'B');
});

test('of new ticket keys that are recorded at once, all but one learn of another; a known one is no longer new', async () => {
  const keys = Array.from({ length: 8 }, (_, n) => ({ keyId: `0000000${n}`, publicKey: `key ${n}` }));
  const seen = await Promise.all(keys.map((key) => ticketKeySeen(db, key)));
  assert.ok(seen.every(({ first }) => first));
  assert.deepEqual(seen.map(({ others }) => others).sort(), [0, 1, 2, 3, 4, 5, 6, 7]);
  assert.deepEqual(await ticketKeySeen(db, keys[3]!), { first: false, others: 7 });
  const recorded = await recordedTicketKeys(db);
  assert.deepEqual([recorded.length, recorded[0]], [8, 'key 3']);
});
