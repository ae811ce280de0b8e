import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { problemCodes } from '../core/problems.ts';
import type { Operation, SuccessStatus } from '../operate/operation.ts';
import type { Logger } from '../runtime/log.ts';
import { answerOf, createErrorHandler } from './errors.ts';
import { asksForProgress, progressType, sendProgress } from './progress-lines.ts';
import { idempotencyKey, refuseHostileText } from './request-checks.ts';
import { bodyLimit, validation } from './routes.ts';
import { IdempotencyHeaders, ProblemSchema } from './schemas.ts';

const tags = ['organiser'];
const security = [{ organiser: [] }];

/** Any operation, whatever it takes and returns. */
// biome-ignore lint/suspicious/noExplicitAny: parameters are contravariant, so no narrower type admits every operation
export type AnyOperation<Deps> = Operation<Deps, any, any, any, any>;

/**
 * Registers the route of each operation. The schemas validate the request and document the answer; an answer is written as
 * it is, so that a schema that misses a field loses nothing (a test compares the two).
 */
export function registerOperations<Deps>(
  app: FastifyInstance,
  operations: readonly AnyOperation<Deps>[],
  deps: Deps,
  how: Registration,
): void {
  for (const one of operations) {
    if (!one.upload) registerOperation(app, one, deps, how);
    else
      void app.register(async (scope) => {
        scope.removeAllContentTypeParsers();
        scope.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
        registerOperation(scope, one, deps, how);
      });
  }
}

interface Registration {
  actorOf(request: FastifyRequest): Promise<string>;
  log: Logger;
  /** For steps of an upload that no request asked for. */
  onProgress?: (step: string) => void;
}

function registerOperation<Deps>(
  app: FastifyInstance,
  one: AnyOperation<Deps>,
  deps: Deps,
  { actorOf, log, onProgress = () => {} }: Registration,
): void {
  const { params, query, body, status: usual = 200 } = one;
  app.route({
    method: one.method,
    url: `/api/organiser${one.path}`,
    ...(one.bodyLimit === undefined ? {} : { bodyLimit: one.bodyLimit }),
    schema: {
      operationId: one.id,
      tags,
      security,
      summary: one.summary,
      ...(one.description === undefined ? {} : { description: one.description }),
      ...(params ? { params } : {}),
      ...(query ? { querystring: query } : {}),
      ...(body ? { body: one.bodyOptional ? Type.Optional(Type.Union([body, Type.Null()])) : body } : {}),
      ...(one.requestKey ? { headers: keyHeaders[one.requestKey] } : {}),
      response: {
        ...Object.fromEntries((one.statuses ?? [usual]).map((code) => [code, successOf(one)])),
        '4xx': problemResponse(one.problems),
        '5xx': ProblemSchema,
      },
    },
    serializerCompiler: () => (data) => (one.file ? data : JSON.stringify(data)),
    ...(one.admit
      ? {
          onRequest: async (request: FastifyRequest) => {
            await actorOf(request);
            one.admit!(deps);
          },
        }
      : {}),
    async handler(request, reply: FastifyReply) {
      const actor = await actorOf(request);
      const file = request.body instanceof Uint8Array ? request.body : new Uint8Array();
      const input = {
        ...(request.params as object),
        ...(request.query as object),
        ...(one.upload ? {} : (request.body as object | null | undefined)),
      };
      const run = async (progress: (step: string) => void) => {
        let status: SuccessStatus = usual;
        const body = await one.run(deps, input, {
          actor,
          requestKey: () => idempotencyKey(request),
          status: (code) => {
            status = code;
          },
          file,
          progress,
        });
        return { status, body };
      };
      if (one.upload && asksForProgress(request)) return sendProgress(reply, run, log);
      const answer = await run(onProgress);
      if (one.file) {
        reply
          .header('content-type', one.file.type)
          .header('content-disposition', `attachment; filename="${one.file.name(input)}"`)
          .header('cache-control', 'no-store');
      }
      return reply.code(answer.status).send(answer.body);
    },
  });
}

const keyHeaders = { required: IdempotencyHeaders, optional: Type.Partial(IdempotencyHeaders) };

function successOf({ file, output, upload }: AnyOperation<never>) {
  if (upload) {
    const content = { 'application/json': { schema: output }, [progressType]: { schema: Type.String() } };
    return { description: 'The answer, or a line for each step and the answer in the last line', content };
  }
  return file ? { description: 'The file', content: { [file.type]: { schema: output } } } : output;
}

export function problemResponse(codes: readonly string[]) {
  return {
    description: codes.length === 0 ? 'A refused request' : `A refused request, such as ${codes.join(', ')}`,
    content: { 'application/problem+json': { schema: ProblemSchema } },
  };
}

interface InProcess<Deps> {
  deps: Deps;
  actor: string;
  /** The Idempotency-Key. */
  key: string;
  log: Logger;
  /** Its body, if it is an upload. */
  file?: Uint8Array;
  onProgress?: (step: string) => void;
}

/**
 * Runs one operation in process, through the same checks as a request, without listening. Returns the status and the JSON of
 * the answer; throws what is no refusal, such as a StoreFault. For the command line.
 */
export async function runOperation<Deps>(
  one: AnyOperation<Deps>,
  input: Record<string, unknown>,
  { deps, actor, key, log, file, onProgress }: InProcess<Deps>,
): Promise<{ status: number; body: unknown }> {
  const app = fastify({ bodyLimit: one.bodyLimit ?? bodyLimit, ajv: validation });
  try {
    const report = createErrorHandler(log);
    let fault: unknown;
    app.setErrorHandler((error, request, reply) => {
      if (problemCodes[answerOf(error).code].status >= 500) fault = error;
      return report(error, request, reply);
    });
    app.addHook('preValidation', refuseHostileText);
    registerOperations(app, [one], deps, { actorOf: async () => actor, log, onProgress });
    const { params, query, body } = one;
    const part = (schema: { properties: object } | undefined) =>
      Object.entries(input).filter(
        ([name, value]) => value !== undefined && schema !== undefined && name in schema.properties,
      );
    const path = part(params).reduce(
      (url, [name, value]) => url.replace(`:${name}`, encodeURIComponent(String(value))),
      `/api/organiser${one.path}`,
    );
    const answer = await app.inject({
      method: one.method,
      headers: { 'idempotency-key': key },
      url: path,
      query: Object.fromEntries(part(query).map(([name, value]) => [name, String(value)])),
      ...(file ? { payload: Buffer.from(file.buffer, file.byteOffset, file.byteLength) } : {}),
      ...(body ? { payload: Object.fromEntries(part(body)) } : {}),
    });
    if (fault) throw fault;
    const isText = one.file !== undefined && answer.statusCode < 400;
    return {
      status: answer.statusCode,
      body: isText ? answer.body : answer.body === '' ? null : JSON.parse(answer.body),
    };
  } finally {
    await app.close();
  }
}
