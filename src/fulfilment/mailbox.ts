import type { Db } from '../postgres/db.ts';
import type { MailTransport } from './mail-transport.ts';

/** The local mailbox: where mails go while no mail server is configured, for looking at in a browser. */
export interface MailboxEntry {
  messageId: string;
  /** Epoch ms. */
  at: number;
  /** How often it came: more than once after a crash between sending and recording. */
  copies: number;
  from: string;
  to: string;
  subject: string;
}

export interface MailboxMail extends MailboxEntry {
  text: string;
  html: string;
  attachments: { position: number; filename: string; mimeType: string; size: number }[];
}

const columns = `message_id AS "messageId", at, copies, sender AS "from", recipient AS "to", subject`;
/** Older ones go: it is a place to look, not an archive. */
export const mailboxMax = 10_000;

/** Takes each mail in one statement; the same one again adds a copy, as any receiver would see. */
export function createMailboxTransport({ db }: { db: Db }): MailTransport {
  return {
    async send(mail) {
      await db.query(
        'mailbox_take',
        `WITH taken AS (
           INSERT INTO mailbox (message_id, sender, recipient, subject, body_text, body_html)
           VALUES ($1, $2, $3, $4, $5, $6)
           ON CONFLICT (message_id) DO UPDATE SET copies = mailbox.copies + 1
           RETURNING message_id, copies),
         attached AS (
           INSERT INTO mailbox_attachments (message_id, position, filename, mime_type, bytes)
           SELECT taken.message_id, a.position, a.filename, a.mime_type, a.bytes
           FROM taken, unnest($7::text[], $8::text[], $9::bytea[]) WITH ORDINALITY
             AS a (filename, mime_type, bytes, position)
           WHERE taken.copies = 1)
         DELETE FROM mailbox WHERE message_id IN (SELECT message_id FROM mailbox ORDER BY at DESC OFFSET $10)`,
        [
          mail.messageId,
          asText(mail.from),
          asText(mail.to),
          mail.subject,
          mail.text,
          mail.html,
          mail.attachments.map(({ filename }) => filename),
          mail.attachments.map(({ mimeType }) => mimeType),
          mail.attachments.map(({ bytes }) => Buffer.from(bytes)),
          mailboxMax,
        ],
      );
      return { kind: 'taken' };
    },
    close: () => {},
  };
}

function asText({ name, address }: { name: string; address: string }): string {
  return name ? `${name} <${address}>` : address;
}

/** The newest first, after `skip` of them; `count` is of all. */
export async function listMailbox(
  db: Db,
  { skip, limit }: { skip: number; limit: number },
): Promise<{ count: number; mails: MailboxEntry[] }> {
  const [mails, [sum]] = await Promise.all([
    db.query<MailboxEntry>(
      'mailbox_list',
      `SELECT ${columns} FROM mailbox ORDER BY at DESC, message_id OFFSET $1 LIMIT $2`,
      [skip, limit],
    ),
    db.query<{ count: number }>('mailbox_count', 'SELECT count(*) AS count FROM mailbox', []),
  ]);
  return { count: sum?.count ?? 0, mails };
}

export async function findInMailbox(db: Db, messageId: string): Promise<MailboxMail | null> {
  const rows = await db.query<MailboxMail>(
    'mailbox_find',
    `SELECT ${columns}, body_text AS "text", body_html AS html,
       (SELECT coalesce(json_agg(json_build_object('position', position, 'filename', filename, 'mimeType', mime_type,
                                                   'size', length(bytes)) ORDER BY position), '[]')
        FROM mailbox_attachments a WHERE a.message_id = m.message_id) AS attachments
     FROM mailbox m WHERE message_id = $1`,
    [messageId],
  );
  return rows[0] ?? null;
}

export async function attachmentInMailbox(
  db: Db,
  messageId: string,
  position: number,
): Promise<{ filename: string; mimeType: string; bytes: Buffer } | null> {
  const rows = await db.query<{ filename: string; mimeType: string; bytes: Buffer }>(
    'mailbox_attachment',
    `SELECT filename, mime_type AS "mimeType", bytes FROM mailbox_attachments WHERE message_id = $1 AND position = $2`,
    [messageId, position],
  );
  return rows[0] ?? null;
}
