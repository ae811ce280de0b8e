import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createDemoEvent } from '../../src/cli/demo-event.ts';
import { noLimits } from '../../src/core/limits.ts';
import type { EventSettings } from '../../src/orders/record.ts';
import { createDb } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { createCredentials } from '../../src/waiting-room/credentials.ts';
import { type TestDatabase, testDatabase } from './postgres.ts';
import { type ServerProcess, serverProcess } from './server-process.ts';
import { startTestSimulator, type TestSimulator } from './simulator.ts';

/** An event on sale, served by a process of its own: for crowds (which need a core of theirs) and for kills. */
export interface ServedEvent {
  event: string;
  eventNo: number;
  server: ServerProcess;
  database: TestDatabase;
  simulator: TestSimulator;
  /** Environment of the server and of each command run with it. */
  env: Record<string, string>;
  /** A pass that did not come through the line, for the browser with these cookies. */
  passFor(cookies: string): string;
}

const secret = 'the secret of a server in a process of its own';
const event = 'show';

/** The server is not started yet. */
export async function servedEvent(
  t: { after(run: () => Promise<void>): void },
  options: { seats: number; settings?: Partial<EventSettings> },
): Promise<ServedEvent> {
  const database = await testDatabase(t);
  const simulator = await startTestSimulator();
  t.after(() => simulator.stop());
  const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-served-'));
  t.after(async () => fs.rmSync(dataDir, { recursive: true, force: true }));
  const eventNo = await makeEvent(database.url, options);
  const env = {
    DATABASE_URL: database.url,
    ONSALE_DATA_DIR: dataDir,
    ONSALE_SECRET: secret,
    STRIPE_SECRET_KEY: simulator.secretKey,
    STRIPE_PUBLISHABLE_KEY: simulator.publishableKey,
    STRIPE_WEBHOOK_SECRET: simulator.webhookSecret,
    STRIPE_API_BASE: simulator.url,
  };
  const server = await serverProcess(env);
  t.after(() => server.kill());
  await simulator.webhooksTo(`${server.url}/api/webhooks/stripe`);
  const credentials = createCredentials({
    secret: Buffer.from(secret),
    random: systemRandom,
    clock: systemClock,
  });
  return {
    event,
    eventNo,
    server,
    database,
    simulator,
    env,
    passFor(cookies) {
      const visitor = credentials.visitorOf(/onsale_visitor=([^;]+)/.exec(cookies)?.[1] ?? '');
      assert.ok(visitor, 'the queue sets the visitor cookie');
      const issuedAt = systemClock.now();
      const passId = systemRandom.uuid();
      const expiresAt = issuedAt + 15 * 60_000;
      return credentials.signPass({ event: eventNo, visitor, passId, number: 1, issuedAt, expiresAt });
    },
  };
}

async function makeEvent(
  url: string,
  options: { seats: number; settings?: Partial<EventSettings> },
): Promise<number> {
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
      onProgress: () => {},
      event: { event, name: 'The Show', currency: 'EUR' },
      ...options,
      // As in startTestApp: what a test is not about does not limit it.
      settings: { ...noLimits, ...options.settings },
    });
    const [row] = await db.query<{ event_no: number }>(
      'no',
      'SELECT event_no FROM events WHERE event_id = $1',
      [event],
    );
    assert.ok(row);
    return row.event_no;
  } finally {
    await db.close();
  }
}
