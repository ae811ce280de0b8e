import { ApiError, invalid, missing } from './api-error.ts';
import { type Bank, change, chargeOf, find, methodOf } from './bank.ts';
import type { RefundManner } from './cards.ts';
import { type FormTree, subtree, text, texts } from './form.ts';
import { card, chargeObject, refundObject } from './render.ts';
import type { ChargeRow, RefundRow } from './rows.ts';

const REASONS = ['duplicate', 'fraudulent', 'requested_by_customer'];

export function createRefund(bank: Bank, params: FormTree): RefundRow {
  const charge = chargeToRefund(bank, params);
  const amount = refundAmount(bank, charge, params);
  const reason = text(params, 'reason') ?? null;
  if (reason !== null && !REASONS.includes(reason)) {
    throw invalid(`Invalid reason: must be one of ${REASONS.join(', ')}`, 'reason');
  }
  const scripted = bank.manner();
  if (scripted.refund === 'balance_insufficient') {
    throw refused('Insufficient funds in your Stripe balance to refund this amount.', 'balance_insufficient');
  }
  const manner = scripted.refund ?? card(methodOf(bank, charge.method).card).bank.refund ?? 'at_once';
  const { starts, pendingReason } = COURSES[manner];
  const refund: RefundRow = {
    id: bank.id('re'),
    created: bank.now(),
    charge: charge.id,
    intent: charge.intent,
    amount,
    currency: charge.currency,
    status: starts,
    reason,
    failureReason: starts === 'failed' ? COURSES[manner].failureReason : null,
    pendingReason,
    metadata: texts(subtree(params, 'metadata')),
    manner,
    ...(scripted.settleMs && { settleAt: bank.now() + Math.ceil(scripted.settleMs / 1000) }),
  };
  bank.state.put('refunds', refund);
  if (starts !== 'failed') {
    const given = change(bank, 'charges', charge, { amountRefunded: charge.amountRefunded + amount });
    bank.emit('charge.refunded', charge.intent, chargeObject(bank.state, given));
  }
  bank.emit('refund.created', charge.intent, refundObject(bank.state, refund));
  if (starts === 'failed') bank.emit('refund.failed', charge.intent, refundObject(bank.state, refund));
  return refund;
}

/** How a refund starts, and what the bank says of it later. */
interface Course {
  starts: RefundRow['status'];
  pendingReason: string | null;
  ends: 'succeeded' | 'failed' | null;
  failureReason: string | null;
}

const COURSES: Record<RefundManner, Course> = {
  at_once: { starts: 'succeeded', pendingReason: null, ends: null, failureReason: null },
  pending: { starts: 'pending', pendingReason: 'processing', ends: 'succeeded', failureReason: null },
  waits_for_balance: {
    starts: 'pending',
    pendingReason: 'insufficient_funds',
    ends: 'succeeded',
    failureReason: null,
  },
  pending_fails: {
    starts: 'pending',
    pendingReason: 'processing',
    ends: 'failed',
    failureReason: 'declined',
  },
  fails_later: {
    starts: 'succeeded',
    pendingReason: null,
    ends: 'failed',
    failureReason: 'expired_or_canceled_card',
  },
  fails: { starts: 'failed', pendingReason: null, ends: null, failureReason: 'lost_or_stolen_card' },
};

function chargeToRefund(bank: Bank, params: FormTree): ChargeRow {
  const intentId = text(params, 'payment_intent');
  const chargeId = text(params, 'charge');
  if (!intentId && !chargeId) {
    throw invalid(
      'One of the following params should be provided: payment_intent, charge.',
      'payment_intent',
      'parameter_missing',
    );
  }
  if (chargeId) {
    const named = find(bank, 'charges', chargeId);
    if (!named) throw missing('charge', chargeId, 'charge');
    return captured(named);
  }
  const intent = find(bank, 'intents', intentId ?? '');
  if (!intent) throw missing('payment_intent', intentId ?? '', 'payment_intent');
  const charge = chargeOf(bank, intent);
  if (charge?.status !== 'succeeded') {
    throw refused(`This PaymentIntent (${intent.id}) does not have a successful charge to refund.`);
  }
  return captured(charge);
}

function captured(charge: ChargeRow): ChargeRow {
  if (charge.captured) return charge;
  throw refused(
    `Charge ${charge.id} is not captured: cancel its PaymentIntent instead.`,
    'charge_not_refundable',
  );
}

function refundAmount(bank: Bank, charge: ChargeRow, params: FormTree): number {
  if (isChargedBack(bank, charge)) {
    throw refused(`Charge ${charge.id} has been charged back; cannot issue a refund.`, 'charge_disputed');
  }
  const left = charge.amountCaptured - charge.amountRefunded;
  if (left === 0) throw refused(`Charge ${charge.id} has already been refunded.`, 'charge_already_refunded');
  const given = text(params, 'amount');
  if (given === undefined) return left;
  if (!/^\d{1,12}$/.test(given) || Number(given) < 1) {
    throw invalid(`Invalid positive integer: ${given}`, 'amount', 'parameter_invalid_integer');
  }
  if (Number(given) > left) {
    throw refused(
      `Refund amount (${given}) is greater than unrefunded amount on charge (${left})`,
      undefined,
      'amount',
    );
  }
  return Number(given);
}

/** A dispute that was won leaves the charge refundable, and so does an inquiry. */
function isChargedBack(bank: Bank, charge: ChargeRow): boolean {
  if (!charge.disputed) return false;
  return [...bank.state.tables.disputes.values()].some(
    ({ charge: of, withdrawn, reinstated }) => of === charge.id && withdrawn > 0 && !reinstated,
  );
}

function refused(message: string, code?: string, param?: string): ApiError {
  return new ApiError(
    400,
    { type: 'invalid_request_error', message, ...(code && { code }), ...(param && { param }) },
    { stored: true },
  );
}

/**
 * The bank's later result: a pending refund arrives or fails, one that seemed done comes back. Settles all refunds that have an
 * end to come, or those whose time has come. Returns the changed rows.
 */
export function settleRefunds(bank: Bank, which: 'all' | 'due'): RefundRow[] {
  const changed: RefundRow[] = [];
  for (const refund of [...bank.state.tables.refunds.values()]) {
    const due = refund.settleAt !== undefined && refund.settleAt <= bank.now();
    if (which === 'due' && !due) continue;
    const charge = find(bank, 'charges', refund.charge);
    if (!charge) throw new Error(`the ledger refers to ${refund.charge}, which it does not hold`);
    const manner = refund.manner ?? card(methodOf(bank, charge.method).card).bank.refund ?? 'at_once';
    const { starts, ends, failureReason } = COURSES[manner];
    if (ends === null || refund.status !== starts) continue;
    const settled = change(bank, 'refunds', refund, { status: ends, failureReason, pendingReason: null });
    if (ends === 'failed') {
      change(bank, 'charges', charge, { amountRefunded: charge.amountRefunded - refund.amount });
      bank.emit('refund.failed', settled.intent, refundObject(bank.state, settled));
    }
    bank.emit('refund.updated', settled.intent, refundObject(bank.state, settled));
    changed.push(settled);
  }
  return changed;
}
