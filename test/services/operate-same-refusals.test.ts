import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { main } from '../../src/cli.ts';
import { startTestApp, type TestApp, testScope } from '../support/app.ts';

/** A bad input of one feature, as a request and as a command. */
interface Row {
  feature: string;
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** Below /api/organiser. EVENT stands for the event's id, PLAN for the id of its plan. */
  path: string;
  body?: object;
  /** The bytes of a file, in place of `body`. FILE is replaced by its path in the command. */
  file?: string;
  command: string[];
  /** Part of the sentence that both give. */
  says: RegExp;
}

const event = { name: 'A show', plan: 'PLAN', currency: 'EUR', prices: {} };
const create = (more: object, ...flags: string[]): Omit<Row, 'says'> => ({
  feature: 'events',
  method: 'POST',
  path: '/events',
  body: { ...event, ...more },
  command: ['event', 'create', '--name', 'A show', '--plan', 'PLAN', '--price', 'none=1', ...flags],
});
const manifest = 'section,row,seat,x,y\nA,1,1,0,0\n';
const importFile = (query: string, flags: string[], file = manifest): Omit<Row, 'says'> => ({
  feature: 'plans',
  method: 'POST',
  path: `/plans?${query}`,
  file,
  command: ['plan', 'import', 'FILE', ...flags],
});
const price = { prices: { none: 100 } };
const uuid = '0b1d0000-0000-4000-8000-000000000000';

const rows: Row[] = [
  {
    ...create({ ...price, name: '   ' }, '--name', '   ', '--id', 'a'),
    says: /\/name has to be one line of text/,
  },
  {
    ...create({ ...price, name: 'x'.repeat(3_000) }, '--name', 'x'.repeat(3_000), '--id', 'a'),
    says: /\/name must NOT have more than 200 characters/,
  },
  { ...create({ ...price, id: 'Bad Id' }, '--id', 'Bad Id'), says: /\/id has to be 1 to 40 characters/ },
  {
    ...create(
      { ...price, onSaleAt: '2030-05-02T10:00:00Z', saleEndsAt: '2030-05-01T10:00:00Z' },
      ...['--on-sale-at', '2030-05-02T10:00:00Z', '--sale-ends-at', '2030-05-01T10:00:00Z'],
    ),
    says: /The sale must end after it starts/,
  },
  { ...create({ ...price, holdSeatsMax: 0 }, '--hold-seats-max', '0'), says: /\/holdSeatsMax must be >= 1/ },
  {
    ...create({ ...price, holdSeatsMax: 100_000 }, '--hold-seats-max', '100000'),
    says: /\/holdSeatsMax must be <= 50/,
  },
  {
    ...create({ ...price, holdSeatsMax: 'six' }, '--hold-seats-max', 'six'),
    says: /\/holdSeatsMax must be integer/,
  },
  {
    ...create({ ...price, accountFirst: true }, '--account-first'),
    says: /ONSALE_ACCOUNT_SECRET is not set/,
  },
  { ...create({ currency: 'XXX' }, '--currency', 'XXX'), says: /XXX is not a currency of ISO 4217/ },
  { ...create({ ...price, plan: 'nowhere' }, '--plan', 'nowhere'), says: /plan/ },
  {
    feature: 'sale',
    method: 'PATCH',
    path: '/events/nowhere/on-sale',
    body: { expectedVersion: 0, phase: 'open' },
    command: ['event', 'open', 'nowhere'],
    says: /There is no event nowhere/,
  },
  {
    feature: 'sale',
    method: 'GET',
    path: '/events/nowhere/figures',
    command: ['event', 'figures', 'nowhere'],
    says: /There is no event nowhere/,
  },
  { ...importFile('name=%20%20', ['--name', '  ']), says: /parameter name has to be one line of text/ },
  {
    ...importFile(`name=${'x'.repeat(3_000)}`, ['--name', 'x'.repeat(3_000)]),
    says: /parameter name must NOT have more than/,
  },
  { ...importFile('format=pdf', ['--format', 'pdf']), says: /format has to be "pretix" or "csv"/ },
  { ...importFile('map=floor=x', ['--map', 'floor=x']), says: /floor/ },
  { ...importFile('', [], 'x'), says: /The file has \d+ problems?; nothing was stored/ },
  {
    feature: 'plans',
    method: 'POST',
    path: '/events/EVENT/publish',
    command: ['event', 'publish', 'EVENT'],
    says: /published already/,
  },
  {
    feature: 'plans',
    method: 'POST',
    path: '/events/EVENT/plan',
    body: { plan: 'nowhere' },
    command: ['event', 'replan', 'EVENT', 'nowhere'],
    says: /plan/,
  },
  {
    feature: 'blocks',
    method: 'POST',
    path: '/events/EVENT/blocks',
    body: { seats: ['no such seat'], reason: 'Camera' },
    command: ['event', 'block', 'EVENT', 'no such seat', '--reason', 'Camera'],
    says: /seat/,
  },
  {
    feature: 'blocks',
    method: 'DELETE',
    path: '/events/EVENT/blocks',
    body: { seats: ['no such seat'] },
    command: ['event', 'unblock', 'EVENT', 'no such seat'],
    says: /seat/,
  },
  {
    feature: 'codes',
    method: 'POST',
    path: '/events/EVENT/codes',
    body: { label: 'Club', generate: { count: 0 }, presale: true },
    command: ['code', 'create', 'EVENT', '--label', 'Club', '--count', '0', '--presale'],
    says: /\/generate\/count must be >= 1/,
  },
  {
    feature: 'codes',
    method: 'POST',
    path: '/events/EVENT/codes',
    body: { label: 'Club', generate: { count: 1 }, presale: true },
    command: ['code', 'create', 'EVENT', '--label', 'Club', '--count', '1', '--presale'],
    says: /no presale/,
  },
  {
    feature: 'codes',
    method: 'POST',
    path: '/events/EVENT/codes/revoke',
    body: { batch: uuid },
    command: ['code', 'revoke', 'EVENT', '--batch', uuid],
    says: /code/i,
  },
  {
    feature: 'limits',
    method: 'POST',
    path: '/events/EVENT/limits/allowances',
    body: { account: 'not an address', reason: 'Family' },
    command: ['limits', 'allow', 'EVENT', '--account', 'not an address', '--reason', 'Family'],
    says: /e-mail address/,
  },
  {
    feature: 'limits',
    method: 'DELETE',
    path: `/events/EVENT/limits/allowances/${uuid}`,
    command: ['limits', 'end', 'EVENT', uuid],
    says: /exception/,
  },
  {
    feature: 'refunds',
    method: 'POST',
    path: `/orders/${uuid}/refunds`,
    body: { reason: 'Ill' },
    command: ['refund', 'order', uuid, '--reason', 'Ill'],
    says: /order/,
  },
  {
    feature: 'refunds',
    method: 'GET',
    path: '/events/nowhere/refunds',
    command: ['refund', 'list', 'nowhere'],
    says: /There is no event nowhere/,
  },
  {
    feature: 'refunds',
    method: 'GET',
    path: '/events/EVENT/refunds?state=odd',
    command: ['refund', 'list', 'EVENT', '--state', 'odd'],
    says: /state has to be "open", .* or "elsewhere"/,
  },
  {
    feature: 'refunds',
    method: 'POST',
    path: '/refunds/none/retry',
    command: ['refund', 'retry', 'none'],
    says: /refund has to be an id/,
  },
  {
    feature: 'refunds',
    method: 'POST',
    path: `/refunds/${uuid}/elsewhere`,
    body: { note: ' ' },
    command: ['refund', 'elsewhere', uuid, '--note', ' '],
    says: /\/note has to be one line of text/,
  },
  {
    feature: 'cancellation',
    method: 'POST',
    path: '/events/EVENT/cancellation/retry',
    command: ['event', 'cancellation', 'EVENT', '--retry'],
    says: /cancelled/,
  },
  {
    feature: 'cancellation',
    method: 'POST',
    path: '/events/EVENT/cancellation',
    body: { reason: 'Storm', perSecond: 0 },
    command: ['event', 'cancel', 'EVENT', '--reason', 'Storm', '--per-second', '0'],
    says: /\/perSecond must be >= 1/,
  },
  {
    feature: 'cancellation',
    method: 'POST',
    path: '/events/EVENT/cancellation',
    body: { reason: 'Storm', confirmation: 'WRONG' },
    command: ['event', 'cancel', 'EVENT', '--reason', 'Storm', '--confirm', 'WRONG'],
    says: /The confirmation is wrong/,
  },
  {
    feature: 'payments',
    method: 'GET',
    path: '/attention?event=nowhere',
    command: ['payments', 'list', '--event', 'nowhere'],
    says: /There is no event nowhere/,
  },
  {
    feature: 'payments',
    method: 'POST',
    path: '/attention/operation-none/look',
    command: ['payments', 'act', 'operation-none', 'look'],
    says: /list/,
  },
  {
    feature: 'payments',
    method: 'POST',
    path: '/attention/operation-none/eat',
    command: ['payments', 'act', 'operation-none', 'eat'],
    says: /action has to be/,
  },
  {
    feature: 'findings',
    method: 'POST',
    path: '/reconcile/nine/settle',
    body: { note: 'Done' },
    command: ['reconcile', 'settle', 'nine', '--note', 'Done'],
    says: /finding must match pattern/,
  },
  {
    feature: 'findings',
    method: 'POST',
    path: '/reconcile/999/settle',
    body: { note: 'Done' },
    command: ['reconcile', 'settle', '999', '--note', 'Done'],
    says: /There is no finding/,
  },
  {
    feature: 'entry',
    method: 'POST',
    path: '/checkin',
    body: { code: 'x', event: 'nowhere' },
    command: ['ticket', 'checkin', 'x', '--event', 'nowhere'],
    says: /There is no event nowhere/,
  },
  {
    feature: 'entry',
    method: 'POST',
    path: '/checkin/undo',
    body: { ticket: uuid, event: 'EVENT', reason: 'Mistake', at: 'yesterday' },
    command: ['ticket', 'undo', uuid, '--event', 'EVENT', '--reason', 'Mistake', '--at', 'yesterday'],
    says: /\/at has to be a time/,
  },
  {
    feature: 'entry',
    method: 'POST',
    path: '/checkin/undo',
    body: { ticket: uuid, event: 'EVENT', reason: 'Mistake' },
    command: ['ticket', 'undo', uuid, '--event', 'EVENT', '--reason', 'Mistake'],
    says: /ticket/,
  },
  {
    feature: 'webhooks',
    method: 'POST',
    path: '/webhooks',
    body: { url: 'ftp://example.org' },
    command: ['webhooks', 'add', 'ftp://example.org'],
    says: /http/,
  },
  {
    feature: 'webhooks',
    method: 'POST',
    path: '/webhooks',
    body: { url: 'https://example.org', happenings: ['order.eaten'] },
    command: ['webhooks', 'add', 'https://example.org', '--on', 'order.eaten'],
    says: /order\.confirmed/,
  },
  {
    feature: 'webhooks',
    method: 'POST',
    path: `/webhooks/${uuid}/secrets`,
    body: { keepMs: -3_600_000 },
    command: ['webhooks', 'rotate', uuid, '--keep-hours', '-1'],
    says: /\/keepMs must be >= 0/,
  },
  {
    feature: 'mails',
    method: 'GET',
    path: '/mails/none',
    command: ['mail', 'show', 'none'],
    says: /mail has to be an id/,
  },
  {
    feature: 'mails',
    method: 'POST',
    path: `/mails/${uuid}/again`,
    body: {},
    command: ['mail', 'resend', uuid],
    says: /mail/,
  },
  {
    feature: 'buyers',
    method: 'POST',
    path: '/buyers/forget',
    body: { buyer: 'no address' },
    command: ['buyer', 'forget', '--email', 'no address'],
    says: /e-mail address/,
  },
  {
    feature: 'exports',
    method: 'GET',
    path: '/events/nowhere/exports/orders.csv',
    command: ['export', 'orders', 'nowhere', '--out', 'never-written.csv'],
    says: /There is no event nowhere/,
  },
  {
    feature: 'action log',
    method: 'GET',
    path: '/audit-log?limit=0',
    command: ['log', '--limit', '0'],
    says: /limit takes 1 to/,
  },
];

/** Runs a command in this process; returns its exit code and what it wrote to stderr. */
async function command(argv: string[]): Promise<{ code: number; err: string }> {
  const write = process.stderr.write;
  let err = '';
  process.stderr.write = (text) => {
    err += String(text);
    return true;
  };
  try {
    return { code: await main(argv), err };
  } finally {
    process.stderr.write = write;
  }
}

describe('an operation refuses the same input with the same words, over HTTP and at the command line', () => {
  const scope = testScope();
  let app: TestApp;
  let authorization: string;
  let plan: string;
  before(async () => {
    app = await startTestApp(scope, { seats: 200 });
    Object.assign(process.env, app.env, { ONSALE_DATA_DIR: app.dataDir });
    const { token } = (await app.buyer().post('/api/organiser/sessions', app.app.organiser)).body;
    authorization = `Bearer ${token}`;
    plan = (await app.app.events.find(app.event))!.planId;
  });
  after(() => scope.close());

  const filled = (text: string) =>
    text
      .replaceAll('EVENT', app.event)
      .replaceAll('PLAN', plan)
      .replaceAll('FILE', path.join(app.dataDir, 'plan-file'));

  for (const [i, row] of rows.entries()) {
    test(`${row.feature} ${i}: ${row.method} ${row.path.slice(0, 60)} and ${row.command.slice(0, 2).join(' ')}`, async () => {
      const body = row.body && JSON.parse(filled(JSON.stringify(row.body)));
      if (row.file !== undefined) await writeFile(filled('FILE'), row.file);
      const answer = await app.buyer().request(row.method, `/api/organiser${filled(row.path)}`, {
        body,
        raw: row.file,
        headers: { authorization, 'idempotency-key': `row-${i}` },
      });
      assert.ok(answer.status >= 400 && answer.status < 500, `${answer.status}`);
      assert.match(answer.body.detail, row.says);
      const { code, err } = await command(row.command.map(filled));
      assert.equal(code, 1, err);
      assert.ok(err.includes(answer.body.detail), `${err}\n${answer.body.detail}`);
    });
  }
});
