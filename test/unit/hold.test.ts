import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { extendedDeadline, holdLimits, seatStates } from '../../src/core/hold.ts';

const minute = 60_000;
const grantedAt = 1_800_000_000_000;

test('S6: extend leaves at least five minutes, and what is there already is not cut', () => {
  const hold = { grantedAt, deadline: grantedAt + 10 * minute };
  assert.equal(extendedDeadline(hold, grantedAt + minute), hold.deadline);
  assert.equal(extendedDeadline(hold, grantedAt + 5 * minute), hold.deadline);
  assert.equal(extendedDeadline(hold, grantedAt + 9 * minute), grantedAt + 14 * minute);
});

test('S6: whenever a hold is extended, it ends within fifteen minutes of its grant and never earlier than before', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: holdLimits.lifeMaxMs }),
      fc.integer({ min: 0, max: holdLimits.lifeMaxMs }),
      (ttlMs, age) => {
        const hold = { grantedAt, deadline: grantedAt + ttlMs };
        const deadline = extendedDeadline(hold, grantedAt + Math.min(age, ttlMs));
        assert.ok(deadline >= hold.deadline && deadline - grantedAt <= holdLimits.lifeMaxMs);
      },
    ),
  );
});

test('the limits of a hold fit each other', () => {
  assert.ok(holdLimits.ttlMs <= holdLimits.lifeMaxMs);
  assert.ok(holdLimits.reserveMarginMs < holdLimits.extendToMs);
  assert.ok(holdLimits.extendToMs < holdLimits.ttlMs);
});

test('S8: the codes of a snapshot are those that the stores write', () => {
  assert.deepEqual([...seatStates], ['available', 'held', 'reserved', 'sold', 'blocked']);
});
