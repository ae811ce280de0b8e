import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { Problem, problem } from '../core/problems.ts';
import { escapeHtml } from '../fulfilment/letters.ts';
import {
  attachmentInMailbox,
  findInMailbox,
  listMailbox,
  type MailboxEntry,
  type MailboxMail,
  mailboxMax,
} from '../fulfilment/mailbox.ts';
import type { Db } from '../postgres/db.ts';
import { forwardedHeaderOf } from './client-address.ts';
import type { App } from './routes.ts';

const pageSize = 50;
const ListQuery = Type.Object({
  page: Type.Optional(Type.String({ pattern: '^[1-9][0-9]{0,3}$' })),
});
const MailParams = Type.Object({ mail: Type.String({ maxLength: 200 }) });
const AttachmentParams = Type.Object({
  mail: Type.String({ maxLength: 200 }),
  position: Type.String({ pattern: '^[1-9][0-9]?$' }),
});

export const mailboxPath = '/dev/mail';

/**
 * The local mailbox's pages, for a demo (config.mail.mailbox). Mails hold names, addresses and links that open orders, so only
 * the signed-in organiser sees them and a person who sits at this machine.
 */
export function registerMailbox(
  app: App,
  { db, signedIn }: { db: Db; signedIn: (request: FastifyRequest) => Promise<string> },
): void {
  const schema = { hide: true };

  app.addHook('onRequest', async (request) => {
    if (isLocal(request)) return;
    await signedIn(request).catch((error) => {
      if (!(error instanceof Problem)) throw error;
      throw problem('not_found', {
        detail: 'The local mailbox is shown on the machine itself, and to the organiser who has signed in.',
      });
    });
  });

  app.get('/dev/mail', { schema: { ...schema, querystring: ListQuery } }, async (request, reply) => {
    const page = Number(request.query.page ?? 1);
    const { count, mails } = await listMailbox(db, { skip: (page - 1) * pageSize, limit: pageSize });
    return sendPage(reply, 'Local mailbox', listPage(mails, count, page));
  });

  app.get('/dev/mail/:mail', { schema: { ...schema, params: MailParams } }, async (request, reply) => {
    const mail = await found(db, request.params.mail);
    return sendPage(reply, subjectOf(mail), mailPage(mail));
  });

  app.get('/dev/mail/:mail/html', { schema: { ...schema, params: MailParams } }, async (request, reply) => {
    const mail = await found(db, request.params.mail);
    // Mail content may contain anything, so it runs no script, sends no form, fetches nothing and has its own origin. Links
    // open in a new tab.
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

/**
 * From this machine, without a proxy in between, and under a local name: not by a foreign page that renamed us (DNS rebinding).
 * HTTP/1.0 is what nginx speaks to a server behind it unless told otherwise; no browser does.
 */
function isLocal(request: FastifyRequest): boolean {
  const { headers, socket, httpVersion } = request.raw;
  return (
    loopback.test(socket.remoteAddress ?? '') &&
    localHost.test(headers.host ?? '') &&
    httpVersion !== '1.0' &&
    headers.via === undefined &&
    forwardedHeaderOf(headers) === undefined
  );
}

const style = `
:root{color-scheme:light dark;--ink:#1a1d24;--ink-2:#4a5160;--ground:#f4f5f7;--surface:#fff;--line:#d5d9e0;--link:#14594a}
@media(prefers-color-scheme:dark){:root{--ink:#eceeea;--ink-2:#aab2ad;--ground:#121514;--surface:#1b1f1e;--line:#333a37;--link:#7fd3b6}}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;margin:0;color:var(--ink);background:var(--ground)}
main{max-width:960px;margin:0 auto;padding:24px 16px}
h1{font-size:24px;line-height:1.25;margin:0 0 16px;overflow-wrap:anywhere}
h2{font-size:18px;margin:24px 0 8px}
a{color:var(--link);text-underline-offset:.2em}
:focus-visible{outline:3px solid #1a56c4;outline-offset:2px}
.card,table{background:var(--surface);border-radius:8px}
table{width:100%;border-collapse:collapse;table-layout:fixed}
th:first-child{width:44%}th:last-child{width:15em}
td,th{text-align:start;padding:10px 12px;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
td:last-child{white-space:nowrap}
dl{padding:12px 16px;margin:0 0 16px;display:grid;grid-template-columns:max-content 1fr;gap:4px 16px}
dt{color:var(--ink-2)}dd{margin:0;min-width:0;overflow-wrap:anywhere}
iframe{display:block;width:100%;height:640px;border:1px solid var(--line);border-radius:8px;background:#fff}
pre{margin:0;border:1px solid var(--line);padding:16px;white-space:pre-wrap;overflow-wrap:anywhere}
nav{display:flex;flex-wrap:wrap;gap:4px 24px;margin:16px 0}
nav a{padding:6px 0}
.muted{color:var(--ink-2)}
@media(max-width:600px){
table,tbody,tr,td{display:block}
thead{position:absolute;clip-path:inset(50%)}
tr{padding:10px 12px;border-bottom:1px solid var(--line)}
td{padding:0;border:0}
td:last-child{white-space:normal}
dl{grid-template-columns:1fr}dd{margin-bottom:6px}
}`;

function sendPage(reply: FastifyReply, title: string, body: string): FastifyReply {
  reply.header(
    'content-security-policy',
    "default-src 'none'; style-src 'unsafe-inline'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  );
  const page = `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escapeHtml(title)}</title><style>${style}</style></head><body><main>${body}</main></body></html>`;
  return reply.header('cache-control', 'no-store').type('text/html; charset=utf-8').send(page);
}

function listPage(mails: MailboxEntry[], count: number, page: number): string {
  const rows = mails.map(
    (mail) => `<tr role="row"><td role="cell"><a href="${pathOf(mail)}">${bdi(subjectOf(mail))}</a></td>
<td role="cell">${bdi(mail.to)}</td>
<td role="cell" class="muted">${timeOf(mail)}${mail.copies > 1 ? `, ${mail.copies} copies` : ''}</td></tr>`,
  );
  // Roles are named because a phone shows the rows as blocks, which would take them away.
  const heads = ['Subject', 'To', 'Time'].map((name) => `<th role="columnheader" scope="col">${name}</th>`);
  const first = (page - 1) * pageSize + 1;
  const links = [
    page > 1 ? `<a href="/dev/mail?page=${page - 1}" rel="prev">Newer</a>` : '',
    first + mails.length <= count ? `<a href="/dev/mail?page=${page + 1}" rel="next">Older</a>` : '',
  ].join('');
  const part =
    mails.length > 0 ? `${first} to ${first + mails.length - 1} of ${count}, the newest first.` : '';
  return `<h1>Local mailbox</h1>
<p class="muted">No mail server is configured: what buyers would be sent is kept here, the newest ${mailboxMax.toLocaleString('en')} mails. ${part}</p>
${
  rows.length > 0
    ? `<table role="table"><thead role="rowgroup"><tr role="row">${heads.join('')}</tr></thead><tbody role="rowgroup">${rows.join('')}</tbody></table>`
    : count > 0
      ? '<p>There are no mails so old. <a href="/dev/mail">The newest mails</a></p>'
      : '<p>No mail yet.</p>'
}${links === '' ? '' : `<nav aria-label="Pages">${links}</nav>`}`;
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
  return `<p><a href="/dev/mail">All mails</a></p><h1>${bdi(subjectOf(mail))}</h1><dl class="card">${list.join('')}</dl>
<h2>As HTML</h2><iframe title="As HTML" sandbox="allow-popups allow-popups-to-escape-sandbox" src="${pathOf(mail)}/html"></iframe>
<h2>As text</h2><pre class="card" dir="auto">${escapeHtml(mail.text)}</pre>`;
}

function pathOf({ messageId }: MailboxEntry): string {
  return `/dev/mail/${encodeURIComponent(messageId)}`;
}

/** A link needs words. */
function subjectOf({ subject }: MailboxEntry): string {
  return subject.trim() === '' ? '(no subject)' : subject;
}

function timeOf({ at }: MailboxEntry): string {
  return new Date(at).toISOString().slice(0, 19).replace('T', ' ').concat(' UTC');
}

function bdi(text: string): string {
  return `<bdi>${escapeHtml(text)}</bdi>`;
}
