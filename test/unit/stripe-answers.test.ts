import assert from 'node:assert/strict';
import { test } from 'node:test';
import Stripe from 'stripe';
import { createStripeProvider } from '../../src/payments/stripe.ts';
import { declineOf, refundViewOf, verdictOf, viewOf } from '../../src/payments/stripe-answers.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';

const { errors } = Stripe;

function kindOf(fault: unknown): string {
  const verdict = verdictOf(fault);
  return verdict.kind === 'unknown' ? `unknown:${verdict.reason}` : verdict.kind;
}

/** As the SDK raises them: by status first, then by type. */
const raised = (statusCode: number, raw: Record<string, unknown>) =>
  errors.StripeError.generate({ statusCode, message: 'm', ...raw } as never);

test('P4: whatever leaves open whether the work was done is unknown', () => {
  const timeout = Object.assign(new Error('x'), { code: 'ETIMEDOUT' });
  const cases: [string, unknown, string][] = [
    ['time-out', new errors.StripeConnectionError({ detail: timeout } as never), 'unknown:timeout'],
    [
      'reset',
      new errors.StripeConnectionError({ detail: { code: 'ECONNRESET' } } as never),
      'unknown:connection',
    ],
    ['no detail', new errors.StripeConnectionError({} as never), 'unknown:connection'],
    ['500', raised(500, { type: 'api_error' }), 'unknown:server_error'],
    ['503', raised(503, { type: 'api_error' }), 'unknown:server_error'],
    ['no JSON', new errors.StripeAPIError({ message: 'Invalid JSON' } as never), 'unknown:server_error'],
    ['unreadable', new TypeError('cannot read properties of null'), 'unknown:server_error'],
    ['wrong secret key', raised(401, { type: 'invalid_request_error' }), 'unknown:server_error'],
    ['no permission', raised(403, { type: 'invalid_request_error' }), 'unknown:server_error'],
    [
      'key in use',
      raised(409, { type: 'idempotency_error', code: 'idempotency_key_in_use' }),
      'unknown:conflict',
    ],
    ['key mismatch', raised(400, { type: 'idempotency_error' }), 'unknown:conflict'],
    [
      'rate limit',
      raised(429, { type: 'invalid_request_error', code: 'rate_limit' }),
      'unknown:rate_limited',
    ],
    ['lock', raised(429, { type: 'invalid_request_error', code: 'lock_timeout' }), 'unknown:rate_limited'],
    [
      'old rate limit',
      raised(400, { type: 'invalid_request_error', code: 'rate_limit' }),
      'unknown:rate_limited',
    ],
    ['no object', raised(404, { code: 'resource_missing', param: 'intent' }), 'unknown:not_found'],
    [
      'no object, 400',
      raised(400, { code: 'resource_missing', param: 'payment_intent' }),
      'unknown:not_found',
    ],
  ];
  for (const [name, fault, expected] of cases) assert.equal(kindOf(fault), expected, name);
});

test('P4: an answer about the state of the object leads to a look at the object', () => {
  for (const code of [
    'payment_intent_unexpected_state',
    'charge_already_captured',
    'charge_expired_for_capture',
    'capture_charge_authorization_expired',
  ]) {
    assert.equal(kindOf(raised(400, { type: 'invalid_request_error', code })), 'look', code);
  }
});

test('P4: only what the provider looked at and declined is refused', () => {
  assert.equal(kindOf(raised(402, { type: 'card_error', code: 'card_declined' })), 'refused');
  assert.equal(kindOf(raised(400, { type: 'invalid_request_error', code: 'amount_too_small' })), 'refused');
  assert.equal(kindOf(raised(400, { code: 'resource_missing', param: 'payment_method' })), 'refused');
  assert.equal(kindOf(raised(400, { code: 'resource_missing', param: 'confirmation_token' })), 'refused');
});

test('every code that Stripe documents for a call of ours has its verdict', () => {
  const verdicts = {
    amount_too_small: 'refused',
    amount_too_large: 'refused',
    charge_already_refunded: 'refused',
    charge_disputed: 'refused',
    refund_disputed_payment: 'refused',
    balance_insufficient: 'refused',
    payment_intent_unexpected_state: 'look',
    charge_already_captured: 'look',
    charge_expired_for_capture: 'look',
    capture_charge_authorization_expired: 'look',
    lock_timeout: 'unknown:rate_limited',
    rate_limit: 'unknown:rate_limited',
    idempotency_key_in_use: 'unknown:conflict',
    resource_missing: 'unknown:not_found',
  };
  for (const [code, verdict] of Object.entries(verdicts)) {
    const status = code === 'idempotency_key_in_use' ? 409 : 400;
    assert.equal(kindOf(raised(status, { type: 'invalid_request_error', code })), verdict, code);
  }
});

test('for lost, stolen and fraud reasons the buyer sees only that the card was declined', () => {
  for (const reason of [
    'lost_card',
    'stolen_card',
    'fraudulent',
    'pickup_card',
    'restricted_card',
    'security_violation',
    'merchant_blacklist',
    'generic_decline',
    'do_not_honor',
    'card_velocity_exceeded',
    'duplicate_transaction',
    'a_reason_of_next_year',
  ]) {
    assert.equal(declineOf({ code: 'card_declined', decline_code: reason }), 'declined', reason);
  }
});

test('declines that the buyer can act on keep their reason', () => {
  const by = (decline_code: string) => declineOf({ code: 'card_declined', decline_code });
  assert.equal(by('insufficient_funds'), 'insufficient_funds');
  assert.equal(by('expired_card'), 'expired_card');
  assert.equal(by('incorrect_cvc'), 'incorrect_cvc');
  assert.equal(by('invalid_cvc'), 'incorrect_cvc');
  assert.equal(by('processing_error'), 'processing_error');
  assert.equal(by('try_again_later'), 'processing_error');
  assert.equal(by('authentication_required'), 'authentication_failed');
  assert.equal(by('card_not_supported'), 'invalid_instrument');
  assert.equal(declineOf({ code: 'expired_card' }), 'expired_card');
  assert.equal(declineOf({ code: 'payment_intent_authentication_failure' }), 'authentication_failed');
  assert.equal(declineOf({ code: 'resource_missing', param: 'payment_method' }), 'invalid_instrument');
  assert.equal(declineOf({ param: 'payment_method_data[card]' }), 'invalid_instrument');
  assert.equal(declineOf({}), 'declined');
});

function intent(fields: Record<string, unknown> = {}): Stripe.PaymentIntent {
  return {
    id: 'pi_1',
    object: 'payment_intent',
    amount: 1500,
    amount_received: 0,
    currency: 'jpy',
    latest_charge: null,
    last_payment_error: null,
    metadata: { order: 'order-1' },
    next_action: null,
    payment_method: null,
    status: 'requires_payment_method',
    ...fields,
  } as unknown as Stripe.PaymentIntent;
}

test('P6: a view carries amount, currency in capitals and our reference, whatever the currency divides into', () => {
  const view = viewOf(intent());
  assert.equal(view?.amount, 1500);
  assert.equal(view?.currency, 'JPY');
  assert.equal(view?.reference, 'order-1');
  assert.equal(viewOf(intent({ metadata: {} }))?.reference, '', 'not ours: it will match no order');
});

test('P4: each status has one word of ours, and one that is new to us is no verdict', () => {
  const words = {
    requires_payment_method: 'new',
    requires_confirmation: 'new',
    requires_action: 'waiting',
    processing: 'processing',
    requires_capture: 'authorised',
    succeeded: 'captured',
    canceled: 'cancelled',
  };
  for (const [status, word] of Object.entries(words)) assert.equal(viewOf(intent({ status }))?.status, word);
  assert.equal(viewOf(intent({ status: 'requires_patience' })), null);
});

test('P8: a cancelled reservation is no refund, a refund of captured money is', () => {
  const charge = { amount_refunded: 1500, captured: false, payment_method_details: null };
  assert.equal(viewOf(intent({ status: 'canceled', latest_charge: charge }))?.refunded, 0);
  const taken = { ...charge, captured: true, amount_refunded: 500 };
  const view = viewOf(intent({ status: 'succeeded', amount_received: 1500, latest_charge: taken }));
  assert.deepEqual([view?.captured, view?.refunded], [1500, 500]);
});

test('the reservation ends when the charge says so, in milliseconds, and only while it stands', () => {
  const latest_charge = { payment_method_details: { card: { capture_before: 1_900_000_000 } } };
  assert.equal(
    viewOf(intent({ status: 'requires_capture', latest_charge }))?.captureBefore,
    1_900_000_000_000,
  );
  assert.equal(viewOf(intent({ status: 'succeeded', latest_charge }))?.captureBefore, null);
});

test('refund statuses: only plain words are final', () => {
  const of = (status: string | null) =>
    refundViewOf({
      id: 're_1',
      amount: 5,
      currency: 'eur',
      metadata: { refund: 'r1' },
      payment_intent: 'pi_1',
      status,
    } as unknown as Stripe.Refund);
  assert.equal(of('succeeded').status, 'succeeded');
  assert.equal(of('failed').status, 'failed');
  assert.equal(of('canceled').status, 'failed');
  assert.equal(of('pending').status, 'pending');
  assert.equal(of('requires_action').status, 'pending');
  assert.equal(of(null).status, 'pending');
  assert.deepEqual(
    [of('succeeded').reference, of('succeeded').object, of('succeeded').currency],
    ['r1', 'pi_1', 'EUR'],
  );
});

test('a missing key or amount is a bug that never reaches the provider', async () => {
  const provider = createStripeProvider({
    secretKey: 'sk_test_x',
    webhookSecrets: [],
    apiBase: 'http://127.0.0.1:9',
    log: silentLogger,
    clock: systemClock,
  });
  const capture = (key: string, amount: number) => provider.capture({ key, object: 'pi_1', amount });
  await assert.rejects(() => capture('', 100), /idempotency key/);
  await assert.rejects(() => capture('k'.repeat(256), 100), /idempotency key/);
  for (const amount of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
    await assert.rejects(() => capture('k', amount), /amount/);
    await assert.rejects(
      () => provider.refund({ key: 'k', object: 'pi_1', amount, reference: 'r' }),
      /amount/,
    );
  }
});
