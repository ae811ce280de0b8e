import assert from 'node:assert/strict';
import { ROUTES } from '../../payment-simulator/routes.ts';
import type { TestSimulator } from './simulator.ts';

/** Fields of a card that succeeds, under `card` or `payment_method_data[card]`. */
export function cardParams(at: string): Record<string, string> {
  const type = at.includes('[') ? at.replace('[card]', '[type]') : 'type';
  return {
    [type]: 'card',
    [`${at}[number]`]: '4242424242424242',
    [`${at}[exp_month]`]: '12',
    [`${at}[exp_year]`]: String(new Date().getUTCFullYear() + 1),
  };
}

export function plain(params: object): Record<string, string> {
  return Object.fromEntries(Object.entries(params).map(([name, value]) => [name, String(value)]));
}

export interface RawAnswer {
  status: number;
  headers: Headers;
  body: Record<string, unknown> & { object?: string; id?: string; error?: Record<string, unknown> };
}

/** Calls a route by its name and returns the answer, as a client without the SDK does. */
export async function rawCall(
  sim: TestSimulator,
  route: string,
  given: Record<string, string>,
  more: RequestOptions = {},
): Promise<RawAnswer> {
  const { method, path } = ROUTES.find((one) => one.name === route) ?? { method: 'GET', path: route };
  const { id = '', ...params } = given;
  const form = new URLSearchParams(params).toString();
  const url = sim.url + path.replace(':id', id);
  const response = await fetch(method === 'GET' && form ? `${url}?${form}` : url, {
    method,
    headers: {
      authorization: `Bearer ${more.secret ?? sim.secretKey}`,
      'content-type': 'application/x-www-form-urlencoded',
      'stripe-version': '2026-10-28.endive',
      ...(more.key && { 'idempotency-key': more.key }),
    },
    ...(method === 'POST' && { body: form }),
  });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

export interface RequestOptions {
  key?: string;
  secret?: string;
}

export function hasHeaders({ headers }: RawAnswer, where: string): void {
  assert.match(headers.get('content-type') ?? '', /^application\/json/, where);
  assert.match(headers.get('request-id') ?? '', /^req_/, where);
  assert.equal(headers.get('stripe-version'), '2026-10-28.endive', where);
  assert.match(headers.get('cache-control') ?? '', /no-store/, where);
}
