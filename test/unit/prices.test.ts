import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { readPrices } from '../../src/cli/prices.ts';
import { isChargeable, maximumOf, minimumOf, stepOf } from '../../src/core/money.ts';
import { capturedOf, decideRefund, dueOf, type PaidOrder } from '../../src/core/money-due.ts';
import {
  areNone,
  type BuyerKind,
  canonicalCode,
  categoriesFor,
  fullKind,
  hasLocks,
  kindsIn,
  noRights,
  type Priced,
  presaleFault,
  priceFault,
  priceOf,
  rightsMissing,
  rightsNeeded,
  totalOf,
} from '../../src/core/prices.ts';
import { codesCsv, readCodes } from '../../src/orders/access-codes.ts';

const reduced: BuyerKind = {
  id: 'reduced',
  name: 'Reduced',
  conditions: 'Students',
  prices: { A: 3_000, B: 2_000 },
};
const members: BuyerKind = {
  id: 'members',
  name: 'Members',
  conditions: '',
  prices: { A: 100 },
  locked: true,
};
const event: Priced & { currency: string } = {
  currency: 'EUR',
  prices: { A: 5_000, B: 4_000, constructor: 900 },
  settings: { seatFee: 250, orderFee: 100, kinds: [reduced, members], lockedCategories: ['B'] },
};

test('a price is that of its category and kind; what is not sold has none', () => {
  assert.equal(priceOf(event, 'A', fullKind), 5_000);
  assert.equal(priceOf(event, 'A', 'reduced'), 3_000);
  assert.equal(priceOf(event, 'B', 'members'), null);
  assert.equal(priceOf(event, 'toString', fullKind), null);
  assert.equal(priceOf(event, 'constructor', 'reduced'), null);
  assert.deepEqual(kindsIn(event, 'A'), ['full', 'reduced', 'members']);
  assert.deepEqual(kindsIn({ ...event, settings: { seatFee: 0, orderFee: 0 } }, 'A'), ['full']);
  const seats = [
    { category: 'A', kind: 'full' },
    { category: 'A', kind: 'reduced' },
  ];
  assert.equal(totalOf(event, seats), 5_000 + 3_000 + 2 * 250 + 100);
  assert.throws(() => totalOf(event, [{ category: 'B', kind: 'members' }]));
});

test('what a purchase needs opened, and what a code leaves closed', () => {
  const seats = [
    { category: 'B', kind: 'full' },
    { category: 'A', kind: 'members' },
  ];
  const needed = rightsNeeded(event, true, seats);
  assert.deepEqual(needed, { categories: ['B'], kinds: ['members'], presale: true });
  assert.ok(areNone(rightsNeeded(event, false, [{ category: 'A', kind: 'reduced' }])));
  const missing = rightsMissing(needed, { categories: ['B'], kinds: [], presale: true });
  assert.deepEqual(missing, { categories: [], kinds: ['members'], presale: false });
  assert.deepEqual(categoriesFor(event, ['reduced'], noRights), ['A']);
  assert.deepEqual(categoriesFor(event, ['reduced'], { ...noRights, categories: ['B'] }), ['A', 'B']);
  assert.ok(
    hasLocks(event, false) && !hasLocks({ prices: {}, settings: { seatFee: 0, orderFee: 0 } }, false),
  );
});

test('codes have one form, however they are written', () => {
  for (const text of ['fan-club 26', 'FANCLUB26', ' Fan Club–26 ', 'ＦＡＮclub２６', 'f.a.n_club\u200b26']) {
    assert.equal(canonicalCode(text), 'FANCLUB26', text);
  }
  assert.equal(canonicalCode('straße'), canonicalCode('STRASSE'));
  for (const none of ['', 'abc', '=cmd|x', 'a;b;c;d', 'x'.repeat(41), '<script>', '    ']) {
    assert.equal(canonicalCode(none), null, none);
  }
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 30 }), (text) => {
      const code = canonicalCode(text);
      if (code !== null) assert.equal(canonicalCode(code), code);
    }),
  );
});

test('a price list is refused where it is wrong, with the place', () => {
  const list = { ...event.settings, holdSeatsMax: 1 };
  const fault = (change: Partial<typeof list>, prices = event.prices, currency = 'EUR') =>
    priceFault({ currency, prices, settings: { ...list, ...change } })?.place ?? null;
  assert.equal(fault({}), null);
  assert.equal(fault({ seatFee: -1 }), '/seatFee');
  assert.equal(fault({ kinds: [{ ...reduced, id: 'full' }] }), '/kinds/0/id');
  assert.equal(fault({ kinds: [reduced, reduced] }), '/kinds/1/id');
  assert.equal(fault({ kinds: [{ ...reduced, prices: { Z: 900 } }] }), '/kinds/0/prices');
  assert.equal(fault({ kinds: [{ ...reduced, prices: {} }] }), '/kinds/0/prices');
  assert.equal(fault({ kinds: [{ ...reduced, name: ' ' }] }), '/kinds/0/name');
  assert.equal(fault({ lockedCategories: ['Z'] }), '/lockedCategories/0');
  // Nothing, too little for a card, too much, and sums that the currency does not have.
  const bare = { seatFee: 0, orderFee: 0, kinds: [], lockedCategories: [] };
  assert.equal(fault(bare, { A: 0 }), '/prices');
  assert.equal(fault(bare, { A: 49 }), '/prices');
  assert.equal(fault({ ...bare, orderFee: 50 }, { A: 0 }), null);
  const most = maximumOf('EUR');
  assert.equal(fault(bare, { A: most }), null);
  assert.equal(fault({ ...bare, seatFee: 1 }, { A: most }), '/prices');
  // The largest order counts: as many seats as one hold may have, each with its fee, in every kind.
  assert.equal(fault({ ...bare, holdSeatsMax: 4 }, { A: most / 4 + 1 }), '/prices');
  assert.equal(fault({ ...bare, holdSeatsMax: 3 }, { A: most / 3 }), null);
  assert.equal(fault({ ...bare, holdSeatsMax: 3, orderFee: 1 }, { A: most / 3 }), '/prices');
  const dear = { ...reduced, prices: { A: most } };
  assert.equal(fault({ ...bare, holdSeatsMax: 2, kinds: [dear] }, { A: 900 }), '/kinds/0/prices');
  assert.equal(fault({ ...bare, holdSeatsMax: 6 }, { A: 150_000_000_000 }, 'IDR'), null);
  assert.equal(fault({ ...bare, holdSeatsMax: 6 }, { A: 170_000_000_000 }, 'IDR'), '/prices');
  assert.equal(fault(bare, { A: 15_000 }, 'HUF'), '/prices');
  assert.equal(fault(bare, { A: 1_234 }, 'KWD'), '/prices');
  assert.equal(fault(bare, { A: 1_230 }, 'KWD'), null);
  assert.equal(fault(bare, { A: 150_050 }, 'ISK'), '/prices');
  assert.equal(presaleFault(1, null) === null, false);
  assert.equal(presaleFault(2, 2) === null, false);
  assert.equal(presaleFault(1, 2), null);
});

const currencies = ['EUR', 'JPY', 'KWD', 'ISK', 'HUF', 'KRW', 'MGA'];
/** An event that `priceFault` has nothing against, and some seats of it. */
const pricedOrder = fc
  .record({
    currency: fc.constantFrom(...currencies),
    full: fc.integer({ min: 0, max: 40_000 }),
    less: fc.integer({ min: 0, max: 40_000 }),
    seatFee: fc.integer({ min: 0, max: 300 }),
    orderFee: fc.integer({ min: 0, max: 300 }),
    kinds: fc.array(fc.boolean(), { minLength: 1, maxLength: 12 }),
  })
  .map(({ currency, full, less, seatFee, orderFee, kinds }) => {
    const step = stepOf(currency);
    const sum = (amount: number) => amount * step;
    const list = {
      currency,
      prices: { A: sum(full) },
      settings: {
        seatFee: sum(seatFee),
        orderFee: sum(orderFee),
        kinds: [{ id: 'less', name: 'Less', conditions: '', prices: { A: sum(less) } }],
        holdSeatsMax: 12,
      },
    };
    return { list, seats: kinds.map((other) => ({ category: 'A', kind: other ? 'less' : fullKind })) };
  });

test('P8: whatever an accepted price list sells, every order of it can be charged, without rounding', () => {
  fc.assert(
    fc.property(pricedOrder, ({ list, seats }) => {
      fc.pre(priceFault(list) === null);
      const total = totalOf(list, seats);
      assert.ok(isChargeable(total, list.currency), `${total} ${list.currency}`);
      assert.ok(total >= minimumOf(list.currency));
      const sums = seats.map(({ category, kind }) => priceOf(list, category, kind)! + list.settings.seatFee);
      assert.equal(
        total,
        sums.reduce((all, one) => all + one, list.settings.orderFee),
      );
    }),
  );
});

test('P8: refunds ticket by ticket give back exactly what mixed kinds cost, and never a rounded unit', () => {
  fc.assert(
    fc.property(
      pricedOrder,
      fc.constantFrom('returned' as const, 'kept' as const),
      ({ list, seats }, fees) => {
        fc.pre(priceFault(list) === null);
        let order: PaidOrder = {
          tickets: seats.map(({ category, kind }, i) => ({
            ticket: `t${i}`,
            price: priceOf(list, category, kind)!,
            fee: list.settings.seatFee,
            valid: true,
          })),
          orderFee: list.settings.orderFee,
          refunds: [],
        };
        assert.equal(capturedOf(order), totalOf(list, seats));
        let given = 0;
        for (const { ticket } of order.tickets) {
          const decision = decideRefund(
            order,
            { tickets: [ticket], fees, goodwill: 0 },
            stepOf(list.currency),
          );
          assert.ok(decision.kind === 'refund', decision.kind);
          assert.equal(decision.goodwill, 0, 'nothing was rounded');
          given += decision.amount;
          const { feesKept, orderFee, goodwill, amount } = decision;
          order = {
            ...order,
            tickets: order.tickets.map((one) => (one.ticket === ticket ? { ...one, valid: false } : one)),
            refunds: [...order.refunds, { feesKept, orderFee, goodwill, amount }],
          };
          assert.equal(capturedOf(order) - given, dueOf(order));
        }
        const kept = fees === 'kept' ? seats.length * list.settings.seatFee + list.settings.orderFee : 0;
        assert.equal(given, totalOf(list, seats) - kept);
      },
    ),
  );
});

test('prices and fees on the command line: by category and ticket type, in the main unit of the currency', () => {
  const read = readPrices(
    {
      price: ['Category 1=149.00', 'Category 1/reduced=99.00', 'Box A/B=200'],
      seatFee: '1.5',
      kind: ['reduced=Reduced price'],
      kindConditions: ['reduced=Students, with a card'],
      lockedKind: ['reduced'],
      locked: ['Box A/B'],
    },
    'EUR',
  );
  assert.ok(read.kind === 'read');
  assert.deepEqual({ ...read.prices }, { 'Category 1': 14_900, 'Box A/B': 20_000 });
  assert.deepEqual([read.seatFee, read.orderFee], [150, undefined]);
  assert.deepEqual(read.kinds, [
    {
      id: 'reduced',
      name: 'Reduced price',
      conditions: 'Students, with a card',
      prices: { 'Category 1': 9_900 },
      locked: true,
    },
  ]);
  assert.deepEqual(read.lockedCategories, ['Box A/B']);
  for (const [price, currency] of [
    ['Category 1', 'EUR'],
    ['=100', 'EUR'],
    ['A=-1', 'EUR'],
    ['A=1.234', 'EUR'],
    ['A=1.5', 'JPY'],
  ] as const) {
    assert.equal(readPrices({ price: [price] }, currency).kind, 'refused', price);
  }
  for (const fee of ['x', '-1', '1.234'])
    assert.equal(readPrices({ price: ['A=1'], seatFee: fee }, 'EUR').kind, 'refused', fee);
  const forgotten = readPrices({ price: ['A=100', 'A/child=50'] }, 'EUR');
  assert.ok(forgotten.kind === 'refused' && forgotten.sentence.includes('--kind "child=Name"'));
});

test('codes as CSV: read with or without a header, written so that no cell is a formula', () => {
  const rows = [['Code', 'Uses'], ['fan-club'], ['', ''], ['vip 2026', '3']];
  assert.deepEqual(readCodes(rows, 1), {
    kind: 'read',
    codes: [
      { code: 'FANCLUB', usesMax: 1 },
      { code: 'VIP2026', usesMax: 3 },
    ],
  });
  assert.deepEqual(readCodes([['abcd'], ['ABCD']], null), {
    kind: 'refused',
    line: 2,
    sentence: 'ABCD is there twice.',
  });
  assert.equal(readCodes([['=1+1']], null).kind, 'refused');
  assert.equal(readCodes([['abcd', '0']], null).kind, 'refused');
  assert.equal(readCodes([], null).kind, 'refused');
  const one = {
    ...{
      id: 'x',
      code: 'FANCLUB',
      batch: 'b',
      label: '=HYPERLINK("x")',
      categories: ['A', 'B,C'],
      kinds: [],
    },
    ...{ presale: true, usesMax: 3, seatsMax: null, used: 1, until: 0, revokedAt: null, createdAt: 0 },
  };
  assert.equal(
    codesCsv([one]),
    `FANCLUB,"'=HYPERLINK(""x"")","A; B,C",,yes,3,1,,1970-01-01T00:00:00.000Z,\r\n`,
  );
});
