import type { Db } from '../postgres/db.ts';

/** Statements about the public keys that tickets were signed with (functions/entry.sql). */

/**
 * Records the key that a process starts with. `keyId`: hex, as in codes; `publicKey`: PEM (SPKI).
 * `first`: no process started with it before; `others`: the number of other keys that this installation knows.
 */
export async function ticketKeySeen(
  db: Db,
  { keyId, publicKey }: { keyId: string; publicKey: string },
): Promise<{ first: boolean; others: number }> {
  const rows = await db.query<{ seen: { first: boolean; others: number } }>(
    'ticket_key_seen',
    'SELECT ticket_key_seen($1, $2) AS seen',
    [keyId, publicKey],
  );
  return rows[0]!.seen;
}

/** PEM (SPKI) of each, the one that a process started with last first. */
export async function recordedTicketKeys(db: Db): Promise<string[]> {
  const rows = await db.query<{ public_key: string }>(
    'ticket_keys',
    'SELECT public_key FROM ticket_keys ORDER BY last_seen_at DESC, key_id',
  );
  return rows.map((row) => row.public_key);
}
