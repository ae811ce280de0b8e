import assert from 'node:assert/strict';
import type { Stripe } from 'stripe';

/**
 * Stripe's objects as the payment simulator answers them: each field with the kinds of value it may hold, `?` where it
 * may be absent. The compiler holds these lists against the SDK's own types (a field that Stripe has not, a required one
 * that is missing, a kind that the type does not allow: none compiles), and `conforms` holds answers against the lists.
 *
 * `leftOut` names what Stripe's published example objects show beyond that, and why the simulator has it not. Of its
 * example objects, `customer` and `balance_transaction` are left out whole: nothing of ours reads them.
 */
export interface StripeShape {
  fields: Readonly<Record<string, string>>;
  /** Shapes of the nested objects. `free` marks objects whose names Stripe does not prescribe, or that are not read. */
  within: Readonly<Record<string, StripeShape | 'free'>>;
  leftOut: Readonly<Record<string, string>>;
}

type Kind<V> = V extends string
  ? 'string'
  : V extends number
    ? 'integer'
    : V extends boolean
      ? 'boolean'
      : V extends null
        ? 'null'
        : V extends readonly unknown[]
          ? 'array'
          : V extends object
            ? 'object'
            : never;
type Kinds<K extends string> = K | `${K}|${K}` | `${K}|${K}|${K}`;
type Field<V> = undefined extends V ? Kinds<Kind<V>> | `${Kinds<Kind<V>>}?` : Kinds<Kind<V>>;
type Optional<T> = { [K in keyof T]-?: undefined extends T[K] ? K : never }[keyof T];
type Fields<T> = { [K in Exclude<keyof T, Optional<T>>]: Field<T[K]> } & {
  [K in Optional<T>]?: Field<T[K]>;
};
type Within<T> = { [K in keyof T]?: StripeShape | 'free' };
type LeftOut<T> = { [K in Optional<T>]?: string };

function shapeOf<T>() {
  return (fields: Fields<T>, within: Within<T> = {}, leftOut: LeftOut<T> = {}): StripeShape => ({
    fields: fields as Record<string, string>,
    within: within as Record<string, StripeShape | 'free'>,
    leftOut: leftOut as Record<string, string>,
  });
}

const ADDRESS = shapeOf<Stripe.Address>()({
  city: 'null|string',
  country: 'null|string',
  line1: 'null|string',
  line2: 'null|string',
  postal_code: 'null|string',
  state: 'null|string',
});

const BILLING = shapeOf<Stripe.PaymentMethod.BillingDetails>()(
  {
    address: 'object',
    email: 'null|string',
    name: 'null|string',
    phone: 'null|string',
    tax_id: 'null|string',
  },
  { address: ADDRESS },
);

const CHECKS = shapeOf<Stripe.PaymentMethod.Card.Checks>()({
  address_line1_check: 'null|string',
  address_postal_code_check: 'null|string',
  cvc_check: 'null|string',
});

const CARD = shapeOf<Stripe.PaymentMethod.Card>()(
  {
    brand: 'string',
    checks: 'object',
    country: 'null|string',
    display_brand: 'null|string',
    exp_month: 'integer',
    exp_year: 'integer',
    fingerprint: 'string',
    funding: 'string',
    generated_from: 'null',
    last4: 'string',
    networks: 'object',
    regulated_status: 'null|string',
    three_d_secure_usage: 'object',
    wallet: 'null',
  },
  {
    checks: CHECKS,
    networks: shapeOf<Stripe.PaymentMethod.Card.Networks>()({ available: 'array', preferred: 'null|string' }),
    three_d_secure_usage: shapeOf<Stripe.PaymentMethod.Card.ThreeDSecureUsage>()({ supported: 'boolean' }),
  },
);

const PAYMENT_METHOD = shapeOf<Stripe.PaymentMethod>()(
  {
    id: 'string',
    object: 'string',
    allow_redisplay: 'string',
    billing_details: 'object',
    card: 'object',
    created: 'integer',
    customer: 'null',
    customer_account: 'null',
    livemode: 'boolean',
    metadata: 'object',
    type: 'string',
  },
  { billing_details: BILLING, card: CARD, metadata: 'free' },
);

const LAST_ERROR = shapeOf<Stripe.PaymentIntent.LastPaymentError>()(
  {
    charge: 'string?',
    code: 'string',
    decline_code: 'string?',
    doc_url: 'string',
    message: 'string',
    payment_method: 'object',
    type: 'string',
  },
  { payment_method: PAYMENT_METHOD },
);

const NEXT_ACTION = shapeOf<Stripe.PaymentIntent.NextAction>()(
  { redirect_to_url: 'object', type: 'string' },
  {
    redirect_to_url: shapeOf<Stripe.PaymentIntent.NextAction.RedirectToUrl>()({
      return_url: 'null|string',
      url: 'string',
    }),
  },
);

const PAYMENT_INTENT = shapeOf<Stripe.PaymentIntent>()(
  {
    id: 'string',
    object: 'string',
    allowed_payment_method_types: 'array|null',
    amount: 'integer',
    amount_capturable: 'integer',
    amount_details: 'object',
    amount_received: 'integer',
    application: 'null',
    application_fee_amount: 'null',
    automatic_payment_methods: 'null|object',
    canceled_at: 'null|integer',
    cancellation_reason: 'null|string',
    capture_method: 'string',
    client_secret: 'string',
    confirmation_method: 'string',
    created: 'integer',
    currency: 'string',
    customer: 'null',
    customer_account: 'null',
    description: 'null|string',
    excluded_payment_method_types: 'null',
    last_payment_error: 'null|object',
    latest_charge: 'null|string|object',
    livemode: 'boolean',
    managed_payments: 'null',
    metadata: 'object',
    next_action: 'null|object',
    on_behalf_of: 'null',
    payment_method: 'null|string|object',
    payment_method_configuration_details: 'null',
    payment_method_options: 'object',
    payment_method_types: 'array',
    payment_record: 'null',
    processing: 'null',
    receipt_email: 'null|string',
    review: 'null',
    setup_future_usage: 'null',
    shipping: 'null',
    source: 'null',
    statement_descriptor: 'null',
    statement_descriptor_suffix: 'null',
    status: 'string',
    transfer_data: 'null',
    transfer_group: 'null',
  },
  {
    amount_details: shapeOf<Stripe.PaymentIntent.AmountDetails>()({ tip: 'object' }, { tip: 'free' }),
    automatic_payment_methods: shapeOf<Stripe.PaymentIntent.AutomaticPaymentMethods>()({
      allow_redirects: 'string',
      enabled: 'boolean',
    }),
    last_payment_error: LAST_ERROR,
    metadata: 'free',
    next_action: NEXT_ACTION,
    payment_method_options: shapeOf<Stripe.PaymentIntent.PaymentMethodOptions>()(
      { card: 'object' },
      {
        card: shapeOf<Stripe.PaymentIntent.PaymentMethodOptions.Card>()({
          installments: 'null',
          mandate_options: 'null',
          network: 'null',
          request_three_d_secure: 'string',
        }),
      },
    ),
  },
);

const CHARGE_CARD = shapeOf<Stripe.Charge.PaymentMethodDetails.Card>()(
  {
    amount_authorized: 'null|integer',
    authorization_code: 'null',
    brand: 'string',
    capture_before: 'integer?',
    checks: 'object',
    country: 'null|string',
    electronic_commerce_indicator: 'null',
    exp_month: 'integer',
    exp_year: 'integer',
    extended_authorization: 'object',
    fingerprint: 'string',
    funding: 'null|string',
    incremental_authorization: 'object',
    installments: 'null',
    last4: 'string',
    mandate: 'null',
    multicapture: 'object',
    network: 'null|string',
    network_token: 'object',
    network_transaction_id: 'null',
    overcapture: 'object',
    regulated_status: 'null|string',
    three_d_secure: 'null|object',
    transaction_link_id: 'null',
    wallet: 'null',
  },
  {
    checks: CHECKS,
    extended_authorization: shapeOf<Stripe.Charge.PaymentMethodDetails.Card.ExtendedAuthorization>()({
      status: 'string',
    }),
    incremental_authorization: shapeOf<Stripe.Charge.PaymentMethodDetails.Card.IncrementalAuthorization>()({
      status: 'string',
    }),
    multicapture: shapeOf<Stripe.Charge.PaymentMethodDetails.Card.Multicapture>()({ status: 'string' }),
    network_token: shapeOf<Stripe.Charge.PaymentMethodDetails.Card.NetworkToken>()({ used: 'boolean' }),
    overcapture: shapeOf<Stripe.Charge.PaymentMethodDetails.Card.Overcapture>()({
      maximum_amount_capturable: 'integer',
      status: 'string',
    }),
    three_d_secure: shapeOf<Stripe.Charge.PaymentMethodDetails.Card.ThreeDSecure>()({
      authentication_flow: 'null|string',
      electronic_commerce_indicator: 'null|string',
      exemption_indicator: 'null|string',
      result: 'null|string',
      result_reason: 'null|string',
      transaction_id: 'null|string',
      version: 'null|string',
    }),
  },
);

const CHARGE = shapeOf<Stripe.Charge>()(
  {
    id: 'string',
    object: 'string',
    amount: 'integer',
    amount_captured: 'integer',
    amount_refunded: 'integer',
    application: 'null',
    application_fee: 'null',
    application_fee_amount: 'null',
    balance_transaction: 'null|string',
    billing_details: 'object',
    calculated_statement_descriptor: 'null',
    captured: 'boolean',
    created: 'integer',
    currency: 'string',
    customer: 'null',
    description: 'null|string',
    disputed: 'boolean',
    failure_balance_transaction: 'null',
    failure_code: 'null|string',
    failure_message: 'null|string',
    fraud_details: 'object',
    livemode: 'boolean',
    metadata: 'object',
    on_behalf_of: 'null',
    outcome: 'object',
    paid: 'boolean',
    payment_intent: 'string|object',
    payment_method: 'string',
    payment_method_details: 'object',
    receipt_email: 'null|string',
    receipt_number: 'null',
    receipt_url: 'null',
    refunded: 'boolean',
    review: 'null',
    shipping: 'null',
    source: 'null',
    source_transfer: 'null',
    statement_descriptor: 'null',
    statement_descriptor_suffix: 'null',
    status: 'string',
    transfer_data: 'null',
    transfer_group: 'null',
  },
  {
    billing_details: BILLING,
    fraud_details: 'free',
    metadata: 'free',
    outcome: shapeOf<Stripe.Charge.Outcome>()({
      advice_code: 'null',
      network_advice_code: 'null',
      network_decline_code: 'null',
      network_status: 'string',
      reason: 'null|string',
      risk_level: 'string',
      seller_message: 'string',
      type: 'string',
    }),
    payment_method_details: shapeOf<Stripe.Charge.PaymentMethodDetails>()(
      { card: 'object', type: 'string' },
      { card: CHARGE_CARD },
    ),
  },
  { refunds: 'only where it is expanded, and refunds have a list of their own' },
);

const REFUND = shapeOf<Stripe.Refund>()(
  {
    id: 'string',
    object: 'string',
    amount: 'integer',
    balance_transaction: 'string',
    charge: 'string|object',
    created: 'integer',
    currency: 'string',
    customer: 'null',
    customer_account: 'null',
    destination_details: 'object',
    failure_reason: 'string?',
    metadata: 'object',
    payment_intent: 'string|object',
    payment_method: 'null',
    pending_reason: 'string?',
    reason: 'null|string',
    receipt_number: 'null',
    source_transfer_reversal: 'null',
    status: 'string',
    transfer_reversal: 'null',
  },
  {
    destination_details: shapeOf<Stripe.Refund.DestinationDetails>()(
      { card: 'object', type: 'string' },
      { card: shapeOf<Stripe.Refund.DestinationDetails.Card>()({ type: 'string' }) },
    ),
    metadata: 'free',
  },
);

const DISPUTE = shapeOf<Stripe.Dispute>()(
  {
    id: 'string',
    object: 'string',
    amount: 'integer',
    balance_transactions: 'array',
    charge: 'string',
    created: 'integer',
    currency: 'string',
    enhanced_eligibility_types: 'array',
    evidence: 'object',
    evidence_details: 'object',
    intended_submission_method: 'null',
    is_charge_refundable: 'boolean',
    livemode: 'boolean',
    metadata: 'object',
    network_reason_code: 'string',
    payment_intent: 'string',
    payment_method_details: 'object',
    reason: 'string',
    status: 'string',
  },
  {
    balance_transactions: 'free',
    enhanced_eligibility_types: 'free',
    evidence: 'free',
    evidence_details: 'free',
    metadata: 'free',
    payment_method_details: 'free',
  },
);

const CONFIRMATION_TOKEN = shapeOf<Stripe.ConfirmationToken>()(
  {
    id: 'string',
    object: 'string',
    created: 'integer',
    expires_at: 'integer',
    livemode: 'boolean',
    mandate_data: 'null',
    metadata: 'null',
    payment_intent: 'null|string',
    payment_method_options: 'null',
    payment_method_preview: 'object',
    return_url: 'null|string',
    setup_future_usage: 'null',
    setup_intent: 'null',
    shipping: 'null',
    use_stripe_sdk: 'boolean',
  },
  {
    payment_method_preview: shapeOf<Stripe.ConfirmationToken.PaymentMethodPreview>()(
      {
        allow_redisplay: 'string',
        billing_details: 'object',
        card: 'object',
        customer: 'null',
        customer_account: 'null',
        type: 'string',
      },
      { billing_details: BILLING, card: CARD },
      { us_bank_account: 'the simulator takes cards only' },
    ),
  },
);

/** `data.object` is one of the other objects, which is checked by its own name. */
const EVENT = shapeOf<Stripe.EventBase>()(
  {
    id: 'string',
    object: 'string',
    api_version: 'string',
    created: 'integer',
    data: 'object',
    livemode: 'boolean',
    pending_webhooks: 'integer',
    request: 'object',
    type: 'string',
  },
  {
    data: shapeOf<Pick<Stripe.Event.Data, 'object'>>()({ object: 'object' }),
    request: shapeOf<Stripe.Event.Request>()({ id: 'null|string', idempotency_key: 'null|string' }),
  },
);

const BALANCE = shapeOf<Stripe.Balance>()(
  { object: 'string', available: 'array', livemode: 'boolean', pending: 'array' },
  {
    available: shapeOf<Stripe.Balance.Available>()(
      { amount: 'integer', currency: 'string', source_types: 'object' },
      { source_types: shapeOf<Stripe.Balance.Available.SourceTypes>()({ card: 'integer' }) },
    ),
  },
);

const LIST = shapeOf<Stripe.ApiList<unknown>>()({
  object: 'string',
  data: 'array',
  has_more: 'boolean',
  url: 'string',
});

/** Shapes by the value of `object`. */
export const STRIPE_OBJECTS: Readonly<Record<string, StripeShape>> = {
  balance: BALANCE,
  charge: CHARGE,
  confirmation_token: CONFIRMATION_TOKEN,
  dispute: DISPUTE,
  event: EVENT,
  list: LIST,
  payment_intent: PAYMENT_INTENT,
  payment_method: PAYMENT_METHOD,
  refund: REFUND,
};

/** The fields of an error that the SDK reads. Links into Stripe's dashboard and codes of card networks are left out. */
export const STRIPE_ERROR = shapeOf<ErrorRead>()(
  {
    type: 'string',
    message: 'string',
    charge: 'string?',
    code: 'string?',
    decline_code: 'string?',
    param: 'string?',
    payment_intent: 'object?',
    payment_method: 'object?',
  },
  {},
  { doc_url: 'a link into Stripe’s documentation', request_log_url: 'a link into Stripe’s dashboard' },
);

type ErrorRead = { type: string; message: string } & Pick<
  InstanceType<typeof Stripe.errors.StripeError>,
  | 'charge'
  | 'code'
  | 'decline_code'
  | 'doc_url'
  | 'param'
  | 'payment_intent'
  | 'payment_method'
  | 'request_log_url'
>;

/** Fails where an answer's object, whole and down to its last field, is not as listed. */
export function conforms(value: unknown, where: string): void {
  const name = (value as { object?: unknown } | null)?.object;
  const shape = typeof name === 'string' ? STRIPE_OBJECTS[name] : undefined;
  assert.ok(shape, `${where}: no object that Stripe has: ${JSON.stringify(value)}`);
  conformsTo(value, shape, where);
}

export function conformsTo(value: unknown, shape: StripeShape, where: string): void {
  const object = value as Record<string, unknown>;
  for (const [name, kinds] of Object.entries(shape.fields)) {
    if (name in object) {
      const kind = kindOf(object[name]);
      assert.ok(
        kinds.replace('?', '').split('|').includes(kind),
        `${where}.${name} is ${kind}, not ${kinds}`,
      );
    } else assert.ok(kinds.endsWith('?'), `${where}.${name} is missing`);
  }
  for (const [name, found] of Object.entries(object)) {
    assert.ok(name in shape.fields, `${where}.${name} is not listed`);
    conformsWithin(found, shape.within[name], `${where}.${name}`);
  }
}

function conformsWithin(value: unknown, shape: StripeShape | 'free' | undefined, where: string): void {
  if (typeof value !== 'object' || value === null || shape === 'free') return;
  if (Array.isArray(value)) {
    for (const [at, item] of value.entries()) conformsWithin(item, shape, `${where}[${at}]`);
    return;
  }
  if (shape && !('object' in value && 'id' in value)) conformsTo(value, shape, where);
  else conforms(value, where);
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  return typeof value;
}
