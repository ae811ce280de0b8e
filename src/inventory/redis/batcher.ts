import { assert } from '../../core/outcome.ts';
import type { Clock } from '../../runtime/clock.ts';
import { StoreFault } from '../../runtime/store-fault.ts';

/** Requests of one kind to one partition, gathered into calls; each still has its own answer. */
export interface Batcher<Request, Answer> {
  /** `line`: what may share a call. Answers in the order asked; rejects with the fault of its call. */
  ask(line: string, request: Request): Promise<Answer>;
}

export interface BatcherOptions<Request, Answer> {
  clock: Pick<Clock, 'after'>;
  /** One call; an answer for each request, in order. */
  send(requests: Request[]): Promise<Answer[]>;
  /** How much of a call a request takes up, in seats looked at: a call must not keep Redis from others for long. */
  weightOf(request: Request): number;
  requestsMax?: number;
}

/** Claims in one call share its fixed cost (bench `arbiter`). A larger batch only makes the others wait. */
const requestsPerCall = 64;
const weightPerCall = 2_048;
/** Enough to keep Redis busy; more would only wait there, on the time that a call may take. */
const callsPerLine = 4;
/** Asked and unanswered in this process at most: more could not be answered before its callers give up. */
const waitingMax = 20_000;

interface Waiting<Request, Answer> {
  request: Request;
  weight: number;
  resolve(answer: Answer): void;
  reject(fault: unknown): void;
}
interface Line<Request, Answer> {
  waiting: Waiting<Request, Answer>[];
  calls: number;
  /** Sending is planned. */
  due: boolean;
}

/**
 * While no call is under way, a request is sent at once, with all others of the same event-loop turn. While calls are under
 * way, requests are collected for one tick or until they fill a call. Several calls of a line may be under way, and Redis
 * runs them in the order sent.
 */
export function createBatcher<Request, Answer>(
  options: BatcherOptions<Request, Answer>,
): Batcher<Request, Answer> {
  const { clock, send, weightOf, requestsMax = requestsPerCall } = options;
  const lines = new Map<string, Line<Request, Answer>>();
  let unanswered = 0;

  function nextBatch(line: Line<Request, Answer>): Waiting<Request, Answer>[] {
    let weight = 0;
    let count = 0;
    for (const one of line.waiting) {
      weight += one.weight;
      if (count === requestsMax || (count > 0 && weight > weightPerCall)) break;
      count += 1;
    }
    return line.waiting.splice(0, count);
  }

  async function run(batch: Waiting<Request, Answer>[]): Promise<void> {
    try {
      const answers = await send(batch.map((one) => one.request));
      assert(answers.length === batch.length, 'each request of a call has its answer');
      batch.forEach((one, index) => {
        one.resolve(answers[index]!);
      });
    } catch (fault) {
      for (const one of batch) one.reject(fault);
    }
  }

  function flush(name: string, line: Line<Request, Answer>): void {
    line.due = false;
    while (line.waiting.length > 0 && line.calls < callsPerLine) {
      const batch = nextBatch(line);
      line.calls += 1;
      void run(batch).finally(() => {
        line.calls -= 1;
        unanswered -= batch.length;
        if (line.waiting.length > 0 && (!line.due || line.calls === 0)) flush(name, line);
        else if (line.calls === 0 && line.waiting.length === 0) lines.delete(name);
      });
    }
  }

  function plan(name: string, line: Line<Request, Answer>): void {
    if (line.due) return;
    line.due = true;
    const go = () => {
      if (line.due) flush(name, line);
    };
    if (line.calls === 0) queueMicrotask(go);
    else clock.after(0, go);
  }

  return {
    ask(name, request) {
      if (unanswered >= waitingMax) {
        return Promise.reject(new StoreFault('store_busy', `${waitingMax} requests are unanswered`));
      }
      const line = lines.get(name) ?? { waiting: [], calls: 0, due: false };
      lines.set(name, line);
      unanswered += 1;
      return new Promise((resolve, reject) => {
        line.waiting.push({ request, weight: weightOf(request), resolve, reject });
        if (line.waiting.length >= requestsMax && line.calls > 0) flush(name, line);
        else plan(name, line);
      });
    },
  };
}
