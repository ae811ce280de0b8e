import os from 'node:os';
import { createEvents } from '../catalogue/events.ts';
import { createCheckout } from '../checkout/checkout.ts';
import { createInbox } from '../checkout/inbox.ts';
import { createReconciler } from '../checkout/reconcile.ts';
import { reportProvider } from '../controller/path-signals.ts';
import { createSalesRecord } from '../orders/orders-record.ts';
import { createDb, type Db } from '../postgres/db.ts';
import { installationOf } from '../postgres/installation.ts';
import type { Config } from '../runtime/config.ts';
import { createLoops } from '../runtime/loops.ts';
import { createShutdown, type Shutdown } from '../runtime/shutdown.ts';
import { storedSecret } from '../runtime/stored-secret.ts';
import { createCredentials } from '../waiting-room/credentials.ts';
import { startController } from './controller.ts';
import { migrateTo, openDatabase, poolSizes } from './database.ts';
import { openDocuments, startFulfilment } from './fulfilment.ts';
import { startHealthReports } from './health.ts';
import { startLimitTasks } from './limits.ts';
import { organiserOf } from './organiser.ts';
import { openPayments } from './payments.ts';
import { processName } from './process-name.ts';
import { openRefunds } from './refunds.ts';
import {
  type App,
  type AppOptions,
  type Role,
  reportEverySecond,
  roles,
  StartInterrupted,
  StartProblem,
  urlHost,
} from './runtime.ts';
import type { Services } from './services.ts';
import {
  type ArbiterOptions,
  announcingEvents,
  holdsReader,
  openArbiters,
  openRedisStores,
  openRoom,
  ownKeys,
  startConfiguredRedis,
} from './stores.ts';
import { openTicketKeys } from './ticket-keys.ts';
import { startWeb } from './web.ts';
import { startWebhooks } from './webhooks.ts';

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
  const secret = Buffer.from(config.secret ?? storedSecret(config.dataDir, 'secret', random));
  const credentials = createCredentials({ secret, random, clock });
  const plainEvents = createEvents({ db, clock });
  let look: NonNullable<ArbiterOptions['onLoss']> = () => {};
  const arbiters = openArbiters({
    db,
    events: plainEvents,
    redis,
    reporter: owner,
    onLoss: (event, partition) => look(event, partition),
    clock,
    log,
  });
  const arbiter = options.replace?.arbiter?.(arbiters.arbiter) ?? arbiters.arbiter;
  const events = announcingEvents(plainEvents, arbiter, log);
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
  await redis.connected();
  startHealthReports({ db, process: owner, roles: [...started], loops, clock, shutdown });
  const services: Services = {
    ...{ clock, random, log, config, shutdown, loops, databaseUrl, db, pool, redis, owner },
    ...{ events, arbiter, record, checkout, payments, refundServices },
    redisServers: settings.servers.map(({ name }) => name),
    organiser: organiserOf(config, random),
  };

  if (started.has('worker')) onProviderEvent = startMoneyWork(services);
  reportEverySecond(loops, 'report calls to the payment provider', payments.meter, (window) =>
    reportProvider(db, owner, window),
  );
  if (started.has('controller')) {
    const leaderDb = pool('controller', poolSizes.controller);
    const { timeZone, providerCallsPerSecond } = config;
    ({ look } = startController({
      ...{ ...options, ...openRoom({ db: leaderDb, redis, owner, clock, log }) },
      ...{ db: leaderDb, watchDb: pool('watch', poolSizes.watch), redis, owner, shutdown, loops },
      ...{ payment: payments.page, timeZone, providerCallsPerSecond },
    }));
  }
  const signs = started.has('web') || started.has('worker');
  const { ticketKey, ticketKeys } = await openTicketKeys(config, { db, clock, log, signs });
  const documents = openDocuments(config, { db, events, ticketKey, clock, shutdown });
  const web = started.has('web')
    ? await startWeb({ ...services, credentials, room, ticketKey, ticketKeys, documents })
    : null;
  if (started.has('worker')) {
    const { host, port, publicUrl } = config.http;
    const own = { db: pool('fulfilment', poolSizes.fulfilment), shutdown, loops };
    startFulfilment(config, {
      ...{ ...options, ...own, databaseUrl, signingSecret: secret },
      publicUrl: web?.url ?? publicUrl ?? `http://${urlHost(host)}:${port ?? 3000}`,
    });
    startWebhooks(config, { ...options, ...own });
  }
  return {
    url: web?.url ?? null,
    db,
    events,
    databaseUrl,
    organiser: services.organiser,
    simulatorUrl: payments.simulatorUrl,
    mailboxUrl: web?.mailboxUrl ?? null,
    stop: async () => void (await shutdown.stop('asked to')),
  };
}

/** The worker role's loops over orders and money. Returns the call that wakes the inbox of provider events. */
function startMoneyWork(services: Services): () => void {
  const { config, record, checkout, payments, refundServices, db, clock, random, log, loops } = services;
  createReconciler({ record, checkout, clock, log }).start(loops);
  refundServices.cancelEvent.start(loops);
  const inbox = createInbox({ record, payments: checkout.payments, clock, log }).start(loops);
  startLimitTasks({
    ...{ db, clock, log, loops, record },
    provider: payments.provider,
    owner: processName(config, random),
    eventsKeptDays: config.providerEventsKeptDays,
  });
  return inbox.wake;
}
