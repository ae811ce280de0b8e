import assert from 'node:assert/strict';
import { test } from 'node:test';
import pg from 'pg';
import type { HoldCommand, HoldOutcome } from '../../src/inventory/arbiter.ts';
import { createDb } from '../../src/postgres/db.ts';
import { createEventLanes } from '../../src/postgres/event-lanes.ts';
import { type Clock, systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { StoreFault } from '../../src/runtime/store-fault.ts';
import { startTestApp, type TestApp, until } from '../support/app.ts';
import { createTestBuyer } from '../support/buyer.ts';
import { copyEvent } from '../support/copied-events.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { stageEvent } from '../support/stage.ts';
import { pause } from '../support/wait.ts';

const buyersOfLocked = 40;
const buyersOfOther = 10;

/** Holds the event's lock alone until the returned function is called, or the database is dropped. */
async function lockAlone(database: TestDatabase, event: number): Promise<() => Promise<void>> {
  const client = new pg.Client({ connectionString: database.url });
  client.on('error', () => {});
  await client.connect();
  await client.query('BEGIN');
  await client.query('SELECT event_lock_alone($1)', [event]);
  return async () => {
    await client.query('COMMIT');
    await client.end();
  };
}

test('a locked event takes no connection from others: they sell, its own buyers learn that it is busy, nothing is lost', async (t) => {
  let onLate: ((command: HoldCommand) => Promise<HoldOutcome | null>) | null = null;
  const app = await startTestApp(t, {
    seats: 200,
    replace: {
      arbiter: (made) => ({
        ...made,
        hold: async (command) => (await onLate?.(command)) ?? (await made.hold(command)),
      }),
    },
  });
  const other = await openCopy(app);
  const ordering = await Promise.all(
    Array.from({ length: buyersOfLocked }, async (_, i) => {
      const buyer = await app.admitted();
      return { buyer, hold: (await buyer.mustHold([i])).hold };
    }),
  );
  const others = await Promise.all(Array.from({ length: buyersOfOther }, () => admittedTo(app, other)));

  const unlock = await lockAlone(app.database, app.eventNo);
  const began = systemClock.monotonic();
  const orders = ordering.map(({ buyer, hold }) => buyer.order(hold));
  const holds: number[] = [];
  for (const [i, buyer] of others.entries()) {
    const asked = systemClock.monotonic();
    const held = await buyer.hold([i]);
    assert.equal(held.status, 201, JSON.stringify(held.body));
    holds.push(systemClock.monotonic() - asked);
  }
  t.diagnostic(`holds of the other event took up to ${Math.round(Math.max(...holds))} ms`);
  for (const answer of await Promise.all(orders)) {
    assert.deepEqual([answer.status, answer.body.code], [503, 'busy'], JSON.stringify(answer.body));
    assert.ok(Number(answer.headers.get('retry-after')) >= 1);
  }
  t.diagnostic(`all were told after ${Math.round(systemClock.monotonic() - began)} ms`);
  await unlock();
  for (const { buyer, hold } of ordering) {
    const ordered = await buyer.order(hold);
    assert.equal(ordered.status, 201, JSON.stringify(ordered.body));
  }

  // A claim reaches the store too late twice, while other claims are granted. Its buyer is nevertheless told
  // that the seat is taken.
  const [slow, quick] = await Promise.all([app.admitted(), app.admitted()]);
  let granted = buyersOfLocked;
  onLate = async ({ notAfter, visitor }) => {
    if (notAfter === null || notAfter > systemClock.now() + 60_000) return null;
    if (visitor !== app.credentials.visitorOf(slow.cookies.get('onsale_visitor') ?? '')) return null;
    const held = await quick.mustHold([granted++]);
    await quick.request('DELETE', `/api/holds/${held.hold}`);
    return { kind: 'too_late' };
  };
  const late = await slow.hold([0]);
  assert.deepEqual([late.status, late.body.code], [409, 'taken'], JSON.stringify(late.body));
});

/** A second event that is on sale at the same time. */
async function openCopy(app: TestApp): Promise<{ event: string; eventNo: number }> {
  const query = (sql: string, values: unknown[]) => app.database.query<{ event_no: number }>(sql, values);
  const [eventNo] = await copyEvent(query, app.eventNo, 1);
  await app.database.query(`UPDATE events SET phase = 'open', on_sale_at = NULL WHERE event_no = $1`, [
    eventNo,
  ]);
  const event = `${app.event}-1`;
  await until(
    async () => (await fetch(`${app.url}/api/events/${event}/status`)).ok,
    'the other event to be published',
  );
  return { event, eventNo: eventNo! };
}

async function admittedTo(app: TestApp, { event, eventNo }: { event: string; eventNo: number }) {
  const buyer = createTestBuyer(app.url, event);
  await buyer.join();
  const visitor = app.credentials.visitorOf(buyer.cookies.get('onsale_visitor') ?? '')!;
  const issuedAt = systemClock.now();
  const pass = { event: eventNo, visitor, passId: crypto.randomUUID(), number: 1, issuedAt };
  buyer.pass = app.credentials.signPass({ ...pass, expiresAt: issuedAt + 15 * 60_000 });
  return buyer;
}

test('calls that meet an event’s lock wait for it without a connection, and go on as soon as it is free', async (t) => {
  const database = await testDatabase(t);
  const { event } = await stageEvent(database, { mode: 'postgres' });
  let repeats = 0;
  const clock: Clock = {
    ...systemClock,
    sleep: (ms, signal) => {
      repeats += 1;
      return pause(ms, 'the pool’s own, before it repeats', signal);
    },
  };
  const db = createDb({ url: database.url, poolSize: 2, clock, log: silentLogger });
  t.after(() => db.close());
  const call = () => db.query('test_shared', 'SELECT event_lock_shared($1)', [event], event);

  let unlock = await lockAlone(database, event);
  const waiting = Array.from({ length: 20 }, call);
  for (let i = 0; i < 20; i++) await db.query('test_any', 'SELECT 1');
  await unlock();
  await Promise.all(waiting);

  unlock = await lockAlone(database, event);
  const isBusy = (fault: unknown): boolean => fault instanceof StoreFault && fault.code === 'store_busy';
  await assert.rejects(call(), isBusy);
  repeats = 0;
  await assert.rejects(
    db.query('test_alone', `SELECT on_sale_change($1, 'test', 1, NULL, '{}', false, NULL, false, NULL)`, [
      event,
    ]),
    isBusy,
  );
  assert.equal(repeats, 0, 'the lock alone is waited for once, not three times');
  await unlock();
});

test('an event alone has three quarters of the connections; busy events leave each other and the next one room', async () => {
  const lanes = createEventLanes({ connections: 24, clock: systemClock });
  const ends: (() => void)[] = [];
  const running = new Map<number, number>();
  const start = (event: number): Promise<void> =>
    lanes.run(event, () => {
      running.set(event, (running.get(event) ?? 0) + 1);
      return new Promise<void>((resolve) => ends.push(resolve));
    });
  const all = [1, 2, 3].map((event) => Array.from({ length: 40 }, () => start(event)));
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([...running.values()], [18, 5, 1]);
  let started = 0;
  for (; ends.length > 0; started++) {
    ends.shift()!();
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.equal(started, 120);
  await Promise.all(all.flat());
});
