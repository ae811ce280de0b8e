import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { systemClock } from '../../src/runtime/clock.ts';
import { projectDir } from '../../src/runtime/project-dir.ts';
import { startTestApp, type TestApp, testScope, until } from '../support/app.ts';
import type { RequestOptions, TestBuyer } from '../support/buyer.ts';

/**
 * The fields of every answer of the API, by one walk through a sale. The snapshot was first written before response schemas
 * existed: a schema that leaves out a field would drop it from the answers. Texts, times and numbers are not compared.
 */
const snapshotPath = path.join(projectDir, 'test/services/answers.snapshot.json');

/** Objects whose keys are data: categories, sections, states, parts. */
const maps = /\.(prices|sections|categories|counts|parts|orders|refunds|earlier|limits)$/;
/** What is below these depends on time: work that is late, the last run, notes on an action. */
const volatile = /\.(degraded|lastRun|detail|parts)$/;

const shapes: Record<string, unknown> = {};

/** The paths of all fields, as `.seats[].price`. */
function fieldsOf(value: unknown, at = ''): string[] {
  if (typeof value !== 'object' || value === null || volatile.test(at)) return [at];
  const below = Array.isArray(value)
    ? value.flatMap((one) => fieldsOf(one, `${at}[]`))
    : Object.entries(value).flatMap(([key, one]) => fieldsOf(one, `${at}.${maps.test(at) ? '*' : key}`));
  return [at, ...below];
}

const sorted = (fields: string[]): string[] => [...new Set(fields)].sort();

let app: TestApp;
let organiser: string;

/** Sends a request and records its answer under the route and a label. `template` names the route as the API document does. */
async function ask(
  by: TestBuyer,
  method: string,
  template: string,
  {
    label = '',
    params = {},
    query = '',
    ...options
  }: RequestOptions & {
    label?: string;
    params?: Record<string, string>;
    query?: string;
  } = {},
) {
  const place = template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = params[name] ?? (name === 'event' ? app.event : undefined);
    assert.ok(value !== undefined, `${name} of ${template}`);
    return encodeURIComponent(value);
  });
  const signed: Record<string, string> = template.startsWith('/api/organiser')
    ? { authorization: `Bearer ${organiser}` }
    : {};
  const headers: Record<string, string> = { ...signed, ...options.headers };
  const answer = await by.request(method, `${place}${query}`, { ...options, headers });
  const type = answer.headers.get('content-type')?.split(';')[0] ?? null;
  const isProblem = type === 'application/problem+json';
  const fields = type?.includes('csv')
    ? [
        answer.body
          .toString('utf8')
          .replace(/^\ufeff/, '')
          .split(/\r?\n/)[0]!,
      ]
    : type?.includes('json')
      ? sorted(fieldsOf(answer.body))
      : [];
  const name = `${method} ${template}${label && ` (${label})`}`;
  shapes[name] = { status: answer.status, type, ...(isProblem && { code: answer.body.code }), fields };
  return answer;
}

const nobody = '0b1d0000-0000-4000-8000-000000000000';
const key = (value: string) => ({ headers: { 'idempotency-key': value } });

describe('the answers of the API', () => {
  const scope = testScope();
  before(async () => {
    app = await startTestApp(scope, { seats: 200, env: { ONSALE_WEBHOOKS_PRIVATE: 'yes' } });
  });
  after(() => scope.close());

  test('have the fields of the snapshot', async () => {
    const staff = app.buyer();
    await asOrganiser(staff);
    const { order, tickets } = await asBuyer();
    await afterTheSale(staff, order, tickets);
    const { body: document } = await staff.get('/openapi.json');
    const asked = Object.keys(shapes).map((name) => name.replace(/ \(.*$/, ''));
    const missing = Object.entries(document.paths as Record<string, object>)
      .flatMap(([route, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${route}`))
      .filter((name) => !asked.includes(name));
    assert.deepEqual(missing, [], 'routes without a snapshot');
    const now = `${JSON.stringify(Object.fromEntries(Object.entries(shapes).sort(([a], [b]) => (a < b ? -1 : 1))), null, 1)}\n`;
    if (process.env.WRITE_SNAPSHOT) fs.writeFileSync(process.env.WRITE_SNAPSHOT, now);
    const before = JSON.parse(fs.readFileSync(snapshotPath, 'utf8')) as Record<string, unknown>;
    for (const [name, shape] of Object.entries(JSON.parse(now) as Record<string, unknown>))
      assert.deepEqual(
        shape,
        before[name],
        `${name}. WRITE_SNAPSHOT=test/services/answers.snapshot.json writes it again`,
      );
    assert.deepEqual(Object.keys(before), Object.keys(JSON.parse(now) as object));
  });
});

async function asOrganiser(staff: TestBuyer): Promise<void> {
  organiser = 'none';
  const path = '/api/organiser/sessions';
  await ask(staff, 'GET', path, { label: 'not signed in' });
  await ask(staff, 'POST', path, { label: 'wrong', body: { email: 'x@example.org', password: 'x' } });
  organiser = (await ask(staff, 'POST', path, { body: app.app.organiser })).body.token;
  await ask(staff, 'GET', path);
  const plans = (await ask(staff, 'GET', '/api/organiser/plans')).body.plans;
  const manifest = ['section,row,seat,x,y,category', 'Stalls,1,1,0,0,A', 'Stalls,1,2,1,0,A'].join('\n');
  const csv = { raw: manifest, headers: { 'content-type': 'text/csv' } };
  await ask(staff, 'POST', '/api/organiser/plans', { ...csv, label: 'checked', query: '?dryRun=true' });
  await ask(staff, 'POST', '/api/organiser/plans', { ...csv, raw: 'x', label: 'refused' });
  const stored = (await ask(staff, 'POST', '/api/organiser/plans', csv)).body;
  await ask(staff, 'GET', '/api/organiser/events');
  const body = { id: 'small', name: 'Small', plan: stored.plan, currency: 'EUR', prices: { A: 1_000 } };
  const kinds = [{ id: 'reduced', name: 'Reduced', prices: { A: 500 }, locked: true }];
  await ask(staff, 'POST', '/api/organiser/events', { label: 'no name', body: { ...body, name: ' ' } });
  await ask(staff, 'POST', '/api/organiser/events', { label: 'no price', body: { ...body, prices: {} } });
  await ask(staff, 'POST', '/api/organiser/events', { body: { ...body, kinds } });
  await ask(staff, 'POST', '/api/organiser/events', { label: 'again', body });
  const small = { params: { event: 'small' } };
  const publish = '/api/organiser/events/{event}/publish';
  await ask(staff, 'POST', publish, { ...small, query: '?acceptWarnings=true' });
  await until(async () => (await staff.get('/api/events/small/status')).status === 200, 'the small event');
  await ask(staff, 'POST', publish, { ...small, label: 'again' });
  const controls = await ask(staff, 'GET', '/api/organiser/events/{event}');
  const onSale = '/api/organiser/events/{event}/on-sale';
  const { version } = controls.body;
  await ask(staff, 'PATCH', onSale, { label: 'stale', body: { expectedVersion: version + 7, message: 'x' } });
  await ask(staff, 'PATCH', onSale, {
    label: 'impossible',
    body: { expectedVersion: version, phase: 'draft' },
  });
  await ask(staff, 'PATCH', onSale, { body: { expectedVersion: version, message: 'Welcome' } });
  const replan = '/api/organiser/events/{event}/plan';
  await ask(staff, 'POST', replan, { body: { plan: plans[0].plan, dryRun: true } });
  await ask(staff, 'POST', replan, { label: 'unknown', body: { plan: 'nowhere' } });
  const blocks = '/api/organiser/events/{event}/blocks';
  await ask(staff, 'POST', blocks, { body: { seats: [150, 151], reason: 'Camera' } });
  await ask(staff, 'POST', blocks, { label: 'unknown', body: { seats: ['x'], reason: 'Camera' } });
  await ask(staff, 'DELETE', blocks, { body: { seats: [151] } });
  const limits = '/api/organiser/events/{event}/limits';
  const { limits: before } = (await ask(staff, 'GET', limits)).body;
  await ask(staff, 'PATCH', limits, { body: { replaces: before, accountSeatsMax: 40 } });
  await ask(staff, 'PATCH', limits, { label: 'stale', body: { replaces: before, accountSeatsMax: 41 } });
  const allowances = `${limits}/allowances`;
  const exception = { account: 'club@example.org', reason: 'Club' };
  const { allowance } = (await ask(staff, 'POST', allowances, { body: exception })).body;
  await ask(staff, 'DELETE', `${allowances}/{allowance}`, { params: { allowance } });
  await ask(staff, 'DELETE', `${allowances}/{allowance}`, {
    label: 'unknown',
    params: { allowance: nobody },
  });
  await ask(staff, 'GET', `${limits}/buyers/{reference}`, { params: { reference: 'sub:nobody' } });
  const codes = '/api/organiser/events/{event}/codes';
  const batch = { label: 'Club', generate: { count: 2 }, kinds: ['reduced'] };
  await ask(staff, 'POST', codes, { ...small, label: 'refused', body: { ...batch, kinds: [] } });
  const created = (await ask(staff, 'POST', codes, { ...small, body: batch })).body;
  await ask(staff, 'GET', codes, { ...small, query: `?batch=${created.batch}` });
  await ask(staff, 'GET', `${codes}.csv`, small);
  await ask(staff, 'POST', `${codes}/revoke`, { ...small, body: { code: created.codes[0] } });
  await ask(staff, 'POST', `${codes}/revoke`, { ...small, label: 'unknown', body: { batch: nobody } });
  const show = '/api/events/{event}/code';
  const buyer = app.buyer();
  await ask(buyer, 'POST', show, { ...small, body: { code: created.codes[1] } });
  await ask(buyer, 'POST', show, { ...small, label: 'unknown', body: { code: 'NONE' } });
  await ask(buyer, 'DELETE', show, small);
  const webhooks = '/api/organiser/webhooks';
  const endpoint = { url: 'http://127.0.0.1:9/none', event: app.event };
  const hook = (await ask(staff, 'POST', webhooks, { body: endpoint })).body;
  await ask(staff, 'POST', webhooks, { label: 'refused', body: { url: 'ftp://x' } });
  await ask(staff, 'GET', webhooks);
  const params = { endpoint: hook.endpoint };
  await ask(staff, 'PATCH', `${webhooks}/{endpoint}`, { params, body: { note: 'Ours' } });
  await ask(staff, 'PATCH', `${webhooks}/{endpoint}`, {
    label: 'unknown',
    params: { endpoint: nobody },
    body: { note: 'x' },
  });
  await ask(staff, 'POST', `${webhooks}/{endpoint}/secrets`, { params, body: {} });
  await ask(staff, 'POST', `${webhooks}/{endpoint}/trial`, { params });
}

async function asBuyer(): Promise<{ order: string; tickets: { code: string; ticket: string }[] }> {
  const first = app.buyer();
  for (const name of ['', '/status', '/counts', '/availability'])
    await ask(first, 'GET', `/api/events/{event}${name}`);
  await ask(first, 'GET', '/api/events');
  await ask(first, 'GET', '/api/events/{event}', { label: 'unknown', params: { event: 'nowhere' } });
  const { layout } = (await first.get(`/api/events/${app.event}/status`)).body;
  const drawing = (
    await ask(first, 'GET', '/api/events/{event}/layout-{hash}.json', { params: { hash: layout } })
  ).body;
  const section = drawing.sections[0].id;
  await ask(first, 'GET', '/api/events/{event}/availability/{section}', { params: { section } });
  await ask(first, 'GET', '/healthz');
  await ask(first, 'GET', '/readyz');
  await ask(first, 'POST', '/api/events/{event}/queue', { label: 'no cookie' });
  const { ticket } = (await ask(first, 'POST', '/api/events/{event}/queue')).body;
  await ask(first, 'POST', '/api/events/{event}/pass', { label: 'refused', body: { ticket: 'x' } });
  const pass = '/api/events/{event}/pass';
  await until(
    async () => (await first.post(`/api/events/${app.event}/pass`, { ticket })).status === 200,
    'a pass',
  );
  await ask(first, 'POST', pass, { body: { ticket } });
  const buyer = await app.admitted();
  const other = await app.admitted();
  const holds = '/api/events/{event}/holds';
  const seats = (...numbers: number[]) => numbers.map((seat) => ({ seat }));
  const hold = (by: TestBuyer, name: string, body: object, label = '') =>
    ask(by, 'POST', holds, { label, body: { pass: by.pass, ...body }, ...key(name) });
  await ask(buyer, 'POST', holds, { label: 'no key', body: { pass: buyer.pass, seats: seats(1) } });
  await hold(buyer, 'k0', { seats: seats(9_999) }, 'unknown seat');
  await hold(buyer, 'k0', { best: { quantity: 2 }, pass: 'x' }, 'no pass');
  const held = (await hold(buyer, 'k1', { seats: seats(1, 2) })).body;
  await hold(buyer, 'k2', { seats: seats(3) }, 'exists');
  await hold(other, 'k3', { seats: seats(1) }, 'taken');
  const best = (await hold(other, 'k4', { best: { quantity: 2 } }, 'best')).body;
  await ask(buyer, 'GET', '/api/holds/{hold}', { params: held });
  await ask(buyer, 'GET', '/api/holds/{hold}', { label: 'unknown', params: { hold: nobody } });
  const recover = '/api/holds/{hold}/recover';
  await ask(buyer, 'POST', recover, { params: held, body: { receipt: held.receipt } });
  await ask(buyer, 'POST', recover, { label: 'refused', params: held, body: { receipt: 'x' } });
  await ask(other, 'DELETE', '/api/holds/{hold}', { params: best });
  const create = '/api/holds/{hold}/order';
  const person = { name: 'Any Buyer', email: 'buyer@example.org' };
  await ask(buyer, 'POST', create, {
    label: 'refused',
    params: held,
    body: { buyer: { name: '', email: 'x' } },
  });
  await ask(buyer, 'POST', create, { label: 'price', params: held, body: { buyer: person, total: 1 } });
  const ordered = (await ask(buyer, 'POST', create, { params: held, body: { buyer: person } })).body;
  const params = { order: ordered.order };
  await ask(buyer, 'GET', '/api/orders/{order}', { label: 'unpaid', params });
  await ask(other, 'GET', '/api/orders/{order}', { label: 'unknown', params });
  await ask(buyer, 'GET', '/api/orders/{order}/tickets', { label: 'unpaid', params });
  const pay = '/api/orders/{order}/payment';
  const card = (paymentMethod: string, name: string) => ({ params, body: { paymentMethod }, ...key(name) });
  await ask(buyer, 'POST', pay, { label: 'declined', ...card('pm_card_chargeDeclined', 'p1') });
  await ask(buyer, 'POST', `${pay}/refresh`, { label: 'declined', params });
  await ask(buyer, 'POST', pay, card('pm_card_visa', 'p2'));
  await until(
    async () => (await buyer.get(`/api/orders/${ordered.order}`)).body.state === 'paid',
    'the order to be paid',
  );
  await ask(buyer, 'POST', `${pay}/refresh`, { params });
  await ask(buyer, 'GET', '/api/orders/{order}', { params });
  const { tickets } = (await ask(buyer, 'GET', '/api/orders/{order}/tickets', { params })).body;
  await ask(buyer, 'GET', '/api/orders/{order}/tickets.pdf', { params });
  await ask(buyer, 'DELETE', '/api/orders/{order}', { label: 'bought', params });
  const waiting = await other.mustOrder([20]);
  const bank = {
    params: { order: waiting.order },
    body: { paymentMethod: 'pm_card_authenticationRequired' },
  };
  await ask(other, 'POST', pay, { label: 'bank', ...bank, ...key('p3') });
  await other.request('DELETE', `/api/orders/${waiting.order}`);
  const unpaid = await (await app.admitted()).mustOrder([30]);
  const owner = { headers: { authorization: `Bearer ${unpaid.secret}` } };
  await ask(app.buyer(), 'DELETE', '/api/orders/{order}', { params: { order: unpaid.order }, ...owner });
  await ask(app.buyer(), 'POST', '/api/webhooks/stripe', { label: 'refused', body: {} });
  return { order: ordered.order, tickets };
}

async function afterTheSale(
  staff: TestBuyer,
  order: string,
  tickets: { code: string; ticket: string }[],
): Promise<void> {
  const [first, second] = tickets;
  const checkin = '/api/organiser/checkin';
  await ask(staff, 'POST', checkin, { body: { code: first!.code, event: app.event, gate: 'North' } });
  await ask(staff, 'POST', checkin, { label: 'used', body: { code: first!.code, event: app.event } });
  await ask(staff, 'POST', checkin, { label: 'forged', body: { code: 'x' } });
  await ask(staff, 'POST', checkin, { label: 'other', body: { code: first!.code, event: 'small' } });
  const undo = { code: first!.code, reason: 'Mistake' };
  await ask(staff, 'POST', `${checkin}/undo`, { body: undo });
  await ask(staff, 'POST', `${checkin}/undo`, { label: 'not entered', body: undo });
  const entries = '/api/organiser/events/{event}/entries';
  const at = new Date(systemClock.now()).toISOString();
  const scan = (code: string, name: string) => ({ code, scan: name, at });
  const scans = [scan(first!.code, 'a'), scan(first!.code, 'b'), scan('x', 'c')];
  await ask(staff, 'POST', entries, { body: { scans } });
  await ask(staff, 'GET', entries);
  await ask(staff, 'GET', '/api/organiser/ticket-key');
  await ask(staff, 'GET', '/api/organiser/events/{event}/gate-list');
  await ask(staff, 'GET', '/api/organiser/events/{event}/orders', { query: '?email=buyer@example.org' });
  const refunds = '/api/organiser/orders/{order}/refunds';
  const some = { tickets: [second!.ticket], reason: 'Ill' };
  const params = { order };
  await ask(staff, 'POST', refunds, { label: 'preview', params, body: { ...some, preview: true } });
  await ask(staff, 'POST', refunds, { label: 'no key', params, body: some });
  await ask(staff, 'POST', refunds, { params, body: some, ...key('r1') });
  await ask(staff, 'POST', refunds, { label: 'not valid', params, body: some, ...key('r2') });
  await ask(staff, 'POST', refunds, {
    label: 'unknown',
    params: { order: nobody },
    body: some,
    ...key('r3'),
  });
  const refunded = async () => {
    const { body } = await staff.request('GET', `/api/organiser/orders/${order}`, {
      headers: { authorization: `Bearer ${organiser}` },
    });
    return body.refunds[0].state === 'done';
  };
  await until(refunded, 'the refund');
  await ask(staff, 'GET', '/api/organiser/orders/{order}', { params });
  await ask(staff, 'GET', '/api/organiser/events/{event}/refunds');
  for (const action of ['retry', 'elsewhere'])
    await ask(staff, 'POST', `/api/organiser/refunds/{refund}/${action}`, {
      params: { refund: nobody },
      body: { note: 'x' },
    });
  await ask(staff, 'GET', '/api/organiser/events/{event}/figures');
  await ask(staff, 'GET', '/api/organiser/background');
  await ask(staff, 'GET', '/api/organiser/attention');
  await ask(staff, 'POST', '/api/organiser/attention/{entry}/{action}', {
    params: { entry: 'x', action: 'look' },
    body: {},
  });
  await ask(staff, 'GET', '/api/organiser/reconcile');
  await ask(staff, 'POST', '/api/organiser/reconcile/{finding}/settle', {
    params: { finding: '999' },
    body: { note: 'x' },
  });
  const { mails } = (await ask(staff, 'GET', '/api/organiser/mails', { query: `?order=${order}` })).body;
  const mail = { params: { mail: mails[0].mail as string } };
  await ask(staff, 'GET', '/api/organiser/mails/{mail}', mail);
  await ask(staff, 'POST', '/api/organiser/mails/{mail}/again', { ...mail, body: { copy: true } });
  await ask(staff, 'GET', '/api/organiser/mails/{mail}', { label: 'unknown', params: { mail: nobody } });
  const webhooks = '/api/organiser/webhooks';
  const { endpoints } = (
    await staff.request('GET', webhooks, { headers: { authorization: `Bearer ${organiser}` } })
  ).body;
  const { endpoint } = endpoints[0];
  const listed = (await ask(staff, 'GET', `${webhooks}/{endpoint}/deliveries`, { params: { endpoint } })).body
    .deliveries;
  for (const what of ['order.confirmed', 'refund.created']) {
    const { delivery } = listed.find((one: { what: string }) => one.what === what);
    const tried = async () => {
      const headers = { authorization: `Bearer ${organiser}` };
      const { body } = await staff.request('GET', `/api/organiser/webhook-deliveries/${delivery}`, {
        headers,
      });
      return body.log.length > 0;
    };
    await until(tried, 'an attempt to deliver');
    const shown = await ask(staff, 'GET', '/api/organiser/webhook-deliveries/{delivery}', {
      label: what,
      params: { delivery },
    });
    shapes[`webhook ${what}`] = sorted(fieldsOf(JSON.parse(shown.body.body)));
    await ask(staff, 'POST', '/api/organiser/webhook-deliveries/{delivery}/again', {
      label: what,
      params: { delivery },
    });
  }
  await ask(staff, 'DELETE', `${webhooks}/{endpoint}`, { params: { endpoint } });
  for (const what of ['orders', 'tickets', 'refunds']) {
    for (const format of ['csv', 'json']) {
      const file = { label: `${what}.${format}`, params: { file: `${what}.${format}` } };
      await ask(staff, 'GET', '/api/organiser/events/{event}/exports/{file}', file);
      if (what === 'orders') await ask(staff, 'GET', '/api/organiser/exports/{file}', file);
    }
  }
  await ask(staff, 'GET', '/api/organiser/audit-log', { query: '?limit=5' });
  const cancellation = '/api/organiser/events/{event}/cancellation';
  await ask(staff, 'GET', cancellation, { label: 'not cancelled' });
  const { confirmation } = (
    await ask(staff, 'POST', cancellation, { label: 'asked', body: { reason: 'Storm' } })
  ).body;
  await ask(staff, 'POST', cancellation, { label: 'wrong', body: { reason: 'Storm', confirmation: 'X' } });
  await ask(staff, 'POST', cancellation, { body: { reason: 'Storm', confirmation } });
  const done = async () =>
    (
      await staff.request('GET', cancellation.replace('{event}', app.event), {
        headers: { authorization: `Bearer ${organiser}` },
      })
    ).body.state === 'done';
  await until(done, 'the cancellation');
  await ask(staff, 'GET', cancellation);
  await ask(staff, 'GET', `${cancellation}/orders`);
  await ask(staff, 'POST', `${cancellation}/retry`);
  const forget = '/api/organiser/buyers/forget';
  await ask(staff, 'POST', forget, { label: 'unknown', body: { buyer: 'nobody@example.org' } });
  const asked = await ask(staff, 'POST', forget, { label: 'asked', body: { buyer: 'buyer@example.org' } });
  await ask(staff, 'POST', forget, {
    body: { buyer: 'buyer@example.org', confirmation: asked.body.confirmation },
  });
  await ask(staff, 'DELETE', '/api/organiser/sessions');
}
