import { ApiError, invalid, missing } from './api-error.ts';
import { type Bank, change, find } from './bank.ts';
import { cardByName, cardByNumber, passesLuhn, type TestCard } from './cards.ts';
import { type FormTree, subtree, text } from './form.ts';
import type { MethodRow, TokenRow } from './rows.ts';

const TOKEN_LIFE_S = 12 * 3600;

/** Creates a payment method from `type=card` and raw test card fields. */
export function createMethod(bank: Bank, params: FormTree): MethodRow {
  if (text(params, 'type') !== 'card') throw invalid("The simulator knows the type 'card' only.", 'type');
  const fields = subtree(params, 'card');
  if (!fields) throw invalid('Missing required param: card.', 'card', 'parameter_missing');
  const number = (text(fields, 'number') ?? '').replace(/[\s-]/g, '');
  const expMonth = Number(text(fields, 'exp_month'));
  const expYear = fullYear(Number(text(fields, 'exp_year')));
  const test = checkedCard(number);
  checkExpiry(bank, expMonth, expYear);
  const cvc = text(fields, 'cvc');
  if (cvc !== undefined && !/^\d{3,4}$/.test(cvc)) {
    throw cardError('invalid_cvc', "Your card's security code is invalid.", 'cvc');
  }
  const details = subtree(params, 'billing_details');
  return putMethod(bank, test, {
    expMonth,
    expYear,
    name: (details && text(details, 'name')) ?? null,
    email: (details && text(details, 'email')) ?? null,
  });
}

function checkedCard(number: string): TestCard {
  if (!passesLuhn(number)) throw cardError('incorrect_number', 'Your card number is incorrect.', 'number');
  const test = cardByNumber(number);
  if (!test) {
    // Stripe's test mode responds to a real card with this error; the simulator does so for every number that it does not know.
    throw cardError(
      'card_declined',
      'Your card was declined. Your request was in test mode, but used a non test card.',
      'number',
      'test_mode_live_card',
    );
  }
  return test;
}

function checkExpiry(bank: Bank, month: number, year: number): void {
  if (!Number.isInteger(month) || month < 1 || month > 12) {
    throw cardError('invalid_expiry_month', "Your card's expiration month is invalid.", 'exp_month');
  }
  const today = new Date(bank.now() * 1000);
  const thisYear = today.getUTCFullYear();
  if (!Number.isInteger(year) || year < thisYear || year > thisYear + 50) {
    throw cardError('invalid_expiry_year', "Your card's expiration year is invalid.", 'exp_year');
  }
  if (year === thisYear && month < today.getUTCMonth() + 1) {
    throw cardError('invalid_expiry_month', "Your card's expiration month is invalid.", 'exp_month');
  }
}

function fullYear(year: number): number {
  return year < 100 ? 2000 + year : year;
}

function cardError(code: string, message: string, param: string, declineCode?: string): ApiError {
  return new ApiError(402, {
    type: 'card_error',
    code,
    message,
    param,
    ...(declineCode && { decline_code: declineCode }),
  });
}

function putMethod(
  bank: Bank,
  test: TestCard,
  fields: Pick<MethodRow, 'expMonth' | 'expYear' | 'name' | 'email'>,
): MethodRow {
  const method: MethodRow = { id: bank.id('pm'), created: bank.now(), card: test.name, ...fields };
  bank.state.put('methods', method);
  return method;
}

/** `pm_card_visa` and the like make a new payment method at each use, as at Stripe. */
export function methodFor(bank: Bank, id: string, param: string): MethodRow {
  const known = find(bank, 'methods', id);
  if (known) return known;
  const test = id.startsWith('pm_card_') ? cardByName(id.slice('pm_card_'.length)) : undefined;
  if (!test) throw missing('PaymentMethod', id, param, 400);
  const expYear = new Date(bank.now() * 1000).getUTCFullYear() + 1;
  return putMethod(bank, test, { expMonth: 12, expYear, name: null, email: null });
}

export function createToken(bank: Bank, params: FormTree): TokenRow {
  const named = text(params, 'payment_method');
  const data = subtree(params, 'payment_method_data');
  if (!named && !data) {
    throw invalid('Missing required param: payment_method_data.', 'payment_method_data', 'parameter_missing');
  }
  const method = named ? methodFor(bank, named, 'payment_method') : createMethod(bank, data as FormTree);
  const token: TokenRow = {
    id: bank.id('ctoken'),
    created: bank.now(),
    expiresAt: bank.now() + TOKEN_LIFE_S,
    method: method.id,
    returnUrl: text(params, 'return_url') ?? null,
    usedBy: null,
  };
  bank.state.put('tokens', token);
  return token;
}

/** Takes a confirmation token for an intent; a token serves one intent only. */
export function redeemToken(bank: Bank, id: string, intent: string): { method: MethodRow; token: TokenRow } {
  const token = find(bank, 'tokens', id);
  if (!token) throw missing('ConfirmationToken', id, 'confirmation_token', 400);
  if (token.usedBy !== null) {
    throw invalid(
      `This ConfirmationToken was already used (${token.usedBy}); create a new one.`,
      'confirmation_token',
    );
  }
  if (token.expiresAt <= bank.now()) {
    throw invalid('This ConfirmationToken has expired; create a new one.', 'confirmation_token');
  }
  return {
    method: methodFor(bank, token.method, 'confirmation_token'),
    token: change(bank, 'tokens', token, { usedBy: intent }),
  };
}
