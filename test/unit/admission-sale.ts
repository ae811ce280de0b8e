import {
  type AdmissionDecision,
  type AdmissionObserved,
  type AdmissionSettings,
  admissionStart,
  decideAdmission,
} from '../../src/core/admission.ts';
import type { Random } from '../../src/runtime/random.ts';

/** A whole sale in memory, second by second, with buyers who behave as told: what the controller's decisions lead to. */
export interface SaleOptions {
  random: Random;
  settings: AdmissionSettings;
  seats: number;
  /** Everybody in line at the opening; more may join each second. */
  crowd: number;
  joinsPerSecond?: number;
  /** Share of admitted visitors who hold. `buyShare` of the holds are paid, the others expire. */
  holdShare: number;
  buyShare: number;
  seatsPerHold: number;
  noShow: number;
  /** Seconds from pass to hold, on average. */
  decideSeconds?: number;
  arbiterCeiling?: number;
  operatorCeiling?: number | null;
  maxSeconds: number;
  path?: (second: number) => { latencyP95Ms: number; errorShare: number } | null;
}

export interface SaleSecond {
  second: number;
  decision: AdmissionDecision;
  passes: number;
  free: number;
  held: number;
  sold: number;
  waiting: number;
  frontier: number;
  /** People inside without a hold who will still ask for one. */
  intending: number;
}

const sessionSeconds = 900;
const paySeconds = 150;
const graceSeconds = 60;
const windowSeconds = 120;
const settledSeconds = 480;

/** Counts by second; what was never counted is 0. */
function createTally() {
  const counts: number[] = [];
  return {
    add: (second: number, count = 1): void => {
      counts[second] = (counts[second] ?? 0) + count;
    },
    at: (second: number): number => counts[second] ?? 0,
    /** Over [from, to). */
    sum: (from: number, to: number): number => {
      let total = 0;
      for (let second = Math.max(0, from); second < to; second++) total += counts[second] ?? 0;
      return total;
    },
  };
}

export function runSale(options: SaleOptions): SaleSecond[] {
  const { random, settings, seats, seatsPerHold, decideSeconds = 60 } = options;
  const chance = (share: number): boolean => random.int(1_000_000) < share * 1_000_000;
  const delay = (mean: number): number => Math.ceil(-Math.log(1 - random.int(999_999) / 1_000_000) * mean);
  const tallies = { arrivals: createTally(), called: createTally(), came: createTally() };
  /** Per second of the pass: issued, still without a hold, bought. */
  const passed = { all: createTally(), without: createTally(), bought: createTally() };
  const wishes = new Map<number, { passAt: number }[]>();
  const ends = new Map<number, { passAt: number; seats: number; pays: boolean }[]>();
  const push = <One>(map: Map<number, One[]>, second: number, one: One): void => {
    map.set(second, [...(map.get(second) ?? []), one]);
  };
  const totals = { holds: 0, seats: 0 };
  const seconds: SaleSecond[] = [];
  let state = admissionStart(settings);
  let [free, held, sold, last, frontier] = [seats, 0, 0, options.crowd, 0];
  let [tokens, door, intending] = [0, 0, 0];

  function observe(second: number): AdmissionObserved {
    const graced = second - graceSeconds + 1;
    const byAge = (tally: typeof passed.all): number[] =>
      Array.from({ length: sessionSeconds / 30 }, (_, index) =>
        tally.sum(second - index * 30 - 29, second - index * 30 + 1),
      );
    return {
      elapsedMs: 1_000,
      open: true,
      seats: { total: seats, free, held, reserved: 0 },
      waiting: last - frontier,
      pending: Math.max(0, tallies.called.sum(graced, second) - tallies.came.sum(graced, second)),
      opened: byAge(passed.all),
      lookers: byAge(passed.without),
      settled: {
        sessions: passed.all.sum(second - sessionSeconds, second - settledSeconds),
        buyers: passed.bought.sum(second - sessionSeconds, second - settledSeconds),
      },
      holds: { count: totals.holds, seats: totals.seats },
      called: {
        due: tallies.called.sum(graced - windowSeconds, graced),
        came: tallies.came.sum(graced - windowSeconds, graced),
      },
      path: options.path?.(second) ?? null,
      operatorCeiling: options.operatorCeiling ?? null,
      provider: null,
      arbiterCeiling: options.arbiterCeiling ?? 1_000,
    };
  }

  function call(second: number, count: number): void {
    frontier += count;
    tallies.called.add(second, count);
    for (let n = 0; n < count; n++) {
      if (chance(options.noShow)) continue;
      tallies.arrivals.add(second + 1 + random.int(8));
      tallies.came.add(second);
    }
  }

  function letIn(second: number, decision: AdmissionDecision): number {
    tokens = Math.min(decision.burst, tokens + decision.rate);
    door += tallies.arrivals.at(second);
    const passes = Math.min(door, Math.floor(tokens));
    door -= passes;
    tokens -= passes;
    passed.all.add(second, passes);
    passed.without.add(second, passes);
    for (let n = 0; n < passes; n++) {
      if (!chance(options.holdShare)) continue;
      intending += 1;
      push(wishes, second + delay(decideSeconds), { passAt: second });
    }
    return passes;
  }

  function hold(second: number): void {
    for (const { passAt } of wishes.get(second) ?? []) {
      intending -= 1;
      if (second - passAt >= sessionSeconds || free < 1) continue;
      const take = Math.min(free, seatsPerHold);
      free -= take;
      held += take;
      totals.holds += 1;
      totals.seats += take;
      passed.without.add(passAt, -1);
      const pays = chance(options.buyShare);
      push(ends, second + (pays ? paySeconds : settings.holdMs / 1000), { passAt, seats: take, pays });
    }
    wishes.delete(second);
  }

  function end(second: number): void {
    for (const one of ends.get(second) ?? []) {
      held -= one.seats;
      if (one.pays) {
        sold += one.seats;
        passed.bought.add(one.passAt);
      } else free += one.seats;
    }
    ends.delete(second);
  }

  for (let second = 0; second < options.maxSeconds && sold < seats; second++) {
    last += options.joinsPerSecond ?? 0;
    const decision = decideAdmission(state, observe(second), settings);
    state = decision.state;
    call(second, decision.advance);
    const passes = letIn(second, decision);
    hold(second);
    end(second);
    seconds.push({
      second,
      decision,
      passes,
      free,
      held,
      sold,
      waiting: last - frontier,
      frontier,
      intending,
    });
  }
  return seconds;
}
