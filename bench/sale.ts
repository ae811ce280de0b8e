import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { startSimulatorChild } from '../payment-simulator/child.ts';
import type { PaymentProvider } from '../src/payments/provider.ts';
import { createStripeProvider } from '../src/payments/stripe.ts';
import { systemClock } from '../src/runtime/clock.ts';
import { silentLogger } from '../src/runtime/log.ts';
import { openRowByRowSale } from './baselines/row-by-row-sale.ts';
import { openSameStepsSale, sameStepsSettings } from './baselines/same-steps-sale.ts';
import { ownCpuMs } from './cpu-time.ts';
import { type Case, type Comparison, compare, cpuOf, cpuSpreads, interleave } from './measure.ts';
import { openOurSale } from './our-sale.ts';
import type { Bench, BenchContext } from './run.ts';
import { type CountedSeller, createStepTimes, type StepTimes } from './sale-steps.ts';
import { benchDb, benchPool, countCalls, webPoolSize } from './servers.ts';

const venue = 100_000;
const buyersAtOnce = 64;
const seatsEach = [4, 2] as const;
const secretKey = 'sk_test_bench';
const webhookSecret = 'whsec_bench';
/**
 * Purchases before the measured ones, the same number for all. Each session of the pool prepares each
 * statement for itself. When it first calls one of our functions, it also plans the statements in that
 * function, which costs more than the call. After some forty purchases a session has done all this, even if a
 * client has a hundred statements to prepare.
 */
const warmUp = 1_000;

const ours = (seats: number): string => `whole purchases, ${seats} seats`;
const same = (seats: number): string => `same steps, one row a statement, ${seats} seats`;
/** Another shop: without repeats by key, limits, quotas, deadlines, epochs, phases, jobs, and with less history. Not our steps. */
const plain = (seats: number): string => `plain shop with fewer steps, ${seats} seats`;
const parts = ['clientCpuUs', 'storeCpuUs'];

const comparisons: Comparison[] = seatsEach.flatMap((seats) =>
  [same, plain].flatMap((baseline) => [
    {
      case: ours(seats),
      baseline: baseline(seats),
      budget: baseline === same && seats === seatsEach[0] ? 2 : null,
    },
    { case: cpuOf(ours(seats)), baseline: cpuOf(baseline(seats)), budget: null, atMost: true },
  ]),
);

export const bench: Bench = {
  name: 'sale',
  question:
    'What does a whole purchase cost (hold, authorise, confirm, capture), beside the same steps with a statement for each row?',
  async run(context) {
    const { servers, runs, progress } = context;
    const simulator = await openSimulator();
    const sale = { venue, provider: simulator.provider, money: simulator.url };
    const cases: Case[] = seatsEach.flatMap((seats) => [
      saleCase(ours(seats), seats, context, async (url) => openOurSale(url, await servers.redis(), sale)),
      saleCase(same(seats), seats, context, (url) => openSameSteps(url, sale)),
      saleCase(plain(seats), seats, context, (url) => openPlainSale(url, sale)),
    ]);
    const chosen = cases.filter(({ name }) => name.includes(context.only));
    try {
      const spreads = await interleave(chosen, runs, progress);
      const all = [...spreads, ...cpuSpreads(spreads, parts)];
      const measured = new Set(all.map(({ case: name }) => name));
      const known = comparisons.filter(
        ({ case: name, baseline }) =>
          measured.has(name) && [baseline].flat().every((one) => measured.has(one)),
      );
      return { spreads: all, lines: compare('sale', all, known) };
    } finally {
      await simulator.stop();
    }
  },
};

/** `buyersAtOnce` buyers at the same time, each making one purchase after another with fresh seats. */
function saleCase(
  name: string,
  seats: number,
  { servers, seconds }: BenchContext,
  open: (url: string) => Promise<CountedSeller>,
): Case {
  return {
    name,
    unit: 'purchases/s',
    async measure() {
      const { url, drop } = await servers.ownDatabase();
      const seller = await open(url);
      let purchases = 0;
      const until = async (isOver: () => boolean, times: StepTimes): Promise<void> => {
        const buyer = async (): Promise<void> => {
          while (!isOver()) {
            const first = purchases * seats;
            purchases += 1;
            if (first + seats > venue) throw new Error('no fresh seats are left');
            const list = Array.from({ length: seats }, (_, index) => first + index);
            await times.time('purchase', () => seller.buy({ buyer: purchases, seats: list }, times));
          }
        };
        await Promise.all(Array.from({ length: buyersAtOnce }, buyer));
      };
      try {
        await until(() => purchases >= warmUp, createStepTimes());
        const times = createStepTimes();
        const used = () => ({
          calls: seller.calls(),
          client: ownCpuMs(),
          // Redis has no part in the baselines.
          store: servers.postgresCpuMs() + servers.redisCpuMs(),
        });
        const before = { purchases, at: systemClock.monotonic(), ...used() };
        await until(() => systemClock.monotonic() - before.at >= seconds * 1_000, times);
        const elapsedMs = systemClock.monotonic() - before.at;
        // Before the check: an audit's work is no purchase's.
        const after = used();
        const bought = purchases - before.purchases;
        const each = (ms: number): number => (ms / bought) * 1_000;
        await seller.check({ purchases, seatsEach: seats });
        return {
          value: (bought / elapsedMs) * 1_000,
          detail: {
            purchases: bought,
            callsEach: (after.calls - before.calls) / bought,
            clientCpuUs: each(after.client - before.client),
            storeCpuUs: each(after.store - before.store),
            ...times.detail(),
          },
        };
      } finally {
        await seller.close();
        await drop();
      }
    },
  };
}

/** A test card has one fingerprint for all buyers; here each buyer has a separate card, as in reality. */
function cardsOfTheirOwn(provider: PaymentProvider): PaymentProvider {
  return {
    ...provider,
    async authorise(command) {
      const answer = await provider.authorise(command);
      const card = 'view' in answer ? answer.view?.instrument : null;
      if (card) card.fingerprint = `${card.fingerprint}-${command.object}`;
      return answer;
    },
  };
}

interface Simulator {
  url: string;
  provider: PaymentProvider;
  stop(): Promise<void>;
}

/** The payment simulator as the process that it is, its ledger synced. */
async function openSimulator(): Promise<Simulator> {
  const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-bench-payments-'));
  const child = await startSimulatorChild({
    dataDir,
    host: '127.0.0.1',
    secretKey,
    publishableKey: 'pk_test_bench',
    webhookSecret,
    clock: systemClock,
    log: silentLogger,
  });
  const provider = createStripeProvider({
    secretKey,
    webhookSecrets: [webhookSecret],
    apiBase: child.url,
    timeoutMs: 60_000,
    log: silentLogger,
    clock: systemClock,
  });
  return {
    url: child.url,
    provider: cardsOfTheirOwn(provider),
    stop: async () => {
      await child.stop();
      fs.rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

interface Sale {
  venue: number;
  provider: PaymentProvider;
  /** The simulator's address, for its ledger. */
  money: string;
}

async function openSameSteps(url: string, sale: Sale): Promise<CountedSeller> {
  const pool = benchPool(url, webPoolSize, sameStepsSettings);
  const calls = countCalls(pool);
  const db = benchDb(url, 1);
  const seller = await openSameStepsSale(pool, { db, ...sale });
  const close = async () => {
    await seller.close();
    await pool.end();
    await db.close();
  };
  return { ...seller, calls, close };
}

async function openPlainSale(url: string, { venue, provider }: Sale): Promise<CountedSeller> {
  const pool = benchPool(url, webPoolSize);
  const calls = countCalls(pool);
  const seller = await openRowByRowSale(pool, { seats: venue, provider });
  const close = async () => {
    await seller.close();
    await pool.end();
  };
  return { ...seller, calls, close };
}
