import type { FastifyReply, FastifyRequest } from 'fastify';
import { problem } from './errors.ts';

const safeMethods = new Set(['GET', 'HEAD', 'OPTIONS']);

/**
 * Against requests that another site's page makes with our visitor's cookies: browsers send `Origin` with each request
 * that changes something. Clients that are no browsers send none, and bring no foreign cookies either.
 */
export function refuseOtherSites(publicUrl: () => string) {
  return async (request: FastifyRequest): Promise<void> => {
    const { origin, host } = request.headers;
    if (origin === undefined || safeMethods.has(request.method)) return;
    const from = URL.canParse(origin) ? new URL(origin) : undefined;
    if (from && (from.host === host || from.origin === new URL(publicUrl()).origin)) return;
    throw problem('origin_refused');
  };
}

/** Deeper than any body of ours. */
const depthMax = 8;
/** NUL and halves of surrogate pairs: no store takes them, and no person types them. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: NUL is what is looked for.
const unstorable = /[\u0000\p{Surrogate}]/u;

/** Text that Postgres cannot store is refused here, before any route sees it. Plans are checked by their importer. */
export async function refuseHostileText(request: FastifyRequest, _reply: FastifyReply): Promise<void> {
  if (typeof request.body === 'object' && request.body !== null && !Buffer.isBuffer(request.body)) {
    check(request.body, '', request.routeOptions.config.deepBody === true ? 64 : depthMax);
  }
  check(request.params, '', depthMax);
  check(request.query, '', depthMax);
}

function check(value: unknown, path: string, depth: number): void {
  if (typeof value === 'string') {
    if (unstorable.test(value)) {
      throw problem('invalid_field', {
        field: path || '/',
        detail: 'This text holds characters that cannot be stored.',
      });
    }
    return;
  }
  if (typeof value !== 'object' || value === null) return;
  if (depth === 0) throw problem('invalid_field', { field: path, detail: 'The body is nested too deeply.' });
  for (const [name, child] of Object.entries(value)) {
    if (unstorable.test(name)) throw problem('invalid_field', { field: path || '/' });
    check(child, `${path}/${name}`, depth - 1);
  }
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
