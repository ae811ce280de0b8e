import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Stripe from 'stripe';
import { openPayment, startTestSimulator, type TestSimulator } from '../support/simulator.ts';

/**
 * The fields that Stripe's objects have in the API version that the SDK is pinned to, by the SDK's own types: `?` may
 * be absent, `|` lists what else may stand there. A field of ours that is not listed is an invention.
 */
const FIELDS: Record<string, Record<string, string>> = {
  payment_intent: {
    id: 'string',
    object: 'string',
    allowed_payment_method_types: 'array|null',
    amount: 'integer',
    amount_capturable: 'integer',
    amount_details: 'object?',
    amount_received: 'integer',
    application: 'null|string',
    application_fee_amount: 'null|integer',
    automatic_payment_methods: 'null|object',
    canceled_at: 'null|integer',
    cancellation_reason: 'null|string',
    capture_method: 'string',
    client_secret: 'string',
    confirmation_method: 'string',
    created: 'integer',
    currency: 'string',
    customer: 'null|string',
    customer_account: 'null|string',
    description: 'null|string',
    excluded_payment_method_types: 'array|null',
    last_payment_error: 'null|object',
    latest_charge: 'null|string|object',
    livemode: 'boolean',
    managed_payments: 'null|object',
    metadata: 'object',
    next_action: 'null|object',
    on_behalf_of: 'null|string',
    payment_method: 'null|string|object',
    payment_method_configuration_details: 'null|object',
    payment_method_options: 'null|object',
    payment_method_types: 'array',
    payment_record: 'null|string',
    processing: 'null|object',
    receipt_email: 'null|string',
    review: 'null|string',
    setup_future_usage: 'null|string',
    shipping: 'null|object',
    source: 'null|string',
    statement_descriptor: 'null|string',
    statement_descriptor_suffix: 'null|string',
    status: 'string',
    transfer_data: 'null|object?',
    transfer_group: 'null|string',
  },
  charge: {
    id: 'string',
    object: 'string',
    amount: 'integer',
    amount_captured: 'integer',
    amount_refunded: 'integer',
    application: 'null|string',
    application_fee: 'null|string',
    application_fee_amount: 'null|integer',
    balance_transaction: 'null|string',
    billing_details: 'object',
    calculated_statement_descriptor: 'null|string',
    captured: 'boolean',
    created: 'integer',
    currency: 'string',
    customer: 'null|string',
    description: 'null|string',
    disputed: 'boolean',
    failure_balance_transaction: 'null|string',
    failure_code: 'null|string',
    failure_message: 'null|string',
    fraud_details: 'null|object',
    livemode: 'boolean',
    metadata: 'object',
    on_behalf_of: 'null|string',
    outcome: 'null|object',
    paid: 'boolean',
    payment_intent: 'string|object',
    payment_method: 'string',
    payment_method_details: 'object',
    receipt_email: 'null|string',
    receipt_number: 'null|string',
    receipt_url: 'null|string',
    refunded: 'boolean',
    review: 'null|string',
    shipping: 'null|object',
    source: 'null|object',
    source_transfer: 'null|string',
    statement_descriptor: 'null|string',
    statement_descriptor_suffix: 'null|string',
    status: 'string',
    transfer_data: 'null|object',
    transfer_group: 'null|string',
  },
  refund: {
    id: 'string',
    object: 'string',
    amount: 'integer',
    balance_transaction: 'null|string',
    charge: 'string|object',
    created: 'integer',
    currency: 'string',
    customer: 'null|string',
    customer_account: 'null|string',
    destination_details: 'object?',
    failure_reason: 'string?',
    metadata: 'object',
    payment_intent: 'string|object',
    payment_method: 'null|string',
    pending_reason: 'string?',
    reason: 'null|string',
    receipt_number: 'null|string',
    source_transfer_reversal: 'null|string',
    status: 'string',
    transfer_reversal: 'null|string',
  },
  payment_method: {
    id: 'string',
    object: 'string',
    allow_redisplay: 'string?',
    billing_details: 'object',
    card: 'object',
    created: 'integer',
    customer: 'null|string',
    customer_account: 'null|string',
    livemode: 'boolean',
    metadata: 'object',
    type: 'string',
  },
  confirmation_token: {
    id: 'string',
    object: 'string',
    created: 'integer',
    expires_at: 'integer',
    livemode: 'boolean',
    mandate_data: 'null|object?',
    metadata: 'null|object',
    payment_intent: 'null|string',
    payment_method_options: 'null|object',
    payment_method_preview: 'object',
    return_url: 'null|string',
    setup_future_usage: 'null|string',
    setup_intent: 'null|string',
    shipping: 'null|object',
    use_stripe_sdk: 'boolean',
  },
  event: {
    id: 'string',
    object: 'string',
    api_version: 'string',
    created: 'integer',
    data: 'object',
    livemode: 'boolean',
    pending_webhooks: 'integer',
    request: 'null|object',
    type: 'string',
  },
  balance: { object: 'string', available: 'array', livemode: 'boolean', pending: 'array' },
};

/** Of nested objects, those that the adapter reads. */
const CARD_FIELDS = {
  brand: 'string',
  last4: 'string',
  fingerprint: 'string',
  exp_month: 'integer',
  exp_year: 'integer',
};

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  return typeof value;
}

function conforms(value: unknown, fields: Record<string, string>, where: string): void {
  const object = JSON.parse(JSON.stringify(value)) as Record<string, unknown>;
  for (const [name, kinds] of Object.entries(fields)) {
    if (!(name in object)) {
      assert.ok(kinds.endsWith('?'), `${where}.${name} is missing`);
      continue;
    }
    const kind = kindOf(object[name]);
    assert.ok(kinds.replace('?', '').split('|').includes(kind), `${where}.${name} is ${kind}, not ${kinds}`);
  }
}

function conformsWhole(value: { object: string }, where: string): void {
  const fields = FIELDS[value.object];
  assert.ok(fields, `${where}: unexpected object ${value.object}`);
  conforms(value, fields, where);
  const invented = Object.keys(value).filter((name) => !(name in fields));
  assert.deepEqual(invented, [], `${where} has fields that Stripe has not`);
}

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
  conformsWhole(made, 'created');
  const asked = await stripe.paymentIntents.confirm(made.id, {
    payment_method: 'pm_card_threeDSecure2Required',
    return_url: 'http://shop.test/',
  });
  conformsWhole(asked, 'requires_action');
  conforms(asked.next_action, { type: 'string', redirect_to_url: 'object' }, 'next_action');
  conforms(asked.next_action?.redirect_to_url, { url: 'string', return_url: 'string' }, 'redirect_to_url');
  const held = await stripe.paymentIntents.confirm(made.id, { payment_method: 'pm_card_visa', ...EXPAND });
  conformsWhole(held, 'requires_capture');
  assert.equal(held.amount_capturable, 5000);
  conformsWhole(held.latest_charge as Stripe.Charge, 'requires_capture.latest_charge');
  conformsWhole(held.payment_method as Stripe.PaymentMethod, 'requires_capture.payment_method');
  const taken = await stripe.paymentIntents.capture(made.id);
  conformsWhole(taken, 'succeeded');
  assert.deepEqual([taken.amount_capturable, taken.amount_received], [0, 5000]);
  const other = await stripe.paymentIntents.create({
    ...MANUAL,
    automatic_payment_methods: { enabled: true },
  });
  conformsWhole(
    await stripe.paymentIntents.cancel(other.id, { cancellation_reason: 'abandoned' }),
    'canceled',
  );
  conformsWhole(await stripe.paymentIntents.retrieve(made.id), 'retrieved');
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
  conformsWhole(fault.payment_intent!, 'error.payment_intent');
  const last = fault.payment_intent?.last_payment_error;
  conforms(
    last,
    {
      code: 'string',
      decline_code: 'string',
      message: 'string',
      type: 'string',
      payment_method: 'object',
      doc_url: 'string',
    },
    'last_payment_error',
  );
  conformsWhole(last!.payment_method!, 'last_payment_error.payment_method');
  const charge = await stripe.charges.retrieve(String(fault.charge));
  conformsWhole(charge, 'failed charge');
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
  conformsWhole(fault.payment_intent!, 'error.payment_intent');
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
  conforms(charge.payment_method_details?.card, { ...CARD_FIELDS, capture_before: 'integer' }, 'charge.card');
  await stripe.paymentIntents.capture(made.id);
  conformsWhole(await stripe.charges.retrieve(charge.id), 'captured charge');

  const refund = await stripe.refunds.create({
    payment_intent: made.id,
    amount: 100,
    metadata: { refund: 'r1' },
  });
  conformsWhole(refund, 'refund');
  assert.deepEqual([refund.status, refund.pending_reason], ['pending', 'processing']);
  conformsWhole(await stripe.refunds.retrieve(refund.id), 'retrieved refund');
  assert.deepEqual(
    (await stripe.refunds.list({ payment_intent: made.id })).data.map(({ id }) => id),
    [refund.id],
  );

  const method = held.payment_method as Stripe.PaymentMethod;
  conforms(method.card, { ...CARD_FIELDS, funding: 'string', country: 'string' }, 'payment_method.card');
  conformsWhole(await stripe.paymentMethods.retrieve(method.id), 'payment method');
  const token = await stripe.confirmationTokens.retrieve(await sim.confirmationToken('4242424242424242'));
  conformsWhole(token, 'token');
  conforms(token.payment_method_preview?.card, CARD_FIELDS, 'token.card');
  conformsWhole(
    await stripe.testHelpers.confirmationTokens.create({ payment_method: 'pm_card_visa' }),
    'test token',
  );
  conformsWhole(await stripe.balance.retrieve(), 'balance');
  assert.equal((await available()) - before, 4900);
});

test('events are snapshots of Stripe’s objects', async () => {
  const { data } = await stripe.events.list({ limit: 100 });
  assert.ok(data.length > 10);
  for (const event of data) {
    conformsWhole(event, event.type);
    conformsWhole(event.data.object as unknown as { object: string }, `${event.type}.data.object`);
  }
  conformsWhole(await stripe.events.retrieve(data[0]!.id), 'retrieved event');
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
