import os from 'node:os';
import path from 'node:path';
import { createCheckout } from './checkout/checkout.ts';
import { createReconciler } from './checkout/reconcile.ts';
import { signTicketCode, storedTicketKey } from './fulfilment/ticket-code.ts';
import type { HttpDeps } from './http/deps.ts';
import { registerOrganiser } from './http/organiser.ts';
import { createPathMeter, type PathMeter } from './http/path-meter.ts';
import { buildServer } from './http/server.ts';
import type { Arbiter } from './inventory/arbiter.ts';
import { createPostgresArbiter } from './inventory/postgres.ts';
import { createPublishTask, createSnapshots, createSweepTask } from './leader-tasks.ts';
import type { PaymentProvider } from './payments/provider.ts';
import { startSimulatorChild } from './payments/simulator/child.ts';
import { createStripeProvider } from './payments/stripe.ts';
import { createPublisher } from './read-path/publish.ts';
import type { EventObject } from './read-path/published.ts';
import { createPublishedReader } from './read-path/published-reader.ts';
import type { Clock } from './runtime/clock.ts';
import type { Config } from './runtime/config.ts';
import { freeHttpPort } from './runtime/http-port.ts';
import type { Logger } from './runtime/log.ts';
import { startPostgres } from './runtime/postgres-server.ts';
import type { Random } from './runtime/random.ts';
import { createShutdown, type Shutdown } from './runtime/shutdown.ts';
import { storedSecret } from './runtime/stored-secret.ts';
import { createDb, type Db } from './sales/db.ts';
import { createEvents, type Events } from './sales/events.ts';
import { migrate } from './sales/migrate.ts';
import { createSalesRecord } from './sales/orders-record.ts';
import { type PathWindow, readPath, reportPath } from './sales/path-signals.ts';
import { ticketsOfOrder } from './sales/tickets.ts';
import { createAdmissionTask } from './waiting-room/admission-task.ts';
import { createController } from './waiting-room/controller.ts';
import { createCredentials } from './waiting-room/credentials.ts';
import { createJoinBatcher } from './waiting-room/join-batcher.ts';
import { createPhaseTask } from './waiting-room/phase-task.ts';
import { createPostgresWaitingRoom } from './waiting-room/postgres.ts';

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
  /** Told what is going on, a line each, for the person who waits. */
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
  organiser: { email: string; password: string };
  /** The simulator's page, where it takes the payments. */
  simulatorUrl: string | null;
  stop(): Promise<void>;
}

/** What keeps the program from starting, as a sentence for the person who started it. */
export class StartProblem extends Error {
  override readonly name = 'StartProblem';
}

/** Somebody asked to stop before the start was done. */
export class StartInterrupted extends Error {
  override readonly name = 'StartInterrupted';
}

/** Connections: of the server's 100 some are left for the command line and the operator. */
const poolSizes = { web: 24, controller: 6, organiser: 3 };
const organiserStatementMs = 120_000;

/** Puts the parts together, bottom up; what was opened last is closed first. */
export async function createApp(config: Config, options: AppOptions): Promise<App> {
  const shutdown = options.shutdown ?? createShutdown(options);
  try {
    return await assemble(config, options, shutdown);
  } catch (error) {
    // What was stopped meanwhile fails for that reason alone.
    if (shutdown.requested.aborted) throw new StartInterrupted('stopped while starting', { cause: error });
    await shutdown.stop('the start failed');
    throw error;
  }
}

async function assemble(config: Config, options: AppOptions, shutdown: Shutdown): Promise<App> {
  const { clock, random, log, onProgress = () => {} } = options;
  const started = new Set<Role>(options.roles ?? roles);
  // Both take a second or two, and neither needs the other.
  const opening = openPayments(config, options, shutdown);
  opening.catch(() => {});
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
  const credentials = createCredentials({ secret: signingSecret(config, random), random, clock });
  const events = createEvents({ db, clock });
  const madeArbiter = createPostgresArbiter({ db });
  const arbiter = options.replace?.arbiter?.(madeArbiter) ?? madeArbiter;
  const room = createPostgresWaitingRoom({ db });
  const record = createSalesRecord({ db });
  const checkout = createCheckout({
    record,
    arbiter,
    provider: payments.provider,
    orderIdOf: credentials.orderIdOf,
    owner: processName(config, random),
    clock,
    random,
    log,
  });
  const organiser = organiserOf(config, random);

  if (started.has('worker')) {
    const reconciler = createReconciler({ record, checkout, clock, log });
    shutdown.add('reconciler', () => reconciler.stop());
    reconciler.start();
  }
  if (started.has('controller')) startController({ ...options, pool, arbiter, payments, shutdown });
  if (!started.has('web')) {
    return {
      url: null,
      db,
      events,
      databaseUrl,
      organiser,
      simulatorUrl: payments.simulatorUrl,
      stop: () => stopAll(shutdown),
    };
  }

  const pathMeter = createPathMeter({ clock });
  const published = createPublishedReader({ db, events, clock, log });
  shutdown.add('published objects', () => published.stop());
  await published.start();

  const port = await freeHttpPort(config.http.host, config.http.port);
  const listening = `http://${urlHost(config.http.host)}:${port}`;
  const url = config.http.publicUrl ?? listening;
  const ticketKey = storedTicketKey(config.dataDir);
  const deps: HttpDeps = {
    clock,
    random,
    log,
    publicUrl: () => url,
    trustProxy:
      typeof config.http.trustProxy === 'object' ? [...config.http.trustProxy] : config.http.trustProxy,
    webDir: path.resolve(import.meta.dirname, '../dist/web'),
    paymentOrigins: payments.origins,
    credentials,
    events,
    published,
    room,
    joins: createJoinBatcher({ room, clock }),
    arbiter,
    checkout,
    provider: payments.provider,
    operations: (order) => record.operationsOf(order),
    tickets: async ({ eventNo, order }) =>
      (await ticketsOfOrder(db, eventNo, order)).map(({ ticket, seat }) => ({
        ticket,
        seat,
        code: signTicketCode(ticketKey, { ticket, event: eventNo, seat }),
      })),
    ready: readiness(db, published, payments.provider, clock),
  };
  const organiserDeps = {
    db: pool('organiser', poolSizes.organiser, organiserStatementMs),
    events,
    clock,
    random,
    account: organiser,
    https: url.startsWith('https://'),
    published: published.get,
    arbiter,
  };
  const server = await buildServer({ ...deps, pathMeter }, [
    (scope) => registerOrganiser(scope, organiserDeps),
  ]);
  shutdown.add('web server', () => server.close());
  try {
    await server.listen({ host: config.http.host, port });
  } catch (error) {
    throw new StartProblem(`Port ${port} cannot be listened on: ${(error as Error).message}`);
  }
  await payments.webhooksTo(`${listening}/api/webhooks/stripe`);
  shutdown.add(
    'path reports',
    reportPathEverySecond({ db, clock, log, owner: processName(config, random), meter: pathMeter }),
  );
  return {
    url,
    db,
    events,
    databaseUrl,
    organiser,
    simulatorUrl: payments.simulatorUrl,
    stop: () => stopAll(shutdown),
  };
}

/** Answers what ends it. A report that fails is left out: the next second brings another. */
function reportPathEverySecond(parts: {
  db: Db;
  clock: Clock;
  log: Logger;
  owner: string;
  meter: PathMeter;
}): () => Promise<void> {
  const { db, clock, log, owner, meter } = parts;
  const stopping = new AbortController();
  const loop = (async () => {
    while (!stopping.signal.aborted) {
      await clock.sleep(1_000, stopping.signal).catch(() => {});
      const window = meter.window();
      if (!window || stopping.signal.aborted) continue;
      await reportPath(db, owner, window).catch((err) => log.debug({ err }, 'the path report was left out'));
    }
  })();
  return async () => {
    stopping.abort();
    await loop;
  };
}

async function stopAll(shutdown: Shutdown): Promise<void> {
  await shutdown.stop('asked to');
}

/** Starts the embedded server, or takes the operator's own. */
export async function openDatabase(
  config: Config,
  runtime: Runtime & { onProgress?: (line: string) => void },
  shutdown: Shutdown,
): Promise<string> {
  const { database } = config;
  if (database.kind === 'external') return database.url;
  runtime.onProgress?.('Starting the database …');
  const server = await startPostgres({
    dataDir: database.dataDir,
    fallbackDir: database.fallbackDir,
    durable: true,
    ...runtime,
    onFailure: () => void shutdown.stop('the database is gone'),
  });
  shutdown.add('database', () => server.stop());
  await server.ensureDatabase('onsale');
  return server.url('onsale');
}

/** What the command line blocks seats through. */
export async function openArbiter(db: Db): Promise<{ arbiter: Arbiter; close(): Promise<void> }> {
  return { arbiter: createPostgresArbiter({ db }), close: async () => {} };
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
}

type StripeConfig = Extract<Config['payments'], { kind: 'stripe' }>;

/** Stripe, or what speaks like it, as configured. */
export function stripeProvider(
  payments: Pick<StripeConfig, 'secretKey' | 'webhookSecrets' | 'apiBase'>,
  { clock, log }: Pick<Runtime, 'clock' | 'log'>,
): PaymentProvider {
  const { secretKey, webhookSecrets, apiBase } = payments;
  return createStripeProvider({ secretKey, webhookSecrets: [...webhookSecrets], apiBase, clock, log });
}

interface Payments {
  provider: PaymentProvider;
  page: EventObject['payment'];
  origins: HttpDeps['paymentOrigins'];
  simulatorUrl: string | null;
  webhooksTo(url: string): Promise<void>;
}

/** Stripe's own script with Stripe's API; whoever stands in for the API stands in for its script too. */
function cardForm(apiBase: string): { script: string; origins: Payments['origins'] } {
  if (new URL(apiBase).origin !== 'https://api.stripe.com') {
    const { origin } = new URL(apiBase);
    return { script: `${origin}/v3/`, origins: { script: [origin], connect: [origin], frame: [origin] } };
  }
  return {
    script: 'https://js.stripe.com/v3/',
    origins: {
      script: ['https://js.stripe.com'],
      connect: ['https://api.stripe.com'],
      frame: ['https://js.stripe.com', 'https://hooks.stripe.com'],
    },
  };
}

async function openPayments(config: Config, options: AppOptions, shutdown: Shutdown): Promise<Payments> {
  const { clock, log, random } = options;
  const replaced = (made: PaymentProvider) => options.replace?.provider?.(made) ?? made;
  if (config.payments.kind === 'stripe') {
    const { apiBase, publishableKey, live } = config.payments;
    const provider = stripeProvider(config.payments, options);
    const { script, origins } = cardForm(apiBase);
    return {
      provider: replaced(provider),
      page: { publishableKey, script, test: !live },
      origins,
      simulatorUrl: null,
      webhooksTo: async () => {},
    };
  }
  options.onProgress?.('Starting the payment simulator …');
  const keys = { secretKey: 'sk_test_simulator', publishableKey: 'pk_test_simulator' };
  const webhookSecret = `whsec_${storedSecret(config.dataDir, 'simulator-webhook-secret', random)}`;
  const dataDir = path.join(config.dataDir, 'simulator');
  const child = await startSimulatorChild({ dataDir, host: '127.0.0.1', ...keys, webhookSecret, clock, log });
  shutdown.add('payment simulator', () => child.stop());
  const { secretKey } = keys;
  const provider = stripeProvider(
    { secretKey, webhookSecrets: [webhookSecret], apiBase: child.url },
    options,
  );
  return {
    provider: replaced(provider),
    page: { publishableKey: keys.publishableKey, script: `${child.url}/v3/`, test: true },
    origins: { script: [child.url], connect: [child.url], frame: [child.url] },
    simulatorUrl: child.url,
    webhooksTo: child.webhooksTo,
  };
}

function startController(
  parts: AppOptions & {
    pool: (name: string, size: number) => Db;
    arbiter: Arbiter;
    payments: Payments;
    shutdown: Shutdown;
  },
): void {
  const { pool, payments, shutdown, clock, random, log } = parts;
  const db = pool('controller', poolSizes.controller);
  const events = createEvents({ db, clock });
  const arbiter = parts.replace?.arbiter ? parts.arbiter : createPostgresArbiter({ db });
  const room = createPostgresWaitingRoom({ db });
  const snapshots = createSnapshots({ arbiter, events, clock });
  const seatCounts = async (event: number) => (await snapshots.of(event)).counts;
  let path: PathWindow | null = null;
  const admission = createAdmissionTask({ db, control: room, clock, seatCounts, pathSignals: () => path });
  const publisher = createPublisher({ db, clock, payment: payments.page });
  const controller = createController({
    db,
    owner: `${os.hostname()}/${process.pid}/${random.uuid().slice(0, 8)}`,
    clock,
    log,
    eventsToLead: () => eventsToLead(events, clock),
    tasks: [
      {
        name: 'path',
        run: async () => {
          path = await readPath(db);
        },
      },
      createPhaseTask({ db, seatCounts }),
      admission,
      createPublishTask({ publisher, snapshots, admission }),
      createSweepTask({ arbiter, room }),
    ],
  });
  shutdown.add('controller', () => controller.stop());
  controller.start();
}

/** A day after the performance nobody looks any more. */
const ledAfterMs = 24 * 3_600_000;

async function eventsToLead(events: Events, clock: Clock): Promise<number[]> {
  const all = await events.list();
  return all
    .filter(({ phase, layoutHash, performanceAt }) => {
      if (phase === 'draft' || !layoutHash) return false;
      const final = phase === 'closed' || phase === 'cancelled';
      return !final || performanceAt === null || performanceAt + ledAfterMs > clock.now();
    })
    .map(({ eventNo }) => eventNo);
}

/** Its last word is a second old at most: a probe that asks often costs nothing. */
const readyFreshMs = 1_000;
const publishedAgeMaxMs = 10_000;

function readiness(
  db: Db,
  published: { ageMs(): number },
  provider: PaymentProvider,
  clock: Clock,
): HttpDeps['ready'] {
  let last: { at: number; read: ReturnType<HttpDeps['ready']> } | null = null;
  const read: HttpDeps['ready'] = async () => {
    const [database, paying] = await Promise.all([
      db.query('ready', 'SELECT 1').then(
        () => ({ ok: true }),
        (error: Error) => ({ ok: false, reason: error.message }),
      ),
      provider.ping(),
    ]);
    const fresh = published.ageMs() < publishedAgeMaxMs;
    const objects = fresh ? { ok: true } : { ok: false, reason: 'the published objects are old' };
    // A provider that is away stops paying, not queueing and holding: buyers are told so when they pay (D3). Failing
    // here would take the pages away from everybody instead.
    return { ok: database.ok && objects.ok, parts: { database, published: objects, payments: paying } };
  };
  return () => {
    if (!last || clock.monotonic() - last.at > readyFreshMs) last = { at: clock.monotonic(), read: read() };
    return last.read;
  };
}

function signingSecret(config: Config, random: Random): Uint8Array {
  return Buffer.from(config.secret ?? storedSecret(config.dataDir, 'secret', random));
}

export function organiserOf(config: Config, random: Random): App['organiser'] {
  const { email, password } = config.organiser;
  return { email, password: password ?? storedSecret(config.dataDir, 'organiser-password', random, 12) };
}

/** The same after a restart: what a former life of this process was about to do is taken up at once. */
function processName(config: Config, random: Random): string {
  return `${os.hostname()}/${storedSecret(config.dataDir, 'process-name', random, 9)}`;
}

function urlHost(host: string): string {
  if (host === '0.0.0.0' || host === '::') return 'localhost';
  return host.includes(':') ? `[${host}]` : host;
}
