import assert from 'node:assert/strict';
import test, { after, describe } from 'node:test';
import type { Claim, HoldOutcome, Stale } from '../../src/inventory/arbiter.ts';
import { createRedisArbiter } from '../../src/inventory/redis/arbiter.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { type Random, seededRandom } from '../../src/runtime/random.ts';
import { connectedStore, type RedisWorld, redisWorld } from '../contract/arbiter-redis-world.ts';
import { commandsOf, grantedHold, idOf, minute, seatsOf } from '../contract/arbiter-world.ts';
import { testRedis, withoutRedis } from '../support/redis.ts';

// Six web processes' worth of arbiters, each with a connection of its own; half of them send each claim alone.
const server = withoutRedis ? null : await testRedis();
const stores = server ? await Promise.all(Array.from({ length: 6 }, () => connectedStore(server))) : [];
after(() => Promise.all(stores.map((store) => store.close())));
const client = server?.client();

const times = <T>(count: number, make: (i: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => make(i));

async function race(seats: number) {
  const world = await redisWorld(server!, stores[0]!, client!);
  await commandsOf(world).load(seats);
  const worlds = stores.map((store, i) => {
    store.trust(world.tag, [server!.runId]);
    const arbiter = createRedisArbiter({
      store,
      prefix: 'test',
      clock: systemClock,
      claimsPerCall: i % 2 === 0 ? 64 : 1,
    });
    return commandsOf({ ...world, arbiter });
  });
  /** The commands of the process that asker number `i` came to. */
  const at = (i: number) => worlds[i % worlds.length]!;
  return { world, at, ...commandsOf(world) };
}

/** Audits the store itself, seat by seat: every live hold has all of its seats, and no seat says otherwise (S2, S3, S8). */
async function audit(world: RedisWorld): Promise<void> {
  const [{ holds, seats }, { at, codes }] = [await world.dump(), await world.redis.snapshot(world.event, 0)];
  const live = holds.filter((hold) => hold.state === 'live' && hold.deadline > at);
  const held = live.flatMap((hold) => hold.seats);
  assert.equal(new Set(held).size, held.length, 'no seat is held twice');
  const shown = [...codes].flatMap((code, seat) => (code === 1 ? [seat] : []));
  assert.deepEqual(
    shown,
    [...held].sort((a, b) => a - b),
  );
  assert.ok(seats.every(({ state }) => state === 'available'));
  const visitors = live.map((hold) => hold.visitor);
  assert.equal(new Set(visitors).size, visitors.length, 'no visitor has two');
  const grants = holds.filter((hold) => hold.grant > 0).map((hold) => hold.grant);
  assert.equal(new Set(grants).size, grants.length, 'no grant number twice');
}

function tally(outcomes: readonly { kind: string }[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { kind } of outcomes) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}
const seatsGranted = (outcomes: readonly (HoldOutcome | Stale)[]) =>
  outcomes.flatMap((outcome) => (outcome.kind === 'granted' ? outcome.hold.seats : []));
function someOf(random: Random, from: number, count: number): number[] {
  const all = times(from, (i) => i);
  return times(count, () => all.splice(random.int(all.length), 1)[0]!);
}

describe('races in Redis', { skip: withoutRedis }, () => {
  test('S3: 300 claimers of 10 seats over six connections: ten are granted, every other claim is taken', async () => {
    const { world, at, codes } = await race(10);
    const outcomes = await Promise.all(times(300, (i) => at(i).hold(i, `v${i}`, seatsOf(i % 10))));
    assert.deepEqual(tally(outcomes), { granted: 10, taken: 290 });
    assert.deepEqual(await codes(), Array(10).fill(1));
    await audit(world);
  });

  test('S2: overlapping sets, groups, units and swaps, in rounds that lapse unswept: no seat twice and no half set', async () => {
    const { world, at } = await race(40);
    const random = seededRandom(4_711);
    const claim = (): Claim => {
      const kind = random.int(3);
      const size = 1 + random.int(4);
      if (kind === 0) return seatsOf(...someOf(random, 40, size));
      if (kind === 1) return { kind: 'groups', groups: times(5, () => someOf(random, 40, size)) };
      return { kind: 'units', first: 8, count: 24, quantity: size, start: random.int(24) };
    };
    for (let round = 0; round < 5; round++) {
      const asked = times(120, claim);
      const outcomes = await Promise.all(
        asked.map((wish, i) => at(i).hold(round * 1_000 + i, `v${round}/${i}`, wish)),
      );
      const granted = seatsGranted(outcomes);
      assert.ok(granted.length > 20 && new Set(granted).size === granted.length, String(granted));
      const owners = outcomes.flatMap((outcome, i) => (outcome.kind === 'granted' ? [i] : []));
      const swaps = await Promise.all(
        owners.map((i) =>
          at(i + 1).hold(round * 1_000 + 500 + i, `v${round}/${i}`, claim(), {
            replaces: idOf(round * 1_000 + i),
          }),
        ),
      );
      assert.deepEqual(
        Object.keys(tally(swaps)).filter((kind) => kind !== 'granted' && kind !== 'taken'),
        [],
      );
      await audit(world);
      await world.advance(11 * minute);
    }
  });

  test('S7: sixty browsers of one account ask at once over six connections: the quota holds', async () => {
    const { world, at } = await race(120);
    const account = { holder: 'account', seatsMax: 6 };
    const outcomes = await Promise.all(
      times(60, (i) => at(i).hold(i, `v${i}`, seatsOf(i * 2, i * 2 + 1), account)),
    );
    assert.deepEqual(tally(outcomes), { granted: 3, quota: 57 });
    await audit(world);
  });

  test('sixty browsers of one address ask at once over six connections: its quota holds', async () => {
    const { world, at } = await race(120);
    const home = { address: { id: 'home', seatsMax: 6 } };
    const outcomes = await Promise.all(
      times(60, (i) => at(i).hold(i, `v${i}`, seatsOf(i * 2, i * 2 + 1), home)),
    );
    assert.deepEqual(tally(outcomes), { granted: 3, address_quota: 57 });
    await audit(world);
  });

  test('one hold a visitor, and one request sent sixty times is one hold', async () => {
    const { world, at } = await race(130);
    const tabs = await Promise.all(
      times(60, (i) => at(i).hold(i, 'visitor-a', seatsOf(i * 2, i * 2 + 1), { holder: `a${i}` })),
    );
    assert.deepEqual(tally(tabs), { granted: 1, hold_exists: 59 });
    const units: Claim = { kind: 'units', first: 120, count: 10, quantity: 2, start: 3 };
    const repeats = await Promise.all(times(60, (i) => at(i).hold(100, 'visitor-b', units)));
    assert.deepEqual(tally(repeats), { granted: 60 });
    assert.equal(new Set(repeats.map((outcome) => JSON.stringify(grantedHold(outcome)))).size, 1);
    assert.equal(repeats.filter((outcome) => outcome.kind === 'granted' && !outcome.repeated).length, 1);
    await audit(world);
  });

  test('S4: holds lapse during the storm: each seat goes on to the next claimer, never to two at an instant', async () => {
    const { world, at } = await race(5);
    const random = seededRandom(5);
    const leases: { seat: number; from: number; to: number }[] = [];
    let next = 0;
    const buyer = async () => {
      for (let i = 0; i < 60; i++) {
        const n = next++;
        const wish = seatsOf(...someOf(random, 5, 1 + random.int(2)));
        const outcome = await at(n).hold(n, `v${n}`, wish, { ttlMs: 5 + random.int(20) });
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

  test('S5: a release at the same time as its claim leaves no ghost; an extend at the lapse proves a seat for one holder only', async () => {
    const { world, at, codes } = await race(60);
    await Promise.all(
      times(40, (i) => [
        at(i).hold(i, `v${i}`, seatsOf(i)) as Promise<unknown>,
        at(i + 1).release(i, `v${i}`),
      ]).flat(),
    );
    assert.deepEqual(await codes(), Array(60).fill(0));
    const proven: number[] = [];
    let asked: Promise<number> | undefined;
    /** Redis's time; those who ask at once share the question. */
    const now = (): Promise<number> => {
      asked ??= world.redis
        .probe(world.event, 0)
        .then(({ time }) => time)
        .finally(() => {
          asked = undefined;
        });
      return asked;
    };
    await Promise.all(
      times(30, async (i) => {
        const old = await at(i).hold(100 + i, `w${i}`, seatsOf(i), { ttlMs: 20 + i });
        const { deadline } = grantedHold(old);
        const prove = async () => {
          // As near to the lapse as can be hit from outside.
          while ((await now()) < deadline - 2);
          if ((await at(i).extend(100 + i, `w${i}`, 1_000 + i)).kind === 'extended') proven.push(i);
        };
        const takeOver = async () => {
          for (let k = 0; k < 90; k++) {
            const outcome = await at(k).hold(1_000 + i * 100 + k, `x${i}/${k}`, seatsOf(i));
            if (outcome.kind !== 'granted') continue;
            proven.push(i);
            return;
          }
        };
        await Promise.all([prove(), takeOver()]);
      }),
    );
    assert.equal(new Set(proven).size, proven.length);
    assert.ok(proven.length > 0);
    await audit(world);
  });
});
