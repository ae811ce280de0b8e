import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import test from 'node:test';
import { createInProcessArbiter } from '../../models/arbiter.ts';
import { overStore } from '../../models/one-store.ts';
import { blockSeats, unblockSeats } from '../../src/catalogue/blocks.ts';
import { createEvents } from '../../src/catalogue/events.ts';
import type { Phase } from '../../src/core/phase.ts';
import type { Arbiter } from '../../src/inventory/arbiter.ts';
import { createPostgresArbiter } from '../../src/inventory/postgres.ts';
import { createDb } from '../../src/postgres/db.ts';
import { mergeSnapshots } from '../../src/read-path/availability.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { seededRandom, systemRandom } from '../../src/runtime/random.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { stageEvent } from '../support/stage.ts';
import { pause } from '../support/wait.ts';

const seatCount = 16;
const rounds = 60;

/** Moves every other seat to a second partition and returns its epoch. */
async function addPartition(database: TestDatabase, event: number): Promise<number> {
  const [row] = await database.query(
    'INSERT INTO event_partitions (event_no, partition) VALUES ($1, 1) RETURNING epoch',
    [event],
  );
  await database.query('UPDATE seats SET partition = 1 WHERE event_no = $1 AND seat_no % 2 = 1', [event]);
  return Number(row.epoch);
}

test('S8: the organiser blocks and unblocks while buyers hold the same seats: each seat is one thing at a time', async (t) => {
  const database = await testDatabase();
  const db = createDb({ url: database.url, poolSize: 12, clock: systemClock, log: silentLogger });
  t.after(() => db.close());
  const { event, epoch } = await stageEvent(database, { seats: seatCount, mode: 'postgres' });
  const second = await addPartition(database, event);
  const arbiter = createPostgresArbiter({ db });
  const events = createEvents({ db, clock: systemClock });
  const deps = {
    ...{ db, events, clock: systemClock, random: systemRandom },
    arbiter: overStore(arbiter, (_event, partition) => (partition === 0 ? epoch : second)),
  };
  const all = Array.from({ length: seatCount }, (_, seat) => seat);
  const answers = new Map<string, number>();
  let overlaps = 0;
  /** Seats that were granted to a holder who has not begun to give them back. */
  const granted = new Map<number, string>();

  async function claim(visitor: string, seed: number): Promise<void> {
    const random = seededRandom(seed);
    for (let round = 0; round < rounds; round++) {
      const partition = random.int(2);
      const where = { event, partition, epoch: partition === 0 ? epoch : second, visitor };
      const drawn = [random.int(seatCount / 2), random.int(seatCount / 2), random.int(seatCount / 2)];
      // Every other seat is of the second partition.
      const seats = [...new Set(drawn.map((n) => 2 * n + partition))].sort((a, b) => a - b);
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
      await pause(random.int(5), 'holds of random length');
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
      await pause(10, 'so that seats are free for buyers, too');
    }
  }

  const organiser = organise();
  await Promise.all(Array.from({ length: 8 }, (_, n) => claim(`visitor-${n}`, n + 1)));
  buying = false;
  await organiser;
  assert.equal(overlaps, 0);
  for (const kind of ['granted', 'taken', 'blocked', 'refused'])
    assert.ok(answers.get(kind), `${kind} was reached`);
  const { codes } = mergeSnapshots([await arbiter.snapshot(event, 0), await arbiter.snapshot(event, 1)]);
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

/** An event whose partition another store arbitrates: the reference model replaces that store. */
async function arbitratedElsewhere(t: { after(run: () => Promise<void>): void }) {
  const database = await testDatabase();
  const db = createDb({ url: database.url, poolSize: 12, clock: systemClock, log: silentLogger });
  t.after(() => db.close());
  const { event, epoch } = await stageEvent(database, { seats: seatCount, mode: 'redis' });
  const now = { phase: 'open' as Phase };
  const elsewhere = createInProcessArbiter({
    clock: systemClock,
    phaseOf: () => now.phase,
    modeOf: () => ({ mode: 'postgres', epoch }),
  });
  const seats = Array.from({ length: seatCount }, (_, seat) => seat);
  const free = seats.map((seat) => ({ seat, version: 1, state: 'available' as const }));
  await elsewhere.load({ event, partition: 0, epoch, seats: free });
  const deps = {
    db,
    arbiter: overStore(elsewhere, () => epoch),
    events: createEvents({ db, clock: systemClock }),
    clock: systemClock,
    random: systemRandom,
  };
  const hold = (visitor: string, wanted: number[], id: string = randomUUID()) =>
    elsewhere.hold({
      event,
      partition: 0,
      epoch,
      hold: id,
      visitor,
      holder: visitor,
      request: id,
      claim: { kind: 'seats', seats: wanted },
      ttlMs: 60_000,
      seatsMax: 6,
      replaces: null,
      notAfter: null,
    });
  const setPhase = async (phase: Phase): Promise<void> => {
    await database.query('UPDATE events SET phase = $2, version = version + 1 WHERE event_no = $1', [
      event,
      phase,
    ]);
    now.phase = phase;
  };
  return { database, event, epoch, deps, elsewhere, seats, hold, setPhase };
}
const block = { actor: 'o', reason: 'works' };

test('S8: where another store arbitrates, blocked seats are held there first: no holder loses a seat, and no buyer gets a blocked one', async (t) => {
  const { database, event, epoch, deps, elsewhere, seats: all, hold } = await arbitratedElsewhere(t);
  const held = new Set<number>();
  const count = { granted: 0, taken: 0, blocked: 0, refused: 0 };
  const wrong: string[] = [];

  async function claim(visitor: string, seed: number): Promise<void> {
    const random = seededRandom(seed);
    for (let round = 0; round < rounds; round++) {
      const seats = [...new Set([random.int(seatCount), random.int(seatCount)])].sort((a, b) => a - b);
      const id = randomUUID();
      const outcome = await hold(visitor, seats, id);
      if (outcome.kind === 'taken') count.taken += 1;
      await pause(random.int(3), 'holds of random length');
      if (outcome.kind !== 'granted') continue;
      count.granted += 1;
      for (const seat of seats) held.add(seat);
      const rows = await database.query(
        `SELECT seat_no FROM seats WHERE event_no = $1 AND seat_no = ANY ($2) AND state <> 'available'`,
        [event, seats],
      );
      if (rows.length > 0) wrong.push(`${visitor} got blocked seats`);
      for (const seat of seats) held.delete(seat);
      const released = await elsewhere.release({ event, partition: 0, epoch, hold: id, visitor });
      if (released.kind !== 'released') wrong.push(`${visitor} lost its hold: ${released.kind}`);
    }
  }

  let buying = true;
  const organise = async (): Promise<void> => {
    while (buying) {
      const { blocked, refused, unanswered } = await blockSeats(deps, { ...block, event, seats: all });
      assert.deepEqual(unanswered, []);
      assert.equal(blocked.length + refused.length, seatCount, 'each seat is blocked or listed');
      for (const { seat } of blocked)
        if (held.has(seat)) wrong.push(`seat ${seat} was taken from its holder`);
      count.blocked += blocked.length;
      count.refused += refused.length;
      await unblockSeats(deps, { event, actor: 'o', seats: all });
      await pause(5, 'so that seats are free for buyers, too');
    }
  };
  const organiser = organise();
  await Promise.all(Array.from({ length: 8 }, (_, n) => claim(`visitor-${n}`, n + 1)));
  buying = false;
  await organiser;
  assert.deepEqual(wrong, []);
  for (const [kind, times] of Object.entries(count)) assert.ok(times > 0, `${kind} was reached`);
  const { codes } = await elsewhere.snapshot(event, 0);
  assert.deepEqual(
    [...codes],
    all.map(() => 0),
    'at rest all are free, in the store too',
  );
});

test('S8: blocks while the sale is not open: holds stay, and what the record knows better is left', async (t) => {
  const { database, event, deps, elsewhere, seats, hold, setPhase } = await arbitratedElsewhere(t);
  assert.equal((await hold('buyer', [0, 1])).kind, 'granted');
  // Its order was written, and the store did not learn of it.
  await database.query(`UPDATE seats SET state = 'reserved' WHERE event_no = $1 AND seat_no = 2`, [event]);
  await setPhase('paused');
  const { blocked, refused, unanswered } = await blockSeats(deps, { ...block, event, seats });
  assert.deepEqual(unanswered, []);
  assert.deepEqual(
    refused.map(({ seat, state }) => [seat, state]),
    [
      [0, 'held'],
      [1, 'held'],
      [2, 'reserved'],
    ],
  );
  assert.deepEqual(
    blocked.map(({ seat }) => seat),
    seats.slice(3),
  );
  const { codes } = await elsewhere.snapshot(event, 0);
  assert.deepEqual(
    [...codes.subarray(3)],
    seats.slice(3).map(() => 4),
    'the store was told',
  );
});

test('S8: the sale opens, or the store changes, in the middle of a block: it is done as things are then', async (t) => {
  const { database, event, deps, hold, setPhase } = await arbitratedElsewhere(t);
  const elsewhere = deps.arbiter;
  await setPhase('paused');
  let between: (() => Promise<unknown>) | null = async () => {
    await setPhase('open');
    assert.equal((await hold('quick', [0])).kind, 'granted');
  };
  const arbiter: Arbiter = {
    ...elsewhere,
    snapshot: async (...at) => {
      const taken = await elsewhere.snapshot(...at);
      const act = between;
      between = null;
      await act?.();
      return taken;
    },
  };
  const opened = await blockSeats({ ...deps, arbiter }, { ...block, event, seats: [0, 1] });
  assert.deepEqual(opened.refused, [{ seat: 0, state: 'held' }]);
  assert.deepEqual(
    opened.blocked.map(({ seat }) => seat),
    [1],
  );

  between = () =>
    database.query(
      `UPDATE event_partitions SET mode = 'postgres', epoch = nextval('epochs') WHERE event_no = $1`,
      [event],
    );
  const degraded = await blockSeats({ ...deps, arbiter }, { ...block, event, seats: [2, 3] });
  assert.deepEqual(degraded, {
    blocked: [2, 3].map((seat) => ({ seat, version: 2, state: 'blocked' })),
    refused: [],
    unanswered: [],
  });
});
