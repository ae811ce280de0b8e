import assert from 'node:assert/strict';
import { test } from 'node:test';
import { breakLines, directionOf, visualPieces } from '../../src/fulfilment/visual-text.ts';

/** Each character is 1 wide. */
const width = (line: string): number => [...line].length;
const oneFont = () => 'font';
const shown = (line: string): string[] =>
  visualPieces(line, directionOf(line), oneFont).map(({ text }) => text);

test('a line is cut where its direction changes, and its pieces are in painting order', () => {
  assert.deepEqual(shown('Row 4'), ['Row 4']);
  // Pieces of Hebrew and Arabic stay as they are written: the shaper turns them.
  assert.deepEqual(shown('Row שורה 4'), ['Row ', '4', 'שורה ']);
  assert.deepEqual(shown('שלום Buyer קונה'), [' קונה', 'Buyer', 'שלום ']);
  assert.deepEqual(shown('المشتري 2026'), ['2026', 'المشتري ']);
  // Isolated text leaves the words around it in their order. The marks themselves are not painted.
  assert.deepEqual(shown('\u2068יציע 12\u2069, row 4'), ['12', 'יציע ', ', row 4']);
});

test('brackets are mirrored where the text runs from right to left', () => {
  assert.deepEqual(shown('קונה (תל אביב)'), ['קונה )תל אביב(']);
});

test('the font changes only where it must', () => {
  const pieces = visualPieces('Buyer 买家甲!', 'ltr', (character, before) =>
    /\p{Script=Han}/u.test(character) ? 'han' : /[a-z]/i.test(character) ? 'latin' : (before ?? 'latin'),
  );
  assert.deepEqual(pieces, [
    { text: 'Buyer ', font: 'latin' },
    { text: '买家甲!', font: 'han' },
  ]);
});

test('lines break between words, and within a word only when it is wider than a line', () => {
  const broken = (text: string, of: number, linesMax = 9) => breakLines(text, { width: of, linesMax }, width);
  assert.deepEqual(broken('one two three', 7), { lines: ['one two', 'three'], whole: true });
  assert.deepEqual(broken('well-known, indeed', 11).lines, ['well-known,', 'indeed']);
  assert.deepEqual(broken('abcdefghij', 4).lines, ['abcd', 'efgh', 'ij']);
  assert.deepEqual(broken('one two three four', 7, 2), { lines: ['one two', 'three…'], whole: false });
  assert.deepEqual(broken('', 7).lines, []);
  assert.ok(!broken('abcdefghij', 4).whole, 'a smaller size is better than a broken word');
});
