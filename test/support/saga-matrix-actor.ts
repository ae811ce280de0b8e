import { createStripeProvider } from '../../src/payments/stripe.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { jobsDueSql } from './acts.ts';
import { CELLS, type Cell, type Life } from './saga-matrix.ts';
import {
  inParallel,
  isReached,
  openDesk,
  play,
  type Scene,
  type Stop,
  stopOf,
  timeoutMs,
} from './saga-matrix-play.ts';
import { ask } from './simulator.ts';
import { until } from './wait.ts';

/**
 * A process that plays all cells of the matrix, each until its own step, and kills itself (-9) when every one of them is in
 * the middle of it. Takes one JSON argument; ends with 1 when a cell does not come to its step.
 */
const { scene, life } = JSON.parse(process.argv[2]!) as {
  scene: Scene;
  life: Life;
};
const reachWithinMs = 120_000;

const provider = createStripeProvider({
  secretKey: 'sk_test_simulator',
  webhookSecrets: ['whsec_simulator'],
  apiBase: scene.simulator,
  timeoutMs,
  log: silentLogger,
  clock: systemClock,
});
const desk = await openDesk(scene, provider);
await ask(`${scene.simulator}/_sim/webhooks/target`, 'POST', { url: desk.webhookUrl });

const reached = new Map<Cell, Promise<void>>();
/** Resolves when the cell stopped or its story is over. */
async function begin(cell: Cell): Promise<void> {
  let stop: Stop | undefined;
  const stopping = new Promise<void>((resolve) => {
    stop = { at: stopOf(cell, life)!, reached: resolve };
  });
  if (isReached(cell)) reached.set(cell, stopping);
  await Promise.race([stopping, play(cell, scene, desk, stop!)]);
}

await inParallel(CELLS, begin);
desk.startMails();
const missing = new Set(reached.keys());
for (const [cell, stopping] of reached) void stopping.then(() => missing.delete(cell));
await until(
  async () => {
    // A mail that was not sent in the first go is sent again at once.
    await desk.db.query('again', jobsDueSql);
    return missing.size === 0;
  },
  () => `these to be reached: ${[...missing].map(({ step, fault }) => `${step.name} ${fault}`).join(', ')}`,
  reachWithinMs,
);
process.kill(process.pid, 'SIGKILL');
