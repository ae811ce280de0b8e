/**
 * Money is a whole number of minor units and a currency, never a fraction. "Minor unit" is the smallest unit that payment
 * providers count in, which differs from ISO 4217 for ISK and UGX (sent with two decimals that must be zero). This is the one
 * table; adapters that speak decimals convert at their edge with `decimalOf` and `minorOf`.
 * Source: Stripe's list of zero-decimal, three-decimal and special currencies (https://docs.stripe.com/currencies).
 */
import { assert } from './outcome.ts';

const zeroDecimal = new Set('BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF VND VUV XAF XOF XPF'.split(' '));
/** Three decimals of which the last has to be 0. */
const threeDecimal = new Set('BHD JOD KWD OMR TND'.split(' '));
/** Two decimals at the provider, both of them 0: no coins smaller than one unit exist. */
const wholeUnits = new Set(['ISK', 'UGX']);

/** Currencies with three or four decimals in ISO 4217 that the provider does not charge. */
const notCharged = new Set('IQD LYD CLF UYW'.split(' '));

/**
 * The least and the largest amount that a card is charged, minor units, where they differ from the usual ones. Stripe states
 * the least by the currency that an account settles in; for a currency that it does not list, the usual one applies and the
 * provider decides. The largest: twelve digits for IDR, eight for all other currencies.
 * Source: "Minimum and maximum charge amounts" (https://docs.stripe.com/currencies).
 */
const bounds: Record<string, { least?: number; largest?: number }> = {
  AED: { least: 200 },
  BGN: { least: 100 },
  CZK: { least: 1_500 },
  DKK: { least: 250 },
  GBP: { least: 30 },
  HKD: { least: 400 },
  HUF: { least: 17_500 },
  IDR: { largest: 999_999_999_999 },
  KRW: { least: 100 },
  MXN: { least: 1_000 },
  MYR: { least: 200 },
  NOK: { least: 300 },
  PLN: { least: 200 },
  RON: { least: 200 },
  SEK: { least: 300 },
  THB: { least: 1_000 },
};
const leastUsual = 50;
const largestUsual = 99_999_999;

/** The largest amount in any currency: the bound of a field whose currency is not known yet. */
export const amountMax = Math.max(largestUsual, ...Object.values(bounds).map(({ largest = 0 }) => largest));

/** The least amount that an order may come to. */
export function minimumOf(currency: string): number {
  const step = stepOf(currency);
  return Math.ceil((bounds[currency]?.least ?? leastUsual) / step) * step;
}

/** The largest amount that an order may come to. */
export function maximumOf(currency: string): number {
  const step = stepOf(currency);
  return Math.floor((bounds[currency]?.largest ?? largestUsual) / step) * step;
}

/** Decimal places of a currency's minor unit. HUF and TWD have two, whatever their coins are. */
export function exponentOf(currency: string): 0 | 2 | 3 {
  assert(/^[A-Z]{3}$/.test(currency), `currency ${currency}`);
  if (zeroDecimal.has(currency)) return 0;
  return threeDecimal.has(currency) ? 3 : 2;
}

/** Whether prices can be set in a currency: one of ISO 4217 whose minor unit the provider counts in. */
export function isSellable(currency: string): boolean {
  return Intl.supportedValuesOf('currency').includes(currency) && !notCharged.has(currency);
}

/** An amount can be charged only when it is a multiple of this many minor units. */
export function stepOf(currency: string): 1 | 10 | 100 {
  if (threeDecimal.has(currency)) return 10;
  return wholeUnits.has(currency) ? 100 : 1;
}

/** Whether `amount` is a sum that can be charged in `currency`. */
export function isChargeable(amount: number, currency: string): boolean {
  return (
    Number.isSafeInteger(amount) &&
    amount >= 0 &&
    amount <= maximumOf(currency) &&
    amount % stepOf(currency) === 0
  );
}

/** 1234 USD → "12.34"; 1234 JPY → "1234". Exact: no floating point in between. */
export function decimalOf(amount: number, currency: string): string {
  assert(Number.isSafeInteger(amount), `amount ${amount}`);
  const exponent = exponentOf(currency);
  const digits = String(Math.abs(amount)).padStart(exponent + 1, '0');
  const sign = amount < 0 ? '-' : '';
  if (exponent === 0) return sign + digits;
  return `${sign}${digits.slice(0, -exponent)}.${digits.slice(-exponent)}`;
}

/** 1234 USD → "12.34 USD": how operators read an amount. */
export const amountText = (amount: number, currency: string): string =>
  `${decimalOf(amount, currency)} ${currency}`;

/** "12.34" USD → 1234; null when it is no decimal number or has more places than the currency. */
export function minorOf(decimal: string, currency: string): number | null {
  const exponent = exponentOf(currency);
  const match = /^(-?)(\d{1,12})(?:\.(\d+))?$/.exec(decimal.trim());
  if (!match) return null;
  const [, sign, whole = '', places = ''] = match;
  if (places.length > exponent) return null;
  const amount = Number(whole + places.padEnd(exponent, '0'));
  return sign === '-' && amount !== 0 ? -amount : amount;
}

/** Returns the price of an order: price and fee of each seat, and the order's fee once. All minor units. */
export function orderAmount(lines: readonly { price: number; fee: number }[], orderFee: number): number {
  const amount = lines.reduce((sum, line) => sum + line.price + line.fee, orderFee);
  assert(Number.isSafeInteger(amount) && amount >= 0, `order amount ${amount}`);
  return amount;
}
