import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import net from 'node:net';
import { after, before, describe, test } from 'node:test';
import { createApp } from '../../src/app/app.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { readConfig } from '../../src/runtime/config.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { startTestApp, type TestApp, testScope, until } from '../support/app.ts';
import { onsale } from '../support/onsale.ts';
import { startTestSmtp, type TestSmtp } from '../support/smtp.ts';

const hostile = '<script>alert("&")</script> Night\u202e';
let app: TestApp;
let smtp: TestSmtp;
let nextSeat = 100;
const seats = (count: number): number[] => Array.from({ length: count }, () => nextSeat++);

async function mailOf(order: string) {
  const rows = await app.database.query(
    'SELECT mail_id AS mail, state, attempts, last_error FROM mails WHERE order_id = $1',
    [order],
  );
  assert.equal(rows.length, 1, 'one mail is owed for one purchase');
  return rows[0]!;
}
const mailsAbout = (order: string) => smtp.mails.filter(({ text }) => text?.includes(order));
/** The first mail waits for the first document, and that for its fonts. */
const arrived = (order: string, count = 1) =>
  until(async () => mailsAbout(order).length >= count, 'the mail', 90_000);

describe('mail after a purchase', () => {
  const scope = testScope();
  before(async () => {
    smtp = await startTestSmtp(scope);
    app = await startTestApp(scope, {
      seats: 400,
      env: {
        ONSALE_SMTP_URL: smtp.url,
        ONSALE_MAIL_FROM: 'Box Office <tickets@venue.example>',
        ONSALE_TIME_ZONE: 'Europe/Berlin',
      },
    });
    await app.database.query(`UPDATE events SET name = $1, performance_at = '2026-12-05 18:30+00'`, [
      hostile,
    ]);
  });
  after(() => scope.close());

  test('says what was bought, opens the order, carries the tickets, and runs nothing of the organiser’s text', async () => {
    const buyer = await app.admitted();
    const order = await buyer.mustBuy(seats(2));
    await arrived(order.order);
    const [mail] = mailsAbout(order.order);
    assert.ok(mail?.html && mail.text);
    assert.equal(mail.recipient, order.buyer.email);
    assert.deepEqual(mail.from, { name: 'Box Office', address: 'tickets@venue.example' });
    assert.equal(mail.subject, 'Your tickets: <script>alert("&")</script> Night');
    assert.ok(!mail.html.includes('<script'), 'the name is text, not markup');
    assert.ok(mail.html.includes('&lt;script&gt;alert(&quot;&amp;&quot;)&lt;/script&gt; Night'));
    assert.ok(!/\u202e/.test(mail.text + mail.html), 'nothing turns the text round');
    for (const body of [mail.text, mail.html]) {
      for (const seat of order.seats) assert.ok(body.includes(`seat ${seat.number}`), body);
      assert.ok(body.includes(`€${(order.amount / 100).toFixed(2)}`), body);
      assert.ok(body.includes('Saturday, 5 December 2026, 19:30 CET'), body);
    }
    const [, secret] = /\/orders\/[\w-]+#([\w-]+)/.exec(mail.text) ?? [];
    const elsewhere = await app.buyer().request('GET', `/api/orders/${order.order}`, {
      headers: { authorization: `Bearer ${secret}` },
    });
    assert.equal(elsewhere.status, 200, 'the link opens the order in any browser');
    assert.deepEqual(
      mail.attachments.map(({ filename, mimeType }) => [filename, mimeType]),
      [['tickets.pdf', 'application/pdf']],
    );
    const bytes = Buffer.from(mail.attachments[0]!.content as ArrayBuffer);
    assert.equal(bytes.subarray(0, 5).toString(), '%PDF-');
    await until(async () => (await mailOf(order.order)).state === 'sent', 'the mail is recorded');
  });

  test('the mail server being away touches no order; the mail follows', async () => {
    await smtp.close();
    const buyer = await app.admitted();
    const order = await buyer.mustBuy(seats(1));
    assert.equal(order.state, 'paid');
    await until(async () => (await mailOf(order.order)).attempts > 0, 'a try in vain');
    const owed = await mailOf(order.order);
    assert.equal(owed.state, 'due');
    assert.match(owed.last_error, /ECONN|ESOCKET/);
    await smtp.open();
    await arrived(order.order);
    await until(async () => (await mailOf(order.order)).state === 'sent', 'the mail is recorded');
    assert.equal((await buyer.get(`/api/orders/${order.order}`)).body.state, 'paid');
  });

  test('a mail whose answer was lost comes again under the same Message-ID', async () => {
    smtp.behave({ cutAfterData: true });
    const order = await (await app.admitted()).mustBuy(seats(1));
    await arrived(order.order);
    smtp.behave(null);
    await arrived(order.order, 2);
    const [first, second] = mailsAbout(order.order);
    assert.ok(first?.messageId);
    assert.equal(first.messageId, second?.messageId);
    await until(async () => (await mailOf(order.order)).state === 'sent', 'the mail is recorded');
  });

  test('a refused address is on the operator’s list without the address, and is sent again when asked', async () => {
    smtp.behave({ rcpt: '550 5.1.1 no such mailbox' });
    const order = await (await app.admitted()).mustBuy(seats(1));
    await until(async () => (await mailOf(order.order)).state === 'refused', 'the refusal');
    const organiser = app.buyer();
    const { email, password } = app.app.organiser;
    assert.equal((await organiser.get('/api/organiser/mails')).status, 401);
    assert.equal((await organiser.post('/api/organiser/sessions', { email, password })).status, 200);
    const { body } = await organiser.get('/api/organiser/mails');
    const listed = body.mails.find((mail: { order: string }) => mail.order === order.order);
    assert.equal(listed.state, 'refused');
    assert.match(listed.error, /550 5\.1\.1 no such mailbox/);
    assert.ok(!JSON.stringify(body).includes(order.buyer.email));
    smtp.behave(null);
    const again = await organiser.post(`/api/organiser/mails/${listed.mail}/again`);
    assert.equal(again.status, 200, JSON.stringify(again.body));
    await arrived(order.order);
    await until(async () => (await mailOf(order.order)).state === 'sent', 'the mail is recorded');
    const sent = await organiser.post(`/api/organiser/mails/${listed.mail}/again`);
    assert.deepEqual([sent.status, sent.body.code], [409, 'mail_sent']);
    const none = `/api/organiser/mails/${randomUUID()}`;
    for (const answer of [await organiser.get(none), await organiser.post(`${none}/again`)]) {
      assert.deepEqual([answer.status, answer.body.code], [404, 'unknown_mail']);
    }
    const [entry] = await app.database.query(
      `SELECT actor, detail FROM audit_log WHERE action = 'mail_again' AND detail ->> 'mail' = $1`,
      [listed.mail],
    );
    assert.deepEqual(entry, { actor: email, detail: { mail: listed.mail } });
  });

  test('the command line lists failed mails, shows one, sends it again under its Message-ID; a sent mail goes out again only as a copy', async () => {
    smtp.behave({ rcpt: '550 5.1.1 no such mailbox' });
    const order = await (await app.admitted()).mustBuy(seats(1));
    await until(async () => (await mailOf(order.order)).state === 'refused', 'the refusal');
    const { mail } = await mailOf(order.order);
    const listed = await onsale(['mail', 'list'], app.env);
    assert.equal(listed.code, 1);
    assert.match(
      listed.out,
      new RegExp(`${mail}  order.confirmed of order ${order.order} .*refused, 1 attempt: .*550`),
    );
    assert.ok(!listed.out.includes(order.buyer.email));
    const shown = JSON.parse((await onsale(['mail', 'show', mail, '--json'], app.env)).out);
    assert.deepEqual([shown.state, shown.attempts, shown.nextAt, shown.copyOf], ['refused', 1, null, null]);
    smtp.behave(null);
    const resent = await onsale(['mail', 'resend', mail], app.env);
    assert.equal(resent.code, 0, resent.err);
    await arrived(order.order);
    await until(async () => (await mailOf(order.order)).state === 'sent', 'the mail is recorded');
    assert.equal((await onsale(['mail', 'list', '--json'], app.env)).out.trim(), '{"count":0,"mails":[]}');

    const again = await onsale(['mail', 'resend', mail], app.env);
    assert.equal(again.code, 1);
    assert.match(again.err, /--copy/);
    assert.equal(mailsAbout(order.order).length, 1);
    const organiser = app.buyer();
    const { email, password } = app.app.organiser;
    assert.equal((await organiser.post('/api/organiser/sessions', { email, password })).status, 200);
    const path = `/api/organiser/mails/${mail}/again`;
    // However often it is asked for at once, there is one copy under way.
    smtp.behave({ rcpt: '450 later' });
    const copies = await Promise.all([1, 2, 3].map(() => organiser.post(path, { copy: true })));
    assert.deepEqual(
      copies.map(({ status }) => status),
      [200, 200, 200],
    );
    const [copy, ...more] = new Set(copies.map(({ body }) => body.mail));
    assert.ok(copy !== mail && more.length === 0, JSON.stringify([copy, more]));
    const waits = async () => (await organiser.get(`/api/organiser/mails/${copy}`)).body;
    await until(async () => {
      const { attempts, error, nextAt, updatedAt } = await waits();
      return attempts > 0 && /450 later/.test(error) && nextAt > updatedAt;
    }, 'a try in vain, and the time of the next one');
    smtp.behave(null);
    await arrived(order.order, 2);
    const [first, second] = mailsAbout(order.order).map(({ messageId }) => messageId);
    assert.ok(
      first?.includes(mail) && second?.includes(copy),
      'a Message-ID of its own: no receiver drops it',
    );
    const all = await organiser.get(`/api/organiser/mails?order=${order.order}`);
    assert.deepEqual(
      all.body.mails.map(({ mail: id, copyOf }: { mail: string; copyOf: string }) => [id, copyOf]),
      [
        [mail, null],
        [copy, mail],
      ],
    );
    await until(async () => (await waits()).state === 'sent', 'the copy is recorded');
    assert.equal((await onsale(['mail', 'show', 'nothing'], app.env)).code, 1);
    const acts = await app.database.query(
      `SELECT action, actor FROM audit_log WHERE detail ->> 'mail' = $1 ORDER BY 1`,
      [mail],
    );
    assert.deepEqual(acts, [
      { action: 'mail_again', actor: 'command line' },
      { action: 'mail_copy', actor: email },
    ]);
  });

  test('the ticket document is the buyer’s alone, in both sizes', async () => {
    const buyer = await app.admitted();
    const order = await buyer.mustBuy(seats(2));
    for (const size of ['a4', 'phone']) {
      const mine = await buyer.get(`/api/orders/${order.order}/tickets.pdf?size=${size}`);
      assert.equal(mine.status, 200);
      assert.equal(mine.headers.get('content-type'), 'application/pdf');
      assert.equal(mine.body.subarray(0, 5).toString(), '%PDF-');
      assert.equal(mine.body.toString('latin1').match(/\/Type \/Page\b/g)?.length, 2, 'a page a ticket');
    }
    assert.equal((await app.buyer().get(`/api/orders/${order.order}/tickets.pdf`)).status, 404);
    const unpaid = await buyer.mustOrder(seats(1));
    assert.equal((await buyer.get(`/api/orders/${unpaid.order}/tickets.pdf`)).status, 409);
    assert.equal((await buyer.get('/dev/mail')).status, 404, 'no local mailbox beside a mail server');
  });
});

test('without a mail server mails are in the local mailbox, which shows them without running them', async (t) => {
  const local = await startTestApp(t, { seats: 100, env: { ONSALE_DEMO: 'yes' } });
  await local.database.query('UPDATE events SET name = $1', [hostile]);
  const buyer = await local.admitted();
  const order = await buyer.mustBuy([5]);
  const visitor = local.buyer();
  await until(
    async () => String((await visitor.get('/dev/mail')).body).includes('Your tickets'),
    'the mail in the list',
    30_000,
  );
  const list = await visitor.get('/dev/mail');
  assert.ok(!String(list.body).includes('<script'), 'no markup of others');
  const [, path = ''] = /href="(\/dev\/mail\/[^"]+)"/.exec(String(list.body)) ?? [];
  const page = String((await visitor.get(path)).body);
  assert.ok(page.includes(order.order) && page.includes('tickets.pdf'));
  const html = await visitor.get(`${path}/html`);
  assert.match(html.headers.get('content-security-policy') ?? '', /^sandbox .*default-src 'none'/);
  const pdf = await visitor.get(`${path}/attachments/1`);
  assert.equal(pdf.headers.get('content-type'), 'application/pdf');
  assert.equal(pdf.body.subarray(0, 5).toString(), '%PDF-');
  for (const headers of [
    { 'x-forwarded-for': '203.0.113.9' },
    { forwarded: 'for=203.0.113.9' },
    { 'x-real-ip': '203.0.113.9' },
    { via: '1.1 proxy' },
  ] as Record<string, string>[]) {
    const strange = await visitor.request('GET', '/dev/mail', { headers });
    assert.equal(strange.status, 404, `not for those who come through a proxy: ${JSON.stringify(headers)}`);
  }
  assert.match(await httpOneZero(local.url, '/dev/mail'), /^HTTP\/1.1 404 /, 'nginx that adds no header');
  const organiser = local.buyer();
  const { email, password } = local.app.organiser;
  const signedIn = await organiser.post('/api/organiser/sessions', { email, password });
  const paths = signedIn.headers
    .getSetCookie()
    .map((line) => /^onsale_organiser=.*Path=([^;]+)/.exec(line)?.[1]);
  assert.deepEqual(paths.filter(Boolean).sort(), ['/api/organiser', '/dev/mail']);
  const headers = { 'x-forwarded-for': '203.0.113.9' };
  assert.equal((await organiser.request('GET', '/dev/mail', { headers })).status, 200);
  assert.equal((await organiser.request('GET', path, { headers })).status, 200);

  // The same requests showed that a proxy is in front which nothing was said about.
  await until(
    async () => (await local.database.query('SELECT FROM undeclared_proxies')).length > 0,
    'a sighting',
  );
  const { out } = await onsale(['doctor'], local.env);
  assert.match(out, /A proxy at 127\.0\.0\.1 sends .*throttling by address is off.*ONSALE_TRUST_PROXY/);
  assert.match(out, /Mails go nowhere/);

  const real = await createApp(configOf({ ...local.env, ONSALE_DEMO: 'no' }), {
    clock: systemClock,
    random: systemRandom,
    log: silentLogger,
    roles: ['web'],
  });
  t.after(() => real.stop());
  assert.equal(real.mailboxUrl, null);
  assert.equal((await fetch(`${real.url}/dev/mail`)).status, 404, 'only with the flag of a demo');
});

/** The whole answer to a request as nginx sends it to a server behind it: its own Host, and no header that says so. */
async function httpOneZero(url: string, path: string): Promise<string> {
  const { hostname, port, host } = new URL(url);
  const socket = net.connect(Number(port), hostname);
  socket.write(`GET ${path} HTTP/1.0\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
  let text = '';
  for await (const chunk of socket) text += chunk;
  return text;
}

function configOf(env: Record<string, string>) {
  const read = readConfig(env);
  assert.ok(read.kind === 'ok', JSON.stringify(read));
  return read.config;
}
