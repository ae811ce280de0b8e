import pg from 'pg';
import type { Clock } from '../runtime/clock.ts';

/** A Postgres of the operator's own that cannot be used, as a sentence for the person who started us. */
export class PostgresAway extends Error {
  override readonly name = 'PostgresAway';
}

/** Containers and service managers start things side by side; a Postgres that recovers needs some seconds. */
export const postgresWaitMs = 60_000;
const tellEveryMs = 5_000;
const retryMs = 500;
const connectTimeoutMs = 5_000;

/**
 * The server may answer soon: refused, unknown or unreachable host (DNS and networks of containers come up side by side too),
 * starting up or shutting down (57P…), no connection left (53300).
 */
const passing = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ENOENT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'EHOSTDOWN',
  'ENETUNREACH',
  'ETIMEDOUT',
  '57P01',
  '57P02',
  '57P03',
  '53300',
]);

/**
 * Resolves once the server accepts a connection to its database. A reason that waiting does not change (password, missing
 * database, TLS) ends it at once with a `PostgresAway`, as does the end of the patience.
 */
export async function postgresAnswers(options: {
  url: string;
  clock: Clock;
  signal?: AbortSignal;
  patienceMs?: number;
  /** Told a line every few seconds. */
  onProgress?: (line: string) => void;
}): Promise<void> {
  const { url, clock, signal, patienceMs = postgresWaitMs, onProgress = () => {} } = options;
  const startedAt = clock.monotonic();
  let toldAt = Number.NEGATIVE_INFINITY;
  for (;;) {
    const { error, place } = await connectOnce(url);
    if (!error) return;
    const reason = reasonOf(error);
    const waited = clock.monotonic() - startedAt;
    if (!isPassing(error)) {
      throw new PostgresAway(`Postgres at ${place} cannot be used: ${reason}. Check DATABASE_URL.`, {
        cause: error,
      });
    }
    if (waited + retryMs > patienceMs) {
      const seconds = Math.round(patienceMs / 1_000);
      throw new PostgresAway(
        `Postgres at ${place} did not answer within ${seconds} s: ${reason}. Check that it runs and that DATABASE_URL names it.`,
        { cause: error },
      );
    }
    if (clock.monotonic() - toldAt >= tellEveryMs) {
      toldAt = clock.monotonic();
      onProgress(
        `Waiting for Postgres at ${place}: ${reason} (${Math.round(waited / 1_000)} of ${Math.round(patienceMs / 1_000)} s) …`,
      );
    }
    await clock.sleep(retryMs, signal);
  }
}

async function connectOnce(url: string): Promise<{ error: unknown; place: string }> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: connectTimeoutMs,
    application_name: 'onsale start',
  });
  client.on('error', () => {});
  const place = client.host.startsWith('/') ? client.host : `${client.host}:${client.port}`;
  try {
    await client.connect();
    return { error: null, place };
  } catch (error) {
    return { error, place };
  } finally {
    await client.end().catch(() => {});
  }
}

function isPassing(error: unknown): boolean {
  const { code, message } = error as { code?: string; message: string };
  // Two errors of the driver itself have no code: a timeout, and a connection that ended before the greeting.
  return code === undefined ? /timeout|terminated/i.test(message) : passing.has(code);
}

function reasonOf(error: unknown): string {
  const { message, errors } = error as Error & { errors?: Error[] };
  // A name with several addresses has one error for each of them.
  return (message || errors?.[0]?.message || String(error)).replace(/\.$/, '');
}
