import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib';
import type { Events } from '../../src/catalogue/events.ts';
import type { HttpDeps } from '../../src/http/deps.ts';
import type { App } from '../../src/http/routes.ts';
import { buildServer } from '../../src/http/server.ts';
import type { Db } from '../../src/postgres/db.ts';
import { createPublishedReader, type SharedBytes } from '../../src/read-path/published-reader.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { testLoops } from '../support/loops.ts';

let touched: string[] = [];

/** Replaces every store. A use is recorded and rejected. */
function forbidden(name: string): never {
  return new Proxy(() => {}, {
    get: (_target, property) => {
      touched.push(`${name}.${String(property)}`);
      throw new Error(`${name}.${String(property)} was used`);
    },
    apply: () => {
      touched.push(name);
      throw new Error(`${name} was called`);
    },
  }) as never;
}

function shared(bytes: Uint8Array, contentType: string): SharedBytes {
  return {
    bytes,
    gzip: gzipSync(bytes),
    br: brotliCompressSync(bytes),
    etag: `"${createHash('sha256').update(bytes).digest('base64url')}"`,
    contentType,
    version: [3, 7],
    layout: 'abc',
  };
}

const json = (value: unknown) =>
  shared(Buffer.from(JSON.stringify(value)), 'application/json; charset=utf-8');
const objects: Record<string, SharedBytes> = {
  status: json({ v: [3, 7], phase: 'open' }),
  counts: json({ v: [3, 7], sections: { a: 1 } }),
  event: json({ v: [3, 7], id: 'show', name: 'The Show' }),
  availability: shared(Uint8Array.of(0b101, 0xff), 'application/octet-stream'),
};
const published = {
  get: (event: string, name: string) => (event === 'show' ? (objects[name] ?? null) : null),
  section: async (event: string, section: string) =>
    event === 'show' && section === 'A 1/é' ? shared(Uint8Array.of(1), 'application/octet-stream') : null,
  layout: async (hash: string) => (hash === 'abc' ? json({ v: 1 }) : null),
  events: () => ['show', 'draft'],
} as unknown as HttpDeps['published'];

const reads = ['status', 'counts', 'availability'].map((name) => `/api/events/show/${name}`);
reads.push(
  '/api/events',
  '/api/events/show',
  '/api/events/show/availability/A%201%2F%C3%A9',
  '/api/events/show/layout-abc.json',
);

/** The leader's publication as the real reader finds it. Counts every query. */
async function readerOverRows(queries: string[]): Promise<HttpDeps['published']> {
  const rows = Object.entries(objects).map(([name, { bytes }]) => ({
    event_no: 1,
    event_id: 'show',
    name,
    term: 3,
    count: 7,
    bytes: Buffer.from(bytes),
    layout_hash: 'abc',
  }));
  const db = {
    query: async (name: string) => {
      queries.push(name);
      if (name === 'published_state') return [{ now: 0, resting: [] }];
      return queries.length === 2 ? rows : [];
    },
    close: async () => {},
  } as unknown as Db;
  const reader = createPublishedReader({
    db,
    events: forbidden('events'),
    clock: systemClock,
  });
  const loops = testLoops();
  await reader.start(loops);
  await loops.stop();
  return reader;
}

let ready: HttpDeps['ready'] = forbidden('ready');

const depsOf = (reader: HttpDeps['published']): HttpDeps => ({
  clock: forbidden('clock'),
  random: forbidden('random'),
  log: silentLogger,
  publicUrl: () => 'https://sale.example',
  timeZone: 'Europe/Berlin',
  trustProxy: false,
  clients: { of: () => null, watch: () => {} },
  webDir: null,
  paymentOrigins: { script: ['https://pay.example'], connect: ['https://api.pay.example'], frame: [] },
  credentials: forbidden('credentials'),
  events: forbidden('events'),
  published: reader,
  room: forbidden('room'),
  accessCodes: forbidden('accessCodes'),
  joins: forbidden('joins'),
  arbiter: forbidden('arbiter'),
  checkout: forbidden('checkout'),
  provider: forbidden('provider'),
  operations: forbidden('operations'),
  returnedOf: forbidden('returnedOf'),
  refundsOf: forbidden('refundsOf'),
  reversalsOf: forbidden('reversalsOf'),
  tickets: forbidden('tickets'),
  ready: () => ready(),
});

test('W4: a thousand polls cost the store no query', async () => {
  const queries: string[] = [];
  const app = await buildServer(depsOf(await readerOverRows(queries)));
  touched = [];
  assert.deepEqual(queries, ['published_state', 'published_changed']);
  for (let poll = 0; poll < 250; poll++) {
    for (const name of ['', '/status', '/counts', '/availability']) {
      const answer = await app.inject({ url: `/api/events/show${name}` });
      assert.equal(answer.statusCode, 200);
    }
  }
  assert.deepEqual(queries, ['published_state', 'published_changed']);
  assert.deepEqual(touched, []);
  await app.close();
});

test('a layout is read and compressed once, whatever other hashes are asked for', async () => {
  const read: string[] = [];
  const reader = createPublishedReader({
    db: forbidden('db'),
    events: {
      layoutBytes: async (hash: string) => {
        read.push(hash);
        return hash === 'abc' ? Buffer.from('{"v":1}') : null;
      },
    } as unknown as Events,
    clock: systemClock,
  });
  const [first, second] = await Promise.all([reader.layout('abc'), reader.layout('abc')]);
  assert.ok(first && first === second);
  for (let made = 0; made < 200; made++) assert.equal(await reader.layout(`made-up-${made}`), null);
  assert.equal(await reader.layout('abc'), first);
  assert.equal(read.filter((hash) => hash === 'abc').length, 1);
  await reader.layout('made-up-0');
  assert.equal(read.filter((hash) => hash === 'made-up-0').length, 2, 'absence is not remembered');
});

describe('shared reads', () => {
  let app: App;
  before(async () => {
    app = await buildServer(depsOf(published));
    touched = [];
  });
  after(() => app.close());

  test('W4: no read uses the arbiter, a store, a clock or the visitor', async () => {
    for (const url of reads) {
      const answer = await app.inject({ url, headers: { cookie: 'onsale_visitor=x; onsale_ticket=y' } });
      assert.equal(answer.statusCode, 200, `${url}: ${answer.body}`);
      assert.equal(answer.headers['set-cookie'], undefined, url);
    }
    assert.deepEqual(touched, []);
  });

  test('W4: every read is cacheable by its path alone and may be served stale', async () => {
    for (const url of reads) {
      const { headers } = await app.inject({ url });
      const cache = String(headers['cache-control']);
      assert.match(cache, /^public, max-age=\d+/, url);
      assert.match(
        cache,
        url.includes('layout-') ? /immutable/ : /stale-while-revalidate=\d+, stale-if-error=\d+/,
      );
      if (headers.vary) assert.equal(headers.vary, 'Accept-Encoding', url);
    }
    const ages = Object.fromEntries(
      await Promise.all(
        ['status', 'availability', 'counts'].map(async (name) => {
          const { headers } = await app.inject({ url: `/api/events/show/${name}` });
          return [name, /max-age=(\d+)/.exec(String(headers['cache-control']))?.[1]];
        }),
      ),
    );
    assert.deepEqual(ages, { status: '1', availability: '2', counts: '5' });
  });

  test('a strong ETag answers 304 without a body, by any of its encodings', async () => {
    for (const url of reads.filter((one) => one !== '/api/events')) {
      const first = await app.inject({ url, headers: { 'accept-encoding': 'gzip, br' } });
      const etag = String(first.headers.etag);
      assert.match(etag, /^"[^"]+-br"$/, url);
      for (const given of [etag, `W/${etag}`, `"other", ${etag}`, '*', etag.replace('-br', '')]) {
        const again = await app.inject({ url, headers: { 'if-none-match': given } });
        assert.equal(again.statusCode, 304, `${url} ${given}`);
        assert.equal(again.body, '');
        assert.match(String(again.headers['cache-control']), /^public/);
      }
      assert.equal((await app.inject({ url, headers: { 'if-none-match': '"other"' } })).statusCode, 200);
    }
  });

  test('the same bytes plain, as gzip and as brotli; what is not accepted is not sent', async () => {
    const url = '/api/events/show/availability';
    const get = async (accept: string) => await app.inject({ url, headers: { 'accept-encoding': accept } });
    const bytes = Buffer.from(objects.availability!.bytes);
    const br = await get('gzip, deflate, br');
    assert.equal(br.headers['content-encoding'], 'br');
    assert.deepEqual(brotliDecompressSync(br.rawPayload), bytes);
    const zipped = await get('gzip;q=0.5, br;q=0');
    assert.equal(zipped.headers['content-encoding'], 'gzip');
    assert.deepEqual(gunzipSync(zipped.rawPayload), bytes);
    for (const accept of ['', 'identity', 'brx, gzipped', 'gzip;q=0']) {
      const plain = await get(accept);
      assert.equal(plain.headers['content-encoding'], undefined, accept);
      assert.deepEqual(plain.rawPayload, bytes);
    }
    assert.equal(br.headers['content-type'], 'application/octet-stream');
    assert.equal(br.headers['x-onsale-version'], '3.7');
    assert.equal(br.headers['x-onsale-layout'], 'abc');
  });

  test('what is not there is a problem document that no cache keeps', async () => {
    for (const [url, code] of [
      ['/api/events/none', 'unknown_event'],
      ['/api/events/none/status', 'unknown_event'],
      ['/api/events/draft/status', 'not_published'],
      ['/api/events/show/availability/none', 'not_found'],
      ['/api/events/show/layout-none.json', 'not_found'],
      ['/api/events/none/layout-abc.json', 'unknown_event'],
      ['/api/nothing', 'not_found'],
    ] as const) {
      const answer = await app.inject({ url });
      assert.deepEqual([answer.statusCode, answer.json().code], [404, code], url);
      assert.equal(answer.headers['cache-control'], 'no-store');
    }
  });

  test('GET /api/events lists the published events as they are', async () => {
    const { events } = (await app.inject({ url: '/api/events' })).json();
    assert.deepEqual(events, [{ v: [3, 7], id: 'show', name: 'The Show' }]);
  });

  test('every answer forbids sniffing, framing and foreign scripts', async () => {
    for (const url of [
      '/',
      '/healthz',
      '/api/events',
      '/nothing',
      '/docs',
      '/docs/',
      '/docs/static/index.html',
      '/errors',
    ]) {
      const { headers } = await app.inject({ url });
      // The public address of this server is https.
      assert.match(String(headers['strict-transport-security']), /^max-age=\d{7,}$/);
      assert.equal(headers['x-content-type-options'], 'nosniff');
      const policy = String(headers['content-security-policy']);
      assert.match(policy, /script-src 'self' https:\/\/pay\.example(;|$)/);
      assert.match(policy, /connect-src 'self' https:\/\/api\.pay\.example(;|$)/);
      assert.match(policy, /frame-ancestors 'none'/);
      assert.doesNotMatch(policy, /unsafe/);
    }
  });

  test('/readyz tells strangers whether it can sell, and not why: reasons name addresses of our network', async () => {
    const part = { ok: false, reason: 'connect ECONNREFUSED 10.0.0.5:5432' };
    ready = async () => ({ ok: false, parts: { database: part } });
    const ask = (remoteAddress: string, headers: Record<string, string> = {}) =>
      app.inject({ url: '/readyz', remoteAddress, headers });
    for (const inside of ['127.0.0.1', '10.0.0.9']) {
      const answer = await ask(inside);
      assert.equal(answer.statusCode, 503);
      assert.deepEqual(answer.json().parts, { database: part });
    }
    const strangers = [ask('203.0.113.9'), ask('127.0.0.1', { 'x-forwarded-for': '203.0.113.9' })];
    for (const answer of await Promise.all(strangers)) {
      assert.equal(answer.statusCode, 503);
      assert.deepEqual(answer.json().parts, { database: { ok: false } });
    }
  });

  test('the description names every fixed route', async () => {
    const { paths } = (await app.inject({ url: '/openapi.json' })).json();
    const described = Object.entries(paths as Record<string, object>).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const fixed = `
      GET /healthz, GET /readyz, GET /api/events, GET /api/events/{event}, GET /api/events/{event}/status,
      GET /api/events/{event}/layout-{hash}.json, GET /api/events/{event}/availability,
      GET /api/events/{event}/availability/{section}, GET /api/events/{event}/counts,
      POST /api/events/{event}/queue, POST /api/events/{event}/pass, POST /api/events/{event}/holds,
      POST /api/holds/{hold}/recover, GET /api/holds/{hold}, DELETE /api/holds/{hold}, POST /api/holds/{hold}/order,
      POST /api/orders/{order}/payment, POST /api/orders/{order}/payment/refresh, POST /api/webhooks/stripe,
      GET /api/orders/{order}, GET /api/orders/{order}/tickets, DELETE /api/orders/{order}`;
    for (const route of fixed.trim().split(/,\s+/))
      assert.ok(described.includes(route), `${route} in ${described}`);
  });
});
