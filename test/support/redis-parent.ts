import { startRedis } from '../../src/redis/server.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';

/** A process to be killed: starts a private Redis in the folder given, tells where, and stays. */
const server = await startRedis({ dataDir: process.argv[2]!, clock: systemClock, log: silentLogger });
process.stdout.write(`${JSON.stringify({ pid: server.pid, port: server.port })}\n`);
setInterval(() => {}, 1_000);
