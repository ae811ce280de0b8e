import type { OrderAnswer, TicketsAnswer } from '../../src/http/api-types.ts';
import { call, persist } from '../shared/api.ts';
import { lookAgainMs, pause, pauseUnlessSeen } from '../shared/clock.ts';
import type { Store } from '../shared/store.ts';

export interface OrderPageState {
  load: 'loading' | 'ready' | 'not_found';
  order: OrderAnswer | null;
  tickets: TicketsAnswer['tickets'] | null;
  /** The last request failed; it is repeated. */
  trouble: boolean;
}

const settled = ['paid', 'closed', 'cancelled'];
const everyMs = 2000;

/**
 * Follows an order to its end. While a payment is under way (the buyer has just come back from the bank, or an answer was
 * lost) it asks the server to look the payment up, more rarely the longer it takes; that never pays twice.
 */
export async function followOrder(
  orderId: string,
  secret: string | null,
  store: Store<OrderPageState>,
  signal: AbortSignal,
): Promise<void> {
  const path = `/api/orders/${encodeURIComponent(orderId)}`;
  const how = { onTrouble: (tries: number) => store.set({ trouble: tries > 1 }) };
  let looks = 0;
  while (!signal.aborted) {
    const answer = await persist<OrderAnswer>(path, { secret, signal }, how);
    if (answer.kind === 'problem') {
      store.set({ load: 'not_found' });
      return;
    }
    if (answer.kind !== 'ok' || signal.aborted) return;
    const order = answer.body;
    store.set({ order, load: 'ready' });
    if (order.secret && !secret) secret = keepSecret(order.secret);
    if (order.state === 'paid' && !order.eventCancelled && !store.get().tickets)
      await loadTickets(path, secret, store, signal);
    if (settled.includes(order.state)) return;
    if (
      order.state === 'reserved' &&
      (order.payment.state === 'none' || order.payment.state === 'declined')
    ) {
      // Nothing is under way: the state changes only by the buyer or at the deadline.
      looks = 0;
      await pauseUnlessSeen(5 * everyMs, signal);
      continue;
    }
    looks += 1;
    const request = { method: 'POST' as const, body: {}, secret, signal };
    const looked = await call<OrderAnswer & { retryAfterMs?: number }>(`${path}/payment/refresh`, request);
    if (looked.kind === 'ok' && settled.includes(looked.body.state)) continue;
    const { retryAfterMs } =
      looked.kind === 'ok' ? looked.body : looked.kind === 'problem' ? looked.problem : {};
    await pauseUnlessSeen(lookAgainMs(looks, retryAfterMs), signal);
  }
}

/** The link in the address bar then opens the order from anywhere, as the page says. */
function keepSecret(secret: string): string {
  history.replaceState(null, '', `#${encodeURIComponent(secret)}`);
  return secret;
}

async function loadTickets(
  path: string,
  secret: string | null,
  store: Store<OrderPageState>,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const answer = await persist<TicketsAnswer>(`${path}/tickets`, { secret, signal });
    if (answer.kind === 'ok') return store.set({ tickets: answer.body.tickets });
    if (answer.kind !== 'problem' || answer.problem.code !== 'not_paid') return;
    await pause(everyMs, signal);
  }
}
