import { randomUUID } from 'node:crypto';
import { openArbiters, openRedisStores, ownKeys } from '../../src/app/stores.ts';
import { createEvents } from '../../src/catalogue/events.ts';
import type { Hold } from '../../src/core/hold.ts';
import { createSalesRecord } from '../../src/orders/orders-record.ts';
import { createStripeProvider } from '../../src/payments/stripe.ts';
import { createDb } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { payCommand, reserveCommand, till } from './stage.ts';

/**
 * A process with the program's own arbiter and record that holds seats in Redis, proves its hold and then stops itself
 * (SIGSTOP) before it reserves. Takes one JSON argument; writes `held` when it has its hold, and what became of the purchase,
 * one JSON line each.
 */
interface Orders {
  database: string;
  simulator: string;
  /** The partition's own server, by its name. */
  redis: { name: string; url: string };
  event: number;
  partition: number;
  seats: number[];
}
const orders = JSON.parse(process.argv[2]!) as Orders;
const say = (line: object): void => void process.stdout.write(`${JSON.stringify(line)}\n`);

const parts = { clock: systemClock, random: systemRandom, log: silentLogger };
const db = createDb({ url: orders.database, poolSize: 3, ...parts });
const settings = await ownKeys(db, { prefix: 'onsale', servers: [orders.redis] });
const redis = openRedisStores(settings, parts);
await redis.connected();
const events = createEvents({ db, clock: systemClock });
const { arbiter } = openArbiters({ db, events, redis, reporter: 'stale', ...parts });

async function holdSeats(): Promise<Hold> {
  const visitor = `stale-${randomUUID().slice(0, 12)}`;
  const outcome = await arbiter.hold({
    event: orders.event,
    partition: orders.partition,
    hold: randomUUID(),
    visitor,
    holder: visitor,
    request: 'stale',
    claim: { kind: 'seats', seats: orders.seats },
    ttlMs: 600_000,
    seatsMax: 6,
    replaces: null,
    notAfter: null,
  });
  if (outcome.kind !== 'granted') throw new Error(`held nothing: ${outcome.kind}`);
  return outcome.hold;
}

const provider = createStripeProvider({
  secretKey: 'sk_test_simulator',
  webhookSecrets: ['whsec_simulator'],
  apiBase: orders.simulator,
  log: silentLogger,
  clock: systemClock,
});
const desk = till(orders.database, provider, {
  arbiter,
  wrap: () => {
    const record = createSalesRecord({ db });
    return {
      ...record,
      reserve: async (command) => {
        say({ proved: command.epoch });
        process.kill(process.pid, 'SIGSTOP');
        const outcome = await record.reserve(command);
        say({ reserve: outcome.kind });
        return outcome;
      },
    };
  },
});
const hold = await holdSeats();
say({ held: hold });
const reserved = await desk.checkout.reserve(reserveCommand(hold));
if (reserved.kind === 'order') {
  const paid = await desk.checkout.pay(payCommand(reserved.order.order, 'pm_card_visa'));
  say({ purchase: paid.kind });
} else {
  say({ purchase: reserved.kind });
}
await desk.close();
await redis.close();
await db.close();
