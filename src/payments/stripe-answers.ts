import Stripe from 'stripe';
import type {
  DeclineCode,
  DisputeView,
  MadeBy,
  PaymentStatus,
  PaymentView,
  ProviderAnswer,
  RefundView,
  UnknownReason,
} from './provider.ts';

/** How Stripe's objects and errors read in our words. The only place that knows both. */

const STATUS: Record<string, PaymentStatus> = {
  requires_payment_method: 'new',
  requires_confirmation: 'new',
  requires_action: 'waiting',
  processing: 'processing',
  requires_capture: 'authorised',
  succeeded: 'captured',
  canceled: 'cancelled',
};

/** The card's own words are kept where the buyer can act on them; lost, stolen and fraud are plain refusals. */
const DECLINE: Record<string, DeclineCode> = {
  insufficient_funds: 'insufficient_funds',
  expired_card: 'expired_card',
  incorrect_cvc: 'incorrect_cvc',
  invalid_cvc: 'incorrect_cvc',
  processing_error: 'processing_error',
  issuer_not_available: 'processing_error',
  reenter_transaction: 'processing_error',
  try_again_later: 'processing_error',
  authentication_required: 'authentication_failed',
  authentication_failure: 'authentication_failed',
  payment_intent_authentication_failure: 'authentication_failed',
  incorrect_number: 'invalid_instrument',
  invalid_number: 'invalid_instrument',
  invalid_account: 'invalid_instrument',
  invalid_expiry_month: 'invalid_instrument',
  invalid_expiry_year: 'invalid_instrument',
  card_not_supported: 'invalid_instrument',
  currency_not_supported: 'invalid_instrument',
  test_mode_live_card: 'invalid_instrument',
  payment_intent_incompatible_payment_method: 'invalid_instrument',
  payment_method_unactivated: 'invalid_instrument',
  payment_method_unexpected_state: 'invalid_instrument',
  payment_method_unsupported_type: 'invalid_instrument',
  token_already_used: 'invalid_instrument',
};

const INSTRUMENT_PARAMS = ['payment_method', 'confirmation_token', 'payment_method_data'];

/** Null for a status that this version of the API did not have: no verdict may be built on it. */
export function paymentStatus(status: string): PaymentStatus | null {
  return STATUS[status] ?? null;
}

/** Reads the metadata that we put into every payment: always an order, and the installation since objects are marked. */
export function madeBy(metadata: Stripe.Metadata, installation: string | null): MadeBy {
  const mark = metadata.installation;
  if (!mark) return metadata.order ? 'unmarked' : 'others';
  if (installation === null) return 'unmarked';
  return mark === installation ? 'us' : 'others';
}

export function viewOf(intent: Stripe.PaymentIntent, installation: string | null = null): PaymentView | null {
  const status = paymentStatus(intent.status);
  if (status === null) return null;
  const charge = typeof intent.latest_charge === 'object' ? intent.latest_charge : null;
  const redirect = status === 'waiting' ? intent.next_action?.redirect_to_url?.url : null;
  const captureBefore = charge?.payment_method_details?.card?.capture_before;
  const failed = status === 'new' || status === 'cancelled';
  return {
    object: intent.id,
    status,
    amount: intent.amount,
    currency: intent.currency.toUpperCase(),
    reference: intent.metadata.order ?? '',
    madeBy: madeBy(intent.metadata, installation),
    captured: intent.amount_received,
    // A cancelled reservation shows as a refund of a charge that was never captured: no money came, none went back.
    refunded: charge?.captured ? charge.amount_refunded : 0,
    action: redirect ? { url: redirect } : null,
    captureBefore: status === 'authorised' && captureBefore ? captureBefore * 1000 : null,
    instrument: instrumentOf(intent, charge),
    decline: failed && intent.last_payment_error ? declineOf(intent.last_payment_error) : null,
  };
}

/**
 * The instrument of the attempt under way, whose payment method is set. After a decline it is not set, and the error or its
 * charge has it.
 */
function instrumentOf(intent: Stripe.PaymentIntent, charge: Stripe.Charge | null): PaymentView['instrument'] {
  const method = typeof intent.payment_method === 'object' ? intent.payment_method : null;
  const card =
    method?.card ?? intent.last_payment_error?.payment_method?.card ?? charge?.payment_method_details?.card;
  if (!card?.fingerprint) return null;
  return { fingerprint: card.fingerprint, brand: card.brand ?? '', last4: card.last4 ?? '' };
}

export function declineOf(error: {
  code?: string | undefined;
  decline_code?: string | undefined;
  param?: string | undefined;
}): DeclineCode {
  return knownDeclineOf(error) ?? 'declined';
}

function knownDeclineOf(error: Parameters<typeof declineOf>[0]): DeclineCode | undefined {
  const known = DECLINE[error.decline_code ?? ''] ?? DECLINE[error.code ?? ''];
  if (known) return known;
  return INSTRUMENT_PARAMS.includes(error.param?.split('[')[0] ?? '') ? 'invalid_instrument' : undefined;
}

export function refundViewOf(refund: Stripe.Refund): RefundView {
  return {
    refund: refund.id,
    object:
      typeof refund.payment_intent === 'string' ? refund.payment_intent : (refund.payment_intent?.id ?? ''),
    reference: refund.metadata?.refund ?? '',
    amount: refund.amount,
    currency: refund.currency.toUpperCase(),
    status: refundStatus(refund.status),
    reason: refund.failure_reason ?? refund.pending_reason ?? null,
    createdAt: refund.created * 1000,
  };
}

/** Statuses in which the bank has decided, or nothing is left to decide, for us. */
const DISPUTE_WON = ['won', 'warning_closed', 'prevented'];

export function disputeViewOf(dispute: Stripe.Dispute): DisputeView {
  const { payment_intent: intent, evidence_details: evidence } = dispute;
  const fees = dispute.balance_transactions.filter(({ fee }) => fee > 0);
  return {
    dispute: dispute.id,
    object: typeof intent === 'string' ? intent : (intent?.id ?? ''),
    amount: dispute.amount,
    currency: dispute.currency.toUpperCase(),
    status: disputeStatus(dispute.status),
    inquiry: dispute.status.startsWith('warning_') || dispute.is_charge_refundable,
    reason: dispute.reason,
    respondBy: dispute.status.endsWith('needs_response') && evidence.due_by ? evidence.due_by * 1000 : null,
    fee:
      fees.length === 0
        ? null
        : { amount: fees.reduce((sum, { fee }) => sum + fee, 0), currency: fees[0]!.currency.toUpperCase() },
    createdAt: dispute.created * 1000,
  };
}

/** A status that is new to us is open: a person looks. */
function disputeStatus(status: string): DisputeView['status'] {
  if (status === 'lost') return 'lost';
  return DISPUTE_WON.includes(status) ? 'won' : 'open';
}

/** `requires_action` and unknown new statuses wait for an action; only Stripe's documented final statuses are final. */
function refundStatus(status: string | null): RefundView['status'] {
  if (status === 'succeeded') return 'succeeded';
  return status === 'failed' || status === 'canceled' ? 'failed' : 'pending';
}

/** The meaning of an error of the SDK for the call that raised it. */
export type Verdict =
  | { kind: 'unknown'; reason: UnknownReason; detail: string }
  /** The call was not possible in the object's present state: look it up and judge by what it is. */
  | { kind: 'look'; detail: string }
  | { kind: 'refused'; decline: DeclineCode; detail: string; intent: Stripe.PaymentIntent | null };

/** Codes that say "not in this state" rather than "no". */
const STATE_CODES = [
  'payment_intent_unexpected_state',
  'intent_invalid_state',
  'charge_already_captured',
  'charge_expired_for_capture',
  'capture_charge_authorization_expired',
];

/**
 * Final only where Stripe says that it looked at this very call and refused it. Anything that leaves open whether it,
 * or an earlier try under the same key, did its work is unknown.
 */
export function verdictOf(fault: unknown): Verdict {
  if (!(fault instanceof Stripe.errors.StripeError)) {
    // An answer so odd that the SDK or we could not read it: the work may well be done.
    return { kind: 'unknown', reason: 'server_error', detail: `unreadable answer: ${String(fault)}` };
  }
  const detail = detailOf(fault);
  if (fault instanceof Stripe.errors.StripeConnectionError) {
    return { kind: 'unknown', reason: isTimeout(fault) ? 'timeout' : 'connection', detail };
  }
  if (fault instanceof Stripe.errors.StripeRateLimitError || fault.code === 'lock_timeout') {
    return { kind: 'unknown', reason: 'rate_limited', detail };
  }
  if (fault instanceof Stripe.errors.StripeIdempotencyError || fault.statusCode === 409) {
    return { kind: 'unknown', reason: 'conflict', detail };
  }
  if (fault instanceof Stripe.errors.StripeCardError) {
    return { kind: 'refused', decline: declineOf(fault), detail, intent: fault.payment_intent ?? null };
  }
  if (fault instanceof Stripe.errors.StripeInvalidRequestError) {
    if (STATE_CODES.includes(fault.code ?? '')) return { kind: 'look', detail };
    // An instrument that does not exist is refused; an object that does not is no verdict (reads may lag behind).
    const ofInstrument = INSTRUMENT_PARAMS.includes(fault.param ?? '');
    if (fault.statusCode === 404 || (fault.code === 'resource_missing' && !ofInstrument)) {
      return { kind: 'unknown', reason: 'not_found', detail };
    }
    // Not about the card: it was not tried.
    const decline = knownDeclineOf(fault) ?? 'not_tried';
    return { kind: 'refused', decline, detail, intent: fault.payment_intent ?? null };
  }
  // 5xx, a replayed one too; a body that is no JSON; wrong keys, which leave earlier tries unjudged.
  return { kind: 'unknown', reason: 'server_error', detail };
}

function isTimeout(fault: Stripe.errors.StripeError): boolean {
  const cause = fault.detail as unknown as { code?: unknown } | undefined;
  return cause?.code === 'ETIMEDOUT';
}

/** For logs and the operator: codes and ids, never card data. */
function detailOf(fault: Stripe.errors.StripeError): string {
  const facts = [fault.rawType ?? fault.type, fault.code, fault.decline_code, fault.param, fault.requestId];
  return `${facts.filter(Boolean).join(' ')}: ${fault.message}`;
}

export function unknown(reason: UnknownReason, detail: string): ProviderAnswer & { kind: 'unknown' } {
  return { kind: 'unknown', reason, detail };
}
