import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Stripe from 'stripe';
import { FAULT_ERRORS } from '../../payment-simulator/api-error.ts';
import type { FaultKind } from '../../payment-simulator/faults.ts';
import { startTestSimulator, type TestSimulator } from '../support/simulator.ts';
import {
  cardParams,
  hasHeaders,
  plain,
  type RawAnswer,
  type RequestOptions,
  rawCall,
} from '../support/stripe-calls.ts';
import { conforms, conformsTo, STRIPE_ERROR } from '../support/stripe-objects.ts';

let sim: TestSimulator;
before(async () => {
  sim = await startTestSimulator();
});
after(() => sim.stop());

const MANUAL = { amount: 5000, currency: 'eur', capture_method: 'manual' };
const raw = (route: string, params: Record<string, string>, more?: RequestOptions) =>
  rawCall(sim, route, params, more);

type ErrorCase = [
  what: string,
  provoke: () => Promise<RawAnswer>,
  status: number,
  type: string,
  code: string | undefined,
  raises: new (...given: never[]) => Error,
];
const { errors } = Stripe;

async function newIntent(amount = '5000'): Promise<string> {
  const made = await raw('payment_intents.create', {
    ...plain(MANUAL),
    amount,
    'allowed_payment_method_types[]': 'card',
  });
  return made.body.id ?? assert.fail(JSON.stringify(made.body));
}

async function confirmed(card = 'pm_card_visa'): Promise<string> {
  const id = await newIntent();
  assert.equal((await raw('payment_intents.confirm', { id, payment_method: card })).status, 200);
  return id;
}

async function captured(card = 'pm_card_visa'): Promise<string> {
  const id = await confirmed(card);
  assert.equal((await raw('payment_intents.capture', { id })).status, 200);
  return id;
}

/** The same call as it is made when all is well, under a fault that strikes once. */
async function under(
  fault: FaultKind,
  route: string,
  id: string,
  params: Record<string, string>,
): Promise<RawAnswer> {
  await sim.fault(fault, { times: 1, match: { route, intent: id } });
  return raw(route, params, { key: `${fault}-${id}` });
}

const created = (params: Record<string, string>) => () =>
  raw('payment_intents.create', { ...plain(MANUAL), ...params });
const confirming = (params: Record<string, string>) => async () =>
  raw('payment_intents.confirm', { id: await newIntent(), ...params });
const INVALID = 'invalid_request_error';
const REQUEST = errors.StripeInvalidRequestError;

/** Each error of the simulator. */
const ERRORS: ErrorCase[] = [
  ['no such route', () => raw('/v1/nothing', {}), 404, INVALID, undefined, REQUEST],
  [
    'a wrong secret key',
    () => raw('balance.retrieve', {}, { secret: 'sk_wrong' }),
    401,
    INVALID,
    undefined,
    errors.StripeAuthenticationError,
  ],
  [
    'a publishable key where a secret one is needed',
    () => raw('balance.retrieve', {}, { secret: sim.publishableKey }),
    401,
    INVALID,
    undefined,
    errors.StripeAuthenticationError,
  ],
  ['malformed parameters', created({ 'metadata[a': '1' }), 400, INVALID, undefined, REQUEST],
  ['an unknown parameter', created({ colour: 'red' }), 400, INVALID, 'parameter_unknown', REQUEST],
  ['an empty parameter', created({ description: '' }), 400, INVALID, 'parameter_invalid_empty', REQUEST],
  [
    'a parameter of the past',
    created({ 'payment_method_types[]': 'card' }),
    400,
    INVALID,
    'payment_method_types_no_longer_supported',
    REQUEST,
  ],
  [
    'no amount',
    () => raw('payment_intents.create', { currency: 'eur' }),
    400,
    INVALID,
    'parameter_missing',
    REQUEST,
  ],
  ['no integer', created({ amount: '1.5' }), 400, INVALID, 'parameter_invalid_integer', REQUEST],
  ['too little', created({ amount: '1' }), 400, INVALID, 'amount_too_small', REQUEST],
  ['too much', created({ amount: '100000000' }), 400, INVALID, 'amount_too_large', REQUEST],
  ['no such currency', created({ currency: 'euro' }), 400, INVALID, undefined, REQUEST],
  [
    'parameters that exclude each other',
    created({ 'allowed_payment_method_types[]': 'card', 'automatic_payment_methods[enabled]': 'true' }),
    400,
    INVALID,
    'parameters_exclusive',
    REQUEST,
  ],
  [
    'no such payment',
    () => raw('payment_intents.retrieve', { id: 'pi_none' }),
    404,
    INVALID,
    'resource_missing',
    REQUEST,
  ],
  [
    'no such payment method',
    confirming({ payment_method: 'pm_none' }),
    400,
    INVALID,
    'resource_missing',
    REQUEST,
  ],
  [
    'no such token',
    confirming({ confirmation_token: 'ctoken_none' }),
    400,
    INVALID,
    'resource_missing',
    REQUEST,
  ],
  ['no payment method', confirming({}), 400, INVALID, undefined, REQUEST],
  [
    'a token used twice',
    async () => {
      const token = await sim.confirmationToken('pm_card_visa');
      await raw('payment_intents.confirm', { id: await newIntent(), confirmation_token: token });
      return raw('payment_intents.confirm', { id: await newIntent(), confirmation_token: token });
    },
    400,
    INVALID,
    undefined,
    REQUEST,
  ],
  [
    'a declined card',
    confirming({ payment_method: 'pm_card_chargeDeclinedLostCard' }),
    402,
    'card_error',
    'card_declined',
    errors.StripeCardError,
  ],
  [
    'an expired card',
    confirming({ payment_method: 'pm_card_chargeDeclinedExpiredCard' }),
    402,
    'card_error',
    'expired_card',
    errors.StripeCardError,
  ],
  [
    'a wrong number',
    () => raw('payment_methods.create', { ...cardParams('card'), 'card[number]': '4242424242424241' }),
    402,
    'card_error',
    'incorrect_number',
    errors.StripeCardError,
  ],
  [
    'a card of the real world',
    () => raw('payment_methods.create', { ...cardParams('card'), 'card[number]': '4929000000006' }),
    402,
    'card_error',
    'card_declined',
    errors.StripeCardError,
  ],
  [
    'a month that there is not',
    () => raw('payment_methods.create', { ...cardParams('card'), 'card[exp_month]': '13' }),
    402,
    'card_error',
    'invalid_expiry_month',
    errors.StripeCardError,
  ],
  [
    'a year that is over',
    () => raw('payment_methods.create', { ...cardParams('card'), 'card[exp_year]': '2001' }),
    402,
    'card_error',
    'invalid_expiry_year',
    errors.StripeCardError,
  ],
  [
    'a malformed security code',
    () => raw('payment_methods.create', { ...cardParams('card'), 'card[cvc]': '1' }),
    402,
    'card_error',
    'invalid_cvc',
    errors.StripeCardError,
  ],
  [
    'a capture before a reservation',
    async () => raw('payment_intents.capture', { id: await newIntent() }),
    400,
    INVALID,
    'payment_intent_unexpected_state',
    REQUEST,
  ],
  [
    'a cancellation after the capture',
    async () => raw('payment_intents.cancel', { id: await captured() }),
    400,
    INVALID,
    'payment_intent_unexpected_state',
    REQUEST,
  ],
  [
    'a capture of more than is reserved',
    async () => raw('payment_intents.capture', { id: await confirmed(), amount_to_capture: '5001' }),
    400,
    INVALID,
    'amount_too_large',
    REQUEST,
  ],
  [
    'a reason that Stripe has not',
    async () => raw('payment_intents.cancel', { id: await newIntent(), cancellation_reason: 'bored' }),
    400,
    INVALID,
    undefined,
    REQUEST,
  ],
  ['a refund of nothing named', () => raw('refunds.create', {}), 400, INVALID, 'parameter_missing', REQUEST],
  [
    'a refund of what is not captured',
    async () => raw('refunds.create', { payment_intent: await confirmed() }),
    400,
    INVALID,
    'charge_not_refundable',
    REQUEST,
  ],
  [
    'a refund of more than is left',
    async () => raw('refunds.create', { payment_intent: await captured(), amount: '5001' }),
    400,
    INVALID,
    undefined,
    REQUEST,
  ],
  [
    'a second whole refund',
    async () => {
      const id = await captured();
      await raw('refunds.create', { payment_intent: id });
      return raw('refunds.create', { payment_intent: id });
    },
    400,
    INVALID,
    'charge_already_refunded',
    REQUEST,
  ],
  ['a list without end', () => raw('refunds.list', { limit: '1000' }), 400, INVALID, undefined, REQUEST],
  [
    'a key with other parameters',
    async () => {
      await raw('payment_intents.create', plain(MANUAL), { key: 'conformance' });
      return raw('payment_intents.create', { ...plain(MANUAL), amount: '6000' }, { key: 'conformance' });
    },
    400,
    'idempotency_error',
    undefined,
    errors.StripeIdempotencyError,
  ],
  [
    'a key that is too long',
    () => raw('payment_intents.create', plain(MANUAL), { key: 'k'.repeat(256) }),
    400,
    'idempotency_error',
    undefined,
    errors.StripeIdempotencyError,
  ],
];

/** The errors of faults. */
const FAULTS: [
  FaultKind,
  status: number,
  type: string,
  code: string | undefined,
  raises: new (...given: never[]) => Error,
][] = [
  ['error_500_before', 500, 'api_error', undefined, errors.StripeAPIError],
  ['error_500_after', 500, 'api_error', undefined, errors.StripeAPIError],
  ['error_500_stored', 500, 'api_error', undefined, errors.StripeAPIError],
  ['unavailable', 503, 'api_error', undefined, errors.StripeAPIError],
  ['rate_limit', 429, INVALID, 'rate_limit', errors.StripeRateLimitError],
  ['lock_timeout', 429, INVALID, 'lock_timeout', errors.StripeRateLimitError],
  ['key_in_use', 409, 'idempotency_error', 'idempotency_key_in_use', errors.StripeAPIError],
  ['key_mismatch', 400, 'idempotency_error', undefined, errors.StripeIdempotencyError],
  ['capture_refused', 402, 'card_error', 'card_declined', errors.StripeCardError],
  ['hold_lost', 400, INVALID, 'capture_charge_authorization_expired', REQUEST],
  ['void_refused', 400, INVALID, 'payment_intent_unexpected_state', REQUEST],
  ['declined', 402, 'card_error', 'card_declined', errors.StripeCardError],
  ['refund_insufficient_balance', 400, INVALID, 'balance_insufficient', REQUEST],
];
for (const [fault, ...expected] of FAULTS) {
  const provoke = async (): Promise<RawAnswer> => {
    if (fault === 'declined') {
      const id = await newIntent();
      return under(fault, 'payment_intents.confirm', id, { id, payment_method: 'pm_card_visa' });
    }
    if (fault === 'refund_insufficient_balance') {
      const id = await captured();
      return under(fault, 'refunds.create', id, { payment_intent: id });
    }
    const id = await confirmed();
    return under(fault, fault === 'void_refused' ? 'payment_intents.cancel' : 'payment_intents.capture', id, {
      id,
    });
  };
  ERRORS.push([`the fault ${fault}`, provoke, ...expected]);
}

test('each error has Stripe’s status, type and code, and the SDK reads it as what it is', async () => {
  for (const [what, provoke, status, type, code, raises] of ERRORS) {
    const answer = await provoke();
    const { error } = answer.body;
    assert.deepEqual(
      [answer.status, error?.type, error?.code],
      [status, type, code],
      `${what}: ${JSON.stringify(answer.body)}`,
    );
    assert.deepEqual(Object.keys(answer.body), ['error'], what);
    hasHeaders(answer, what);
    conformsTo(error, STRIPE_ERROR, what);
    const read = errors.generateV1Error({
      ...error,
      type,
      statusCode: status,
      headers: {},
      requestId: '',
    } as never);
    assert.ok(read instanceof raises, `${what}: the SDK reads ${read.constructor.name}`);
  }
  const answered = new Set(
    FAULTS.map(([fault]) => fault as string).map((name) => name.replace('error_500_before', 'server_error')),
  );
  assert.deepEqual(
    Object.keys(FAULT_ERRORS).filter((name) => !answered.has(name)),
    [],
    'errors of faults without a case',
  );
});

test('refunds have Stripe’s fields in whichever state a fault puts them', async () => {
  const states: [FaultKind, string, string][] = [
    ['refund_pending', 'pending', 'succeeded'],
    ['refund_waits_for_balance', 'pending', 'succeeded'],
    ['refund_pending_fails', 'pending', 'failed'],
    ['refund_fails_later', 'succeeded', 'failed'],
    ['refund_fails', 'failed', 'failed'],
  ];
  const made: [string, string][] = [];
  for (const [fault, first, last] of states) {
    const id = await captured();
    const { body } = await under(fault, 'refunds.create', id, { payment_intent: id, amount: '700' });
    conforms(body, fault);
    assert.equal(body.status, first, fault);
    made.push([body.id ?? '', last]);
  }
  await sim.settleRefunds();
  for (const [id, last] of made) {
    const { body } = await raw('refunds.retrieve', { id });
    conforms(body, id);
    assert.deepEqual([body.status, 'failure_reason' in body], [last, last === 'failed']);
  }
});
