import type { SalesRecord } from '../../src/orders/record.ts';
import type { PaymentProvider } from '../../src/payments/provider.ts';
import { createStripeProvider } from '../../src/payments/stripe.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { holdOf, payCommand, reserveCommand, till } from './stage.ts';

/**
 * A process that buys one seat and kills itself (-9) at a named point: `before:` or `after:` a call of the record or the
 * provider, such as `after:provider.authorise`. Takes one JSON argument; writes the order's id as its first line.
 */
interface Orders {
  database: string;
  simulator: string;
  event: number;
  epoch: number;
  seat: number;
  card: string;
  at: string;
  lost: boolean;
}
const orders = JSON.parse(process.argv[2]!) as Orders;

function die(): Promise<never> {
  process.kill(process.pid, 'SIGKILL');
  return new Promise(() => {});
}

/** Wraps an object so that its calls can die at a chosen point. */
function dying<Part extends object>(part: Part, name: string): Part {
  return new Proxy(part, {
    get: (target, property) => {
      const value = Reflect.get(target, property);
      if (typeof value !== 'function') return value;
      return async (...values: unknown[]) => {
        if (orders.at === `before:${name}.${String(property)}`) return die();
        const result = await value.apply(target, values);
        return orders.at === `after:${name}.${String(property)}` ? die() : result;
      };
    },
  });
}

const provider = createStripeProvider({
  secretKey: 'sk_test_simulator',
  webhookSecrets: ['whsec_simulator'],
  apiBase: orders.simulator,
  log: silentLogger,
  clock: systemClock,
});
const desk = till(orders.database, dying<PaymentProvider>(provider, 'provider'), {
  wrap: (record) => dying<SalesRecord>(record, 'record'),
});
const hold = holdOf(orders, `dying-${orders.seat}`, [orders.seat]);
const reserved = await desk.checkout.reserve(reserveCommand(hold));
if (reserved.kind !== 'order') throw new Error(reserved.kind);
process.stdout.write(`${reserved.order.order}\n`);
if (orders.lost)
  await desk.db.query('lose', `UPDATE tickets SET status = 'cancelled' WHERE order_id = $1`, [
    reserved.order.order,
  ]);
await desk.checkout.pay(payCommand(reserved.order.order, orders.card));
await desk.close();
