import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { linePattern } from '../core/line.ts';
import { Problem, type ProblemCode, type ProblemOptions, problemCodes } from '../core/problems.ts';
import type { Logger } from '../runtime/log.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import type { Problem as ProblemDocument } from './api-types.ts';

export function problemDocument(code: ProblemCode, options: ProblemOptions = {}): ProblemDocument {
  const { status, title, advice } = problemCodes[code];
  return {
    type: `/errors#${code}`,
    title,
    status,
    code,
    detail: options.detail ?? advice,
    ...(options.field === undefined ? {} : { field: options.field }),
    ...(options.retryAfterMs === undefined ? {} : { retryAfterMs: Math.ceil(options.retryAfterMs) }),
    ...options.extra,
  };
}

export function sendProblem(
  reply: FastifyReply,
  code: ProblemCode,
  options: ProblemOptions = {},
): FastifyReply {
  if (options.retryAfterMs !== undefined) {
    reply.header('retry-after', String(Math.max(1, Math.ceil(options.retryAfterMs / 1000))));
  }
  return reply
    .code(problemCodes[code].status)
    .header('cache-control', 'no-store')
    .header('content-type', 'application/problem+json')
    .serializer((text: unknown) => text as string)
    .send(JSON.stringify(problemDocument(code, options)));
}

/** Errors that fastify and node raise before a handler runs. */
const frameworkCodes: Record<string, ProblemCode> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupported_media_type',
  FST_ERR_CTP_BODY_TOO_LARGE: 'body_too_large',
  FST_ERR_CTP_INVALID_JSON_BODY: 'invalid_json',
  FST_ERR_CTP_EMPTY_JSON_BODY: 'invalid_json',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'invalid_request',
  FST_ERR_BAD_URL: 'invalid_request',
  FST_ERR_MAX_PARAM_LENGTH: 'uri_too_long',
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

const storeCodes: Record<StoreFault['code'], { code: ProblemCode; retryAfterMs: number }> = {
  store_unavailable: { code: 'unavailable', retryAfterMs: 3_000 },
  store_busy: { code: 'busy', retryAfterMs: 1_000 },
  outcome_unknown: { code: 'outcome_unknown', retryAfterMs: 1_000 },
};

/** One answer for everything that was thrown. Only what we did not foresee is a 500: an assertion, a bug. */
export function answerOf(error: unknown): { code: ProblemCode; options: ProblemOptions } {
  if (error instanceof Problem) return { code: error.code, options: error.options };
  if (error instanceof StoreFault) {
    const { code, retryAfterMs } = storeCodes[error.code];
    return { code, options: { retryAfterMs } };
  }
  const { code = '', validation, validationContext, statusCode } = error as Partial<FastifyError>;
  // The idempotency key is the only header that a schema requires.
  if (validation && validationContext === 'headers')
    return { code: 'idempotency_key_required', options: { field: 'Idempotency-Key' } };
  if (validation) return { code: 'invalid_field', options: fieldOf(validation, validationContext) };
  const known = frameworkCodes[code];
  if (known) return { code: known, options: {} };
  if (error instanceof SyntaxError && statusCode === 400) return { code: 'invalid_json', options: {} };
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return { code: 'invalid_request', options: {} };
  }
  return { code: 'internal', options: {} };
}

const lineWords = 'has to be one line of text: no line ends, no control characters, not only blanks';

/** The allowed values of a field with an enumeration. Null for other fields. */
function choiceWords(validation: NonNullable<FastifyError['validation']>): string | null {
  const [first] = validation;
  if (first?.keyword !== 'const' && first?.keyword !== 'enum') return null;
  const values = validation
    .filter(({ instancePath }) => instancePath === first.instancePath)
    .flatMap(({ keyword, params }): unknown[] => {
      if (keyword === 'const') return [params.allowedValue];
      if (keyword === 'enum') return params.allowedValues as unknown[];
      return keyword === 'type' && params.type === 'null' ? [null] : [];
    })
    .map((value) => JSON.stringify(value));
  const last = values.pop();
  return `has to be ${values.length === 0 ? last : `${values.join(', ')} or ${last}`}`;
}

function fieldOf(
  validation: NonNullable<FastifyError['validation']>,
  context: string | undefined,
): ProblemOptions {
  const [first] = validation;
  if (!first) return {};
  const missing = first.params?.missingProperty;
  const place = typeof missing === 'string' ? `${first.instancePath}/${missing}` : first.instancePath;
  const field = context === 'body' || context === undefined ? place || '/' : place.replace(/^\//, '');
  const said = first.params?.pattern === linePattern ? lineWords : (choiceWords(validation) ?? first.message);
  const what = typeof missing === 'string' ? 'is missing' : (said ?? 'is not valid');
  return { field, detail: `${context === 'body' ? 'The body field' : 'The parameter'} ${field} ${what}.` };
}

export function createErrorHandler(log: Logger) {
  return (error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const { code, options } = answerOf(error);
    const { status } = problemCodes[code];
    if (status === 500) log.error({ err: error, route: request.routeOptions?.url }, 'request failed');
    else if (status === 503) log.warn({ reason: (error as Error).message }, code);
    return sendProblem(reply, code, options);
  };
}
