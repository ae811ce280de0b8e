import { AsyncLocalStorage } from 'node:async_hooks';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { auditEvent, eventsToAudit } from '../src/audit/audit.ts';
import { createCheckout } from '../src/checkout/checkout.ts';
import { ledgerAt } from '../src/cli/audit.ts';
import { createPostgresArbiter } from '../src/inventory/postgres.ts';
import type { PaymentProvider } from '../src/payments/provider.ts';
import { startSimulatorChild } from '../src/payments/simulator/child.ts';
import { createStripeProvider } from '../src/payments/stripe.ts';
import { systemClock } from '../src/runtime/clock.ts';
import { silentLogger } from '../src/runtime/log.ts';
import { systemRandom } from '../src/runtime/random.ts';
import { createEvents } from '../src/sales/events.ts';
import { createSalesRecord } from '../src/sales/orders-record.ts';
import type { SalesRecord } from '../src/sales/record.ts';
import { closeRedisEvent, holdCommand, openPostgresEvent, openRedisEvent } from './arbiter-arena.ts';
import { openRowByRowSale } from './baselines/row-by-row-sale.ts';
import { ownCpuMs } from './cpu-time.ts';
import { type Case, type Comparison, compare, cpuOf, cpuSpreads, interleave } from './measure.ts';
import type { Bench, BenchContext } from './run.ts';
import { createStepTimes, type SaleStep, type Seller, type StepTimes } from './sale-steps.ts';
import { benchDb, benchPool, type Servers, webPoolSize } from './servers.ts';

const house = 100_000;
const buyersAtOnce = 64;
const seatsEach = [4, 2] as const;
const secretKey = 'sk_test_bench';
const webhookSecret = 'whsec_bench';
/** Buyers before it in a run, so that compiled code and prepared statements are what is measured. */
const warmUp = 128;

const ours = (seats: number): string => `whole purchases, ${seats} seats`;
const plain = (seats: number): string => `one row a statement, ${seats} seats`;
const parts = ['clientCpuUs', 'storeCpuUs'];

const comparisons: Comparison[] = seatsEach.flatMap((seats) => [
  { case: ours(seats), baseline: plain(seats), budget: seats === seatsEach[0] ? 2 : null },
  { case: cpuOf(ours(seats)), baseline: cpuOf(plain(seats)), budget: null, atMost: true },
]);

export const bench: Bench = {
  name: 'sale',
  question:
    'What does a whole purchase cost (hold, authorise, confirm, capture), beside the same steps with a statement for each row?',
  async run(context) {
    const { servers, runs, progress } = context;
    const simulator = await openSimulator();
    const cases: Case[] = seatsEach.flatMap((seats) => [
      saleCase(ours(seats), seats, context, () => openOurSale(servers, simulator)),
      saleCase(plain(seats), seats, context, () => openPlainSale(servers, simulator.provider)),
    ]);
    try {
      const spreads = await interleave(cases, runs, progress);
      const all = [...spreads, ...cpuSpreads(spreads, parts)];
      return { spreads: all, lines: compare('sale', all, comparisons) };
    } finally {
      await simulator.stop();
    }
  },
};

/** So many buyers at once, each with fresh seats and at his next purchase when one is done. */
function saleCase(
  name: string,
  seats: number,
  { servers, seconds }: BenchContext,
  open: () => Promise<Seller>,
): Case {
  return {
    name,
    unit: 'purchases/s',
    async measure() {
      const seller = await open();
      let purchases = 0;
      const until = async (isOver: () => boolean, times: StepTimes): Promise<void> => {
        const buyer = async (): Promise<void> => {
          while (!isOver()) {
            const first = purchases * seats;
            purchases += 1;
            if (first + seats > house) throw new Error('no fresh seats are left');
            const list = Array.from({ length: seats }, (_, index) => first + index);
            await times.time('purchase', () => seller.buy({ buyer: purchases, seats: list }, times));
          }
        };
        await Promise.all(Array.from({ length: buyersAtOnce }, buyer));
      };
      try {
        await until(() => purchases >= warmUp, createStepTimes());
        const times = createStepTimes();
        const before = { purchases, client: ownCpuMs(), store: servers.postgresCpuMs() };
        const from = systemClock.monotonic();
        await until(() => systemClock.monotonic() - from >= seconds * 1_000, times);
        const elapsedMs = systemClock.monotonic() - from;
        const bought = purchases - before.purchases;
        const each = (ms: number): number => (ms / bought) * 1_000;
        await seller.check({ purchases, seatsEach: seats });
        return {
          value: (bought / elapsedMs) * 1_000,
          detail: {
            purchases: bought,
            clientCpuUs: each(ownCpuMs() - before.client),
            storeCpuUs: each(servers.postgresCpuMs() - before.store),
            ...times.detail(),
          },
        };
      } finally {
        await seller.close();
      }
    },
  };
}

/** A test card has one fingerprint whoever shows it; here each buyer has a card of his own, as buyers do. */
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

async function openPlainSale(servers: Servers, provider: PaymentProvider): Promise<Seller> {
  const pool = benchPool(await servers.postgres(), webPoolSize);
  const seller = await openRowByRowSale(pool, { seats: house, provider });
  return {
    ...seller,
    close: async () => {
      await seller.close();
      await pool.end();
    },
  };
}

/** Our checkout in this process, on Postgres and a partition in Redis, as the web role composes them. */
async function openOurSale(servers: Servers, simulator: Simulator): Promise<Seller> {
  const db = benchDb(await servers.postgres());
  const inPostgres = createPostgresArbiter({ db });
  const stored = await openPostgresEvent({ db, arbiter: inPostgres }, house);
  await db.query('bench_mode', `UPDATE event_partitions SET mode = 'redis' WHERE event_no = $1`, [
    stored.event,
  ]);
  // What the audit takes for a published event.
  await db.query('bench_published', 'UPDATE events SET seat_count = $2 WHERE event_no = $1', [
    stored.event,
    house,
  ]);
  const redis = await servers.redis();
  const opened = await openRedisEvent(redis, { seats: house, stored });
  const { arbiter, event, epoch } = opened;
  const stepping = createStepping();
  const checkout = createCheckout({
    record: stepping.watch(createSalesRecord({ db })),
    arbiter,
    provider: simulator.provider,
    // The hold's id is one buyer's own already.
    orderIdOf: (hold) => `${hold.slice(0, 14)}5${hold.slice(15)}`,
    clock: systemClock,
    random: systemRandom,
    log: silentLogger,
    owner: 'bench',
  });

  async function buy({ buyer, seats }: { buyer: number; seats: number[] }, times: StepTimes): Promise<void> {
    const command = holdCommand({ event, epoch, buyer, claim: { kind: 'seats', seats } });
    const held = await times.time('hold', () => arbiter.hold(command));
    if (held.kind !== 'granted') throw new Error(`hold: ${held.kind}`);
    const email = `buyer-${buyer}@example.org`;
    const reserved = await times.time('reserve', () =>
      checkout.reserve({
        hold: held.hold,
        lines: seats.map((seat) => ({ seat, category: 'A', kind: 'full', price: 5_000, fee: 250 })),
        orderFee: 0,
        currency: 'EUR',
        account: email,
        buyer: { name: `Buyer ${buyer}`, email },
      }),
    );
    if (reserved.kind !== 'order') throw new Error(`reserve: ${reserved.kind}`);
    const { order } = reserved.order;
    const paid = await stepping.within(times, () =>
      checkout.pay({
        order,
        clientKey: order,
        request: 'bench',
        instrument: { paymentMethod: 'pm_card_visa' },
        returnUrl: 'https://example.org/back',
      }),
    );
    if (paid.kind !== 'bought' || paid.order.state !== 'paid') throw new Error(`payment: ${paid.kind}`);
  }

  async function check(bought: { purchases: number; seatsEach: number }): Promise<void> {
    const [row] = await db.query<{ paid: number; sold: number }>(
      'bench_sold',
      `SELECT (SELECT count(*) FROM orders WHERE event_no = $1 AND state = 'paid') AS paid,
              (SELECT count(*) FROM tickets WHERE event_no = $1 AND status = 'sold') AS sold`,
      [event],
    );
    if (row!.paid !== bought.purchases || row!.sold !== bought.purchases * bought.seatsEach)
      throw new Error(`${row!.paid} orders of ${row!.sold} seats after ${bought.purchases} purchases`);
    const money = await ledgerAt(simulator.url);
    const audited = (await eventsToAudit(db, null)).find((one) => one.event === event);
    if (!money || !audited) throw new Error('nothing to audit');
    const events = createEvents({ db, clock: systemClock });
    const report = await auditEvent(
      {
        db,
        clock: systemClock,
        modes: (no) => events.modes(no),
        arbiter,
        redisHolds: null,
        numbers: null,
        money,
      },
      audited,
    );
    if (report.violations > 0) throw new Error(`promises broken: ${JSON.stringify(report.promises)}`);
  }

  return {
    buy,
    check,
    close: async () => {
      await closeRedisEvent(opened, redis);
      await db.close();
    },
  };
}

/** Which of the record's calls ends which step of a payment. */
const ends: Record<string, SaleStep> = {
  opened: 'open',
  authorised: 'authorise',
  confirm: 'confirm',
  captured: 'capture',
};

/** Times the steps inside a payment: each lasts from the end of the one before. */
function createStepping() {
  const current = new AsyncLocalStorage<(step: SaleStep) => void>();
  return {
    watch: (record: SalesRecord): SalesRecord =>
      new Proxy(record, {
        get: (target, property) => {
          const value = Reflect.get(target, property);
          const step = ends[String(property)];
          if (!step || typeof value !== 'function') return value;
          return async (...values: unknown[]) => {
            const result = await value.apply(target, values);
            current.getStore()?.(step);
            return result;
          };
        },
      }),
    within: <Result>(times: StepTimes, work: () => Promise<Result>): Promise<Result> => {
      let from = systemClock.monotonic();
      const stepDone = (step: SaleStep): void => {
        const now = systemClock.monotonic();
        times.took(step, now - from);
        from = now;
      };
      return current.run(stepDone, work);
    },
  };
}
