import assert from 'node:assert/strict';
import test from 'node:test';
import {
  type OrderChange,
  type OrderState,
  operationStates,
  operationsUnderWay,
  orderStates,
  orderTransitions,
  seatStateOfOrder,
  settledStates,
} from '../../src/core/order.ts';

const changes = Object.entries(orderTransitions) as [OrderChange, (typeof orderTransitions)[OrderChange]][];

/** All that can be reached from a state, itself included. */
function reachable(from: OrderState, without: OrderChange[] = []): Set<OrderState> {
  const found = new Set([from]);
  for (const state of found) {
    for (const [change, { from: sources, to }] of changes) {
      if (sources.includes(state) && !without.includes(change)) found.add(to);
    }
  }
  return found;
}

test('every state of an order can be reached from reserved', () => {
  assert.deepEqual([...reachable('reserved')].sort(), [...orderStates].sort());
});

test('P4: from every state a settled one can be reached: nothing is stuck for good', () => {
  for (const state of orderStates) {
    assert.ok(
      [...reachable(state)].some((reached) => settledStates.includes(reached)),
      state,
    );
  }
});

test('P2: no way leads to paid but through confirmed, nor to confirmed but through authorised', () => {
  assert.ok(!reachable('reserved', ['confirm']).has('paid'));
  assert.ok(!reachable('reserved', ['confirm']).has('confirmed'));
  assert.ok(!reachable('reserved', ['authorise', 'late_success']).has('confirmed'));
  assert.deepEqual(orderTransitions.capture.from, ['confirmed']);
});

test('a cancelled order is the end; a closed one comes back only by a late success', () => {
  assert.deepEqual([...reachable('cancelled')], ['cancelled']);
  assert.deepEqual([...reachable('closed', ['late_success'])], ['closed']);
});

test('one function from order state to seat state, kept by every transition', () => {
  for (const [change, { from, to, tickets }] of changes) {
    for (const state of from) {
      const [before, after] = [seatStateOfOrder[state], seatStateOfOrder[to]];
      const expected = { reserve: 'reserved', sell: 'sold', free: 'free', keep: before }[tickets];
      assert.equal(after, expected, `${change} from ${state}`);
      if (tickets === 'sell') assert.equal(before, 'reserved');
      if (tickets === 'reserve') assert.equal(before, 'free');
    }
  }
});

test('every state times every change is decided: possible, or refused by its absence', () => {
  const possible = changes.flatMap(([change, { from, to }]) =>
    from.map((state) => `${state} ${change} ${to}`),
  );
  assert.deepEqual(possible.sort(), [
    'authorised confirm confirmed',
    'authorised confirm_impossible voiding',
    'closed late_success authorised',
    'confirmed capture paid',
    'confirmed capture_refused cancelled',
    'paid cancel cancelled',
    'reserved authorise authorised',
    'reserved close closed',
    'reserved close_pending voiding',
    'voiding voided closed',
  ]);
});

test('an operation is under way in exactly the states that are no end', () => {
  const ends = operationStates.filter((state) => !operationsUnderWay.includes(state));
  assert.deepEqual(ends, ['done', 'refused', 'voided']);
});
