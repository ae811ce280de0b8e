import { Logger as QueueLogger, runTaskList, type TaskList, type WorkerPool } from 'graphile-worker';
import pg from 'pg';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Loop, Loops } from '../runtime/loops.ts';
import type { Db } from '../sales/db.ts';

/**
 * One kind of job. It may be called again for a job that it has done already (a kill between its effect and its record), and
 * beside itself. What it throws is logged and kept with the job, so it names no person; the job is tried again after a gap
 * that grows from 3 s to 6 h, 25 times in all (about four days). `signal` aborts when the process is about to end.
 */
export type Task = (payload: unknown, signal: AbortSignal | undefined) => Promise<void>;
export type Tasks = Readonly<Record<string, Task>>;

export interface JobQueueOptions {
  /** The queue has connections of its own: one of them listens. */
  databaseUrl: string;
  db: Db;
  tasks: Tasks;
  clock: Clock;
  log: Logger;
  /** Jobs that run at once in this process; 4 by default. */
  concurrency?: number;
}

export interface JobQueue {
  start(loops: Loops): void;
  /** Takes no more jobs, gives back those that were only fetched, and ends when the running ones have ended. */
  stop(): Promise<void>;
}

/** Between looks into the outbox: what a mail waits at most before the queue knows of it. */
const forwardEveryMs = 250;
const forwardBatch = 500;
/** By Postgres's clock. Jobs of a killed worker are free again after that and one renewal at most. */
export const workerLeaseMs = 12_000;
const keepEveryMs = 3_000;
const pollEveryMs = 2_000;
/** Jobs fetched at once for each that runs: a fetch costs as much for one as for all of them. */
const fetchedPerRunning = 8;
/** A running job's last chance after stopping began, before its signal aborts. */
const abortAfterMs = 10_000;
const restartAfterMs = 1_000;
/** A life of the queue's worker has no end of its own. */
const lifeMaxMs = 7 * 24 * 3_600_000;

/** The worker: hands what the record enqueued to the queue, runs it, and frees the jobs of workers that died. */
export function createJobQueue(options: JobQueueOptions): JobQueue {
  const { db, log, concurrency = 4 } = options;
  let pool: WorkerPool | undefined;
  let running: Loop[] = [];

  async function forward(signal: AbortSignal): Promise<void> {
    let moved = forwardBatch;
    while (moved === forwardBatch && !signal.aborted) {
      const rows = await db.query<{ moved: number }>('job_forward', 'SELECT job_forward($1) AS moved', [
        forwardBatch,
      ]);
      moved = rows[0]?.moved ?? 0;
    }
  }

  async function keepLease(): Promise<void> {
    if (!pool) return;
    const rows = await db.query<{ freed: number }>(
      'job_worker_keep',
      'SELECT job_worker_keep($1, $2) AS freed',
      [pool.id, workerLeaseMs],
    );
    const freed = rows[0]?.freed ?? 0;
    if (freed > 0) log.warn({ freed }, 'jobs of a dead worker are free again');
  }

  /** One life of the queue's worker: it ends by itself only when the database failed it for long. */
  async function work(signal: AbortSignal): Promise<void> {
    const connections = connectionsOf(options.databaseUrl, concurrency, log);
    try {
      const life = runTaskList(queueOptions(concurrency, log), taskList(options.tasks), connections);
      pool = life;
      const stop = (): void => void Promise.resolve(life.gracefulShutdown()).catch(() => {});
      signal.addEventListener('abort', stop);
      await keepLease().catch((err) => log.debug({ err }, 'the lease was left out'));
      if (signal.aborted) stop();
      await life.promise.catch((err) => log.warn({ err }, 'the job queue stopped by itself'));
      await endLease(life.id);
    } finally {
      pool = undefined;
      await connections.end();
    }
  }

  async function endLease(worker: string): Promise<void> {
    await db
      .query('job_worker_end', 'DELETE FROM job_workers WHERE worker = $1', [worker])
      .catch((err) => log.debug({ err }, 'the lease ends by itself'));
  }

  return {
    start(loops) {
      if (running.length > 0) return;
      running = [
        loops.run({ name: 'run jobs', everyMs: restartAfterMs, lateAfterMs: lifeMaxMs, turn: work }),
        loops.run({ name: 'hand jobs to the queue', everyMs: forwardEveryMs, turn: forward }),
        loops.run({ name: 'keep the lease of the job queue', everyMs: keepEveryMs, turn: keepLease }),
      ];
    },
    async stop() {
      await Promise.all(running.map((loop) => loop.stop()));
    },
  };
}

function connectionsOf(databaseUrl: string, concurrency: number, log: Logger): pg.Pool {
  const connections = new pg.Pool({
    connectionString: databaseUrl,
    // One listens, the others fetch and record.
    max: Math.min(concurrency, 4) + 1,
    application_name: 'onsale jobs',
    keepAlive: true,
    connectionTimeoutMillis: 5_000,
    options: '-c statement_timeout=10000 -c lock_timeout=5000 -c synchronous_commit=on -c TimeZone=UTC',
  });
  connections.on('connect', (client) => client.on('error', () => {}));
  connections.on('error', (error) => {
    if (!connections.ending) log.warn({ reason: error.message }, 'idle Postgres connection lost');
  });
  return connections;
}

function queueOptions(concurrency: number, log: Logger) {
  return {
    concurrency,
    // Signals are the program's own.
    noHandleSignals: true,
    pollInterval: pollEveryMs,
    gracefulShutdownAbortTimeout: abortAfterMs,
    logger: queueLogger(log),
    preset: {
      worker: {
        localQueue: { size: concurrency * fetchedPerRunning, ttl: 60_000 },
        // Ended in batches, be they of one: only those have somebody who takes their failure. Without them a database that goes
        // away while a job ends is a rejection that nobody handles, which ends the process.
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      },
    },
  };
}

function taskList(tasks: Tasks): TaskList {
  return Object.fromEntries(
    Object.entries(tasks).map(([name, task]) => [
      name,
      (payload, helpers) => task(payload, helpers.abortSignal),
    ]),
  );
}

/** Its successes are many and of no interest; its troubles are a job's, which is tried again. */
function queueLogger(log: Logger): QueueLogger {
  return new QueueLogger(({ jobId, taskIdentifier }) => (level, message) => {
    const about = { job: jobId, task: taskIdentifier };
    if (level === 'error' || level === 'warning') log.warn(about, message);
    else log.debug(about, message);
  });
}
