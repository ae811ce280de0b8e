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
  return /^[\p{L}\p{N}]{1,4}$/u.test(name) ? `Section ${isolated(name)}` : isolated(name);
}

export function rowWords(row: string): string {
  return row ? `row ${isolated(row)}` : '';
}

export function seatWords({ row, number }: { row: string; number: string }): string {
  if (number) return `seat ${isolated(number)}`;
  return row ? '' : 'standing, no numbered seat';
}

/** `Category 1, Reduced`; that a ticket is full price goes without saying. */
export function kindWords({ category, kind }: Pick<IssuedSeat, 'category' | 'kind'>): string {
  return [category, kind === 'full' ? '' : kind].filter(Boolean).map(isolated).join(', ');
}

/** Exact, whatever the sum: the decimals are text until they are printed. */
export function moneyWords(minor: number, currency: string): string {
  const format = new Intl.NumberFormat(language, { style: 'currency', currency });
  return format.format(decimalOf(minor, currency) as `${number}`);
}

/** `€52.50 incl. €2.50 fee`: what a seat cost. The order's page says price and fee apart. */
export function priceWords({ price, fee }: Pick<IssuedSeat, 'price' | 'fee'>, currency: string): string {
  const sum = moneyWords(price + fee, currency);
  return fee === 0 ? sum : `${sum} incl. ${moneyWords(fee, currency)} fee`;
}

/** `Saturday, 5 December 2026 at 19:30 CET`: the time zone is named for buyers who travel. */
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

const fromRightToLeft =
  /[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;

/**
 * Foreign text within one of our sentences. Text that is written from right to left is enclosed in the marks of Unicode's
 * bidirectional algorithm (UAX #9: FSI … PDI), so that our words around it keep their order in every program that shows them.
 */
export function isolated(text: string): string {
  const shown = plain(text);
  return fromRightToLeft.test(shown) ? `\u2068${shown}\u2069` : shown;
}

/** Foreign text on one line of ours. */
export function plain(text: string): string {
  return text.replace(disturbing, ' ').replace(/ {2,}/g, ' ').trim();
}
