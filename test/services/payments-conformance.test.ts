import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Stripe from 'stripe';
import { ROUTES } from '../../payment-simulator/routes.ts';
import { openPayment, startTestSimulator, type TestSimulator } from '../support/simulator.ts';
import { cardParams, hasHeaders, plain, rawCall } from '../support/stripe-calls.ts';
import { conforms, STRIPE_OBJECTS } from '../support/stripe-objects.ts';

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
  [
    'payment_intents.create',
    {
      ...{ amount: '5000', currency: 'eur', confirm: 'true', payment_method: 'pm_card_createDispute' },
      'allowed_payment_method_types[]': 'card',
    },
    'payment_intent',
  ],
  ['disputes.list', { payment_intent: '{payment_intents.create}', 'created[gte]': '1' }, 'list'],
  ['disputes.retrieve', { id: '{dispute}' }, 'dispute'],
  ['disputes.close', { id: '{dispute}' }, 'dispute'],
  ['events.list', { limit: '100' }, 'list'],
  ['events.retrieve', { id: '{event}' }, 'event'],
  ['balance.retrieve', {}, 'balance'],
  ['payment_intents.create', { ...plain(MANUAL), capture_method: 'automatic' }, 'payment_intent'],
  [
    'payment_intents.update',
    { id: '{payment_intents.create}', 'metadata[order]': 'another' },
    'payment_intent',
  ],
  [
    'payment_intents.cancel',
    { id: '{payment_intents.create}', cancellation_reason: 'abandoned' },
    'payment_intent',
  ],
];

test('each route returns Stripe’s object and headers, and nothing else', async () => {
  const ids = new Map<string, string>();
  for (const [route, params, object] of CALLS) {
    const known = Object.entries(params).map(([name, value]) => [
      name,
      value.replace(/^\{(.*)\}$/, (_, of: string) => ids.get(of) ?? assert.fail(`no id of ${of}`)),
    ]);
    const answer = await rawCall(sim, route, Object.fromEntries(known));
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
    const first = (answer.body.data as { id: string }[] | undefined)?.[0]?.id;
    if (first && route === 'events.list') ids.set('event', first);
    if (first && route === 'disputes.list') ids.set('dispute', first);
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
