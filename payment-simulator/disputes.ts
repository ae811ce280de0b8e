import { ApiError, invalid } from './api-error.ts';
import { type Bank, change, chargeOf, find, methodOf } from './bank.ts';
import { chargeObject, disputeObject } from './render.ts';
import type { ChargeRow, DisputeRow, IntentRow } from './rows.ts';

/**
 * Disputes (chargebacks) as Stripe tells them: the bank of the buyer opens one, its amount and a fee are withdrawn from the
 * balance at once, and the bank decides. An inquiry withdraws nothing. Source: https://docs.stripe.com/disputes.
 */

/** Minor units of the charge's currency, as a stand-in: Stripe takes the fee in the currency of the account. */
const FEE = 1_500;
const RESPOND_WITHIN_S = 7 * 24 * 3600;

export const OUTCOMES = ['under_review', 'won', 'lost'] as const;
export type Outcome = (typeof OUTCOMES)[number];

export function openDispute(
  bank: Bank,
  intent: IntentRow,
  wish: { amount?: number; reason?: string; inquiry?: boolean },
): DisputeRow {
  const charge = chargeOf(bank, intent);
  if (!charge?.captured) throw invalid(`${intent.id} has no captured charge to dispute.`, 'payment_intent');
  const most = charge.amountCaptured - charge.amountRefunded;
  const amount = wish.amount ?? most;
  if (!Number.isInteger(amount) || amount < 1 || amount > most) {
    throw invalid(`A dispute of ${charge.id} is over 1 to ${most}.`, 'amount');
  }
  const inquiry = wish.inquiry === true;
  const dispute: DisputeRow = {
    id: bank.id('du'),
    created: bank.now(),
    charge: charge.id,
    intent: intent.id,
    amount,
    currency: charge.currency,
    status: inquiry ? 'warning_needs_response' : 'needs_response',
    reason: wish.reason ?? 'fraudulent',
    respondBy: bank.now() + RESPOND_WITHIN_S,
    withdrawn: inquiry ? 0 : amount,
    fee: inquiry ? 0 : FEE,
    reinstated: false,
  };
  bank.state.put('disputes', dispute);
  change(bank, 'charges', charge, { disputed: true });
  emit(bank, 'created', dispute);
  if (!inquiry) emit(bank, 'funds_withdrawn', dispute);
  return dispute;
}

/** The test card of Stripe that is disputed as soon as its charge is captured. */
export function disputeIfSo(bank: Bank, intent: IntentRow, charge: ChargeRow): void {
  if (methodOf(bank, charge.method).card === 'createDispute') openDispute(bank, intent, {});
}

/** The bank's decision, or that it is looking at the evidence. A dispute that is closed stays as it is. */
export function decideDispute(bank: Bank, id: string, outcome: Outcome): DisputeRow {
  const dispute = find(bank, 'disputes', id);
  if (!dispute) {
    throw new ApiError(404, {
      type: 'invalid_request_error',
      code: 'resource_missing',
      message: `No such dispute: '${id}'`,
      param: 'id',
    });
  }
  if (['won', 'lost', 'warning_closed'].includes(dispute.status)) {
    throw invalid(`This dispute is already closed: it has a status of ${dispute.status}.`);
  }
  const inquiry = dispute.status.startsWith('warning_');
  if (outcome === 'under_review') {
    const reviewed = change(bank, 'disputes', dispute, {
      status: inquiry ? 'warning_under_review' : 'under_review',
    });
    emit(bank, 'updated', reviewed);
    return reviewed;
  }
  const status = inquiry ? 'warning_closed' : outcome;
  const closed = change(bank, 'disputes', dispute, { status, reinstated: status === 'won' });
  emit(bank, 'closed', closed);
  if (status === 'won') emit(bank, 'funds_reinstated', closed);
  return closed;
}

function emit(bank: Bank, what: string, dispute: DisputeRow): void {
  const charge = find(bank, 'charges', dispute.charge);
  if (what === 'created' && charge) {
    bank.emit('charge.updated', dispute.intent, chargeObject(bank.state, charge));
  }
  bank.emit(`charge.dispute.${what}`, dispute.intent, disputeObject(bank.state, dispute));
}
