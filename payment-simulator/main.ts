import { parseArgs } from 'node:util';
import { systemClock } from '../src/runtime/clock.ts';
import { createLogger } from '../src/runtime/log.ts';
import { systemRandom } from '../src/runtime/random.ts';
import { startSimulator } from './server.ts';

/**
 * The payment simulator as a process: `node --import tsx payment-simulator/main.ts --data-dir DIR [options]`.
 *
 * | option              | environment                 | meaning, default                                         |
 * |---------------------|-----------------------------|----------------------------------------------------------|
 * | `--data-dir`        | `SIMULATOR_DATA_DIR`        | where the ledger is kept; required                       |
 * | `--port`            | `SIMULATOR_PORT`            | 0: a free one                                            |
 * | `--host`            | `SIMULATOR_HOST`            | 127.0.0.1                                                |
 * | `--public-url`      | `SIMULATOR_PUBLIC_URL`      | as browsers reach it; http://host:port                   |
 * | `--webhook-url`     | `SIMULATOR_WEBHOOK_URL`     | where events go; none: they wait                         |
 * | `--webhook-events`  | `SIMULATOR_WEBHOOK_EVENTS`  | types with commas between, or all; what a shop needs     |
 * | `--webhook-secret`  | `SIMULATOR_WEBHOOK_SECRET`  | whsec_simulator                                          |
 * | `--secret-key`      | `SIMULATOR_SECRET_KEY`      | sk_test_simulator                                        |
 * | `--publishable-key` | `SIMULATOR_PUBLISHABLE_KEY` | pk_test_simulator                                        |
 * | `--rate-limit`      | `SIMULATOR_RATE_LIMIT`      | API calls a second before 429; no limit                  |
 * | `--log-level`       | `SIMULATOR_LOG_LEVEL`       | warn                                                     |
 * | `--detached`        |                             | go on when standard input closes                         |
 *
 * Prints one line `{"ready":true,"port":…,"url":…}` on standard output once it answers. Ends on SIGTERM, SIGINT, and,
 * unless detached, when its standard input closes: with its parent, however that died.
 */
const { values } = parseArgs({
  options: {
    'data-dir': { type: 'string' },
    port: { type: 'string' },
    host: { type: 'string' },
    'public-url': { type: 'string' },
    'webhook-url': { type: 'string' },
    'webhook-events': { type: 'string' },
    'webhook-secret': { type: 'string' },
    'secret-key': { type: 'string' },
    'publishable-key': { type: 'string' },
    'rate-limit': { type: 'string' },
    'log-level': { type: 'string' },
    detached: { type: 'boolean' },
  },
});

function setting(name: Exclude<keyof typeof values, 'detached'>): string | undefined {
  return values[name] ?? process.env[`SIMULATOR_${name.toUpperCase().replaceAll('-', '_')}`];
}

const dataDir = setting('data-dir');
const events = setting('webhook-events');
const port = Number(setting('port') ?? '0');
if (!dataDir) throw new Error('--data-dir (or SIMULATOR_DATA_DIR) is needed: where the ledger is kept');
if (!Number.isInteger(port) || port < 0 || port > 65_535) throw new Error('--port must be 0 to 65535');

const rateLimit = setting('rate-limit');
if (rateLimit !== undefined && !(Number(rateLimit) >= 1)) throw new Error('--rate-limit must be at least 1');

const simulator = await startSimulator({
  dataDir,
  port,
  host: setting('host') ?? '127.0.0.1',
  publicUrl: setting('public-url'),
  webhookUrl: setting('webhook-url'),
  webhookEvents: events === 'all' ? 'all' : events?.split(','),
  webhookSecret: setting('webhook-secret') ?? 'whsec_simulator',
  secretKey: setting('secret-key') ?? 'sk_test_simulator',
  publishableKey: setting('publishable-key') ?? 'pk_test_simulator',
  rateLimit: rateLimit === undefined ? null : Number(rateLimit),
  clock: systemClock,
  random: systemRandom,
  log: createLogger(setting('log-level') ?? 'warn'),
}).catch((error: NodeJS.ErrnoException) => {
  if (error.code !== 'EADDRINUSE') throw error;
  process.stderr.write(`The payment simulator cannot listen on port ${port}: something else does already.\n`);
  process.exit(1);
});

let stopping = false;
function stop(): void {
  if (stopping) return;
  stopping = true;
  void simulator.stop().then(() => process.stdin.destroy());
}
process.once('SIGTERM', stop);
process.once('SIGINT', stop);
if (values.detached) process.stdin.unref?.();
else process.stdin.on('end', stop).on('close', stop).on('error', stop).resume();

// The process that started it may have ended before it was ready.
process.stdout.on('error', stop);
process.stdout.write(`${JSON.stringify({ ready: true, port: simulator.port, url: simulator.url })}\n`);
