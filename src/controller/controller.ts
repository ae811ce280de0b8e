import { setMaxListeners } from 'node:events';
import type { EventNo } from '../core/hold.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Loop, LoopHealth, Loops } from '../runtime/loops.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import { createLease } from './lease.ts';

/** The input of each run of a task. Everything that it writes has to be conditional on `term` in the same transaction. */
export interface LeaderTick {
  event: EventNo;
  term: number;
  /** Runs of this task in this term so far: 0 after each take-over. */
  tick: number;
  /** Aborted when the run took too long or the controller stops. */
  signal: AbortSignal;
}

export interface LeaderTask {
  name: string;
  run(tick: LeaderTick): Promise<void>;
}

export interface Controller {
  start(loops: Loops): void;
  /** Waits for runs under way, as long as one may take, and ends the leases at once: a restart takes over without waiting. */
  stop(): Promise<void>;
  /** Events that this process leads now, with their terms. */
  leads(): Map<EventNo, number>;
  /** Whether each task has succeeded for the event in a run that began at `since` (monotonic ms) or later. */
  doneSince(event: EventNo, since: number): boolean;
}

export interface ControllerOptions {
  db: Db;
  /** New with each start of a process (host, process id and a random part). */
  owner: string;
  clock: Clock;
  log: Logger;
  eventsToLead: () => Promise<EventNo[]>;
  tasks: readonly LeaderTask[];
  /** Called with each event that this process leads no longer: what it remembers about the event can go. */
  onLeft?: (event: EventNo) => void;
  /** 1 s; tests shorten it. */
  tickMs?: number;
  /** A run that takes longer is given up. */
  taskMs?: number;
}

interface Run {
  term: number;
  tick: number;
  /** Null while no run is under way. */
  abort: AbortController | null;
  /** Runs that were given up and have not ended yet. */
  hung: number;
  /** Epoch ms. */
  lastSuccessAt: number | null;
  failure: { since: number; count: number; error: string } | null;
  /** Start of the last successful run, monotonic ms. Null if none has succeeded in this term. */
  succeededAt: number | null;
}

/**
 * Events whose tasks run at the same time. With more of them, as when a program starts that never led any, each has its turn
 * less often instead of all of them taking too long.
 */
const eventsAtOnceMax = 32;

/** A task that hangs again and again is not started any more until one of its runs ends. */
const hungMax = 3;

/**
 * Runs each led event's tasks once a second. Leases are kept apart from the tasks and each task of each event apart from
 * the others, so that one which fails or hangs stops neither.
 */
export function createController(options: ControllerOptions): Controller {
  const { db, owner, clock, log, eventsToLead, tasks, tickMs = 1_000, taskMs = 5_000 } = options;
  const { onLeft = () => {} } = options;
  const lease = createLease({ db, owner, clock });
  const runs = new Map<string, Run>();
  const underWay = new Set<Promise<void>>();
  const stopping = new AbortController();
  // One listener a task and event under way: with a few events more than Node takes for a leak.
  setMaxListeners(0, stopping.signal);
  let led = new Map<EventNo, number>();
  let due = clock.monotonic();
  /** Events that wait for their turn in this tick, and runs under way by event. */
  let waiting: EventNo[] = [];
  const busy = new Map<EventNo, number>();
  const startedAt = new Map<EventNo, number>();
  let loop: Loop | null = null;

  async function keepLeases(): Promise<void> {
    const kept = await lease.keep(await eventsToLead());
    for (const [event, term] of kept) {
      // With many events some are put to rest and woken all the time.
      if (led.get(event) !== term) log.debug({ event, term, owner }, 'leads the event');
    }
    for (const [event, term] of led) {
      if (kept.has(event)) continue;
      log.debug({ event, term, owner }, 'no longer leads the event');
      onLeft(event);
    }
    led = kept;
    for (const [key, run] of runs) {
      if (!kept.has(Number(key.split(':')[0])) && run.abort === null && run.hung === 0) runs.delete(key);
    }
  }

  /** Starts the tasks of all led events, of those that have waited longest first. */
  function runTasks(): void {
    for (const event of startedAt.keys()) if (!led.has(event)) startedAt.delete(event);
    const waited = (event: EventNo): number => startedAt.get(event) ?? 0;
    waiting = [...led.keys()].sort((a, b) => waited(a) - waited(b));
    fill();
  }

  function fill(): void {
    for (let i = 0; i < waiting.length; ) {
      const event = waiting[i]!;
      if (!busy.has(event) && busy.size >= eventsAtOnceMax) i++;
      else {
        waiting.splice(i, 1);
        startEvent(event);
      }
    }
  }

  function startEvent(event: EventNo): void {
    const term = lease.termOf(event);
    if (term === null) return;
    startedAt.set(event, clock.monotonic());
    for (const task of tasks) startRun(task, event, term);
  }

  function startRun(task: LeaderTask, event: EventNo, term: number): void {
    const key = `${event}:${task.name}`;
    const before = runs.get(key);
    // The last run is still under way: this tick is skipped, so that two never run at once.
    if (before?.abort || (before && before.hung >= hungMax)) return;
    const run: Run = before ?? {
      term,
      tick: 0,
      abort: null,
      hung: 0,
      succeededAt: null,
      lastSuccessAt: null,
      failure: null,
    };
    run.tick = before?.term === term ? before.tick + 1 : 0;
    if (before?.term !== term) run.succeededAt = null;
    run.term = term;
    run.abort = new AbortController();
    runs.set(key, run);
    busy.set(event, (busy.get(event) ?? 0) + 1);
    const done = runOnce(task, event, run, run.abort).finally(() => {
      run.abort = null;
      underWay.delete(done);
      const left = busy.get(event)! - 1;
      if (left > 0) busy.set(event, left);
      else busy.delete(event);
      if (left === 0 && !stopping.signal.aborted) fill();
    });
    underWay.add(done);
  }

  async function runOnce(task: LeaderTask, event: EventNo, run: Run, abort: AbortController): Promise<void> {
    const { term, tick } = run;
    const began = clock.monotonic();
    const onStop = (): void => abort.abort(new Error('the controller stops'));
    stopping.signal.addEventListener('abort', onStop, { once: true });
    let cancel = (): void => {};
    const tooLong = new Promise<never>((_, reject) => {
      cancel = clock.after(taskMs, () => reject(new Error(`gave up after ${taskMs} ms`)));
    });
    let ended = false;
    try {
      // A task that throws before its first wait fails its run too, not the loop.
      const running = Promise.resolve({ event, term, tick, signal: abort.signal })
        .then((told) => task.run(told))
        .finally(() => {
          if (ended) run.hung -= 1;
          ended = true;
        });
      await Promise.race([running, tooLong]);
      Object.assign(run, { lastSuccessAt: clock.now(), succeededAt: began, failure: null });
    } catch (err) {
      if (stopping.signal.aborted) return;
      const { since = clock.now(), count = 0 } = run.failure ?? {};
      run.failure = { since, count: count + 1, error: (err as Error).message };
      const what = { event, term, task: task.name };
      // The sentence of an unreachable store says everything; the place in our code would not help.
      if (err instanceof StoreFault) log.warn({ ...what, fault: err.message }, 'a leader task has to wait');
      else log.error({ ...what, err }, 'a leader task failed');
    } finally {
      cancel();
      if (!ended) run.hung += 1;
      ended = true;
      stopping.signal.removeEventListener('abort', onStop);
      if (!abort.signal.aborted) abort.abort(new Error('the run is over'));
    }
  }

  async function turn(): Promise<{ nextMs: number }> {
    // Missed ticks are not made up for after a pause, because a burst of ticks would measure nothing.
    due = Math.max(due + tickMs, clock.monotonic());
    try {
      await keepLeases();
    } finally {
      if (!stopping.signal.aborted) runTasks();
    }
    return { nextMs: Math.max(0, due - clock.monotonic()) };
  }

  /** Each task over all led events: one line, however many events it fails for. */
  function taskHealth(): LoopHealth[] {
    return tasks.map(({ name }) => {
      const ofTask = [...runs].filter(([key]) => key.endsWith(`:${name}`)).map(([, run]) => run);
      const failing = ofTask.filter(({ failure }) => failure !== null);
      const first = failing.toSorted((a, b) => a.failure!.since - b.failure!.since)[0]?.failure ?? null;
      const succeeded = ofTask.flatMap(({ lastSuccessAt }) => lastSuccessAt ?? []);
      return {
        name: `${name} (leader task)`,
        state: ofTask.some(({ hung }) => hung > 0) ? 'hung' : first ? 'failing' : 'ok',
        since: first?.since ?? null,
        lastSuccessAt: succeeded.length > 0 ? Math.max(...succeeded) : null,
        failures: first?.count ?? 0,
        error: first && `${first.error}${failing.length > 1 ? ` (${failing.length} events)` : ''}`,
      };
    });
  }

  return {
    start(loops) {
      if (loop) return;
      loop = loops.run({ name: 'keep event leases', everyMs: tickMs, retryMaxMs: tickMs, turn });
      loops.observe(taskHealth);
    },
    async stop() {
      stopping.abort(new Error('the controller stops'));
      await loop?.stop();
      await Promise.allSettled([...underWay]);
      led = new Map();
      try {
        await lease.release();
      } catch (err) {
        log.warn({ err, owner }, 'leases could not be ended: they run out by themselves');
      }
    },
    leads() {
      return new Map([...led].filter(([event, term]) => lease.termOf(event) === term));
    },
    doneSince(event, since) {
      return tasks.every(({ name }) => {
        const run = runs.get(`${event}:${name}`);
        return run?.term === led.get(event) && run?.succeededAt != null && run.succeededAt >= since;
      });
    },
  };
}
