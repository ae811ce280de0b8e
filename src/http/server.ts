import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import cookie from '@fastify/cookie';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import fastify, { type FastifyHttpOptions, type FastifyReply, type FastifyRequest } from 'fastify';
import { createBooking } from '../booking/booking.ts';
import { problem, problemCodes } from '../core/problems.ts';
import { registerCodes } from './buyer-codes.ts';
import { registerHolds } from './buyer-holds.ts';
import { registerOrders } from './buyer-orders.ts';
import { registerQueue } from './buyer-queue.ts';
import { registerReads } from './buyer-reads.ts';
import type { HttpDeps } from './deps.ts';
import { answerOf, createErrorHandler, problemDocument, sendProblem } from './errors.ts';
import { registerDescription } from './openapi.ts';
import { registerOperations } from './operations.ts';
import { registerPages, securityHeaders } from './pages.ts';
import { refuseHostileText, refuseOtherSites } from './request-checks.ts';
import { type App, bodyLimit, type RouteGroup, validation } from './routes.ts';
import { registerWebhooks } from './webhooks.ts';

const headerBytesMax = 16 * 1024;
const requestTimeoutMs = 30_000;
const parameterLengthMax = 200;

/** Everything that speaks HTTP, not yet listening. */
export async function buildServer(deps: HttpDeps, groups: RouteGroup[] = []): Promise<App> {
  const options: FastifyHttpOptions<Server> = {
    bodyLimit,
    requestTimeout: requestTimeoutMs,
    trustProxy: trusted(deps.trustProxy),
    http: { maxHeaderSize: headerBytesMax },
    routerOptions: { maxParamLength: parameterLengthMax },
    // In-flight work ends, idle connections do not keep the process.
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    ajv: validation,
    frameworkErrors: (error, _request, reply) => void sendProblem(reply, answerOf(error).code),
    clientErrorHandler: answerBrokenRequest,
  };
  const app: App = fastify(options).withTypeProvider<TypeBoxTypeProvider>();

  app.setErrorHandler(createErrorHandler(deps.log));
  acceptJsonOnly(app);
  answerUnknownRoutes(app);
  letGoWhenClosing(app);
  await app.register(cookie);
  app.addHook('onRequest', securityHeaders(deps));
  app.addHook('onRequest', refuseOtherSites(deps.publicUrl));
  app.addHook('preValidation', refuseHostileText);
  deps.clients.watch(app);
  deps.pathMeter?.watch(app);
  await registerDescription(app, deps);

  registerOperations(app, deps);
  registerReads(app, deps);
  registerQueue(app, deps);
  registerCodes(app, deps);
  const booking = createBooking(deps);
  registerHolds(app, deps, booking);
  registerOrders(app, deps, booking);
  await app.register(async (scope) => registerWebhooks(scope as App, deps));
  for (const group of groups) await app.register(async (scope) => group(scope as App));
  await registerPages(app, deps);
  return app;
}

function trusted(
  proxies: HttpDeps['trustProxy'],
): false | string[] | ((address: string, hop: number) => boolean) {
  return typeof proxies === 'number' ? (_address, hop) => hop < proxies : proxies;
}

/**
 * Without this, a connection that was busy when closing began would stay open after its answer and keep the
 * server from ending.
 */
function letGoWhenClosing(app: App): void {
  let closing = false;
  app.addHook('preClose', async () => {
    closing = true;
  });
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (closing) reply.header('connection', 'close');
    done();
  });
}

/** One parser: an empty body is no body, whatever its declared type; `__proto__` is dropped. */
function acceptJsonOnly(app: App): void {
  app.removeAllContentTypeParsers();
  const parse = app.getDefaultJsonParser('remove', 'remove');
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
    if (body === '') done(null, undefined);
    else void parse(request, body as string, done);
  });
}

/** 405 where the address exists for another method, else 404. */
function answerUnknownRoutes(app: App): void {
  const known: { pattern: RegExp; methods: Set<string> }[] = [];
  app.addHook('onRoute', ({ url, method }) => {
    const methods = Array.isArray(method) ? method : [method];
    const source = url
      .split(/(:[A-Za-z]+|\*)/)
      .map((part) => {
        if (part === '*') return '.*';
        return part.startsWith(':') ? '[^/]+' : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
      })
      .join('');
    const same = known.find(({ pattern }) => pattern.source === `^${source}$`);
    if (same) for (const each of methods) same.methods.add(each);
    // A page's catch-all knows every address and says nothing about one.
    else if (url !== '/*' && url !== '*')
      known.push({ pattern: new RegExp(`^${source}$`), methods: new Set(methods) });
  });
  app.setNotFoundHandler((request: FastifyRequest, reply: FastifyReply) => {
    const path = request.url.split('?')[0]!;
    const methods = known.filter(({ pattern }) => pattern.test(path)).flatMap((route) => [...route.methods]);
    if (methods.length === 0 || methods.includes(request.method)) throw problem('not_found');
    reply.header('allow', [...new Set(methods)].sort().join(', '));
    throw problem('method_not_allowed');
  });
}

/** Requests that node's parser rejects never reach fastify, so this writes the response to the socket. */
function answerBrokenRequest(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const { code } =
    error.code?.startsWith('HPE_') && error.code !== 'HPE_HEADER_OVERFLOW'
      ? { code: 'invalid_request' as const }
      : answerOf(error);
  const known = code === 'internal' ? 'invalid_request' : code;
  const body = JSON.stringify(problemDocument(known));
  const { status, title } = problemCodes[known];
  socket.end(
    `HTTP/1.1 ${status} ${title}\r\ncontent-type: application/problem+json\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
}
