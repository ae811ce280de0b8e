import { startPostgres } from '../../src/postgres/server.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';

/**
 * A process for crash tests: starts the server on the folder of its first argument, prints one line of JSON, and waits
 * to be killed. With a second argument `exit` it leaves by an uncaught fault instead; with
 * `throw-away` its server is not durable.
 */
const [dataDir, ending] = process.argv.slice(2);
const server = await startPostgres({
  dataDir: dataDir!,
  binDir: process.env.ONSALE_TEST_POSTGRES_BIN || undefined,
  durable: ending !== 'throw-away',
  log: silentLogger,
  clock: systemClock,
});
const { port, pid, adopted } = server;
process.stdout.write(`${JSON.stringify({ port, pid, adopted, url: server.url('postgres') })}\n`);
if (ending === 'exit') throw new Error('on purpose');
await new Promise<void>((resolve) => process.stdin.on('data', () => resolve()));
await server.stop();
process.stdin.destroy();
