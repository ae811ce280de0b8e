import type { OrderId } from '../src/core/hold.ts';
import type { Claim, EventsNote, ObjectEvents } from '../src/orders/record.ts';
import type { Clock } from '../src/runtime/clock.ts';

/** The model's inbox of provider events: what Postgres keeps in `provider_events`. */
export function createInProcessInbox(clock: Pick<Clock, 'now'>) {
  interface Row {
    id: string;
    type: string;
    object: string;
    receivedAt: number;
    /** Null if it is not processed any more. */
    dueAt: number | null;
    attempts: number;
    claimedUntil: number | null;
  }
  const rows: Row[] = [];
  const stored = new Set<string>();
  const isFree = (row: Row) => row.claimedUntil === null || row.claimedUntil <= clock.now();

  function claim(
    { limit, leaseMs }: Claim & { limit: number },
    ownerOf: (object: string) => OrderId | null,
  ): ObjectEvents[] {
    const now = clock.now();
    const due = rows.filter((row) => row.dueAt !== null && row.dueAt <= now && isFree(row));
    const longest = [...due].sort((a, b) => a.dueAt! - b.dueAt!).map(({ object }) => object);
    const objects = [...new Set(longest)].slice(0, limit);
    return objects.map((object) => {
      const claimed = rows.filter((row) => row.object === object && row.dueAt !== null && isFree(row));
      for (const row of claimed) {
        Object.assign(row, { claimedUntil: now + leaseMs, dueAt: now + leaseMs, attempts: row.attempts + 1 });
      }
      return {
        object,
        order: ownerOf(object),
        events: claimed.map(({ id }) => id),
        types: [...new Set(claimed.map(({ type }) => type))],
        attempts: Math.max(...claimed.map(({ attempts }) => attempts)),
        ageMs: now - Math.min(...claimed.map(({ receivedAt }) => receivedAt)),
      };
    });
  }

  function change(ids: readonly string[], dueAt: number | null): void {
    for (const row of rows.filter(({ id, dueAt: due }) => due !== null && ids.includes(id))) {
      Object.assign(row, { dueAt, claimedUntil: null });
    }
  }

  return {
    store(event: { id: string; type: string; object: string | null }): { repeated: boolean } {
      const repeated = stored.has(event.id);
      stored.add(event.id);
      const { id, type, object } = event;
      const receivedAt = clock.now();
      if (!repeated && object !== null)
        rows.push({ id, type, object, receivedAt, dueAt: receivedAt, attempts: 0, claimedUntil: null });
      return { repeated };
    },
    claim,
    processed: (ids: readonly string[], _note: EventsNote | null) => change(ids, null),
    again: (ids: readonly string[], dueMs: number) => change(ids, clock.now() + dueMs),
  };
}
