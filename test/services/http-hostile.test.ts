import assert from 'node:assert/strict';
import net from 'node:net';
import { after, before, describe, test } from 'node:test';
import { problemCodes } from '../../src/core/problems.ts';
import { bodyLimit } from '../../src/http/routes.ts';
import { startTestApp, type TestApp, testScope } from '../support/app.ts';
import type { Answer, RequestOptions, TestBuyer } from '../support/buyer.ts';

interface Route {
  method: string;
  path: string;
  /** With the parameters filled in. */
  place: string;
  properties: string[];
}

let app: TestApp;
let routes: Route[];
let buyer: TestBuyer;
let organiser: string;
let plan: string;
let prices: Record<string, number>;
let order: string;
let hold: string;

/** Whatever was sent: an answer of ours, never a 5xx, and a problem document exactly where it is a refusal. */
function assertAnswered(answer: Answer, what: string): void {
  assert.ok(answer.status < 500, `${what}: ${answer.status} ${JSON.stringify(answer.body).slice(0, 300)}`);
  if (answer.status < 400) return;
  assert.match(answer.headers.get('content-type') ?? '', /^application\/problem\+json/, what);
  const { type, title, status, code, detail } = answer.body;
  assert.equal(status, answer.status, what);
  const known = problemCodes[code as keyof typeof problemCodes];
  assert.ok(known, `${what}: ${code} is in the table`);
  assert.equal(known.status, answer.status, `${what}: ${code}`);
  for (const text of [type, title, detail]) assert.ok(typeof text === 'string' && text.length > 0, what);
}

/** The organiser's routes are asked with a session: without one, all that answers is the door. */
async function send(route: Route, options: RequestOptions, what: string): Promise<Answer> {
  const inside = /organiser\/(?!sessions)/.test(route.path);
  const headers = { ...(inside ? { authorization: `Bearer ${organiser}` } : {}), ...options.headers };
  const answer = await buyer.request(route.method, route.place, { ...options, headers });
  assertAnswered(answer, `${route.method} ${route.place} ${what}`);
  return answer;
}

describe('hostile requests', () => {
  const scope = testScope();
  before(async () => {
    app = await startTestApp(scope, { seats: 200 });
    buyer = await app.admitted();
    hold = (await buyer.mustHold([120])).hold;
    order = (await buyer.order(hold)).body.order;
    organiser = (await buyer.post('/api/organiser/sessions', app.app.organiser)).body.token;
    const show = await app.app.events.find(app.event);
    assert.ok(organiser && show);
    plan = show.planId;
    prices = { ...show.prices };
    const { body } = await buyer.get('/openapi.json');
    routes = Object.entries(body.paths as Record<string, Record<string, never>>).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({
        method: method.toUpperCase(),
        path,
        place: path
          .replace('{event}', 'show')
          .replace('{hold}', hold)
          .replace('{order}', order)
          .replace(/\{\w+\}/g, 'x'),
        properties: Object.keys(bodySchemaOf(operation, body).properties ?? {}),
      })),
    );
    assert.ok(routes.length >= 20, `${routes.length} routes are described`);
  });
  after(() => scope.close());

  test('malformed bodies are refused as 400 or 415', async () => {
    const deep = '['.repeat(5_000) + ']'.repeat(5_000);
    const bodies = [
      '{',
      '"',
      'null',
      '[]',
      '"x"',
      '1',
      'NaN',
      '{}',
      '{"a":}',
      `{"a":${deep}}`,
      '\ufeff{}',
      '{"a":1e999}',
    ];
    bodies.push(
      '{"__proto__":{"polluted":1}}',
      '{"constructor":{"prototype":{"polluted":1}}}',
      '{"a":1,"a":2}',
    );
    for (const route of routes.filter(({ method }) => method === 'POST')) {
      for (const raw of bodies)
        await send(route, { raw, headers: { 'idempotency-key': 'hostile' } }, raw.slice(0, 40));
      const bytes = Uint8Array.of(0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d);
      await send(route, { raw: bytes }, 'invalid UTF-8');
    }
    assert.equal(({} as { polluted?: number }).polluted, undefined);
  });

  test('a value that is none of a few is refused with all that are taken', async () => {
    const { body } = await buyer.get('/openapi.json');
    const described = new Set<string>();
    const ask = async (route: Route, choice: Choice, options: RequestOptions, field: string) => {
      const what = `${field} of ${route.method} ${route.path}`;
      const { status, body: said } = await send(route, options, what);
      // Something else of the request was refused before.
      if (said.field !== field) return;
      assert.deepEqual([status, said.code], [400, 'invalid_field'], what);
      for (const value of choice.values) assert.ok(said.detail.includes(JSON.stringify(value)), said.detail);
      described.add(what);
    };
    for (const route of routes) {
      const place = route.place.replaceAll('/x', '/0b1d0000-0000-4000-8000-000000000000');
      const operation = body.paths[route.path][route.method.toLowerCase()];
      for (const { name, in: where, schema } of operation.parameters ?? []) {
        const choice = where === 'query' ? choiceOf(schema) : null;
        if (choice) await ask({ ...route, place: `${place}?${name}=none-of-them` }, choice, {}, name);
      }
      const { properties = {} } = bodySchemaOf(operation, body);
      for (const [name, schema] of Object.entries(properties)) {
        const choice = choiceOf(schema as object);
        const sent = { ...takenBut(route), [name]: 'none-of-them' };
        if (choice) await ask({ ...route, place }, choice, { body: sent }, `/${name}`);
      }
    }
    assert.ok(described.has('size of GET /api/orders/{order}/tickets.pdf'));
    assert.ok(described.has('/phase of PATCH /api/organiser/events/{event}/on-sale'));
    assert.ok(described.size >= 8, [...described].join(', '));
  });

  test('each body field takes any wrong value without a 5xx', async () => {
    const values = [
      null,
      0,
      -1,
      1.5,
      2 ** 31,
      2 ** 53,
      1e308,
      '0000-01-01T00:00:00Z',
      '2016-12-31T23:59:60Z',
      '9999-12-31T23:59:59-12:00',
      'toString',
      '',
      'x',
      'x'.repeat(9_000),
      [],
      [[]],
      {},
      true,
      '\u0000',
      '\ud800',
    ];
    values.push('👩‍👩‍👧‍👦'.repeat(50), "'; DROP TABLE seats; --", '../../etc/passwd', {
      __proto__: 1,
    } as never);
    for (const route of routes) {
      for (const name of route.properties) {
        for (const value of values) {
          const body = { ...takenBut(route), [name]: value };
          const headers = { 'idempotency-key': `hostile-${name}` };
          await send(route, { body, headers }, `${name}=${JSON.stringify(value)?.slice(0, 40)}`);
        }
      }
    }
    const nested = { buyer: { name: { toString: 'x' }, email: ['a@example.org'] } };
    assert.equal((await buyer.post(`/api/holds/${hold}/order`, nested)).body.code, 'invalid_field');
  });

  test('text that cannot be stored is a 400 that names its field', async () => {
    for (const text of ['a\u0000b', 'a\ud800b', '\udfff']) {
      const answer = await buyer.order(hold, { name: text, email: 'a@example.org' });
      assert.deepEqual(
        [answer.status, answer.body.code, answer.body.field],
        [400, 'invalid_field', '/buyer/name'],
      );
    }
  });

  test('bodies over 16 kB are a 413, on every route for buyers', async () => {
    const raw = JSON.stringify({ pass: 'x'.repeat(bodyLimit) });
    for (const route of routes.filter(
      ({ method, path }) => method === 'POST' && !/organiser|webhooks/.test(path),
    )) {
      assert.equal((await send(route, { raw }, 'huge')).body.code, 'body_too_large');
    }
  });

  test('other content types are a 415', async () => {
    const types = [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'x',
      '',
    ];
    for (const route of routes.filter(
      ({ method, path }) => method === 'POST' && !/organiser|webhooks/.test(path),
    )) {
      for (const type of types) {
        const answer = await send(route, { raw: 'a=1', headers: { 'content-type': type } }, type);
        assert.ok([400, 415].includes(answer.status), `${route.path} ${type}: ${answer.status}`);
      }
    }
  });

  test('odd addresses get a 4xx, whatever they contain', async () => {
    const parts = [
      '%00',
      '%ff',
      '%',
      '%zz',
      '..%2f..',
      'x'.repeat(300),
      '%F0%9F%92%A9',
      "'%20OR%201=1",
      '__proto__',
    ];
    parts.push(
      'toString',
      '-1',
      '99999999999999999999',
      '00000000-0000-0000-0000-000000000000',
      '%ED%A0%80',
      '+',
    );
    for (const { method, path } of routes.filter((route) => route.path.includes('{'))) {
      for (const part of parts) {
        const place = path.replace(/\{\w+\}/g, part);
        const answer = await buyer.request(method, place, { headers: { 'idempotency-key': 'k' } });
        assertAnswered(answer, `${method} ${place}`);
        assert.ok(answer.status >= 400, `${method} ${place}: ${answer.status}`);
      }
    }
  });

  test('odd headers are answered', async () => {
    const own = new Map(buyer.cookies);
    const odd: Record<string, string>[] = [
      { cookie: '=;;=;onsale_visitor' },
      { cookie: `onsale_visitor=${'x'.repeat(5_000)}` },
      { cookie: 'onsale_visitor=%E0%A4%A' },
      { authorization: 'Bearer' },
      { authorization: `Bearer ${'y'.repeat(5_000)}` },
      { 'accept-encoding': 'br;q=0, *' },
      { 'if-none-match': '"'.repeat(1_000) },
      { accept: 'text/nothing' },
      { 'x-forwarded-for': 'nobody, "' },
      { 'idempotency-key': 'z'.repeat(3_000) },
    ];
    for (const route of routes) {
      for (const headers of odd) await send(route, { headers }, JSON.stringify(headers).slice(0, 60));
    }
    // The queue gives a client with a broken cookie a new one.
    for (const [name, value] of own) buyer.cookies.set(name, value);
  });

  test('a method that an address does not have is a 405 that lists those it has', async () => {
    for (const place of new Set(routes.map((route) => route.place))) {
      const has = routes.filter((route) => route.place === place).map(({ method }) => method);
      for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].filter((one) => !has.includes(one))) {
        const answer = await buyer.request(method, place);
        assertAnswered(answer, `${method} ${place}`);
        assert.equal(answer.body.code, 'method_not_allowed', `${method} ${place}`);
        const allowed = (answer.headers.get('allow') ?? '').split(', ');
        for (const one of has) assert.ok(allowed.includes(one), `${place}: ${allowed}`);
      }
    }
  });

  test('a request from the page of another site changes nothing', async () => {
    for (const origin of ['https://evil.example', 'null', 'http://127.0.0.1:1', 'x']) {
      for (const route of routes.filter(({ method }) => method !== 'GET')) {
        const answer = await send(route, { headers: { origin } }, origin);
        assert.equal(answer.body.code, 'origin_refused', `${route.path} ${origin}`);
      }
      assert.equal((await buyer.request('GET', `/api/orders/${order}`, { headers: { origin } })).status, 200);
    }
    const own = await buyer.request('POST', `/api/holds/${hold}/order`, {
      body: { buyer: { name: 'Ada', email: 'ada@example.org' } },
      headers: { origin: app.url },
    });
    assert.equal(own.status, 200);
  });

  test('what is no HTTP, and headers without end, get an answer and lose the connection', async () => {
    const { hostname, port } = new URL(app.url);
    const raw = (text: string) =>
      new Promise<string>((resolve) => {
        let answer = '';
        const socket = net.connect(Number(port), hostname, () => socket.write(text));
        socket.on('data', (chunk) => {
          answer += chunk;
        });
        socket.on('error', () => resolve(answer));
        socket.on('close', () => resolve(answer));
      });
    const long = `GET /healthz HTTP/1.1\r\nhost: x\r\ncookie: ${'x'.repeat(20_000)}\r\n\r\n`;
    assert.match(await raw(long), /^HTTP\/1\.1 431 [\s\S]*"code":"headers_too_large"/);
    assert.match(await raw('hello\r\n\r\n'), /^HTTP\/1\.1 400 [\s\S]*"code":"invalid_request"/);
    const both =
      'POST /api/events/show/queue HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n';
    assert.match(await raw(`${both}0\r\n\r\n`), /^HTTP\/1\.1 400 /);
  });

  test('after all this the order is as it was', async () => {
    const { body } = await buyer.get(`/api/orders/${order}`);
    assert.equal(body.state, 'reserved');
    assert.equal((await buyer.pay(order)).status, 200);
  });
});

/** A body in which everything except the tried field would be accepted. The version matches no event, so no sale changes. */
function takenBut({ path }: Route): object {
  if (!path.includes('organiser')) return { pass: buyer.pass, ticket: 'x', seats: [{ seat: 1 }] };
  const event = { name: 'x', currency: 'EUR', prices, seats: [1], reason: 'x' };
  return { ...event, plan, expectedVersion: 0 };
}

interface Choice {
  values: unknown[];
}

/** Null if any value of its type is accepted. */
function choiceOf(schema: { anyOf?: object[]; enum?: unknown[] }): Choice | null {
  if (schema.enum) return { values: schema.enum };
  const values = (schema.anyOf ?? []).flatMap((one: { const?: unknown; enum?: unknown[] }) =>
    one.const === undefined ? (one.enum ?? []) : [one.const],
  );
  return values.length > 0 && values.length === schema.anyOf?.length ? { values } : null;
}

interface Operation {
  requestBody?: { content?: Record<string, { schema?: object }> };
}
interface Document {
  components: { schemas: Record<string, object> };
}

/** The schema of the JSON body, which may be a named one. */
function bodySchemaOf(operation: Operation, document: Document): { properties?: Record<string, object> } {
  const schema: { $ref?: string; properties?: Record<string, object> } =
    operation.requestBody?.content?.['application/json']?.schema ?? {};
  return schema.$ref ? document.components.schemas[schema.$ref.split('/').at(-1)!]! : schema;
}
