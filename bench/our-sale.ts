import { AsyncLocalStorage } from 'node:async_hooks';
import { overStore } from '../models/one-store.ts';
import { createCheckout } from '../src/checkout/checkout.ts';
import { createPostgresArbiter } from '../src/inventory/postgres.ts';
import { createSalesRecord } from '../src/orders/orders-record.ts';
import type { SalesRecord } from '../src/orders/record.ts';
import type { PaymentProvider } from '../src/payments/provider.ts';
import type { Db } from '../src/postgres/db.ts';
import type { RedisServer } from '../src/redis/server.ts';
import { systemClock } from '../src/runtime/clock.ts';
import { silentLogger } from '../src/runtime/log.ts';
import { systemRandom } from '../src/runtime/random.ts';
import { closeRedisEvent, openRedisEvent } from './arbiter-arena.ts';
import { checkSale, openSaleEvent, orderIdOf, purchaseOf } from './sale-event.ts';
import type { CountedSeller, SaleStep, StepTimes } from './sale-steps.ts';
import { benchDb } from './servers.ts';

/** Our checkout in this process, on Postgres and a partition in Redis, as the web role composes them. */
export async function openOurSale(
  url: string,
  redis: RedisServer,
  { venue, provider, money }: { venue: number; provider: PaymentProvider; money: string },
): Promise<CountedSeller> {
  const { db, calls } = counted(benchDb(url));
  const stored = await openSaleEvent(db, createPostgresArbiter({ db }), venue);
  await db.query('bench_mode', `UPDATE event_partitions SET mode = 'redis' WHERE event_no = $1`, [
    stored.event,
  ]);
  const opened = await openRedisEvent(redis, { seats: venue, stored });
  const arbiter = overStore(opened.arbiter, () => opened.epoch);
  const stepping = createStepping();
  const checkout = createCheckout({
    record: stepping.watch(createSalesRecord({ db })),
    arbiter,
    provider,
    orderIdOf,
    clock: systemClock,
    random: systemRandom,
    log: silentLogger,
    owner: 'bench',
  });

  async function buy(wanted: { buyer: number; seats: number[] }, times: StepTimes): Promise<void> {
    const { command, seats: _, order, ...bought } = purchaseOf(stored, wanted);
    const held = await times.time('hold', () => arbiter.hold(command));
    if (held.kind !== 'granted') throw new Error(`hold: ${held.kind}`);
    const reserved = await times.time('reserve', () => checkout.reserve({ hold: held.hold, ...bought }));
    if (reserved.kind !== 'order') throw new Error(`reserve: ${reserved.kind}`);
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

  return {
    buy,
    calls,
    check: (bought) => checkSale({ db, arbiter, money }, stored.event, bought),
    close: async () => {
      await closeRedisEvent(opened, redis);
      await db.close();
    },
  };
}

function counted(db: Db): { db: Db; calls: () => number } {
  let calls = 0;
  const query: Db['query'] = (...call) => {
    calls += 1;
    return db.query(...call);
  };
  return { db: { ...db, query }, calls: () => calls };
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
