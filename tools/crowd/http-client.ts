import http from 'node:http';
import type { Problem } from '../../src/http/api-types.ts';
import type { Clock } from '../../src/runtime/clock.ts';

export interface Answer<Body = unknown> {
  status: number;
  /** Parsed JSON, the problem document of a refusal, or bytes for other types. */
  body: Body & Partial<Problem>;
  headers: http.IncomingHttpHeaders;
  /** Milliseconds from sending to the last byte. */
  tookMs: number;
}

/** One browser as the server sees it: a cookie jar of its own over connections that are shared. */
export interface BrowserClient {
  request<Body>(method: string, path: string, options?: RequestOptions): Promise<Answer<Body>>;
  /** `name=value; …` as it would be sent. */
  cookies(): string;
}

export interface RequestOptions {
  body?: unknown;
  headers?: Record<string, string>;
}

export interface HttpClientOptions {
  url: string;
  clock: Clock;
  /** Requests under way at once, of all browsers; as many connections unless there are more addresses. */
  connectionsMax?: number;
  /** Local addresses to connect from: browsers take them in turn. Absent or empty: the system's choice. */
  addresses?: readonly string[];
  /** A request without a response in this time fails. Milliseconds. */
  timeoutMs?: number;
  onAnswer?: (method: string, route: string, answer: Answer) => void;
}

export interface HttpClients {
  browser(): BrowserClient;
  close(): void;
}

export function createHttpClients(options: HttpClientOptions): HttpClients {
  const { clock, timeoutMs = 30_000, onAnswer } = options;
  const base = new URL(options.url);
  const { addresses = [], connectionsMax = 100 } = options;
  // An agent counts the sockets of each local address apart.
  const maxSockets = Math.ceil(connectionsMax / Math.max(1, addresses.length));
  const agent = new http.Agent({ keepAlive: true, maxSockets });
  let browsers = 0;
  let underWay = 0;
  const waiting: (() => void)[] = [];

  async function inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    if (underWay >= connectionsMax) await new Promise<void>((resolve) => waiting.push(resolve));
    else underWay += 1;
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else underWay -= 1;
    }
  }

  function send(
    localAddress: string | undefined,
    method: string,
    path: string,
    headers: http.OutgoingHttpHeaders,
    body: string | undefined,
  ) {
    return new Promise<{ status: number; headers: http.IncomingHttpHeaders; bytes: Buffer }>(
      (resolve, reject) => {
        const request = http.request(
          {
            host: base.hostname,
            port: base.port,
            method,
            path,
            headers,
            agent,
            timeout: timeoutMs,
            ...(localAddress === undefined ? {} : { localAddress, family: 4 }),
          },
          (response) => {
            const chunks: Buffer[] = [];
            response.on('data', (chunk: Buffer) => chunks.push(chunk));
            response.on('error', reject);
            response.on('end', () =>
              resolve({
                status: response.statusCode ?? 0,
                headers: response.headers,
                bytes: Buffer.concat(chunks),
              }),
            );
          },
        );
        request.on('timeout', () =>
          request.destroy(new Error(`no answer within ${timeoutMs} ms: ${method} ${path}`)),
        );
        request.on('error', reject);
        request.end(body);
      },
    );
  }

  function browser(): BrowserClient {
    const jar = new Map<string, string>();
    const address = addresses[browsers % Math.max(1, addresses.length)];
    browsers += 1;
    const cookies = (): string => [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
    return {
      cookies,
      async request<Body>(method: string, path: string, { body, headers = {} }: RequestOptions = {}) {
        const text = body === undefined ? undefined : JSON.stringify(body);
        const started = clock.monotonic();
        const all = {
          ...(jar.size > 0 ? { cookie: cookies() } : {}),
          ...(text === undefined
            ? {}
            : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
          ...headers,
        };
        const answer = await inTurn(() => send(address, method, path, all, text));
        for (const cookie of answer.headers['set-cookie'] ?? []) keep(jar, cookie);
        const full: Answer<Body> = {
          status: answer.status,
          headers: answer.headers,
          body: bodyOf(answer) as Answer<Body>['body'],
          tookMs: clock.monotonic() - started,
        };
        onAnswer?.(method, routeOf(path), full as Answer);
        return full;
      },
    };
  }

  return { browser, close: () => agent.destroy() };
}

function keep(jar: Map<string, string>, cookie: string): void {
  const [pair = ''] = cookie.split(';', 1);
  const at = pair.indexOf('=');
  const value = pair.slice(at + 1);
  if (value === '' || /;\s*max-age=0/i.test(cookie)) jar.delete(pair.slice(0, at));
  else jar.set(pair.slice(0, at), value);
}

function bodyOf(answer: { headers: http.IncomingHttpHeaders; bytes: Buffer }): unknown {
  if (answer.bytes.length === 0) return {};
  return /json/.test(answer.headers['content-type'] ?? '')
    ? JSON.parse(answer.bytes.toString('utf8'))
    : answer.bytes;
}

/** The path with its ids taken out, to count by route. */
function routeOf(path: string): string {
  return path
    .split('?', 1)[0]!
    .replace(/\/events\/[^/]+/, '/events/{event}')
    .replace(/\/holds\/[^/]+/, '/holds/{hold}')
    .replace(/\/orders\/[^/]+/, '/orders/{order}')
    .replace(/\/availability\/[^/]+/, '/availability/{section}');
}
