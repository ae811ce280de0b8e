import type { KeyRow, Rows } from './rows.ts';

export type Table = keyof Rows;
export type Put = { [T in Table]: { table: T; row: Rows[T] } }[Table];

/** One line of the journal: everything that one request changed, so that a crash keeps all of it or nothing. */
export interface JournalRecord {
  puts?: Put[];
  key?: KeyRow;
  /** Ids of events that the receiver accepted. */
  delivered?: string[];
}

export interface State {
  readonly tables: { [T in Table]: Map<string, Rows[T]> };
  readonly keys: Map<string, KeyRow>;
  put<T extends Table>(table: T, row: Rows[T]): void;
  /**
   * Returns the rows that were stored since the last call. Operations are synchronous, so this is the work of one operation.
   */
  take(): Put[];
  /** Undoes what was put since the last `take`: a request that was refused as invalid changes nothing. */
  discard(): void;
  /** Applies a line of the journal at start. */
  replay(record: JournalRecord): void;
}

/**
 * Events contain whole objects. Of the events that no delivery waits for, this many are kept in memory. The journal has them
 * all.
 */
const EVENTS_KEPT = 20_000;

export function createState(eventsKept = EVENTS_KEPT): State {
  const tables: State['tables'] = {
    intents: new Map(),
    charges: new Map(),
    refunds: new Map(),
    disputes: new Map(),
    methods: new Map(),
    tokens: new Map(),
    events: new Map(),
  };
  const keys = new Map<string, KeyRow>();
  let fresh: Put[] = [];
  let undo: (() => void)[] = [];

  const set = <T extends Table>(table: T, row: Rows[T]): void => {
    (tables[table] as Map<string, Rows[T]>).set(row.id, row);
    if (table !== 'events') return;
    if ((row as Rows['events']).delivered) delivered.push(row.id);
    if (tables.events.size > eventsKept) forget();
  };

  /** Delivered events in the order of their delivery, from `oldest` on: looking for them among all would take longer each time. */
  let delivered: string[] = [];
  let oldest = 0;
  /** Drops the event that was delivered first. Those that wait for the receiver stay. */
  const forget = (): void => {
    while (oldest < delivered.length) {
      if (tables.events.delete(delivered[oldest++]!)) break;
    }
    if (oldest < eventsKept) return;
    delivered = delivered.slice(oldest);
    oldest = 0;
  };

  return {
    tables,
    keys,
    put: (table, row) => {
      const rows = tables[table] as Map<string, typeof row>;
      const before = rows.get(row.id);
      undo.push(() => (before ? rows.set(row.id, before) : rows.delete(row.id)));
      set(table, row);
      fresh.push({ table, row } as Put);
    },
    take: () => {
      const taken = fresh;
      fresh = [];
      undo = [];
      return taken;
    },
    discard: () => {
      for (const step of undo.reverse()) step();
      fresh = [];
      undo = [];
    },
    replay: (record) => {
      for (const put of record.puts ?? []) set(put.table, put.row);
      if (record.key) keys.set(record.key.key, record.key);
      for (const id of record.delivered ?? []) {
        const event = tables.events.get(id);
        if (event) set('events', { ...event, delivered: true });
      }
    },
  };
}
