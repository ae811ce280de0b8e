import assert from 'node:assert/strict';
import test from 'node:test';
import type { EventObject, HoldAnswer, SeatInfo, StatusObject } from '../../src/http/api-types.ts';
import { hasCodes, isPresale } from '../../web/buyer/access-code.tsx';
import { offersFor } from '../../web/buyer/basket-kinds.tsx';
import { chooseKind, createBuyer, pricedSeats, setHold, totalOf } from '../../web/buyer/session.ts';
import { type KindDraft, kindsOf } from '../../web/console/new-kinds.tsx';
import { money } from '../../web/shared/texts/format.ts';

const event = {
  currency: 'EUR',
  prices: [
    { category: 'A', color: '#000', price: 5_000, fee: 250, kinds: { reduced: 3_000, members: 100 } },
    { category: 'B', color: '#000', price: 4_000, fee: 250, locked: true },
  ],
  kinds: [
    { id: 'reduced', name: 'Reduced', conditions: 'Students' },
    { id: 'members', name: 'Members', conditions: '', locked: true },
  ],
} as unknown as EventObject;
const seat = (no: number, category: string, kind = 'full'): SeatInfo => ({
  ...{ seat: no, guid: `g${no}`, section: 's', sectionName: 'S', row: '1', number: String(no) },
  ...{ category, kind, price: 1, fee: 250 },
});
const holdOf = (id: string, seats: SeatInfo[]) =>
  ({ hold: id, receipt: 'r', seats, orderFee: 100, currency: 'EUR' }) as unknown as HoldAnswer;

test('the basket offers the kinds that a category is sold to, as far as they are open', () => {
  const names = (category: string, opened: string[]) =>
    offersFor(event, category, opened).map(({ kind }) => kind);
  assert.deepEqual(names('A', []), ['full', 'reduced']);
  assert.deepEqual(names('A', ['members']), ['full', 'reduced', 'members']);
  assert.deepEqual(names('B', ['members']), ['full']);
  assert.ok(hasCodes(event) && !hasCodes({ ...event, prices: [event.prices[0]!], kinds: [] }));
});

test('a chosen kind prices its seat, stays with the hold, and goes with another hold', () => {
  const buyer = createBuyer('show');
  buyer.store.set({ event });
  setHold(buyer, holdOf('h1', [seat(1, 'A'), seat(2, 'A', 'reduced'), seat(3, 'B')]));
  const prices = () => pricedSeats(buyer.store.get()).map(({ price }) => price);
  assert.deepEqual(prices(), [5_000, 3_000, 4_000], 'as the answer priced them');
  chooseKind(buyer, 1, 'reduced');
  chooseKind(buyer, 2, 'full');
  assert.deepEqual(prices(), [3_000, 5_000, 4_000]);
  assert.equal(totalOf(pricedSeats(buyer.store.get()), 100), 12_000 + 3 * 250 + 100);
  // Fetched again, as after a reload: a hold by itself knows no kinds.
  setHold(buyer, holdOf('h1', [seat(1, 'A'), seat(2, 'A'), seat(3, 'B')]));
  assert.deepEqual(prices(), [3_000, 5_000, 4_000]);
  chooseKind(buyer, 3, 'reduced');
  assert.deepEqual(prices(), [3_000, 5_000, 4_000], 'B is not sold to it');
  setHold(buyer, holdOf('h2', [seat(1, 'A')]));
  assert.deepEqual(prices(), [5_000]);
  setHold(buyer, null);
  assert.deepEqual(buyer.store.get().kinds, {});
});

test('a presale is an open sale whose opening lies ahead', () => {
  const presale = { ...event, presaleAt: '2030-01-01T00:00:00Z' };
  const status = { phase: 'open', opensAt: 1_000 } as StatusObject;
  assert.ok(isPresale(presale, status, 999));
  assert.ok(!isPresale(presale, status, 1_000));
  assert.ok(!isPresale(event, status, 999));
  assert.ok(!isPresale(presale, { ...status, phase: 'scheduled' }, 999));
});

test('pages count a currency’s decimals by the table of the server, whatever Intl says', () => {
  const digits = (text: string) => text.replace(/[^\d.,]/g, '');
  assert.equal(digits(money(123_456, 'EUR')), '1,234.56');
  assert.equal(digits(money(1_234, 'JPY')), '1,234');
  assert.equal(digits(money(1_230, 'KWD')), '1.230');
  // Sent with two decimals that are always zero: krónur and shillings have no smaller coin.
  assert.equal(digits(money(150_000, 'ISK')), '1,500');
  assert.equal(digits(money(150_000, 'UGX')), '1,500');
  // Two decimals by ISO 4217, none by the provider; none by Intl, two by the provider.
  assert.equal(digits(money(5_000, 'MGA')), '5,000');
  assert.equal(digits(money(12_345, 'ALL')), '123.45');
  assert.equal(digits(money(99_999_999, 'USD')), '999,999.99');
});

test('the organiser’s form makes kinds with ids of their own, or says what is missing', () => {
  const draft: KindDraft = {
    key: 1,
    name: 'Ermäßigt',
    conditions: ' Schüler ',
    locked: false,
    prices: { A: '30', B: '' },
  };
  assert.deepEqual(
    kindsOf([draft, { ...draft, locked: true }, { ...draft, name: '学生' }], ['A', 'B'], 'EUR'),
    [
      { id: 'erma-igt', name: 'Ermäßigt', conditions: 'Schüler', prices: { A: 3_000 } },
      { id: 'erma-igt-2', name: 'Ermäßigt', conditions: 'Schüler', prices: { A: 3_000 }, locked: true },
      { id: 'kind', name: '学生', conditions: 'Schüler', prices: { A: 3_000 } },
    ],
  );
  for (const wrong of [
    { ...draft, name: ' ' },
    { ...draft, prices: {} },
    { ...draft, prices: { A: 'free' } },
  ]) {
    assert.equal(typeof kindsOf([wrong], ['A', 'B'], 'EUR'), 'string');
  }
});
