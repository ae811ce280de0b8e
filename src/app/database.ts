import { createEvents } from '../catalogue/events.ts';
import type { Arbiter } from '../inventory/arbiter.ts';
import type { Db } from '../postgres/db.ts';
import { newerFunctionsText } from '../postgres/functions.ts';
import { migrate } from '../postgres/migrate.ts';
import { startPostgres } from '../postgres/server.ts';
import { postgresAnswers } from '../postgres/wait.ts';
import type { Config } from '../runtime/config.ts';
import type { Shutdown } from '../runtime/shutdown.ts';
import { type Runtime, StartProblem } from './runtime.ts';
import {
  type HoldsReader,
  holdsReader,
  knownRedis,
  type NumbersReader,
  numbersReader,
  openArbiters,
  openRedisStores,
  ownKeys,
} from './stores.ts';

/** Connections: of the server's 100 some are left for the command line and the operator. */
export const poolSizes = { web: 24, controller: 6, watch: 3, organiser: 3, fulfilment: 3 };
/**
 * Connections of the thread of seating plans (http/plan-worker.ts), and of the job worker and its queue (app/job-worker.ts).
 */
const ownConnections = { plans: 2, jobs: 8 };
export const organiserStatementMs = 120_000;

/**
 * Connections to Postgres that processes with these roles open at most, all together. They open them as
 * they need them.
 */
export function connectionsMaxOf(processes: readonly (readonly string[])[]): number {
  const { web, controller, watch, organiser, fulfilment } = poolSizes;
  const ofRole: Record<string, number> = {
    web: organiser + ownConnections.plans,
    controller: controller + watch,
    worker: fulfilment + ownConnections.jobs,
  };
  return processes.reduce(
    (sum, roles) => roles.reduce((own, role) => own + (ofRole[role] ?? 0), sum + web),
    0,
  );
}

/** Starts the embedded server, or waits for the operator's own. */
export async function openDatabase(
  config: Config,
  runtime: Runtime & { onProgress?: (line: string) => void },
  shutdown: Shutdown,
): Promise<string> {
  const { database } = config;
  if (database.kind === 'external') {
    const { url } = database;
    await postgresAnswers({ ...runtime, url, signal: shutdown.requested });
    return url;
  }
  runtime.onProgress?.('Starting the database …');
  const server = await startPostgres({
    dataDir: database.dataDir,
    fallbackDir: database.fallbackDir,
    durable: true,
    ...runtime,
    onFailure: () => void shutdown.stop('the database is gone'),
  });
  shutdown.add('database', () => server.stop(), 20_000);
  await server.ensureDatabase('onsale');
  return server.url('onsale');
}

/** Opens the arbiter for a command that runs at the same time as the servers, over the same stores. */
export async function openArbiter(
  db: Db,
  config: Config,
  runtime: Runtime,
): Promise<{ arbiter: Arbiter; redisHolds: HoldsReader; numbers: NumbersReader; close(): Promise<void> }> {
  const { clock, log, random } = runtime;
  const known = await ownKeys(db, await knownRedis(config));
  const redis = openRedisStores(known, runtime);
  await redis.connected();
  const reporter = `cli/${random.uuid().slice(0, 8)}`;
  const events = createEvents({ db, clock });
  const { arbiter } = openArbiters({ db, events, redis, reporter, clock, log });
  return {
    arbiter,
    redisHolds: holdsReader(redis),
    numbers: numbersReader(redis),
    close: () => redis.close(),
  };
}

export async function migrateTo(databaseUrl: string, onProgress: (line: string) => void): Promise<void> {
  const outcome = await migrate(databaseUrl, (file) => onProgress(`Migrating: ${file}`));
  if (outcome.kind === 'newer') {
    throw new StartProblem(
      `The database has schema ${outcome.databaseVersion}, this program knows ${outcome.programVersion}: it is older. Start the newer program.`,
    );
  }
  if (outcome.kind === 'changed') {
    throw new StartProblem(
      `The migration ${outcome.file} is not the one that this database was made with. Restore the file, or begin with an empty database (without DATABASE_URL: move the data folder away, .data or what ONSALE_DATA_DIR names).`,
    );
  }
  if (outcome.kind === 'too_old') {
    throw new StartProblem(
      `The database was made by a development version (schema ${outcome.databaseVersion}) that this program cannot carry over: begin with an empty database (without DATABASE_URL: move the data folder away, .data or what ONSALE_DATA_DIR names).`,
    );
  }
  const { functions } = outcome;
  if (functions.kind === 'applied') onProgress('Applied the functions of functions/.');
  if (functions.kind === 'newer')
    onProgress(newerFunctionsText(functions.databaseProgram, functions.program));
}
