import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { parentPort, type ResourceLimits, Worker } from 'node:worker_threads';
import type { Clock } from './clock.ts';
import { StoreFault } from './store-fault.ts';

/**
 * A worker thread that answers requests one after the other, for computing that would keep this process from its buyers. It
 * starts with the first request, and again with the next one after it failed.
 */
export interface Thread<Request, Answer, Progress = never> {
  /**
   * Rejects with `ThreadBusy` when too many wait, with `ThreadEnded` when the request ended the thread, and with a `StoreFault`
   * or an `Error` when the request failed.
   */
  ask(request: Request, onProgress?: (progress: Progress) => void): Promise<Answer>;
  /** Requests that wait or run now. */
  waiting(): number;
  close(): Promise<void>;
}

export interface ThreadOptions {
  /** Module without its extension; it calls `serveThread`. */
  file: string;
  workerData: unknown;
  /** Requests that wait or run at once. */
  waitingMax: number;
  /** A request that takes longer, its wait for the requests before it included, ends the thread. */
  answerMaxMs: number;
  resourceLimits?: ResourceLimits;
  clock: Clock;
}

/** Too many requests are waiting for the thread. */
export class ThreadBusy extends Error {
  override readonly name = 'ThreadBusy';
}

/** The thread ended while it worked on this request: it ran out of memory or of time, or it crashed. */
export class ThreadEnded extends Error {
  override readonly name = 'ThreadEnded';
}

interface Failure {
  message: string;
  /** Set for a `StoreFault`. */
  code?: StoreFault['code'];
}
type Message =
  | { id: number; progress: unknown }
  | { id: number; answer: unknown }
  | { id: number; failure: Failure };

interface Asked {
  resolve(answer: unknown): void;
  reject(error: Error): void;
  onProgress?: (progress: never) => void;
}

export function createThread<Request, Answer, Progress = never>(
  options: ThreadOptions,
): Thread<Request, Answer, Progress> {
  const { waitingMax, answerMaxMs, clock } = options;
  const waiting = new Map<number, Asked>();
  let worker: Worker | undefined;
  let last = 0;

  function begin(): Worker {
    const thread = startWorker(options);
    thread.unref();
    thread.on('message', (message: Message) => {
      const asked = waiting.get(message.id);
      if ('progress' in message) return asked?.onProgress?.(message.progress as never);
      waiting.delete(message.id);
      if ('answer' in message) asked?.resolve(message.answer);
      else asked?.reject(errorOf(message.failure));
    });
    // The first of those that wait was being worked on; the others can be asked again.
    const end = (reason: string): void => {
      if (worker !== thread) return;
      worker = undefined;
      const [running, ...others] = waiting.values();
      waiting.clear();
      const sentence = `the thread ${path.basename(options.file)} ended: ${reason}`;
      running?.reject(new ThreadEnded(sentence));
      for (const asked of others) asked.reject(new ThreadBusy(sentence));
    };
    thread.on('error', (error) => end(error.message));
    thread.on('exit', (code) => end(`exit code ${code}`));
    return thread;
  }

  async function ask(request: Request, onProgress?: (progress: Progress) => void): Promise<Answer> {
    if (waiting.size >= waitingMax) throw new ThreadBusy(`${waiting.size} requests are waiting`);
    worker ??= begin();
    last += 1;
    const id = last;
    const answer = new Promise<unknown>((resolve, reject) => {
      waiting.set(id, { resolve, reject, onProgress: onProgress as Asked['onProgress'] });
    });
    worker.postMessage({ id, request });
    // The thread runs one request at a time, so a request that hangs would keep all others waiting.
    const inTime = clock.after(answerMaxMs, () => void worker?.terminate());
    return (await answer.finally(inTime)) as Answer;
  }

  return {
    ask,
    waiting: () => waiting.size,
    async close() {
      await worker?.terminate();
    },
  };
}

/** The thread's side: answers each request with what `answer` returns, in the order in which they came. */
export function serveThread<Request, Answer, Progress = never>(
  answer: (request: Request, onProgress: (progress: Progress) => void) => Promise<Answer>,
): void {
  const port = parentPort;
  if (!port) throw new Error('not started as a thread');
  let turn: Promise<void> = Promise.resolve();
  const serve = async (id: number, request: Request): Promise<void> => {
    try {
      const result = await answer(request, (progress) =>
        port.postMessage({ id, progress } satisfies Message),
      );
      port.postMessage({ id, answer: result } satisfies Message);
    } catch (error) {
      const { message } = error as Error;
      const failure = error instanceof StoreFault ? { message, code: error.code } : { message };
      port.postMessage({ id, failure } satisfies Message);
    }
  };
  port.on('message', ({ id, request }: { id: number; request: Request }) => {
    turn = turn.then(() => serve(id, request));
  });
}

function errorOf({ message, code }: Failure): Error {
  return code === undefined ? new Error(message) : new StoreFault(code, message);
}

/**
 * Uncompiled sources need their loader in the thread too, because Node does not apply the command line's
 * loader there.
 */
function startWorker({ file, workerData, resourceLimits }: ThreadOptions): Worker {
  const language = path.extname(import.meta.filename);
  if (language !== '.ts') return new Worker(`${file}${language}`, { workerData, resourceLimits });
  const [loader, program] = [import.meta.resolve('tsx/esm/api'), pathToFileURL(`${file}.ts`).href];
  const start = `import('${loader}').then(({ register }) => { register(); return import('${program}'); });`;
  return new Worker(start, { eval: true, workerData, resourceLimits });
}
