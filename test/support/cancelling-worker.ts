import { createStripeProvider } from '../../src/payments/stripe.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { refundDesk } from './refund-desk.ts';

/**
 * A process that carries the cancelling of events on, with the reconciler that gives the money back, until it is killed. Takes
 * one JSON argument; says `ready` when it runs.
 */
interface Orders {
  database: string;
  simulator: string;
  owner: string;
}
const { database, simulator, owner } = JSON.parse(process.argv[2]!) as Orders;
const provider = createStripeProvider({
  secretKey: 'sk_test_simulator',
  webhookSecrets: ['whsec_simulator'],
  apiBase: simulator,
  log: silentLogger,
  clock: systemClock,
});
const desk = refundDesk(database, provider, { owner });
desk.cancelEvent.start();
desk.reconciler.start();
process.stdout.write('ready\n');
