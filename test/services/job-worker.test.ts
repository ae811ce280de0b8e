import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createDemoEvent } from '../../src/cli/demo-event.ts';
import { type JobChild, startJobChild } from '../../src/fulfilment/job-child.ts';
import { createSalesRecord } from '../../src/orders/orders-record.ts';
import { createDb, type Db } from '../../src/postgres/db.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import { type PostgresServer, startPostgres } from '../../src/postgres/server.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { jobsDueSql } from '../support/acts.ts';
import { testScope, until } from '../support/app.ts';
import { testLoops } from '../support/loops.ts';
import { paidOrder } from '../support/paid-order.ts';
import { startTestSmtp, type TestSmtp } from '../support/smtp.ts';
import { pause } from '../support/wait.ts';

/** The job worker's process over a Postgres that really stops, with mails as its jobs. */

/** ONSALE_TEST_LONG=1 plays each length of an outage at each moment of a job's life (four minutes). */
const cuts = (['owed', 'addressed', 'taken'] as const)
  .flatMap((moment) => [1_000, 5_000, 30_000].map((ms) => ({ moment, ms })))
  .filter(({ moment, ms }) => process.env.ONSALE_TEST_LONG === '1' || (moment === 'taken' && ms === 1_000));

const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-jobs-'));
fs.chmodSync(dataDir, 0o711);
let postgres: PostgresServer;
let db: Db;
let smtp: TestSmtp;
let stage: { event: number; epoch: number };
let nextSeat = 0;

async function startServer(): Promise<void> {
  postgres = await startPostgres({
    dataDir: path.join(dataDir, 'postgres'),
    durable: false,
    binDir: process.env.ONSALE_TEST_POSTGRES_BIN || undefined,
    log: silentLogger,
    clock: systemClock,
  });
}

/** Postgres stops for this time; what happens meanwhile is awaited too. */
async function outage(ms: number, meanwhile: () => void = () => {}): Promise<void> {
  await postgres.stop();
  meanwhile();
  await pause(ms, 'the length of the outage');
  await startServer();
}

/** Orders whose mails are owed from now on; returns their ids. */
async function buy(count: number): Promise<string[]> {
  const record = createSalesRecord({ db });
  const made: string[] = [];
  for (let n = 0; n < count; n += 1) {
    const { order } = await paidOrder(record, stage, { seats: [nextSeat++] });
    made.push(order);
  }
  return made;
}

const mailsAbout = (order: string) => smtp.mails.filter(({ text }) => text?.includes(order));

async function states(orders: string[]): Promise<string[]> {
  const rows = await db
    .query<{ state: string }>('states', 'SELECT state FROM mails WHERE order_id = ANY ($1)', [orders])
    .catch(() => []);
  return rows.map(({ state }) => state);
}

/** Jobs that failed meanwhile wait for some seconds: not in this test. */
const hurry = (): Promise<unknown> => db.query('hurry', jobsDueSql).catch(() => {});

async function allSent(orders: string[], withinMs = 30_000): Promise<void> {
  await until(
    async () => {
      await hurry();
      const found = await states(orders);
      return found.length === orders.length && found.every((state) => state === 'sent');
    },
    'all mails to be recorded as sent',
    withinMs,
  );
}

/** Each mail came at least once; one of `mayRepeat` may have come again, under its Message-ID. */
function assertMails(orders: string[], mayRepeat: string[] = []): void {
  for (const order of orders) {
    const mails = mailsAbout(order);
    assert.ok(mails.length >= 1, `no mail about ${order}`);
    assert.equal(new Set(mails.map(({ messageId }) => messageId)).size, 1, 'one Message-ID an order');
    if (!mayRepeat.includes(order)) assert.equal(mails.length, 1, `a mail that was not cut came again`);
  }
}

const takenNow = (orders: string[]): string[] => orders.filter((order) => mailsAbout(order).length > 0);

describe('the job worker’s process', () => {
  const scope = testScope();
  let child: JobChild;

  function startChild(): JobChild {
    const { port } = postgres;
    assert.ok(port > 0);
    const loops = testLoops();
    const made = startJobChild({
      setup: {
        databaseUrl: postgres.url('onsale'),
        dataDir,
        signingSecret: 'a secret of the tests that is long enough',
        publicUrl: 'https://tickets.example',
        timeZone: 'UTC',
        mail: { smtpUrl: smtp.url, from: { name: 'Box Office', address: 'tickets@venue.example' } },
        logLevel: 'silent',
      },
      db,
      loops,
      clock: systemClock,
      log: silentLogger,
      times: { silentMs: 2_000, stuckMs: 1_500 },
    });
    return { ...made, stop: () => made.stop().then(() => loops.stop()) };
  }
  const running = async (): Promise<number> => {
    await until(async () => child.pid() !== null, 'a child');
    return child.pid()!;
  };
  const replaced = (pid: number) =>
    until(async () => child.pid() !== null && child.pid() !== pid, 'another child', 30_000);

  before(async () => {
    await startServer();
    await postgres.ensureDatabase('onsale');
    const url = postgres.url('onsale');
    await migrate(url);
    smtp = await startTestSmtp(scope);
    db = createDb({ url, poolSize: 4, clock: systemClock, log: silentLogger, statementTimeoutMs: 60_000 });
    const parts = { db, clock: systemClock, seats: 200, onProgress: () => {} };
    await createDemoEvent({ ...parts, event: { event: 'show', name: 'The Show', currency: 'EUR' } });
    // The record takes the hold's word there, as with a Redis that arbitrates.
    const found = await db.query<typeof stage>(
      'stage',
      `UPDATE event_partitions SET mode = 'redis' RETURNING event_no AS event, epoch`,
    );
    stage = found[0]!;
    child = startChild();
  });
  after(async () => {
    await child.stop();
    await db.close();
    await scope.close();
    await postgres.stop();
    fs.rmSync(dataDir, { recursive: true, force: true });
  });

  test('D4: killed or frozen, it is replaced, and every mail goes out', async () => {
    const first = await running();
    const held = smtp.hold('addressed');
    const orders = await buy(6);
    await until(async () => held.waiting() > 0, 'a mail under way');
    process.kill(first, 'SIGKILL');
    await replaced(first);
    held.release();
    await allSent(orders);
    assertMails(orders);

    const second = await running();
    const again = smtp.hold('addressed');
    const more = await buy(6);
    await until(async () => again.waiting() > 0, 'a mail under way');
    process.kill(second, 'SIGSTOP');
    await replaced(second);
    again.release();
    await allSent(more);
    assertMails(more);
  });

  test('D4: started while the database is away, it sends what is due once the database is back', async () => {
    const before = await running();
    const orders: string[] = [];
    await child.stop();
    orders.push(...(await buy(3)));
    await outage(1_000, () => {
      child = startChild();
    });
    await allSent(orders);
    assertMails(orders);
    assert.notEqual(await running(), before);
  });

  test('D4: jobs that were fetched by an answer that got lost go out', async () => {
    await running();
    const orders = await buy(2);
    await allSent(orders);
    const leases = () =>
      db.query<{ worker: string }>('leases', 'SELECT worker FROM job_workers WHERE until > now()');
    await until(async () => (await leases()).length === 1, 'the lease');
    await db.query('owed_again', `UPDATE mails SET state = 'due' WHERE order_id = ANY ($1)`, [orders]);
    // As the queue leaves them: locked by the worker, which knows nothing of them.
    await db.query(
      'lost',
      `WITH made AS (SELECT (graphile_worker.add_job('mail', json_build_object('mail', mail_id), run_at => now() + interval '1 hour')).id
                     FROM mails WHERE order_id = ANY ($1))
       SELECT count(*) FROM made`,
      [orders],
    );
    await db.query(
      'locked',
      'UPDATE graphile_worker._private_jobs SET locked_by = $1, locked_at = now(), run_at = now()',
      [(await leases())[0]!.worker],
    );
    await allSent(orders);
  });

  for (const { moment, ms } of cuts) {
    test(`D4: Postgres stops for ${ms / 1_000} s while mails are ${moment}: all go out, repeats only after acceptance`, async () => {
      await running();
      const held = smtp.hold(moment === 'owed' ? 'addressed' : moment);
      const orders = await buy(12);
      if (moment !== 'owed') await until(async () => held.waiting() > 0, 'mails under way');
      const cut = takenNow(orders);
      await outage(ms, held.release);
      // Mails that the server took while Postgres was away could not be recorded either.
      const meanwhile = takenNow(orders);
      await allSent(orders, 60_000);
      assertMails(orders, [...cut, ...meanwhile]);
    });
  }

  // The limit is for a stop that would never end: a frozen child does not end by itself.
  test('D4: a stop ends within seconds, also with a frozen child, and gives its jobs back', {
    timeout: 120_000,
  }, async () => {
    const pid = await running();
    const held = smtp.hold('addressed');
    await buy(3);
    await until(async () => held.waiting() > 0, 'a mail under way');
    process.kill(pid, 'SIGSTOP');
    await child.stop();
    held.release();
    const [left] = await db.query<{ locked: number; leases: number }>(
      'left',
      `SELECT (SELECT count(*) FROM graphile_worker.jobs WHERE locked_by IS NOT NULL) AS locked,
              (SELECT count(*) FROM job_workers WHERE until > now()) AS leases`,
    );
    assert.deepEqual(left, { locked: 0, leases: 0 });
  });
});
