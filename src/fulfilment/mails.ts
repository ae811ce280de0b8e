import type { OrderId } from '../core/hold.ts';
import type { Order } from '../orders/record.ts';
import type { Db } from '../postgres/db.ts';

/** Statements about the mails that are owed to buyers (functions/jobs.sql). */
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

/** A mail as the operator sees it. Times are epoch ms. */
export interface MailSheet {
  mail: string;
  order: OrderId;
  event: string;
  what: string;
  state: OwedMail['state'];
  attempts: number;
  error: string | null;
  createdAt: number;
  updatedAt: number;
  /** The mail that this one was sent as a copy of, because a person asked for it. */
  copyOf: string | null;
  /** Time of the queue's next attempt. Null if it does not wait there, or was given up. */
  nextAt: number | null;
}

/** Its job in the queue has the time of the next attempt, unless none is left. */
const sheet = `m.mail_id AS mail, m.order_id AS "order", e.event_id AS event, m.what, m.state, m.attempts,
  m.last_error AS error, m.created_at AS "createdAt", m.updated_at AS "updatedAt", m.copy_of AS "copyOf",
  CASE WHEN m.state = 'due' THEN (
    SELECT run_at FROM graphile_worker.jobs WHERE key = 'mail/' || m.mail_id AND attempts < max_attempts) END AS "nextAt"`;

/**
 * The mails on the operator's list: rejected for good, or due and not sent yet; the newest first. `count` counts all of them.
 */
export async function mailTroubles(db: Db, limit: number): Promise<{ count: number; mails: MailSheet[] }> {
  const rows = await db.query<MailSheet & { count: number }>(
    'mail_troubles',
    `SELECT ${sheet}, count(*) OVER () AS count
     FROM mails m JOIN orders o USING (order_id) JOIN events e USING (event_no)
     WHERE m.state = 'refused' OR (m.state = 'due' AND m.last_error IS NOT NULL)
     ORDER BY m.updated_at DESC LIMIT $1`,
    [limit],
  );
  return { count: rows[0]?.count ?? 0, mails: rows.map(({ count: _, ...mail }) => mail) };
}

/** All mails of an order, the oldest first. */
export function mailsOfOrder(db: Db, order: OrderId): Promise<MailSheet[]> {
  return db.query<MailSheet>(
    'mails_of_order',
    `SELECT ${sheet} FROM mails m JOIN orders o USING (order_id) JOIN events e USING (event_no)
     WHERE m.order_id = $1 ORDER BY m.created_at, m.mail_id`,
    [order],
  );
}

export async function mailSheet(db: Db, mail: string): Promise<MailSheet | null> {
  const rows = await db.query<MailSheet>(
    'mail_sheet',
    `SELECT ${sheet} FROM mails m JOIN orders o USING (order_id) JOIN events e USING (event_no) WHERE m.mail_id = $1`,
    [mail],
  );
  return rows[0] ?? null;
}

export type ResendOutcome =
  /** It had failed. The same mail is owed again, under the same Message-ID. */
  | { kind: 'again'; mail: string }
  /** It had been sent, and a copy was asked for: a mail of its own, which no receiver drops as a repeat. */
  | { kind: 'copied'; mail: string }
  | { kind: 'sent' | 'not_needed' | 'unknown' }
  /** The mail is owed and has not failed, or, if `mail` is present, the copy that it names is owed. */
  | { kind: 'under_way'; mail?: string };

/** Sends a mail again because a person asks for it; audited. */
export async function resendMail(
  db: Db,
  mail: string,
  { copy, actor }: { copy: boolean; actor: string },
): Promise<ResendOutcome> {
  const rows = await db.query<{ outcome: ResendOutcome }>(
    'mail_resend',
    'SELECT mail_resend($1, $2, $3) AS outcome',
    [mail, copy, actor],
  );
  return rows[0]!.outcome;
}
