import { invalid } from './api-error.ts';

/**
 * The amounts that Stripe charges a card, from its documentation and not from the engine: what the engine has wrong is refused
 * here. Source: "Minimum and maximum charge amounts" and "Special cases" (https://docs.stripe.com/currencies).
 */
const LEAST = 50;
const LEAST_BY_CURRENCY: Record<string, number> = { gbp: 30, jpy: 50, krw: 100, huf: 17_500, sek: 300 };
const LARGEST = 99_999_999;
const LARGEST_BY_CURRENCY: Record<string, number> = { idr: 999_999_999_999 };
/** The last digits that have to be 0: one of three decimals, both of a currency without coins. */
const STEP_BY_CURRENCY: Record<string, number> = {
  ...{ bhd: 10, jod: 10, kwd: 10, omr: 10, tnd: 10 },
  ...{ isk: 100, ugx: 100 },
};

/** Minor units, and the currency's lowercase code. */
export function checkAmount(amount: number, currency: string): void {
  const least = LEAST_BY_CURRENCY[currency] ?? LEAST;
  const largest = LARGEST_BY_CURRENCY[currency] ?? LARGEST;
  const step = STEP_BY_CURRENCY[currency] ?? 1;
  if (amount < least) {
    throw invalid(`Amount must be at least ${least} ${currency}`, 'amount', 'amount_too_small');
  }
  if (amount > largest) {
    throw invalid(`Amount must be no more than ${largest} ${currency}`, 'amount', 'amount_too_large');
  }
  if (amount % step !== 0) {
    throw invalid(`Amount must be a multiple of ${step} ${currency}`, 'amount');
  }
}
