import { type ApiError, invalid, missing } from './api-error.ts';
import { type Bank, find } from './bank.ts';
import { decideDispute } from './disputes.ts';
import { type FormTree, list, subtree, text } from './form.ts';
import { createMethod, createToken } from './instruments.ts';
import {
  cancelIntent,
  captureIntent,
  confirmIntent,
  createIntent,
  expireIfDue,
  updateIntent,
} from './intents.ts';
import { createRefund } from './refunds.ts';
import {
  chargeObject,
  disputeObject,
  eventObject,
  intentObject,
  methodObject,
  refundObject,
  tokenObject,
} from './render.ts';
import type { IntentRow, Rows } from './rows.ts';
import type { Table } from './state.ts';

/** The subset of Stripe's API that the simulator speaks. Unknown parameters are refused, as Stripe refuses them. */
export interface Route {
  /** As faults name it, such as `payment_intents.confirm`. */
  name: string;
  method: 'GET' | 'POST';
  /** `:id` matches one segment. */
  path: string;
  /** The publishable key, which browsers have, is enough. */
  public?: true;
  params: readonly string[];
  run(bank: Bank, params: FormTree, id: string): unknown;
}

const LIST = ['created', 'ending_before', 'expand', 'limit', 'starting_after'] as const;
const CONFIRM = ['confirmation_token', 'payment_method', 'return_url'] as const;

export const ROUTES: readonly Route[] = [
  {
    name: 'payment_intents.create',
    method: 'POST',
    path: '/v1/payment_intents',
    params: [
      ...CONFIRM,
      'allowed_payment_method_types',
      'amount',
      'automatic_payment_methods',
      'capture_method',
      'confirm',
      'currency',
      'description',
      'expand',
      'metadata',
      'receipt_email',
    ],
    run: (bank, params) => intentAnswer(bank, createIntent(bank, params), params),
  },
  {
    name: 'payment_intents.list',
    method: 'GET',
    path: '/v1/payment_intents',
    params: LIST,
    run: (bank, params) => {
      const rows = [...bank.state.tables.intents.values()].map((row) => expireIfDue(bank, row));
      const expand = list(params, 'expand').map((path) => path.replace(/^data\./, ''));
      return page(rows, params, '/v1/payment_intents', (row) => intentObject(bank.state, row, expand));
    },
  },
  {
    name: 'payment_intents.retrieve',
    method: 'GET',
    path: '/v1/payment_intents/:id',
    params: ['client_secret', 'expand'],
    run: (bank, params, id) => intentAnswer(bank, intent(bank, id), params),
  },
  {
    name: 'payment_intents.update',
    method: 'POST',
    path: '/v1/payment_intents/:id',
    params: ['amount', 'expand', 'metadata'],
    run: (bank, params, id) => intentAnswer(bank, updateIntent(bank, intent(bank, id), params), params),
  },
  {
    name: 'payment_intents.confirm',
    method: 'POST',
    path: '/v1/payment_intents/:id/confirm',
    params: [...CONFIRM, 'expand', 'use_stripe_sdk'],
    run: (bank, params, id) => intentAnswer(bank, confirmIntent(bank, intent(bank, id), params), params),
  },
  {
    name: 'payment_intents.capture',
    method: 'POST',
    path: '/v1/payment_intents/:id/capture',
    params: ['amount_to_capture', 'expand', 'metadata'],
    run: (bank, params, id) => intentAnswer(bank, captureIntent(bank, intent(bank, id), params), params),
  },
  {
    name: 'payment_intents.cancel',
    method: 'POST',
    path: '/v1/payment_intents/:id/cancel',
    params: ['cancellation_reason', 'expand'],
    run: (bank, params, id) => intentAnswer(bank, cancelIntent(bank, intent(bank, id), params), params),
  },
  {
    name: 'payment_methods.create',
    method: 'POST',
    path: '/v1/payment_methods',
    public: true,
    params: ['billing_details', 'card', 'type'],
    run: (bank, params) => methodObject(createMethod(bank, params)),
  },
  {
    name: 'payment_methods.retrieve',
    method: 'GET',
    path: '/v1/payment_methods/:id',
    params: ['expand'],
    run: (bank, _params, id) => methodObject(known(bank, 'methods', id, 'PaymentMethod', 'payment_method')),
  },
  {
    name: 'confirmation_tokens.create',
    method: 'POST',
    path: '/v1/confirmation_tokens',
    public: true,
    params: ['payment_method', 'payment_method_data', 'return_url'],
    run: (bank, params) => tokenObject(bank.state, createToken(bank, params)),
  },
  {
    // At Stripe this route exists in test mode: a server's tests make tokens without a browser.
    name: 'test_helpers.confirmation_tokens.create',
    method: 'POST',
    path: '/v1/test_helpers/confirmation_tokens',
    params: ['payment_method', 'payment_method_data', 'return_url'],
    run: (bank, params) => tokenObject(bank.state, createToken(bank, params)),
  },
  {
    name: 'confirmation_tokens.retrieve',
    method: 'GET',
    path: '/v1/confirmation_tokens/:id',
    params: ['expand'],
    run: (bank, _params, id) =>
      tokenObject(bank.state, known(bank, 'tokens', id, 'ConfirmationToken', 'confirmation_token')),
  },
  {
    name: 'charges.retrieve',
    method: 'GET',
    path: '/v1/charges/:id',
    params: ['expand'],
    run: (bank, params, id) =>
      chargeObject(bank.state, known(bank, 'charges', id, 'charge', 'id'), list(params, 'expand')),
  },
  {
    name: 'refunds.create',
    method: 'POST',
    path: '/v1/refunds',
    params: ['amount', 'charge', 'expand', 'metadata', 'payment_intent', 'reason'],
    run: (bank, params) => refundObject(bank.state, createRefund(bank, params), list(params, 'expand')),
  },
  {
    name: 'refunds.list',
    method: 'GET',
    path: '/v1/refunds',
    params: [...LIST, 'charge', 'payment_intent'],
    run: (bank, params) => {
      const of = text(params, 'payment_intent');
      const charge = text(params, 'charge');
      const rows = [...bank.state.tables.refunds.values()].filter(
        (row) => (!of || row.intent === of) && (!charge || row.charge === charge),
      );
      return page(rows, params, '/v1/refunds', (row) => refundObject(bank.state, row));
    },
  },
  {
    name: 'refunds.retrieve',
    method: 'GET',
    path: '/v1/refunds/:id',
    params: ['expand'],
    run: (bank, params, id) =>
      refundObject(bank.state, known(bank, 'refunds', id, 'refund', 'id'), list(params, 'expand')),
  },
  {
    name: 'disputes.list',
    method: 'GET',
    path: '/v1/disputes',
    params: [...LIST, 'charge', 'payment_intent'],
    run: (bank, params) => {
      const of = text(params, 'payment_intent');
      const charge = text(params, 'charge');
      const rows = [...bank.state.tables.disputes.values()].filter(
        (row) => (!of || row.intent === of) && (!charge || row.charge === charge),
      );
      return page(rows, params, '/v1/disputes', (row) => disputeObject(bank.state, row));
    },
  },
  {
    name: 'disputes.retrieve',
    method: 'GET',
    path: '/v1/disputes/:id',
    params: ['expand'],
    run: (bank, _params, id) => disputeObject(bank.state, known(bank, 'disputes', id, 'dispute', 'id')),
  },
  {
    // The account accepts it: lost.
    name: 'disputes.close',
    method: 'POST',
    path: '/v1/disputes/:id/close',
    params: ['expand'],
    run: (bank, _params, id) => disputeObject(bank.state, decideDispute(bank, id, 'lost')),
  },
  {
    name: 'events.list',
    method: 'GET',
    path: '/v1/events',
    params: [...LIST, 'type', 'types'],
    run: (bank, params) => {
      const types = [...list(params, 'type'), ...list(params, 'types')];
      const rows = [...bank.state.tables.events.values()].filter(
        (row) => types.length === 0 || types.includes(row.type),
      );
      return page(rows, params, '/v1/events', eventObject);
    },
  },
  {
    name: 'events.retrieve',
    method: 'GET',
    path: '/v1/events/:id',
    params: ['expand'],
    run: (bank, _params, id) => eventObject(known(bank, 'events', id, 'event', 'id')),
  },
  { name: 'balance.retrieve', method: 'GET', path: '/v1/balance', params: ['expand'], run: balance },
];

export function matchRoute(method: string, path: string): { route: Route; id: string } | null {
  const segments = path.split('/');
  for (const route of ROUTES) {
    if (route.method !== method) continue;
    const wanted = route.path.split('/');
    if (wanted.length !== segments.length) continue;
    if (!wanted.every((part, i) => part === ':id' || part === segments[i])) continue;
    const at = wanted.indexOf(':id');
    return { route, id: segments[at] ?? '' };
  }
  return null;
}

export function checkParams(route: Route, params: FormTree): void {
  for (const name of Object.keys(params)) {
    if (route.params.includes(name)) continue;
    throw name === 'payment_method_types' ? typesNoLongerSupported() : unknownParam(name);
  }
  const empty = Object.keys(params).find((name) => params[name] === '');
  if (empty) throw invalid(`You passed an empty string for '${empty}'.`, empty, 'parameter_invalid_empty');
}

function unknownParam(name: string): ApiError {
  return invalid(`Received unknown parameter: ${name}`, name, 'parameter_unknown');
}

/** Since API version 2026-09-30.endive. */
function typesNoLongerSupported(): ApiError {
  return invalid(
    'payment_method_types is no longer supported: use allowed_payment_method_types.',
    'payment_method_types',
    'payment_method_types_no_longer_supported',
  );
}

function intentAnswer(bank: Bank, row: IntentRow, params: FormTree): unknown {
  return intentObject(bank.state, row, list(params, 'expand'));
}

function intent(bank: Bank, id: string): IntentRow {
  return expireIfDue(bank, known(bank, 'intents', id, 'payment_intent', 'intent'));
}

function known<T extends Table>(bank: Bank, table: T, id: string, what: string, param: string): Rows[T] {
  const row = find(bank, table, id);
  if (!row) throw missing(what, id, param);
  return row;
}

/** Newest first, by cursor, as all of Stripe's lists. */
function page<R extends { id: string; created: number }>(
  rows: R[],
  params: FormTree,
  url: string,
  render: (row: R) => unknown,
): unknown {
  const given = text(params, 'limit') ?? '10';
  const limit = Number(given);
  if (!Number.isInteger(limit) || limit < 1 || limit > 100) throw invalid(`Invalid limit: ${given}`, 'limit');
  const matching = rows.filter((row) => inWindow(row.created, params)).reverse();
  const after = text(params, 'starting_after');
  const at = after ? matching.findIndex((row) => row.id === after) : -1;
  if (after && at < 0) throw missing('object', after, 'starting_after', 400);
  const rest = matching.slice(at + 1);
  return {
    object: 'list',
    data: rest.slice(0, limit).map(render),
    has_more: rest.length > limit,
    url,
  };
}

function inWindow(created: number, params: FormTree): boolean {
  const exact = text(params, 'created');
  if (exact !== undefined) return created === Number(exact);
  const window = subtree(params, 'created');
  if (!window) return true;
  const bound = (name: string, otherwise: number): number => Number(text(window, name) ?? otherwise);
  return (
    created >= bound('gte', 0) &&
    created > bound('gt', -1) &&
    created <= bound('lte', Number.MAX_SAFE_INTEGER) &&
    created < bound('lt', Number.MAX_SAFE_INTEGER)
  );
}

function balance(bank: Bank): unknown {
  const sums = new Map<string, number>();
  for (const charge of bank.state.tables.charges.values()) {
    if (!charge.captured) continue;
    const net = charge.amountCaptured - charge.amountRefunded;
    sums.set(charge.currency, (sums.get(charge.currency) ?? 0) + net);
  }
  for (const { currency, withdrawn, reinstated } of bank.state.tables.disputes.values()) {
    if (!reinstated) sums.set(currency, (sums.get(currency) ?? 0) - withdrawn);
  }
  const amounts = [...sums].map(([currency, amount]) => ({
    amount,
    currency,
    source_types: { card: amount },
  }));
  return { object: 'balance', available: amounts, livemode: false, pending: [] };
}
