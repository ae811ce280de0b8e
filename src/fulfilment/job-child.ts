import { type ChildProcess, spawn } from 'node:child_process';
import path from 'node:path';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { LoopHealth, Loops } from '../runtime/loops.ts';
import { within } from '../runtime/within.ts';
import type { Db } from '../sales/db.ts';
import { giveJobsBack, type JobProgress, stopWithinMs } from './job-queue.ts';
import { jobNames } from './tasks.ts';

/** What the child needs, sent as its first message: it holds passwords, which must not appear in a list of processes. */
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

/** From the child, several times a second: proof that its event loop runs, and how far its work has come. */
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
  /** Of the present child; null while there is none. */
  pid(): number | null;
  stop(): Promise<void>;
}

const usualTimes = {
  /** A child that says nothing for this time is frozen or hung. */
  silentMs: 10_000,
  /** Jobs have been due, or locked by the child, and it had free places but ran none: its queue no longer works. */
  stuckMs: 10_000,
  /** The same while tasks run that do not end, and for a job that is kept. A mail server may keep a task for a minute. */
  busyStuckMs: 180_000,
  /** A life shorter than this counts as a failed start. */
  stableMs: 30_000,
};
const checkEveryMs = 1_000;
const startWithinMs = 30_000;
/** After this, a silent child is not given the time that an orderly stop takes. */
const stopsInOrderMs = 3_000;
const giveBackWithinMs = 2_000;
/** Jobs that became due this long ago and still wait are looked at by the watchdog. */
const dueSinceMs = 2_000;
/** While jobs are being run, the queue is asked this seldom. */
const lookEveryMs = 5_000;

interface Life {
  child: ChildProcess;
  startedAt: number;
  heardAt: number;
  report: JobWorkerReport | null;
  /** Since when the report's counts have not changed. */
  movedAt: number;
  /** When the queue was last asked about it. */
  askedAt: number;
  /** Since when jobs were found waiting for a child that takes none. */
  waitingSince: number | null;
  exited: Promise<void>;
  /** Set once it has ended: how. */
  end: string | null;
}

/**
 * The job worker as a process of its own: whatever happens to it (killed, frozen, hung, an error that nothing handled, a queue
 * that no longer fetches), the sale goes on and a new one is started. It ends with its parent.
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
    // This process was frozen or had no processor: the child's reports may wait to be read.
    const wasPaused = now - checkedAt > checkEveryMs * 5;
    checkedAt = now;
    if (life?.end === null) {
      if (wasPaused) life.heardAt = now;
      const fault = await faultOf(life);
      checkedAt = clock.monotonic();
      if (!fault) return settle(life);
      log.error({ pid: life.child.pid, fault }, 'the job worker is ended');
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

  /** A child that keeps dying is reported as failing, although a new one has just started. */
  function settle({ startedAt }: Life): void {
    if (clock.monotonic() - startedAt > times.stableMs) shortLives = 0;
    if (shortLives > 1) throw new Error(`started again ${shortLives} times in a row: ${lastEnd}`);
  }

  async function bury({ startedAt, end, report }: Life): Promise<void> {
    lastEnd = end ?? '';
    shortLives = clock.monotonic() - startedAt < times.stableMs ? shortLives + 1 : 1;
    log.error({ end: lastEnd, lives: shortLives }, 'the job worker ended; starting it again');
    if (report)
      await giveJobsBack(db, report.worker).catch((err) => log.debug({ err }, 'the lease ends by itself'));
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
    // Without an answer from the database there is nothing to conclude.
    const jobs = await jobsOf(db, report.worker).catch(() => null);
    if (!jobs) return null;
    const running = report.begun - report.ended;
    // A fetch whose answer was lost leaves jobs locked of which the worker knows nothing.
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
      // Bounded: with the database away, the lease ends by itself.
      const given = giveJobsBack(db, report.worker).catch(() => {});
      await within(clock, giveBackWithinMs, given);
    },
  };
}

interface JobsOfWorker {
  /** Jobs that any worker could take have been due for a while. */
  wait: boolean;
  /** Jobs that this worker has locked for a while, and for how long the oldest. */
  locked: number;
  lockedMs: number;
}

/** Index for those that wait: graphile_worker.jobs_main_index (jobs that nobody has locked). */
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
  // Compiled, or as it is written.
  const language = path.extname(import.meta.filename);
  const loader = language === '.ts' ? ['--import', import.meta.resolve('tsx')] : [];
  const main = path.join(import.meta.dirname, `../job-worker${language}`);
  // Detached: Ctrl-C in a terminal signals the whole group, and running jobs are still to be finished.
  const child = spawn(process.execPath, [...loader, main], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    detached: true,
  });
  const now = clock.monotonic();
  const made: Life = {
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
        made.end ??= end;
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
    const before = made.report;
    made.report = report;
    made.heardAt = clock.monotonic();
    if (before?.begun !== report.begun || before.ended !== report.ended) made.movedAt = made.heardAt;
    heard();
  });
  tell(child, options.setup);
  const giveUp = (): void => void child.kill('SIGKILL');
  const cancel = clock.after(startWithinMs, giveUp);
  signal.addEventListener('abort', giveUp, { once: true });
  await Promise.race([ready, made.exited]);
  signal.removeEventListener('abort', giveUp);
  cancel();
  if (made.end !== null) throw new Error(`the job worker did not start: ${made.end}`);
  return made;
}
