import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import type { CancellationWish } from '../../src/orders/cancellations.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { makeDue } from '../support/acts.ts';
import { until } from '../support/app.ts';
import { testDatabase } from '../support/postgres.ts';
import { programArguments } from '../support/program.ts';
import { bought, refundDesk } from '../support/refund-desk.ts';
import { startTestSimulator } from '../support/simulator.ts';
import { auditEvent, reserved, stageEvent } from '../support/stage.ts';
import { pause } from '../support/wait.ts';

/** Run at full size by hand: ONSALE_TEST_CANCEL_TICKETS=50000 node --import tsx --test test/load/cancel-event.test.ts */
const tickets = Number(process.env.ONSALE_TEST_CANCEL_TICKETS ?? 300);
const ticketsPerOrder = 2;
/** Percentage of requests to the provider that each kind of fault strikes. */
const faultPercent = 8;
const kills = 4;

const wish: CancellationWish = {
  reason: 'the venue is closed',
  fees: 'returned',
  seats: 'release',
  perSecond: Math.max(60, tickets / 100),
};

test('P8 D4: an event with all of its tickets is cancelled under faults of the provider, its workers killed -9 again and again', async (t) => {
  const database = await testDatabase(t);
  const simulator = await startTestSimulator();
  t.after(() => simulator.stop());
  const desk = refundDesk(database.url, simulator.provider, { owner: 'organiser', poolSize: 20 });
  t.after(() => desk.close());
  const stage = await stageEvent(database, { seats: tickets + 20 });
  const buyers = Array.from({ length: tickets / ticketsPerOrder }, (_, n) => n);
  await inTurns(buyers, 16, (n) => bought(desk, stage, [n * 2, n * 2 + 1]));
  for (let seat = tickets; seat < tickets + 10; seat += 1)
    await reserved(desk, stage, `unpaid-${seat}`, [seat]);

  const { shown, code } = await desk.cancelEvent.ask(stage.event, wish, 'organiser');
  assert.deepEqual([shown.orders, shown.tickets, shown.unpaidOrders], [buyers.length, tickets, 10]);
  for (const fault of [
    'error_500_after',
    'drop_after',
    'rate_limit',
    'refund_pending',
    'refund_insufficient_balance',
  ] as const) {
    const match = fault.startsWith('refund') ? {} : { route: 'refunds.create' };
    await simulator.fault(fault, { match, rate: faultPercent / 100, delayMs: 0 });
  }
  assert.equal((await desk.cancelEvent.confirm(stage.event, wish, 'organiser', code)).kind, 'started');

  // Two at once, each killed at any instruction and started again.
  const workers = [await startWorker('one'), await startWorker('two')];
  t.after(() => Promise.all(workers.map(end)));
  async function startWorker(owner: string): Promise<ChildProcess> {
    const orders = JSON.stringify({ database: database.url, simulator: simulator.url, owner });
    const args = [...programArguments('test/support/cancelling-worker.ts'), orders];
    const worker = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(worker.stdout!, 'data');
    return worker;
  }
  for (let kill = 0; kill < kills; kill += 1) {
    await pause(200 + systemRandom.int(600), 'a random moment for the kill');
    const which = kill % 2;
    await end(workers[which]!);
    workers[which] = await startWorker(which === 0 ? 'one' : 'two');
  }

  const found = async () => (await desk.cancellations.find(stage.event))!;
  const perTicketMs = 100;
  await untilDone(30_000 + tickets * perTicketMs);
  const first = await found();
  t.diagnostic(JSON.stringify({ refunds: first.refunds, closed: first.closed }));
  const [unpaid] = await database.query(
    `SELECT count(*)::integer AS closed FROM orders WHERE state = 'closed' AND event_no = $1`,
    [stage.event],
  );
  // In a large venue some of them meet their own deadline first.
  assert.equal(unpaid!.closed, 10);
  assert.equal(
    Object.values(first.refunds).reduce((sum, one) => sum + one.refunds, 0),
    buyers.length,
  );
  assert.ok((first.refunds.failed?.refunds ?? 0) > 0, 'faults were injected');

  // The provider is well again: what failed is tried again, what waits at the bank arrives.
  await simulator.clearFaults();
  await simulator.settleRefunds();
  await desk.cancellations.retryFailed(stage.event, 'organiser');
  await untilDone(30_000 + tickets * perTicketMs);
  await until(
    async () => {
      await makeDue(database);
      return (await found()).refunds.done?.refunds === buyers.length;
    },
    'every order to be refunded',
    60_000,
  );
  await Promise.all(workers.map(end));

  await auditEvent(database, simulator, stage.event);
  const { totals } = await simulator.ledger();
  assert.deepEqual([totals.EUR?.net, totals.EUR?.authorised], [0, 0]);
  assert.equal(totals.EUR?.refunded, shown.amount);

  async function untilDone(withinMs: number): Promise<void> {
    await until(
      async () => {
        // Makes everything that waits for its next attempt due now, because the test is about crashes, not about delays.
        await database.query(
          `UPDATE money_operations SET due_at = now() WHERE state = 'unknown' AND claimed_until IS NULL`,
        );
        return (await found()).state === 'done';
      },
      'the run to be done',
      withinMs,
    );
  }
});

async function end(worker: ChildProcess): Promise<void> {
  if (worker.exitCode !== null || worker.signalCode !== null) return;
  const gone = once(worker, 'exit');
  worker.kill('SIGKILL');
  await gone;
}

async function inTurns<Item>(
  items: Item[],
  atOnce: number,
  act: (item: Item) => Promise<unknown>,
): Promise<void> {
  const left = [...items];
  const turn = async (): Promise<void> => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await act(item);
  };
  await Promise.all(Array.from({ length: atOnce }, turn));
}
