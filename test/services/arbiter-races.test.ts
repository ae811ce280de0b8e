import assert from 'node:assert/strict';
import test, { after } from 'node:test';
import type { Claim, HoldOutcome, Stale } from '../../src/inventory/arbiter.ts';
import { type Random, seededRandom } from '../../src/runtime/random.ts';
import { postgresWorld, testDb } from '../contract/arbiter-postgres-world.ts';
import {
  type ArbiterWorld,
  commandsOf,
  grantedHold,
  idOf,
  minute,
  seatsOf,
} from '../contract/arbiter-world.ts';
import { testDatabase } from '../support/postgres.ts';

// Real concurrency on a real server: 20 connections, all claims of a race sent in the same tick.
const database = await testDatabase();
// Deadlocks and serialisation failures are repeated by the pool, after a pause that is counted here: there should be none.
let retries = 0;
const db = testDb(database, 20, () => {
  retries += 1;
});
after(() => db.close());

async function race(seats: number) {
  // Each claim a call of its own, so that they meet in the server; what shares calls is in arbiter-batch.test.ts.
  const world = await postgresWorld(database, db, { claimsPerCall: 1 });
  const commands = commandsOf(world);
  await commands.load(seats);
  return { world, ...commands };
}

/**
 * Seat by seat, by SQL: every live hold has all of its seats and no seat says otherwise (S2, S3, S8); answers and rows agree.
 */
async function audit(world: ArbiterWorld): Promise<void> {
  const wrong = await database.query(
    `WITH live AS (SELECT h.hold_id, unnest(h.seats) AS seat_no FROM holds h JOIN event_partitions p USING (event_no, partition)
                    WHERE h.event_no = $1 AND h.state = 'live' AND h.deadline > now() AND h.epoch = p.epoch),
          held AS (SELECT hold_id, seat_no FROM seats WHERE event_no = $1 AND state = 'available' AND hold_until > now())
     SELECT 'twice' AS what, seat_no, NULL::uuid AS hold_id FROM live GROUP BY seat_no HAVING count(*) > 1
     UNION ALL (SELECT 'hold without seat', seat_no, hold_id FROM live EXCEPT SELECT 'hold without seat', seat_no, hold_id FROM held)
     UNION ALL (SELECT 'seat without hold', seat_no, hold_id FROM held EXCEPT SELECT 'seat without hold', seat_no, hold_id FROM live)`,
    [world.event],
  );
  assert.deepEqual(wrong, []);
  assert.equal(retries, 0, 'deadlocks');
}

/**
 * Holds every seat of the event until all connections that one event may have (15 of 20) wait for something, then releases
 * them: a claim that has not locked anything by then decides at the same time as 14 others.
 */
async function atOnce<T>(world: ArbiterWorld, start: () => Promise<T>[]): Promise<T[]> {
  const client = await database.pool(1).connect();
  await client.query('BEGIN');
  await client.query('SELECT FROM seats WHERE event_no = $1 FOR UPDATE', [world.event]);
  const outcomes = Promise.all(start());
  const waiting = `SELECT count(*)::int AS n FROM pg_stat_activity
                    WHERE datname = current_database() AND wait_event_type = 'Lock'`;
  // The claims give up after a second of waiting; a slow machine then races with fewer.
  const until = performance.now() + 700;
  while (performance.now() < until) {
    if ((await database.query<{ n: number }>(waiting))[0]!.n >= 15) break;
  }
  await client.query('COMMIT');
  client.release();
  return outcomes;
}

function tally(outcomes: readonly { kind: string }[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { kind } of outcomes) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}
const seatsGranted = (outcomes: readonly (HoldOutcome | Stale)[]) =>
  outcomes.flatMap((outcome) => (outcome.kind === 'granted' ? outcome.hold.seats : []));
const times = <T>(count: number, make: (i: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => make(i));

function someOf(random: Random, from: number, count: number): number[] {
  const all = times(from, (i) => i);
  return times(count, () => all.splice(random.int(all.length), 1)[0]!);
}

test('S3: 200 claimers of 10 seats, one each: ten are granted, every other claim is taken', async () => {
  const { world, hold, codes } = await race(10);
  const outcomes = await atOnce(world, () => times(200, (i) => hold(i, `v${i}`, seatsOf(i % 10))));
  assert.deepEqual(tally(outcomes), { granted: 10, taken: 190 });
  assert.deepEqual(
    [...seatsGranted(outcomes)].sort((a, b) => a - b),
    times(10, (i) => i),
  );
  assert.deepEqual(await codes(), Array(10).fill(1));
  await audit(world);
});

test('S2: 400 claimers of overlapping sets, named in any order: no seat twice, no half set, no deadlock', async () => {
  const { world, hold } = await race(12);
  const random = seededRandom(4_711);
  for (let round = 0; round < 4; round++) {
    const asked = times(100, () => someOf(random, 12, 1 + random.int(5)));
    const outcomes = await Promise.all(
      asked.map((seats, i) => hold(round * 100 + i, `v${round}/${i}`, seatsOf(...seats))),
    );
    const granted = seatsGranted(outcomes);
    assert.equal(new Set(granted).size, granted.length);
    assert.ok(granted.length > 0);
    outcomes.forEach((outcome, i) => {
      if (outcome.kind === 'granted') assert.equal(outcome.hold.seats.length, asked[i]!.length);
      else assert.ok(outcome.kind === 'taken' && outcome.seats.length > 0, JSON.stringify(outcome));
    });
    await audit(world);
    await world.advance(11 * minute);
  }
});

test('candidate groups: a herd with the same list gets one group each until none is left', async () => {
  const { world, hold, codes } = await race(24);
  const groups = times(12, (i) => [i * 2, i * 2 + 1]);
  const outcomes = await atOnce(world, () => times(100, (i) => hold(i, `v${i}`, { kind: 'groups', groups })));
  assert.deepEqual(tally(outcomes), { granted: 12, taken: 88 });
  assert.deepEqual(await codes(), Array(24).fill(1));
  await audit(world);
});

test('candidate groups that overlap and lie in any order: no seat twice and no deadlock', async () => {
  const { world, hold } = await race(16);
  const random = seededRandom(99);
  for (let round = 0; round < 4; round++) {
    const outcomes = await Promise.all(
      times(60, (i) => {
        const groups = times(6, () => someOf(random, 16, 3));
        return hold(round * 60 + i, `v${round}/${i}`, { kind: 'groups', groups });
      }),
    );
    const granted = seatsGranted(outcomes);
    assert.equal(new Set(granted).size, granted.length);
    assert.ok(granted.length >= 9, `${granted.length} seats of 16 granted`);
    await audit(world);
    await world.advance(11 * minute);
  }
});

test('general admission: "taken" is never said while units are free, and none is given twice', async () => {
  const { world, hold, codes } = await race(100);
  const random = seededRandom(7);
  const claim = (): Claim => ({ kind: 'units', first: 0, count: 100, quantity: 2, start: random.int(100) });
  const outcomes = await atOnce(world, () => times(150, (i) => hold(i, `v${i}`, claim())));
  assert.deepEqual(tally(outcomes), { granted: 50, taken: 100 });
  assert.deepEqual(await codes(), Array(100).fill(1));
  await audit(world);
});

test('general admission and named seats in the same rows: no deadlock and no seat twice', async () => {
  const { world, hold } = await race(30);
  const random = seededRandom(21);
  const outcomes = await Promise.all(
    times(120, (i) =>
      i % 2 === 0
        ? hold(i, `v${i}`, seatsOf(...someOf(random, 30, 3)))
        : hold(i, `v${i}`, { kind: 'units', first: 0, count: 30, quantity: 3, start: random.int(30) }),
    ),
  );
  const granted = seatsGranted(outcomes);
  assert.equal(new Set(granted).size, granted.length);
  await audit(world);
});

test('S7: forty browsers of one account ask at once: the quota holds', async () => {
  const { world, hold } = await race(80);
  const account = { holder: 'account', seatsMax: 6 };
  const outcomes = await atOnce(world, () =>
    times(40, (i) => hold(i, `v${i}`, seatsOf(i * 2, i * 2 + 1), account)),
  );
  assert.deepEqual(tally(outcomes), { granted: 3, quota: 37 });
  await audit(world);
});

test('forty browsers of one address ask at once: its quota holds, and another address is not concerned', async () => {
  const { world, hold } = await race(90);
  const home = { address: { id: 'home', seatsMax: 6 } };
  const outcomes = await atOnce(world, () => [
    ...times(40, (i) => hold(i, `v${i}`, seatsOf(i * 2, i * 2 + 1), home)),
    ...times(5, (i) =>
      hold(50 + i, `w${i}`, seatsOf(80 + i * 2), { address: { id: `office-${i}`, seatsMax: 1 } }),
    ),
  ]);
  assert.deepEqual(tally(outcomes.slice(0, 40)), { granted: 3, address_quota: 37 });
  assert.deepEqual(tally(outcomes.slice(40)), { granted: 5 });
  await audit(world);
});

test('one hold a visitor: twenty tabs ask for different seats at once, one gets them', async () => {
  const { world, hold } = await race(40);
  const outcomes = await atOnce(world, () =>
    times(20, (i) => hold(i, 'visitor-a', seatsOf(i * 2, i * 2 + 1), { seatsMax: 50 })),
  );
  assert.deepEqual(tally(outcomes), { granted: 1, hold_exists: 19 });
  // Also where each tab is signed in to another account.
  const more = await atOnce(world, () =>
    times(20, (i) =>
      hold(
        100 + i,
        'visitor-b',
        { kind: 'units', first: 0, count: 40, quantity: 1, start: i },
        { holder: `a${i}` },
      ),
    ),
  );
  assert.deepEqual(tally(more), { granted: 1, hold_exists: 19 });
  await audit(world);
});

for (const claim of [
  seatsOf(1, 2),
  { kind: 'units', first: 0, count: 10, quantity: 2, start: 3 },
] as Claim[]) {
  test(`one request for ${claim.kind} sent twenty times at once is one hold`, async () => {
    const { world, hold } = await race(10);
    const outcomes = await atOnce(world, () => times(20, () => hold(1, 'visitor-a', claim)));
    assert.deepEqual(tally(outcomes), { granted: 20 });
    const holds = outcomes.map(grantedHold);
    assert.equal(new Set(holds.map((one) => JSON.stringify(one))).size, 1);
    assert.equal(outcomes.filter((outcome) => outcome.kind === 'granted' && !outcome.repeated).length, 1);
    await audit(world);
  });
}

test('S4: holds lapse during the storm: each seat goes on to the next claimer, never to two at an instant', async () => {
  const { world, hold } = await race(5);
  const random = seededRandom(5);
  const leases: { seat: number; from: number; to: number }[] = [];
  let next = 0;
  const buyer = async () => {
    for (let i = 0; i < 60; i++) {
      const n = next++;
      const outcome = await hold(n, `v${n}`, seatsOf(...someOf(random, 5, 1 + random.int(2))), {
        ttlMs: 5 + random.int(20),
      });
      if (outcome.kind !== 'granted') continue;
      const { seats, grantedAt, deadline } = outcome.hold;
      for (const seat of seats) leases.push({ seat, from: grantedAt, to: deadline });
    }
  };
  await Promise.all(times(20, buyer));
  assert.ok(leases.length > 15, `${leases.length} leases`);
  for (const seat of [0, 1, 2, 3, 4]) {
    const own = leases.filter((lease) => lease.seat === seat).sort((a, b) => a.from - b.from);
    own.slice(1).forEach((lease, i) => {
      assert.ok(lease.from >= own[i]!.to, `seat ${seat} to two: ${JSON.stringify([own[i], lease])}`);
    });
  }
  await audit(world);
});

test('S5: extend against expiry and the next claimer: a seat is proven to one of them only', async () => {
  const { world, hold, extend } = await race(40);
  await Promise.all(times(40, (i) => hold(i, `v${i}`, seatsOf(i), { ttlMs: 60 + i * 4 })));
  const proven = new Map<number, string[]>();
  await Promise.all(
    times(40, async (i) => {
      // The old holder extends at about the instant at which the hold lapses; the next one asks again and again.
      const old = (async () => {
        for (;;) {
          const found = await world.arbiter.find(world.event, 0, idOf(i));
          const left = found ? found.deadline - (await now()) : 0;
          if (left > 6) continue;
          const outcome = await extend(i, `v${i}`, 1_000 + i);
          if (outcome.kind === 'extended') proven.set(i, [...(proven.get(i) ?? []), 'old']);
          return;
        }
      })();
      const fresh = (async () => {
        for (let k = 0; k < 40; k++) {
          const outcome = await hold(100 + i * 40 + k, `w${i}`, seatsOf(i));
          if (outcome.kind === 'granted') {
            proven.set(i, [...(proven.get(i) ?? []), 'fresh']);
            return;
          }
        }
      })();
      await Promise.all([old, fresh]);
    }),
  );
  for (const [seat, owners] of proven) assert.equal(owners.length, 1, `seat ${seat}: ${owners}`);
  assert.ok(proven.size > 0);
  await audit(world);
});

async function now(): Promise<number> {
  const [row] = await db.query<{ now: number }>('now', 'SELECT clock_timestamp() AS now');
  return row!.now;
}

test('release against claim: what is given back is taken by one, and a release sent first leaves no ghost', async () => {
  const { world, hold, release, find } = await race(20);
  await Promise.all(times(10, (i) => hold(i, `v${i}`, seatsOf(i * 2, i * 2 + 1))));
  const outcomes = await Promise.all(
    times(100, (i) =>
      i < 10 ? release(i, `v${i}`) : hold(i, `v${i}`, seatsOf(((i % 10) * 2 + 1) % 20, (i % 10) * 2)),
    ),
  );
  const granted = seatsGranted(outcomes.slice(10) as HoldOutcome[]);
  assert.equal(new Set(granted).size, granted.length);
  assert.deepEqual(tally(outcomes.slice(0, 10)), { released: 10 });
  await audit(world);

  // Claim and release of one id sent together: in either order nothing stays held.
  const fresh = await race(40);
  await Promise.all(times(40, (i) => [fresh.hold(i, `v${i}`, seatsOf(i)), fresh.release(i, `v${i}`)]).flat());
  assert.deepEqual(await fresh.codes(), Array(40).fill(0));
  assert.equal(await find(3), null);
  await audit(fresh.world);
});

test('replaces against everybody: swaps over the same seats end whole, without deadlock', async () => {
  const { world, hold, release } = await race(24);
  const random = seededRandom(31);
  await Promise.all(times(8, (i) => hold(i, `v${i}`, seatsOf(i * 2, i * 2 + 1))));
  const current = times(8, (i) => i);
  for (let round = 1; round <= 6; round++) {
    await Promise.all(
      times(8, async (i) => {
        const id = round * 100 + i;
        const claim: Claim =
          i % 3 === 0
            ? { kind: 'units', first: 0, count: 24, quantity: 2, start: random.int(24) }
            : i % 3 === 1
              ? { kind: 'groups', groups: times(4, () => someOf(random, 24, 2)) }
              : seatsOf(...someOf(random, 24, 2));
        const [outcome] = await Promise.all([
          hold(id, `v${i}`, claim, { replaces: idOf(current[i]!) }),
          hold(id + 50, `x${round}/${i}`, seatsOf(...someOf(random, 24, 2))).then((other) =>
            other.kind === 'granted' ? release(id + 50, `x${round}/${i}`) : undefined,
          ),
        ]);
        assert.ok(['granted', 'taken'].includes(outcome.kind), JSON.stringify(outcome));
        if (outcome.kind === 'granted') current[i] = id;
      }),
    );
    await audit(world);
  }
  assert.ok(current.some((id) => id >= 100));
  const held = await database.query<{ n: number }>(
    `SELECT count(*)::int AS n FROM seats WHERE event_no = $1 AND hold_until > now()`,
    [world.event],
  );
  assert.equal(held[0]!.n, 16, 'every visitor still has two seats');
});

test('a flip taken alone: nothing granted before it commits after it', async () => {
  const { world, hold } = await race(200);
  const pool = database.pool(1);
  const claims = times(200, (i) => hold(i, `v${i}`, seatsOf(i)));
  const client = await pool.connect();
  await client.query('BEGIN');
  await client.query('SELECT event_lock_alone($1)', [world.event]);
  await client.query(`UPDATE event_partitions SET epoch = nextval('epochs') WHERE event_no = $1`, [
    world.event,
  ]);
  const seen = await client.query('SELECT count(*)::int AS n FROM holds WHERE event_no = $1', [world.event]);
  await client.query('COMMIT');
  client.release();
  const outcomes = tally(await Promise.all(claims));
  assert.deepEqual(outcomes.granted ?? 0, seen.rows[0].n);
  assert.equal((outcomes.granted ?? 0) + (outcomes.stale ?? 0), 200);
});
