import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createApp } from '../../src/app/app.ts';
import type { App, AppOptions } from '../../src/app/runtime.ts';
import { createDemoEvent } from '../../src/cli/demo-event.ts';
import { noLimits } from '../../src/core/limits.ts';
import type { EventSettings } from '../../src/orders/record.ts';
import { createDb } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { readConfig } from '../../src/runtime/config.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { type Credentials, createCredentials } from '../../src/waiting-room/credentials.ts';
import { createTestBuyer, type TestBuyer } from './buyer.ts';
import { type TestDatabase, testDatabase } from './postgres.ts';
import { startTestSimulator, type TestSimulator } from './simulator.ts';
import { until } from './wait.ts';

export { until };

export interface TestAppOptions {
  /** 100 at least; 200 by default. */
  seats?: number;
  settings?: Partial<EventSettings>;
  roles?: AppOptions['roles'];
  replace?: AppOptions['replace'];
  /** False: no event is made. */
  event?: boolean;
  log?: AppOptions['log'];
  /** Further settings of the environment, such as REDIS_URL. */
  env?: Record<string, string>;
}

/** The whole application in this process, on a database and a simulator of its own, with an event on sale. */
export interface TestApp {
  url: string;
  /** Public id of the event; its number in the stores. */
  event: string;
  eventNo: number;
  app: App;
  database: TestDatabase;
  simulator: TestSimulator;
  /** The application's own keys: to sign, or to forge with, a ticket or pass. */
  credentials: Credentials;
  dataDir: string;
  /** Its settings: for a further process of the same installation, in a data folder of its own. */
  env: Record<string, string>;
  /** A browser with an empty cookie jar. */
  buyer(): TestBuyer;
  /** A buyer with a pass that did not come through the line: for tests of what comes after it. */
  admitted(): Promise<TestBuyer>;
  stop(): Promise<void>;
}

const secret = 'a secret of the tests that is long enough';

type Context = { after(run: () => Promise<void>): void };

/** For a `describe`: `before` starts into it and `after` closes it, last opened first. */
export function testScope(): Context & { close(): Promise<void> } {
  const runs: (() => Promise<void>)[] = [];
  return {
    after: (run) => void runs.push(run),
    close: async () => {
      for (const run of runs.splice(0).reverse()) await run();
    },
  };
}

export async function startTestApp(t: Context, options: TestAppOptions = {}): Promise<TestApp> {
  const database = await testDatabase();
  const simulator = await startTestSimulator();
  const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-app-'));
  let running: App | undefined;
  // One after the other: the tests' own hooks would run first come, first served.
  t.after(async () => {
    await running?.stop();
    await simulator.stop();
    fs.rmSync(dataDir, { recursive: true, force: true });
    await database.drop();
  });
  const env = {
    DATABASE_URL: database.url,
    ONSALE_DATA_DIR: dataDir,
    ONSALE_SECRET: secret,
    PORT: '0',
    STRIPE_SECRET_KEY: simulator.secretKey,
    STRIPE_PUBLISHABLE_KEY: simulator.publishableKey,
    STRIPE_WEBHOOK_SECRET: simulator.webhookSecret,
    STRIPE_API_BASE: simulator.url,
    ...options.env,
  };
  const read = readConfig(env);
  if (read.kind !== 'ok') throw new Error(JSON.stringify(read.problems));
  const runtime = { clock: systemClock, random: systemRandom, log: options.log ?? silentLogger };
  const { roles, replace } = options;
  const app = await createApp(read.config, { ...runtime, roles, replace });
  running = app;
  const { url } = app;
  if (url === null) throw new Error('a test app has the web role');
  await simulator.webhooksTo(`${url}/api/webhooks/stripe`);

  const event = 'show';
  if (options.event !== false) await openEvent(database.url, event, options);
  const record = await app.events.find(event);
  const eventNo = record?.eventNo ?? 0;
  if (record) await until(async () => (await fetch(`${url}/api/events/${event}/status`)).ok, 'a status');

  const credentials = createCredentials({
    secret: Buffer.from(secret),
    random: systemRandom,
    clock: systemClock,
  });
  const buyer = (): TestBuyer => createTestBuyer(url, event);
  return {
    url,
    event,
    eventNo,
    app,
    database,
    simulator,
    credentials,
    dataDir,
    env,
    buyer,
    async admitted() {
      const made = buyer();
      await made.post(`/api/events/${event}/queue`);
      const visitor = credentials.visitorOf(made.cookies.get('onsale_visitor') ?? '');
      if (!visitor) throw new Error('the queue sets the visitor cookie');
      const issuedAt = systemClock.now();
      const pass = { event: eventNo, visitor, passId: systemRandom.uuid(), number: 1, issuedAt };
      made.pass = credentials.signPass({ ...pass, expiresAt: issuedAt + 15 * 60_000 });
      return made;
    },
    stop: () => app.stop(),
  };
}

async function openEvent(url: string, event: string, options: TestAppOptions): Promise<void> {
  const db = createDb({
    url,
    poolSize: 2,
    clock: systemClock,
    log: silentLogger,
    statementTimeoutMs: 60_000,
  });
  try {
    await createDemoEvent({
      db,
      clock: systemClock,
      seats: options.seats ?? 200,
      onProgress: () => {},
      event: { event, name: 'The Show', currency: 'EUR' },
      // Limits by address, browser and card would count all buyers of a test as one: tests of limits name theirs.
      settings: { ...noLimits, ...options.settings },
    });
  } finally {
    await db.close();
  }
}
