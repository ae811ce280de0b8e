import assert from 'node:assert/strict';
import test, { after } from 'node:test';
import type { Hold } from '../../src/core/hold.ts';
import { type Random, seededRandom } from '../../src/runtime/random.ts';
import { postgresWorld, testDb } from '../contract/arbiter-postgres-world.ts';
import { commandsOf, seatsOf } from '../contract/arbiter-world.ts';
import { until } from '../support/app.ts';
import { testDatabase } from '../support/postgres.ts';
import { orderIdOf } from '../support/stage.ts';
import { auditSeats, committingLate, type ModesWorld, modesWorld, waiting } from './modes-world.ts';

// Receipts as browsers bring them: all at once, in any order, including receipts that a bot has collected.
const database = await testDatabase();
const db = testDb(database, 16);
after(() => db.close());

/**
 * Returns the outcome of each receipt once grace is over, after all have been presented in this order, `atOnce` or one by one.
 */
async function settle(world: ModesWorld, receipts: Hold[], atOnce: boolean): Promise<string[]> {
  const answers: { kind: string }[] = [];
  if (atOnce) answers.push(...(await Promise.all(receipts.map((receipt) => world.present(receipt)))));
  else for (const receipt of receipts) answers.push(await world.present(receipt));
  const inGrace = ['recovering', 'taken', 'hold_gone'];
  assert.deepEqual(
    answers.filter(({ kind }) => !inGrace.includes(kind)),
    [],
    'no receipt is accepted before the end of grace',
  );
  await world.audit();
  await world.endGrace();
  const kinds = await Promise.all(receipts.map(async (receipt) => (await world.present(receipt)).kind));
  await world.audit();
  return kinds;
}

function shuffled<T>(random: Random, list: readonly T[]): T[] {
  const left = [...list];
  return list.map(() => left.splice(random.int(left.length), 1)[0]!);
}

function permutations<T>(list: readonly T[]): T[][] {
  if (list.length < 2) return [[...list]];
  return list.flatMap((one, i) => permutations(list.toSpliced(i, 1)).map((rest) => [one, ...rest]));
}

const claim = { owner: 'me', leaseMs: 30_000 };

test('D1: in whatever order receipts arrive, the highest (epoch, grant) has the seat at the end of grace', async () => {
  const orders = permutations(['high', 'middle', 'low', 'earlier epoch']);
  const world = await modesWorld(database, db, { seats: 6 });
  for (const order of orders) {
    await world.restored();
    const receipts: Record<string, Hold> = {
      high: world.receipt('visitor-a', [2, 3], 9),
      middle: world.receipt('visitor-b', [1, 2], 5),
      low: world.receipt('visitor-c', [3, 4], 2),
      'earlier epoch': world.receipt('visitor-d', [2, 5], 1_000, { epoch: world.epoch - 1 }),
    };
    await world.degrade();
    const kinds = await settle(
      world,
      order.map((name) => receipts[name]!),
      order === orders[0],
    );
    assert.deepEqual(
      order.filter((_, i) => kinds[i] === 'recovered'),
      ['high'],
      order.join(),
    );
  }
});

test('D1: every live hold is recovered, whatever receipts of released holds are replayed at the same time', async () => {
  const random = seededRandom(20_261);
  for (let round = 0; round < 3; round++) {
    const world = await postgresWorld(database, db);
    const { load, hold, release, recover } = commandsOf(world);
    await load(24);
    const all: Hold[] = [];
    const live = new Map<string, Hold>();
    for (let n = 0; n < 100; n++) {
      const visitor = `visitor-${random.int(12)}`;
      const account = `account-${Number(visitor.slice(8)) >> 1}`;
      const seats = shuffled(
        random,
        Array.from({ length: 24 }, (_, seat) => seat),
      ).slice(0, 1 + random.int(3));
      const mine = live.get(visitor);
      if (mine && random.int(3) > 0) {
        await release(Number.parseInt(mine.hold.slice(-12), 16), visitor);
        live.delete(visitor);
      }
      const replaces = live.get(visitor)?.hold ?? null;
      const outcome = await hold(n, visitor, seatsOf(...seats), { holder: account, seatsMax: 5, replaces });
      if (outcome.kind === 'granted' && !outcome.repeated) {
        all.push(outcome.hold);
        live.set(visitor, outcome.hold);
      }
    }
    assert.ok(live.size >= 4 && all.length > live.size * 3, `${live.size} live of ${all.length}`);
    world.epoch = await world.lose!(60_000);
    await Promise.all(shuffled(random, all).map((receipt) => recover(receipt, 5)));
    await auditSeats(database, world.event);
    await world.advance(60_000);
    for (const receipt of live.values()) assert.equal((await recover(receipt, 5)).kind, 'recovered');
    for (const receipt of all) {
      const outcome = await recover(receipt, 5);
      if (outcome.kind === 'recovered') assert.deepEqual(outcome.hold.seats, receipt.seats);
    }
    await auditSeats(database, world.event);
  }
});

test('D1: three hundred receipts collected by hold-and-release win one hold at most, and no seat of another visitor', async () => {
  const world = await modesWorld(database, db, { seats: 40 });
  const random = seededRandom(300);
  const collected = Array.from({ length: 300 }, (_, i) => {
    const seat = random.int(39);
    return world.receipt('collector', [seat, seat + 1], i + 1);
  });
  const honest = Array.from({ length: 10 }, (_, i) =>
    world.receipt(`visitor-${i}`, [i * 4, i * 4 + 1], 1_000 + i),
  );
  await world.degrade();
  const kinds = await settle(world, shuffled(random, [...collected, ...honest]), true);
  assert.ok(kinds.filter((kind) => kind === 'recovered').length <= 11);
  for (const receipt of honest) assert.equal((await world.present(receipt)).kind, 'recovered');
  const [row] = await database.query(
    `SELECT count(*)::int AS n FROM holds WHERE event_no = $1 AND visitor = 'collector' AND state = 'live'`,
    [world.event],
  );
  assert.ok(row.n <= 1, `${row.n} holds`);
});

test('S7: one account’s receipts from twenty browsers at once: the quota holds, and the latest grants fill it', async () => {
  const world = await modesWorld(database, db, { seats: 40 });
  const random = seededRandom(7);
  const receipts = Array.from({ length: 20 }, (_, i) =>
    world.receipt(`browser-${i}`, [i * 2, i * 2 + 1], i + 1, { holder: 'account' }),
  );
  await world.degrade();
  const order = shuffled(random, receipts);
  const kinds = await settle(world, order, true);
  assert.deepEqual(
    order
      .filter((_, i) => kinds[i] === 'recovered')
      .map(({ grant }) => grant)
      .sort((a, b) => a - b),
    [18, 19, 20],
  );
});

test('D1: one receipt from twenty tabs at once is one hold', async () => {
  const world = await modesWorld(database, db);
  const receipt = world.receipt('visitor-a', [1, 2], 1);
  await world.degrade();
  const kinds = await settle(world, Array(20).fill(receipt), true);
  assert.deepEqual(new Set(kinds), new Set(['recovered']));
});

test('D1: a receipt whose hold has become an order is refused, whether it is open, paid for or closed', async () => {
  const world = await modesWorld(database, db);
  const receipts = ['open', 'sold', 'closed'].map((visitor, i) => world.receipt(visitor, [i], i + 1));
  for (const receipt of receipts) assert.equal((await world.reserve(receipt)).kind, 'reserved');
  const [open, sold, closed] = receipts.map((receipt) => orderIdOf(receipt.hold));
  await world.record.close(closed!, 'closed_by_buyer', 'key', claim);
  await database.query(`SELECT order_decide_seats(o, 'sold') FROM orders o WHERE order_id = $1`, [sold]);
  await database.query(`UPDATE orders SET state = 'paid' WHERE order_id = $1`, [sold]);
  await database.query(`UPDATE tickets SET status = 'sold' WHERE order_id = $1`, [sold]);
  await world.degrade();
  for (const receipt of receipts) assert.deepEqual(await world.present(receipt), { kind: 'hold_gone' });
  // Nor does another's receipt get what is reserved or sold; what was freed, it does.
  const others = [0, 1, 2].map((seat) => world.receipt(`other-${seat}`, [seat, 10 + seat], 100 + seat));
  const kinds = await settle(world, others, true);
  assert.deepEqual(kinds, ['hold_gone', 'hold_gone', 'recovered']);
  assert.equal((await world.record.findOrder(open!))?.state, 'reserved');
  await world.audit();
});

test('S5: a receipt and its release cross: what was given back stays so, and no seat is left held', async () => {
  const world = await modesWorld(database, db, { seats: 4 });
  for (let round = 0; round < 10; round++) {
    await world.restored();
    const receipt = world.receipt('visitor-a', [0, 1], 1);
    const epoch = await world.degrade();
    const release = () =>
      world.arbiter.release({
        event: world.event,
        partition: 0,
        epoch,
        hold: receipt.hold,
        visitor: 'visitor-a',
      });
    await Promise.all([world.present(receipt), release(), world.present(receipt)]);
    assert.deepEqual(await settle(world, [receipt], false), ['hold_gone']);
    const { codes } = await world.arbiter.snapshot(world.event, 0);
    assert.deepEqual([...codes], [0, 0, 0, 0]);
  }
});

test('D1: what was said at the end of grace stands: a later receipt that is late is waited for or refused', async () => {
  const world = await modesWorld(database, db, { seats: 4 });
  for (let round = 0; round < 12; round++) {
    await world.restored();
    const [low, high] = [world.receipt('visitor-a', [0, 1], 1), world.receipt('visitor-b', [1, 2], 2)];
    await world.degrade();
    await world.present(low);
    await database.query(
      `UPDATE event_partitions SET grace_until = clock_timestamp() + $2 * interval '1 ms' WHERE event_no = $1`,
      [world.event, 10 + round],
    );
    // One visitor asks until there is a yes or no, the other comes at about the last moment.
    const asked = (async () => {
      for (;;) {
        const outcome = await world.present(low);
        if (outcome.kind !== 'recovering') return outcome.kind;
      }
    })();
    await Promise.all(Array.from({ length: 4 }, () => world.present(high)));
    const said = await asked;
    // The one may have been told while grace went on for the other.
    await world.endGrace();
    const [mine, theirs] = [await world.present(low), await world.present(high)];
    assert.equal(mine.kind, said, 'as he was told');
    assert.deepEqual([mine.kind, theirs.kind].sort(), ['hold_gone', 'recovered']);
    await world.audit();
  }
});

test('D1: a receipt that had to wait until grace was over takes nothing any more', async () => {
  const world = await modesWorld(database, db, { seats: 4 });
  const [mine, theirs] = [world.receipt('visitor-a', [0, 1], 1), world.receipt('visitor-b', [1, 2], 2)];
  await world.degrade();
  await world.present(mine);
  const lock = 'SELECT FROM seats WHERE event_no = $1 AND seat_no = 2 FOR UPDATE';
  const { outcome } = await committingLate(database, [lock, [world.event]], async (commit) => {
    await database.query(
      `UPDATE event_partitions SET grace_until = clock_timestamp() + interval '1200 ms' WHERE event_no = $1`,
      [world.event],
    );
    const late = world.present(theirs);
    await waiting(database, 1);
    await until(async () => (await world.row()).grace_until!.getTime() < Date.now(), 'the end of grace');
    await commit();
    return late;
  });
  assert.deepEqual(outcome, { kind: 'hold_gone' });
  assert.equal((await world.present(mine)).kind, 'recovered');
  await world.audit();
});

test('the crowd of receipts met no deadlock', async () => {
  const [row] = await database.query(
    'SELECT deadlocks::int AS n FROM pg_stat_database WHERE datname = current_database()',
  );
  assert.equal(row.n, 0);
});
