import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { ticketsOfOrder } from '../../src/sales/tickets.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { startTestSimulator, type TestSimulator } from '../support/simulator.ts';
import { holdOf, payCommand, reserveCommand, stageEvent, type Till, till } from '../support/stage.ts';

let database: TestDatabase;
let simulator: TestSimulator;
let desk: Till;

before(async () => {
  database = await testDatabase();
  simulator = await startTestSimulator();
  desk = till(database.url, simulator.provider);
});
after(async () => {
  await desk?.close();
  await simulator?.stop();
});

test('a purchase goes from hold to paid: seats sold, captured once, to the cent', async () => {
  const stage = await stageEvent(database);
  const hold = holdOf(stage, 'anna', [3, 4]);
  const reserved = await desk.checkout.reserve(reserveCommand(hold));
  assert.equal(reserved.kind, 'order');
  assert(reserved.kind === 'order');
  assert.equal(reserved.order.amount, 2 * 5250 + 100);
  const paid = await desk.checkout.pay(payCommand(reserved.order.order, 'pm_card_visa'));
  assert.equal(paid.kind, 'bought');
  assert(paid.kind === 'bought');
  assert.equal(paid.order.state, 'paid');
  const tickets = await ticketsOfOrder(desk.db, stage.event, paid.order.order);
  assert.deepEqual(
    tickets.map(({ seat, status }) => [seat, status]),
    [
      [3, 'sold'],
      [4, 'sold'],
    ],
  );
});
