import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import test from 'node:test';
import { createPostgresArbiter } from '../../src/inventory/postgres.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { seededRandom, systemRandom } from '../../src/runtime/random.ts';
import { blockSeats, unblockSeats } from '../../src/sales/blocks.ts';
import { createDb } from '../../src/sales/db.ts';
import { createEvents } from '../../src/sales/events.ts';
import { testDatabase } from '../support/postgres.ts';
import { stageEvent } from '../support/stage.ts';

const seatCount = 16;
const rounds = 60;

test('S8: the organiser blocks and unblocks while buyers hold the same seats: each seat is one thing at a time', async (t) => {
  const database = await testDatabase();
  const db = createDb({ url: database.url, poolSize: 12, clock: systemClock, log: silentLogger });
  t.after(() => db.close());
  const { event, epoch } = await stageEvent(database, { seats: seatCount, mode: 'postgres' });
  const arbiter = createPostgresArbiter({ db });
  const events = createEvents({ db, clock: systemClock });
  const deps = { db, arbiter, events, clock: systemClock, random: systemRandom };
  const all = Array.from({ length: seatCount }, (_, seat) => seat);
  const answers = new Map<string, number>();
  let overlaps = 0;
  /** Seats whose holder was told "granted" and has not begun to give them back. */
  const granted = new Map<number, string>();

  async function claim(visitor: string, seed: number): Promise<void> {
    const random = seededRandom(seed);
    const where = { event, partition: 0, epoch, visitor };
    for (let round = 0; round < rounds; round++) {
      const seats = [...new Set([random.int(seatCount), random.int(seatCount), random.int(seatCount)])].sort(
        (a, b) => a - b,
      );
      const hold = randomUUID();
      const outcome = await arbiter.hold({
        ...where,
        hold,
        holder: visitor,
        request: hold,
        claim: { kind: 'seats', seats },
        ttlMs: 60_000,
        seatsMax: 6,
        replaces: null,
        notAfter: null,
      });
      answers.set(outcome.kind, (answers.get(outcome.kind) ?? 0) + 1);
      if (outcome.kind !== 'granted') continue;
      for (const seat of seats) granted.set(seat, hold);
      await systemClock.sleep(random.int(5));
      const rows = await database.query<{ state: string; hold_id: string }>(
        'SELECT state, hold_id FROM seats WHERE event_no = $1 AND seat_no = ANY ($2)',
        [event, seats],
      );
      if (rows.some((row) => row.state !== 'available' || row.hold_id !== hold)) overlaps += 1;
      for (const seat of seats) granted.delete(seat);
      assert.equal((await arbiter.release({ ...where, hold })).kind, 'released');
    }
  }

  let buying = true;
  async function organise(): Promise<void> {
    while (buying) {
      const { blocked, refused } = await blockSeats(deps, { event, actor: 'o', reason: 'works', seats: all });
      assert.equal(blocked.length + refused.length, seatCount, 'each seat is blocked or listed');
      const stolen = blocked.filter(({ seat }) => granted.has(seat));
      answers.set('blocked', (answers.get('blocked') ?? 0) + blocked.length);
      answers.set('refused', (answers.get('refused') ?? 0) + refused.length);
      assert.deepEqual(stolen, [], 'no seat that somebody holds');
      await unblockSeats(deps, { event, actor: 'o', seats: all });
      await systemClock.sleep(10);
    }
  }

  const organiser = organise();
  await Promise.all(Array.from({ length: 8 }, (_, n) => claim(`visitor-${n}`, n + 1)));
  buying = false;
  await organiser;
  assert.equal(overlaps, 0);
  for (const kind of ['granted', 'taken', 'blocked', 'refused'])
    assert.ok(answers.get(kind), `${kind} was reached`);
  const { codes } = await arbiter.snapshot(event, 0);
  assert.deepEqual(
    [...codes],
    all.map(() => 0),
    'at rest all are free',
  );
  const [left] = await database.query('SELECT count(*)::integer AS blocks FROM blocks WHERE event_no = $1', [
    event,
  ]);
  assert.equal(left.blocks, 0);
  const [{ deadlocks }] = (await database.query(
    'SELECT deadlocks::integer FROM pg_stat_database WHERE datname = current_database()',
  )) as [{ deadlocks: number }];
  assert.equal(deadlocks, 0);
});
