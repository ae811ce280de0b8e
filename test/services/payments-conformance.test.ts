import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Stripe from 'stripe';
import { FAULT_ERRORS } from '../../src/payments/simulator/api-error.ts';
import { ROUTES } from '../../src/payments/simulator/routes.ts';
import { openPayment, startTestSimulator, type TestSimulator } from '../support/simulator.ts';
import { conforms, conformsTo, STRIPE_ERROR, STRIPE_OBJECTS } from '../support/stripe-objects.ts';

let sim: TestSimulator;
let stripe: Stripe;
before(async () => {
  sim = await startTestSimulator();
  const { hostname, port } = new URL(sim.url);
  stripe = new Stripe(sim.secretKey, { host: hostname, port, protocol: 'http', telemetry: false });
});
after(() => sim.stop());

const MANUAL = { amount: 5000, currency: 'eur', capture_method: 'manual' } as const;
const CARD_ONLY = { ...MANUAL, allowed_payment_method_types: ['card' as const] };
const EXPAND = { expand: ['latest_charge', 'payment_method'] };

test('payment intents have Stripe’s fields and types in every state', async () => {
  const made = await stripe.paymentIntents.create({ ...CARD_ONLY, metadata: { order: 'o1' } });
  conforms(made, 'created');
  const asked = await stripe.paymentIntents.confirm(made.id, {
    payment_method: 'pm_card_threeDSecure2Required',
    return_url: 'http://shop.test/',
  });
  conforms(asked, 'requires_action');
  assert.equal(asked.next_action?.redirect_to_url?.return_url, 'http://shop.test/');
  const held = await stripe.paymentIntents.confirm(made.id, { payment_method: 'pm_card_visa', ...EXPAND });
  conforms(held, 'requires_capture');
  assert.equal(held.amount_capturable, 5000);
  conforms(held.latest_charge as Stripe.Charge, 'requires_capture.latest_charge');
  conforms(held.payment_method as Stripe.PaymentMethod, 'requires_capture.payment_method');
  const taken = await stripe.paymentIntents.capture(made.id);
  conforms(taken, 'succeeded');
  assert.deepEqual([taken.amount_capturable, taken.amount_received], [0, 5000]);
  const other = await stripe.paymentIntents.create({
    ...MANUAL,
    automatic_payment_methods: { enabled: true },
  });
  conforms(await stripe.paymentIntents.cancel(other.id, { cancellation_reason: 'abandoned' }), 'canceled');
  conforms(await stripe.paymentIntents.retrieve(made.id), 'retrieved');
});

test('a decline is a card error with the intent, the charge and the payment method inside', async () => {
  const made = await stripe.paymentIntents.create(CARD_ONLY);
  const fault = await stripe.paymentIntents
    .confirm(made.id, { payment_method: 'pm_card_chargeDeclinedInsufficientFunds' })
    .then(() => assert.fail('not declined'))
    .catch((error: unknown) => error);
  assert.ok(fault instanceof Stripe.errors.StripeCardError);
  assert.deepEqual(
    [fault.statusCode, fault.type, fault.code, fault.decline_code, fault.rawType],
    [402, 'StripeCardError', 'card_declined', 'insufficient_funds', 'card_error'],
  );
  assert.match(fault.requestId ?? '', /^req_/);
  conforms(fault.payment_intent!, 'error.payment_intent');
  const last = fault.payment_intent?.last_payment_error;
  assert.deepEqual([last?.code, last?.decline_code], ['card_declined', 'insufficient_funds']);
  const charge = await stripe.charges.retrieve(String(fault.charge));
  conforms(charge, 'failed charge');
  assert.deepEqual([charge.status, charge.paid, charge.failure_code], ['failed', false, 'card_declined']);
});

test('a call in the wrong state is an invalid request with the intent inside', async () => {
  const made = await stripe.paymentIntents.create(CARD_ONLY);
  const fault = await stripe.paymentIntents
    .capture(made.id)
    .then(() => assert.fail('captured'))
    .catch((error: unknown) => error);
  assert.ok(fault instanceof Stripe.errors.StripeInvalidRequestError);
  assert.deepEqual([fault.statusCode, fault.code], [400, 'payment_intent_unexpected_state']);
  conforms(fault.payment_intent!, 'error.payment_intent');
});

test('charges, refunds, payment methods, tokens and the balance have Stripe’s fields and types', async () => {
  const available = async () =>
    (await stripe.balance.retrieve()).available.find((entry) => entry.currency === 'eur')?.amount ?? 0;
  const before = await available();
  const made = await stripe.paymentIntents.create(CARD_ONLY);
  const held = await stripe.paymentIntents.confirm(made.id, {
    payment_method: 'pm_card_pendingRefund',
    ...EXPAND,
  });
  const charge = held.latest_charge as Stripe.Charge;
  assert.equal(typeof charge.payment_method_details?.card?.capture_before, 'number');
  await stripe.paymentIntents.capture(made.id);
  conforms(await stripe.charges.retrieve(charge.id), 'captured charge');

  const refund = await stripe.refunds.create({
    payment_intent: made.id,
    amount: 100,
    metadata: { refund: 'r1' },
  });
  conforms(refund, 'refund');
  assert.deepEqual([refund.status, refund.pending_reason], ['pending', 'processing']);
  conforms(await stripe.refunds.retrieve(refund.id), 'retrieved refund');
  assert.deepEqual(
    (await stripe.refunds.list({ payment_intent: made.id })).data.map(({ id }) => id),
    [refund.id],
  );

  const method = held.payment_method as Stripe.PaymentMethod;
  conforms(await stripe.paymentMethods.retrieve(method.id), 'payment method');
  const token = await stripe.confirmationTokens.retrieve(await sim.confirmationToken('4242424242424242'));
  conforms(token, 'token');
  conforms(
    await stripe.testHelpers.confirmationTokens.create({ payment_method: 'pm_card_visa' }),
    'test token',
  );
  conforms(await stripe.balance.retrieve(), 'balance');
  assert.equal((await available()) - before, 4900);
});

test('events are snapshots of Stripe’s objects', async () => {
  const { data } = await stripe.events.list({ limit: 100 });
  assert.ok(data.length > 10);
  for (const event of data) {
    conforms(event, event.type);
  }
  conforms(await stripe.events.retrieve(data[0]!.id), 'retrieved event');
});

test('lists page through everything by cursor, newest first, within a window of time', async () => {
  const made: string[] = [];
  for (let i = 0; i < 7; i++) {
    const { object } = await openPayment(sim.provider, { reference: `list-${i}`, key: `list-${i}` });
    made.unshift(object);
  }
  const all: Stripe.PaymentIntent[] = [];
  for await (const intent of stripe.paymentIntents.list({ limit: 3 })) all.push(intent);
  assert.deepEqual(
    all.slice(0, 7).map(({ id }) => id),
    made,
  );
  assert.deepEqual(all[0]?.metadata, { order: 'list-6', event: 'event-1' });
  const newest = all[0]!.created;
  const later = await stripe.paymentIntents.list({ created: { gt: newest } });
  assert.deepEqual(later.data, []);
  const upTo = await stripe.paymentIntents.list({ created: { gte: newest, lte: newest }, limit: 1 });
  assert.equal(upTo.data[0]?.id, made[0]);
});

/** One call of each route, in an order in which each finds what it needs; `{…}` is an id that an earlier one gave. */
const CALLS: [route: string, params: Record<string, string>, object: string][] = [
  ['payment_methods.create', cardParams('card'), 'payment_method'],
  ['payment_methods.retrieve', { id: '{payment_methods.create}' }, 'payment_method'],
  ['confirmation_tokens.create', cardParams('payment_method_data[card]'), 'confirmation_token'],
  ['confirmation_tokens.retrieve', { id: '{confirmation_tokens.create}' }, 'confirmation_token'],
  ['test_helpers.confirmation_tokens.create', { payment_method: 'pm_card_visa' }, 'confirmation_token'],
  [
    'payment_intents.create',
    {
      amount: '5000',
      currency: 'eur',
      capture_method: 'manual',
      'allowed_payment_method_types[]': 'card',
      'metadata[order]': 'each-route',
      description: 'Two seats',
      receipt_email: 'buyer@example.org',
    },
    'payment_intent',
  ],
  [
    'payment_intents.confirm',
    {
      id: '{payment_intents.create}',
      confirmation_token: '{confirmation_tokens.create}',
      return_url: 'http://shop.test/',
      'expand[]': 'latest_charge.payment_intent',
    },
    'payment_intent',
  ],
  ['payment_intents.retrieve', { id: '{payment_intents.create}' }, 'payment_intent'],
  [
    'payment_intents.capture',
    { id: '{payment_intents.create}', amount_to_capture: '4000', 'expand[]': 'latest_charge' },
    'payment_intent',
  ],
  ['payment_intents.list', { limit: '100', 'expand[]': 'data.latest_charge' }, 'list'],
  ['charges.retrieve', { id: '{charge}', 'expand[]': 'payment_intent' }, 'charge'],
  [
    'refunds.create',
    { payment_intent: '{payment_intents.create}', amount: '100', 'expand[]': 'charge' },
    'refund',
  ],
  ['refunds.retrieve', { id: '{refunds.create}', 'expand[]': 'payment_intent' }, 'refund'],
  ['refunds.list', { charge: '{charge}' }, 'list'],
  ['events.list', { limit: '100' }, 'list'],
  ['events.retrieve', { id: '{event}' }, 'event'],
  ['balance.retrieve', {}, 'balance'],
  ['payment_intents.create', { ...plain(MANUAL), capture_method: 'automatic' }, 'payment_intent'],
  [
    'payment_intents.cancel',
    { id: '{payment_intents.create}', cancellation_reason: 'abandoned' },
    'payment_intent',
  ],
];

function cardParams(at: string): Record<string, string> {
  const type = at.includes('[') ? at.replace('[card]', '[type]') : 'type';
  return {
    [type]: 'card',
    [`${at}[number]`]: '4242424242424242',
    [`${at}[exp_month]`]: '12',
    [`${at}[exp_year]`]: String(new Date().getUTCFullYear() + 1),
  };
}

function plain(params: object): Record<string, string> {
  return Object.fromEntries(Object.entries(params).map(([name, value]) => [name, String(value)]));
}

interface Raw {
  status: number;
  headers: Headers;
  body: Record<string, unknown> & { object?: string; id?: string; error?: Record<string, unknown> };
}

/** As a client without the SDK sees it. */
async function raw(route: string, given: Record<string, string>, more: RequestOptions = {}): Promise<Raw> {
  const { method, path } = ROUTES.find((one) => one.name === route) ?? { method: 'GET', path: route };
  const { id = '', ...params } = given;
  const form = new URLSearchParams(params).toString();
  const url = sim.url + path.replace(':id', id);
  const response = await fetch(method === 'GET' && form ? `${url}?${form}` : url, {
    method,
    headers: {
      authorization: `Bearer ${more.secret ?? sim.secretKey}`,
      'content-type': 'application/x-www-form-urlencoded',
      'stripe-version': '2026-10-28.endive',
      ...(more.key && { 'idempotency-key': more.key }),
    },
    ...(method === 'POST' && { body: form }),
  });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

interface RequestOptions {
  key?: string;
  secret?: string;
}

function hasHeaders({ headers }: Raw, where: string): void {
  assert.match(headers.get('content-type') ?? '', /^application\/json/, where);
  assert.match(headers.get('request-id') ?? '', /^req_/, where);
  assert.equal(headers.get('stripe-version'), '2026-10-28.endive', where);
  assert.match(headers.get('cache-control') ?? '', /no-store/, where);
}

test('each route answers with Stripe’s object, headers and nothing else', async () => {
  const ids = new Map<string, string>();
  for (const [route, params, object] of CALLS) {
    const known = Object.entries(params).map(([name, value]) => [
      name,
      value.replace(/^\{(.*)\}$/, (_, of: string) => ids.get(of) ?? assert.fail(`no id of ${of}`)),
    ]);
    const answer = await raw(route, Object.fromEntries(known));
    assert.deepEqual(
      [answer.status, answer.body.object],
      [200, object],
      `${route}: ${JSON.stringify(answer.body)}`,
    );
    hasHeaders(answer, route);
    conforms(answer.body, route);
    if (answer.body.id) ids.set(route, answer.body.id);
    const charge = answer.body.latest_charge as { id: string } | undefined;
    if (charge?.id) ids.set('charge', charge.id);
    if (route === 'events.list') ids.set('event', (answer.body.data as { id: string }[])[0]!.id);
  }
  const called = new Set(CALLS.map(([route]) => route));
  assert.deepEqual(
    ROUTES.filter(({ name }) => !called.has(name)).map(({ name }) => name),
    [],
    'routes without a call',
  );
});

test('what is left out of Stripe’s objects is nowhere in them, and what is listed is a field', () => {
  for (const [name, shape] of Object.entries(STRIPE_OBJECTS)) {
    assert.deepEqual(
      Object.keys(shape.leftOut).filter((field) => field in shape.fields),
      [],
      name,
    );
    assert.deepEqual(
      Object.keys(shape.within).filter((field) => !(field in shape.fields)),
      [],
      name,
    );
  }
});

type ErrorCase = [
  what: string,
  provoke: () => Promise<Raw>,
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
  fault: Parameters<TestSimulator['fault']>[0],
  route: string,
  id: string,
  params: Record<string, string>,
): Promise<Raw> {
  await sim.fault(fault, { times: 1, match: { route, intent: id } });
  return raw(route, params, { key: `${fault}-${id}` });
}

const created = (params: Record<string, string>) => () =>
  raw('payment_intents.create', { ...plain(MANUAL), ...params });
const confirming = (params: Record<string, string>) => async () =>
  raw('payment_intents.confirm', { id: await newIntent(), ...params });
const INVALID = 'invalid_request_error';
const REQUEST = errors.StripeInvalidRequestError;

/** Each error that the simulator can answer with. */
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
  ['too much', created({ amount: '999999999999' }), 400, INVALID, 'amount_too_large', REQUEST],
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
  Parameters<TestSimulator['fault']>[0],
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
  const provoke = async (): Promise<Raw> => {
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
  const states: [Parameters<TestSimulator['fault']>[0], string, string][] = [
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
