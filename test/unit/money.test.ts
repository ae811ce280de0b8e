import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import {
  amountMax,
  decimalOf,
  exponentOf,
  isChargeable,
  maximumOf,
  minorOf,
  orderAmount,
  stepOf,
} from '../../src/core/money.ts';

const currencies = ['USD', 'EUR', 'JPY', 'KRW', 'KWD', 'TND', 'ISK', 'UGX', 'HUF', 'TWD', 'CLP', 'MGA'];

test('known sums, by hand: dollars, yen, dinars, forints, krónur', () => {
  assert.equal(decimalOf(1234, 'USD'), '12.34');
  assert.equal(decimalOf(5, 'USD'), '0.05');
  assert.equal(decimalOf(-5, 'USD'), '-0.05');
  assert.equal(decimalOf(1234, 'JPY'), '1234');
  assert.equal(decimalOf(1230, 'KWD'), '1.230');
  assert.equal(decimalOf(1234, 'HUF'), '12.34');
  assert.equal(decimalOf(150000, 'ISK'), '1500.00');
  assert.equal(minorOf('12.34', 'USD'), 1234);
  assert.equal(minorOf('12.3', 'USD'), 1230);
  assert.equal(minorOf('12', 'KWD'), 12000);
  assert.equal(minorOf('1234', 'JPY'), 1234);
  assert.equal(minorOf('-0.00', 'USD'), 0);
});

test('what is no sum of money in the currency is refused, never rounded', () => {
  for (const text of ['12.345', '1e3', '', '.5', '5.', '1,000', 'NaN', '12.34 ', ' 1 2', '--1']) {
    const known = text === '12.34 ' ? 1234 : null;
    assert.equal(minorOf(text, 'USD'), known, JSON.stringify(text));
  }
  assert.equal(minorOf('1.5', 'JPY'), null);
  assert.throws(() => exponentOf('usd'));
  assert.throws(() => decimalOf(0.5, 'USD'));
});

test('what can be charged: whole steps of the currency, in range', () => {
  assert.ok(isChargeable(1, 'USD') && isChargeable(0, 'USD') && isChargeable(1, 'JPY'));
  assert.ok(isChargeable(1230, 'KWD') && !isChargeable(1234, 'KWD'));
  assert.ok(isChargeable(1500, 'ISK') && !isChargeable(1550, 'ISK'));
  for (const amount of [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, maximumOf('USD') + 1]) {
    assert.ok(!isChargeable(amount, 'USD'), String(amount));
  }
  assert.ok(isChargeable(999_999_999_999, 'IDR') && !isChargeable(999_999_999_999 + 1, 'IDR'));
  assert.ok(isChargeable(99_999_990, 'KWD') && !isChargeable(100_000_000, 'KWD'));
});

test('P8: minor units → text → minor units is the same sum in every currency', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...currencies),
      fc.integer({ min: -amountMax, max: amountMax }),
      (currency, amount) => {
        assert.equal(minorOf(decimalOf(amount, currency), currency), amount === 0 ? 0 : amount);
        const places = decimalOf(amount, currency).split('.')[1]?.length ?? 0;
        assert.equal(places, exponentOf(currency));
        assert.ok(stepOf(currency) <= 10 ** exponentOf(currency));
      },
    ),
  );
});

test('P8: an order costs the sum of its lines and the order fee once, in any order of the lines', () => {
  const line = fc.record({ price: fc.nat(1_000_000), fee: fc.nat(10_000) });
  fc.assert(
    fc.property(fc.array(line, { minLength: 1, maxLength: 50 }), fc.nat(10_000), (lines, orderFee) => {
      const amount = orderAmount(lines, orderFee);
      assert.equal(amount, orderAmount([...lines].reverse(), orderFee));
      const [first, ...rest] = lines;
      assert.equal(amount - orderAmount(rest, orderFee), first!.price + first!.fee);
      assert.equal(orderAmount([], orderFee), orderFee);
    }),
  );
  assert.throws(() => orderAmount([{ price: 0.1, fee: 0 }], 0));
  assert.throws(() => orderAmount([{ price: -10, fee: 0 }], 5));
});
