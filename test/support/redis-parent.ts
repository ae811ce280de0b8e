import { startRedis } from '../../src/redis/server.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';

/** A process to be killed: starts a private Redis in the given folder (on the given port), prints its address, and stays. */
const [, , dataDir, port] = process.argv;
const server = await startRedis({
  dataDir: dataDir!,
  port: port ? Number(port) : undefined,
  clock: systemClock,
  log: silentLogger,
});
process.stdout.write(`${JSON.stringify({ pid: server.pid, port: server.port })}\n`);
setInterval(() => {}, 1_000);
