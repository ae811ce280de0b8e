import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { createDemoEvent } from '../../src/cli/demo-event.ts';
import { type Buyer, createBuyer } from '../../src/crowd/buyer.ts';
import { type Answer, createHttpClients } from '../../src/crowd/http-client.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { createDb } from '../../src/sales/db.ts';
import { createCredentials } from '../../src/waiting-room/credentials.ts';
import { closeUnpaid } from '../support/at-rest.ts';
import { testDatabase } from '../support/postgres.ts';
import { serverProcess } from '../support/server-process.ts';
import { startTestSimulator } from '../support/simulator.ts';
import { auditEvent } from '../support/stage.ts';

/** A hundred purchases, five under way at each of twenty kills. */
const rounds = 20;
const purchasesPerRound = 5;
/** A purchase takes some hundred milliseconds: the kill falls anywhere in it. */
const killWithinMs = 700;
const secret = 'the secret of a server that is killed often';
const event = 'show';

test('D4 S8 P1 P2 P3 P4: the server is killed -9 at random moments of 100 purchases; after each restart all is finished or undone', async (t) => {
  const database = await testDatabase(t);
  const simulator = await startTestSimulator();
  t.after(() => simulator.stop());
  const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-crash-'));
  t.after(() => fs.rmSync(dataDir, { recursive: true, force: true }));
  const eventNo = await makeEvent(database.url);
  const server = await serverProcess({
    DATABASE_URL: database.url,
    ONSALE_DATA_DIR: dataDir,
    ONSALE_SECRET: secret,
    STRIPE_SECRET_KEY: simulator.secretKey,
    STRIPE_PUBLISHABLE_KEY: simulator.publishableKey,
    STRIPE_WEBHOOK_SECRET: simulator.webhookSecret,
    STRIPE_API_BASE: simulator.url,
  });
  t.after(() => server.kill());
  await simulator.webhooksTo(`${server.url}/api/webhooks/stripe`);
  const clients = createHttpClients({ url: server.url, clock: systemClock, timeoutMs: 10_000 });
  t.after(async () => clients.close());

  await server.start();
  const ends: string[] = [];
  for (let round = 0; round < rounds; round++) {
    const killing = systemClock.sleep(systemRandom.int(killWithinMs)).then(() => server.kill());
    const buying = Promise.all(
      Array.from({ length: purchasesPerRound }, () =>
        purchase(createBuyer(clients.browser(), event, systemRandom), eventNo),
      ),
    );
    // A start that fails is the error to see, not what it does to the buyers.
    buying.catch(() => {});
    await killing;
    await server.start();
    ends.push(...(await buying));
  }

  await closeUnpaid({ database, eventNo });
  const { paid } = await auditEvent(database, simulator, eventNo);
  t.diagnostic(JSON.stringify({ paid, ends: count(ends) }));
  assert.equal(ends.length, rounds * purchasesPerRound);
  assert.ok(paid >= ends.filter((end) => end === 'bought').length, 'whoever was told so has bought');
  assert.ok(paid > rounds, 'purchases survive kills');
});

/** Buys as a page does that loses its connection: each request is repeated, with its key, until it is answered. */
async function purchase(buyer: Buyer, eventNo: number): Promise<string> {
  await insist(() => buyer.client.request('POST', `/api/events/${event}/queue`, { body: {} }));
  const pass = passFor(buyer, eventNo);
  const [holdKey, payKey] = [systemRandom.uuid(), systemRandom.uuid()];
  const held = await insist(() => buyer.holdBest(pass, { quantity: 1 }, { key: holdKey }));
  if (held.status !== 201 && held.status !== 200) return `hold ${held.body.code}`;
  const who = { name: 'Any Buyer', email: 'buyer@example.org' };
  const order = await insist(() => buyer.order(held.body.hold, who));
  if (order.status !== 201 && order.status !== 200) return `order ${order.body.code}`;
  const id = order.body.order;
  let paid = await insist(() => buyer.pay(id, 'pm_card_visa', payKey));
  for (let looks = 0; paid.status !== 200 && looks < 120; looks++) {
    await systemClock.sleep(250);
    paid = await insist(() => buyer.refresh(id));
  }
  if (paid.status !== 200) return `payment ${paid.body.code ?? paid.status}`;
  if (paid.body.state === 'paid') {
    const { tickets } = (await insist(() => buyer.tickets(id))).body;
    assert.equal(tickets.length, 1, 'a paid order has its tickets');
  }
  return 'bought';
}

async function insist<Body>(call: () => Promise<Answer<Body>>): Promise<Answer<Body>> {
  const end = systemClock.monotonic() + 60_000;
  for (;;) {
    const answer = await call().catch(() => null);
    if (answer && answer.status !== 503) return answer;
    assert.ok(
      systemClock.monotonic() < end,
      `answered within a minute: ${answer?.body.code ?? 'no connection'}`,
    );
    await systemClock.sleep(100);
  }
}

const credentials = createCredentials({
  secret: Buffer.from(secret),
  random: systemRandom,
  clock: systemClock,
});

function passFor(buyer: Buyer, eventNo: number): string {
  const visitor = credentials.visitorOf(/onsale_visitor=([^;]+)/.exec(buyer.client.cookies())?.[1] ?? '');
  assert.ok(visitor, 'the queue sets the visitor cookie');
  const issuedAt = systemClock.now();
  const passId = systemRandom.uuid();
  return credentials.signPass({
    event: eventNo,
    visitor,
    passId,
    number: 1,
    issuedAt,
    expiresAt: issuedAt + 900_000,
  });
}

async function makeEvent(url: string): Promise<number> {
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
      seats: 300,
      onProgress: () => {},
      event: { event, name: 'The Show', currency: 'EUR' },
    });
    const [row] = await db.query<{ event_no: number }>(
      'no',
      'SELECT event_no FROM events WHERE event_id = $1',
      [event],
    );
    return row!.event_no;
  } finally {
    await db.close();
  }
}

function count(ends: string[]): Record<string, number> {
  const counted: Record<string, number> = {};
  for (const end of ends) counted[end] = (counted[end] ?? 0) + 1;
  return counted;
}
