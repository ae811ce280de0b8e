import type { Db } from '../postgres/db.ts';
import type { Claim, EventsNote, ObjectEvents, SalesRecord, StoredEvent } from './record.ts';

/** The statements of the provider's events: an inbox, emptied by objects (functions/provider.sql). */

/** The part of the record (record.ts: SalesRecord) that this file holds. */
export function eventStatements(db: Db) {
  return {
    /** Stores the event once; what concerns no payment, or a payment of others, is only kept. */
    async providerEvent(event: StoredEvent): Promise<{ repeated: boolean }> {
      const rows = await db.query<{ id: string }>(
        'provider_event_store',
        `INSERT INTO provider_events (provider_event_id, type, object, due_at, processed_at, note)
     SELECT $1, $2, $3::text, CASE WHEN note IS NULL THEN at END, CASE WHEN note IS NOT NULL THEN at END, note
     FROM (SELECT clock_timestamp() AS at, CASE
             WHEN $3::text IS NULL THEN 'no_payment'
             WHEN $4 AND NOT EXISTS (SELECT 1 FROM money_operations m WHERE m.provider_object = $3) THEN 'foreign' END AS note) now
     ON CONFLICT (provider_event_id) DO NOTHING RETURNING provider_event_id AS id`,
        [event.id, event.type, event.object, event.foreign ?? false],
      );
      return { repeated: rows.length === 0 };
    },
    async claimEvents(claim: Claim & { limit: number }): Promise<ObjectEvents[]> {
      return db.query<ObjectEvents>(
        'provider_events_claim',
        'SELECT * FROM provider_events_claim($1, $2, $3)',
        [claim.owner, claim.limit, claim.leaseMs],
      );
    },
    async eventsProcessed(ids: string[], note: EventsNote | null): Promise<void> {
      await db.query(
        'provider_events_processed',
        `UPDATE provider_events SET processed_at = clock_timestamp(), due_at = NULL, claimed_until = NULL, note = $2
     WHERE provider_event_id = ANY ($1) AND processed_at IS NULL`,
        [ids, note],
      );
    },
    async eventsAgain(ids: string[], dueMs: number): Promise<void> {
      await db.query(
        'provider_events_again',
        `UPDATE provider_events SET due_at = clock_timestamp() + $2 * interval '1 millisecond', claimed_until = NULL
     WHERE provider_event_id = ANY ($1) AND processed_at IS NULL`,
        [ids, dueMs],
      );
    },
  } satisfies Partial<SalesRecord>;
}
