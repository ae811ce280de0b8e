import pg from 'pg';
import type { EventNo } from '../core/hold.ts';
import { assert } from '../core/outcome.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import { createEventLanes } from './event-lanes.ts';
import { createLockedEvents, lockedPatienceMs } from './locked-events.ts';

/** One call to Postgres: a statement or a function. There is no transaction across calls, so none is open while anybody thinks. */
export interface Db {
  /**
   * Runs a named (prepared) statement. `int8` comes back as number, `timestamptz` as epoch ms (number, null kept).
   * Serialisation failures, deadlocks and lock time-outs are retried a few times; every other fault is a `StoreFault` or, for a
   * violated constraint, the driver's error with its `code`. A call that meets an event's lock waits for it without a
   * connection. `event`: the event that the call is of, so that no event uses all connections.
   */
  query<Row>(name: string, text: string, values?: readonly unknown[], event?: EventNo): Promise<Row[]>;
  close(): Promise<void>;
}

export interface DbOptions {
  url: string;
  poolSize: number;
  clock: Clock;
  log: Logger;
  applicationName?: string;
  /** 5 s unless told: only the organiser's long steps (publishing a plan) take more. */
  statementTimeoutMs?: number;
}

/** Rolled back whole by the server, so that the same call may be sent again: how often, by code. */
const retriesMax: Record<string, number> = {
  // serialization_failure, deadlock_detected.
  '40001': 3,
  '40P01': 3,
  // lock_not_available (after 1 s): a crowd at one row; a second wait beats a buyer who has to ask again.
  '55P03': 1,
};
/** lock_not_available, query_canceled (statement_timeout). */
const busyCodes = new Set(['55P03', '57014']);
const unavailableCodes = new Set(['53300', '57P03', '3D000', '28P01', '08001', '08004']);
const refusedBeforeSending = new Set(['ECONNREFUSED', 'ENOENT', 'EHOSTUNREACH', 'ENETUNREACH', 'ENOTFOUND']);
/** Chosen so that a request never waits longer than a buyer would. */
const statementTimeoutMs = 5_000;
const sessionOptions =
  '-c lock_timeout=1000 -c idle_in_transaction_session_timeout=2000 -c synchronous_commit=on -c TimeZone=UTC';

/** How values are parsed, here and wherever rows are read outside the pool. */
export const typeParsers = {
  getTypeParser(oid: number, format?: 'text' | 'binary') {
    if (oid === 20) return (text: string) => Number(text);
    if (oid === 1184) return (text: string) => Date.parse(isoOf(text));
    if (oid === 1700) return (text: string) => Number(text);
    return pg.types.getTypeParser(oid, format as 'text');
  },
};

/** Postgres cuts longer names off, and then runs one statement instead of another. Bytes. */
const statementNameMax = 63;

/** `2026-01-01 10:00:00.123456+00` → a form that Date.parse takes; sessions run with TimeZone UTC. */
function isoOf(text: string): string {
  return text.replace(' ', 'T').replace(/\+00$/, 'Z');
}

export function createDb(options: DbOptions): Db {
  const { log, clock } = options;
  const timeoutMs = options.statementTimeoutMs ?? statementTimeoutMs;
  const pool = new pg.Pool({
    connectionString: options.url,
    max: options.poolSize,
    application_name: options.applicationName ?? 'onsale',
    options: `${sessionOptions} -c statement_timeout=${timeoutMs}`,
    types: typeParsers as never,
    connectionTimeoutMillis: 5_000,
    // The server's own time limit comes first; this one catches a frozen server or a dead network.
    query_timeout: timeoutMs + 3_000,
    keepAlive: true,
  });
  // A server that stops may report it together with the end of a query, before the pool has its client back. Without a listener
  // of our own that would end the process. The next user of the client gets the error.
  pool.on('connect', (client) => client.on('error', () => {}));
  // The driver attaches its whole client to this error, so only the message is logged. When we close, an embedded server that
  // stops next may be faster than our own disconnect, which is no fault.
  pool.on('error', (error) => {
    if (!pool.ending) log.warn({ reason: error.message }, 'idle Postgres connection lost');
  });

  const lanes = createEventLanes({ connections: options.poolSize, clock });
  const locked = createLockedEvents({
    clock,
    isFree: async (event) => {
      const { rows } = await runOnce('event_lock_is_free', 'SELECT event_lock_is_free($1) AS free', [event]);
      return rows[0].free;
    },
  });

  async function query<Row>(
    name: string,
    text: string,
    values: readonly unknown[] = [],
    event?: EventNo,
  ): Promise<Row[]> {
    let lockedUntil: number | null = null;
    for (let attempt = 0; ; ) {
      try {
        const result = await lanes.run(event, () => runOnce(name, text, values));
        return result.rows as Row[];
      } catch (error) {
        const met = lockedEventOf(error);
        if (met !== null) {
          lockedUntil ??= clock.monotonic() + lockedPatienceMs;
          if (await locked.free(met, lockedUntil - clock.monotonic())) continue;
        } else if (attempt < retriesOf(error)) {
          await clock.sleep(5 * 2 ** attempt);
          attempt += 1;
          continue;
        }
        throw faultOf(error);
      }
    }
  }

  async function runOnce(name: string, text: string, values: readonly unknown[]): Promise<pg.QueryResult> {
    assert(name.length <= statementNameMax, `the name of statement ${name} is too long`);
    let client: pg.PoolClient;
    try {
      client = await pool.connect();
    } catch (error) {
      throw new StoreFault(
        'store_unavailable',
        `Postgres cannot be reached: ${(error as Error).message}`,
        error,
      );
    }
    try {
      const result = await client.query({ name, text, values: values as unknown[] });
      client.release();
      return result;
    } catch (error) {
      // A server error leaves the connection usable; anything else (lost, timed out, the server's farewell) does not.
      client.release(isServerError(error) && !isFarewell(error) ? undefined : (error as Error));
      throw error;
    }
  }

  return { query, close: () => pool.end() };
}

/** The event whose lock the call found taken (event_lock_shared); null for any other error. */
function lockedEventOf(error: unknown): EventNo | null {
  const { code, detail = '' } = error as { code?: string; detail?: string };
  const found = code === '55P03' ? /^locked event (\d+)$/.exec(detail) : null;
  return found ? Number(found[1]) : null;
}

function retriesOf(error: unknown): number {
  const { code = '', where = '' } = error as { code?: string; where?: string };
  // A call that needs the lock alone has already waited in the queue for it and occupied a connection, so it
  // is not repeated.
  if (code === '55P03' && where.includes('event_lock_alone')) return 0;
  return retriesMax[code] ?? 0;
}

function isServerError(error: unknown): boolean {
  return typeof (error as { severity?: unknown }).severity === 'string';
}

/** admin_shutdown, crash_shutdown and the like: the connection ends with it. */
function isFarewell(error: unknown): boolean {
  return ((error as { code?: string }).code ?? '').startsWith('57P');
}

/** Constraint violations (class 23) and our own errors pass through: callers know what they mean. */
export function faultOf(error: unknown): unknown {
  if (error instanceof StoreFault) return error;
  const { code = '', message } = error as { code?: string; message: string };
  if (isServerError(error)) {
    if (busyCodes.has(code) || code in retriesMax) return new StoreFault('store_busy', message, error);
    if (unavailableCodes.has(code)) return new StoreFault('store_unavailable', message, error);
    if (code.startsWith('57P') || code.startsWith('53') || code === '25006') {
      return new StoreFault('outcome_unknown', message, error);
    }
    return error;
  }
  if (refusedBeforeSending.has(code)) return new StoreFault('store_unavailable', message, error);
  return new StoreFault('outcome_unknown', message, error);
}
