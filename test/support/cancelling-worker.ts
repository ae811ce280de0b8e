import { createCancelEvent } from '../../src/checkout/cancel-event.ts';
import { createCheckout } from '../../src/checkout/checkout.ts';
import { createReconciler } from '../../src/checkout/reconcile.ts';
import { createRefunds } from '../../src/checkout/refunds.ts';
import { createReversals } from '../../src/checkout/reversals.ts';
import { createCancellationRecord } from '../../src/orders/cancellations.ts';
import { createSalesRecord } from '../../src/orders/orders-record.ts';
import { createRefundRecord } from '../../src/orders/refunds.ts';
import { createStripeProvider } from '../../src/payments/stripe.ts';
import { createDb } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { testLoops } from './loops.ts';

/**
 * A process that carries the cancelling of events on, with the reconciler that gives the money back, until it is killed. Takes
 * one JSON argument; says `ready` when it runs. No more than that is imported: it is started again and again.
 */
interface Orders {
  database: string;
  simulator: string;
  owner: string;
}
const { database, simulator, owner } = JSON.parse(process.argv[2]!) as Orders;
const runtime = { clock: systemClock, random: systemRandom, log: silentLogger, owner };
const provider = createStripeProvider({
  ...runtime,
  secretKey: 'sk_test_simulator',
  webhookSecrets: ['whsec_simulator'],
  apiBase: simulator,
});
const db = createDb({ ...runtime, url: database, poolSize: 10 });
const record = createSalesRecord({ db });
const refundRecord = createRefundRecord({ db });
const arbiter = {
  project: async () => true,
  hold: () => Promise.reject(new Error('nobody holds a seat of a cancelled event')),
  extend: () => Promise.reject(new Error('nobody buys a seat of a cancelled event')),
  release: () => Promise.reject(new Error('no hold is left')),
};
const reversals = createReversals({ ...runtime, db, provider });
const refunds = createRefunds({
  ...runtime,
  record: refundRecord,
  orders: record,
  reversals,
  provider,
  arbiter,
});
const checkout = createCheckout({
  ...runtime,
  record,
  arbiter,
  provider,
  refunds,
  orderIdOf: (hold) => hold,
});
const cancelEvent = createCancelEvent({
  ...runtime,
  record: createCancellationRecord({ db }),
  refunds,
  arbiter,
  redisHolds: null,
  modes: async () => [],
});
const loops = testLoops();
cancelEvent.start(loops);
createReconciler({ ...runtime, record, checkout }).start(loops);
process.stdout.write('ready\n');
