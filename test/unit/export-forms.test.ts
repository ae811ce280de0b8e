import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import { type Column, type ExportRow, exportForm, harmless } from '../../src/fulfilment/export-forms.ts';

const columns: Column[] = [
  ['order', 'ours'],
  ['buyer_name', 'text'],
  ['goodwill', 'money'],
  ['currency', 'ours'],
  ['created_at', 'time'],
  ['event_cancelled', 'flag'],
];
const row: ExportRow = {
  order: 'a1',
  buyer_name: '=cmd|\' /C calc\'!A0 "x",\r\nالمشتري',
  goodwill: -1250,
  currency: 'EUR',
  created_at: Date.UTC(2026, 0, 2, 3, 4, 5, 6),
  event_cancelled: true,
};

test('CSV is RFC 4180, begins with the mark, and keeps our numbers as numbers', () => {
  const form = exportForm('csv', columns);
  assert.equal(
    form.head + form.row(row, true) + form.tail,
    '\ufefforder,buyer_name,goodwill,goodwill_decimal,currency,created_at,event_cancelled\r\n' +
      'a1,"\'=cmd|\' /C calc\'!A0 ""x"",\r\nالمشتري",-1250,-12.50,EUR,2026-01-02T03:04:05.006Z,yes\r\n',
  );
  assert.equal(exportForm('csv', columns, { byteOrderMark: false }).head.at(0), 'o');
  const empty = { order: 'b', currency: 'JPY', goodwill: 5, buyer_name: null, created_at: null };
  assert.equal(form.row(empty, false), 'b,,5,5,JPY,,\r\n');
});

test('JSON holds the exact texts, sums in both forms, null for what is not there', () => {
  const form = exportForm('json', columns);
  const text = form.head + form.row(row, true) + form.row({ ...row, currency: 'KWD' }, false) + form.tail;
  const [first, second] = JSON.parse(text);
  assert.deepEqual(first, {
    order: 'a1',
    buyerName: row.buyer_name,
    goodwill: -1250,
    goodwillDecimal: '-12.50',
    currency: 'EUR',
    createdAt: '2026-01-02T03:04:05.006Z',
    eventCancelled: true,
  });
  assert.equal(second.goodwillDecimal, '-1.250');
  assert.deepEqual(JSON.parse(form.head + form.tail), []);
  const lines = exportForm('ndjson', columns);
  assert.deepEqual(JSON.parse(lines.head + lines.row({ order: 'x' }, true) + lines.tail).buyerName, null);
});

test('no text of people is a formula, however a spreadsheet cuts the line; what it said can still be read', () => {
  const nasty = fc.array(
    fc.constantFrom('=', '+', '-', '@', '＝', '\t', '\r', '\n', ';', ',', '"', "'", ' ', 'a', '1'),
    {
      maxLength: 12,
    },
  );
  const form = exportForm(
    'csv',
    [
      ['a', 'ours'],
      ['b', 'text'],
      ['c', 'text'],
    ],
    { byteOrderMark: false },
  );
  fc.assert(
    fc.property(nasty, nasty, (one, two) => {
      const [b, c] = [one.join(''), two.join('')];
      const line = form.row({ a: 'x', b, c }, true);
      assert.deepEqual(parse(line), [['x', harmless(b), harmless(c)]]);
      // As if `;` or a tab ended the cell, where quotes that do not begin a cell are text.
      for (const cell of [harmless(b), harmless(c), ...line.split(/[;\t\r\n]/)]) {
        assert.doesNotMatch(cell, /^[ \u00a0"]*[=+\-@＝]/, JSON.stringify(line));
      }
      assert.equal(harmless(b).replaceAll("'", ''), b.replaceAll("'", ''));
    }),
    { numRuns: 2_000 },
  );
  assert.equal(harmless('Anne-Marie'), 'Anne-Marie');
  assert.equal(harmless('+49 30 1'), "'+49 30 1");
});
