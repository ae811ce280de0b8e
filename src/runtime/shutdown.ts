import { setMaxListeners } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import type { Clock } from './clock.ts';
import type { Logger } from './log.ts';
import { watchNpm } from './parent-watch.ts';
import { within } from './within.ts';

/** How the process may end: the command line turns it into an exit code. */
export type ShutdownEnd =
  /** Every closer finished; `failed` names those that threw. */
  | { kind: 'closed'; failed: string[] }
  /** A second signal: the rest was not waited for. */
  | { kind: 'forced'; open: string[] }
  | { kind: 'timed_out'; open: string[] };

export interface Shutdown {
  /** Aborted as soon as stopping begins: loops and admissions end on it. */
  readonly requested: AbortSignal;
  /**
   * Closed in the reverse of the order of registration, one after the other: what was opened last uses what was
   * opened before. One that has not ended after `withinMs` (5 s by default) counts as failed, and the next one is closed.
   * The returned function takes the closer out again.
   */
  add(name: string, close: () => Promise<void> | void, withinMs?: number): () => void;
  /**
   * SIGINT, SIGTERM, the terminal's closing (SIGHUP) and the end of the npm that started us begin an orderly stop; a second
   * signal ends the waiting. Returns the removal.
   */
  listen(): () => void;
  /** Repeat calls get the same promise. */
  stop(reason: string): Promise<ShutdownEnd>;
  /** Resolves when a stop has ended, whatever requested it. */
  readonly ended: Promise<ShutdownEnd>;
}

const deadlineDefaultMs = 25_000;
const closeWithinDefaultMs = 5_000;
/** Ctrl-C under npm arrives twice, from the terminal and from npm: that is one wish, not an impatient second. */
export const secondSignalAfterMs = 700;

export function createShutdown(options: {
  clock: Clock;
  log: Logger;
  /** For the whole stop. */
  deadlineMs?: number;
  /** `process`, unless a test plays it. */
  signals?: Pick<NodeJS.EventEmitter, 'on' | 'removeListener'>;
}): Shutdown {
  const { clock, log } = options;
  const signals = options.signals ?? process;
  const requested = new AbortController();
  // Each waiting request also listens to this signal, so the number of listeners is not limited.
  setMaxListeners(0, requested.signal);
  const closers: { name: string; close: () => Promise<void> | void; withinMs: number }[] = [];
  let stopping: Promise<ShutdownEnd> | undefined;
  let startedAt = 0;
  let force: () => void = () => {};
  let settle: (end: ShutdownEnd) => void = () => {};
  const ended = new Promise<ShutdownEnd>((resolve) => {
    settle = resolve;
  });
  const openNames = (): string[] => closers.map(({ name }) => name).reverse();

  const closeAll = async (): Promise<ShutdownEnd> => {
    const failed: string[] = [];
    for (;;) {
      const closer = closers.at(-1);
      if (!closer) return { kind: 'closed', failed };
      try {
        const closed = await within(clock, closer.withinMs, Promise.resolve(closer.close()));
        if (closed === 'late') throw new Error(`no end after ${closer.withinMs} ms`);
      } catch (error) {
        // One that cannot close must not keep the others open.
        failed.push(closer.name);
        log.error({ closer: closer.name, err: error }, 'could not close a part of the program');
      }
      const index = closers.indexOf(closer);
      if (index >= 0) closers.splice(index, 1);
    }
  };

  const stopOnce = async (reason: string): Promise<ShutdownEnd> => {
    log.info({ reason }, 'stopping');
    startedAt = clock.monotonic();
    const forced = new Promise<ShutdownEnd>((resolve) => {
      force = () => resolve({ kind: 'forced', open: openNames() });
    });
    requested.abort(new Error(`stopping: ${reason}`));
    const patience = new AbortController();
    const late = clock.sleep(options.deadlineMs ?? deadlineDefaultMs, patience.signal).then(
      (): ShutdownEnd => ({ kind: 'timed_out', open: openNames() }),
      (): Promise<ShutdownEnd> => new Promise(() => {}),
    );
    const end = await Promise.race([closeAll(), forced, late]);
    patience.abort();
    settle(end);
    return end;
  };

  const stop = (reason: string): Promise<ShutdownEnd> => {
    stopping ??= stopOnce(reason);
    return stopping;
  };

  const onSignal = (name: NodeJS.Signals): void => {
    if (!stopping) void stop(name);
    else if (clock.monotonic() - startedAt >= secondSignalAfterMs) force();
  };

  return {
    requested: requested.signal,
    add: (name, close, withinMs = closeWithinDefaultMs) => {
      const closer = { name, close, withinMs };
      closers.push(closer);
      return () => {
        const index = closers.indexOf(closer);
        if (index >= 0) closers.splice(index, 1);
      };
    },
    listen: () => {
      const names: NodeJS.Signals[] = ['SIGINT', 'SIGTERM'];
      if (!hangupIsIgnored()) names.push('SIGHUP');
      for (const name of names) signals.on(name, onSignal);
      const unwatch = watchNpm(() => void stop('npm is gone'));
      return () => {
        unwatch();
        for (const name of names) signals.removeListener(name, onSignal);
      };
    },
    stop,
    ended,
  };
}

/** Under nohup the process has to survive a hang-up. Listening for the signal would undo that. */
function hangupIsIgnored(): boolean {
  const status = '/proc/self/status';
  const mask = existsSync(status) && /^SigIgn:\s*([\da-f]+)$/m.exec(readFileSync(status, 'utf8'))?.[1];
  return mask ? (BigInt(`0x${mask}`) & 1n) === 1n : false;
}
