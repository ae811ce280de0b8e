import { decimalOf, exponentOf, stepOf } from '../../../src/core/money.ts';
import { language } from './language.ts';

const numbers = new Intl.NumberFormat(language);
const plurals = new Intl.PluralRules(language);

export const count = (n: number): string => numbers.format(n);

/** The form of a text for `n`, by the language's own rules; `other` stands in for forms that a language does not use. */
export function plural(
  n: number,
  forms: Partial<Record<Intl.LDMLPluralRule, string>> & { other: string },
): string {
  return (forms[plurals.select(n)] ?? forms.other).replace('#', count(n));
}

const currencies = new Map<string, Intl.NumberFormat>();

/**
 * Minor units to text, exact. How many decimals a currency has comes from the one table that everything counts by: Intl's own
 * differs for some. Where no coin is smaller than the unit, no decimals are shown.
 */
export function money(minor: number, currency: string): string {
  let format = currencies.get(currency);
  if (!format) {
    const digits = stepOf(currency) === 100 ? 0 : exponentOf(currency);
    const fraction = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    format = new Intl.NumberFormat(language, { style: 'currency', currency, ...fraction });
    currencies.set(currency, format);
  }
  // A decimal numeral is formatted without passing through floating point.
  return format.format(decimalOf(minor, currency) as `${number}`);
}

const dates = new Intl.DateTimeFormat(language, { dateStyle: 'full', timeStyle: 'short' });
const shortDates = new Intl.DateTimeFormat(language, { dateStyle: 'medium', timeStyle: 'short' });
const times = new Intl.DateTimeFormat(language, { timeStyle: 'short' });
const list = new Intl.ListFormat(language, { type: 'conjunction' });

export const dateTime = (at: string | number): string => dates.format(new Date(at));
/** For lists and tables. */
export const shortDateTime = (at: string | number): string => shortDates.format(new Date(at));
export const timeOfDay = (at: string | number): string => times.format(new Date(at));
export const listed = (parts: string[]): string => list.format(parts);

/** `1:05:09`, `9:59`, `0:00`: for countdowns that are looked at. */
export function clockFace(ms: number): string {
  const s = Math.max(0, Math.ceil(ms / 1000));
  const two = (n: number) => String(n).padStart(2, '0');
  const hours = Math.floor(s / 3600);
  const minutes = Math.floor((s % 3600) / 60);
  return hours > 0 ? `${hours}:${two(minutes)}:${two(s % 60)}` : `${minutes}:${two(s % 60)}`;
}
