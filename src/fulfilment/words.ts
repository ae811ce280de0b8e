import { decimalOf } from '../core/money.ts';
import type { IssuedSeat } from './issued-order.ts';

/** How papers and mails say things: English, like the pages, until there are other catalogues. */
const language = 'en';

/** `Section 112, row 4, seat 9`. A bare `112` says little by itself; `North Stand` needs no addition. */
export function placeOf({ section, row, number }: Pick<IssuedSeat, 'section' | 'row' | 'number'>): string {
  return [sectionWords(section), rowWords(row), seatWords({ row, number })].filter(Boolean).join(', ');
}

export function sectionWords(section: string): string {
  const name = plain(section);
  return /^[\p{L}\p{N}]{1,4}$/u.test(name) ? `Section ${name}` : name;
}

export function rowWords(row: string): string {
  return row ? `row ${plain(row)}` : '';
}

export function seatWords({ row, number }: { row: string; number: string }): string {
  if (number) return `seat ${plain(number)}`;
  return row ? '' : 'standing, no numbered seat';
}

/** Exact, whatever the sum: the decimals are text until they are printed. */
export function moneyWords(minor: number, currency: string): string {
  const format = new Intl.NumberFormat(language, { style: 'currency', currency });
  return format.format(decimalOf(minor, currency) as `${number}`);
}

/** `Saturday, 5 December 2026 at 19:30 CET`: whoever travels is told whose clock it is. */
export function timeWords(at: number, timeZone: string): string {
  const date = new Intl.DateTimeFormat('en-GB', { dateStyle: 'full', timeZone }).format(at);
  const time = new Intl.DateTimeFormat('en-GB', {
    hour: '2-digit',
    minute: '2-digit',
    timeZone,
    timeZoneName: 'short',
  }).format(at);
  return `${date}, ${time}`;
}

/** Control characters, and those that reorder the text around them: other people's text shall not rearrange ours. */
const disturbing = /[\p{Cc}\p{Bidi_Control}\u2028\u2029\ufeff]/gu;

/** Foreign text on one line of ours. */
export function plain(text: string): string {
  return text.replace(disturbing, ' ').replace(/ {2,}/g, ' ').trim();
}
