import { createHash } from 'node:crypto';
import type { Clock } from '../src/runtime/clock.ts';
import type { Logger } from '../src/runtime/log.ts';
import { ApiError, FAULT_ERRORS, internalError, keyInUse, keyMismatch } from './api-error.ts';
import { type Bank, find, type RequestMark } from './bank.ts';
import type { Verdict } from './fault-kinds.ts';
import type { FaultSubject, Faults, Struck } from './faults.ts';
import { type FormTree, subtree, text } from './form.ts';
import type { Journal } from './journal.ts';
import type { RateLimit } from './rate-limit.ts';
import { checkParams, matchRoute, type Route } from './routes.ts';
import type { EventRow, KeyRow } from './rows.ts';
import type { JournalRecord, Put, State } from './state.ts';

export interface ApiRequest {
  requestId: string;
  method: string;
  path: string;
  params: FormTree | null;
  /** The bearer's token. */
  secret: string | null;
  /** The Idempotency-Key header. */
  key: string | null;
}

export type ApiAnswer =
  | { kind: 'answer'; status: number; body: string; headers: Record<string, string> }
  /** Close the connection within this answer's body. */
  | { kind: 'cut'; status: number; body: string; headers: Record<string, string> }
  /** Close the connection and say nothing. */
  | { kind: 'drop' };

interface Done {
  status: number;
  body: string;
  stored: boolean;
  headers: Record<string, string>;
  /** Resolves once the webhooks of what was done have been tried. */
  sent?: Promise<void>;
}

export interface ApiDeps {
  bank: Bank;
  state: State;
  mark: RequestMark;
  journal: Journal<JournalRecord>;
  faults: Faults;
  clock: Clock;
  log: Logger;
  secretKey: string;
  publishableKey: string;
  rateLimit: RateLimit;
  /** Resolves once each of them that is to be delivered at once has been tried. */
  onEvents(events: EventRow[]): Promise<void>;
}

/** Keys may be dropped once they are 24 hours old; then the same key is a new operation. */
const KEY_LIFE_MS = 24 * 3600 * 1000;
const KEY_LENGTH_MAX = 255;
/** For a 500 that its key will replay: repeating the request is useless (see `_shouldRetry` in the SDK). */
const NO_RETRY = { 'stripe-should-retry': 'false' };

/** Answers requests under `/v1/`: authentication, faults, idempotency, the operation, the journal. */
export function createApi(deps: ApiDeps): { handle(request: ApiRequest): Promise<ApiAnswer> } {
  const { state, journal, faults, log } = deps;
  const running = new Set<string>();

  const handle = async (request: ApiRequest): Promise<ApiAnswer> => {
    let headers: Record<string, string> = {};
    try {
      deps.rateLimit.take();
      const { route, id, params } = admit(request, deps);
      const struck = faults.strike('request', subjectOf(deps.bank, request, route, id, params));
      headers = struck.headers();
      return withHeaders(await respond(request, route, id, params, struck), headers);
    } catch (fault) {
      if (fault instanceof ApiError) return withHeaders(answer(fromError(fault)), headers);
      log.error({ err: fault, path: request.path }, 'simulator: request failed');
      return answer(fromError(internalError()));
    }
  };

  const respond = async (
    request: ApiRequest,
    route: Route,
    id: string,
    params: FormTree,
    struck: Struck,
  ): Promise<ApiAnswer> => {
    const early = instead(await struck.arrive(), request);
    if (early) return early;
    return request.method === 'POST' && request.key
      ? keyed(request, request.key, route, id, params, struck)
      : leave(await execute(request, route, id, params, null, struck), request, struck);
  };

  const keyed = async (
    request: ApiRequest,
    key: string,
    route: Route,
    id: string,
    params: FormTree,
    struck: Struck,
  ): Promise<ApiAnswer> => {
    if (running.has(key)) throw keyInUse(key);
    const fingerprint = digest(route, id, params);
    const known = state.keys.get(key);
    if (known && deps.clock.now() - known.at < KEY_LIFE_MS) {
      if (known.fingerprint !== fingerprint) throw keyMismatch(key);
      const { status, body } = known;
      await journal.settled();
      const again = { 'idempotent-replayed': 'true', ...(status >= 500 && NO_RETRY) };
      const replay = { status, body, stored: true, headers: again };
      return leave(replay, request, struck);
    }
    running.add(key);
    try {
      const done = await execute(request, route, id, params, { key, fingerprint }, struck);
      return await leave(done, request, struck);
    } finally {
      running.delete(key);
    }
  };

  /** Runs the operation and writes everything to disk, including the key's response, before any client sees it. */
  const execute = async (
    request: ApiRequest,
    route: Route,
    id: string,
    params: FormTree,
    key: Pick<KeyRow, 'key' | 'fingerprint'> | null,
    struck: Struck,
  ): Promise<Done> => {
    const done = run(request, route, id, params, struck);
    const puts = state.take();
    const keyRow: KeyRow | undefined =
      key && done.stored ? { ...key, at: deps.clock.now(), status: done.status, body: done.body } : undefined;
    if (keyRow) state.keys.set(keyRow.key, keyRow);
    if (puts.length > 0 || keyRow) await journal.append({ puts, ...(keyRow && { key: keyRow }) });
    else await journal.settled();
    return { ...done, sent: deps.onEvents(eventsOf(puts)) };
  };

  const run = (request: ApiRequest, route: Route, id: string, params: FormTree, struck: Struck): Done => {
    const replace = struck.replace();
    const lost: Done = { ...fromError(internalError()), stored: true, headers: NO_RETRY };
    if (replace === 'work') return lost;
    deps.mark.requestId = request.requestId;
    deps.mark.key = request.key;
    deps.mark.manner = struck.manner();
    let done: Done;
    try {
      const object = route.run(deps.bank, params, id);
      done = { status: 200, body: JSON.stringify(object), stored: true, headers: {} };
    } catch (fault) {
      if (!(fault instanceof ApiError)) {
        state.discard();
        throw fault;
      }
      if (!fault.stored) state.discard();
      done = fromError(fault);
    }
    // Only what was executed can be lost behind a 500.
    return replace === 'answer' && done.stored ? lost : done;
  };

  return { handle };
}

function admit(request: ApiRequest, deps: ApiDeps): { route: Route; id: string; params: FormTree } {
  const matched = matchRoute(request.method, request.path);
  if (request.secret !== deps.secretKey) {
    const isPublic = matched?.route.public === true && request.secret === deps.publishableKey;
    if (!isPublic) throw unauthorised(request.secret);
  }
  if (!matched) {
    throw new ApiError(404, {
      type: 'invalid_request_error',
      message: `Unrecognized request URL (${request.method}: ${request.path}).`,
    });
  }
  if (request.params === null) {
    throw new ApiError(400, { type: 'invalid_request_error', message: 'The parameters cannot be read.' });
  }
  if (request.key !== null && request.key.length > KEY_LENGTH_MAX) {
    throw new ApiError(400, {
      type: 'idempotency_error',
      message: `Idempotency keys have at most ${KEY_LENGTH_MAX} characters.`,
    });
  }
  checkParams(matched.route, request.params);
  return { ...matched, params: request.params };
}

function subjectOf(
  bank: Bank,
  request: ApiRequest,
  route: Route,
  id: string,
  params: FormTree,
): FaultSubject {
  const intentId = route.name.startsWith('payment_intents.') ? id : text(params, 'payment_intent');
  const intent = intentId ? find(bank, 'intents', intentId) : undefined;
  const token = text(params, 'confirmation_token');
  const named = token ? find(bank, 'tokens', token)?.method : text(params, 'payment_method');
  const charged = intent?.latestCharge ? find(bank, 'charges', intent.latestCharge)?.method : undefined;
  const methodId = named ?? intent?.method ?? charged;
  const method = methodId ? find(bank, 'methods', methodId)?.card : undefined;
  return {
    route: route.name,
    key: request.key ?? undefined,
    intent: intentId || undefined,
    // A payment that is just being created brings it along.
    reference: intent?.metadata.order ?? text(subtree(params, 'metadata') ?? {}, 'order'),
    card: method ?? methodId?.replace(/^pm_card_/, ''),
    event: undefined,
  };
}

async function leave(done: Done, request: ApiRequest, struck: Struck): Promise<ApiAnswer> {
  const verdict = await struck.leave(done.sent);
  if (verdict === 'cut') return { ...answer(done), kind: 'cut' };
  return instead(verdict, request) ?? answer(done);
}

/** Returns the response that the verdict substitutes. Null if it substitutes none. */
function instead(verdict: Verdict | null, request: ApiRequest): ApiAnswer | null {
  if (verdict === null) return null;
  if (verdict === 'drop') return { kind: 'drop' };
  if (!Object.hasOwn(FAULT_ERRORS, verdict)) return null;
  return answer(fromError(FAULT_ERRORS[verdict as keyof typeof FAULT_ERRORS](request.key ?? '')));
}

function withHeaders(given: ApiAnswer, headers: Record<string, string>): ApiAnswer {
  return given.kind === 'drop' ? given : { ...given, headers: { ...given.headers, ...headers } };
}

function answer(done: Done): ApiAnswer & { kind: 'answer' } {
  return { kind: 'answer', status: done.status, body: done.body, headers: done.headers };
}

function fromError(fault: ApiError): Done {
  return {
    status: fault.status,
    body: JSON.stringify({ error: fault.error }),
    stored: fault.stored,
    headers: fault.headers,
  };
}

function unauthorised(secret: string | null): ApiError {
  const message = secret
    ? `Invalid API Key provided: ${secret.slice(0, 3)}***`
    : 'You did not provide an API key.';
  return new ApiError(401, { type: 'invalid_request_error', message });
}

function digest(route: Route, id: string, params: FormTree): string {
  return createHash('sha256')
    .update(JSON.stringify([route.name, id, sorted(params)]))
    .digest('base64url');
}

function sorted(value: FormTree | string): unknown {
  if (typeof value === 'string') return value;
  return Object.keys(value)
    .sort()
    .map((name) => [name, sorted(value[name] ?? '')]);
}

function eventsOf(puts: Put[]): EventRow[] {
  return puts.flatMap((put) => (put.table === 'events' ? [put.row] : []));
}
