import type { Clock } from './clock.ts';
import type { Logger } from './log.ts';
import type { Random } from './random.ts';
import type { Shutdown } from './shutdown.ts';
import { StoreFault } from './store-fault.ts';

/** Background work of a process: every loop runs here, so that each is supervised and visible in the same way. */

export interface LoopOptions {
  /** Verb phrase that completes "could not …", such as "send webhooks". It is logged and shown to operators. */
  name: string;
  /** Pause after a turn that succeeded, in ms. */
  everyMs: number;
  /**
   * One turn. A rejection is logged and the turn is repeated after a growing pause. `nextMs` replaces the pause that follows.
   * The signal aborts when the loop stops, and when the turn exceeds `lateAfterMs`.
   */
  turn(signal: AbortSignal): Promise<unknown>;
  /** Resolves when all work that turns started without waiting for it has ended. `stop` waits for it. */
  ended?(): Promise<unknown>;
  /** If true, the first turn begins after `everyMs`. */
  waitsFirst?: boolean;
  /** A turn that takes longer than this is reported as hung. In ms, 30 s by default. */
  lateAfterMs?: number;
  /** Longest pause after failures, in ms. `everyMs` by default, but at least 5 s and at most 60 s. */
  retryMaxMs?: number;
}

export interface Loop {
  /** Starts the next turn at once, or directly after the current one. */
  wake(): void;
  /** Resolves when the current turn has ended. */
  stop(): Promise<void>;
}

export type LoopState = 'ok' | 'failing' | 'hung' | 'starting';

export interface LoopHealth {
  name: string;
  state: LoopState;
  /** Time since which the loop has been failing or hung. Epoch ms by this process's clock, like all times here. */
  since: number | null;
  lastSuccessAt: number | null;
  /** Failures in a row. */
  failures: number;
  /** Message of the last failure while the loop fails. It contains no personal data. */
  error: string | null;
}

export interface Loops {
  run(options: LoopOptions): Loop;
  /** Adds the health of work that is not run as a loop: leader tasks, the job worker. */
  observe(read: () => LoopHealth[]): void;
  health(): LoopHealth[];
  /** Stops all loops. Only needed without `shutdown`. */
  stop(): Promise<void>;
}

const lateAfterDefaultMs = 30_000;
const retryFirstMs = 1_000;
const retryMaxDefaultMs = [5_000, 60_000] as const;
/** A repeated failure is logged again after this time. */
const sayAgainMs = 30_000;
/** A hung turn is abandoned after this many times its limit. Turns may overlap: other processes run them at the same time too. */
const giveUpFactor = 3;
/** Limit of abandoned turns that have not ended. At the limit the loop waits: each may hold connections and memory. */
const givenUpMax = 3;
/** A call to the payment provider may be under way when a stop begins. */
const stopWithinMs = 10_000;

export function createLoops(options: {
  clock: Clock;
  /** Spreads the pauses after failures. */
  random: Pick<Random, 'int'>;
  log: Logger;
  /** Stops each loop with the program, in reverse order of starting. */
  shutdown?: Pick<Shutdown, 'add' | 'requested'>;
}): Loops {
  const { shutdown } = options;
  const running = new Set<ReturnType<typeof runLoop>>();
  const others: (() => LoopHealth[])[] = [];
  // Stops all loops together, so that their last turns end at the same time.
  shutdown?.requested.addEventListener('abort', () => {
    for (const { loop } of running) void loop.stop();
  });
  return {
    run(wanted) {
      const created = runLoop(wanted, options);
      running.add(created);
      const stop = async (): Promise<void> => {
        await created.loop.stop();
        running.delete(created);
      };
      shutdown?.add(wanted.name, stop, stopWithinMs);
      return { wake: created.loop.wake, stop };
    },
    observe: (read) => void others.push(read),
    health: () => [...[...running].map(({ health }) => health()), ...others.flatMap((read) => read())],
    async stop() {
      await Promise.all([...running].map(({ loop }) => loop.stop()));
    },
  };
}

function runLoop(
  { name, everyMs, turn, ended, waitsFirst = false, ...limits }: LoopOptions,
  { clock, random, log }: Parameters<typeof createLoops>[0],
): { loop: Loop; health(): LoopHealth } {
  const lateAfterMs = limits.lateAfterMs ?? lateAfterDefaultMs;
  const [atLeast, atMost] = retryMaxDefaultMs;
  const retryMaxMs = limits.retryMaxMs ?? Math.min(atMost, Math.max(atLeast, everyMs));
  let stopped = false;
  let awake = false;
  let nap: AbortController | null = null;
  let present: AbortController | null = null;
  let givenUp = 0;
  let saidAt = Number.NEGATIVE_INFINITY;
  const state: LoopHealth = {
    name,
    state: 'starting',
    since: null,
    lastSuccessAt: null,
    failures: 0,
    error: null,
  };

  function succeeded(): void {
    if (state.failures > 0 || state.state === 'hung') log.info({ loop: name }, 'background work goes on');
    Object.assign(state, { state: 'ok', since: null, lastSuccessAt: clock.now(), failures: 0, error: null });
    saidAt = Number.NEGATIVE_INFINITY;
  }

  function troubled(kind: 'failing' | 'hung', error: unknown): void {
    state.state = kind;
    state.since ??= clock.now();
    state.error = error instanceof Error ? error.message : String(error);
    if (clock.monotonic() - saidAt < sayAgainMs) return;
    saidAt = clock.monotonic();
    const about = { loop: name, failures: state.failures };
    // The message of an unavailable store says everything; our stack trace does not help.
    if (error instanceof StoreFault) log.warn({ ...about, fault: error.message }, `could not ${name}`);
    else log.error({ ...about, err: error }, `could not ${name}`);
  }

  /** Returns the pause until the next turn. */
  async function attempt(): Promise<number> {
    const abort = new AbortController();
    present = abort;
    const limit = timeLimit(abort);
    try {
      // Turns a synchronous throw into a rejection.
      const running = Promise.resolve(abort.signal).then(turn);
      const result = await Promise.race([running, limit.exceeded(running)]);
      succeeded();
      return (result as { nextMs?: number } | undefined)?.nextMs ?? everyMs;
    } catch (error) {
      if (stopped) return 0;
      state.failures += 1;
      troubled('failing', error);
      return pauseAfter(state.failures);
    } finally {
      limit.cancel();
      present = null;
    }
  }

  /** Reports a turn that takes too long as hung and aborts it. Rejects if it does not end after that. */
  function timeLimit(abort: AbortController): {
    exceeded(running: Promise<unknown>): Promise<never>;
    cancel(): void;
  } {
    const late = clock.after(lateAfterMs, () => {
      const error = new Error(`no end after ${lateAfterMs} ms`);
      troubled('hung', error);
      abort.abort(error);
    });
    let giveUp = (): void => {};
    return {
      exceeded: (running) =>
        new Promise((_, reject) => {
          giveUp = clock.after(lateAfterMs * giveUpFactor, () => {
            if (givenUp >= givenUpMax) return;
            givenUp += 1;
            const ended = (): void => {
              givenUp -= 1;
            };
            running.then(ended, ended);
            reject(new Error(`gave up a turn after ${lateAfterMs * giveUpFactor} ms`));
          });
        }),
      cancel() {
        late();
        giveUp();
      },
    };
  }

  /** Doubles with each failure. Random between half and the whole, so that processes do not retry at the same time. */
  function pauseAfter(failures: number): number {
    const pause = Math.min(retryMaxMs, Math.min(everyMs, retryFirstMs) * 2 ** Math.min(failures - 1, 16));
    return Math.round(pause / 2) + random.int(Math.max(1, Math.round(pause / 2)));
  }

  /** Uses one controller for each pause: on Node 20, `AbortSignal.any` leaks if a source signal lives as long as the process. */
  async function pause(ms: number): Promise<void> {
    if (stopped || awake || ms <= 0) return;
    nap = new AbortController();
    await clock.sleep(ms, nap.signal).catch(() => {});
    nap = null;
  }

  async function run(): Promise<void> {
    if (waitsFirst) await pause(everyMs);
    while (!stopped) {
      awake = false;
      await pause(await attempt());
    }
  }

  const running = run();
  return {
    health: () => ({ ...state }),
    loop: {
      wake() {
        awake = true;
        nap?.abort();
      },
      async stop() {
        stopped = true;
        present?.abort(new Error('stopping'));
        nap?.abort();
        await running;
        await ended?.();
      },
    },
  };
}
