import type { EventNo } from '../core/hold.ts';
import type { Db } from './db.ts';

/** Appends an operator's act to the audit log: who, what, to which event. No personal data of buyers. */
export async function audit(
  db: Db,
  entry: { actor: string; action: string; event?: EventNo; detail?: Record<string, unknown> },
): Promise<void> {
  await db.query(
    'audit_append',
    'INSERT INTO audit_log (actor, action, event_no, detail) VALUES ($1, $2, $3, $4)',
    [entry.actor, entry.action, entry.event ?? null, JSON.stringify(entry.detail ?? {})],
  );
}
