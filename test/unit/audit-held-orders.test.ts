import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { OrderOfHold } from '../../src/audit/facts.ts';
import { judgeOrders } from '../../src/audit/held-orders.ts';
import type { StoredHold } from '../../src/inventory/modes.ts';

const made = 1_000_000;
const order = (fields: Partial<OrderOfHold> = {}): OrderOfHold => ({
  order: 'order',
  hold: 'hold',
  visitor: 'v',
  seats: [3, 4],
  state: 'reserved',
  createdAt: made,
  ...fields,
});
const record = (fields: Partial<StoredHold> = {}): StoredHold => ({
  hold: 'hold',
  visitor: 'v',
  holder: 'h',
  request: '',
  seats: [3, 4],
  grantedAt: made - 60_000,
  deadline: made + 300_000,
  grant: 1,
  order: 'order',
  state: 'ordered',
  ...fields,
});
const early = made - 5_000;

function judged(orders: OrderOfHold[], holds: StoredHold[]) {
  const { violations, looked } = judgeOrders({ partition: 0, store: 'Redis', holds, orders });
  const unchecked = looked.flatMap((one) => (one.unchecked === undefined ? [] : [one.unchecked]));
  return { found: violations.map(({ promise, says }) => `${promise} ${says}`), unchecked };
}

test('S5 S7: orders compared with the records of their holds: legitimate differences are no contradiction', () => {
  const well: [OrderOfHold, StoredHold][] = [
    [order(), record()],
    // Not told yet.
    [order(), record({ state: 'live' })],
    [order({ state: 'paid' }), record({ state: 'ended' })],
    [order({ state: 'closed' }), record({ state: 'ended' })],
    // Closed and given back in one step, before Redis had heard of the order.
    [order({ state: 'closed' }), record({ state: 'released', deadline: made + 10 })],
    // Given back long after it was bought and forgotten.
    [order({ state: 'paid' }), record({ state: 'tombstone', seats: [], deadline: made + 9e6 })],
    // A mark that the hold was given back first is no order.
    [order({ state: 'closed', seats: [] }), record({ state: 'released', deadline: early })],
    // Within what the clocks may differ by.
    [order({ state: 'paid' }), record({ state: 'ended', deadline: made - 500 })],
  ];
  for (const [of, hold] of well) {
    assert.deepEqual(judged([of], [hold]), { found: [], unchecked: [] }, JSON.stringify([of, hold]));
  }
});

test('S5: an order of a hold that had ended, or of another hold, is found', () => {
  const cases: [OrderOfHold, StoredHold, RegExp][] = [
    [order(), record({ state: 'released' }), /^S5 the hold was released at .* is reserved$/],
    [order({ state: 'paid' }), record({ state: 'replaced' }), /^S5 the hold was replaced/],
    [order({ state: 'closed' }), record({ state: 'released', deadline: early }), /^S5 the hold was released/],
    [order(), record({ state: 'tombstone', seats: [] }), /^S5 the hold was given back/],
    [order({ state: 'paid' }), record({ state: 'ended', deadline: early }), /^S5 the hold lapsed/],
    [order(), record({ state: 'expired', deadline: early }), /^S5 the hold lapsed/],
    [order(), record({ visitor: 'w' }), /^S5 the order is of visitor v .* its hold of w/],
    [order(), record({ seats: [3] }), /^S5 the order is of visitor v and seats 3,4, its hold of v and 3/],
  ];
  for (const [of, hold, says] of cases) {
    const { found } = judged([of], [hold]);
    assert.equal(found.length, 1, found.join('\n'));
    assert.match(found[0]!, says);
  }
});

test('S7: a quota entry without an unpaid order, and an unpaid order without its quota entry, are found', () => {
  for (const state of ['closed', 'cancelled', 'confirmed', 'paid']) {
    const { found } = judged([order({ state })], [record()]);
    assert.match(found.join(), new RegExp(`^S7 Redis counts 2 seats of holder h .* the order is ${state}$`));
  }
  assert.match(judged([], [record()]).found.join(), /^S7 .* the order is not there$/);
  for (const state of ['expired', 'ended'] as const) {
    assert.match(judged([order()], [record({ state })]).found.join(), /^S7 the order is reserved, yet its 2/);
  }
});

test('S5: of an order whose hold is forgotten nothing is said, and that is said', () => {
  const old = order({ order: 'old', hold: 'forgotten', state: 'paid' });
  assert.deepEqual(judged([order(), old], [record()]), {
    found: [],
    unchecked: ['partition 0: the holds of 1 of 2 orders are not remembered any more'],
  });
});
