import type { OrderAnswer } from '../../src/http/api-types.ts';
import { type Answer, call, persist } from '../shared/api.ts';
import { lookAgainMs, pauseUnlessSeen } from '../shared/clock.ts';
import { type Buyer, isBought, isEnded, orderUrl, setOrder } from './session.ts';

/** The payment routes return an order, with the URL of the bank's page if the buyer has to go there. */
type PaymentBody = OrderAnswer & { action?: { url: string } | null; retryAfterMs?: number };

/** An answer here: the buyer may press the button again, or cancel. */
const answers = ['payment_unavailable'];

/** Sends the card's token; the rest is the server's. A lost answer is asked again under the same key: never charged twice. */
export async function payWith(buyer: Buyer, token: { confirmationToken: string }): Promise<void> {
  const { store, attempts } = buyer;
  const { order } = store.get();
  if (!order) return;
  store.set({ busy: 'pay', problem: null, decline: null, payment: 'asking' });
  const answer = await persist<PaymentBody>(
    `/api/orders/${encodeURIComponent(order.order)}/payment`,
    { method: 'POST', body: token, key: attempts.key('pay', { order: order.order, ...token }) },
    { onTrouble: buyer.trouble, answers },
  );
  attempts.settled('pay');
  store.set({ busy: null, trouble: 0 });
  await settle(buyer, answer);
}

/** Looks the payment up until it has an end: after the bank's page, a reload, another tab's try; more rarely the longer it takes. */
export async function refreshPayment(buyer: Buyer, signal?: AbortSignal, looks = 1): Promise<void> {
  const { order } = buyer.store.get();
  if (!order) return;
  const answer = await persist<PaymentBody>(
    `/api/orders/${encodeURIComponent(order.order)}/payment/refresh`,
    { method: 'POST', body: {}, signal },
    { onTrouble: buyer.trouble, answers },
  );
  if (signal?.aborted) return;
  buyer.store.set({ trouble: 0 });
  await settle(buyer, answer, signal, looks);
}

async function settle(
  buyer: Buyer,
  answer: Answer<PaymentBody>,
  signal?: AbortSignal,
  looks = 0,
): Promise<void> {
  const { store } = buyer;
  const again = async (asked?: number) => {
    await pauseUnlessSeen(lookAgainMs(looks + 1, asked), signal);
    if (!signal?.aborted && store.get().order) await refreshPayment(buyer, signal, looks + 1);
  };
  if (answer.kind === 'lost') return;
  if (answer.kind === 'problem') {
    const { code } = answer.problem;
    if (code === 'declined') {
      const decline = String(answer.problem.decline ?? answer.problem.reason ?? 'declined');
      store.set({ payment: 'declined', decline });
    } else if (code === 'payment_under_way') {
      store.set({ payment: 'under_way' });
      await again(answer.problem.retryAfterMs);
    } else if (code === 'payment_unavailable') store.set({ payment: 'unavailable' });
    else if (code === 'order_bought') await reread(buyer);
    else if (code === 'order_ended') await reread(buyer);
    else store.set({ payment: 'idle', problem: answer.problem });
    return;
  }
  const body = answer.body;
  if (isBought(body)) return goToTickets(buyer, body);
  if (isEnded(body)) return endedWithoutSale(buyer, body);
  setOrder(buyer, body);
  const url = body.action?.url ?? body.payment.action?.url;
  if (url) {
    store.set({ payment: 'action', actionUrl: url });
    return;
  }
  if (body.payment.state === 'declined') {
    store.set({ payment: 'declined', decline: body.payment.decline ?? 'declined' });
    return;
  }
  if (body.payment.state === 'none') {
    store.set({ payment: 'idle' });
    return;
  }
  store.set({ payment: 'asking' });
  await again(body.retryAfterMs);
}

async function reread(buyer: Buyer): Promise<void> {
  const { order } = buyer.store.get();
  if (!order) return;
  const answer = await call<OrderAnswer>(`/api/orders/${encodeURIComponent(order.order)}`);
  if (answer.kind !== 'ok') return;
  if (isBought(answer.body)) goToTickets(buyer, answer.body);
  else if (isEnded(answer.body)) endedWithoutSale(buyer, answer.body);
  else setOrder(buyer, answer.body);
}

function goToTickets(buyer: Buyer, order: OrderAnswer): void {
  setOrder(buyer, order);
  // The number has done its work: a next purchase begins at the end of the line.
  buyer.keep.drop('hold');
  buyer.store.set({ payment: 'done' });
  location.assign(orderUrl(buyer, order.order));
}

/** The order's own page explains how it ended. */
function endedWithoutSale(buyer: Buyer, order: OrderAnswer): void {
  const url = orderUrl(buyer, order.order);
  buyer.keep.drop('order');
  location.assign(url);
}
