import assert from 'node:assert/strict';
import { test } from 'node:test';
import { composeLetter } from '../../src/fulfilment/letters.ts';
import { createSmtpTransport, type Mail } from '../../src/fulfilment/mail-transport.ts';
import { startTestSmtp } from '../support/smtp.ts';

const hostile = '<script>alert("&")</script> Night\u202e\r\nBcc: victim@example.org';
const letter = composeLetter('order.confirmed', {
  issued: {
    order: '7f6d3f6e-0000-4000-8000-000000000001',
    state: 'paid',
    reason: null,
    buyer: { name: 'المشتري', email: 'buyer@example.org' },
    eventName: hostile,
    venue: 'The Hall',
    performanceAt: Date.UTC(2026, 11, 5, 18, 30),
    currency: 'EUR',
    amount: 5_350,
    orderFee: 100,
    seats: [
      {
        seat: 1,
        section: '112',
        row: '4',
        number: '9',
        category: 'Stalls',
        kind: 'full',
        price: 5_000,
        fee: 250,
        ticket: { id: 'a', code: 'A' },
      },
    ],
  },
  detail: {},
  orderUrl: 'https://venue.example/orders/1#secret',
  timeZone: 'Europe/Berlin',
});
assert.ok(letter);
const mail: Mail = Object.freeze({
  messageId: '7f6d3f6e@venue.example',
  from: Object.freeze({ name: 'Box Office', address: 'tickets@venue.example' }),
  to: Object.freeze({ name: 'المشتري', address: 'buyer@example.org' }),
  subject: letter.subject,
  text: letter.text,
  html: letter.html,
  attachments: [{ filename: 'tickets.pdf', mimeType: 'application/pdf', bytes: Buffer.from('%PDF-') }],
});

test('a mail arrives as it was written: sender, words, place, time and sum, nothing of the organiser’s as markup', async (t) => {
  const smtp = await startTestSmtp(t);
  const transport = createSmtpTransport({ url: smtp.url });
  assert.deepEqual(await transport.send(mail), { kind: 'taken' });
  transport.close();
  const [got] = smtp.mails;
  assert.ok(got?.html && got.text);
  assert.equal(got.recipient, 'buyer@example.org');
  assert.equal(got.messageId, '<7f6d3f6e@venue.example>');
  assert.deepEqual(got.from, { name: 'Box Office', address: 'tickets@venue.example' });
  assert.equal(got.subject, 'Your tickets: <script>alert("&")</script> Night Bcc: victim@example.org');
  assert.ok(!got.html.includes('<script'), 'the name is text, not markup');
  assert.ok(got.html.includes('&lt;script&gt;alert(&quot;&amp;&quot;)&lt;/script&gt; Night'));
  assert.ok(!/\u202e/.test(got.text + got.html), 'nothing turns the text round');
  for (const body of [got.text, got.html]) {
    for (const words of [
      'row 4, seat 9',
      '€53.50',
      'Saturday, 5 December 2026, 19:30 CET',
      '/orders/1#secret',
    ]) {
      assert.ok(body.includes(words), `${words} in\n${body}`);
    }
  }
  const [attached] = got.attachments;
  assert.deepEqual([attached?.filename, attached?.mimeType], ['tickets.pdf', 'application/pdf']);
  assert.equal(Buffer.from(attached!.content as ArrayBuffer).toString(), '%PDF-');
});

test('only what the server says of the mail itself is final; a lost answer is not, and the repeat has the same id', async (t) => {
  const smtp = await startTestSmtp(t);
  const transport = createSmtpTransport({ url: smtp.url });
  const after = async (behaviour: Parameters<typeof smtp.behave>[0]) => {
    smtp.behave(behaviour);
    return transport.send(mail);
  };
  const unknown = await after({ rcpt: '550 5.1.1 <buyer@example.org> no such mailbox' });
  assert.equal(unknown.kind, 'refused');
  assert.ok('error' in unknown && /550 5\.1\.1/.test(unknown.error) && !unknown.error.includes('buyer@'));
  assert.equal((await after({ data: '554 5.7.1 not wanted' })).kind, 'refused');
  assert.equal((await after({ rcpt: '451 4.7.1 later' })).kind, 'not_now');
  assert.equal((await after({ data: '452 4.3.1 full' })).kind, 'not_now');
  assert.equal((await after({ cutAfterData: true })).kind, 'not_now');
  assert.equal((await after(null)).kind, 'taken');
  assert.deepEqual(
    smtp.mails.map(({ messageId }) => messageId),
    ['<7f6d3f6e@venue.example>', '<7f6d3f6e@venue.example>'],
  );
  await smtp.close();
  assert.equal((await transport.send(mail)).kind, 'not_now');
  transport.close();
});
