import { ApiError, invalid, missing } from './api-error.ts';
import { type Bank, change, chargeOf, find, methodOf } from './bank.ts';
import { type FormTree, subtree, text, texts } from './form.ts';
import { card, chargeObject, refundObject } from './render.ts';
import type { ChargeRow, RefundRow } from './rows.ts';

const REASONS = ['duplicate', 'fraudulent', 'requested_by_customer'];

export function createRefund(bank: Bank, params: FormTree): RefundRow {
  const charge = chargeToRefund(bank, params);
  const amount = refundAmount(charge, params);
  const reason = text(params, 'reason') ?? null;
  if (reason !== null && !REASONS.includes(reason)) {
    throw invalid(`Invalid reason: must be one of ${REASONS.join(', ')}`, 'reason');
  }
  const manner = card(methodOf(bank, charge.method).card).bank.refund;
  const refund: RefundRow = {
    id: bank.id('re'),
    created: bank.now(),
    charge: charge.id,
    intent: charge.intent,
    amount,
    currency: charge.currency,
    status: manner === 'pending' ? 'pending' : 'succeeded',
    reason,
    failureReason: null,
    pendingReason: manner === 'pending' ? 'processing' : null,
    metadata: texts(subtree(params, 'metadata')),
  };
  bank.state.put('refunds', refund);
  const given = change(bank, 'charges', charge, { amountRefunded: charge.amountRefunded + amount });
  bank.emit('charge.refunded', charge.intent, chargeObject(bank.state, given));
  bank.emit('refund.created', charge.intent, refundObject(bank.state, refund));
  return refund;
}

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

function refundAmount(charge: ChargeRow, params: FormTree): number {
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

function refused(message: string, code?: string, param?: string): ApiError {
  return new ApiError(
    400,
    { type: 'invalid_request_error', message, ...(code && { code }), ...(param && { param }) },
    { stored: true },
  );
}

/** What the bank says later: a pending refund arrives, one that seemed done comes back. Answers the rows changed. */
export function settleRefunds(bank: Bank): RefundRow[] {
  const changed: RefundRow[] = [];
  for (const refund of [...bank.state.tables.refunds.values()]) {
    const charge = find(bank, 'charges', refund.charge);
    if (!charge || refund.status === 'failed') continue;
    const manner = card(methodOf(bank, charge.method).card).bank.refund;
    if (manner === 'pending' && refund.status === 'pending') {
      changed.push(
        settled(bank, change(bank, 'refunds', refund, { status: 'succeeded', pendingReason: null })),
      );
    } else if (manner === 'fails_later') {
      change(bank, 'charges', charge, { amountRefunded: charge.amountRefunded - refund.amount });
      const failed = change(bank, 'refunds', refund, {
        status: 'failed',
        failureReason: 'expired_or_canceled_card',
      });
      bank.emit('refund.failed', failed.intent, refundObject(bank.state, failed));
      changed.push(settled(bank, failed));
    }
  }
  return changed;
}

function settled(bank: Bank, refund: RefundRow): RefundRow {
  bank.emit('refund.updated', refund.intent, refundObject(bank.state, refund));
  return refund;
}
