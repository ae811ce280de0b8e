import { checkAmount } from './amounts.ts';
import { ApiError, invalid, unexpectedState } from './api-error.ts';
import { type Bank, change, chargeOf, find, methodOf } from './bank.ts';
import type { Decline } from './cards.ts';
import { disputeIfSo } from './disputes.ts';
import { type FormTree, list, subtree, text, texts } from './form.ts';
import { methodFor, redeemToken } from './instruments.ts';
import { card, chargeObject, intentObject, methodObject } from './render.ts';
import type { ChargeRow, IntentRow, IntentStatus, MethodRow } from './rows.ts';

/**
 * The life of a payment intent, as Stripe's documentation tells it: with manual capture a confirmation leads to
 * `requires_capture`, a decline back to `requires_payment_method`, and only a cancellation or a capture ends it.
 */

/** Stripe cancels an intent after too many confirmations; the exact number is theirs. */
const CONFIRMATIONS_MAX = 25;
const HOLD_WINDOW_S = 7 * 24 * 3600;

const CONFIRMABLE: readonly IntentStatus[] = [
  'requires_payment_method',
  'requires_confirmation',
  'requires_action',
];
const CANCELABLE: readonly IntentStatus[] = [...CONFIRMABLE, 'requires_capture'];

export function createIntent(bank: Bank, params: FormTree): IntentRow {
  const amount = amountParam(params, 'amount');
  const currency = text(params, 'currency') ?? '';
  if (amount === undefined) throw invalid('Missing required param: amount.', 'amount', 'parameter_missing');
  if (!currency) throw invalid('Missing required param: currency.', 'currency', 'parameter_missing');
  if (!/^[a-z]{3}$/.test(currency.toLowerCase())) {
    throw invalid(`Invalid currency: ${currency}.`, 'currency');
  }
  checkAmount(amount, currency.toLowerCase());
  const captureMethod = text(params, 'capture_method') ?? 'automatic';
  const id = bank.id('pi');
  const intent: IntentRow = {
    id,
    created: bank.now(),
    amount,
    currency: currency.toLowerCase(),
    status: 'requires_payment_method',
    captureMethod: captureMethod === 'manual' ? 'manual' : 'automatic',
    clientSecret: `${id}_secret_${bank.id('s').slice(2)}`,
    description: text(params, 'description') ?? null,
    receiptEmail: text(params, 'receipt_email') ?? null,
    metadata: texts(subtree(params, 'metadata')),
    allowedTypes: allowedTypes(params),
    method: null,
    latestCharge: null,
    captured: 0,
    canceledAt: null,
    cancellationReason: null,
    lastError: null,
    returnUrl: null,
    actionUrl: null,
    tries: 0,
  };
  bank.state.put('intents', intent);
  bank.emit('payment_intent.created', intent.id, intentObject(bank.state, intent));
  return text(params, 'confirm') === 'true' ? confirmIntent(bank, intent, params) : intent;
}

function allowedTypes(params: FormTree): string[] | null {
  const allowed = list(params, 'allowed_payment_method_types');
  if (allowed.length === 0) return null;
  if (subtree(params, 'automatic_payment_methods')) {
    throw invalid(
      'You may only specify one of these parameters: allowed_payment_method_types, automatic_payment_methods.',
      'allowed_payment_method_types',
      'parameters_exclusive',
    );
  }
  if (!allowed.includes('card')) {
    throw invalid("The simulator's only payment method is 'card'.", 'allowed_payment_method_types');
  }
  return ['card'];
}

function amountParam(params: FormTree, name: string): number | undefined {
  const given = text(params, name);
  if (given === undefined) return undefined;
  if (!/^\d{1,12}$/.test(given))
    throw invalid(`Invalid integer: ${given}`, name, 'parameter_invalid_integer');
  return Number(given);
}

/** An edit by hand at the provider: metadata at any time, the amount until a card was tried. */
export function updateIntent(bank: Bank, intent: IntentRow, params: FormTree): IntentRow {
  const amount = amountParam(params, 'amount') ?? intent.amount;
  if (amount !== intent.amount) {
    if (!CONFIRMABLE.includes(intent.status)) throw cannot(bank, intent, 'updated');
    checkAmount(amount, intent.currency);
  }
  const metadata = { ...intent.metadata, ...texts(subtree(params, 'metadata')) };
  // An empty text takes the entry away.
  for (const [name, value] of Object.entries(metadata)) if (value === '') delete metadata[name];
  return change(bank, 'intents', intent, { amount, metadata });
}

/** Throws a 402 with the intent inside when the bank declines; the decline itself is recorded. */
export function confirmIntent(bank: Bank, intent: IntentRow, params: FormTree): IntentRow {
  if (!CONFIRMABLE.includes(intent.status)) throw cannot(bank, intent, 'confirmed');
  const { method, returnUrl } = instrumentOf(bank, intent, params);
  if (intent.tries >= CONFIRMATIONS_MAX) return end(bank, intent, 'automatic');
  const tried = change(bank, 'intents', intent, {
    method: method.id,
    returnUrl,
    actionUrl: null,
    lastError: null,
    tries: intent.tries + 1,
    holdMs: bank.manner().holdMs,
  });
  const bankSays = { ...card(method.card).bank, ...bank.manner() };
  if (bankSays.authenticate) return ask(bank, tried);
  if (bankSays.decline) throw declined(bank, tried, method, bankSays.decline);
  return authorise(bank, tried, method, false);
}

function instrumentOf(
  bank: Bank,
  intent: IntentRow,
  params: FormTree,
): { method: MethodRow; returnUrl: string | null } {
  const token = text(params, 'confirmation_token');
  const named = text(params, 'payment_method') ?? intent.method ?? undefined;
  const returnUrl = text(params, 'return_url') ?? null;
  if (token) {
    const redeemed = redeemToken(bank, token, intent.id);
    return { method: redeemed.method, returnUrl: returnUrl ?? redeemed.token.returnUrl };
  }
  if (!named) {
    throw invalid(
      "You cannot confirm this PaymentIntent because it's missing a payment method.",
      'payment_method',
    );
  }
  const method = methodFor(bank, named, 'payment_method');
  if (intent.allowedTypes === null && returnUrl === null) {
    throw invalid(
      'This PaymentIntent accepts redirect-based payment methods: a `return_url` is needed to confirm it.',
      'return_url',
    );
  }
  return { method, returnUrl };
}

function ask(bank: Bank, intent: IntentRow): IntentRow {
  const asked = change(bank, 'intents', intent, {
    status: 'requires_action',
    actionUrl: `${bank.publicUrl}/authenticate/${intent.id}?client_secret=${intent.clientSecret}`,
  });
  bank.emit('payment_intent.requires_action', asked.id, intentObject(bank.state, asked));
  return asked;
}

/** The buyer's answer on the authentication page; no effect when it is no longer asked for. */
export function authenticate(bank: Bank, intent: IntentRow, accepted: boolean): IntentRow {
  if (intent.status !== 'requires_action' || intent.method === null) return intent;
  const method = methodOf(bank, intent.method);
  if (accepted) {
    const decline = card(method.card).bank.decline;
    if (!decline) return authorise(bank, intent, method, true);
    // The buyer is sent back either way, and no caller waits for this error.
    declined(bank, intent, method, decline);
    return find(bank, 'intents', intent.id) ?? intent;
  }
  const failed = change(bank, 'intents', intent, {
    status: 'requires_payment_method',
    method: null,
    actionUrl: null,
    lastError: {
      type: 'invalid_request_error',
      code: 'payment_intent_authentication_failure',
      declineCode: null,
      message:
        'The provided PaymentMethod has failed authentication. You can provide payment_method_data or a new PaymentMethod to attempt to fulfill this PaymentIntent again.',
      method: method.id,
      charge: null,
    },
  });
  bank.emit('payment_intent.payment_failed', failed.id, intentObject(bank.state, failed));
  return failed;
}

function authorise(bank: Bank, intent: IntentRow, method: MethodRow, authenticated: boolean): IntentRow {
  const manual = intent.captureMethod === 'manual';
  const holdS = intent.holdMs === undefined ? HOLD_WINDOW_S : Math.ceil(intent.holdMs / 1000);
  const charge = putCharge(bank, intent, method, {
    status: 'succeeded',
    captured: !manual,
    amountCaptured: manual ? 0 : intent.amount,
    captureBefore: manual ? bank.now() + holdS : null,
    authenticated,
  });
  const next = change(bank, 'intents', intent, {
    status: manual ? 'requires_capture' : 'succeeded',
    captured: manual ? 0 : intent.amount,
    latestCharge: charge.id,
    lastError: null,
    actionUrl: null,
  });
  bank.emit('charge.succeeded', next.id, chargeObject(bank.state, charge));
  const type = manual ? 'payment_intent.amount_capturable_updated' : 'payment_intent.succeeded';
  bank.emit(type, next.id, intentObject(bank.state, next));
  if (!manual) disputeIfSo(bank, next, charge);
  return next;
}

/** Records the decline and returns the error to throw. */
function declined(bank: Bank, intent: IntentRow, method: MethodRow, decline: Decline): ApiError {
  const charge = putCharge(bank, intent, method, { status: 'failed', decline });
  const next = change(bank, 'intents', intent, {
    status: 'requires_payment_method',
    method: null,
    actionUrl: null,
    latestCharge: charge.id,
    lastError: {
      type: 'card_error',
      code: decline.code,
      declineCode: decline.declineCode,
      message: decline.message,
      method: method.id,
      charge: charge.id,
    },
  });
  bank.emit('charge.failed', next.id, chargeObject(bank.state, charge));
  bank.emit('payment_intent.payment_failed', next.id, intentObject(bank.state, next));
  return new ApiError(
    402,
    {
      type: 'card_error',
      code: decline.code,
      ...(decline.declineCode && { decline_code: decline.declineCode }),
      message: decline.message,
      charge: charge.id,
      payment_intent: intentObject(bank.state, next),
      payment_method: methodObject(method),
    },
    { stored: true },
  );
}

function putCharge(
  bank: Bank,
  intent: IntentRow,
  method: MethodRow,
  fields: Pick<ChargeRow, 'status'> & Partial<ChargeRow>,
): ChargeRow {
  const charge: ChargeRow = {
    id: bank.id('ch'),
    created: bank.now(),
    intent: intent.id,
    amount: intent.amount,
    currency: intent.currency,
    method: method.id,
    captured: false,
    amountCaptured: 0,
    amountRefunded: 0,
    captureBefore: null,
    authenticated: false,
    decline: null,
    metadata: intent.metadata,
    description: intent.description,
    receiptEmail: intent.receiptEmail,
    ...fields,
  };
  bank.state.put('charges', charge);
  return charge;
}

export function captureIntent(bank: Bank, intent: IntentRow, params: FormTree): IntentRow {
  if (intent.status !== 'requires_capture') throw cannot(bank, intent, 'captured');
  const charge = chargeOf(bank, intent);
  if (!charge) throw new Error(`${intent.id} requires capture and has no charge`);
  const amount = amountParam(params, 'amount_to_capture') ?? intent.amount;
  if (amount > intent.amount) {
    throw invalid(
      'The requested capture amount is greater than the authorized amount.',
      'amount_to_capture',
      'amount_too_large',
    );
  }
  if (amount < 1) throw invalid('Invalid positive integer', 'amount_to_capture', 'parameter_invalid_integer');
  if (bank.manner().capture === 'hold_lost') throw holdLost(bank, intent);
  if (bank.manner().capture === 'refused') throw captureRefused(bank, intent, charge);
  const taken = change(bank, 'charges', charge, {
    captured: true,
    amountCaptured: amount,
    captureBefore: null,
  });
  const next = change(bank, 'intents', intent, { status: 'succeeded', captured: amount });
  bank.emit('charge.captured', next.id, chargeObject(bank.state, taken));
  bank.emit('payment_intent.succeeded', next.id, intentObject(bank.state, next));
  disputeIfSo(bank, next, taken);
  return next;
}

/** The issuer let the reservation go before its time. */
function holdLost(bank: Bank, intent: IntentRow): ApiError {
  const ended = end(bank, intent, 'automatic');
  return stateError(
    bank,
    ended,
    'capture_charge_authorization_expired',
    'The charge cannot be captured because its authorization has expired.',
  );
}

function captureRefused(bank: Bank, intent: IntentRow, charge: ChargeRow): ApiError {
  return new ApiError(
    402,
    {
      type: 'card_error',
      code: 'card_declined',
      decline_code: 'generic_decline',
      message: 'Your card was declined.',
      charge: charge.id,
      payment_intent: intentObject(bank.state, intent),
      payment_method: methodObject(methodOf(bank, charge.method)),
    },
    { stored: true },
  );
}

const CANCEL_REASONS = ['duplicate', 'fraudulent', 'requested_by_customer', 'abandoned'];

export function cancelIntent(bank: Bank, intent: IntentRow, params: FormTree): IntentRow {
  const reason = text(params, 'cancellation_reason');
  if (reason !== undefined && !CANCEL_REASONS.includes(reason)) {
    throw invalid(
      `Invalid cancellation_reason: must be one of ${CANCEL_REASONS.join(', ')}`,
      'cancellation_reason',
    );
  }
  if (!CANCELABLE.includes(intent.status)) throw cannot(bank, intent, 'canceled');
  if (bank.manner().cancel === 'refused') {
    throw stateError(
      bank,
      intent,
      'payment_intent_unexpected_state',
      'This PaymentIntent could not be canceled because another operation on it is in progress.',
    );
  }
  return end(bank, intent, reason ?? null);
}

/** Cancels, giving back what was reserved; Stripe shows that as a refund of the uncaptured charge. */
function end(bank: Bank, intent: IntentRow, reason: string | null): IntentRow {
  const charge = intent.status === 'requires_capture' ? chargeOf(bank, intent) : undefined;
  if (charge) {
    const released = change(bank, 'charges', charge, {
      amountRefunded: charge.amount,
      captureBefore: null,
    });
    bank.emit('charge.refunded', intent.id, chargeObject(bank.state, released));
  }
  const next = change(bank, 'intents', intent, {
    status: 'canceled',
    actionUrl: null,
    canceledAt: bank.now(),
    cancellationReason: reason,
  });
  bank.emit('payment_intent.canceled', next.id, intentObject(bank.state, next));
  return next;
}

/** A reservation that is not captured in time ends automatically. It is checked when the intent is used, and every second. */
export function expireIfDue(bank: Bank, intent: IntentRow): IntentRow {
  if (intent.status !== 'requires_capture') return intent;
  const charge = chargeOf(bank, intent);
  const due = charge?.captureBefore ?? null;
  return due !== null && due <= bank.now() ? end(bank, intent, 'automatic') : intent;
}

function cannot(bank: Bank, intent: IntentRow, verb: string): ApiError {
  return stateError(
    bank,
    intent,
    'payment_intent_unexpected_state',
    `This PaymentIntent could not be ${verb} because it has a status of ${intent.status}.`,
  );
}

function stateError(bank: Bank, intent: IntentRow, code: string, message: string): ApiError {
  return unexpectedState(code, message, intentObject(bank.state, intent));
}
