import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { cellsOf, reportOrder } from '../../src/core/order-report.ts';
import { advanceByWatermark, type Gap, knownNumbers, type ShardLine } from '../../src/core/watermark.ts';

/** People by the millisecond of arrival, on the shards that they fell to, and calls tick by tick. */
interface Sale {
  shards: number;
  arrivals: { at: number; shard: number }[];
  /** Numbers to call at each tick, and how late each shard's line was read before it. */
  ticks: { advance: number; lateMs: number[] }[];
  tickMs: number;
}

const sales: fc.Arbitrary<Sale> = fc
  .record({
    shards: fc.integer({ min: 1, max: 5 }),
    arrivals: fc.array(fc.record({ at: fc.integer({ min: 0, max: 8_000 }), shard: fc.nat(4) }), {
      maxLength: 300,
      size: 'max',
    }),
    ticks: fc.array(
      fc.record({ advance: fc.nat(40), lateMs: fc.array(fc.nat(1_500), { minLength: 5, maxLength: 5 }) }),
      { minLength: 1, maxLength: 30, size: 'max' },
    ),
    tickMs: fc.integer({ min: 100, max: 1_500 }),
  })
  .map(({ arrivals, shards, ...rest }) => ({
    ...rest,
    shards,
    arrivals: arrivals
      .map(({ at, shard }) => ({ at, shard: shard % shards }))
      .toSorted((a, b) => a.at - b.at),
  }));

/** The line of a shard as it was read at an instant. */
function lineAt(sale: Sale, shard: number, readAt: number, frontier: number): ShardLine {
  const own = sale.arrivals.filter((one) => one.shard === shard && one.at <= readAt);
  const lasts = new Map<number, number>();
  for (const [index, { at }] of own.entries()) lasts.set(Math.floor(at / 1000), index + 1);
  const arrivals = [...lasts].map(([second, last]) => ({ second, last }));
  return { frontier, last: own.length, readAt, arrivals, gaps: [] };
}

interface Called {
  at: number;
  shard: number;
  tick: number;
}

function run(sale: Sale): { called: Called[]; perTick: number[] } {
  let frontiers: number[] = Array(sale.shards).fill(0);
  const read: number[] = Array(sale.shards).fill(0);
  const called: Called[] = [];
  const perTick: number[] = [];
  for (const [tick, { advance, lateMs }] of sale.ticks.entries()) {
    const lines = frontiers.map((frontier, shard) => {
      read[shard] = Math.max(read[shard]!, (tick + 1) * sale.tickMs - lateMs[shard]!);
      return lineAt(sale, shard, read[shard]!, frontier);
    });
    const next = advanceByWatermark(lines, advance, false);
    let calls = 0;
    for (const [shard, frontier] of next.entries()) {
      assert.ok(frontier >= frontiers[shard]!, 'never back');
      assert.ok(frontier <= lines[shard]!.last, 'never past the last');
      const own = sale.arrivals.filter((one) => one.shard === shard);
      for (let number = frontiers[shard]! + 1; number <= frontier; number++) {
        called.push({ at: own[number - 1]!.at, shard, tick });
        calls += 1;
      }
    }
    assert.ok(calls <= advance, 'no more than asked');
    perTick.push(calls);
    frontiers = next;
  }
  return { called, perTick };
}

test('W1 W6: over shards no visitor is called before another who came a second earlier; never back, never past the last, never more', () => {
  let sharded = 0;
  fc.assert(
    fc.property(sales, (sale) => {
      const { called } = run(sale);
      if (sale.shards > 1 && called.length > 20) sharded += 1;
      // Against the whole of those who had arrived by then, called later or never.
      let latest = Number.NEGATIVE_INFINITY;
      for (let tick = 0; tick < sale.ticks.length; tick++) {
        const now = called.filter((one) => one.tick === tick);
        for (const one of now) assert.ok(latest - one.at < 1_000, `${latest} was called before ${one.at}`);
        latest = Math.max(latest, ...now.map((one) => one.at));
      }
      const counts = Array(sale.shards).fill(0);
      for (const { shard } of called) counts[shard] += 1;
      const never = sale.arrivals.filter(({ shard }) => counts[shard]-- <= 0);
      for (const { at } of never) assert.ok(latest - at < 1_000, `${at} waits while ${latest} was called`);
    }),
    { numRuns: 400 },
  );
  assert.ok(sharded > 50, `${sharded} sales meant anything`);
});

test('all who wait are called when as many may be, and one shard is called in strict order whatever the seconds say', () => {
  fc.assert(
    fc.property(sales, (sale) => {
      const lines = Array.from({ length: sale.shards }, (_, shard) => lineAt(sale, shard, 9_000, 0));
      assert.deepEqual(
        advanceByWatermark(lines, 1_000, false),
        lines.map(({ last }) => last),
      );
      const [one] = lines as [ShardLine];
      const advance = sale.ticks[0]?.advance ?? 0;
      assert.deepEqual(advanceByWatermark([{ ...one, readAt: 0 }], advance, false), [
        Math.min(advance, one.last),
      ]);
    }),
    { numRuns: 100 },
  );
});

test('the second that the watermark falls into is called in the same part on each shard', () => {
  const shard = (last: number): ShardLine => ({
    frontier: 0,
    last,
    readAt: 5_500,
    arrivals: [
      { second: 3, last: last / 10 },
      { second: 4, last },
    ],
    gaps: [],
  });
  assert.deepEqual(
    advanceByWatermark([shard(1_000), shard(500), shard(100)], 160 + 720, false),
    [550, 275, 55],
  );
});

test('a gap costs nothing, is passed when its turn comes and not before, and only if anything may move', () => {
  const line = (frontier: number, last = 10_050): ShardLine => ({
    frontier,
    last,
    readAt: 9_000,
    arrivals: [
      { second: 1, last: 40 },
      { second: 2, last: 10_000 },
      { second: 5, last },
    ],
    gaps: [[41, 10_000]],
  });
  assert.deepEqual(advanceByWatermark([line(0)], 30, true), [30]);
  assert.deepEqual(
    advanceByWatermark([line(30)], 10, true),
    [10_000],
    'those in it are called with the last before it',
  );
  assert.deepEqual(advanceByWatermark([line(30)], 15, true), [10_005]);
  assert.deepEqual(advanceByWatermark([line(40, 10_000)], 0, true), [10_000], 'nobody else waits');
  assert.deepEqual(advanceByWatermark([line(40, 10_000)], 0, false), [40]);
  const other: ShardLine = {
    frontier: 0,
    last: 5,
    readAt: 9_000,
    arrivals: [{ second: 1, last: 5 }],
    gaps: [],
  };
  assert.deepEqual(
    advanceByWatermark([line(40), other], 4, true),
    [40, 4],
    'those who came before it come first',
  );
  assert.deepEqual(advanceByWatermark([line(40), other], 5, true), [10_000, 5]);
});

test('numbers in gaps are not counted', () => {
  const gaps: Gap[] = [
    [11, 20],
    [31, 31],
  ];
  assert.equal(knownNumbers(0, 40, gaps), 29);
  assert.equal(knownNumbers(10, 20, gaps), 0);
  assert.equal(knownNumbers(15, 31, gaps), 10);
  assert.equal(knownNumbers(40, 40, gaps), 0);
});

const cells = fc.array(
  fc.record({
    shard: fc.nat(3),
    arrivedSecond: fc.nat(12),
    calledAt: fc.nat(12),
    count: fc.integer({ min: 1, max: 4 }),
  }),
  { maxLength: 40 },
);

test('the report agrees with counting every pair', () => {
  fc.assert(
    fc.property(cells, (list) => {
      const everyone = list.flatMap((cell) => Array.from({ length: cell.count }, () => cell));
      let [inOrder, inverted, worst] = [0, 0, 0];
      for (const a of everyone) {
        for (const b of everyone) {
          if (a.calledAt >= b.calledAt) continue;
          if (a.arrivedSecond < b.arrivedSecond) inOrder += 1;
          if (a.arrivedSecond > b.arrivedSecond) inverted += 1;
          if (a.shard !== b.shard && a.arrivedSecond >= b.arrivedSecond) {
            worst = Math.max(worst, a.arrivedSecond - b.arrivedSecond + 1);
          }
        }
      }
      const report = reportOrder(list);
      assert.deepEqual(report.pairs, { inOrder, inverted });
      assert.equal(report.people, everyone.length);
      assert.equal(report.worstInversionSeconds, worst);
      const of = inOrder + inverted;
      assert.equal(report.tau, of === 0 ? null : (inOrder - inverted) / of);
    }),
  );
});

test('a shard’s record is cut where the second of arrival or the call changes', () => {
  assert.deepEqual(
    cellsOf({
      shard: 2,
      arrivals: [
        { second: 10, last: 5 },
        { second: 11, last: 9 },
        { second: 14, last: 30 },
      ],
      moves: [
        { at: 1_000, frontier: 3 },
        { at: 2_000, frontier: 7 },
        { at: 3_000, frontier: 12 },
      ],
      gaps: [[9, 10]],
    }),
    [
      { shard: 2, arrivedSecond: 10, calledAt: 1_000, count: 3 },
      { shard: 2, arrivedSecond: 10, calledAt: 2_000, count: 2 },
      { shard: 2, arrivedSecond: 11, calledAt: 2_000, count: 2 },
      { shard: 2, arrivedSecond: 11, calledAt: 3_000, count: 1 },
      { shard: 2, arrivedSecond: 14, calledAt: 3_000, count: 2 },
    ],
  );
});
