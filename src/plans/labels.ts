import { planLimits } from '../core/seat-map.ts';
import { type Findings, quoted } from './findings.ts';

/**
 * Control characters, lone surrogates and characters that turn the writing direction: none belongs on a ticket, and the
 * last make one seat look like another.
 */
const unprintable = /[\p{Cc}\p{Surrogate}\u202A-\u202E\u2066-\u2069\uFEFF]/u;

/** Checks a label or an id. Returns whether it may stay exactly as it is. */
export function labelIsFine(text: string, place: string, findings: Findings): boolean {
  if (text.length > planLimits.labelLengthMax) {
    findings.refuse(
      'label_too_long',
      `A text has ${text.length} characters; shorten it to ${planLimits.labelLengthMax}.`,
      place,
    );
    return false;
  }
  if (unprintable.test(text)) {
    findings.refuse(
      'unprintable_text',
      `The text ${quoted(text)} has control characters or broken Unicode; write it again in plain characters.`,
      place,
    );
    return false;
  }
  return true;
}

/** Labels are compared in NFC, so that a composed and a decomposed é are one label; the original is what is kept. */
export function comparable(text: string): string {
  return text.normalize('NFC');
}

/** FNV-1a, 32 bits, as hex: a short stable name for a text, never a secret. */
export function shortHash(text: string): string {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(comparable(text))) {
    hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  }
  return hash.toString(16).padStart(8, '0');
}

/**
 * Gives section ids: url-safe, unique, and the same at every import of the same names. A name that loses characters on
 * the way (Chinese, Cyrillic) carries a hash of the whole name, so that no two names meet by accident.
 */
export function createSectionIds(): (wanted: string) => string {
  const taken = new Set<string>();
  return (wanted) => {
    let id = wanted;
    if (!/^[A-Za-z0-9._-]{1,64}$/.test(wanted)) {
      const plain = wanted
        .normalize('NFKD')
        .replace(/\p{M}/gu, '')
        .replace(/[^A-Za-z0-9._-]+/g, '-')
        .replace(/^-+|-+$/g, '')
        .slice(0, 48);
      const lost =
        /[^\p{ASCII}]/u.test(wanted.normalize('NFKD').replace(/\p{M}/gu, '')) || wanted.length > 48;
      id = plain === '' || lost ? [plain, shortHash(wanted)].filter(Boolean).join('-') : plain;
    }
    let unique = id;
    for (let n = 2; taken.has(unique); n++) unique = `${id.slice(0, 58)}-${n}`;
    taken.add(unique);
    return unique;
  };
}
