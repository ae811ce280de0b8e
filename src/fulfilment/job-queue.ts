import { Logger as QueueLogger, runTaskList, type TaskList, type WorkerPool } from 'graphile-worker';
import pg from 'pg';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Loop, Loops } from '../runtime/loops.ts';
import { within } from '../runtime/within.ts';

/**
 * One kind of job. It may be called again for a job that it has done already (after a kill between its effect and its record),
 * and twice at the same time. Its errors are logged and stored with the job, so they name no person. The job is retried after a
 * gap that grows from 3 s to 6 h, 25 times in all (about four days). `signal` aborts when the process is about to end.
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

/** Signs from outside that a worker works. */
export interface JobProgress {
  /** The worker's name in the queue. */
  worker: string;
  /** Tasks that were begun and that have ended. */
  begun: number;
  ended: number;
  /** Tasks that may run at the same time. */
  places: number;
}

export interface JobQueue {
  start(loops: Loops): void;
  /** Resolves with the reason when the worker has ended without being asked to. It does not begin again in this process. */
  readonly failed: Promise<string>;
  progress(): JobProgress;
  /**
   * Takes no more jobs, gives back those that were only fetched, and waits for the running ones. Ends within `stopWithinMs`,
   * whatever state the queue or the database is in.
   */
  stop(): Promise<void>;
}

/** Time between two looks into the outbox. A mail waits at most this long before the queue gets it. */
const forwardEveryMs = 250;
const forwardBatch = 500;
/** Lease of a worker by Postgres's clock. Jobs of a killed worker are free again after that and at most one renewal. */
export const workerLeaseMs = 12_000;
const keepEveryMs = 3_000;
const pollEveryMs = 2_000;
/** Jobs fetched at once for each that runs: a fetch costs as much for one as for all of them. */
const fetchedPerRunning = 8;
/** A running job has this time after stopping began, before its signal aborts. A mail usually takes less than a second. */
const abortAfterMs = 2_500;
/** A stop waits this long for running jobs and the queue. */
export const stopWithinMs = 4_000;

/**
 * The worker: hands what the record enqueued to the queue, runs it, and frees the jobs of workers that died. One life: the
 * library keeps a rejected promise of its first query for ever and may never settle its own end (graphile-worker 0.17.3), so a
 * worker that fails is replaced with its process (app/job-worker.ts).
 */
export function createJobQueue(options: JobQueueOptions): JobQueue {
  const { db, clock, log, concurrency = 4 } = options;
  const count = { begun: 0, ended: 0 };
  let connections: pg.Pool | undefined;
  let pool: WorkerPool | undefined;
  let running: Loop[] = [];
  let stopping = false;
  let stopped: Promise<void> | undefined;
  let fail: (reason: string) => void = () => {};
  const failed = new Promise<string>((resolve) => {
    fail = resolve;
  });

  async function forward(signal: AbortSignal): Promise<void> {
    let moved = forwardBatch;
    while (moved === forwardBatch && !signal.aborted) {
      const rows = await db.query<{ moved: number }>('job_forward', 'SELECT job_forward($1) AS moved', [
        forwardBatch,
      ]);
      moved = rows[0]?.moved ?? 0;
    }
  }

  async function keepLease(worker: string): Promise<void> {
    const rows = await db.query<{ freed: number }>(
      'job_worker_keep',
      'SELECT job_worker_keep($1, $2) AS freed',
      [worker, workerLeaseMs],
    );
    const freed = rows[0]?.freed ?? 0;
    if (freed > 0) log.warn({ freed }, 'jobs of a dead worker are free again');
  }

  function begin(): WorkerPool {
    connections = connectionsOf(options.databaseUrl, concurrency, log);
    const life = runTaskList(queueOptions(concurrency, log), taskList(options.tasks, count), connections);
    const over = (why: string): void => {
      if (!stopping) fail(why);
    };
    life.promise.then(
      () => over('the job queue stopped'),
      (error: Error) => over(`the job queue stopped: ${error.message}`),
    );
    return life;
  }

  async function end(life: WorkerPool): Promise<void> {
    const ended = life.promise.catch(() => {});
    // With the database away, the graceful stop may never settle; the forceful one then ends it, or nothing does.
    void Promise.resolve(life.gracefulShutdown()).catch(() => {});
    await within(clock, stopWithinMs, ended);
  }

  async function stopOnce(): Promise<void> {
    stopping = true;
    if (!pool) return;
    await Promise.all([end(pool), ...running.map((loop) => loop.stop())]);
    await giveJobsBack(db, pool.id).catch((err) => log.debug({ err }, 'the lease ends by itself'));
    if (connections) await within(clock, 1_000, connections.end());
  }

  return {
    failed,
    progress: () => ({ worker: pool?.id ?? '', places: concurrency, ...count }),
    start(loops) {
      if (pool) return;
      pool = begin();
      const { id } = pool;
      running = [
        loops.run({ name: 'hand jobs to the queue', everyMs: forwardEveryMs, turn: forward }),
        loops.run({
          name: 'keep the lease of the job worker',
          everyMs: keepEveryMs,
          turn: () => keepLease(id),
        }),
      ];
    },
    async stop() {
      stopped ??= stopOnce();
      await stopped;
    },
  };
}

/** Ends the lease of a worker that has ended and frees what it had locked. Without this call, they are free after the lease. */
export async function giveJobsBack(db: Db, worker: string): Promise<void> {
  await db.query('job_worker_end', 'SELECT job_worker_end($1)', [worker]);
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
        // Jobs are ended in batches, even of one, because only batches have a handler for a failure. Without it, a database
        // that becomes unreachable while a job ends causes an unhandled rejection, which ends the process.
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      },
    },
  };
}

function taskList(tasks: Tasks, count: { begun: number; ended: number }): TaskList {
  const counted =
    (task: Task): TaskList[string] =>
    async (payload, helpers) => {
      count.begun += 1;
      try {
        await task(payload, helpers.abortSignal);
      } finally {
        count.ended += 1;
      }
    };
  return Object.fromEntries(Object.entries(tasks).map(([name, task]) => [name, counted(task)]));
}

/** Its successes are many and of no interest; its troubles are a job's, which is tried again. */
function queueLogger(log: Logger): QueueLogger {
  return new QueueLogger(({ jobId, taskIdentifier }) => (level, message) => {
    const about = { job: jobId, task: taskIdentifier };
    if (level === 'error' || level === 'warning') log.warn(about, message);
    else log.debug(about, message);
  });
}
