import fs from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import * as fontkit from 'fontkit';
import subsetFont from 'subset-font';
import { assert } from '../core/outcome.ts';

/**
 * Fonts for names from anywhere: Noto Sans, in the slices and as the variable fonts that its packages hold (SIL Open Font
 * License). A slice is read when a text first needs a letter of it, fixed at a weight by HarfBuzz, and kept.
 */
export interface DocumentFonts {
  /** Reads what these texts need; afterwards choosing is a look into memory. */
  ready(texts: readonly string[]): Promise<FontChoice>;
}

export interface FontChoice {
  /** For a character (a code point); `before`: the font of the one before it, to stay with where both do. */
  fontOf(character: string, weight: Weight, before: DocumentFont | undefined): DocumentFont;
}

export interface DocumentFont {
  /** Unique: family, slice and weight. */
  name: string;
  weight: Weight;
  font: fontkit.Font;
}

export type Weight = 'regular' | 'bold';
const weights: Record<Weight, number> = { regular: 400, bold: 700 };

const families = ['noto-sans', 'noto-sans-arabic', 'noto-sans-hebrew'] as const;
const japanese = 'noto-sans-jp';
const korean = 'noto-sans-kr';
const chinese = ['noto-sans-sc', 'noto-sans-tc'] as const;
/** Slices in memory, at most: a few kilobytes to some hundred each. */
const slicesMax = 300;

interface Slice {
  key: string;
  file: string;
  ranges: [first: number, last: number][];
}

export function createDocumentFonts(): DocumentFonts {
  const slicesOf = new Map<string, Promise<Slice[]>>();
  const loaded = new Map<string, Promise<DocumentFont>>();

  function family(name: string): Promise<Slice[]> {
    let slices = slicesOf.get(name);
    if (!slices) {
      slices = readSlices(name);
      slicesOf.set(name, slices);
    }
    return slices;
  }

  function load(slice: Slice, weight: Weight): Promise<DocumentFont> {
    const name = `${slice.key}-${weight}`;
    let font = loaded.get(name);
    if (!font) {
      if (loaded.size >= slicesMax) loaded.delete(loaded.keys().next().value!);
      font = readFont(slice, name, weight);
      loaded.set(name, font);
    }
    return font;
  }

  /** The first family that has the character. */
  async function choose(
    character: string,
    weight: Weight,
    order: readonly string[],
  ): Promise<DocumentFont | null> {
    const codePoint = character.codePointAt(0)!;
    for (const name of order) {
      const slice = (await family(name)).find(({ ranges }) =>
        ranges.some(([first, last]) => codePoint >= first && codePoint <= last),
      );
      if (!slice) continue;
      const font = await load(slice, weight);
      if (font.font.hasGlyphForCodePoint(codePoint)) return font;
    }
    return null;
  }

  return {
    async ready(texts) {
      const chosen = new Map<string, DocumentFont>();
      const choice = async (character: string, weight: Weight, order: readonly string[]): Promise<void> => {
        const font = await choose(character, weight, order);
        if (font) chosen.set(`${weight} ${character}`, font);
      };
      for (const weight of Object.keys(weights) as Weight[]) {
        await choice(' ', weight, families);
        for (const text of texts) {
          const order = familiesFor(text);
          for (const character of new Set(text)) {
            if (!chosen.has(`${weight} ${character}`)) await choice(character, weight, order);
          }
        }
      }
      return {
        fontOf(character, weight, before) {
          const stays = /[\p{Script=Common}\p{Script=Inherited}]/u.test(character);
          if (
            stays &&
            before?.weight === weight &&
            before.font.hasGlyphForCodePoint(character.codePointAt(0)!)
          ) {
            return before;
          }
          const font = chosen.get(`${weight} ${character}`) ?? chosen.get(`${weight}  `);
          assert(font, 'a font for the blank');
          return font;
        },
      };
    },
  };
}

/**
 * Chinese, Japanese and Korean share characters and draw them differently. Kana or hangul next to them identify the language.
 */
function familiesFor(text: string): string[] {
  if (/[\p{Script=Hiragana}\p{Script=Katakana}]/u.test(text))
    return [...families, japanese, ...chinese, korean];
  if (/\p{Script=Hangul}/u.test(text)) return [...families, korean, ...chinese, japanese];
  return [...families, ...chinese, japanese, korean];
}

const require = createRequire(import.meta.url);

async function readSlices(name: string): Promise<Slice[]> {
  const folder = path.dirname(require.resolve(`@fontsource-variable/${name}/package.json`));
  const ranges = JSON.parse(await fs.readFile(path.join(folder, 'unicode.json'), 'utf8')) as Record<
    string,
    string
  >;
  return Object.entries(ranges).map(([slice, text]) => {
    const key = `${name}-${slice.replace(/[[\]]/g, '')}`;
    return { key, file: path.join(folder, 'files', `${key}-wght-normal.woff2`), ranges: rangesIn(text) };
  });
}

/** `U+0000-00FF,U+0131` */
function rangesIn(text: string): [number, number][] {
  return text.split(',').map((range) => {
    const [first = '', last = first] = range.trim().replace(/^U\+/i, '').split('-');
    return [Number.parseInt(first, 16), Number.parseInt(last, 16)];
  });
}

async function readFont(slice: Slice, name: string, weight: Weight): Promise<DocumentFont> {
  const all = slice.ranges.flatMap(([first, last]) =>
    Array.from({ length: last - first + 1 }, (_, i) => String.fromCodePoint(first + i)),
  );
  const fixed = await subsetFont(await fs.readFile(slice.file), all.join(''), {
    targetFormat: 'truetype',
    variationAxes: { wght: weights[weight] },
  });
  const font = fontkit.create(fixed);
  assert('layout' in font, `${slice.key} is one font`);
  return { name, weight, font: rememberingLayout(font) };
}

/** Pieces of text whose shapes are remembered, per font. */
const layoutsMax = 2_000;

/** Shaping costs most of a document, and each piece is measured, measured again and painted. */
function rememberingLayout(font: fontkit.Font): fontkit.Font {
  const runs = new Map<string, fontkit.GlyphRun>();
  const layout = (text: string): fontkit.GlyphRun => {
    let run = runs.get(text);
    if (!run) {
      if (runs.size >= layoutsMax) runs.clear();
      run = font.layout(text);
      runs.set(text, run);
    }
    // Painting scales the positions in place, so each caller gets a copy.
    return Object.create(run, {
      positions: { value: run.positions.map((position) => ({ ...position })), writable: true },
    });
  };
  return Object.create(font, { layout: { value: layout } });
}
