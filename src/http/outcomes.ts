import { problemOfPhase } from '../booking/refusals.ts';
import { problemOfCode } from '../booking/rights.ts';
import type { CheckoutReserveOutcome, CloseOutcome, PayOutcome } from '../checkout/outcomes.ts';
import { counted } from '../core/counted.ts';
import { impossible } from '../core/outcome.ts';
import { type Problem, problem } from '../core/problems.ts';
import type { Order, ReachedLimit } from '../orders/record.ts';
import type { DeclineCode } from '../payments/provider.ts';

/** The only map from refused outcomes to what HTTP says. Codes and statuses are in errors.ts. */

type Refused<Outcome extends { kind: string }, Kind extends Outcome['kind']> = Exclude<
  Outcome,
  { kind: Kind }
>;

export function problemOfReserve(
  outcome: Refused<CheckoutReserveOutcome, 'order'>,
  opensAt: number | null,
  reference: string,
): Problem {
  switch (outcome.kind) {
    case 'hold_gone':
      return problem('hold_gone');
    case 'open_order':
      return problem('order_open', { extra: { order: outcome.order } });
    case 'code':
      return problemOfCode(outcome.why, outcome.seatsMax);
    case 'limit':
      return problemOfLimit(outcome, reference);
    case 'not_open':
      return problemOfPhase(outcome.phase, opensAt);
    case 'retry':
      return problem('busy', { retryAfterMs: outcome.afterMs });
    default:
      return impossible(outcome, 'reserve outcome');
  }
}

/** `reference` names the browser, or its account, to the organiser, who can lift the limit; it is no secret. */
function problemOfLimit(
  { limit, max, used }: { limit: ReachedLimit; max: number; used: number },
  reference: string,
): Problem {
  const extra = { max, used, reference };
  const most = `At most ${counted(max, 'seat')} of this event may be bought`;
  switch (limit) {
    case 'account':
      return problem('account_limit', {
        detail: `${most} with one e-mail address; ${counted(used, 'is', 'are')}. Nothing was charged.`,
        extra,
      });
    case 'visitor':
      return problem('visitor_limit', {
        detail: `${most} with one browser; ${counted(used, 'is', 'are')}. Nothing was charged.`,
        extra,
      });
    case 'holder':
      return problem('hold_quota', {
        detail: `An account may have ${counted(max, 'seat')} reserved and unpaid at once; it has ${used}. Pay for those first. Nothing was charged.`,
        extra,
      });
    default:
      return impossible(limit, 'reached limit');
  }
}

/** The text about a decline for the buyer, and advice. */
export const declineTexts: Record<DeclineCode, string> = {
  declined: 'The bank declined the card. Nothing was charged. Try another card or ask your bank.',
  insufficient_funds: 'The card has not enough funds. Nothing was charged. Try another card.',
  expired_card: 'The card has expired. Nothing was charged. Try another card.',
  incorrect_cvc: 'The security code is wrong. Nothing was charged. Check the three digits and try again.',
  processing_error: 'The bank could not process the card. Nothing was charged. Try again, or another card.',
  authentication_failed: 'Your bank could not confirm that it is you. Nothing was charged. Try again.',
  invalid_instrument: 'This card cannot be used here. Nothing was charged. Enter it again or try another.',
  not_tried:
    'The payment service did not accept this payment. Your card was not tried and nothing was charged. Try again, or another card.',
};

/** How orders end, for people: only what is known. Whether seats that were released are still free is not. */
export const endTexts: Record<string, string> = {
  not_paid_in_time: 'The time for paying has passed. Nothing was charged and the seats were released.',
  late_payment:
    'The payment came only after its time was over, and the seats had been released. You have not been charged; your bank may show the reservation for some days.',
  closed_by_buyer: 'You cancelled this order. Nothing was charged.',
  seats_lost:
    'The seats could not be kept. Nothing was charged; your bank may show the reservation for some days.',
  limit:
    'With this e-mail address no more seats of this event can be bought. Nothing was charged; your bank may show the reservation for some days.',
  card_limit:
    'With this card no more seats of this event can be bought. Nothing was charged; your bank may show the reservation for some days. Your seats were released. Hold seats again and pay with another card.',
  event_cancelled: 'The event was cancelled.',
  capture_refused:
    'Your bank first agreed and then refused to pay. Nothing was charged and the seats were released.',
  refunded: 'Its tickets were refunded and are not valid any more.',
  payment_mismatch: 'The payment did not match the order. Nothing was charged.',
};

/** While a reservation is still being lifted. */
const liftingText =
  'Nothing will be charged: the reservation on your card is being lifted, and your bank may show it for some days.';

/** How the order ended, in a sentence or two. Undefined: the advice for the problem's code is used. */
function endOf({ state, reason }: Order): string | undefined {
  const text = reason === null ? undefined : endTexts[reason];
  return state === 'voiding' && reason === 'closed_by_buyer' ? `${text} ${liftingText}` : text;
}

export function problemOfPay(outcome: Refused<PayOutcome, 'bought' | 'pending' | 'unpaid'>): Problem {
  switch (outcome.kind) {
    case 'declined':
      return problem('declined', {
        detail: declineTexts[outcome.decline],
        extra: {
          decline: outcome.decline,
          order: outcome.order.order,
          paymentDeadline: new Date(outcome.order.paymentDeadline).toISOString(),
        },
      });
    case 'ended': {
      const { order, state, reason, holder } = outcome.order;
      const isLimit = reason === 'limit' || reason === 'card_limit';
      return problem('order_ended', {
        detail: endOf(outcome.order),
        extra: { order, state, reason, ...(isLimit ? { reference: holder } : {}) },
      });
    }
    case 'unavailable': {
      const { order, paymentDeadline } = outcome.order;
      return problem('payment_unavailable', {
        retryAfterMs: outcome.afterMs,
        extra: { order, paymentDeadline: new Date(paymentDeadline).toISOString() },
      });
    }
    case 'mismatch':
      return problem('idempotency_mismatch');
    case 'under_way':
      return problem('payment_under_way', { retryAfterMs: 2_000, extra: { order: outcome.order.order } });
    case 'unknown_order':
      return problem('unknown_order');
    default:
      return impossible(outcome, 'pay outcome');
  }
}

export function problemOfClose(outcome: Refused<CloseOutcome, 'closed' | 'closing'>): Problem {
  switch (outcome.kind) {
    case 'under_way':
      return problem('payment_under_way', { retryAfterMs: 2_000, extra: { order: outcome.order.order } });
    case 'bought':
      return problem('order_bought', { extra: { order: outcome.order.order } });
    case 'unknown_order':
      return problem('unknown_order');
    default:
      return impossible(outcome, 'close outcome');
  }
}
