import type { Clock } from '../runtime/clock.ts';

/** One question on its way. */
export interface Question {
  due: number;
  timedOut: boolean;
  reject(error: Error): void;
}

/** The unanswered questions of one connection, in the order in which they were asked, which is that of the answers. */
export interface Questions {
  readonly count: number;
  /** Since when a question is both timed out and unanswered; undefined: none is. By the monotonic clock. */
  readonly stuckSince: number | undefined;
  ask(timeoutMs: number, reject: (error: Error) => void): Question;
  answered(question: Question): void;
  /** All of them, because the connection has ended. */
  abandon(reason: Error): void;
}

export interface QuestionsOptions {
  clock: Clock;
  timeout: () => Error;
  /** `stuckSince` was set or taken away. */
  onChange(): void;
  /** Looked at now and then while something is unanswered. */
  onTick(): void;
}

/** How often deadlines are looked at, while something is unanswered. */
const tickMs = 20;
/** A tick that comes later than this found our own process busy, not Redis. */
const lateMs = 10;

/** One timer for all questions: one a question would cost more than asking it. */
export function createQuestions({ clock, timeout, onChange, onTick }: QuestionsOptions): Questions {
  const open = new Set<Question>();
  let stuckSince: number | undefined;
  let planned: number | undefined;

  const arm = (): void => {
    if (planned !== undefined || open.size === 0) return;
    planned = clock.monotonic() + tickMs;
    clock.after(tickMs, tick);
  };
  const tick = (): void => {
    const lag = clock.monotonic() - (planned ?? 0);
    planned = undefined;
    // Time in which this process could neither send nor receive is not counted against Redis.
    if (lag > lateMs) for (const question of open) question.due += lag;
    // Answers that have arrived are read between the timers and the immediates, so before this judgement.
    setImmediate(judge);
  };
  const judge = (): void => {
    const now = clock.monotonic();
    for (const question of open) {
      if (question.timedOut || question.due > now) continue;
      question.timedOut = true;
      question.reject(timeout());
      if (stuckSince === undefined) {
        stuckSince = now;
        onChange();
      }
    }
    onTick();
    arm();
  };

  return {
    get count() {
      return open.size;
    },
    get stuckSince() {
      return stuckSince;
    },
    ask: (timeoutMs, reject) => {
      const question = { due: clock.monotonic() + timeoutMs, timedOut: false, reject };
      open.add(question);
      arm();
      return question;
    },
    answered: (question) => {
      open.delete(question);
      if (!question.timedOut || stuckSince === undefined) return;
      // The oldest unanswered one tells whether any timed out before it.
      const [oldest] = open;
      if (oldest?.timedOut) return;
      stuckSince = undefined;
      onChange();
    },
    abandon: (reason) => {
      for (const question of open) question.reject(reason);
      open.clear();
    },
  };
}
