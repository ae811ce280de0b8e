import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { stepOf } from '../../src/core/money.ts';
import {
  capturedOf,
  decideRefund,
  dueOf,
  leftOf,
  type PaidOrder,
  type RefundWish,
} from '../../src/core/money-due.ts';

const order = (prices: number[], fee: number, orderFee: number): PaidOrder => ({
  tickets: prices.map((price, n) => ({ ticket: `t${n}`, price, fee, valid: true })),
  orderFee,
  refunds: [],
});

/** The order after the refund; the same when it is refused. */
function after(before: PaidOrder, wish: RefundWish, step = 1): PaidOrder {
  const decision = decideRefund(before, wish, step);
  if (decision.kind !== 'refund') return before;
  return {
    ...before,
    tickets: before.tickets.map((one) =>
      decision.tickets.includes(one.ticket) ? { ...one, valid: false } : one,
    ),
    refunds: [...before.refunds, decision],
  };
}

test('P8: known refunds, by hand: one ticket, the rest, with and without fees', () => {
  const bought = order([5000, 3000], 250, 100);
  assert.equal(capturedOf(bought), 8600);
  assert.equal(dueOf(bought), 8600);
  const one = decideRefund(bought, { tickets: ['t0'], fees: 'returned', goodwill: 0 }, 1);
  assert.deepEqual(one, {
    kind: 'refund',
    tickets: ['t0'],
    last: false,
    feesKept: 0,
    orderFee: 0,
    goodwill: 0,
    amount: 5250,
  });
  const rest = after(bought, { tickets: ['t0'], fees: 'returned', goodwill: 0 });
  assert.equal(dueOf(rest), 3350);
  // The order's fee goes back with the last ticket.
  const last = decideRefund(rest, { tickets: 'all', fees: 'returned', goodwill: 0 }, 1);
  assert.equal(last.kind === 'refund' && last.amount, 3350);
  const kept = after(bought, { tickets: 'all', fees: 'kept', goodwill: 0 });
  assert.equal(dueOf(kept), 600);
  assert.equal(leftOf(kept), 600);
});

test('P8: a ticket is refunded once, and never more than was taken', () => {
  const bought = order([5000], 0, 0);
  const gone = after(bought, { tickets: ['t0'], fees: 'returned', goodwill: 0 });
  const again = decideRefund(gone, { tickets: ['t0'], fees: 'returned', goodwill: 0 }, 1);
  assert.deepEqual(again, { kind: 'not_valid', tickets: ['t0'] });
  assert.deepEqual(decideRefund(gone, { tickets: 'all', fees: 'returned', goodwill: 0 }, 1), {
    kind: 'nothing',
  });
  assert.deepEqual(decideRefund(bought, { tickets: [], fees: 'kept', goodwill: 5001 }, 1), {
    kind: 'too_much',
    amount: 5001,
    most: 5000,
  });
  assert.throws(() => decideRefund(bought, { tickets: [], fees: 'kept', goodwill: 0.5 }, 1));
  assert.throws(() => decideRefund(bought, { tickets: [], fees: 'kept', goodwill: -1 }, 1));
});

test('P8: goodwill that was given counts towards the rest: an order can be refunded to its end', () => {
  const sorry = after(order([5000, 3000], 250, 100), { tickets: [], fees: 'kept', goodwill: 700 });
  const rest = decideRefund(sorry, { tickets: 'all', fees: 'returned', goodwill: 0 }, 1);
  assert.ok(rest.kind === 'refund');
  assert.deepEqual([rest.amount, rest.goodwill], [7900, -700]);
  assert.equal(dueOf(after(sorry, { tickets: 'all', fees: 'returned', goodwill: 0 })), 0);
});

test('P8: a sum that the currency cannot pay is rounded up; what that adds is goodwill', () => {
  const dinars = order([1234, 1236], 0, 0);
  const one = decideRefund(dinars, { tickets: ['t0'], fees: 'returned', goodwill: 0 }, stepOf('KWD'));
  assert.ok(one.kind === 'refund');
  assert.deepEqual([one.amount, one.goodwill], [1240, 6]);
  const rest = after(dinars, { tickets: ['t0'], fees: 'returned', goodwill: 0 }, stepOf('KWD'));
  assert.equal(dueOf(rest), 1230);
});

test('P8: after any refunds, in any currency: captured − refunded is what is due, to the minor unit', () => {
  const wishes = fc.array(
    fc.record({
      tickets: fc.oneof(
        fc.constant('all' as const),
        fc.subarray(['t0', 't1', 't2', 't3', 't4', 't5'], { maxLength: 4 }),
      ),
      fees: fc.constantFrom('returned' as const, 'kept' as const),
      goodwill: fc.oneof(fc.constant(0), fc.nat(3_000)),
    }),
    { maxLength: 12 },
  );
  fc.assert(
    fc.property(
      fc.array(fc.nat(9_999), { minLength: 1, maxLength: 6 }),
      fc.nat(500),
      fc.nat(500),
      fc.constantFrom('EUR', 'JPY', 'KWD', 'ISK'),
      wishes,
      (prices, fee, orderFee, currency, all) => {
        const step = stepOf(currency);
        // Orders are charged in whole steps, whatever their lines are.
        const raw = capturedOf(order(prices, fee, orderFee));
        let now = order(prices, fee, orderFee + ((step - (raw % step)) % step));
        const captured = capturedOf(now);
        for (const wish of all) {
          const before = now;
          now = after(now, wish, step);
          const refunded = now.refunds.reduce((total, { amount }) => total + amount, 0);
          assert.equal(captured - refunded, dueOf(now));
          assert.equal(leftOf(now), captured - refunded);
          assert.ok(leftOf(now) >= 0, 'nothing is given back that was not taken');
          const rest = decideRefund(now, { tickets: 'all', fees: 'returned', goodwill: 0 }, step);
          assert.notEqual(rest.kind, 'too_much', 'what is left can always be given back');
          assert.equal(refunded % step, 0, 'only sums that the currency can pay leave');
          for (const { feesKept, orderFee: given, amount } of now.refunds) {
            assert.ok([feesKept, given, amount].every((one) => Number.isSafeInteger(one) && one >= 0));
          }
          const feeGiven = now.refunds.reduce((total, refund) => total + refund.orderFee, 0);
          assert.ok(feeGiven <= now.orderFee, "the order's fee goes back once");
          const lost = before.tickets.filter((one, n) => one.valid && !now.tickets[n]!.valid);
          if (now !== before && wish.tickets !== 'all') assert.equal(lost.length, wish.tickets.length);
        }
      },
    ),
  );
});

test('P8: what went back or was taken without us is never offered again, and is not due any more', () => {
  const bought = order([1000, 1000], 100, 50);
  const all = { tickets: 'all', fees: 'returned', goodwill: 0 } as const;
  const part = { ...bought, refundedThere: 700 };
  assert.deepEqual([leftOf(part), dueOf(part)], [1550, 1550]);
  const rest = decideRefund(part, all, 1);
  assert.ok(rest.kind === 'refund' && rest.amount === 1550 && rest.goodwill === -700, JSON.stringify(rest));
  // A dispute takes what is left, and is no refund: the provider counts it apart.
  const disputed = { ...bought, disputed: 2250 };
  assert.deepEqual([leftOf(disputed), dueOf(disputed)], [0, 2250]);
  assert.equal(decideRefund(disputed, { ...all, tickets: [], goodwill: 1 }, 1).kind, 'too_much');
  const unpaid = decideRefund(bought, { ...all, pays: false }, 1);
  assert.ok(unpaid.kind === 'refund' && unpaid.amount === 0 && unpaid.last && unpaid.goodwill === -2250);
  assert.equal(leftOf({ ...part, disputed: 2250 }), 0, 'never less than nothing');
});
