import bidiFactory, { type Bidi } from 'bidi-js';

/**
 * A line of text as it is painted, from left to right: what the Unicode Bidirectional Algorithm (UAX #9) makes of it, cut
 * where the font changes. Joining and placing letters within a piece is the font's shaper's work.
 */
export interface VisualPiece<Font> {
  text: string;
  font: Font;
}

export type Direction = 'ltr' | 'rtl';

/** The package's types describe an ES module, but what is imported is the function itself. */
const bidi = (bidiFactory as unknown as () => Bidi)();
/** Scripts that the shaper itself lays out from right to left, once it meets a letter of them. */
const rightToLeft =
  /[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Samaritan}\p{Script=Mandaic}]/u;

/** The blocks that are written from right to left, and the marks that say so: without one there is nothing to turn round. */
const mayTurn =
  /[\u0590-\u08ff\u200f\u202b\u202e\u2067\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** Characters that only control the direction of letters and are not letters themselves. */
const mark = /\p{Bidi_Control}/u;

/** The direction that the first letter of the text has. */
export function directionOf(text: string): Direction {
  if (!mayTurn.test(text)) return 'ltr';
  return (bidi.getEmbeddingLevels(text).paragraphs[0]?.level ?? 0) % 2 === 1 ? 'rtl' : 'ltr';
}

interface Segment<Font> {
  text: string;
  level: number;
  font: Font;
}

/** `fontOf` chooses for a character (a code point); `before` is the font of the one before it, to stay with. */
export function visualPieces<Font>(
  line: string,
  direction: Direction,
  fontOf: (character: string, before: Font | undefined) => Font,
): VisualPiece<Font>[] {
  const segments: Segment<Font>[] = [];
  const turns = direction === 'rtl' || mayTurn.test(line);
  const levels = turns ? bidi.getEmbeddingLevels(line, direction).levels : null;
  let index = 0;
  for (const character of line) {
    const level = levels?.[index] ?? 0;
    if (mark.test(character)) {
      index += character.length;
      continue;
    }
    const before = segments.at(-1);
    const font = fontOf(character, before?.font);
    const isRtl = level % 2 === 1;
    const shown = (isRtl && bidi.getMirroredCharacter(character)) || character;
    if (before && before.level === level && before.font === font) before.text += shown;
    else segments.push({ text: shown, level, font });
    index += character.length;
  }
  return inVisualOrder(segments).map(({ text, level, font }) => ({
    // Without a letter that tells the shaper, it paints from left to right: marks and blanks are turned round here.
    text: level % 2 === 1 && !rightToLeft.test(text) ? [...text].reverse().join('') : text,
    font,
  }));
}

/** Rule L2: from the highest level down to the lowest odd one, each run at that level or above is turned round. */
function inVisualOrder<Font>(segments: Segment<Font>[]): Segment<Font>[] {
  const order = [...segments];
  const highest = Math.max(0, ...order.map(({ level }) => level));
  for (let level = highest; level > 0; level -= 1) {
    for (let start = 0; start < order.length; start += 1) {
      if (order[start]!.level < level) continue;
      let end = start;
      while (end + 1 < order.length && order[end + 1]!.level >= level) end += 1;
      order.splice(start, end - start + 1, ...order.slice(start, end + 1).reverse());
      start = end;
    }
  }
  return order;
}

const words = new Intl.Segmenter('en', { granularity: 'word' });
const letters = new Intl.Segmenter('en', { granularity: 'grapheme' });
const ellipsis = '…';

/**
 * Breaks a text into lines no wider than `width`, `linesMax` at most; what does not fit ends in an ellipsis. A word that is
 * wider than a line is broken between letters. `whole`: nothing is missing and no word is broken.
 */
export function breakLines(
  text: string,
  limits: { width: number; linesMax: number },
  widthOf: (line: string) => number,
): { lines: string[]; whole: boolean } {
  if (text !== '' && widthOf(text) <= limits.width) return { lines: [text], whole: true };
  const lines: string[] = [];
  let line = '';
  const { pieces, broken } = piecesOf(text, limits.width, widthOf);
  for (const piece of pieces) {
    if (line === '' || widthOf((line + piece).trimEnd()) <= limits.width) {
      line += line === '' ? piece.trimStart() : piece;
      continue;
    }
    lines.push(line.trimEnd());
    line = piece.trimStart();
  }
  if (line.trimEnd()) lines.push(line.trimEnd());
  if (lines.length <= limits.linesMax) return { lines, whole: !broken };
  const kept = lines.slice(0, limits.linesMax);
  kept.push(shortened(`${kept.pop()}${ellipsis}`, limits.width, widthOf));
  return { lines: kept, whole: false };
}

/** Words with what follows them up to the next chance to break. */
function piecesOf(
  text: string,
  width: number,
  widthOf: (line: string) => number,
): { pieces: string[]; broken: boolean } {
  const pieces: string[] = [];
  for (const { segment, isWordLike } of words.segment(text)) {
    const before = pieces.at(-1);
    // Marks stay with the word before them; a blank ends a piece.
    const sticks = !isWordLike && before !== undefined && !(/\s$/.test(before) && !/^\s/.test(segment));
    const joins = isWordLike && before !== undefined && /[-'’.(["“„«]$/.test(before);
    if (sticks || joins) pieces[pieces.length - 1] += segment;
    else pieces.push(segment);
  }
  const fitting = pieces.flatMap((piece) =>
    widthOf(piece.trimEnd()) <= width ? [piece] : brokenWord(piece, width, widthOf),
  );
  return { pieces: fitting, broken: fitting.length > pieces.length };
}

function brokenWord(word: string, width: number, widthOf: (line: string) => number): string[] {
  const parts: string[] = [''];
  for (const { segment } of letters.segment(word)) {
    const last = parts.at(-1)!;
    if (last !== '' && widthOf(last + segment) > width) parts.push(segment);
    else parts[parts.length - 1] = last + segment;
  }
  return parts;
}

function shortened(line: string, width: number, widthOf: (line: string) => number): string {
  const shown = [...letters.segment(line.slice(0, -ellipsis.length))].map(({ segment }) => segment);
  while (shown.length > 0 && widthOf(shown.join('').trimEnd() + ellipsis) > width) shown.pop();
  return shown.join('').trimEnd() + ellipsis;
}
