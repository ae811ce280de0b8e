import { type ChildProcess, spawn } from 'node:child_process';
import path from 'node:path';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { LoopHealth, Loops } from '../runtime/loops.ts';
import { within } from '../runtime/within.ts';
import { giveJobsBack, type JobProgress, stopWithinMs } from './job-queue.ts';
import { jobNames } from './tasks.ts';

/** Settings of the child, sent as its first message: they include passwords, which must not appear in a process list. */
export interface JobWorkerSetup {
  databaseUrl: string;
  dataDir: string;
  signingSecret: string;
  /** The address that buyers see, without a final slash. */
  publicUrl: string;
  timeZone: string;
  mail: { smtpUrl: string | undefined; from: { name: string; address: string } };
  logLevel: string;
}

/** Sent by the child several times a second: shows that its event loop runs, and the progress of its work. */
export interface JobWorkerReport extends JobProgress {
  loops: LoopHealth[];
}

export interface JobChildOptions {
  setup: JobWorkerSetup;
  db: Db;
  loops: Loops;
  clock: Clock;
  log: Logger;
  /** Replaces the times below, for tests. */
  times?: Partial<typeof usualTimes>;
}

export interface JobChild {
  /** Returns the id of the current child process, or null if there is none. */
  pid(): number | null;
  stop(): Promise<void>;
}

const usualTimes = {
  /** A child that sends no report for this time is frozen or hung. */
  silentMs: 10_000,
  /** The queue of a child is stuck if, for this time, jobs were due or locked by it, and it had free places but ran none. */
  stuckMs: 10_000,
  /** The same limit while tasks run, and for a single job. A mail server may keep a task busy for a minute. */
  busyStuckMs: 180_000,
  /** A child that lives for less than this counts as a failed start. */
  stableMs: 30_000,
};
const checkEveryMs = 1_000;
const startWithinMs = 30_000;
/** A child that has been silent for longer than this is killed at once instead of stopped in order. */
const stopsInOrderMs = 3_000;
const giveBackWithinMs = 2_000;
/** The watchdog considers jobs that became due this long ago and still wait. */
const dueSinceMs = 2_000;
/** While jobs are running, the queue is queried only this often. */
const lookEveryMs = 5_000;

interface Life {
  child: ChildProcess;
  startedAt: number;
  heardAt: number;
  report: JobWorkerReport | null;
  /** Time since which the report's counts have not changed. */
  movedAt: number;
  /** Time of the last query of the queue about this child. */
  askedAt: number;
  /** Time since which jobs have been waiting although the child takes none. */
  waitingSince: number | null;
  exited: Promise<void>;
  /** How the child ended. Null while it runs. */
  end: string | null;
}

/**
 * Runs the job worker in a child process. If it is killed, freezes, hangs, has an uncaught error, or its queue no longer fetches
 * jobs, the sale continues and a new child is started. The child ends with its parent.
 */
export function startJobChild(options: JobChildOptions): JobChild {
  const { db, loops, clock, log } = options;
  const times = { ...usualTimes, ...options.times };
  let life: Life | null = null;
  let shortLives = 0;
  let lastEnd = '';
  let checkedAt = clock.monotonic();

  async function check(signal: AbortSignal): Promise<void> {
    const now = clock.monotonic();
    // This process was frozen or had no CPU time, so the child's reports may not have been read yet.
    const wasPaused = now - checkedAt > checkEveryMs * 5;
    checkedAt = now;
    if (life?.end === null) {
      if (wasPaused) life.heardAt = now;
      const fault = await faultOf(life);
      checkedAt = clock.monotonic();
      if (!fault) return settle(life);
      log.error({ pid: life.child.pid, fault }, 'killing the job worker');
      life.child.kill('SIGKILL');
      await life.exited;
      life.end = fault;
    }
    if (life) await bury(life);
    life = null;
    if (signal.aborted) return;
    life = await launch(options, signal);
    checkedAt = clock.monotonic();
    settle(life);
  }

  /** Reports a child that keeps dying as failing, although a new one has just started. */
  function settle({ startedAt }: Life): void {
    if (clock.monotonic() - startedAt > times.stableMs) shortLives = 0;
    if (shortLives > 1) throw new Error(`started again ${shortLives} times in a row: ${lastEnd}`);
  }

  async function bury({ startedAt, end, report }: Life): Promise<void> {
    lastEnd = end ?? '';
    shortLives = clock.monotonic() - startedAt < times.stableMs ? shortLives + 1 : 1;
    log.error({ end: lastEnd, lives: shortLives }, 'the job worker ended; starting it again');
    if (report)
      await giveJobsBack(db, report.worker).catch((err) =>
        log.debug({ err }, 'could not return the jobs of the job worker; its lease expires automatically'),
      );
  }

  async function faultOf(one: Life): Promise<string | null> {
    const now = clock.monotonic();
    const silentMs = now - one.heardAt;
    if (silentMs > times.silentMs) return `no sign of life for ${Math.round(silentMs / 1_000)} s`;
    const { report } = one;
    const isMoving = now - one.movedAt < dueSinceMs;
    if (isMoving) one.waitingSince = null;
    if (!report || (isMoving && now - one.askedAt < lookEveryMs)) return null;
    one.askedAt = now;
    // If the database does not answer, the state of the child is unknown.
    const jobs = await jobsOf(db, report.worker).catch(() => null);
    if (!jobs) return null;
    const running = report.begun - report.ended;
    // A fetch whose response was lost leaves jobs locked that the worker does not know.
    const isIdle = running < report.places && (jobs.wait || jobs.locked > running);
    if (jobs.lockedMs > times.busyStuckMs) return `keeps a job for ${seconds(jobs.lockedMs)} s`;
    if (isMoving || (!isIdle && running === 0)) {
      one.waitingSince = null;
      return null;
    }
    one.waitingSince ??= clock.monotonic();
    const stuckMs = clock.monotonic() - one.waitingSince;
    if (stuckMs < (isIdle ? times.stuckMs : times.busyStuckMs)) return null;
    return `runs no job for ${seconds(stuckMs)} s although jobs are due`;
  }

  const loop = loops.run({
    name: 'run the job worker',
    everyMs: checkEveryMs,
    retryMaxMs: 2_000,
    lateAfterMs: startWithinMs + 10_000,
    turn: check,
  });
  loops.observe(() => (life?.end === null ? (life.report?.loops ?? []) : []));

  return {
    pid: () => (life?.end === null ? (life.child.pid ?? null) : null),
    async stop() {
      await loop.stop();
      if (!life || life.end !== null) return;
      const { child, heardAt, exited, report } = life;
      const isSilent = clock.monotonic() - heardAt > stopsInOrderMs;
      const patienceMs = isSilent ? 0 : stopWithinMs + 1_500;
      const cancel = clock.after(patienceMs, () => child.kill('SIGKILL'));
      tell(child, 'stop');
      await exited;
      cancel();
      if (child.signalCode === null || !report) return;
      // The wait is bounded: if the database is unavailable, the lease expires automatically.
      const given = giveJobsBack(db, report.worker).catch(() => {});
      await within(clock, giveBackWithinMs, given);
    },
  };
}

interface JobsOfWorker {
  /** True if jobs that any worker could take have been due for a while. */
  wait: boolean;
  /** Number of jobs that this worker has kept locked for a while, and the age of the oldest lock. */
  locked: number;
  lockedMs: number;
}

/** Waiting jobs are read by the index graphile_worker.jobs_main_index (jobs without a lock). */
async function jobsOf(db: Db, worker: string): Promise<JobsOfWorker> {
  const [row] = await db.query<JobsOfWorker>(
    'jobs_of_worker',
    `SELECT EXISTS (SELECT FROM graphile_worker._private_jobs j JOIN graphile_worker._private_tasks t ON t.id = j.task_id
         WHERE j.is_available AND j.run_at < now() - $1 * interval '1 millisecond' AND t.identifier = ANY ($2)) AS wait,
       count(*) AS locked, coalesce(extract(epoch FROM now() - min(locked_at)) * 1000, 0)::float8 AS "lockedMs"
     FROM graphile_worker._private_jobs
     WHERE locked_by = $3 AND locked_at < now() - $1 * interval '1 millisecond'`,
    [dueSinceMs, jobNames, worker],
  );
  return row!;
}

const seconds = (ms: number): number => Math.round(ms / 1_000);

function tell(child: ChildProcess, message: unknown): void {
  if (child.connected) child.send(message as object, () => {});
}

async function launch(options: JobChildOptions, signal: AbortSignal): Promise<Life> {
  const { clock } = options;
  // The compiled program runs .js files, development runs .ts files.
  const language = path.extname(import.meta.filename);
  const loader = language === '.ts' ? ['--import', import.meta.resolve('tsx')] : [];
  const main = path.join(import.meta.dirname, `../app/job-worker${language}`);
  // Detached, because Ctrl-C in a terminal signals the whole group, and running jobs should still finish.
  const child = spawn(process.execPath, [...loader, main], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    detached: true,
  });
  const now = clock.monotonic();
  const newLife: Life = {
    child,
    startedAt: now,
    heardAt: now,
    report: null,
    movedAt: now,
    askedAt: now,
    waitingSince: null,
    end: null,
    exited: new Promise((resolve) => {
      const over = (end: string): void => {
        newLife.end ??= end;
        resolve();
      };
      child.once('exit', (code, by) => over(by ? `killed by ${by}` : `ended with code ${code}`));
      child.once('error', (error) => over(error.message));
    }),
  };
  let heard = (): void => {};
  const ready = new Promise<void>((resolve) => {
    heard = resolve;
  });
  child.on('message', (report: JobWorkerReport) => {
    const before = newLife.report;
    newLife.report = report;
    newLife.heardAt = clock.monotonic();
    if (before?.begun !== report.begun || before.ended !== report.ended) newLife.movedAt = newLife.heardAt;
    heard();
  });
  tell(child, options.setup);
  const giveUp = (): void => void child.kill('SIGKILL');
  const cancel = clock.after(startWithinMs, giveUp);
  signal.addEventListener('abort', giveUp, { once: true });
  await Promise.race([ready, newLife.exited]);
  signal.removeEventListener('abort', giveUp);
  cancel();
  if (newLife.end !== null) throw new Error(`the job worker did not start: ${newLife.end}`);
  return newLife;
}
