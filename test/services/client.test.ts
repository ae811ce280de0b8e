import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import createClient, { type Middleware } from 'openapi-fetch';
import type { paths } from '../../client/api.d.ts';
import { projectDir } from '../../src/runtime/project-dir.ts';
import { startTestApp, type TestApp, testScope } from '../support/app.ts';

const typesPath = path.join(projectDir, 'client/api.d.ts');

/** Keeps the cookies of one browser. */
function cookieJar(): Middleware {
  const cookies = new Map<string, string>();
  return {
    onRequest({ request }) {
      if (cookies.size > 0)
        request.headers.set('cookie', [...cookies].map(([name, value]) => `${name}=${value}`).join('; '));
      return request;
    },
    onResponse({ response }) {
      for (const line of response.headers.getSetCookie()) {
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
        if (name !== undefined && value !== undefined) cookies.set(name, value);
      }
      return undefined;
    },
  };
}

describe('a client generated from the API document', () => {
  const scope = testScope();
  let app: TestApp;
  before(async () => {
    app = await startTestApp(scope, { seats: 200 });
  });
  after(() => scope.close());

  test('client/api.d.ts is generated from the document that the server gives', async () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-client-'));
    try {
      const source = path.join(folder, 'openapi.json');
      const target = path.join(folder, 'api.d.ts');
      fs.writeFileSync(source, await (await fetch(`${app.url}/openapi.json`)).text());
      const generator = path.join(projectDir, 'client/node_modules/openapi-typescript/bin/cli.js');
      execFileSync(process.execPath, [generator, source, '--output', target], { stdio: 'pipe' });
      const now = fs.readFileSync(target, 'utf8');
      if (process.env.WRITE_CLIENT === '1') fs.writeFileSync(typesPath, now);
      assert.ok(
        fs.readFileSync(typesPath, 'utf8') === now,
        'The routes changed. WRITE_CLIENT=1 npm test -- services/client writes client/api.d.ts again.',
      );
    } finally {
      fs.rmSync(folder, { recursive: true, force: true });
    }
  });

  test('every operation has an id, a described success and its problems', async () => {
    const document = (await (await fetch(`${app.url}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, { operationId?: string; responses: Record<string, unknown> }>>;
    };
    const operations = Object.entries(document.paths).flatMap(([route, methods]) =>
      Object.entries(methods).map(([method, one]) => ({ name: `${method.toUpperCase()} ${route}`, ...one })),
    );
    const ids = operations.map(({ operationId }) => operationId);
    assert.deepEqual(
      operations
        .filter(({ operationId }) => !/^[a-z][A-Za-z]+$/.test(operationId ?? ''))
        .map(({ name }) => name),
      [],
      'operations without an id',
    );
    assert.equal(new Set(ids).size, ids.length, 'ids are unique');
    const unclear = operations.filter(({ responses }) => {
      const success = Object.entries(responses).find(([status]) => status.startsWith('2'));
      const problem = JSON.stringify(responses['4XX'] ?? {});
      return !success || !problem.includes('application/problem+json');
    });
    assert.deepEqual(
      unclear.map(({ name }) => name).filter((name) => !/ \/(healthz|api\/events)$/.test(name)),
      [],
    );
  });

  test('buys a ticket', async () => {
    const buyer = createClient<paths>({ baseUrl: app.url });
    buyer.use(cookieJar());
    const event = { params: { path: { event: app.event } } };
    const first = await buyer.POST('/api/events/{event}/queue', event);
    assert.equal(first.error?.code, 'cookie_required');
    const { data: place } = await buyer.POST('/api/events/{event}/queue', event);
    assert.ok(place);
    let pass: string | undefined;
    while (pass === undefined) {
      const { data, error } = await buyer.POST('/api/events/{event}/pass', { ...event, body: {} });
      if (error) assert.equal(error.code, 'not_yet');
      pass = data?.pass;
    }
    const key = (value: string) => ({ header: { 'idempotency-key': value } });
    const held = await buyer.POST('/api/events/{event}/holds', {
      params: { ...event.params, ...key('hold-1') },
      body: { pass, best: { quantity: 2 } },
    });
    assert.ok(held.data, held.error?.detail);
    const ordered = await buyer.POST('/api/holds/{hold}/order', {
      params: { path: { hold: held.data.hold } },
      body: { buyer: { name: 'A buyer', email: 'buyer@example.org' }, total: held.data.total },
    });
    assert.ok(ordered.data, ordered.error?.detail);
    const order = { path: { order: ordered.data.order } };
    const paid = await buyer.POST('/api/orders/{order}/payment', {
      params: { ...order, ...key('pay-1') },
      body: { paymentMethod: 'pm_card_visa' },
    });
    assert.equal(paid.data?.state, 'paid', paid.error?.detail);
    const { data: bought } = await buyer.GET('/api/orders/{order}/tickets', { params: order });
    assert.deepEqual(
      bought?.tickets.map(({ seat }) => seat.seat),
      held.data.seats.map(({ seat }) => seat),
    );
  });

  test('runs a sale: signs in, creates an event, publishes and opens it, reads its figures', async () => {
    const onsale = createClient<paths>({ baseUrl: app.url });
    onsale.use(cookieJar());
    const signedIn = await onsale.POST('/api/organiser/sessions', { body: app.app.organiser });
    assert.ok(signedIn.data, signedIn.error?.detail);
    const plan = (await onsale.GET('/api/organiser/plans')).data?.plans[0];
    assert.ok(plan);
    const prices = Object.fromEntries(plan.report.categories.map(({ name }) => [name, 4_900]));
    const body = { name: 'A concert', plan: plan.plan, currency: 'EUR', prices };
    const refused = await onsale.POST('/api/organiser/events', { body: { ...body, name: ' ' } });
    assert.deepEqual([refused.error?.code, refused.error?.field], ['invalid_field', '/name']);
    const { data: draft } = await onsale.POST('/api/organiser/events', { body });
    assert.ok(draft);
    const params = { path: { event: draft.id } };
    const published = await onsale.POST('/api/organiser/events/{event}/publish', { params });
    assert.equal(published.data?.seats, plan.report.seats, published.error?.detail);
    const opened = await onsale.PATCH('/api/organiser/events/{event}/on-sale', {
      params,
      body: {
        expectedVersion: (await onsale.GET('/api/organiser/events/{event}', { params })).data!.version,
        phase: 'open',
      },
    });
    assert.equal(opened.data?.phase, 'open', opened.error?.detail);
    const figures = await onsale.GET('/api/organiser/events/{event}/figures', { params });
    assert.deepEqual([figures.data?.taken, figures.data?.sold], [0, []]);
  });
});
