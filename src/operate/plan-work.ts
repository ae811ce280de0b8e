import { type PlanSummary, type PublishOutcome, publishEvent, savePlan } from '../catalogue/plans.ts';
import { type PrepareOutcome, prepareReplan } from '../catalogue/replan.ts';
import type { PlanReport } from '../core/plan-report.ts';
import type { EventRecord } from '../orders/record.ts';
import { type ImportOptions, type ImportOutcome, type ImportStep, importPlan } from '../plans/import-plan.ts';
import type { Db } from '../postgres/db.ts';

/** Work with whole seating plans: seconds of computing for a large one, so web processes run it in a thread. */
export interface PlanWork {
  importPlan(command: ImportCommand, onProgress: (step: ImportProgress) => void): Promise<ImportAnswer>;
  publish(command: PublishCommand): Promise<PublishOutcome>;
  prepareReplan(event: EventRecord, plan: string): Promise<PrepareOutcome>;
  /** Throws `busy` if a request would have to be refused now: asked before a large file is read. */
  admit(): void;
}

export interface ImportCommand {
  bytes: Uint8Array;
  options: ImportOptions;
  /** Reports what the file holds and stores nothing. */
  dryRun: boolean;
}
export type ImportProgress = ImportStep | 'storing';
export type ImportAnswer =
  | { kind: 'stored'; plan: PlanSummary; known: boolean }
  | { kind: 'checked'; report: PlanReport }
  | Extract<ImportOutcome, { kind: 'refused' }>;

export interface PublishCommand {
  event: EventRecord;
  actor: string;
  acceptWarnings: boolean;
}

/** In this thread: for the command line, and for the thread of a web process. */
export function createPlanWork(db: Db): PlanWork {
  return {
    async importPlan({ bytes, options, dryRun }, onProgress) {
      const outcome = importPlan(bytes, options, onProgress);
      if (outcome.kind === 'refused') return outcome;
      if (dryRun) return { kind: 'checked', report: outcome.report };
      onProgress('storing');
      const saved = await savePlan(db, outcome.plan, outcome.report);
      return { kind: 'stored', plan: saved.plan, known: saved.kind === 'known' };
    },
    publish: ({ event, ...command }) => publishEvent(db, event, command),
    prepareReplan: (event, plan) => prepareReplan(db, event, plan),
    admit() {},
  };
}
