import type {
  HoldAnswer,
  OrderAnswer,
  PassAnswer,
  QueueTicketAnswer,
  StatusObject,
  TicketsAnswer,
} from '../../src/http/api-types.ts';
import type { Random } from '../../src/runtime/random.ts';
import type { Answer, BrowserClient } from './http-client.ts';

/** A buyer's steps over HTTP, one call each; tests and the crowd are written with these. */
export interface Buyer {
  client: BrowserClient;
  /** Fetches the visitor cookie (428) and joins: the answer of the second call. */
  join(): Promise<Answer<QueueTicketAnswer>>;
  status(): Promise<Answer<StatusObject>>;
  pass(ticket: string): Promise<Answer<PassAnswer>>;
  holdSeats(pass: string, seats: (number | string)[], options?: HoldOptions): Promise<Answer<HoldAnswer>>;
  holdBest(
    pass: string,
    best: { quantity: number; category?: string; section?: string },
    options?: HoldOptions,
  ): Promise<Answer<HoldAnswer>>;
  hold(hold: string): Promise<Answer<HoldAnswer>>;
  release(hold: string): Promise<Answer>;
  /** Shows the receipt: 200 the hold as it is, 202 while receipts are being collected. */
  recover(hold: string, receipt: string): Promise<Answer<HoldAnswer | RecoveringAnswer>>;
  order(hold: string, buyer?: { name: string; email: string }): Promise<Answer<OrderAnswer>>;
  pay(order: string, paymentMethod: string, key?: string): Promise<Answer<OrderAnswer>>;
  refresh(order: string): Promise<Answer<OrderAnswer>>;
  closeOrder(order: string): Promise<Answer>;
  findOrder(order: string): Promise<Answer<OrderAnswer>>;
  tickets(order: string): Promise<Answer<TicketsAnswer>>;
}

export interface RecoveringAnswer {
  code: 'recovering';
  hold: string;
  /** ISO 8601. */
  until: string;
  retryAfterMs: number;
}

export interface HoldOptions {
  key?: string;
  replaces?: string;
}

export function createBuyer(client: BrowserClient, event: string, random: Random): Buyer {
  const api = `/api/events/${event}`;
  const keyed = (key: string | undefined) => ({ 'idempotency-key': key ?? random.uuid() });

  return {
    client,
    async join() {
      const first = await client.request<QueueTicketAnswer>('POST', `${api}/queue`, { body: {} });
      if (first.status !== 428) return first;
      return client.request<QueueTicketAnswer>('POST', `${api}/queue`, { body: {} });
    },
    status: () => client.request('GET', `${api}/status`),
    pass: (ticket) => client.request('POST', `${api}/pass`, { body: { ticket } }),
    holdSeats: (pass, seats, { key, replaces } = {}) =>
      client.request('POST', `${api}/holds`, {
        body: { pass, seats: seats.map((seat) => ({ seat })), ...(replaces ? { replaces } : {}) },
        headers: keyed(key),
      }),
    holdBest: (pass, best, { key, replaces } = {}) =>
      client.request('POST', `${api}/holds`, {
        body: { pass, best, ...(replaces ? { replaces } : {}) },
        headers: keyed(key),
      }),
    hold: (hold) => client.request('GET', `/api/holds/${hold}`),
    release: (hold) => client.request('DELETE', `/api/holds/${hold}`),
    recover: (hold, receipt) => client.request('POST', `/api/holds/${hold}/recover`, { body: { receipt } }),
    order: (hold, buyer = { name: 'Any Buyer', email: `buyer-${random.uuid()}@example.org` }) =>
      client.request('POST', `/api/holds/${hold}/order`, { body: { buyer } }),
    pay: (order, paymentMethod, key) =>
      client.request('POST', `/api/orders/${order}/payment`, {
        body: { paymentMethod },
        headers: keyed(key),
      }),
    refresh: (order) => client.request('POST', `/api/orders/${order}/payment/refresh`, { body: {} }),
    closeOrder: (order) => client.request('DELETE', `/api/orders/${order}`),
    findOrder: (order) => client.request('GET', `/api/orders/${order}`),
    tickets: (order) => client.request('GET', `/api/orders/${order}/tickets`),
  };
}
