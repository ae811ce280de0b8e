import { amountText } from '../core/money.ts';
import type { FindingKind, Misfit, OrderMoney } from '../orders/reconcile-findings.ts';
import type { PaymentView } from '../payments/provider.ts';

/** How a payment at the provider compares with the record. */
export type Judgement =
  | { kind: 'fits' }
  /** It names an order that the record does not have, and no money is on it. */
  | { kind: 'idle' }
  /** Another program's, or another installation's: it is counted and left alone. */
  | { kind: 'foreign' }
  /** The saga is still at it, and will end it (P4). */
  | { kind: 'under_way' }
  /**
   * It names our order, but the order does not know it, because the answer to its opening was lost. `misfit`:
   * money is on it.
   */
  | { kind: 'stray'; misfit: Misfit | null }
  | { kind: 'misfit'; misfit: Misfit };

/**
 * Compares one payment with `order`, the order that it names, read after the payment; null if there is none. `detail` has amounts in
 * minor units. Does not decide what to do about a difference: the saga or an operator does.
 */
export function judgePayment(view: PaymentView, order: OrderMoney | null): Judgement {
  const { object, status, reference, captured, refunded } = view;
  const moneyStands = status === 'authorised' || captured > refunded;
  const misfit = (kind: FindingKind, says: string): Misfit => ({
    kind,
    subject: object,
    order: order?.order ?? null,
    object,
    says,
    detail: {
      event: order?.event ?? null,
      state: order?.state ?? null,
      status,
      amount: view.amount,
      currency: view.currency,
      captured,
      refunded,
      reference,
    },
  });
  if (isForeign(view, order !== null)) return { kind: 'foreign' };
  const sum = (amount: number): string => amountText(amount, view.currency);
  const money = `${sum(view.amount)} (${status}, ${sum(captured)} captured, ${sum(refunded)} refunded)`;
  if (order === null) {
    if (!moneyStands) return { kind: 'idle' };
    return {
      kind: 'misfit',
      misfit: misfit(
        'unknown_order',
        `${object} over ${money} names order ${reference || '(none)'}, which the record does not have`,
      ),
    };
  }
  if (order.underWay) return { kind: 'under_way' };
  const ours = order.payments.find((payment) => payment.object === object);
  const named = `order ${order.order} (${order.state})`;
  if (!ours) {
    const says = `${object} over ${money} names ${named}, which does not know it`;
    return { kind: 'stray', misfit: moneyStands ? misfit('unknown_payment', says) : null };
  }
  if (moneyStands && (view.amount !== order.amount || view.currency !== order.currency)) {
    const says = `${object} is over ${sum(view.amount)}, ${named} over ${amountText(order.amount, order.currency)}`;
    return { kind: 'misfit', misfit: misfit('amount_differs', says) };
  }
  if (captured !== ours.captured) {
    const says = `${sum(captured)} were captured on ${object}, the record of ${named} says ${sum(ours.captured)}`;
    return { kind: 'misfit', misfit: misfit('captured_differs', says) };
  }
  if (refunded !== ours.refunded) {
    const says = `${sum(refunded)} were refunded on ${object}, the record of ${named} says ${sum(ours.refunded)}`;
    return { kind: 'misfit', misfit: misfit('refunded_differs', says) };
  }
  if (status === 'authorised') {
    const says = `${sum(view.amount)} are still reserved on ${object} for ${named}`;
    return { kind: 'misfit', misfit: misfit('reservation_stands', says) };
  }
  return { kind: 'fits' };
}

/**
 * Whether a payment of the account is not ours. One without the mark of an installation may be ours, made before payments were
 * marked: then the record has its order.
 */
export function isForeign({ madeBy }: Pick<PaymentView, 'madeBy'>, isKnown: boolean): boolean {
  return !isKnown && madeBy !== 'us';
}

/** The record names an object, and the provider says that there is none. */
export function missingThere(object: string, order: OrderMoney): Misfit {
  return {
    kind: 'missing_there',
    subject: object,
    order: order.order,
    object,
    says: `order ${order.order} (${order.state}) names ${object}, which the provider does not know`,
    detail: { event: order.event, state: order.state, amount: order.amount, currency: order.currency },
  };
}

/** Sold, and nothing was ever to be captured. */
export function unpaidSale(order: OrderMoney): Misfit {
  return {
    kind: 'no_payment',
    subject: order.order,
    order: order.order,
    object: null,
    says: `order ${order.order} is ${order.state} and no capture was ever written for it`,
    detail: { event: order.event, state: order.state, amount: order.amount, currency: order.currency },
  };
}
