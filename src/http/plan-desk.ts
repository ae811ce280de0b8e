import path from 'node:path';
import type { PublishOutcome } from '../catalogue/plans.ts';
import type { PrepareOutcome } from '../catalogue/replan.ts';
import type { PlanProblem } from '../core/plan-report.ts';
import { problem } from '../core/problems.ts';
import type {
  ImportAnswer,
  ImportCommand,
  ImportProgress,
  PlanWork,
  PublishCommand,
} from '../operate/plan-work.ts';
import type { EventRecord } from '../orders/record.ts';
import type { Clock } from '../runtime/clock.ts';
import { createThread, ThreadBusy, ThreadEnded } from '../runtime/thread.ts';

/**
 * Runs the organiser's work with whole seating plans in its own thread with its own database connection, because a plan of
 * 200,000 seats takes seconds of computing and this process serves buyers. One request runs at a time, a few wait, and
 * more are rejected with `busy`.
 */
export interface PlanDesk extends PlanWork {
  close(): Promise<void>;
}

export type PlanRequest =
  | { task: 'import'; command: ImportCommand }
  | { task: 'publish'; command: PublishCommand }
  | { task: 'replan'; command: { event: EventRecord; plan: string } };

export interface PlanThreadData {
  databaseUrl: string;
  logLevel: string;
}

/** Running and waiting together. Each may hold a file of 64 MB. */
const waitingMax = 4;
/** Far more than the largest plan takes on a busy machine. */
const answerMaxMs = 3 * 60_000;
/** Limits the thread's JavaScript heap, so that a hostile file ends the thread instead of the process. */
const heapMegabytes = 2_048;

export function createPlanDesk(options: PlanThreadData & { clock: Clock }): PlanDesk {
  const { clock, ...workerData } = options;
  const thread = createThread<PlanRequest, unknown, ImportProgress>({
    file: path.join(import.meta.dirname, 'plan-worker'),
    workerData: workerData satisfies PlanThreadData,
    waitingMax,
    answerMaxMs,
    resourceLimits: { maxOldGenerationSizeMb: heapMegabytes },
    clock,
  });

  async function ask<Answer>(
    request: PlanRequest,
    onProgress?: (step: ImportProgress) => void,
  ): Promise<Answer> {
    try {
      return (await thread.ask(request, onProgress)) as Answer;
    } catch (error) {
      throw error instanceof ThreadBusy ? busy() : error;
    }
  }

  async function importPlan(
    command: ImportCommand,
    onProgress: (step: ImportProgress) => void,
  ): Promise<ImportAnswer> {
    try {
      return await ask<ImportAnswer>({ task: 'import', command }, onProgress);
    } catch (error) {
      if (!(error instanceof ThreadEnded)) throw error;
      return { kind: 'refused', problems: [tooHeavy], problemCount: 1 };
    }
  }

  return {
    importPlan,
    publish: (command) => ask<PublishOutcome>({ task: 'publish', command }),
    prepareReplan: (event, plan) => ask<PrepareOutcome>({ task: 'replan', command: { event, plan } }),
    admit() {
      if (thread.waiting() >= waitingMax) throw busy();
    },
    close: () => thread.close(),
  };
}

const tooHeavy: PlanProblem = {
  code: 'too_heavy',
  sentence: `The file could not be read within ${heapMegabytes / 1_024} GB of memory and ${answerMaxMs / 60_000} minutes; split the plan.`,
  place: 'line 1',
};

function busy() {
  return problem('busy', {
    detail: 'Other seating plans are being read at this moment. Nothing was changed. Try again in a moment.',
    retryAfterMs: 5_000,
  });
}
