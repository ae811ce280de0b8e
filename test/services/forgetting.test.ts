import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { limitChecks } from '../../src/audit/orders.ts';
import { allowBuyer } from '../../src/orders/limits.ts';
import { createSalesRecord } from '../../src/orders/orders-record.ts';
import type { Order } from '../../src/orders/record.ts';
import { createRefundRecord } from '../../src/orders/refunds.ts';
import { createDb, type Db } from '../../src/postgres/db.ts';
import { buyerNamed, type ForgetOutcome, forgetBuyer } from '../../src/retention/forgetting.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { projectDir } from '../../src/runtime/project-dir.ts';
import { until } from '../support/app.ts';
import { paidOrder } from '../support/paid-order.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { holdOf, reserveCommand, stageEvent } from '../support/stage.ts';

let database: TestDatabase;
let db: Db;
before(async () => {
  database = await testDatabase();
  db = createDb({
    url: database.url,
    poolSize: 6,
    clock: systemClock,
    log: silentLogger,
    statementTimeoutMs: 60_000,
  });
});
after(async () => {
  await db?.close();
});

const actor = 'organiser@example.org';
const claim = { owner: 'me', leaseMs: 30_000 };
const settings = { accountSeatsMax: 8, instrumentSeatsMax: 8 };
const hostile = `=cmd|' /C calc'!A0 "Ayşe", المشتري`;

/** Every row of every table, the queue's own too, as one text a table. */
async function dump(): Promise<Record<string, string>> {
  const tables = await database.query<{ name: string }>(
    `SELECT oid::regclass::text AS name FROM pg_class
     WHERE relkind IN ('r','p') AND NOT relispartition
       AND relnamespace IN ('public'::regnamespace, 'graphile_worker'::regnamespace) ORDER BY 1`,
  );
  const rows = await database.query<{ name: string; rows: string }>(
    tables
      .map(
        ({ name }) =>
          `SELECT '${name}' AS name, coalesce(string_agg(t::text, '\n' ORDER BY t::text), '') AS rows FROM ${name} t`,
      )
      .join(' UNION ALL '),
  );
  return Object.fromEntries(rows.map(({ name, rows: text }) => [name, text]));
}

async function tablesNaming(words: readonly string[]): Promise<string[]> {
  const found = Object.entries(await dump()).flatMap(([table, rows]) =>
    words.filter((word) => rows.includes(word)).map((word) => `${table}: ${word}`),
  );
  return found.sort();
}

const forget = (email: string, more: { nameless?: boolean; dryRun?: boolean } = {}): Promise<ForgetOutcome> =>
  forgetBuyer(db, { buyer: { email }, nameless: false, dryRun: false, actor, ...more });

async function ended(event: number): Promise<void> {
  await database.query(
    `UPDATE events SET performance_at = now() - interval '25 hours', phase = 'closed' WHERE event_no = $1`,
    [event],
  );
}

/** P7's own questions about an event: the counts that limits use, and that no count exceeds them. */
async function limitViolations(event: number): Promise<string[]> {
  const found: string[] = [];
  for (const check of limitChecks) {
    const rows = await database.query<{ says: string }>(check.text, [event]);
    found.push(...rows.map(({ says }) => says));
  }
  return found;
}

async function refundOne(order: Order, reason: string): Promise<void> {
  const refunds = createRefundRecord({ db });
  const ticket = (await refunds.paidTickets(order.eventNo, order.order)).find(({ valid }) => valid);
  const operation = randomUUID();
  const made = await refunds.make(
    {
      refund: randomUUID(),
      order: order.order,
      operation,
      key: operation,
      requestKey: operation,
      request: 'r',
      actor,
      reason,
      seats: 'block',
      step: 1,
      tickets: [ticket!.ticket],
      fees: 'returned',
      goodwill: 0,
    },
    claim,
  );
  assert.equal(made.kind, 'made');
  await refunds.settle({ operation, state: 'done', detail: reason });
}

/** A buyer with a trace of himself in every place that can hold one. */
async function buyerEverywhere(stage: { event: number; epoch: number }) {
  const mark = `mark${randomUUID().slice(0, 8)}`;
  const visitor = `visitor-${mark}`;
  const email = `${visitor}@example.org`;
  const record = createSalesRecord({ db });
  await database.query(
    `INSERT INTO webhook_endpoints (endpoint_id, url, happenings, created_by)
     VALUES ($1, 'https://example.org', '{refund.created,order.confirmed}', 'me')`,
    [randomUUID()],
  );
  const order = await paidOrder(record, stage, { seats: [0, 1, 2], visitor, card: `card-${mark}` });
  await database.query(`UPDATE orders SET buyer = $2 WHERE order_id = $1`, [
    order.order,
    JSON.stringify({ name: `${hostile} ${mark}`, email: email.toUpperCase() }),
  ]);
  await refundOne(order, `fell ill, writes ${mark}`);
  await allowBuyer(db, {
    event: stage.event,
    actor,
    buyer: { order: order.order },
    reason: `knows ${mark}`,
    until: null,
  });
  await database.query(
    `INSERT INTO mailbox (message_id, sender, recipient, subject, body_text, body_html)
     SELECT mail_id || '@onsale.example', 'us', $2, $2, $2, $2 FROM mails WHERE order_id = $1`,
    [order.order, mark],
  );
  await database.query(`UPDATE mails SET last_error = $2 WHERE order_id = $1`, [
    order.order,
    `550 no ${mark}`,
  ]);
  // The owed jobs have gone to the queue in part, and in part not yet.
  await database.query('SELECT job_forward(2)');
  await database.query(
    `UPDATE graphile_worker._private_jobs SET last_error = $1 WHERE key LIKE 'mail/%' AND locked_at IS NULL`,
    [`550 no ${mark}`],
  );
  await database.query(
    `INSERT INTO reconcile_findings (kind, subject, order_id, object, says, settled_at, settled_by, note)
     VALUES ('amount_differs', $1, $2, $1, 'differs', now(), 'me', $3)`,
    [order.providerObject, order.order, `a note on ${mark}`],
  );
  await database.query(
    `INSERT INTO audit_log (actor, action, detail) VALUES ($1, 'reconcile_settle', jsonb_build_object('subject', $2::text, 'note', $3::text))`,
    [actor, order.providerObject, mark],
  );
  await database.query(
    `INSERT INTO hold_ends (event_no, hold_id, visitor, account, granted_at, ends_at)
     VALUES ($1, gen_random_uuid(), $2, $3, now(), now())`,
    [stage.event, visitor, email],
  );
  await database.query(
    `INSERT INTO cooldowns (event_no, kind, subject, unpaid, last_at, changed_at)
     VALUES ($1, 'visitor', $2, 1, now(), now()), ($1, 'account', $3, 1, now(), now())`,
    [stage.event, visitor, email],
  );
  await database.query(
    `INSERT INTO holds (event_no, hold_id, partition, visitor, holder, request, seats, granted_at, deadline, epoch, grant_no, state)
     VALUES ($1, $2, 0, $3, $4, 'r', '{0}', now(), now(), 1, 1, 'ended')`,
    [stage.event, randomUUID(), visitor, email],
  );
  return { mark, email, order };
}

test('a buyer is forgotten in every place; the books, the seats and the limits stay right; a repeat finds nothing', async () => {
  const stage = await stageEvent(database, { settings });
  const record = createSalesRecord({ db });
  const { mark, email, order } = await buyerEverywhere(stage);
  const other = await paidOrder(record, stage, { seats: [8, 9], visitor: 'other', card: `card-${mark}` });
  await ended(stage.event);
  const places = [...new Set((await tablesNaming([mark])).map((found) => found.split(':')[0]))];
  assert.ok(places.length >= 14, `the trace is nearly everywhere: ${places.join(' ')}`);

  const before = await dump();
  const would = await forget(email, { dryRun: true });
  assert.deepEqual(await dump(), before, 'a dry run changes nothing');
  const done = await forget(email);
  assert.ok(done.kind === 'forgotten' && would.kind === 'forgotten', JSON.stringify(done));
  assert.deepEqual(done, would, 'what a dry run says is what happens');
  assert.deepEqual(done.orders, [order.order]);
  assert.deepEqual(
    [done.erased.buyers, done.erased.browsers, done.erased.cards, done.erased.exceptions],
    [1, 1, 1, 1],
  );
  assert.ok(done.erased.letters >= 1 && done.erased.mailsOwed >= 1 && done.erased.words >= 5);
  assert.deepEqual(done.kept.amounts, [{ currency: 'EUR', paid: order.amount, refunded: 5250 }]);
  assert.deepEqual([done.kept.tickets, done.kept.validTickets, done.kept.refunds], [3, 2, 1]);
  assert.deepEqual(done.kept.payments, [order.providerObject]);

  // The card also belongs to the other buyer, who keeps it.
  assert.deepEqual(await tablesNaming([mark, 'المشتري']), [
    `limit_counts: ${mark}`,
    `money_operations: ${mark}`,
    `orders: ${mark}`,
  ]);
  const [left] = await database.query(
    `SELECT o::text AS row FROM orders o WHERE o::text LIKE '%' || $1 || '%'`,
    [mark],
  );
  assert.ok(left.row.includes(other.order));
  assert.deepEqual(await limitViolations(stage.event), []);
  assert.equal((await forget(email)).kind, 'nothing');
  const byOrder = { buyer: { order: order.order }, nameless: true, dryRun: false, actor };
  assert.equal((await forgetBuyer(db, byOrder)).kind, 'nothing');

  // A later refund is counted correctly, and owes no mail.
  const now = await record.findOrder(order.order);
  assert.deepEqual(now?.buyer, { name: '', email: '' });
  await refundOne(now!, 'goodwill');
  assert.deepEqual(await limitViolations(stage.event), []);
  const owed = await database.query(`SELECT FROM mails WHERE order_id = $1 AND state = 'due'`, [order.order]);
  assert.equal(owed.length, 0);
  const [entry] = await database.query(`SELECT * FROM audit_log WHERE action = 'forget_buyer'`);
  assert.deepEqual([entry.actor, entry.detail.orders], [actor, [order.order]]);
});

test('D4: what is under way, owed or still to come refuses the whole forgetting, and nothing is half done', async () => {
  const stage = await stageEvent(database, { settings });
  const over = await stageEvent(database, { settings });
  const record = createSalesRecord({ db });
  const refunds = createRefundRecord({ db });
  const visitor = `asks-${randomUUID().slice(0, 8)}`;
  const email = `${visitor}@example.org`;
  const old = await paidOrder(record, over, { seats: [0], visitor });
  await ended(over.event);
  const order = await paidOrder(record, stage, { seats: [0, 1], visitor });
  const refused = async (why: string, more: { nameless?: boolean } = {}) => {
    const before = await dump();
    const outcome = await forget(email, more);
    assert.ok(outcome.kind === 'refused', `${why}: ${JSON.stringify(outcome)}`);
    assert.deepEqual([...new Set(outcome.orders.map((one) => one.why))], [why]);
    assert.ok(outcome.orders.every((one) => one.order !== old.order));
    assert.deepEqual(await dump(), before, why);
  };
  await refused('event_not_over');
  const nameless = { nameless: true };

  const open = await record.reserve({
    ...reserveCommandOf(stage, visitor, [5]),
    order: randomUUID(),
  });
  assert.equal(open.kind, 'reserved');
  await refused('under_way', nameless);
  assert.ok(open.kind === 'reserved');
  await record.close(open.order.order, 'closed_by_buyer', randomUUID(), { owner: 'me', leaseMs: 30_000 });

  const operation = randomUUID();
  const wish = { tickets: [], fees: 'kept' as const, goodwill: 100, seats: 'release' as const, step: 1 };
  const ids = { refund: randomUUID(), operation, key: operation, requestKey: operation, request: 'r' };
  const made = await refunds.make({ ...wish, ...ids, order: order.order, actor, reason: 'late' }, claim);
  assert.equal(made.kind, 'made', JSON.stringify(made));
  await refused('refund_under_way', nameless);
  await refunds.settle({ operation, state: 'refused', detail: 'no' });
  await refused('refund_failed', nameless);
  await refunds.elsewhere(ids.refund, actor, 'cash');

  await database.query(`UPDATE money_operations SET attention = 'refunded_twice' WHERE operation_id = $1`, [
    operation,
  ]);
  await refused('on_the_list', nameless);
  await database.query(`UPDATE money_operations SET attention = NULL WHERE operation_id = $1`, [operation]);

  await database.query('SELECT job_forward(500)');
  await database.query(
    `UPDATE graphile_worker._private_jobs SET locked_at = now(), locked_by = 'w'
     WHERE key IN (SELECT 'mail/' || mail_id FROM mails WHERE order_id = $1)`,
    [order.order],
  );
  await refused('mail_under_way', nameless);
  await database.query(`UPDATE graphile_worker._private_jobs SET locked_at = NULL, locked_by = NULL`);

  const done = await forget(email, nameless);
  assert.ok(done.kind === 'forgotten');
  assert.equal(done.orders.length, 3);
  assert.equal(done.kept.validTickets, 3);
  const [ticket] = await database.query(`SELECT status FROM tickets WHERE order_id = $1`, [order.order]);
  assert.equal(ticket.status, 'sold', 'his tickets are valid without his name');
  assert.deepEqual(await tablesNaming([visitor]), []);
});

function reserveCommandOf(stage: { event: number; epoch: number }, visitor: string, seats: number[]) {
  const hold = holdOf(stage, visitor, seats);
  const { lines, ...rest } = reserveCommand(hold);
  const { event, partition, epoch, deadline, holder } = hold;
  return { ...rest, lines, hold: hold.hold, event, partition, epoch, deadline, visitor, holder };
}

test('P7: a purchase that waits for the forgetting is counted under its own name', async () => {
  const stage = await stageEvent(database, { settings: { instrumentSeatsMax: 8 } });
  const record = createSalesRecord({ db });
  const visitor = `busy-${randomUUID().slice(0, 8)}`;
  const email = `${visitor}@example.org`;
  await paidOrder(record, stage, { seats: [0], visitor });
  const client = await database.pool(1).connect();
  await client.query('BEGIN');
  const { rows } = await client.query(
    `SELECT buyer_forget($1, $1, NULL, true, 'me', NULL, NULL, false) ->> 'kind' AS kind`,
    [email],
  );
  assert.equal(rows[0].kind, 'forgotten');
  const buying = paidOrder(record, stage, { seats: [1, 2], visitor });
  await until(async () => {
    const waiting = await database.query(
      `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%order_confirm%'`,
    );
    return waiting.length > 0;
  }, 'the confirming to wait');
  await client.query('COMMIT');
  client.release();
  assert.equal((await buying).state, 'paid');
  assert.deepEqual(await limitViolations(stage.event), []);
  const counted = await database.query(
    `SELECT seats FROM limit_counts WHERE event_no = $1 AND subject = $2`,
    [stage.event, email],
  );
  assert.deepEqual(counted, [{ seats: 2 }]);
});

test('P7: a refund that waits for the forgetting gives back what is counted nameless, and writes no name down again', async () => {
  const stage = await stageEvent(database, { settings });
  const visitor = `returning-${randomUUID().slice(0, 8)}`;
  const email = `${visitor}@example.org`;
  const { order } = await paidOrder(createSalesRecord({ db }), stage, { seats: [0, 1], visitor });
  const client = await database.pool(1).connect();
  await client.query('BEGIN');
  await client.query(`SELECT buyer_forget($1, $1, NULL, true, 'me', NULL, NULL, false)`, [email]);
  const operation = randomUUID();
  const refunding = createRefundRecord({ db }).make(
    {
      tickets: 'all',
      fees: 'returned',
      goodwill: 0,
      refund: randomUUID(),
      order,
      operation,
      key: operation,
      requestKey: operation,
      request: 'r',
      actor,
      reason: 'asked for it',
      seats: 'release',
      step: 1,
    },
    claim,
  );
  await until(async () => {
    const waiting = await database.query(
      `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%refund_make%'`,
    );
    return waiting.length > 0;
  }, 'the refund to wait');
  await client.query('COMMIT');
  client.release();
  assert.equal((await refunding).kind, 'made');
  assert.deepEqual(await tablesNaming([email]), []);
  const counted = await database.query(
    `SELECT kind, seats FROM limit_counts WHERE event_no = $1 AND subject LIKE 'forgotten:%' ORDER BY 1`,
    [stage.event],
  );
  assert.deepEqual(counted, [
    { kind: 'account', seats: 0 },
    { kind: 'instrument', seats: 0 },
  ]);
  assert.deepEqual(await limitViolations(stage.event), []);
});

test('a browser that another buyer also used stays with that buyer; a platform’s account is not forgotten with an address', async () => {
  const stage = await stageEvent(database, { settings });
  const record = createSalesRecord({ db });
  const visitor = `shared-${randomUUID().slice(0, 8)}`;
  const one = await paidOrder(record, stage, { seats: [0], visitor });
  const two = await paidOrder(record, stage, { seats: [1], visitor });
  await database.query(
    `UPDATE orders SET account = 'sub:42', holder = 'sub:42', buyer = jsonb_set(buyer, '{email}', '"Two@Example.org"') WHERE order_id = $1`,
    [two.order],
  );
  await database.query(`UPDATE limit_counts SET seats = 1 WHERE kind = 'account' AND subject = $1`, [
    `${visitor}@example.org`,
  ]);
  await database.query(`INSERT INTO limit_counts VALUES ($1, 'account', 'sub:42', 1)`, [stage.event]);
  await ended(stage.event);
  const done = await forget(`${visitor}@example.org`);
  assert.ok(done.kind === 'forgotten' && done.erased.browsers === 0);
  assert.deepEqual(done.orders, [one.order]);
  const typed = await forget('two@example.org');
  assert.ok(typed.kind === 'forgotten', JSON.stringify(typed));
  const [row] = await database.query('SELECT account, holder, buyer FROM orders WHERE order_id = $1', [
    two.order,
  ]);
  assert.deepEqual(row, { account: 'sub:42', holder: 'sub:42', buyer: { name: '', email: '' } });
  const platform = buyerNamed('sub:42');
  assert.deepEqual(platform, { account: 'sub:42' });
  const whole = await forgetBuyer(db, { buyer: platform!, nameless: false, dryRun: false, actor });
  assert.equal(whole.kind, 'forgotten');
  assert.deepEqual(await tablesNaming(['sub:42']), []);
  assert.deepEqual(await limitViolations(stage.event), []);
  assert.equal(buyerNamed('no address'), null);
  const unknown = { order: '00000000-0000-4000-8000-000000000000' };
  const none = await forgetBuyer(db, { buyer: unknown, nameless: false, dryRun: false, actor });
  assert.equal(none.kind, 'unknown_order');
});

test('every column that could hold personal data is listed in the operator’s guide', async () => {
  const guide = fs.readFileSync(path.join(projectDir, 'docs/operating/exports-and-deletion.md'), 'utf8');
  const table = guide.split('<!-- columns -->')[1] ?? '';
  const listed = [...table.matchAll(/^\|([^|]+)\|[^|]+\|[^|]+\|$/gm)].flatMap(([, cell]) =>
    [...cell!.matchAll(/`([a-z_]+\.[a-z_0-9]+)`/g)].map(([, name]) => name!),
  );
  const columns = await database.query<{ name: string }>(
    `SELECT DISTINCT table_name || '.' || column_name AS name
     FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
     WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND table_name !~ '_[0-9]+$'
       AND data_type NOT IN ('integer','bigint','smallint','boolean','uuid','double precision','timestamp with time zone')
       AND udt_name NOT IN ('_int4','_int8') ORDER BY 1`,
  );
  assert.deepEqual(
    columns.map(({ name }) => name).filter((name) => !listed.includes(name)),
    [],
    'new columns: say in the guide what becomes of them when a buyer is forgotten, and see to it in migrations',
  );
  assert.deepEqual(
    listed.filter((name) => !columns.some((column) => column.name === name)),
    [],
    'the guide lists columns that do not exist',
  );
  assert.equal(new Set(listed).size, listed.length, 'a column is listed twice');
});
