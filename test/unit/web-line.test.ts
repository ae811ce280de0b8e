import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { seededRandom } from '../../src/runtime/random.ts';
import { bandOf, minutesOf, pollDelay, waitingIn, waitOf } from '../../web/buyer/line.ts';

const status = (change: object) => ({
  frontier: [100],
  last: [5000],
  rate: { measured: 10, target: 20 },
  noShow: 0.1,
  seats: { total: 1000, left: 800, inBaskets: 100 },
  ...change,
});

test('W4: place, wait and length of the line behind come from the shared status and the own number alone', () => {
  const wait = waitOf(status({}), { number: 701, shard: 0 });
  assert.equal(wait.ahead, 600);
  assert.equal(wait.behind, 4299);
  assert.equal(wait.called, false);
  assert.equal(wait.scarce, false);
  // 600 numbers, of which a tenth will not come, at 10 a second.
  assert.equal(Math.round(wait.waitMs ?? 0), 54_000);
});

test('W4: numbers of a gap are no visitors: they are neither ahead nor behind nor waited for', () => {
  const gaps = [[[201, 10_200]]] as [number, number][][];
  const line = status({ last: [10_300], gaps });
  assert.deepEqual([waitOf(line, { number: 10_250, shard: 0 }).ahead, waitingIn(line)], [149, 200]);
  assert.equal(waitOf(line, { number: 150, shard: 0 }).behind, 150);
  assert.equal(
    waitOf(line, { number: 5_000, shard: 0 }).ahead,
    100,
    'a number inside it follows those before it',
  );
  const passed = status({ frontier: [10_200], last: [10_300], gaps: [[]] });
  assert.equal(waitOf(passed, { number: 5_000, shard: 0 }).called, true);
});

test('W4: with several shards the place is an estimate: as much of the others’ lines is ahead as of the own', () => {
  const shards = status({ frontier: [100, 200, 50], last: [1_100, 1_300, 1_000], gaps: [[], [], []] });
  const wait = waitOf(shards, { number: 601, shard: 0 });
  assert.equal(wait.approximate, true);
  // Half of 1,000 + 1,100 + 950.
  assert.ok(Math.abs(wait.ahead - 1_525) < 3, String(wait.ahead));
  assert.ok(Math.abs(wait.ahead + wait.behind + 1 - waitingIn(shards)) <= 2);
  assert.equal(waitOf(shards, { number: 101, shard: 0 }).ahead, 0);
  assert.equal(waitOf(shards, { number: 100, shard: 0 }).called, true);
  assert.equal(waitOf(shards, { number: 100, shard: 1 }).called, true);
  assert.equal(waitOf(status({}), { number: 601, shard: 0 }).approximate, false);
});

test('W4: the estimate is close to the truth when visitors fall to shards by chance', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 1e9 }), fc.integer({ min: 2, max: 16 }), (seed, shards) => {
      const random = seededRandom(seed);
      const last = Array<number>(shards).fill(0);
      const people = Array.from({ length: 20_000 }, () => {
        const shard = random.int(shards);
        last[shard]! += 1;
        return { shard, number: last[shard]! };
      });
      const line = status({ frontier: Array(shards).fill(0), last, gaps: last.map(() => []) });
      for (const index of [10, 1_000, 10_000, 19_000]) {
        const { ahead } = waitOf(line, people[index]!);
        // Five standard deviations of the draw.
        const spread = 5 * Math.sqrt(shards * index * (1 - index / 20_000)) + 5 * shards;
        assert.ok(Math.abs(ahead - index) < spread, `${ahead} instead of ${index}, ${shards} shards`);
      }
    }),
    { numRuns: 20 },
  );
});

test('W3: a number at the frontier is called, the next one is not', () => {
  assert.equal(waitOf(status({}), { number: 100, shard: 0 }).called, true);
  const next = waitOf(status({}), { number: 101, shard: 0 });
  assert.equal(next.called, false);
  assert.equal(next.ahead, 0);
});

test('a line that does not move has no estimate; more people than seats is said', () => {
  const still = waitOf(status({ rate: { measured: 0, target: 0 } }), { number: 3000, shard: 0 });
  assert.equal(still.waitMs, null);
  assert.equal(still.scarce, true);
});

test('a position is exact when near and a band that contains it when far', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 5_000_000 }), (ahead) => {
      const band = bandOf(ahead);
      if (band.kind === 'exact') {
        assert.ok(ahead <= 100);
        assert.equal(band.n, ahead);
      } else {
        assert.ok(band.from <= ahead && ahead <= band.to, `${ahead} in ${band.from}..${band.to}`);
        assert.ok(band.to - band.from <= ahead, 'a band is never wider than the distance itself');
      }
    }),
  );
});

test('an estimate is a range of whole minutes around the computed wait', () => {
  assert.deepEqual(minutesOf(10 * 60_000), { from: 8, to: 13 });
  assert.deepEqual(minutesOf(61_000), { from: 1, to: 2 });
});

test('W5: no pause between polls is below the floor or above the maximum of the served policy', () => {
  const wait = fc.option(fc.double({ min: 0, max: 1e9, noNaN: true }));
  const chance = fc.double({ min: 0, max: 1, noNaN: true });
  fc.assert(
    fc.property(wait, chance, (waitMs, random) => {
      const delay = pollDelay({ minMs: 2000, maxMs: 30_000 }, waitMs, random);
      assert.ok(delay >= 2000 && delay <= 30_000, String(delay));
    }),
  );
});
