import assert from 'node:assert/strict';
import type { HoldAnswer, OrderAnswer, Problem, TicketsAnswer } from '../../src/http/api-types.ts';
import { until } from './wait.ts';

// biome-ignore lint/suspicious/noExplicitAny: bodies are whatever the route answers; tests look at what they expect.
type Body = any;

export interface Answer<T = Body> {
  status: number;
  headers: Headers;
  body: T;
}

/** A browser: a cookie jar and the steps of a purchase. Each step answers as it is; `mustX` steps assert that it worked. */
export interface TestBuyer {
  /** Name → value; paths are not looked at. */
  cookies: Map<string, string>;
  pass: string;
  request(method: string, path: string, options?: RequestOptions): Promise<Answer>;
  get(path: string): Promise<Answer>;
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  join(): Promise<Answer>;
  /** Joins and waits until called. */
  admit(): Promise<void>;
  hold(seats: (number | string)[], options?: HoldOptions): Promise<Answer<HoldAnswer & Problem>>;
  best(best: object, options?: HoldOptions): Promise<Answer<HoldAnswer & Problem>>;
  order(hold: string, buyer?: { name: string; email: string }): Promise<Answer<OrderAnswer & Problem>>;
  pay(order: string, paymentMethod?: string, key?: string): Promise<Answer<OrderAnswer & Problem>>;
  tickets(order: string): Promise<Answer<TicketsAnswer & Problem>>;
  /** Hold of these seats, order, payment: the paid order. */
  mustBuy(seats: number[]): Promise<OrderAnswer>;
  mustHold(seats: number[]): Promise<HoldAnswer>;
  mustOrder(seats: number[]): Promise<OrderAnswer>;
}

export interface HoldOptions {
  key?: string;
  replaces?: string;
}

export interface RequestOptions {
  body?: unknown;
  /** Sent as it is. */
  raw?: string | Uint8Array;
  headers?: Record<string, string>;
}

let keys = 0;
let buyers = 0;

export function createTestBuyer(url: string, event: string): TestBuyer {
  const cookies = new Map<string, string>();
  buyers += 1;
  const email = `buyer${buyers}@example.org`;
  const newKey = (): string => {
    keys += 1;
    return `key-${keys}`;
  };

  async function request(method: string, path: string, options: RequestOptions = {}): Promise<Answer> {
    const headers: Record<string, string> = { ...options.headers };
    if (cookies.size > 0)
      headers.cookie ??= [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const sent = options.raw ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
    if (sent !== undefined) headers['content-type'] ??= 'application/json';
    const response = await fetch(`${url}${path}`, {
      method,
      headers,
      redirect: 'manual',
      ...(sent === undefined ? {} : { body: sent as BodyInit }),
    });
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      cookies.set(name, value);
    }
    const bytes = Buffer.from(await response.arrayBuffer());
    const isJson = /json/.test(response.headers.get('content-type') ?? '');
    const body = isJson && bytes.length > 0 ? JSON.parse(bytes.toString('utf8')) : bytes;
    return { status: response.status, headers: response.headers, body };
  }

  const buyer: TestBuyer = {
    cookies,
    pass: '',
    request,
    get: (path) => request('GET', path),
    post: (path, body, headers) => request('POST', path, { body, headers }),
    async join() {
      const first = await buyer.post(`/api/events/${event}/queue`);
      return first.status === 428 ? await buyer.post(`/api/events/${event}/queue`) : first;
    },
    async admit() {
      const joined = await buyer.join();
      assert.equal(joined.status, 200, JSON.stringify(joined.body));
      buyer.pass = await until(async () => {
        const answer = await buyer.post(`/api/events/${event}/pass`, { ticket: joined.body.ticket });
        if (answer.status === 200) return answer.body.pass as string;
        assert.equal(answer.body.code, 'not_yet');
        return null;
      }, 'the turn of this buyer');
    },
    hold: (seats, { key = newKey(), replaces } = {}) =>
      buyer.post(
        `/api/events/${event}/holds`,
        { pass: buyer.pass, replaces, seats: seats.map((seat) => ({ seat })) },
        { 'idempotency-key': key },
      ),
    best: (best, { key = newKey(), replaces } = {}) =>
      buyer.post(
        `/api/events/${event}/holds`,
        { pass: buyer.pass, replaces, best },
        { 'idempotency-key': key },
      ),
    order: (hold, given = { name: 'Any Buyer', email }) =>
      buyer.post(`/api/holds/${hold}/order`, { buyer: given }),
    pay: (order, paymentMethod = 'pm_card_visa', key = newKey()) =>
      buyer.post(`/api/orders/${order}/payment`, { paymentMethod }, { 'idempotency-key': key }),
    tickets: (order) => buyer.get(`/api/orders/${order}/tickets`),
    async mustHold(seats) {
      const held = await buyer.hold(seats);
      assert.equal(held.status, 201, JSON.stringify(held.body));
      return held.body;
    },
    async mustOrder(seats) {
      const ordered = await buyer.order((await buyer.mustHold(seats)).hold);
      assert.equal(ordered.status, 201, JSON.stringify(ordered.body));
      return ordered.body;
    },
    async mustBuy(seats) {
      const paid = await buyer.pay((await buyer.mustOrder(seats)).order);
      assert.equal(paid.status, 200, JSON.stringify(paid.body));
      return paid.body;
    },
  };
  return buyer;
}
