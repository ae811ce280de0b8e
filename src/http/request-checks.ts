import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify';
import { type Problem, problem } from '../core/problems.ts';

const safeMethods = new Set(['GET', 'HEAD', 'OPTIONS']);

/**
 * Against requests that another site's page makes with our visitor's cookies: browsers send `Origin` with each request
 * that changes something. Clients that are no browsers send none, and bring no foreign cookies either.
 */
export function refuseOtherSites(publicUrl: () => string) {
  const ours = ({ method, headers: { origin, host } }: FastifyRequest): boolean => {
    if (origin === undefined || safeMethods.has(method)) return true;
    const from = URL.canParse(origin) ? new URL(origin) : undefined;
    return from !== undefined && (from.host === host || from.origin === new URL(publicUrl()).origin);
  };
  return (request: FastifyRequest, _reply: FastifyReply, done: HookHandlerDoneFunction): void =>
    done(ours(request) ? undefined : problem('origin_refused'));
}

/** Deeper than any body of ours. */
const depthMax = 8;
/**
 * NUL and halves of surrogate pairs, which no store takes, and marks that turn the order of what follows them on a page or
 * ticket: no person types them.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: NUL is what is looked for.
const unstorable = /[\u0000\u202a-\u202e\u2066-\u2069\p{Surrogate}]/u;

/** Text that Postgres cannot store is refused here, before any route sees it. Plans are checked by their importer. */
export function refuseHostileText(
  request: FastifyRequest,
  _reply: FastifyReply,
  done: HookHandlerDoneFunction,
): void {
  const { body, params, query, routeOptions } = request;
  const depth = routeOptions.config.deepBody === true ? 64 : depthMax;
  const inBody = typeof body === 'object' && !Buffer.isBuffer(body) ? refusalOf(body, '', depth) : null;
  done(inBody ?? refusalOf(params, '', depthMax) ?? refusalOf(query, '', depthMax) ?? undefined);
}

function refusalOf(value: unknown, path: string, depth: number): Problem | null {
  if (typeof value === 'string') {
    if (!unstorable.test(value)) return null;
    const detail =
      'This text holds characters that are not taken: NUL, halves of characters, or marks that turn the direction of text.';
    return problem('invalid_field', { field: path || '/', detail });
  }
  if (typeof value !== 'object' || value === null) return null;
  if (depth === 0) return problem('invalid_field', { field: path, detail: 'The body is nested too deeply.' });
  for (const [name, child] of Object.entries(value)) {
    const refusal = unstorable.test(name)
      ? problem('invalid_field', { field: path || '/' })
      : refusalOf(child, `${path}/${name}`, depth - 1);
    if (refusal) return refusal;
  }
  return null;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The body may be nested deeply: seating plans. */
    deepBody?: boolean;
  }
}

const keyForm = /^[\x21-\x7e](?:[\x20-\x7e]{0,198}[\x21-\x7e])?$/;

/** The header that makes a repeat safe; 1 to 200 printable characters. */
export function idempotencyKey(request: { headers: Record<string, unknown> }): string {
  const key = request.headers['idempotency-key'];
  if (key === undefined || key === '')
    throw problem('idempotency_key_required', { field: 'Idempotency-Key' });
  if (typeof key !== 'string' || !keyForm.test(key)) {
    throw problem('invalid_field', {
      field: 'Idempotency-Key',
      detail: 'Idempotency-Key has to be 1 to 200 printable ASCII characters.',
    });
  }
  return key;
}
