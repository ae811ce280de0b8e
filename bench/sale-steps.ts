import { systemClock } from '../src/runtime/clock.ts';
import { quantile } from './measure.ts';

/** The steps of a purchase, as both sides of the bench take them. */
export const saleSteps = ['hold', 'reserve', 'open', 'authorise', 'confirm', 'capture'] as const;
export type SaleStep = (typeof saleSteps)[number] | 'purchase';

/** How long each step took, by purchase. */
export interface StepTimes {
  time<Result>(step: SaleStep, work: () => Promise<Result>): Promise<Result>;
  took(step: SaleStep, ms: number): void;
  /** Median and 99th percentile of each step and of whole purchases, ms. */
  detail(): Record<string, number>;
}

export function createStepTimes(): StepTimes {
  const taken = new Map<SaleStep, number[]>();
  const took: StepTimes['took'] = (step, ms) => {
    const list = taken.get(step) ?? [];
    list.push(ms);
    taken.set(step, list);
  };
  return {
    took,
    async time(step, work) {
      const from = systemClock.monotonic();
      const result = await work();
      took(step, systemClock.monotonic() - from);
      return result;
    },
    detail: () =>
      Object.fromEntries(
        [...taken].flatMap(([step, list]) => [
          [`${step}P50Ms`, quantile(list, 0.5)],
          [`${step}P99Ms`, quantile(list, 0.99)],
        ]),
      ),
  };
}

/** Buys seats from beginning to end; throws if a purchase does not end in a sale. */
export interface Seller {
  buy(purchase: { buyer: number; seats: number[] }, times: StepTimes): Promise<void>;
  /** Throws when a promise was broken in what was bought so far: `purchases` of `seatsEach`. */
  check(bought: { purchases: number; seatsEach: number }): Promise<void>;
  close(): Promise<void>;
}

/** One whose calls to Postgres are counted: statements and, where it sends any, each BEGIN and COMMIT. */
export interface CountedSeller extends Seller {
  /** So far. */
  calls(): number;
}
