import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { escapeHtml } from '../fulfilment/letters.ts';
import {
  attachmentInMailbox,
  findInMailbox,
  listMailbox,
  type MailboxEntry,
  type MailboxMail,
} from '../fulfilment/mailbox.ts';
import type { Db } from '../sales/db.ts';
import { problem } from './errors.ts';
import type { App } from './server.ts';

const listedMax = 200;
const MailParams = Type.Object({ mail: Type.String({ maxLength: 200 }) });
const AttachmentParams = Type.Object({
  mail: Type.String({ maxLength: 200 }),
  position: Type.String({ pattern: '^[1-9][0-9]?$' }),
});

/**
 * The local mailbox's pages, for development: registered only while no mail server is configured. Mails hold links that open
 * orders, so nobody sees them but who sits at this machine.
 */
export function registerMailbox(app: App, { db }: { db: Db }): void {
  const schema = { hide: true };

  app.addHook('onRequest', async (request) => {
    if (!isLocal(request)) {
      throw problem('not_found', { detail: 'The local mailbox is shown only on the machine itself.' });
    }
  });

  app.get('/dev/mail', { schema }, async (_request, reply) =>
    sendPage(reply, 'Local mailbox', listPage(await listMailbox(db, listedMax))),
  );

  app.get('/dev/mail/:mail', { schema: { ...schema, params: MailParams } }, async (request, reply) => {
    const mail = await found(db, request.params.mail);
    return sendPage(reply, mail.subject, mailPage(mail));
  });

  app.get('/dev/mail/:mail/html', { schema: { ...schema, params: MailParams } }, async (request, reply) => {
    const mail = await found(db, request.params.mail);
    // Whatever the mail holds: no script, no form, nothing fetched, an origin of its own. Links open beside it.
    reply.header(
      'content-security-policy',
      "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'",
    );
    return reply.header('cache-control', 'no-store').type('text/html; charset=utf-8').send(mail.html);
  });

  app.get(
    '/dev/mail/:mail/attachments/:position',
    { schema: { ...schema, params: AttachmentParams } },
    async (request, reply) => {
      const { mail, position } = request.params;
      const attachment = await attachmentInMailbox(db, mail, Number(position));
      if (!attachment) throw problem('not_found');
      const { filename, mimeType, bytes } = attachment;
      reply.header('content-security-policy', "sandbox; default-src 'none'");
      reply.header('content-disposition', `inline; filename="${filename.replace(/[^\w.-]/g, '_')}"`);
      return reply.header('cache-control', 'no-store').type(mimeType).send(bytes);
    },
  );
}

async function found(db: Db, messageId: string): Promise<MailboxMail> {
  const mail = await findInMailbox(db, messageId);
  if (!mail) throw problem('not_found');
  return mail;
}

const loopback = /^(127(\.\d+){3}|::1|::ffff:127(\.\d+){3})$/;
const localHost = /^(localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/i;

/** From this machine, straight (no proxy in between), and under a local name: not by a foreign page that renamed us. */
function isLocal(request: FastifyRequest): boolean {
  const { headers, socket } = request.raw;
  return (
    loopback.test(socket.remoteAddress ?? '') &&
    localHost.test(headers.host ?? '') &&
    headers['x-forwarded-for'] === undefined &&
    headers.forwarded === undefined
  );
}

const style = `
body{font:16px/1.5 system-ui,sans-serif;margin:0;color:#1a1d24;background:#f4f5f7}
main{max-width:960px;margin:0 auto;padding:24px 16px}
h1{font-size:24px;margin:0 0 16px}
table{width:100%;border-collapse:collapse;background:#fff;border-radius:8px}
td{overflow-wrap:anywhere}
td,th{text-align:left;padding:10px 12px;border-bottom:1px solid #e3e6eb;vertical-align:top}
dl{background:#fff;border-radius:8px;padding:12px 16px;margin:0 0 16px;display:grid;grid-template-columns:max-content 1fr;gap:4px 16px}
dt{color:#4a5160}dd{margin:0;overflow-wrap:anywhere}
iframe{width:100%;height:640px;border:1px solid #e3e6eb;border-radius:8px;background:#fff}
pre{background:#fff;border:1px solid #e3e6eb;border-radius:8px;padding:16px;white-space:pre-wrap;overflow-wrap:anywhere}
.muted{color:#4a5160}`;

function sendPage(reply: FastifyReply, title: string, body: string): FastifyReply {
  reply.header(
    'content-security-policy',
    "default-src 'none'; style-src 'unsafe-inline'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  );
  const page = `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escapeHtml(title)}</title><style>${style}</style></head><body><main>${body}</main></body></html>`;
  return reply.header('cache-control', 'no-store').type('text/html; charset=utf-8').send(page);
}

function listPage(mails: MailboxEntry[]): string {
  const rows = mails.map(
    (mail) => `<tr><td><a href="${pathOf(mail)}">${bdi(mail.subject)}</a></td><td>${bdi(mail.to)}</td>
<td class="muted">${timeOf(mail)}${mail.copies > 1 ? `, ${mail.copies} copies` : ''}</td></tr>`,
  );
  return `<h1>Local mailbox</h1>
<p class="muted">No mail server is configured: what buyers would be sent is kept here. The newest ${listedMax} are listed.</p>
${
  rows.length > 0
    ? `<table><thead><tr><th>Subject</th><th>To</th><th>Time</th></tr></thead><tbody>${rows.join('')}</tbody></table>`
    : '<p>No mail yet.</p>'
}`;
}

function mailPage(mail: MailboxMail): string {
  const attachments = mail.attachments.map(
    ({ position, filename, size }) =>
      `<a href="${pathOf(mail)}/attachments/${position}">${bdi(filename)}</a> (${Math.ceil(size / 1024)} KB)`,
  );
  const facts = {
    From: bdi(mail.from),
    To: bdi(mail.to),
    Time: timeOf(mail),
    'Message-ID': bdi(mail.messageId),
    Copies: String(mail.copies),
    Attachments: attachments.join(', ') || 'none',
  };
  const list = Object.entries(facts).map(([name, value]) => `<dt>${name}</dt><dd>${value}</dd>`);
  return `<p><a href="/dev/mail">All mails</a></p><h1>${bdi(mail.subject)}</h1><dl>${list.join('')}</dl>
<iframe title="As HTML" sandbox="allow-popups allow-popups-to-escape-sandbox" src="${pathOf(mail)}/html"></iframe>
<h2>As text</h2><pre dir="auto">${escapeHtml(mail.text)}</pre>`;
}

function pathOf({ messageId }: MailboxEntry): string {
  return `/dev/mail/${encodeURIComponent(messageId)}`;
}

function timeOf({ at }: MailboxEntry): string {
  return new Date(at).toISOString().slice(0, 19).replace('T', ' ').concat(' UTC');
}

function bdi(text: string): string {
  return `<bdi>${escapeHtml(text)}</bdi>`;
}
