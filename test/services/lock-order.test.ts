import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, test } from 'node:test';
import { projectDir } from '../../src/runtime/project-dir.ts';
import { testDb } from '../contract/arbiter-postgres-world.ts';
import { testDatabase } from '../support/postgres.ts';
import { orderIdOf } from '../support/stage.ts';
import { committingLate, modesWorld, waiting } from './modes-world.ts';

/**
 * One lock order for all functions of the database (docs/ARCHITECTURE.md): two that keep it cannot wait for each other in a
 * circle. Read from the functions themselves, with the calls that they make in place, in the order of the text.
 */

const database = await testDatabase();
const db = testDb(database, 6);
after(() => db.close());

/**
 * The order of locks by what they belong to, outermost first. Tables that are not named here are locked last, one row at a
 * time.
 */
const order = [
  { name: 'event', tables: ['events', 'event_partitions', 'event_cancellations'] },
  { name: 'quota and limits', tables: ['limit_counts'] },
  { name: 'order', tables: ['orders'] },
  { name: 'what is the order’s own', tables: ['money_operations', 'tickets'] },
  { name: 'hold', tables: ['holds'] },
  { name: 'seats', tables: ['seats'] },
];
const tables = new Map(
  order.flatMap(({ tables: names }, rank) => names.map((name) => [name, rank] as const)),
);

/** Functions whose text shows another order, and why no other transaction can wait for them in a circle. */
const exceptions: Record<string, string> = {
  arbiter_hold:
    'a row of holds that is forgotten is removed before the quota’s lock; only a claim of the same id touches it, and does so first',
  cancellation_order: 'either the refund of a paid order or the end of an unpaid one, never both',
  order_reserve:
    'the order is a new row, which no other transaction can have locked; it is removed again when a seat is gone',
  order_reserve_with_code: 'as order_reserve',
};

interface Taken {
  rank: number;
  what: string;
}

test('D1: every function locks event, quota and limits, order, hold and seats in this order, and rows of a kind by number', async () => {
  const functions = await database.query<{ name: string; body: string }>(
    `SELECT proname AS name, prosrc AS body FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prokind = 'f'`,
  );
  const bodies = new Map(functions.map(({ name, body }) => [name, body.replace(/--.*$/gm, '')]));
  const wrong: string[] = [];
  const used = new Set<string>();
  const program = calledByProgram(bodies.keys());
  assert.ok(program.length > 50, `${program.length} functions that the program calls`);
  for (const name of program) {
    let last: Taken = { rank: -1, what: '' };
    const held = new Set<number>();
    for (const taken of locksOf(name, bodies, [])) {
      // Locked again, or more of a kind within its kind, is no new step.
      if (held.has(taken.rank)) continue;
      held.add(taken.rank);
      if (taken.rank < last.rank) {
        if (exceptions[name]) used.add(name);
        else wrong.push(`${name}: ${taken.what} after ${last.what}`);
      } else last = taken;
    }
  }
  assert.deepEqual(wrong, []);
  assert.deepEqual([...used].sort(), Object.keys(exceptions).sort(), 'exceptions that are none any more');
  const seen = new Set(
    [...bodies.keys()].flatMap((name) => locksOf(name, bodies, []).map(({ rank }) => rank)),
  );
  assert.equal(seen.size, order.length, 'locks of each kind are seen at all');
});

test('D1: rows of holds, orders and seats that are locked together are locked by their number', async () => {
  const functions = await database.query<{ name: string; body: string }>(
    `SELECT proname AS name, prosrc AS body FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prokind = 'f'`,
  );
  const unsorted: string[] = [];
  for (const { name, body } of functions) {
    // SKIP LOCKED waits for no lock; a row that is found by its key is one row.
    for (const [statement] of body.matchAll(
      /\bFROM (?:holds|orders|seats)\b[^;]*?\bFOR (?:NO KEY UPDATE|UPDATE|SHARE)\b[^;)]*/g,
    )) {
      const isOne = /\b(?:hold_id|order_id) = (?!ANY)/.test(statement);
      if (!isOne && !/ORDER BY|SKIP LOCKED/.test(statement))
        unsorted.push(`${name}: ${statement.replace(/\s+/g, ' ')}`);
    }
  }
  assert.deepEqual(unsorted, []);
});

test('D1: an order is confirmed while its hold is reported as ended, and neither waits for the other in a circle', async () => {
  const world = await modesWorld(database, db, { mode: 'postgres' });
  const { event } = world;
  const held = await world.hold('buyer', [3]);
  assert.ok(held.kind === 'granted');
  const order = orderIdOf(held.hold.hold);
  await world.arbiter.extend({ ...held.hold, order });
  assert.equal((await world.reserve(held.hold)).kind, 'reserved');
  await database.query(`UPDATE orders SET state = 'authorised' WHERE order_id = $1`, [order]);
  await database.query(
    `INSERT INTO money_operations (operation_id, order_id, kind, state, key, amount, currency)
     VALUES (gen_random_uuid(), $1, 'authorise', 'done', 'authorised', 1000, 'EUR')`,
    [order],
  );
  // Without the retries of the program, so that the one that Postgres picks in a circle fails.
  const pool = database.pool(2);
  const lockSeat: [string, unknown[]] = [
    'SELECT FROM seats WHERE event_no = $1 AND seat_no = 3 FOR UPDATE',
    [event],
  ];
  // One waits for the seat and the other behind it: once it is free they end one after the other.
  const { outcome } = await committingLate(database, lockSeat, async (commit) => {
    const confirmed = pool.query(
      `SELECT order_confirm($1, gen_random_uuid(), 'k', 'e', 'o', 1000) AS result`,
      [order],
    );
    await waiting(database, 1);
    const told = pool.query('SELECT arbiter_project($1, 0::smallint, $2, $3, $4, $5, $6)', [
      ...[event, [], [], [], [], [held.hold.hold]],
    ]);
    await waiting(database, 2);
    await commit();
    return await Promise.all([confirmed, told]);
  });
  assert.equal(outcome[0].rows[0].result.kind, 'confirmed');
  await world.audit();
});

/** Each lock that a call of it may take, in the order of its text. */
function locksOf(name: string, bodies: ReadonlyMap<string, string>, callers: string[]): Taken[] {
  const body = bodies.get(name) ?? '';
  const found: { at: number; taken: Taken[] }[] = [];
  const see = (at: number, table: string | undefined): void => {
    const rank = tables.get(table ?? '');
    if (rank !== undefined) found.push({ at, taken: [{ rank, what: table! }] });
  };
  for (const { index, 0: what } of body.matchAll(/\bevent_lock_(?:alone|shared)\b/g))
    found.push({ at: index, taken: [{ rank: 0, what }] });
  for (const { index } of body.matchAll(/pg_advisory_xact_lock\(hashtextextended\(format\('[hv]\//g))
    found.push({ at: index, taken: [{ rank: 1, what: 'a quota' }] });
  for (const { index, 1: table } of body.matchAll(/\b(?:UPDATE|DELETE\s+FROM)\s+(\w+)/g)) see(index, table);
  for (const { index } of body.matchAll(/\bFOR\s+(?:NO KEY UPDATE|UPDATE|SHARE)\b(?!\s+SKIP)/g))
    see(index, lockedBy(body, index));
  for (const { index, 1: called } of body.matchAll(/\b(\w+)\s*\(/g)) {
    if (called === name || !bodies.has(called!) || callers.includes(called!)) continue;
    const theirs = locksOf(called!, bodies, [...callers, name]);
    found.push({
      at: index,
      taken: theirs.map(({ rank, what }) => ({ rank, what: `${what} by ${called}` })),
    });
  }
  return found.toSorted((a, b) => a.at - b.at).flatMap(({ taken }) => taken);
}

/** The table whose rows a FOR UPDATE at that place locks: that of its own FROM, not of one in brackets before it. */
function lockedBy(body: string, at: number): string | undefined {
  let depth = 0;
  for (let i = at; i > 0; i--) {
    if (body[i] === ')') depth += 1;
    else if (body[i] === '(') depth -= 1;
    // Its own brackets are those of an ARRAY or of a sub-select.
    if (depth < 0 || body[i] === ';') return undefined;
    const table = depth === 0 ? /^FROM\s+(\w+)/.exec(body.slice(i, i + 60)) : null;
    if (table && /\s/.test(body[i - 1]!)) return table[1];
  }
  return undefined;
}

/** Returns the functions that the program calls; the others run within these. */
function calledByProgram(names: Iterable<string>): string[] {
  const src = path.join(projectDir, 'src');
  const text = fs
    .readdirSync(src, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => fs.readFileSync(path.join(src, file), 'utf8'))
    .join('\n');
  const called = new Set([...text.matchAll(/\b([a-z]+(?:_[a-z]+)+)\(/g)].map(([, name]) => name!));
  return [...names].filter((name) => called.has(name));
}
