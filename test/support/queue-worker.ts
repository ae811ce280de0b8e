import { createJobQueue } from '../../src/fulfilment/job-queue.ts';
import { createDb } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { testLoops } from './loops.ts';
import { pause } from './wait.ts';

/** A worker process: does `note` jobs, `ms` long each, and writes what it did to the table `noted`. Takes one JSON argument. */
const { url, ms } = JSON.parse(process.argv[2]!) as { url: string; ms: number };
const db = createDb({ url, poolSize: 3, clock: systemClock, log: silentLogger });
const queue = createJobQueue({
  databaseUrl: url,
  db,
  tasks: {
    note: async (payload) => {
      await pause(ms, 'the time that a job takes');
      const { name } = payload as { name: string };
      await db.query('note', 'INSERT INTO noted (name, pid) VALUES ($1, $2)', [name, process.pid]);
    },
  },
  clock: systemClock,
  log: silentLogger,
});
queue.start(testLoops());
process.on('SIGTERM', () => {
  void queue.stop().then(() => db.close());
});
