import { createHash } from 'node:crypto';
import type { Stripe } from 'stripe';
import { cardByName, type TestCard } from './cards.ts';
import type { ChargeRow, DisputeRow, EventRow, IntentRow, MethodRow, RefundRow, TokenRow } from './rows.ts';
import type { State } from './state.ts';

/** Rows as Stripe's objects. The SDK's own types say which fields there are, so a missing one does not compile. */

export const API_VERSION = '2026-10-28.endive';

/** Paths named by `expand[]`, such as `latest_charge`. */
export type Expand = readonly string[];

export function card(name: string): TestCard {
  const found = cardByName(name);
  if (!found) throw new Error(`no test card ${name}`);
  return found;
}

/** The same for each use of a card, as Stripe's is within one account; variants are cards of their own. */
export function fingerprint(test: TestCard): string {
  return createHash('sha256')
    .update(`card:${test.number}${test.variant === undefined ? '' : `:${test.variant}`}`)
    .digest('hex')
    .slice(0, 16);
}

function row<R>(rows: Map<string, R>, id: string): R {
  const found = rows.get(id);
  if (!found) throw new Error(`the ledger refers to ${id}, which it does not hold`);
  return found;
}

function below(expand: Expand, field: string): Expand {
  return expand.filter((path) => path.startsWith(`${field}.`)).map((path) => path.slice(field.length + 1));
}

export function intentObject(state: State, intent: IntentRow, expand: Expand = []): Stripe.PaymentIntent {
  return {
    id: intent.id,
    object: 'payment_intent',
    allowed_payment_method_types: intent.allowedTypes,
    amount: intent.amount,
    amount_capturable: intent.status === 'requires_capture' ? intent.amount : 0,
    amount_details: { tip: {} },
    amount_received: intent.captured,
    application: null,
    application_fee_amount: null,
    automatic_payment_methods: intent.allowedTypes ? null : { allow_redirects: 'always', enabled: true },
    canceled_at: intent.canceledAt,
    cancellation_reason: intent.cancellationReason,
    capture_method: intent.captureMethod,
    client_secret: intent.clientSecret,
    confirmation_method: 'automatic',
    created: intent.created,
    currency: intent.currency,
    customer: null,
    customer_account: null,
    description: intent.description,
    excluded_payment_method_types: null,
    last_payment_error: lastError(state, intent),
    latest_charge:
      intent.latestCharge && expand.some((path) => path.split('.')[0] === 'latest_charge')
        ? chargeObject(state, row(state.tables.charges, intent.latestCharge), below(expand, 'latest_charge'))
        : intent.latestCharge,
    livemode: false,
    managed_payments: null,
    metadata: intent.metadata,
    next_action: intent.actionUrl
      ? {
          redirect_to_url: { return_url: intent.returnUrl, url: intent.actionUrl },
          type: 'redirect_to_url',
        }
      : null,
    on_behalf_of: null,
    payment_method:
      intent.method && expand.includes('payment_method')
        ? methodObject(row(state.tables.methods, intent.method))
        : intent.method,
    payment_method_configuration_details: null,
    payment_method_options: { card: cardOptions() },
    payment_method_types: intent.allowedTypes ?? ['card'],
    payment_record: null,
    processing: null,
    receipt_email: intent.receiptEmail,
    review: null,
    setup_future_usage: null,
    shipping: null,
    source: null,
    statement_descriptor: null,
    statement_descriptor_suffix: null,
    status: intent.status,
    transfer_data: null,
    transfer_group: null,
  };
}

function cardOptions(): Stripe.PaymentIntent.PaymentMethodOptions.Card {
  return { installments: null, mandate_options: null, network: null, request_three_d_secure: 'automatic' };
}

function lastError(state: State, intent: IntentRow): Stripe.PaymentIntent.LastPaymentError | null {
  const error = intent.lastError;
  if (!error) return null;
  return {
    type: error.type,
    code: error.code,
    message: error.message,
    doc_url: `https://docs.stripe.com/error-codes/${error.code.replaceAll('_', '-')}`,
    payment_method: methodObject(row(state.tables.methods, error.method)),
    ...(error.declineCode && { decline_code: error.declineCode }),
    ...(error.charge && { charge: error.charge }),
  };
}

export function methodObject(method: MethodRow): Stripe.PaymentMethod {
  return {
    id: method.id,
    object: 'payment_method',
    allow_redisplay: 'unspecified',
    billing_details: billing(method),
    card: methodCard(method),
    created: method.created,
    customer: null,
    customer_account: null,
    livemode: false,
    metadata: {},
    type: 'card',
  };
}

function billing(method: MethodRow): Stripe.PaymentMethod.BillingDetails {
  return {
    address: { city: null, country: null, line1: null, line2: null, postal_code: null, state: null },
    email: method.email,
    name: method.name,
    phone: null,
    tax_id: null,
  };
}

function methodCard(method: MethodRow): Stripe.PaymentMethod.Card {
  const test = card(method.card);
  return {
    brand: test.brand,
    checks: { address_line1_check: null, address_postal_code_check: null, cvc_check: 'unchecked' },
    country: 'US',
    display_brand: test.brand,
    exp_month: method.expMonth,
    exp_year: method.expYear,
    fingerprint: fingerprint(test),
    funding: 'credit',
    generated_from: null,
    last4: test.number.slice(-4),
    networks: { available: [test.brand], preferred: null },
    regulated_status: 'unregulated',
    three_d_secure_usage: { supported: true },
    wallet: null,
  };
}

export function chargeObject(state: State, charge: ChargeRow, expand: Expand = []): Stripe.Charge {
  const method = row(state.tables.methods, charge.method);
  return {
    id: charge.id,
    object: 'charge',
    amount: charge.amount,
    amount_captured: charge.amountCaptured,
    amount_refunded: charge.amountRefunded,
    application: null,
    application_fee: null,
    application_fee_amount: null,
    balance_transaction: charge.captured ? charge.id.replace(/^ch_/, 'txn_') : null,
    billing_details: billing(method),
    calculated_statement_descriptor: null,
    captured: charge.captured,
    created: charge.created,
    currency: charge.currency,
    customer: null,
    description: charge.description,
    disputed: charge.disputed ?? false,
    failure_balance_transaction: null,
    failure_code: charge.decline?.code ?? null,
    failure_message: charge.decline?.message ?? null,
    fraud_details: {},
    livemode: false,
    metadata: charge.metadata,
    on_behalf_of: null,
    outcome: outcome(charge),
    paid: charge.status === 'succeeded',
    payment_intent: expand.includes('payment_intent')
      ? intentObject(state, row(state.tables.intents, charge.intent))
      : charge.intent,
    payment_method: charge.method,
    payment_method_details: { card: chargeCard(charge, method), type: 'card' },
    receipt_email: charge.receiptEmail,
    receipt_number: null,
    receipt_url: null,
    refunded: charge.captured && charge.amountRefunded === charge.amountCaptured,
    review: null,
    shipping: null,
    source: null,
    source_transfer: null,
    statement_descriptor: null,
    statement_descriptor_suffix: null,
    status: charge.status,
    transfer_data: null,
    transfer_group: null,
  };
}

function outcome(charge: ChargeRow): Stripe.Charge.Outcome {
  const declined = charge.decline;
  return {
    advice_code: null,
    network_advice_code: null,
    network_decline_code: null,
    network_status: declined ? 'declined_by_network' : 'approved_by_network',
    reason: declined ? (declined.declineCode ?? declined.code) : null,
    risk_level: 'normal',
    seller_message: declined ? 'The bank returned a decline.' : 'Payment complete.',
    type: declined ? 'issuer_declined' : 'authorized',
  };
}

function chargeCard(charge: ChargeRow, method: MethodRow): Stripe.Charge.PaymentMethodDetails.Card {
  const test = card(method.card);
  return {
    amount_authorized: charge.decline ? null : charge.amount,
    authorization_code: null,
    brand: test.brand,
    ...(charge.captureBefore !== null && { capture_before: charge.captureBefore }),
    checks: { address_line1_check: null, address_postal_code_check: null, cvc_check: 'pass' },
    country: 'US',
    electronic_commerce_indicator: null,
    exp_month: method.expMonth,
    exp_year: method.expYear,
    extended_authorization: { status: 'disabled' },
    fingerprint: fingerprint(test),
    funding: 'credit',
    incremental_authorization: { status: 'unavailable' },
    installments: null,
    last4: test.number.slice(-4),
    mandate: null,
    multicapture: { status: 'unavailable' },
    network: test.brand,
    network_token: { used: false },
    network_transaction_id: null,
    overcapture: { maximum_amount_capturable: charge.amount, status: 'unavailable' },
    regulated_status: 'unregulated',
    three_d_secure: charge.authenticated ? authenticated() : null,
    transaction_link_id: null,
    wallet: null,
  };
}

function authenticated(): Stripe.Charge.PaymentMethodDetails.Card.ThreeDSecure {
  return {
    authentication_flow: 'challenge',
    electronic_commerce_indicator: '05',
    exemption_indicator: null,
    result: 'authenticated',
    result_reason: null,
    transaction_id: null,
    version: '2.2.0',
  };
}

export function refundObject(state: State, refund: RefundRow, expand: Expand = []): Stripe.Refund {
  return {
    id: refund.id,
    object: 'refund',
    amount: refund.amount,
    balance_transaction: refund.id.replace(/^re_/, 'txn_'),
    charge: expand.includes('charge')
      ? chargeObject(state, row(state.tables.charges, refund.charge))
      : refund.charge,
    created: refund.created,
    currency: refund.currency,
    customer: null,
    customer_account: null,
    destination_details: { card: { type: 'refund' }, type: 'card' },
    ...(refund.failureReason && { failure_reason: refund.failureReason }),
    metadata: refund.metadata,
    payment_intent: expand.includes('payment_intent')
      ? intentObject(state, row(state.tables.intents, refund.intent))
      : refund.intent,
    payment_method: null,
    ...(refund.pendingReason && { pending_reason: refund.pendingReason }),
    reason: refund.reason,
    receipt_number: null,
    source_transfer_reversal: null,
    status: refund.status,
    transfer_reversal: null,
  };
}

export function disputeObject(state: State, dispute: DisputeRow): Stripe.Dispute {
  const method = row(state.tables.methods, row(state.tables.charges, dispute.charge).method);
  const { withdrawn, fee, reinstated } = dispute;
  return {
    id: dispute.id,
    object: 'dispute',
    amount: dispute.amount,
    balance_transactions: [
      ...(withdrawn > 0 ? [disputeTransaction(dispute, -withdrawn, fee, 'adjustment')] : []),
      ...(reinstated ? [disputeTransaction(dispute, withdrawn, 0, 'adjustment_reversal')] : []),
    ],
    charge: dispute.charge,
    created: dispute.created,
    currency: dispute.currency,
    enhanced_eligibility_types: [],
    evidence: NO_EVIDENCE,
    evidence_details: {
      due_by: dispute.respondBy,
      enhanced_eligibility: {},
      has_evidence: false,
      past_due: false,
      submission_count: 0,
      submission_method: 'not_submitted',
    },
    intended_submission_method: null,
    is_charge_refundable: dispute.status.startsWith('warning_'),
    livemode: false,
    metadata: {},
    network_reason_code: '10.4',
    payment_intent: dispute.intent,
    payment_method_details: {
      card: {
        brand: card(method.card).brand,
        case_type: dispute.status.startsWith('warning_') ? 'inquiry' : 'chargeback',
        network: card(method.card).brand,
        network_reason_code: '10.4',
      },
      type: 'card',
    },
    reason: dispute.reason,
    status: dispute.status,
  };
}

const NO_EVIDENCE: Stripe.Dispute.Evidence = {
  access_activity_log: null,
  billing_address: null,
  cancellation_policy: null,
  cancellation_policy_disclosure: null,
  cancellation_rebuttal: null,
  customer_communication: null,
  customer_email_address: null,
  customer_name: null,
  customer_purchase_ip: null,
  customer_signature: null,
  duplicate_charge_documentation: null,
  duplicate_charge_explanation: null,
  duplicate_charge_id: null,
  product_description: null,
  receipt: null,
  refund_policy: null,
  refund_policy_disclosure: null,
  refund_refusal_explanation: null,
  service_date: null,
  service_documentation: null,
  shipping_address: null,
  shipping_carrier: null,
  shipping_date: null,
  shipping_documentation: null,
  shipping_tracking_number: null,
  uncategorized_file: null,
  uncategorized_text: null,
  enhanced_evidence: {},
};

function disputeTransaction(
  dispute: DisputeRow,
  amount: number,
  fee: number,
  name: string,
): Stripe.BalanceTransaction {
  return {
    id: `${dispute.id.replace(/^du_/, 'txn_')}_${name}`,
    object: 'balance_transaction',
    amount,
    available_on: dispute.created,
    balance_type: 'payments',
    created: dispute.created,
    currency: dispute.currency,
    description: `Chargeback ${amount < 0 ? 'withdrawal' : 'reversal'} for ${dispute.charge}`,
    exchange_rate: null,
    fee,
    fee_details:
      fee > 0
        ? [
            {
              amount: fee,
              application: null,
              currency: dispute.currency,
              description: 'Dispute fee',
              type: 'stripe_fee',
            },
          ]
        : [],
    net: amount - fee,
    reporting_category: amount < 0 ? 'dispute' : 'dispute_reversal',
    source: dispute.id,
    status: 'available',
    type: 'adjustment',
  };
}

export function tokenObject(state: State, token: TokenRow): Stripe.ConfirmationToken {
  const method = row(state.tables.methods, token.method);
  return {
    id: token.id,
    object: 'confirmation_token',
    created: token.created,
    expires_at: token.expiresAt,
    livemode: false,
    mandate_data: null,
    metadata: null,
    payment_intent: token.usedBy,
    payment_method_options: null,
    payment_method_preview: {
      allow_redisplay: 'unspecified',
      billing_details: billing(method),
      card: methodCard(method),
      customer: null,
      customer_account: null,
      type: 'card',
    },
    return_url: token.returnUrl,
    setup_future_usage: null,
    setup_intent: null,
    shipping: null,
    use_stripe_sdk: false,
  };
}

/** `data.object` is a snapshot, as Stripe's: deliveries that come late still tell the old state. */
export function eventObject(event: EventRow): Record<string, unknown> {
  return {
    id: event.id,
    object: 'event',
    api_version: API_VERSION,
    created: event.created,
    data: { object: event.object },
    livemode: false,
    pending_webhooks: event.delivered ? 0 : 1,
    request: { id: event.requestId, idempotency_key: event.key },
    type: event.type,
  };
}
