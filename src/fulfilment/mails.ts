import type { OrderId } from '../core/hold.ts';
import { audit } from '../sales/audit.ts';
import type { Db } from '../sales/db.ts';
import type { Order } from '../sales/record.ts';

/** Statements about the mails that are owed to buyers (migrations/0012_jobs.sql). */
export interface OwedMail {
  mail: string;
  what: string;
  detail: Record<string, unknown>;
  state: 'due' | 'sent' | 'refused' | 'not_needed';
  order: Order;
}

export async function findMail(db: Db, mail: string): Promise<OwedMail | null> {
  const rows = await db.query<OwedMail>(
    'mail_find',
    `SELECT m.mail_id AS mail, m.what, m.detail, m.state, order_json(o) AS "order"
     FROM mails m JOIN orders o USING (order_id) WHERE m.mail_id = $1`,
    [mail],
  );
  return rows[0] ?? null;
}

/** How a due mail went. Conditional on `due`, so that a late second answer changes nothing. */
export async function recordMail(
  db: Db,
  mail: string,
  went: { state: OwedMail['state']; error?: string },
): Promise<void> {
  await db.query(
    'mail_went',
    `UPDATE mails SET state = $2, last_error = $3, attempts = attempts + 1, updated_at = clock_timestamp()
     WHERE mail_id = $1 AND state = 'due'`,
    [mail, went.state, went.error ?? null],
  );
}

/** On the operator's list: refused for good (`refused`), or tried in vain until now (`due`). Times are epoch ms. */
export interface MailTrouble {
  mail: string;
  order: OrderId;
  event: string;
  what: string;
  state: 'due' | 'refused';
  attempts: number;
  error: string | null;
  createdAt: number;
  updatedAt: number;
}

/** The newest first; `count` is of all. */
export async function mailTroubles(db: Db, limit: number): Promise<{ count: number; mails: MailTrouble[] }> {
  const rows = await db.query<MailTrouble & { count: number }>(
    'mail_troubles',
    `SELECT m.mail_id AS mail, m.order_id AS "order", e.event_id AS event, m.what, m.state, m.attempts,
            m.last_error AS error, m.created_at AS "createdAt", m.updated_at AS "updatedAt", count(*) OVER () AS count
     FROM mails m JOIN orders o USING (order_id) JOIN events e USING (event_no)
     WHERE m.state = 'refused' OR (m.state = 'due' AND m.last_error IS NOT NULL)
     ORDER BY m.updated_at DESC LIMIT $1`,
    [limit],
  );
  return { count: rows[0]?.count ?? 0, mails: rows.map(({ count: _, ...mail }) => mail) };
}

/** The operator has mended what was wrong: the mail is owed again. False when it is not on the list. */
export async function tryMailAgain(db: Db, mail: string, actor: string): Promise<boolean> {
  const rows = await db.query<{ event_no: number }>(
    'mail_again',
    `WITH again AS (
       UPDATE mails m SET state = 'due', updated_at = clock_timestamp()
       FROM orders o
       WHERE o.order_id = m.order_id AND m.mail_id = $1
         AND (m.state = 'refused' OR (m.state = 'due' AND m.last_error IS NOT NULL))
       RETURNING m.mail_id, o.event_no)
     SELECT event_no, job_enqueue('mail', jsonb_build_object('mail', mail_id), 'mail/' || mail_id) FROM again`,
    [mail],
  );
  const [found] = rows;
  if (!found) return false;
  await audit(db, { actor, action: 'mail_again', event: found.event_no, detail: { mail } });
  return true;
}
