import type { EventNo } from '../core/hold.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';

/** A lease lives that long by Postgres's clock; three renewals may fail before another process takes over. */
export const leaseMs = 3_000;

export interface Lease {
  /**
   * Takes and renews the leases of these events in one call. Returns the term of each event that is now led; the others have
   * another leader. A term rises whenever the lease changed hands or had run out.
   */
  keep(events: readonly EventNo[]): Promise<Map<EventNo, number>>;
  /**
   * The term under which this process may act, or null once the lease may have run out. A saving of useless work only: what
   * makes a late write harmless is that it is conditional on its term.
   */
  termOf(event: EventNo): number | null;
  /** Ends all leases of this owner, so that another takes over at once. */
  release(): Promise<void>;
}

/** `owner` must be new with each start of a process: two that share one would both lead. */
export function createLease(options: { db: Db; owner: string; clock: Pick<Clock, 'monotonic'> }): Lease {
  const { db, owner, clock } = options;
  const kept = new Map<EventNo, { term: number; until: number }>();
  let released = false;

  return {
    async keep(events) {
      if (events.length === 0 || released) return new Map();
      // Counted from before the call: the lease may have begun at any instant of it.
      const until = clock.monotonic() + leaseMs;
      const rows = await db.query<{ event_no: number; term: number }>(
        'lease_keep',
        'SELECT event_no, term FROM lease_keep($1, $2, $3)',
        [owner, [...events], leaseMs],
      );
      const terms = new Map(rows.map((row) => [row.event_no, row.term]));
      for (const event of events) {
        const term = terms.get(event);
        if (term === undefined) kept.delete(event);
        else kept.set(event, { term, until });
      }
      return terms;
    },

    termOf(event) {
      const found = kept.get(event);
      return found && clock.monotonic() < found.until ? found.term : null;
    },

    async release() {
      released = true;
      kept.clear();
      // Also any that a lost answer of `keep` left behind.
      await db.query(
        'lease_release',
        'UPDATE leases SET until = clock_timestamp() WHERE owner = $1 AND until > clock_timestamp()',
        [owner],
      );
    },
  };
}
