import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import test from 'node:test';
import { passDeadline } from '../support/acts.ts';
import { checkoutDesk } from '../support/checkout-desk.ts';
import { programArguments } from '../support/program.ts';
import { auditEvent, stageEvent, till } from '../support/stage.ts';

const { database, simulator } = await checkoutDesk();

/** Runs the buyer until it kills itself. */
async function buyUntil(
  at: string,
  stage: { event: number; epoch: number },
  seat: number,
  lost: boolean,
): Promise<void> {
  const orders = {
    database: database.url,
    simulator: simulator.url,
    ...stage,
    seat,
    card: 'pm_card_visa',
    at,
    lost,
  };
  const child = spawn(
    process.execPath,
    [...programArguments('test/support/dying-buyer.ts'), JSON.stringify(orders)],
    {
      stdio: ['ignore', 'ignore', 'inherit'],
    },
  );
  const [, signal] = (await once(child, 'exit')) as [number | null, string | null];
  assert.equal(signal, 'SIGKILL', `${at} was not reached`);
}

/** Where a buyer's process dies, and whether the order is paid after the next process's first pass. */
const points = [
  ['after:record.reserve', 'reserved'],
  ['before:provider.open', 'reserved'],
  ['after:provider.open', 'reserved'],
  ['after:record.opened', 'reserved'],
  // The row is written, the call never made: the row's own key makes it.
  ['before:provider.authorise', 'paid'],
  ['after:provider.authorise', 'paid'],
  ['before:record.authorised', 'paid'],
  ['after:record.authorised', 'paid'],
  ['before:record.confirm', 'paid'],
  ['after:record.confirm', 'paid'],
  ['after:provider.capture', 'paid'],
  ['before:record.captured', 'paid'],
  ['after:record.captured', 'paid'],
] as const;
const pointsOfVoiding = [
  'after:record.confirm',
  'before:provider.void',
  'after:provider.void',
  'before:record.voided',
];

test('D4, P2–P4: killed at any step of a purchase, the first pass of the next process finishes it', async () => {
  const stage = await stageEvent(database, { seats: points.length });
  for (let seat = 0; seat < points.length; seat += 2) {
    const two = points.slice(seat, seat + 2);
    await Promise.all(two.map(([at], n) => buyUntil(at, stage, seat + n, false)));
  }
  const desk = till(database.url, simulator.provider);
  // No waiting for leases to lapse: it has the dead process's name.
  const pass = await desk.reconciler.runOnce();
  assert.equal(pass.failed, 0);
  for (const [seat, [at, state]] of points.entries()) {
    const [order] = await database.query(
      'SELECT order_id, state FROM orders WHERE event_no = $1 AND seats = $2',
      [stage.event, [seat]],
    );
    assert.equal(order.state, state, at);
    if (state === 'reserved') await passDeadline(database, order.order_id);
  }
  await desk.reconciler.runOnce();
  await desk.reconciler.runOnce();
  const paid = points.filter(([, state]) => state === 'paid').length;
  const { paid: found } = await auditEvent(database, simulator, stage.event);
  assert.equal(found, paid);
  await desk.close();
});

test('D4, P3: killed while voiding, the first pass of the next process voids: nothing charged', async () => {
  const stage = await stageEvent(database, { seats: pointsOfVoiding.length });
  for (let seat = 0; seat < pointsOfVoiding.length; seat += 2) {
    const two = pointsOfVoiding.slice(seat, seat + 2);
    await Promise.all(two.map((at, n) => buyUntil(at, stage, seat + n, true)));
  }
  const desk = till(database.url, simulator.provider);
  await desk.reconciler.runOnce();
  assert.deepEqual(await auditEvent(database, simulator, stage.event), { paid: 0, closed: 4, captured: 0 });
  await desk.close();
});

test('a claim of another process is respected until it lapses', async () => {
  const stage = await stageEvent(database, { seats: 1 });
  await buyUntil('after:provider.authorise', stage, 0, false);
  const other = till(database.url, simulator.provider, { owner: 'another process' });
  assert.equal((await other.reconciler.runOnce()).driven, 0);
  await database.query(
    `UPDATE money_operations SET claimed_until = now(), due_at = now() WHERE claimed_until > now()`,
  );
  assert.equal((await other.reconciler.runOnce()).driven, 1);
  assert.equal((await auditEvent(database, simulator, stage.event)).paid, 1);
  await other.close();
});
