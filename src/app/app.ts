import os from 'node:os';
import path from 'node:path';
import { createEvents, type Events } from '../catalogue/events.ts';
import { createCheckout } from '../checkout/checkout.ts';
import { createInbox } from '../checkout/inbox.ts';
import { createReconciler } from '../checkout/reconcile.ts';
import { reportPath, reportProvider } from '../controller/path-signals.ts';
import { signTicketCode } from '../fulfilment/ticket-code.ts';
import { readiness } from '../health/readiness.ts';
import { recordProxy } from '../health/undeclared-proxies.ts';
import { createAccessCodes } from '../http/access-codes.ts';
import { createAccountTokens } from '../http/account-token.ts';
import { createClientAddresses } from '../http/client-address.ts';
import type { HttpDeps } from '../http/deps.ts';
import { registerMailbox } from '../http/mailbox.ts';
import { registerGates, registerOrganiser } from '../http/organiser.ts';
import { registerOrganiserExports } from '../http/organiser-exports.ts';
import { createOrganiserSessions } from '../http/organiser-sessions.ts';
import { createPathMeter } from '../http/path-meter.ts';
import { createPlanDesk } from '../http/plan-desk.ts';
import { buildServer, type App as Scope } from '../http/server.ts';
import { registerTicketDocument } from '../http/ticket-document.ts';
import type { Arbiter } from '../inventory/arbiter.ts';
import { lookAtCode } from '../orders/access-codes.ts';
import { isExcepted } from '../orders/limits.ts';
import { createSalesRecord } from '../orders/orders-record.ts';
import { ticketsOfOrder } from '../orders/tickets.ts';
import type { PaymentProvider } from '../payments/provider.ts';
import { createDb, type Db } from '../postgres/db.ts';
import { newerFunctionsText } from '../postgres/functions.ts';
import { installationOf } from '../postgres/installation.ts';
import { migrate } from '../postgres/migrate.ts';
import { startPostgres } from '../postgres/server.ts';
import { postgresAnswers } from '../postgres/wait.ts';
import { createPublishedReader } from '../read-path/published-reader.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Config } from '../runtime/config.ts';
import { freeHttpPort } from '../runtime/http-port.ts';
import type { Logger } from '../runtime/log.ts';
import { createLoops, type Loops } from '../runtime/loops.ts';
import { projectDir } from '../runtime/project-dir.ts';
import type { Random } from '../runtime/random.ts';
import { createShutdown, type Shutdown } from '../runtime/shutdown.ts';
import { madeOrStoredSecret, storedSecret } from '../runtime/stored-secret.ts';
import { createCredentials } from '../waiting-room/credentials.ts';
import { createJoinBatcher } from '../waiting-room/join-batcher.ts';
import { startController } from './controller.ts';
import { openDocuments, startFulfilment } from './fulfilment.ts';
import { startHealthReports } from './health.ts';
import { startCooldowns, startLimitTasks } from './limits.ts';
import { openPayments } from './payments.ts';
import { openRefunds } from './refunds.ts';
import {
  type ArbiterOptions,
  announcingEvents,
  type HoldsReader,
  holdsReader,
  knownRedis,
  type NumbersReader,
  numbersReader,
  openArbiters,
  openRedisStores,
  openRoom,
  ownKeys,
  startConfiguredRedis,
} from './stores.ts';
import { openTicketKeys } from './ticket-keys.ts';
import { startWebhooks } from './webhooks.ts';

export { stripeProvider } from './payments.ts';

export const roles = ['web', 'controller', 'worker'] as const;
export type Role = (typeof roles)[number];

export interface Runtime {
  clock: Clock;
  random: Random;
  log: Logger;
}

export interface AppOptions extends Runtime {
  /** All of them unless told otherwise. */
  roles?: readonly Role[];
  /** Called with one line at a time about the progress, for the person who waits. */
  onProgress?: (line: string) => void;
  /** Stops what was started; the caller's, so that signals reach it from the first moment on. */
  shutdown?: Shutdown;
  /** Replaces parts, for tests: a proxy that counts calls, an arbiter that grants everything. */
  replace?: { arbiter?: (made: Arbiter) => Arbiter; provider?: (made: PaymentProvider) => PaymentProvider };
}

export interface App {
  /** The address that buyers see; without the web role, null. */
  url: string | null;
  db: Db;
  events: Events;
  databaseUrl: string;
  organiser: Organiser;
  /** The simulator's page, where it takes the payments. */
  simulatorUrl: string | null;
  /** The local mailbox's page, where it takes the mails. */
  mailboxUrl: string | null;
  stop(): Promise<void>;
}

interface Organiser {
  email: string;
  password: string;
  /** `made`: in this very start. Otherwise it is in the file, or set by ONSALE_ORGANISER_PASSWORD (`environment`). */
  passwordFrom: 'made' | 'file' | 'environment';
}

const passwordFile = 'organiser-password';

/** A reason that keeps the program from starting, as a sentence for the person who started it. */
export class StartProblem extends Error {
  override readonly name = 'StartProblem';
}

/** A stop was requested before the start was done. */
export class StartInterrupted extends Error {
  override readonly name = 'StartInterrupted';
}

/** Connections: of the server's 100 some are left for the command line and the operator. */
const poolSizes = { web: 24, controller: 6, watch: 3, organiser: 3, fulfilment: 3 };
/**
 * Connections of the thread of seating plans (http/plan-worker.ts), and of the job worker and its queue (app/job-worker.ts).
 */
const ownConnections = { plans: 2, jobs: 8 };
const organiserStatementMs = 120_000;

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
/** Requests under way when a stop begins: a payment waits for the provider. */
const answersWithinMs = 15_000;

/** Puts the parts together, bottom up; what was opened last is closed first. */
export async function createApp(config: Config, options: AppOptions): Promise<App> {
  const shutdown = options.shutdown ?? createShutdown(options);
  try {
    return await assemble(config, options, shutdown);
  } catch (error) {
    // A part that was stopped in the meantime fails for that reason alone.
    if (shutdown.requested.aborted) throw new StartInterrupted('stopped while starting', { cause: error });
    await shutdown.stop('the start failed');
    throw error;
  }
}

async function assemble(config: Config, options: AppOptions, shutdown: Shutdown): Promise<App> {
  const { clock, random, log, onProgress = () => {} } = options;
  const started = new Set<Role>(options.roles ?? roles);
  const loops = createLoops({ clock, random, log, shutdown });
  // Each takes a second or two, and none needs another.
  const opening = openPayments(config, options, shutdown);
  opening.catch(() => {});
  const openingRedis = startConfiguredRedis(config, options, shutdown).catch((error: Error) => {
    throw new StartProblem(error.message, { cause: error });
  });
  openingRedis.catch(() => {});
  const databaseUrl = await openDatabase(config, options, shutdown);
  await migrateTo(databaseUrl, onProgress);

  const pool = (name: string, poolSize: number, statementTimeoutMs?: number): Db => {
    const applicationName = `onsale ${name}`;
    const db = createDb({ url: databaseUrl, poolSize, clock, log, applicationName, statementTimeoutMs });
    shutdown.add(`database connections (${name})`, () => db.close());
    return db;
  };
  const db = pool('web', poolSizes.web);
  const payments = await opening;
  payments.markWith(await installationOf(db));
  const owner = `${os.hostname()}/${process.pid}/${random.uuid().slice(0, 8)}`;
  const settings = await ownKeys(db, await openingRedis);
  const redis = openRedisStores(settings, options);
  shutdown.add('connections to Redis', () => redis.close());
  const secret = signingSecret(config, random);
  const credentials = createCredentials({ secret, random, clock });
  const madeEvents = createEvents({ db, clock });
  let look: NonNullable<ArbiterOptions['onLoss']> = () => {};
  const made = openArbiters({
    db,
    events: madeEvents,
    redis,
    reporter: owner,
    onLoss: (event, partition) => look(event, partition),
    clock,
    log,
  });
  const arbiter = options.replace?.arbiter?.(made.arbiter) ?? made.arbiter;
  const events = announcingEvents(madeEvents, arbiter, log);
  const { room } = openRoom({ db, redis, owner, clock, log });
  const record = createSalesRecord({ db });
  const refundServices = openRefunds({
    db,
    record,
    provider: payments.provider,
    arbiter,
    events,
    redisHolds: holdsReader(redis),
    owner: processName(config, random),
    clock,
    random,
    log,
  });
  let onProviderEvent = (): void => {};
  const checkout = createCheckout({
    record,
    arbiter,
    provider: payments.provider,
    refunds: refundServices.refunds,
    orderIdOf: credentials.orderIdOf,
    owner: processName(config, random),
    onProviderEvent: () => onProviderEvent(),
    clock,
    random,
    log,
  });
  const organiser = organiserOf(config, random);
  await redis.connected();
  startHealthReports({ db, process: owner, roles: [...started], loops, clock, shutdown });

  if (started.has('worker')) {
    createReconciler({ record, checkout, clock, log }).start(loops);
    refundServices.cancelEvent.start(loops);
    onProviderEvent = createInbox({ record, payments: checkout.payments, clock, log }).start(loops).wake;
    const { provider } = payments;
    const eventsKeptDays = config.providerEventsKeptDays;
    const limits = { provider, record, owner: processName(config, random), eventsKeptDays };
    startLimitTasks({ db, clock, log, loops, ...limits });
  }
  reportEverySecond(loops, 'report calls to the payment provider', payments.meter, (window) =>
    reportProvider(db, owner, window),
  );
  if (started.has('controller')) {
    const leaderDb = pool('controller', poolSizes.controller);
    const line = openRoom({ db: leaderDb, redis, owner, clock, log });
    const { timeZone } = config;
    const payment = payments.page;
    const watchDb = pool('watch', poolSizes.watch);
    const { providerCallsPerSecond } = config;
    const own = {
      db: leaderDb,
      watchDb,
      redis,
      owner,
      payment,
      timeZone,
      providerCallsPerSecond,
      shutdown,
      loops,
    };
    ({ look } = startController({ ...options, ...line, ...own }));
  }
  const signs = started.has('web') || started.has('worker');
  const { ticketKey, ticketKeys } = await openTicketKeys(config, { db, clock, log, signs });
  const documents = openDocuments(config, { db, events, ticketKey, clock, shutdown });
  const fulfil = (publicUrl: string): void => {
    if (!started.has('worker')) return;
    const own = { db: pool('fulfilment', poolSizes.fulfilment), shutdown, loops };
    startFulfilment(config, { ...options, ...own, databaseUrl, signingSecret: secret, publicUrl });
    startWebhooks(config, { ...options, ...own });
  };
  if (!started.has('web')) {
    const { host, port, publicUrl } = config.http;
    fulfil(publicUrl ?? `http://${urlHost(host)}:${port ?? 3000}`);
    return {
      url: null,
      db,
      events,
      databaseUrl,
      organiser,
      simulatorUrl: payments.simulatorUrl,
      mailboxUrl: null,
      stop: () => stopAll(shutdown),
    };
  }

  const pathMeter = createPathMeter({ clock });
  const published = createPublishedReader({ db, events, clock });
  await published.start(loops);

  const port = await freeHttpPort(config.http.host, config.http.port);
  const listening = `http://${urlHost(config.http.host)}:${port}`;
  const url = config.http.publicUrl ?? listening;
  const { accountSecret } = config;
  const accountTokens =
    accountSecret === undefined ? undefined : createAccountTokens({ secret: accountSecret, clock });
  const { trustProxy } = config.http;
  const clients = createClientAddresses({ trustProxy, clock, log, record: (seen) => recordProxy(db, seen) });
  const deps: HttpDeps = {
    clock,
    random,
    log,
    accountTokens,
    publicUrl: () => url,
    timeZone: config.timeZone,
    trustProxy: typeof trustProxy === 'object' ? [...trustProxy] : trustProxy,
    clients,
    webDir: path.join(projectDir, 'dist/web'),
    paymentOrigins: payments.origins,
    credentials,
    events,
    published,
    room,
    joins: createJoinBatcher({ room, clock }),
    arbiter,
    checkout,
    provider: payments.provider,
    accessCodes: createAccessCodes({
      clients,
      credentials,
      clock,
      closing: shutdown.requested,
      publicUrl: () => url,
      look: (event, code) => lookAtCode(db, event, code),
    }),
    operations: (order) => record.operationsOf(order),
    refundsOf: (order) => refundServices.refundRecord.ofOrder(order),
    returnedOf: (order) => refundServices.refundRecord.returned(order),
    reversalsOf: (order) => refundServices.reversals.ofOrder(order),
    cooldowns: await startCooldowns({ db, clock, log, shutdown, loops }),
    isExcepted: (event, holder, visitor) => isExcepted(db, event, holder, visitor),
    tickets: async ({ eventNo, order }) =>
      (await ticketsOfOrder(db, eventNo, order)).map(({ ticket, seat }) => ({
        ticket,
        seat,
        code: signTicketCode(ticketKey, { ticket, event: eventNo, seat }),
      })),
    ready: readiness({ db, published, provider: payments.provider, redis, clock }),
  };
  const planDesk = createPlanDesk({ databaseUrl, logLevel: config.logLevel, clock });
  shutdown.add('seating plans', () => planDesk.close());
  const organiserDeps = {
    namesAccounts: accountTokens !== undefined,
    clients,
    planDesk,
    log,
    closing: shutdown.requested,
    hasMailbox: config.mail.mailbox,
    db: pool('organiser', poolSizes.organiser, organiserStatementMs),
    events,
    clock,
    random,
    account: organiser,
    https: url.startsWith('https://'),
    published: published.get,
    arbiter,
    refundServices,
    ticketKeys,
    webhookAddresses: config.webhooks,
    redisServers: settings.servers.map(({ name }) => name),
  };
  const organisers = createOrganiserSessions(organiserDeps);
  const signedIn = organisers.require;
  // Gates do not wait behind a plan that is being published.
  const gates = createOrganiserSessions({ ...organiserDeps, db });
  const server = await buildServer({ ...deps, pathMeter }, [
    organisers.guarding((scope) => registerOrganiser(scope, organiserDeps)),
    organisers.guarding((scope) => {
      const exporting = { ...organiserDeps, url: databaseUrl, dataDir: config.dataDir, ticketKey };
      registerOrganiserExports(scope, exporting, signedIn);
    }),
    gates.guarding(async (scope) => registerGates(scope, { ...organiserDeps, db })),
    (scope) => registerTicketDocument(scope, { ...deps, ticketDocument: documents.ofOrder }),
    ...(config.mail.mailbox ? [(scope: Scope) => registerMailbox(scope, { db, signedIn })] : []),
  ]);
  shutdown.add('web server', () => server.close(), answersWithinMs);
  try {
    await server.listen({ host: config.http.host, port });
  } catch (error) {
    throw new StartProblem(`Port ${port} cannot be listened on: ${(error as Error).message}`);
  }
  await payments.webhooksTo(`${listening}/api/webhooks/stripe`);
  fulfil(url);
  reportEverySecond(loops, 'report response times', pathMeter, (window) =>
    reportPath(db, processName(config, random), window),
  );
  return {
    url,
    db,
    events,
    databaseUrl,
    organiser,
    simulatorUrl: payments.simulatorUrl,
    mailboxUrl: config.mail.mailbox ? `${listening}/dev/mail` : null,
    stop: () => stopAll(shutdown),
  };
}

/** Reports this process's measurements of the last seconds, for the admission rate. */
function reportEverySecond<Window>(
  loops: Loops,
  name: string,
  meter: { window(): Window | null },
  report: (window: Window) => Promise<void>,
): void {
  loops.run({
    name,
    everyMs: 1_000,
    waitsFirst: true,
    turn: async () => {
      const window = meter.window();
      if (window) await report(window);
    },
  });
}

async function stopAll(shutdown: Shutdown): Promise<void> {
  await shutdown.stop('asked to');
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

function signingSecret(config: Config, random: Random): Uint8Array {
  return Buffer.from(config.secret ?? storedSecret(config.dataDir, 'secret', random));
}

function organiserOf(config: Config, random: Random): Organiser {
  const { email, password } = config.organiser;
  if (password !== undefined) return { email, password, passwordFrom: 'environment' };
  const { secret, isNew } = madeOrStoredSecret(config.dataDir, passwordFile, random, 12);
  return { email, password: secret, passwordFrom: isNew ? 'made' : 'file' };
}

/** Where the password is, for people: it is printed only by the start that made it. */
export function passwordPlace(config: Config, { passwordFrom }: Pick<Organiser, 'passwordFrom'>): string {
  if (passwordFrom === 'environment') return 'set by ONSALE_ORGANISER_PASSWORD';
  const file = path.join(config.dataDir, passwordFile);
  const relative = path.relative(process.cwd(), file);
  return `in the file ${relative.startsWith('..') ? file : relative}`;
}

/**
 * The name stays the same after a restart, so that what the former run of this process was about to do is
 * continued at once.
 */
function processName(config: Config, random: Random): string {
  return `${os.hostname()}/${storedSecret(config.dataDir, 'process-name', random, 9)}`;
}

function urlHost(host: string): string {
  if (host === '0.0.0.0' || host === '::') return 'localhost';
  return host.includes(':') ? `[${host}]` : host;
}
