import { workerData } from 'node:worker_threads';
import { createPlanWork, type ImportProgress } from '../operate/plan-work.ts';
import { createDb } from '../postgres/db.ts';
import { systemClock } from '../runtime/clock.ts';
import { createLogger } from '../runtime/log.ts';
import { serveThread } from '../runtime/thread.ts';
import type { PlanRequest, PlanThreadData } from './plan-desk.ts';

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

const work = createPlanWork(db);

serveThread<PlanRequest, unknown, ImportProgress>(({ task, command }, onProgress) => {
  switch (task) {
    case 'import':
      return work.importPlan(command, onProgress);
    case 'publish':
      return work.publish(command);
    case 'replan':
      return work.prepareReplan(command.event, command.plan);
  }
});
