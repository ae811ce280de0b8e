import assert from 'node:assert/strict';
import test from 'node:test';
import fastify from 'fastify';
import type { ProxySighting } from '../../src/health/undeclared-proxies.ts';
import { type ClientAddress, createClientAddresses, rangeOf } from '../../src/http/client-address.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';

/** Reads the client address of a request from `peer` with these headers, and the proxies reported meanwhile. */
async function read(
  trustProxy: false | number | string[],
  requests: { peer: string; headers?: Record<string, string> }[],
): Promise<{ read: (ClientAddress | null)[]; warned: string[]; sightings: ProxySighting[] }> {
  const sightings: ProxySighting[] = [];
  const warned: string[] = [];
  const warn = (_fields: unknown, text: string): void => void warned.push(text);
  const clients = createClientAddresses({
    trustProxy,
    clock: systemClock,
    log: Object.assign(Object.create(silentLogger), { warn }),
    record: async (sighting) => void sightings.push(sighting),
  });
  const app = fastify({
    trustProxy: typeof trustProxy === 'number' ? (_address, hop) => hop < trustProxy : trustProxy,
  });
  clients.watch(app);
  app.get('/', (request) => ({ read: clients.of(request) }));
  const answers: (ClientAddress | null)[] = [];
  for (const { peer, headers = {} } of requests) {
    const answer = await app.inject({ url: '/', remoteAddress: peer, headers });
    answers.push((answer.json() as { read: ClientAddress | null }).read);
  }
  await app.close();
  return { read: answers, warned, sightings };
}

test('an address counts with its range: IPv4 as it is, the /64 of IPv6, one form for one client', () => {
  const cases: [string, string | null, string | null][] = [
    ['203.0.113.9', '203.0.113.9', '203.0.113.9'],
    ['::ffff:203.0.113.9', '203.0.113.9', '203.0.113.9'],
    ['::ffff:cb00:7109', '203.0.113.9', '203.0.113.9'],
    ['203.0.113.9:4711', '203.0.113.9', '203.0.113.9'],
    ['2001:DB8:1:2::3', '2001:db8:1:2::3', '2001:db8:1:2::/64'],
    ['[2001:db8:1:2:ffff::3]:4711', '2001:db8:1:2:ffff::3', '2001:db8:1:2::/64'],
    ['::1', '::1', '::/64'],
    ['unknown', null, null],
    ['', null, null],
    ['12', null, null],
    ['010.1.1.1', null, null],
  ];
  for (const [text, address, range] of cases) {
    assert.deepEqual(rangeOf(text), address === null ? null : { address, range }, text);
  }
});

test('throttling by address is off behind an undeclared proxy, and a client of the public internet cannot switch it off', async () => {
  const forwarded: Record<string, string>[] = [
    { 'x-forwarded-for': '198.51.100.7' },
    { forwarded: 'for=198.51.100.7' },
    { 'x-real-ip': '198.51.100.7' },
  ];
  for (const headers of forwarded) {
    for (const peer of ['127.0.0.1', '::1', '10.1.2.3', '172.17.0.1', '192.168.1.5', 'fe80::1', 'fd00::1']) {
      const outcome = await read(false, [{ peer, headers }, { peer }, { peer, headers }]);
      assert.deepEqual(
        outcome.read.map((one) => one?.address ?? null),
        [null, peer, null],
        peer,
      );
      assert.equal(outcome.warned.length, 1, 'one warning, however many requests');
      assert.match(outcome.warned[0]!, /ONSALE_TRUST_PROXY/);
      assert.equal(outcome.sightings[0]?.peerKind, 'private');
      assert.equal(outcome.sightings[0]?.header, Object.keys(headers)[0]);
    }
    const outcome = await read(false, [{ peer: '203.0.113.9', headers }]);
    assert.equal(outcome.read[0]?.range, '203.0.113.9');
    assert.deepEqual(
      outcome.sightings.map(({ peerKind }) => peerKind),
      ['public'],
    );
  }
});

test('a declared proxy is believed, by its address or by the number of hops; others are not', async () => {
  const headers = { 'x-forwarded-for': '192.0.2.1, 198.51.100.7' };
  for (const trust of [1, ['127.0.0.1']]) {
    const outcome = await read(trust, [
      { peer: '127.0.0.1', headers },
      { peer: '127.0.0.1', headers: { 'x-forwarded-for': 'unknown' } },
    ]);
    assert.equal(outcome.read[0]?.range, '198.51.100.7', 'the address that the proxy added itself');
    assert.equal(outcome.read[1]?.range, '127.0.0.1', 'what is no address counts as the proxy');
    assert.deepEqual([outcome.warned, outcome.sightings], [[], []]);
  }
  const stranger = await read(['10.0.0.1'], [{ peer: '203.0.113.9', headers }]);
  assert.equal(stranger.read[0]?.range, '203.0.113.9');
});
