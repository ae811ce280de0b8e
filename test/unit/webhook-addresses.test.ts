import assert from 'node:assert/strict';
import { test } from 'node:test';
import Stripe from 'stripe';
import {
  allowedAddresses,
  isPublicAddress,
  judgeEntered,
  urlFault,
} from '../../src/fulfilment/webhook-addresses.ts';
import { newWebhookSecret, signatureOf } from '../../src/fulfilment/webhook-signature.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { seededRandom } from '../../src/runtime/random.ts';

const never = new AbortController().signal;
const publicOnly = { privateAllowed: false };

test('addresses that are not the public internet’s are known, whatever they are hidden in', () => {
  const ours = [
    '127.0.0.1',
    '127.255.255.254',
    '0.0.0.0',
    '10.0.0.1',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '169.254.169.254',
    '100.64.0.1',
    '192.0.0.1',
    '192.0.2.1',
    '198.18.0.1',
    '198.51.100.1',
    '203.0.113.1',
    '224.0.0.1',
    '240.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '::ffff:10.0.0.1',
    '::127.0.0.1',
    '::a00:1',
    'fe80::1',
    'fec0::1',
    'fc00::1',
    'fd12:3456::1',
    'ff02::1',
    '64:ff9b::7f00:1',
    '64:ff9b:1::a00:1',
    '2002:7f00:1::',
    '2001:0:1::1',
    '2001:db8::1',
    '100::1',
    '5f00::1',
    'not an address',
    '',
  ];
  for (const address of ours) assert.equal(isPublicAddress(address), false, address);
  for (const address of [
    '1.1.1.1',
    '93.184.216.34',
    '172.32.0.1',
    '::ffff:1.1.1.1',
    '2606:4700:4700::1111',
  ]) {
    assert.equal(isPublicAddress(address), true, address);
  }
});

test('an endpoint’s address is https on the public internet, however the host is written', () => {
  const refused = [
    'ftp://example.org/',
    'http://example.org/',
    'example.org',
    'https://user@example.org/',
    'https://:word@example.org/',
    'https://example.org/#part',
    'https://localhost/',
    'https://postgres:5432/',
    'https://redis./',
    'https://localhost./',
    'https://a.localhost/',
    'https://db.internal/',
    'https://127.0.0.1/',
    'https://127.1/',
    'https://2130706433/',
    'https://0x7f.1/',
    'https://0177.0.0.1/',
    'https://[::1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://[fe80::1]/',
    'https://10.0.0.1:8443/',
    'https://１２７.0.0.1/',
  ];
  for (const url of refused) assert.equal(typeof urlFault(url, publicOnly), 'string', url);
  for (const url of ['https://example.org/in?key=1', 'https://example.org:8443/', 'https://1.1.1.1/']) {
    assert.equal(urlFault(url, publicOnly), null, url);
  }
  for (const url of ['http://127.0.0.1:8080/in', 'https://10.0.0.1/', 'https://till.internal/']) {
    assert.match(urlFault(url, publicOnly)!, /ONSALE_WEBHOOKS_PRIVATE=yes/, 'says what lets it in');
  }
  assert.equal(urlFault('http://10.0.0.1/in', { privateAllowed: true }), null);
  assert.equal(typeof urlFault('file:///etc/passwd', { privateAllowed: true }), 'string');
});

test('one address of a name that is not public refuses the whole name', async () => {
  const names: Record<string, string[]> = {
    'good.example': ['1.1.1.1', '2606:4700:4700::1111'],
    'half.example': ['1.1.1.1', '127.0.0.1'],
    'mapped.example': ['::ffff:169.254.169.254'],
    'none.example': [],
  };
  const of = (host: string) => allowedAddresses(host, publicOnly, async (name) => names[name]!, never);
  assert.deepEqual(await of('good.example'), [
    { address: '1.1.1.1', family: 4 },
    { address: '2606:4700:4700::1111', family: 6 },
  ]);
  for (const host of ['half.example', 'mapped.example', 'none.example', '127.0.0.1', '::1']) {
    await assert.rejects(of(host), { name: 'AddressRefused' }, host);
  }
});

test('an address is judged when it is entered as it is before each delivery; a name that is not known yet is accepted with a word', async () => {
  const names: Record<string, string[] | Error> = {
    'good.example': ['1.1.1.1'],
    'inside.example': ['10.0.0.5'],
    'none.example': [],
    'lost.example': Object.assign(new Error('away'), { code: 'EAI_AGAIN' }),
  };
  const resolve = async (host: string): Promise<string[]> => {
    const found = names[host]!;
    if (found instanceof Error) throw found;
    return found;
  };
  const judge = (text: string, privateAllowed = false) =>
    judgeEntered(text, { privateAllowed, resolve }, systemClock);
  assert.deepEqual(await judge('https://good.example/in'), { fault: null, warning: null });
  assert.match((await judge('https://inside.example:5432/')).fault!, /not on the public internet/);
  assert.deepEqual(await judge('http://inside.example:5432/', true), { fault: null, warning: null });
  assert.match((await judge('https://postgres:5432/')).fault!, /ONSALE_WEBHOOKS_PRIVATE=yes/);
  for (const url of ['https://none.example/', 'https://lost.example/']) {
    const { fault, warning } = await judge(url);
    assert.equal(fault, null, url);
    assert.match(warning!, /no address yet/, url);
  }
});

test('Stripe’s own verifier takes a signature with any of the secrets, and no other, altered or old one', () => {
  const stripe = new Stripe('sk_test_none');
  const random = seededRandom(16);
  const [old, fresh, foreign] = [
    newWebhookSecret(random),
    newWebhookSecret(random),
    newWebhookSecret(random),
  ];
  const now = Math.floor(Date.now() / 1000);
  const body = '{"id":"1","type":"order.confirmed","name":"Ünï"}';
  const header = signatureOf([fresh, old], now, body);
  const taken = (text: string, signature: string, secret: string): boolean => {
    try {
      stripe.webhooks.constructEvent(text, signature, secret, 300);
      return true;
    } catch {
      return false;
    }
  };
  assert.ok(taken(body, header, fresh) && taken(body, header, old));
  assert.ok(!taken(body, header, foreign));
  assert.ok(!taken(`${body} `, header, fresh));
  assert.ok(!taken(body, signatureOf([fresh], now - 400, body), fresh));
});
