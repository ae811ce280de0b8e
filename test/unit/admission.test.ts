import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import {
  type AdmissionObserved,
  type AdmissionSettings,
  admissionSettingsDefault,
  admissionStart,
  arbiterCeilingOf,
  decideAdmission,
  type PartitionStanding,
  postgresArbiterCeiling,
  redisArbiterCeiling,
} from '../../src/core/admission.ts';
import { seededRandom } from '../../src/runtime/random.ts';
import { runSale, type SaleOptions } from './admission-sale.ts';

const settings = admissionSettingsDefault;
/** The arithmetic's own example: 40 % buy, and hold, one seat each. */
const stadium: AdmissionSettings = {
  ...settings,
  priors: { holdShare: 0.4, conversion: 0.4, seatsPerHold: 1, noShow: 0, weight: 50 },
};

const calm: AdmissionObserved = {
  elapsedMs: 1_000,
  open: true,
  seats: { total: 50_000, free: 50_000, held: 0, reserved: 0 },
  waiting: 500_000,
  pending: 0,
  opened: [],
  lookers: [],
  settled: { sessions: 0, buyers: 0 },
  holds: { count: 0, seats: 0 },
  called: { due: 0, came: 0 },
  path: null,
  operatorCeiling: null,
  arbiterCeiling: 1_000,
  provider: null,
};
const decide = (changed: Partial<AdmissionObserved>, by: AdmissionSettings = settings) =>
  decideAdmission(admissionStart(by), { ...calm, ...changed }, by);

const count = (max: number) => fc.integer({ min: 0, max });
const observed: fc.Arbitrary<AdmissionObserved> = fc
  .record({
    elapsedMs: count(60_000),
    open: fc.boolean(),
    free: count(60_000),
    held: count(5_000),
    reserved: count(5_000),
    sold: count(60_000),
    waiting: count(1_000_000),
    pending: count(10_000),
    ages: fc.array(fc.tuple(count(3_000), count(3_000)), { maxLength: 30 }),
    sessions: count(10_000),
    share: fc.double({ min: 0, max: 1, noNaN: true }),
    seatsEach: count(8),
    path: fc.option(
      fc.record({ latencyP95Ms: count(10_000), errorShare: fc.double({ min: 0, max: 1, noNaN: true }) }),
    ),
    operatorCeiling: fc.option(fc.double({ min: 0, max: 2_000, noNaN: true })),
    provider: fc.option(
      fc.record({ callsPerSecond: fc.integer({ min: 1, max: 2_000 }), isRefusing: fc.boolean() }),
    ),
    arbiterCeiling: fc.double({ min: 1, max: 5_000, noNaN: true }),
  })
  .map(({ free, held, reserved, sold, ages, sessions, share, seatsEach, ...rest }) => ({
    ...rest,
    seats: { total: free + held + reserved + sold, free, held, reserved },
    lookers: ages.map(([looking]) => looking),
    opened: ages.map(([looking, holding]) => looking + holding),
    settled: { sessions, buyers: Math.floor((sessions * share) / 2) },
    holds: { count: Math.floor(sessions * share), seats: Math.floor(sessions * share) * seatsEach },
    called: { due: sessions, came: Math.floor(sessions * share) },
  }));
const states = fc.record({
  carry: fc.double({ min: 0, max: 1, noNaN: true }),
  noShow: fc.double({ min: 0, max: 0.95, noNaN: true }),
  pathCeiling: fc.option(fc.double({ min: 1, max: 5_000, noNaN: true })),
  providerShare: fc.double({ min: 0.05, max: 1, noNaN: true }),
});

test('every decision is finite, whole in numbers, within the line and the ceilings', () => {
  fc.assert(
    fc.property(states, observed, (state, seen) => {
      const { rate, burst, advance, state: next, estimates } = decideAdmission(state, seen, settings);
      for (const value of [
        rate,
        burst,
        next.carry,
        next.noShow,
        next.pathCeiling,
        next.providerShare,
        ...Object.values(estimates),
      ]) {
        assert.ok(Number.isFinite(value) && value! >= 0, `${value}`);
      }
      assert.ok(
        Number.isInteger(advance) && advance >= 0 && advance <= seen.waiting,
        'forward, within the line',
      );
      assert.ok(rate <= Math.min(seen.arbiterCeiling, seen.operatorCeiling ?? Infinity));
      assert.ok(burst <= Math.max(1, 2 * rate));
      assert.ok(next.pathCeiling! <= seen.arbiterCeiling);
    }),
    { numRuns: 2_000 },
  );
});

test('W5: no visitor is admitted when nothing is left to find, or when the sale is not open', () => {
  fc.assert(
    fc.property(states, observed, fc.boolean(), (state, seen, closed) => {
      const none = closed
        ? { ...seen, open: false }
        : { ...seen, seats: { ...seen.seats, free: 0, held: 0, reserved: 0 } };
      const { rate, burst, advance } = decideAdmission(state, none, settings);
      assert.deepEqual({ rate, burst, advance }, { rate: 0, burst: 0, advance: 0 });
    }),
  );
  assert.equal(decide({ seats: { total: 9, free: 0, held: 0, reserved: 0 } }).reason, 'nothing_left');
  assert.equal(decide({ open: false }).reason, 'not_open');
});

test('the bound: those called, those inside and those let in now do not want more seats than are free', () => {
  fc.assert(
    fc.property(states, observed, (state, seen) => {
      fc.pre(seen.open && seen.seats.free > 100);
      const { advance, estimates } = decideAdmission(state, seen, settings);
      fc.pre(advance > 0);
      // All undecided sessions of the last half minute counted nearly in full, as a lower bound of what is still wanted.
      const { holdShare, seatsPerHold, noShow } = estimates;
      const coming = (advance / Math.min(2, 1 / (1 - noShow)) + seen.pending * (1 - noShow)) * holdShare;
      const aged = holdShare * Math.exp(-15 / 60);
      const young = (seen.lookers[0] ?? 0) * (aged / (aged + 1 - holdShare));
      assert.ok(
        (coming + young) * seatsPerHold <= seen.seats.free * 1.0001,
        `${coming} ${young} ${seatsPerHold}`,
      );
    }),
    { numRuns: 2_000 },
  );
});

test('while the last seats are only in baskets few are let in', () => {
  const few = decide({ seats: { total: 500, free: 0, held: 60, reserved: 40 } });
  assert.equal(few.reason, 'last_seats');
  assert.ok(few.advance >= 1 && few.advance <= 20, `${few.advance}`);
  assert.ok(few.burst <= 20);
  const inside = decide({
    seats: { total: 500, free: 0, held: 60, reserved: 40 },
    opened: [30],
    lookers: [30],
  });
  assert.deepEqual([inside.advance, inside.rate, inside.reason], [0, 0, 'last_seats']);
});

test('50,000 seats, 40 % who buy one seat, holds of 600 s: 208 a second', () => {
  const { rate, advance, reason } = decide({}, stadium);
  assert.ok(Math.abs(rate - 208.3) < 0.1, `${rate}`);
  assert.equal(advance, 208);
  assert.equal(reason, 'paced');
});

test('with no crowd everybody is called at once, and the bucket lets them all through', () => {
  for (const [seats, waiting] of [
    [500, 1],
    [500, 40],
    [500, 250],
    [50_000, 500],
  ] as const) {
    const decision = decide({ seats: { total: seats, free: seats, held: 0, reserved: 0 }, waiting });
    assert.equal(decision.reason, 'everybody');
    assert.equal(decision.advance, waiting);
    assert.ok(decision.rate * 2 >= waiting, `${waiting} within two seconds at ${decision.rate}/s`);
  }
  const nobody = decide({ waiting: 0 });
  assert.equal(nobody.advance, 0);
  assert.ok(nobody.rate > 100, 'whoever comes next finds the door open');
});

test('more people who hold, or more seats each, make the rate smaller', () => {
  const seen = (holders: number, seatsEach: number, buyers: number) =>
    decide({
      opened: [0, 0, 0, 0, 0, 0, 0, 0, 0, 2_000],
      lookers: [0, 0, 0, 0, 0, 0, 0, 0, 0, 2_000 - holders],
      settled: { sessions: 2_000, buyers },
      holds: { count: holders, seats: holders * seatsEach },
    }).rate;
  assert.ok(seen(400, 2, 300) > seen(1_000, 2, 800) * 1.5);
  assert.ok(seen(1_000, 2, 800) > seen(1_000, 4, 800) * 1.5);
});

test('no-shows make more numbers be called, at most twice as many, and leave the rate of passes alone', () => {
  const called = (share: number) => {
    let state = admissionStart(settings);
    let decision = decideAdmission(state, calm, settings);
    for (let second = 0; second < 120; second++) {
      const due = 1_000;
      decision = decideAdmission(state, { ...calm, called: { due, came: due * (1 - share) } }, settings);
      state = decision.state;
    }
    return decision;
  };
  const [none, third, most] = [called(0), called(1 / 3), called(0.9)];
  assert.ok(Math.abs(none.estimates.noShow) < 0.01);
  assert.ok(Math.abs(third.estimates.noShow - 1 / 3) < 0.02);
  assert.equal(third.rate, none.rate);
  assert.ok(Math.abs(third.advance / none.advance - 1.5) < 0.08, `${third.advance} ${none.advance}`);
  assert.ok(most.advance <= none.advance * 2 + 1);
});

test('a struggling purchase path cuts the rate at once, health gives it back slowly', () => {
  let state = admissionStart(settings);
  const run = (seconds: number, path: AdmissionObserved['path']) => {
    let rate = 0;
    for (let second = 0; second < seconds; second++) {
      const decision = decideAdmission(state, { ...calm, arbiterCeiling: 100, path }, settings);
      ({ rate, state } = { rate: decision.rate, state: decision.state });
    }
    return rate;
  };
  const healthy = { latencyP95Ms: 80, errorShare: 0 };
  const before = run(5, healthy);
  assert.equal(before, 100);
  assert.ok(run(3, { latencyP95Ms: 4_000, errorShare: 0 }) <= 35);
  assert.ok(run(60, { latencyP95Ms: 80, errorShare: 0.5 }) === 1, 'never to a standstill');
  assert.ok(run(10, healthy) <= 22);
  assert.equal(run(60, healthy), 100);
});

test('no more buyers are admitted than the provider takes purchases; refused calls cut the rate at once, and it comes back slowly', () => {
  const limit = (callsPerSecond: number, isRefusing = false) => ({ callsPerSecond, isRefusing });
  // 100 calls are 25 purchases; four in ten sessions buy.
  const usual = decide({ provider: limit(100), arbiterCeiling: 1_200 });
  assert.equal(usual.reason, 'provider');
  assert.ok(Math.abs(usual.rate - 25 / usual.estimates.conversion) < 1e-9, String(usual.rate));
  assert.equal(decide({ provider: limit(100_000) }).reason, 'paced');
  let state = admissionStart(settings);
  const run = (seconds: number, isRefusing: boolean): number => {
    let rate = 0;
    for (let second = 0; second < seconds; second += 1) {
      const decision = decideAdmission(state, { ...calm, provider: limit(100, isRefusing) }, settings);
      ({ state, rate } = decision);
    }
    return rate;
  };
  const before = run(5, false);
  assert.ok(run(3, true) <= before * 0.35);
  assert.ok(run(60, true) > 0, 'never to a standstill');
  assert.ok(run(10, false) <= before * 0.3, 'not at once again');
  assert.equal(run(60, false), before);
});

test('the operator’s ceiling is never exceeded, and 0 admits no visitor', () => {
  assert.equal(decide({ operatorCeiling: 5 }).rate, 5);
  assert.equal(decide({ operatorCeiling: 5 }).reason, 'operator');
  const none = decide({ operatorCeiling: 0 });
  assert.deepEqual([none.rate, none.burst, none.advance], [0, 0, 0]);
});

const sale = (changed: Partial<SaleOptions>) =>
  runSale({
    random: seededRandom(11),
    settings,
    seats: 500,
    crowd: 5_000,
    holdShare: 0.5,
    buyShare: 0.8,
    seatsPerHold: 2,
    noShow: 0.1,
    maxSeconds: 7_200,
    ...changed,
  });

test('a stadium sells out at the arithmetic’s rate while few who are let in find nothing', () => {
  const seconds = sale({
    seats: 50_000,
    crowd: 400_000,
    settings: stadium,
    holdShare: 0.44,
    buyShare: 0.9,
    seatsPerHold: 1,
    noShow: 0.25,
  });
  const last = seconds.at(-1)!;
  assert.equal(last.sold, 50_000);
  const steady = seconds.slice(30, 300);
  const mean = steady.reduce((sum, one) => sum + one.passes, 0) / steady.length;
  assert.ok(mean > 180 && mean < 230, `${mean} passes a second`);
  const nearly = seconds.find((one) => one.sold >= 49_500)!;
  assert.ok(nearly.second < 1_800, `99 % sold after ${nearly.second} s`);
  const overbooked = seconds.filter((one) => one.intending > one.free + 50);
  assert.ok(overbooked.length < 60, `${overbooked.length} s with more people about to hold than seats`);
});

test('a small venue with a crowd sells out without stalling', () => {
  for (const changed of [
    {},
    { noShow: 0.5 },
    { holdShare: 0.9, buyShare: 0.95 },
    { holdShare: 0.1, crowd: 20_000 },
    // Each time round 70 % of the holds lapse, ten minutes later: slow by nature, not a stall.
    { buyShare: 0.3, crowd: 50_000, maxSeconds: 20_000 },
    { seatsPerHold: 4 },
    { decideSeconds: 150, crowd: 20_000 },
  ]) {
    const seconds = sale(changed);
    const last = seconds.at(-1)!;
    assert.equal(last.sold, 500, `${JSON.stringify(changed)}: ${last.sold} sold, ${last.waiting} waiting`);
    // A stall: seats are free and people wait, but no visitor is admitted for minutes.
    let quiet = 0;
    for (const one of seconds) {
      quiet = one.free > 0 && one.waiting > 0 && one.passes === 0 ? quiet + 1 : 0;
      assert.ok(
        quiet < 180,
        `${JSON.stringify(changed)}: nobody was let in for ${quiet} s at ${one.second} s`,
      );
    }
  }
});

test('a demo without a crowd lets each in within two seconds of joining', () => {
  const seconds = sale({ crowd: 0, joinsPerSecond: 2, noShow: 0, maxSeconds: 120 });
  for (const one of seconds) assert.equal(one.waiting, 0, `second ${one.second}`);
});

test('W6: in a whole sale the frontier only moves forward and never past the last number', () => {
  fc.assert(
    fc.property(
      fc.integer(),
      fc.integer({ min: 10, max: 800 }),
      fc.integer({ min: 0, max: 2_000 }),
      (seed, seats, crowd) => {
        const seconds = sale({
          random: seededRandom(seed),
          seats,
          crowd,
          joinsPerSecond: 3,
          maxSeconds: 600,
        });
        let before = 0;
        for (const { frontier, waiting } of seconds) {
          assert.ok(frontier >= before && waiting >= 0);
          before = frontier;
        }
      },
    ),
    { numRuns: 20 },
  );
});

test('D1: the ceiling is what the weakest arbiter of an event serves, and nothing while all are in grace', () => {
  const now = 1_000_000;
  const standing = (change: Partial<PartitionStanding>): PartitionStanding => ({
    redis: true,
    mode: 'redis',
    graceUntil: null,
    ...change,
  });
  const well = standing({});
  const lost = standing({ mode: 'postgres', graceUntil: now + 1 });
  const degraded = standing({ mode: 'postgres', graceUntil: now });
  assert.equal(arbiterCeilingOf([well, well], now), redisArbiterCeiling);
  assert.equal(arbiterCeilingOf([well, degraded], now), postgresArbiterCeiling);
  assert.equal(arbiterCeilingOf([well, standing({ mode: 'moving' })], now), postgresArbiterCeiling);
  assert.equal(arbiterCeilingOf([well, lost], now), postgresArbiterCeiling, 'one can still be bought in');
  assert.equal(arbiterCeilingOf([lost, lost], now), 0);
  assert.equal(arbiterCeilingOf([lost, degraded], now), postgresArbiterCeiling);
  assert.equal(arbiterCeilingOf([standing({ redis: false, mode: 'postgres' })], now), postgresArbiterCeiling);
  assert.equal(arbiterCeilingOf([], now), postgresArbiterCeiling);
});

test('D1: in grace no visitor is called and no pass leaves; afterwards the path is trusted as before', () => {
  const before = decide({});
  assert.ok(before.rate > 0 && before.advance > 0);
  const inGrace = decideAdmission(before.state, { ...calm, arbiterCeiling: 0 }, settings);
  assert.deepEqual([inGrace.rate, inGrace.burst, inGrace.advance, inGrace.reason], [0, 0, 0, 'grace']);
  const few = decideAdmission(before.state, { ...calm, arbiterCeiling: 0, waiting: 1 }, settings);
  assert.equal(few.advance, 0, 'not even a short line');
  const after = decideAdmission(inGrace.state, calm, settings);
  assert.equal(after.rate, before.rate);
});
