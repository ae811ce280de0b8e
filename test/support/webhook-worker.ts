import { createWebhookDeliverer } from '../../src/fulfilment/webhook-deliverer.ts';
import { createWebhookSender } from '../../src/fulfilment/webhook-sender.ts';
import { createDb } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { testLoops } from './loops.ts';

/** A process that delivers webhooks until it is killed. Takes one JSON argument. */
const { url, leaseMs } = JSON.parse(process.argv[2]!) as { url: string; leaseMs: number };
createWebhookDeliverer({
  db: createDb({ url, poolSize: 3, clock: systemClock, log: silentLogger }),
  send: createWebhookSender({ privateAllowed: true, clock: systemClock }),
  clock: systemClock,
  random: systemRandom,
  log: silentLogger,
  times: { leaseMs },
}).start(testLoops());
