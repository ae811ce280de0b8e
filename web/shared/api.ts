import type { Problem } from '../../src/http/api-types.ts';
import { pause, serverClock } from './clock.ts';

/** The result of an API call. `lost` means that it is unknown what the server did. */
export type Answer<T> =
  | { kind: 'ok'; status: number; body: T }
  | { kind: 'problem'; problem: Problem }
  | { kind: 'lost' };

export interface Call {
  method?: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  body?: unknown;
  /** Idempotency-Key; a retry repeats it. */
  key?: string;
  /** An order's own secret, for browsers without the visitor's cookie. */
  secret?: string | null;
  signal?: AbortSignal;
  /** 15 s unless the work takes longer. */
  timeoutMs?: number;
}

const timeoutMsDefault = 15_000;
const backoffMs = [500, 1000, 2000, 4000, 8000];

/** One try. */
export async function call<T>(path: string, options: Call = {}): Promise<Answer<T>> {
  const headers: Record<string, string> = { accept: 'application/json' };
  if (options.body !== undefined) headers['content-type'] = 'application/json';
  if (options.key) headers['idempotency-key'] = options.key;
  if (options.secret) headers.authorization = `Bearer ${options.secret}`;
  const timeout = AbortSignal.timeout(options.timeoutMs ?? timeoutMsDefault);
  try {
    const response = await fetch(path, {
      method: options.method ?? 'GET',
      headers,
      credentials: 'same-origin',
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
      signal: options.signal ? AbortSignal.any([options.signal, timeout]) : timeout,
    });
    return await read<T>(response);
  } catch {
    return { kind: 'lost' };
  }
}

async function read<T>(response: Response): Promise<Answer<T>> {
  const text = await response.text();
  try {
    return answerOf<T>(response.status, text === '' ? null : JSON.parse(text));
  } catch {
    return { kind: 'lost' };
  }
}

/** Maps a status and a parsed body to a result. */
export function answerOf<T>(status: number, body: unknown): Answer<T> {
  const serverTime = (body as { serverTime?: string | number } | null)?.serverTime;
  if (serverTime !== undefined) {
    serverClock.sample(typeof serverTime === 'number' ? serverTime : Date.parse(serverTime));
  }
  if (status >= 200 && status < 300) return { kind: 'ok', status, body: body as T };
  const problem = body as Problem | null;
  if (problem && typeof problem.code === 'string') return { kind: 'problem', problem };
  if (status >= 500) return { kind: 'lost' };
  return {
    kind: 'problem',
    problem: { type: 'about:blank', title: '', status, code: 'unexpected', detail: '' },
  };
}

/** Codes that ask for the very same request again after a while. */
const retryCodes = ['too_many_requests', 'too_many_joins', 'request_timeout'];

export interface Persistence {
  /** Called on each failed try with the refusal if there was one, and with 0 once an answer came. */
  onTrouble?: (tries: number, problem?: Problem) => void;
  /** Gives up after this many tries. Undefined means never. */
  triesMax?: number;
  /** Codes that are an answer here and are not tried again. */
  answers?: string[];
}

/**
 * Asks until an answer comes: lost connections, server faults and "try again" are repeated with the same key, so that a
 * request whose answer was lost is never done twice.
 */
export async function persist<T>(path: string, options: Call, how: Persistence = {}): Promise<Answer<T>> {
  for (let tries = 1; ; tries++) {
    const answer = await call<T>(path, options);
    const again =
      answer.kind === 'lost' ||
      (answer.kind === 'problem' &&
        !how.answers?.includes(answer.problem.code) &&
        (retryCodes.includes(answer.problem.code) || answer.problem.status >= 500));
    if (!again || options.signal?.aborted || tries >= (how.triesMax ?? Number.POSITIVE_INFINITY)) {
      if (!again) how.onTrouble?.(0);
      return answer;
    }
    how.onTrouble?.(tries, answer.kind === 'problem' ? answer.problem : undefined);
    const asked = answer.kind === 'problem' ? answer.problem.retryAfterMs : undefined;
    const wait = asked ?? backoffMs[Math.min(tries - 1, backoffMs.length - 1)]!;
    await pause(Math.min(Math.max(wait, 250), 30_000) * (0.85 + Math.random() * 0.3), options.signal);
  }
}

/** Bytes with their version, for availability bits; null when they cannot be had now. */
export async function bits(
  path: string,
  signal: AbortSignal,
): Promise<{ version: [number, number]; layout: string; bytes: Uint8Array } | null> {
  try {
    const response = await fetch(path, { signal, credentials: 'omit' });
    if (!response.ok) return null;
    const [term = 0, count = 0] = (response.headers.get('x-onsale-version') ?? '').split('.').map(Number);
    return {
      version: [term, count],
      layout: response.headers.get('x-onsale-layout') ?? '',
      bytes: new Uint8Array(await response.arrayBuffer()),
    };
  } catch {
    return null;
  }
}

/** Versions are (term, count), compared in that order. */
export function isNewer(a: readonly [number, number], b: readonly [number, number] | null): boolean {
  return b === null || a[0] > b[0] || (a[0] === b[0] && a[1] > b[1]);
}
