import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import { FAULT_KINDS } from '../../payment-simulator/fault-kinds.ts';
import type { FaultKind } from '../../payment-simulator/faults.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { jobsDueSql, makeDue, passDeadline } from '../support/acts.ts';
import { until } from '../support/app.ts';
import { unsettled } from '../support/at-rest.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { programArguments } from '../support/program.ts';
import {
  CELLS,
  type Cell,
  ENDS,
  type End,
  endOf,
  type FaultName,
  LIVES,
  type Life,
  seatsOfAll,
} from '../support/saga-matrix.ts';
import {
  addressOf,
  comeBack,
  type Desk,
  inParallel,
  openDesk,
  orderOf,
  play,
  type Scene,
  timeoutMs,
} from '../support/saga-matrix-play.ts';
import { startTestSimulator, type TestSimulator } from '../support/simulator.ts';
import { auditEvent, stageEvent } from '../support/stage.ts';

const passesMax = 14;
const named = ({ step, fault }: Cell): string => `${step.name} × ${fault}`;

describe('the saga: step × fault × kill', { concurrency: true }, () => {
  for (const life of LIVES) {
    test(`P1 P2 P3 P4 P5 P6 P8 D4: every step under every fault, the process ${life}: the promised end of seats, order, payment and mail`, async (t) => {
      const database = await testDatabase(t);
      const simulator = await startTestSimulator({ timeoutMs });
      t.after(() => simulator.stop());
      const scene = await stageScene(database, simulator);
      if (life !== 'lives') await playAndDie(scene, life);

      const lap = stopwatch(t);
      const desk = await openDesk(scene, simulator.provider);
      t.after(() => desk.close());
      await simulator.webhooksTo(desk.webhookUrl);
      if (life === 'lives') await inParallel(CELLS, (cell) => play(cell, scene, desk, null));
      lap('played');
      // The process after it: everything under way continues at once, with the faults still there.
      await underFaults(database, desk);
      await simulator.clearFaults();

      await eventsEndTheirs(database, simulator, desk);
      lap('told');
      await settle(scene, database, simulator, desk);
      lap('settled');
      assert.deepEqual(await differences(database, simulator, life), []);
      await giveBackAgain(database, simulator, desk);
      await mailsArrive(database, desk, life);
      lap('mailed');
      await auditEvent(database, simulator, scene.event);
      lap('audited');
    });
  }
});

function stopwatch(t: { diagnostic(text: string): void }): (what: string) => void {
  let last = systemClock.monotonic();
  return (what) => {
    const now = systemClock.monotonic();
    t.diagnostic(`${what}: ${Math.round(now - last)} ms`);
    last = now;
  };
}

async function stageScene(database: TestDatabase, simulator: TestSimulator): Promise<Scene> {
  const stage = await stageEvent(database, { seats: seatsOfAll });
  return { database: database.url, simulator: simulator.url, ...stage };
}

async function playAndDie(scene: Scene, life: Life): Promise<void> {
  const orders = JSON.stringify({ scene, life });
  const child = spawn(process.execPath, [...programArguments('test/support/saga-matrix-actor.ts'), orders], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const [, signal] = (await once(child, 'exit')) as [number | null, string | null];
  assert.equal(signal, 'SIGKILL', 'every cell came to its step');
}

/**
 * Their buyers are gone, and the reconciler does not look yet: however the provider's events come, they alone end these payments.
 * A look that failed leaves the payment to the reconciler.
 */
async function eventsEndTheirs(database: TestDatabase, simulator: TestSimulator, desk: Desk): Promise<void> {
  const told = CELLS.filter(({ step, fault }) => step.name === 'webhook' && isTold(fault));
  await simulator.releaseWebhooks();
  const orders = told.map(orderOf);
  await until(
    async () => {
      const [row] = await database.query(
        `SELECT count(DISTINCT o.order_id)::integer AS n FROM orders o JOIN provider_events e ON e.object = o.provider_object
         WHERE o.order_id = ANY ($1) AND e.type = 'payment_intent.amount_capturable_updated'`,
        [orders],
      );
      return row.n === told.length;
    },
    'the events of those who did not come back',
    30_000,
  );
  for (let pass = 0; pass < 4; pass += 1) {
    await database.query(
      'UPDATE provider_events SET due_at = now(), claimed_until = NULL WHERE due_at IS NOT NULL',
    );
    await desk.inbox.runOnce();
  }
  const rows = await database.query('SELECT order_id FROM orders WHERE order_id = ANY ($1) AND state = $2', [
    orders,
    'paid',
  ]);
  const paid = new Set(rows.map(({ order_id }) => order_id));
  assert.deepEqual(
    told.filter((cell) => !paid.has(orderOf(cell))).map(named),
    [],
    'not ended by their events',
  );
}

function isTold(fault: FaultName): boolean {
  if (!Object.hasOwn(FAULT_KINDS, fault)) return fault === 'none';
  return FAULT_KINDS[fault as FaultKind].about === 'webhook' && fault !== 'webhook_never';
}

/**
 * Runs until each call that was written down has been made, or asked about, once. On a busy machine the first
 * pass is not enough.
 */
async function underFaults(database: TestDatabase, desk: Desk): Promise<void> {
  for (let pass = 0; pass < passesMax; pass += 1) {
    await desk.reconciler.runOnce();
    await desk.inbox.runOnce();
    const untried = await database.query(
      `UPDATE money_operations SET due_at = now(), claimed_until = NULL WHERE state = 'open' RETURNING 1`,
    );
    if (untried.length === 0) return;
  }
}

/** Everything is due. What fails because the machine is busy comes again in the next pass: the ends are what is compared. */
async function passOver(database: TestDatabase, desk: Desk, passes: number): Promise<void> {
  for (let pass = 0; pass < passes; pass += 1) {
    await makeDue(database);
    await desk.reconciler.runOnce();
    await desk.inbox.runOnce();
  }
}

/** Until nothing is under way: passes of reconciler and inbox, and buyers who come back to an order that waits for them. */
async function settle(
  scene: Scene,
  database: TestDatabase,
  simulator: TestSimulator,
  desk: Desk,
): Promise<void> {
  const away = CELLS.filter(({ entry }) => entry.buyer === 'stays away');
  for (let pass = 0; pass < passesMax; pass += 1) {
    await simulator.settleRefunds();
    await passOver(database, desk, 1);
    const back = (await waitingForBuyer(database)).filter((cell) => !away.includes(cell));
    await inParallel(back, (cell) => comeBack(cell, scene, desk));
    if (back.length === 0 && (await underWayBut(database, away)) === 0) break;
  }
  for (const order of away.map(orderOf)) await passDeadline(database, order);
  await passOver(database, desk, 4);
  // Only an event reports a refund that had succeeded and failed later.
  const failed = CELLS.filter(isFailedRefund).length;
  await until(
    async () => {
      await simulator.settleRefunds();
      await passOver(database, desk, 1);
      const [row] = await database.query(`SELECT count(*)::integer AS n FROM refunds WHERE state = 'failed'`);
      return row.n === failed;
    },
    'the refunds that fail to be on the operator’s list',
    30_000,
  );
  assert.equal(await unsettled({ database, eventNo: scene.event }), 0, 'something is under way still');
}

const isFailedRefund = ({ entry: { end } }: Cell): boolean =>
  end === 'refund failed' || end === 'refund came back';

async function underWayBut(database: TestDatabase, away: readonly Cell[]): Promise<number> {
  const [row] = await database.query(
    `SELECT count(*)::integer AS n FROM orders o WHERE NOT o.order_id = ANY ($1)
       AND (o.state NOT IN ('paid','closed','cancelled')
            OR EXISTS (SELECT 1 FROM money_operations m WHERE m.order_id = o.order_id AND m.due_at IS NOT NULL))`,
    [away.map(orderOf)],
  );
  return row.n;
}

/** Cells whose order was never made, or can be paid and has nothing under way. */
async function waitingForBuyer(database: TestDatabase): Promise<Cell[]> {
  const rows = await database.query(
    `SELECT order_id FROM orders o WHERE state <> 'reserved' OR EXISTS (SELECT 1 FROM money_operations m
       WHERE m.order_id = o.order_id AND m.state IN ('open','waiting','unknown','ending'))`,
  );
  const busy = new Set(rows.map(({ order_id }) => order_id));
  return CELLS.filter((cell) => !busy.has(orderOf(cell)));
}

/** Compares each cell's order, seat, owed mails and payments with its end in the table. */
async function differences(database: TestDatabase, simulator: TestSimulator, life: Life): Promise<string[]> {
  const rows = await database.query(
    `SELECT o.order_id, o.state AS "order", o.amount::integer AS amount,
       CASE s.state WHEN 'available' THEN 'free' ELSE s.state END AS seats,
       (SELECT coalesce(array_agg(what ORDER BY what), '{}') FROM mails m WHERE m.order_id = o.order_id) AS mails
     FROM orders o JOIN seats s ON s.event_no = o.event_no AND s.seat_no = o.seats[1]`,
  );
  const ledger = await simulator.ledger();
  return CELLS.flatMap((cell) => {
    const row = rows.find(({ order_id }) => order_id === orderOf(cell));
    if (!row) return [`${named(cell)}: no order`];
    const end: End = ENDS[endOf(cell, life)];
    const sum = { taken: 0, back: 0, standing: 0, open: 0 };
    for (const intent of ledger.intents.filter(({ reference }) => reference === orderOf(cell))) {
      sum.taken += intent.captured;
      sum.back += intent.refunded - intent.refundPending;
      sum.standing += intent.authorised;
      if (intent.status === 'requires_action' || intent.status === 'processing') sum.open += 1;
    }
    const taken = end.payment === 'nothing taken' ? 0 : row.amount;
    const back = end.payment === 'given back' ? row.amount : 0;
    const is = { order: row.order, seats: row.seats, mails: row.mails, ...sum };
    const promised = {
      order: end.order,
      seats: end.seats,
      mails: [...end.mails].sort(),
      taken,
      back,
      standing: 0,
      open: 0,
    };
    const [a, b] = [JSON.stringify(is), JSON.stringify(promised)];
    return a === b ? [] : [`${named(cell)}: ${a} instead of ${b}`];
  });
}

/** Refunds that failed are an organiser's to repeat: the second attempt gives the money back, once. */
async function giveBackAgain(database: TestDatabase, simulator: TestSimulator, desk: Desk): Promise<void> {
  const failed = await database.query(
    `SELECT refund_id, order_id, amount::integer AS amount FROM refunds WHERE state = 'failed'`,
  );
  for (const { refund_id } of failed)
    assert.equal((await desk.refunds.retry(refund_id, 'organiser')).kind, 'retried');
  await passOver(database, desk, 2);
  const { refunds } = await simulator.ledger();
  const attempts = await database.query(
    `SELECT operation_id, refund_id FROM money_operations WHERE kind = 'refund'`,
  );
  for (const { refund_id, amount } of failed) {
    const own = new Set(
      attempts.filter((one) => one.refund_id === refund_id).map(({ operation_id }) => operation_id),
    );
    const back = refunds.filter(
      ({ reference, status }) => own.has(reference ?? '') && status === 'succeeded',
    );
    assert.deepEqual(
      back.map((one) => one.amount),
      [amount],
    );
  }
}

/** Owed mails are sent, once as receivers see it; a rejection stays with its mail. */
async function mailsArrive(database: TestDatabase, desk: Desk, life: Life): Promise<void> {
  // The dead worker's lease has run out.
  await database.query('DELETE FROM job_workers');
  await database.query(`UPDATE graphile_worker._private_jobs SET locked_at = locked_at - interval '1 hour'`);
  desk.startMails();
  await until(
    async () => {
      await database.query(jobsDueSql);
      const [row] = await database.query(`SELECT count(*)::integer AS n FROM mails WHERE state = 'due'`);
      return row.n === 0;
    },
    'all mails sent',
    60_000,
  );
  const sent = await database.query(
    `SELECT m.order_id, m.state, m.what, coalesce(b.copies, 0) AS copies
     FROM mails m LEFT JOIN mailbox b ON b.message_id LIKE m.mail_id || '@%'`,
  );
  const wrong = CELLS.flatMap((cell) => {
    const end: End = ENDS[endOf(cell, life)];
    const own = sent.filter(({ order_id }) => order_id === orderOf(cell));
    const told = own.filter(({ state }) => state !== 'not_needed');
    const refused = end.mail === 'refused';
    const fits = told.every(
      ({ state, copies }) =>
        state === (refused ? 'refused' : 'sent') && copies === (refused ? 0 : (end.copies ?? 1)),
    );
    const silent = end.mails.length > 0 && told.length === 0;
    return fits && !silent ? [] : [`${named(cell)} to ${addressOf(cell)}: ${JSON.stringify(own)}`];
  });
  assert.deepEqual(wrong, []);
}
