import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { IssuedOrder } from '../../src/fulfilment/issued-order.ts';
import { composeLetter } from '../../src/fulfilment/letters.ts';
import { moneyWords, placeOf, plain } from '../../src/fulfilment/words.ts';

const seat = {
  section: '112',
  row: '4',
  number: '9',
  category: 'Stalls',
  kind: 'full',
  price: 5_000,
  fee: 250,
};
const issued: IssuedOrder = {
  order: '7f6d3f6e-0000-4000-8000-000000000001',
  state: 'paid',
  reason: null,
  buyer: { name: 'Buyer', email: 'buyer@example.org' },
  eventName: 'The Show',
  venue: 'The Hall',
  performanceAt: null,
  currency: 'EUR',
  amount: 10_600,
  orderFee: 100,
  seats: [
    { ...seat, seat: 1, ticket: { id: 'a', code: 'A' } },
    { ...seat, seat: 2, number: '10', ticket: { id: 'b', code: 'B' } },
  ],
};
const parts = { issued, detail: {}, orderUrl: 'https://venue.example/orders/1#s', timeZone: 'UTC' };

test('the confirmation names seats, fees and total; a letter for tickets that are gone is not sent', () => {
  const letter = composeLetter('order.confirmed', parts);
  assert.ok(letter?.withTickets);
  for (const words of [
    'Section 112, row 4, seat 9',
    'seat 10',
    '€52.50 incl. €2.50 fee',
    'Order fee: €1.00',
    'Total: €106.00',
  ]) {
    assert.ok(letter.text.includes(words), `${words} in\n${letter.text}`);
  }
  assert.ok(letter.html.includes('€52.50 incl. €2.50 fee'), letter.html);
  const free = { ...issued, seats: issued.seats.map((line) => ({ ...line, fee: 0 })) };
  const without = composeLetter('order.confirmed', { ...parts, issued: free });
  assert.ok(without?.text.includes('€50.00\n') && !without.text.includes('incl.'), without?.text);
  const gone = { ...issued, seats: issued.seats.map((line) => ({ ...line, ticket: null })) };
  assert.equal(composeLetter('order.confirmed', { ...parts, issued: gone }), null);
  const [first, second] = issued.seats;
  const part = { ...issued, seats: [first!, { ...second!, ticket: null }] };
  const left = composeLetter('order.confirmed', { ...parts, issued: part });
  assert.ok(left && !left.text.includes('seat 10') && !left.text.includes('Total'), 'only what is still his');
});

test('what ended tells about the money as it is', () => {
  const cancelled: IssuedOrder = { ...issued, state: 'cancelled', reason: 'event_cancelled' };
  const off = composeLetter('order.cancelled', { ...parts, issued: cancelled, detail: { amount: 10_600 } });
  assert.match(off?.text ?? '', /The Show will not take place\.[\s\S]*€106\.00 goes back to the card/);
  const refused: IssuedOrder = { ...issued, state: 'cancelled', reason: 'capture_refused' };
  assert.match(
    composeLetter('order.cancelled', { ...parts, issued: refused })?.text ?? '',
    /not been charged/,
  );
  assert.match(composeLetter('order.closed_late', parts)?.text ?? '', /not been charged/);
  const reasons: [string, RegExp][] = [
    ['seats_lost', /seats could not be kept/],
    ['limit', /with your e-mail address/],
    ['card_limit', /with the card that you used/],
    ['payment_mismatch', /did not match your order/],
    ['event_cancelled', /The Show will not take place/],
  ];
  for (const [reason, why] of reasons) {
    const failed = composeLetter('order.failed', {
      ...parts,
      issued: { ...issued, state: 'closed', reason },
    });
    assert.match(failed?.text ?? '', why);
    assert.match(failed?.text ?? '', /You have not been charged/);
    assert.equal(/choose seats again/.test(failed!.text), reason !== 'event_cancelled', reason);
  }
  const came = composeLetter('refund.failed', { ...parts, detail: { amount: 5_250 } });
  assert.match(came?.text ?? '', /€52\.50 was given back[\s\S]*sent it back[\s\S]*still owed/);
  const some = composeLetter('refund.created', { ...parts, detail: { amount: 5_250, seats: [2] } });
  assert.match(
    some?.text ?? '',
    /€52\.50 goes back[\s\S]*not valid any more:\s+- Section 112, row 4, seat 10/,
  );
  assert.equal(composeLetter('refund.created', { ...parts, issued: cancelled }), null, 'one letter, not two');
});

test('foreign text stays on its line and turns nothing round', () => {
  assert.equal(plain('a\r\nBcc: x@example.org\u202e \u0000b'), 'a Bcc: x@example.org b');
  const letter = composeLetter('order.confirmed', {
    ...parts,
    issued: { ...issued, eventName: 'A\r\nB <b>"' },
  });
  assert.equal(letter?.subject, 'Your tickets: A B <b>"');
  assert.ok(!letter?.html.includes('<b>'));
});

test('names from right to left leave the words around them in their order; what it is besides full price is said', () => {
  const abroad = {
    ...issued,
    eventName: 'مهرجان القاهرة 2026',
    reason: 'event_cancelled',
    seats: [{ ...issued.seats[0]!, section: 'יציע 12', kind: 'Reduced' }],
  };
  const { text = '', html = '' } = composeLetter('order.cancelled', { ...parts, issued: abroad }) ?? {};
  for (const words of [
    '\u2068مهرجان القاهرة 2026\u2069 will not take place.',
    '\u2068יציע 12\u2069, row 4, seat 9',
    'Stalls, Reduced',
  ]) {
    assert.ok(text.includes(words), `${words} in\n${text}`);
    assert.ok(html.includes(words), `${words} in\n${html}`);
  }
});

test('places and sums are said as people say them', () => {
  assert.equal(placeOf({ section: 'North Stand', row: '', number: '7' }), 'North Stand, seat 7');
  assert.equal(placeOf({ section: 'Floor', row: '', number: '' }), 'Floor, standing, no numbered seat');
  assert.equal(moneyWords(1_234_567_891, 'EUR'), '€12,345,678.91');
  assert.equal(moneyWords(500, 'JPY'), '¥500');
  assert.equal(moneyWords(1_230, 'KWD').replace(/\s/, ' '), 'KWD 1.230');
});
