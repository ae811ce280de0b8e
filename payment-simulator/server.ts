import { readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { Clock } from '../src/runtime/clock.ts';
import type { Logger } from '../src/runtime/log.ts';
import type { Random } from '../src/runtime/random.ts';
import { type ApiAnswer, createApi } from './api.ts';
import { type Bank, chargeOf, createBank, find, type RequestMark } from './bank.ts';
import { createFaults, type FaultSubject } from './faults.ts';
import { parseForm } from './form.ts';
import { openJournal } from './journal.ts';
import { createRateLimit } from './rate-limit.ts';
import type { EventRow } from './rows.ts';
import { createSite, settleDue } from './site.ts';
import { createState, type JournalRecord } from './state.ts';
import { createWebhooks, SUBSCRIBED } from './webhooks.ts';

export interface SimulatorOptions {
  /** Where `ledger.jsonl` lives; one running simulator per directory. */
  dataDir: string;
  /** 0 takes a free one. */
  port: number;
  host: string;
  /** As browsers reach it; by default the host and port. */
  publicUrl?: string;
  webhookUrl?: string;
  /** Types that are delivered, as an endpoint at Stripe subscribes to some; by default those that a shop needs. */
  webhookEvents?: readonly string[] | 'all';
  webhookSecret: string;
  secretKey: string;
  publishableKey: string;
  /** API calls a second before it responds with 429. Null means any number. */
  rateLimit?: number | null;
  clock: Clock;
  random: Random;
  log: Logger;
}

export interface Simulator {
  port: number;
  url: string;
  stop(): Promise<void>;
}

const BODY_BYTES_MAX = 64 * 1024;

/**
 * Starts the payment simulator: Stripe's HTTP subset for PaymentIntents over a durable ledger, its stand-in for
 * Stripe.js, the bank's authentication page, signed webhooks and fault switches. Rejects when the port is taken or the
 * ledger is broken elsewhere than in its last line.
 */
export async function startSimulator(options: SimulatorOptions): Promise<Simulator> {
  const { clock, random, log } = options;
  const state = createState();
  const journal = await openJournal<JournalRecord>(join(options.dataDir, 'ledger.jsonl'), state.replay);
  const stripeJs = await readFile(new URL('./stripe-js.js', import.meta.url));
  const server = createServer({ keepAliveTimeout: 30_000 });
  const port = await listen(server, options.port, options.host);
  const url = `http://${options.host.includes(':') ? `[${options.host}]` : options.host}:${port}`;

  const mark: RequestMark = { requestId: null, key: null, manner: {} };
  const events = options.webhookEvents ?? SUBSCRIBED;
  const subscribed = (type: string): boolean => events === 'all' || events.includes(type);
  const bank = createBank({ state, clock, random, publicUrl: options.publicUrl ?? url, mark, subscribed });
  const stopping = new AbortController();
  const faults = createFaults({ clock, random, signal: stopping.signal });
  const webhooks = createWebhooks({
    secret: options.webhookSecret,
    clock,
    faults,
    log,
    signal: stopping.signal,
    subject: (event) => subjectOf(bank, event),
    onDelivered: (event) => {
      state.replay({ delivered: [event.id] });
      journal.append({ delivered: [event.id] }).catch((cause) => log.error({ cause }, 'simulator: journal'));
    },
  });
  const rateLimit = createRateLimit(clock, options.rateLimit ?? null);
  const api = createApi({
    bank,
    state,
    mark,
    journal,
    faults,
    clock,
    log,
    secretKey: options.secretKey,
    publishableKey: options.publishableKey,
    rateLimit,
    onEvents: webhooks.deliver,
  });
  const site = createSite({ bank, state, mark, journal, faults, webhooks, stripeJs, rateLimit });

  webhooks.target(options.webhookUrl ?? null);
  void webhooks.deliver([...state.tables.events.values()]);
  const endSettling = everySecond(clock, () =>
    settleDue({ bank, state, mark, journal, webhooks }).catch((cause) => {
      if (!stopping.signal.aborted) log.error({ cause }, 'simulator: what was due is not settled');
    }),
  );

  server.on('request', (req: IncomingMessage, res: ServerResponse) => {
    const [pathname = '/', query = ''] = (req.url ?? '/').split('?', 2);
    const searchParams = new URLSearchParams(query);
    const handled = pathname.startsWith('/v1/')
      ? handleApi(req, res, pathname, searchParams, api.handle, bank.id)
      : readBody(req).then((body) => site.handle(req, res, pathname, searchParams, body));
    handled.catch((cause) => {
      log.warn({ cause, path: pathname }, 'simulator: request aborted');
      res.destroy();
    });
  });

  return {
    port,
    url,
    stop: async () => {
      stopping.abort();
      endSettling();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await journal.close();
    },
  };
}

/** Returns a function that stops the timer. */
function everySecond(clock: Clock, task: () => Promise<void>): () => void {
  let ended = false;
  let cancel = (): void => {};
  const next = (): void => {
    if (!ended) cancel = clock.after(1000, () => void task().finally(next));
  };
  next();
  return () => {
    ended = true;
    cancel();
  };
}

function subjectOf(bank: Bank, event: EventRow): FaultSubject {
  const intent = event.intent === null ? undefined : find(bank, 'intents', event.intent);
  const method = intent && (intent.method ?? chargeOf(bank, intent)?.method);
  return {
    route: undefined,
    card: method ? find(bank, 'methods', method)?.card : undefined,
    key: event.key ?? undefined,
    intent: event.intent ?? undefined,
    reference: intent?.metadata.order,
    event: event.type,
  };
}

function listen(server: ReturnType<typeof createServer>, port: number, host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve((server.address() as AddressInfo).port);
    });
  });
}

/** Browsers post card data here from the page's own origin, so every answer carries the CORS header. */
const CORS = {
  'access-control-allow-origin': '*',
  'access-control-allow-methods': 'GET, POST',
  'access-control-allow-headers': 'authorization, content-type, idempotency-key, stripe-version',
  'access-control-max-age': '600',
};

async function handleApi(
  req: IncomingMessage,
  res: ServerResponse,
  path: string,
  query: URLSearchParams,
  handle: ReturnType<typeof createApi>['handle'],
  newId: (prefix: string) => string,
): Promise<void> {
  if (req.method === 'OPTIONS') {
    res.writeHead(204, CORS).end();
    return;
  }
  const sent = await readBody(req);
  const requestId = newId('req');
  const answer: ApiAnswer = await handle({
    requestId,
    method: req.method ?? 'GET',
    path,
    params: sent === null ? null : parseForm(req.method === 'POST' ? sent : query.toString()),
    secret: bearer(req.headers.authorization),
    key: header(req, 'idempotency-key'),
  });
  if (answer.kind === 'drop') {
    req.socket.resetAndDestroy();
    return;
  }
  const key = header(req, 'idempotency-key');
  const body = Buffer.from(answer.body);
  res.writeHead(answer.status, {
    ...CORS,
    ...answer.headers,
    'content-type': 'application/json',
    'content-length': body.length,
    'cache-control': 'no-cache, no-store',
    'request-id': requestId,
    'stripe-version': header(req, 'stripe-version') ?? '',
    ...(key && { 'idempotency-key': encodeURI(key) }),
  });
  if (answer.kind === 'cut') res.write(body.subarray(0, body.length >> 1), () => req.socket.destroy());
  else res.end(body);
}

function header(req: IncomingMessage, name: string): string | null {
  const value = req.headers[name];
  return typeof value === 'string' ? value : null;
}

/** `Bearer sk_…`, or the key as the user name of basic authentication. */
function bearer(value: string | undefined): string | null {
  const [scheme, token] = (value ?? '').split(' ');
  if (!token) return null;
  if (scheme?.toLowerCase() === 'bearer') return token;
  if (scheme?.toLowerCase() !== 'basic') return null;
  return Buffer.from(token, 'base64').toString('utf8').split(':')[0] ?? null;
}

/** Null when it is too large to be a request of ours. */
async function readBody(req: IncomingMessage): Promise<string | null> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of req) {
    size += (chunk as Buffer).length;
    if (size <= BODY_BYTES_MAX) chunks.push(chunk as Buffer);
  }
  return size > BODY_BYTES_MAX ? null : Buffer.concat(chunks).toString('utf8');
}
