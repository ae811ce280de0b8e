import { workerData } from 'node:worker_threads';
import { publishEvent, savePlan } from '../catalogue/plans.ts';
import { prepareReplan } from '../catalogue/replan.ts';
import { importPlan } from '../plans/import-plan.ts';
import { createDb, type Db } from '../postgres/db.ts';
import { systemClock } from '../runtime/clock.ts';
import { createLogger } from '../runtime/log.ts';
import { serveThread } from '../runtime/thread.ts';
import type {
  ImportAnswer,
  ImportCommand,
  ImportProgress,
  PlanRequest,
  PlanThreadData,
} from './plan-desk.ts';

/** The thread behind plan-desk.ts. */
const { databaseUrl, logLevel } = workerData as PlanThreadData;
/** Publishing 200,000 seats takes seconds in Postgres, too. */
const statementTimeoutMs = 120_000;

const db = createDb({
  url: databaseUrl,
  poolSize: 2,
  clock: systemClock,
  log: createLogger(logLevel),
  applicationName: 'onsale plans',
  statementTimeoutMs,
});

serveThread<PlanRequest, unknown, ImportProgress>(({ task, command }, onProgress) => {
  switch (task) {
    case 'import':
      return importAndSave(db, command, onProgress);
    case 'publish':
      return publishEvent(db, command.event, command);
    case 'replan':
      return prepareReplan(db, command.event, command.plan);
  }
});

async function importAndSave(
  db: Db,
  { bytes, options, dryRun }: ImportCommand,
  onProgress: (step: ImportProgress) => void,
): Promise<ImportAnswer> {
  const outcome = importPlan(bytes, options, onProgress);
  if (outcome.kind === 'refused') return outcome;
  if (dryRun) return { kind: 'checked', report: outcome.report };
  onProgress('storing');
  const saved = await savePlan(db, outcome.plan, outcome.report);
  return { kind: 'stored', plan: saved.plan, known: saved.kind === 'known' };
}
