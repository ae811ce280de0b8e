import net from 'node:net';
import { performance } from 'node:perf_hooks';
import { quantile } from './measure.ts';

/** A POST as it goes over the wire, ready made: the generator must not be what is measured. */
export function postBytes(path: string, headers: Record<string, string>, body?: unknown): Buffer {
  const text = body === undefined ? '' : JSON.stringify(body);
  const all: Record<string, string> = {
    host: '127.0.0.1',
    ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    'content-length': String(Buffer.byteLength(text)),
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.from(`POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n${text}`);
}

export function getBytes(path: string): Buffer {
  return Buffer.from(`GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`);
}

export interface Loaded {
  answers: number;
  elapsedMs: number;
  /** How many by status. */
  statuses: Map<number, number>;
  p50Ms: number;
  p99Ms: number;
  /** The first body of each status. */
  samples: Map<number, string>;
}

/**
 * Keeps one request under way on each of `connections` until `requests` are used up or the time is over. Plain sockets, kept
 * alive, no HTTP library: a tenth of its cost, so that most of the machine is left to the server.
 */
export async function loadWith(
  url: string,
  { connections, requests, seconds }: { connections: number; requests: readonly Buffer[]; seconds: number },
): Promise<Loaded> {
  const { hostname, port } = new URL(url);
  const statuses = new Map<number, number>();
  const samples = new Map<number, string>();
  const latencies: number[] = [];
  const sockets = await Promise.all(
    Array.from({ length: connections }, () => connected(Number(port), hostname)),
  );
  const startedAt = performance.now();
  const endAt = startedAt + seconds * 1_000;
  let next = 0;

  const drive = async (socket: net.Socket): Promise<void> => {
    const ask = answersOf(socket);
    while (next < requests.length && performance.now() < endAt) {
      const sentAt = performance.now();
      const { status, body } = await ask(requests[next++]!);
      latencies.push(performance.now() - sentAt);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (!samples.has(status)) samples.set(status, body());
    }
    socket.destroy();
  };
  await Promise.all(sockets.map(drive));
  const elapsedMs = performance.now() - startedAt;
  const [p50Ms, p99Ms] = [quantile(latencies, 0.5), quantile(latencies, 0.99)];
  return { answers: latencies.length, elapsedMs, statuses, samples, p50Ms, p99Ms };
}

function connected(port: number, host: string): Promise<net.Socket> {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ port, host, noDelay: true }, () => resolve(socket));
    socket.once('error', reject);
  });
}

type Ask = (request: Buffer) => Promise<{ status: number; body: () => string }>;

/** One request at a time; answers have to carry their length, as ours and fastify's do. */
function answersOf(socket: net.Socket): Ask {
  let waiting: {
    resolve(answer: { status: number; body: () => string }): void;
    reject(error: Error): void;
  } | null = null;
  let seen: Buffer = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => {
    seen = seen.length === 0 ? chunk : Buffer.concat([seen, chunk]);
    const head = seen.indexOf('\r\n\r\n');
    if (head < 0) return;
    const text = seen.toString('latin1', 0, head);
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(text)?.[1] ?? Number.NaN);
    if (Number.isNaN(length)) return fail(new Error(`an answer without its length: ${text}`));
    const end = head + 4 + length;
    if (seen.length < end) return;
    const bytes = seen.subarray(head + 4, end);
    seen = seen.subarray(end);
    waiting?.resolve({ status: Number(text.slice(9, 12)), body: () => bytes.toString() });
    waiting = null;
  });
  const fail = (error: Error): void => waiting?.reject(error);
  socket.on('error', fail);
  socket.on('close', () => fail(new Error('the server closed the connection')));
  return (request) =>
    new Promise((resolve, reject) => {
      waiting = { resolve, reject };
      socket.write(request);
    });
}
