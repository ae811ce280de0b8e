import type { IncomingMessage, ServerResponse } from 'node:http';
import { ApiError } from './api-error.ts';
import { type Bank, find, methodOf, type RequestMark } from './bank.ts';
import { decideDispute, OUTCOMES, type Outcome, openDispute } from './disputes.ts';
import { type FaultSwitch, type Faults, faultFromForm, parseFault } from './faults.ts';
import { authenticate, expireIfDue } from './intents.ts';
import type { Journal } from './journal.ts';
import { readLedger, readLedgerOf } from './ledger.ts';
import { authenticationPage, ledgerPage, messagePage, type Switches } from './pages.ts';
import type { RateLimit } from './rate-limit.ts';
import { createRefund, settleRefunds } from './refunds.ts';
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
  rateLimit: RateLimit;
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

/** The parts that are not Stripe's API: the script, the bank's page, the ledger's page and the switches under `/_sim/`. */
export function createSite(deps: SiteDeps): Site {
  return {
    handle: async (req, res, path, query, body) => {
      if (body === null) return json(res, 413, { error: 'the body is too large' });
      const route = `${req.method} ${path}`;
      if (route === 'GET /') {
        await settleDue(deps);
        const page = ledgerPage(readLedger(deps.state), switches(deps));
        await deps.journal.settled();
        return html(res, 200, page);
      }
      if (route === 'GET /v3/' || route === 'GET /v3') return script(res, deps.stripeJs);
      if (path.startsWith('/authenticate/')) return bankPage(deps, req, res, path, query, body);
      if (path.startsWith('/_sim/')) {
        // A page elsewhere could make a browser post its form here.
        if (req.headers['sec-fetch-site'] === 'cross-site')
          return json(res, 403, { error: 'from another site' });
        return isForm(req, body)
          ? formControl(deps, res, path, new URLSearchParams(body))
          : control(deps, res, route, query, body);
      }
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
  const answering = req.method === 'POST';
  const form = answering ? new URLSearchParams(body) : query;
  const intent = find(deps.bank, 'intents', path.slice('/authenticate/'.length));
  await deps.journal.settled();
  if (!intent || form.get('client_secret') !== intent.clientSecret) {
    return html(res, 404, messagePage('Not found', 'There is no such payment.'));
  }
  const struck = deps.faults.strike('page', {
    route: answering ? 'authenticate' : 'authenticate.show',
    card: intent.method ? methodOf(deps.bank, intent.method).card : undefined,
    key: undefined,
    intent: intent.id,
    reference: intent.metadata.order,
    event: undefined,
  });
  const verdict = await struck.arrive();
  if (verdict === 'drop') return void req.socket.resetAndDestroy();
  if (verdict === 'abandon') return html(res, 200, messagePage('Closed', 'The window was closed.'));
  if (answering) {
    const answer = form.get('answer');
    if (answer !== 'authorise' && answer !== 'refuse') {
      return html(res, 400, messagePage('Not understood', 'Choose to authorise or to refuse.'));
    }
    return back(res, await commit(deps, () => authenticateNow(deps, intent.id, answer === 'authorise')));
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

/** Reads the intent again, because a fault may have delayed the answer. */
function authenticateNow(deps: SiteDeps, id: string, accepted: boolean): IntentRow {
  const intent = find(deps.bank, 'intents', id);
  if (!intent) throw new Error(`${id} is gone`);
  return authenticate(deps.bank, intent, accepted);
}

type CommitDeps = Pick<SiteDeps, 'bank' | 'state' | 'mark' | 'journal' | 'webhooks'>;

/** Runs what no request of the API asked for; resolves with its result once it is on disk. */
async function commit<T>(deps: CommitDeps, operation: () => T): Promise<T> {
  deps.mark.requestId = null;
  deps.mark.key = null;
  deps.mark.manner = {};
  const result = wholly(deps.state, operation);
  const puts = deps.state.take();
  if (puts.length > 0) await deps.journal.append({ puts });
  void deps.webhooks.deliver(puts.flatMap((put) => (put.table === 'events' ? [put.row] : [])));
  return result;
}

function wholly<T>(state: State, operation: () => T): T {
  try {
    return operation();
  } catch (fault) {
    state.discard();
    throw fault;
  }
}

/** Executes what is due: reservations end, refunds arrive or fail. */
export async function settleDue(deps: CommitDeps): Promise<void> {
  await commit(deps, () => {
    for (const intent of deps.state.tables.intents.values()) expireIfDue(deps.bank, intent);
    settleRefunds(deps.bank, 'due');
  });
}

function switches(deps: SiteDeps): Switches {
  return {
    faults: deps.faults.list(),
    struck: deps.faults.struck(),
    webhooksWaiting: deps.webhooks.waiting(),
  };
}

/** `curl -d` sends JSON under this type too. */
function isForm(req: IncomingMessage, body: string): boolean {
  const type = req.headers['content-type'] ?? '';
  return type.startsWith('application/x-www-form-urlencoded') && !body.startsWith('{');
}

/** The page's buttons: the same switches, with the page as the response. */
async function formControl(
  deps: SiteDeps,
  res: ServerResponse,
  path: string,
  form: URLSearchParams,
): Promise<void> {
  switch (path) {
    case '/_sim/faults': {
      const fault: FaultSwitch | string = faultFromForm(form);
      if (typeof fault === 'string') return html(res, 400, messagePage('Not understood', fault));
      deps.faults.add(fault);
      break;
    }
    case '/_sim/faults/off': {
      const id = form.get('id');
      if (id === null) deps.faults.clear();
      else deps.faults.remove(id);
      break;
    }
    case '/_sim/webhooks/release':
      deps.webhooks.release();
      break;
    case '/_sim/refunds/settle':
      await commit(deps, () => settleRefunds(deps.bank, 'all'));
      break;
    case '/_sim/refunds':
    case '/_sim/disputes':
    case '/_sim/disputes/decide': {
      const refusal = await byHand(
        deps,
        path,
        Object.fromEntries([...form].filter(([, value]) => value !== '')),
      );
      if (typeof refusal === 'string') return html(res, 400, messagePage('Not possible', refusal));
      break;
    }
    default:
      return html(res, 404, messagePage('Not found', 'The simulator has no such switch.'));
  }
  res.writeHead(303, { location: '/', 'cache-control': 'no-store' }).end();
}

/**
 * Actions of an organiser on Stripe's own pages, and of a buyer's bank: a refund without our key or metadata, a dispute, its
 * end. Returns the row, or the sentence that says why it is not possible.
 */
async function byHand(
  deps: SiteDeps,
  path: string,
  given: Record<string, unknown>,
): Promise<{ id: string; status: string } | string> {
  const { intent: id = '', amount, reason, inquiry, dispute = '', outcome } = given;
  const sum = amount === undefined ? undefined : Number(amount);
  const found = find(deps.bank, 'intents', String(id));
  try {
    return await commit(deps, () => {
      if (path === '/_sim/disputes/decide') {
        if (!OUTCOMES.includes(outcome as Outcome)) throw new ApiError(400, notUnderstood(OUTCOMES));
        return decideDispute(deps.bank, String(dispute), outcome as Outcome);
      }
      if (!found) throw new ApiError(404, notUnderstood(['the id of a payment intent']));
      if (path === '/_sim/refunds') {
        return createRefund(deps.bank, {
          payment_intent: found.id,
          ...(sum !== undefined && { amount: String(sum) }),
        });
      }
      return openDispute(deps.bank, found, {
        amount: sum,
        ...(typeof reason === 'string' && { reason }),
        inquiry: inquiry === true || inquiry === 'on',
      });
    });
  } catch (fault) {
    if (!(fault instanceof ApiError)) throw fault;
    return fault.message;
  }
}

function notUnderstood(expected: readonly string[]): { type: 'invalid_request_error'; message: string } {
  return { type: 'invalid_request_error', message: `Expected ${expected.join(', ')}.` };
}

async function control(
  deps: SiteDeps,
  res: ServerResponse,
  route: string,
  query: URLSearchParams,
  body: string,
): Promise<void> {
  if (route.startsWith('DELETE /_sim/faults/')) {
    const removed = deps.faults.remove(route.slice('DELETE /_sim/faults/'.length));
    return json(res, removed ? 200 : 404, { faults: deps.faults.list() });
  }
  switch (route) {
    case 'GET /_sim/ledger': {
      await settleDue(deps);
      const of = query.get('of');
      const ledger = of === null ? readLedger(deps.state) : readLedgerOf(deps.state, of);
      // Data that is not on disk yet must not be visible: reads first, and then waits for what was read.
      await deps.journal.settled();
      return json(res, 200, ledger);
    }
    case 'GET /_sim/faults':
      return json(res, 200, { faults: deps.faults.list(), struck: deps.faults.struck() });
    case 'DELETE /_sim/faults':
      deps.faults.clear();
      return json(res, 200, { faults: [] });
    case 'POST /_sim/faults': {
      const fault = parseFault(parseJson(body));
      if (typeof fault === 'string') return json(res, 400, { error: fault });
      return json(res, 201, { ...fault, id: deps.faults.add(fault) });
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
    case 'POST /_sim/refunds':
    case 'POST /_sim/disputes':
    case 'POST /_sim/disputes/decide': {
      const given = parseJson(body);
      const done = await byHand(
        deps,
        route.slice('POST '.length),
        typeof given === 'object' && given !== null ? (given as Record<string, unknown>) : {},
      );
      if (typeof done === 'string') return json(res, 400, { error: done });
      return json(res, 201, { id: done.id, status: done.status });
    }
    case 'POST /_sim/rate-limit': {
      const perSecond = (parseJson(body) as { perSecond?: unknown } | undefined)?.perSecond;
      if (perSecond !== null && !(typeof perSecond === 'number' && perSecond >= 1)) {
        return json(res, 400, { error: 'perSecond must be a number from 1 on, or null' });
      }
      deps.rateLimit.set(perSecond);
      return json(res, 200, { perSecond });
    }
    case 'POST /_sim/refunds/settle':
      return json(res, 200, {
        settled: (await commit(deps, () => settleRefunds(deps.bank, 'all'))).map((row) => row.id),
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
