import pg from 'pg';
import { StoreFault } from '../runtime/store-fault.ts';
import { faultOf, typeParsers } from './db.ts';

export interface SnapshotQuery {
  /** The database's address: a snapshot has a connection of its own, so that it never takes one from the sale. */
  url: string;
  text: string;
  values: readonly unknown[];
  /** Ends the reading, a statement that runs included. */
  signal?: AbortSignal;
  /** Rows in memory at once; 1,000 by default. */
  batch?: number;
}

/** The reader of the rows disconnected, or the process is about to end. */
export class SnapshotAborted extends Error {
  override readonly name = 'SnapshotAborted';
}

const batchDefault = 1_000;
/** The first batch may take a sort of the whole; between batches rows are only written down. */
const sessionOptions =
  '-c statement_timeout=120000 -c lock_timeout=30000 -c idle_in_transaction_session_timeout=30000 -c TimeZone=UTC';
export const snapshotApplication = 'onsale export';

/**
 * Yields the rows of a query as they were at one moment (REPEATABLE READ, read only), batch after batch through a cursor. It is
 * the one transaction that is open over more than one call. The reader must not wait for anything between batches, because
 * while the transaction is open, dead row versions of a running sale cannot be cleaned up. Ends the transaction and the
 * connection however the reading ends. Throws `SnapshotAborted` or a `StoreFault`.
 */
export async function* readSnapshot<Row>(query: SnapshotQuery): AsyncGenerator<Row[]> {
  const { url, text, values, signal, batch = batchDefault } = query;
  const client = new pg.Client({
    connectionString: url,
    application_name: snapshotApplication,
    options: sessionOptions,
    types: typeParsers as never,
    connectionTimeoutMillis: 5_000,
    keepAlive: true,
  });
  // An error that breaks the connection also fails the query, which reports it.
  client.on('error', () => {});
  let cancel = (): void => {};
  const checkAborted = (): void => {
    if (signal?.aborted) throw new SnapshotAborted('the export was given up');
  };
  try {
    await connect(client);
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    cancel = () => void cancelBackend(url, rows[0]!.pid);
    signal?.addEventListener('abort', cancel, { once: true });
    checkAborted();
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
    await client.query(`DECLARE exported NO SCROLL CURSOR FOR ${text}`, [...values]);
    for (;;) {
      checkAborted();
      const { rows: found } = await client.query(`FETCH ${batch} FROM exported`);
      if (found.length > 0) yield found as Row[];
      if (found.length < batch) break;
    }
    await client.query('COMMIT');
  } catch (error) {
    checkAborted();
    throw error instanceof StoreFault || error instanceof SnapshotAborted ? error : faultOf(error);
  } finally {
    signal?.removeEventListener('abort', cancel);
    await client.end().catch(() => {});
  }
}

async function connect(client: pg.Client): Promise<void> {
  try {
    await client.connect();
  } catch (error) {
    throw new StoreFault(
      'store_unavailable',
      `Postgres cannot be reached: ${(error as Error).message}`,
      error,
    );
  }
}

/**
 * Uses a second connection, as the protocol requires, because the first one is busy. A cancel that comes too
 * late does no harm.
 */
async function cancelBackend(url: string, pid: number): Promise<void> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'onsale export ends',
    connectionTimeoutMillis: 5_000,
  });
  client.on('error', () => {});
  try {
    await client.connect();
    await client.query('SELECT pg_cancel_backend($1)', [pid]);
  } catch {
    // The statement's own time limit ends it.
  } finally {
    await client.end().catch(() => {});
  }
}
