import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Bank, find, methodOf, type RequestMark } from './bank.ts';
import { type Faults, parseFault } from './faults.ts';
import { authenticate } from './intents.ts';
import type { Journal } from './journal.ts';
import { readLedger } from './ledger.ts';
import { authenticationPage, ledgerPage, messagePage } from './pages.ts';
import { settleRefunds } from './refunds.ts';
import type { IntentRow } from './rows.ts';
import type { JournalRecord, State } from './state.ts';
import type { Webhooks } from './webhooks.ts';

export interface SiteDeps {
  bank: Bank;
  state: State;
  mark: RequestMark;
  journal: Journal<JournalRecord>;
  faults: Faults;
  webhooks: Webhooks;
  stripeJs: Buffer;
}

export interface Site {
  handle(
    req: IncomingMessage,
    res: ServerResponse,
    path: string,
    query: URLSearchParams,
    body: string | null,
  ): Promise<void>;
}

/** What is not Stripe's API: the script, the bank's page, the ledger's page and the switches under `/_sim/`. */
export function createSite(deps: SiteDeps): Site {
  return {
    handle: async (req, res, path, query, body) => {
      // Nobody sees what is not yet on disk.
      await deps.journal.settled();
      if (body === null) return json(res, 413, { error: 'the body is too large' });
      const route = `${req.method} ${path}`;
      if (route === 'GET /') {
        return html(res, 200, ledgerPage(readLedger(deps.state), deps.faults.list()));
      }
      if (route === 'GET /v3/' || route === 'GET /v3') return script(res, deps.stripeJs);
      if (path.startsWith('/authenticate/')) return bankPage(deps, req, res, path, query, body);
      if (path.startsWith('/_sim/')) return control(deps, res, route, body);
      return html(res, 404, messagePage('Not found', 'The simulator has no such page.'));
    },
  };
}

async function bankPage(
  deps: SiteDeps,
  req: IncomingMessage,
  res: ServerResponse,
  path: string,
  query: URLSearchParams,
  body: string,
): Promise<void> {
  const form = req.method === 'POST' ? new URLSearchParams(body) : query;
  const intent = find(deps.bank, 'intents', path.slice('/authenticate/'.length));
  if (!intent || form.get('client_secret') !== intent.clientSecret) {
    return html(res, 404, messagePage('Not found', 'There is no such payment.'));
  }
  if (req.method === 'POST') {
    const answer = form.get('answer');
    if (answer !== 'authorise' && answer !== 'refuse') {
      return html(res, 400, messagePage('Not understood', 'Choose to authorise or to refuse.'));
    }
    deps.mark.requestId = null;
    deps.mark.key = null;
    return back(res, await commit(deps, () => authenticate(deps.bank, intent, answer === 'authorise')));
  }
  if (intent.status !== 'requires_action' || intent.method === null) return back(res, intent);
  return html(res, 200, authenticationPage(intent, methodOf(deps.bank, intent.method)));
}

/** Sends the buyer back as Stripe does; the parameters are a hint, the shop looks the payment up. */
function back(res: ServerResponse, intent: IntentRow): void {
  if (intent.returnUrl === null || !/^https?:/.test(intent.returnUrl)) {
    html(res, 200, messagePage('Done', `The payment is now: ${intent.status}.`));
    return;
  }
  const url = new URL(intent.returnUrl);
  const paid = intent.status === 'requires_capture' || intent.status === 'succeeded';
  url.searchParams.set('payment_intent', intent.id);
  url.searchParams.set('payment_intent_client_secret', intent.clientSecret);
  url.searchParams.set('redirect_status', paid ? 'succeeded' : 'failed');
  res.writeHead(303, { location: url.href, 'cache-control': 'no-store' }).end();
}

async function commit<T>(deps: SiteDeps, operation: () => T): Promise<T> {
  const result = operation();
  const puts = deps.state.take();
  if (puts.length > 0) await deps.journal.append({ puts });
  deps.webhooks.deliver(puts.flatMap((put) => (put.table === 'events' ? [put.row] : [])));
  return result;
}

async function control(deps: SiteDeps, res: ServerResponse, route: string, body: string): Promise<void> {
  switch (route) {
    case 'GET /_sim/ledger':
      return json(res, 200, readLedger(deps.state));
    case 'GET /_sim/faults':
      return json(res, 200, { faults: deps.faults.list() });
    case 'DELETE /_sim/faults':
      deps.faults.clear();
      return json(res, 200, { faults: [] });
    case 'POST /_sim/faults': {
      const fault = parseFault(parseJson(body));
      if (typeof fault === 'string') return json(res, 400, { error: fault });
      deps.faults.add(fault);
      return json(res, 201, fault);
    }
    case 'GET /_sim/webhooks':
      return json(res, 200, { waiting: deps.webhooks.waiting() });
    case 'POST /_sim/webhooks/release':
      return json(res, 200, { released: deps.webhooks.release() });
    case 'POST /_sim/webhooks/target': {
      const url = (parseJson(body) as { url?: unknown } | undefined)?.url;
      if (url !== null && (typeof url !== 'string' || !/^https?:\/\//.test(url))) {
        return json(res, 400, { error: 'url must be an http(s) URL or null' });
      }
      deps.webhooks.target(url);
      return json(res, 200, { url });
    }
    case 'POST /_sim/refunds/settle':
      return json(res, 200, {
        settled: (await commit(deps, () => settleRefunds(deps.bank))).map((row) => row.id),
      });
    default:
      return json(res, 404, { error: 'no such switch' });
  }
}

function parseJson(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

function json(res: ServerResponse, status: number, value: unknown): void {
  res
    .writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' })
    .end(JSON.stringify(value));
}

function html(res: ServerResponse, status: number, page: string): void {
  res
    .writeHead(status, {
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    })
    .end(page);
}

function script(res: ServerResponse, source: Buffer): void {
  res
    .writeHead(200, {
      'content-type': 'application/javascript; charset=utf-8',
      'cache-control': 'no-cache',
      'access-control-allow-origin': '*',
      'cross-origin-resource-policy': 'cross-origin',
    })
    .end(source);
}
