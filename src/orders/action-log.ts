import type { EventId, EventNo } from '../core/hold.ts';
import type { Db } from '../postgres/db.ts';

/** Appends an operator's act to the log of actions: who, what, to which event. No personal data of buyers. */
export async function logAction(
  db: Db,
  entry: { actor: string; action: string; event?: EventNo; detail?: Record<string, unknown> },
): Promise<void> {
  await db.query(
    'audit_append',
    'INSERT INTO audit_log (actor, action, event_no, detail) VALUES ($1, $2, $3, $4)',
    [entry.actor, entry.action, entry.event ?? null, JSON.stringify(entry.detail ?? {})],
  );
}

export const actionPageMax = 500;

export interface ActionEntry {
  /** Its number: ascending, with gaps. */
  entry: number;
  /** Epoch ms, by Postgres's clock. */
  at: number;
  actor: string;
  action: string;
  /** Null if the entry is not about one event. */
  event: EventId | null;
  detail: Record<string, unknown>;
}

export interface ActionPage {
  entries: ActionEntry[];
  /** `before` of the next page. Null if this was the last one. */
  next: number | null;
}

/** The newest entries before an entry (the newest of all when null), up to `limit`: of one event, or of all. One snapshot. */
export async function actionPage(
  db: Db,
  { event, before, limit }: { event: EventNo | null; before: number | null; limit: number },
): Promise<ActionPage> {
  const text = `SELECT a.entry, a.at, a.actor, a.action, e.event_id AS event, a.detail
    FROM audit_log a LEFT JOIN events e USING (event_no)`;
  const bounds = [before ?? Number.MAX_SAFE_INTEGER, limit + 1];
  const found =
    event === null
      ? await db.query<ActionEntry>(
          'audit_page',
          `${text} WHERE a.entry < $1::bigint ORDER BY a.entry DESC LIMIT $2`,
          bounds,
        )
      : await db.query<ActionEntry>(
          'audit_page_event',
          `${text} WHERE a.event_no = $3 AND a.entry < $1::bigint ORDER BY a.entry DESC LIMIT $2`,
          [...bounds, event],
        );
  const entries = found.slice(0, limit);
  return { entries, next: found.length > limit ? entries.at(-1)!.entry : null };
}
