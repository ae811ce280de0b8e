import { decimalOf, exponentOf, stepOf } from '../../../src/core/money.ts';
import { type Language, language } from './language.ts';

const numbers = new Intl.NumberFormat(language);
const plurals = new Intl.PluralRules(language);

export const count = (n: number): string => numbers.format(n);

/** The plural form of a text for `n`, by the language's rules. `other` replaces forms that a language does not use. */
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

/** Dates have the format of the mails and tickets, so that a page next to a ticket does not seem to show another day. */
const dateLanguages: Record<Language, string> = { en: 'en-GB' };
const dateLanguage = dateLanguages[language];
const hourAndMinute = { hour: '2-digit', minute: '2-digit' } as const;

interface Zoned {
  full: Intl.DateTimeFormat;
  medium: Intl.DateTimeFormat;
  time: Intl.DateTimeFormat;
}

const zones = new Map<string | undefined, Zoned>();

function inZone(timeZone: string | undefined): Zoned {
  let zoned = zones.get(timeZone);
  if (!zoned) {
    try {
      zoned = {
        full: new Intl.DateTimeFormat(dateLanguage, { dateStyle: 'full', timeZone }),
        medium: new Intl.DateTimeFormat(dateLanguage, { dateStyle: 'medium', timeZone }),
        time: new Intl.DateTimeFormat(dateLanguage, { ...hourAndMinute, timeZone, timeZoneName: 'short' }),
      };
    } catch {
      // A zone that was named after this browser was made: its own, which is named too.
      zoned = inZone(undefined);
    }
    zones.set(timeZone, zoned);
  }
  return zoned;
}

const list = new Intl.ListFormat(language, { type: 'conjunction' });

const deviceTimes = new Intl.DateTimeFormat(dateLanguage, hourAndMinute);

const written = (at: string | number, date: Intl.DateTimeFormat, time: Intl.DateTimeFormat): string =>
  // An hour is not parted from its zone at the end of a line.
  `${date.format(new Date(at))}, ${time.format(new Date(at)).replaceAll(' ', '\u00a0')}`;

/** `Saturday, 5 December 2026, 19:30 CET`: by the venue's clock (IANA name), which is named, wherever the reader is. */
export function eventTime(at: string | number, timeZone: string): string {
  const { full, time } = inZone(timeZone);
  return written(at, full, time);
}

/** `5 Dec 2026, 19:30 CET`: the same for lists. */
export function shortEventTime(at: string | number, timeZone: string): string {
  const { medium, time } = inZone(timeZone);
  return written(at, medium, time);
}

/** In the device's time zone, as organisers enter times. */
export const dateTime = (at: string | number): string => written(at, inZone(undefined).full, deviceTimes);
/** For tables. */
export const shortDateTime = (at: string | number): string =>
  written(at, inZone(undefined).medium, deviceTimes);
/** `19:42`, of instants minutes away: by the device's clock, which the reader looks at meanwhile. */
export const timeOfDay = (at: string | number): string => deviceTimes.format(new Date(at));
export const listed = (parts: string[]): string => list.format(parts);

/** `1:05:09`, `9:59`, `0:00`: for countdowns that are looked at. */
export function clockFace(ms: number): string {
  const s = Math.max(0, Math.ceil(ms / 1000));
  const two = (n: number) => String(n).padStart(2, '0');
  const hours = Math.floor(s / 3600);
  const minutes = Math.floor((s % 3600) / 60);
  return hours > 0 ? `${hours}:${two(minutes)}:${two(s % 60)}` : `${minutes}:${two(s % 60)}`;
}
