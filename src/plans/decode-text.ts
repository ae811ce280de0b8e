import type { Findings } from './findings.ts';

/** Encodings that spreadsheets write; a caller may name one where guessing would be wrong (Cyrillic in windows-1251). */
export type TextEncodingName =
  | 'utf-8'
  | 'utf-16le'
  | 'utf-16be'
  | 'windows-1250'
  | 'windows-1251'
  | 'windows-1252';

/**
 * Returns the text of a file. A byte order mark decides the encoding. Without one, zero bytes mean UTF-16, and valid UTF-8 is
 * UTF-8. Anything else is read as Windows-1252 if `fallback` allows it (with a warning, because a wrong guess changes accents),
 * and rejected otherwise. Returns null if it rejected the file.
 */
export function decodeText(
  bytes: Uint8Array,
  findings: Findings,
  options: { encoding?: TextEncodingName; fallback: boolean },
): string | null {
  const guess = options.encoding ?? guessUnicode(bytes);
  try {
    return new TextDecoder(guess, { fatal: true }).decode(bytes);
  } catch {
    if (options.encoding || guess !== 'utf-8' || !options.fallback) {
      findings.refuse(
        'broken_encoding',
        `The file is not valid ${guess.toUpperCase()}; save it as UTF-8 and try again.`,
        'line 1',
      );
      return null;
    }
  }
  findings.warn(
    'guessed_encoding',
    'The file is not UTF-8 and was read as Windows-1252; look at the names, and if they are wrong save it as UTF-8.',
    'line 1',
  );
  return new TextDecoder('windows-1252').decode(bytes);
}

function guessUnicode(bytes: Uint8Array): TextEncodingName {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return 'utf-16le';
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return 'utf-16be';
  let even = 0;
  let odd = 0;
  const looked = Math.min(bytes.length, 2000);
  for (let i = 0; i < looked; i++) {
    if (bytes[i] !== 0) continue;
    if (i % 2 === 0) even += 1;
    else odd += 1;
  }
  // Latin headers in UTF-16 have a zero in every second byte; text in UTF-8 has none at all.
  if (odd > looked * 0.2 && even < looked * 0.05) return 'utf-16le';
  if (even > looked * 0.2 && odd < looked * 0.05) return 'utf-16be';
  return 'utf-8';
}
