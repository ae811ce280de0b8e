import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { signature } from '../../payment-simulator/webhooks.ts';
import { createStripeProvider } from '../../src/payments/stripe.ts';
import { type Clock, systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';

const NOW_S = 1_900_000_000;
const clock: Clock = { ...systemClock, now: () => NOW_S * 1000 };
const SECRET = 'whsec_one';

function parser(webhookSecrets: string[]) {
  const provider = createStripeProvider({
    secretKey: 'sk_test_x',
    webhookSecrets,
    apiBase: 'http://127.0.0.1:9',
    log: silentLogger,
    clock,
  });
  return (body: string, header: string | undefined) => provider.parseWebhook(Buffer.from(body), header);
}

function eventBody(object: unknown, fields: Record<string, unknown> = {}): string {
  return JSON.stringify({
    id: 'evt_1',
    object: 'event',
    type: 'payment_intent.succeeded',
    data: { object },
    ...fields,
  });
}

const BODY = eventBody({ id: 'pi_1', object: 'payment_intent' });
const parse = parser([SECRET]);

/** Our own reading of the published scheme, apart from the simulator's and the SDK's. */
function sign(body: string, secret: string, seconds: number): string {
  return createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex');
}

test('P6: a webhook with the right signature names its event and payment object', () => {
  const header = `t=${NOW_S},v1=${sign(BODY, SECRET, NOW_S)}`;
  assert.deepEqual(parse(BODY, header), {
    ...{ id: 'evt_1', type: 'payment_intent.succeeded', object: 'pi_1' },
    madeBy: 'others',
  });
  assert.equal(signature(BODY, SECRET, NOW_S), header, 'the simulator signs by the same scheme');
});

test('P6: an event says whose payment it is by the metadata of a payment or charge; of refunds and disputes it does not say', () => {
  const told = (object: object, installation: string | null = 'here') => {
    const body = eventBody(object);
    const provider = createStripeProvider({
      ...{ secretKey: 'sk_test_x', webhookSecrets: [SECRET], apiBase: 'http://127.0.0.1:9' },
      ...{ installation: () => installation, log: silentLogger, clock },
    });
    return provider.parseWebhook(Buffer.from(body), signature(body, SECRET, NOW_S))?.madeBy;
  };
  const charge = { object: 'charge', id: 'ch_1', payment_intent: 'pi_1' };
  assert.equal(told({ ...charge, metadata: { order: 'o', installation: 'here' } }), 'us');
  assert.equal(told({ ...charge, metadata: { order: 'o', installation: 'there' } }), 'others');
  assert.equal(told({ ...charge, metadata: { order: 'o' } }), 'unmarked');
  assert.equal(told({ ...charge, metadata: { order: 'o', installation: 'there' } }, null), 'unmarked');
  assert.equal(told({ ...charge, metadata: {} }), 'others');
  assert.equal(told({ object: 'refund', id: 're_1', payment_intent: 'pi_1', metadata: {} }), null);
  assert.equal(told({ object: 'dispute', id: 'du_1', payment_intent: 'pi_1', metadata: {} }), null);
});

test('P6: bytes are what is signed, so text beyond ASCII is accepted as it came', () => {
  const body = eventBody({ id: 'pi_ü', object: 'payment_intent', description: 'Reihe Ä · 座席 🎫' });
  assert.equal(parse(body, signature(body, SECRET, NOW_S))?.object, 'pi_ü');
});

test('P6: a view into a larger buffer is read from its own start to its own end', () => {
  const provider = createStripeProvider({
    secretKey: 'sk_test_x',
    webhookSecrets: [SECRET],
    apiBase: 'http://127.0.0.1:9',
    log: silentLogger,
    clock,
  });
  const padded = Buffer.from(`xx${BODY}yy`);
  const inner = new Uint8Array(padded.buffer, padded.byteOffset + 2, padded.byteLength - 4);
  assert.equal(provider.parseWebhook(inner, signature(BODY, SECRET, NOW_S))?.id, 'evt_1');
});

test('P6: a webhook signed with another secret is refused', () => {
  assert.equal(parse(BODY, signature(BODY, 'whsec_other', NOW_S)), null);
});

test('P6: a tampered body is refused', () => {
  const header = signature(BODY, SECRET, NOW_S);
  assert.equal(parse(BODY.replace('pi_1', 'pi_2'), header), null);
  assert.equal(parse(`${BODY} `, header), null);
});

test('P6: a signature for another moment is refused, so a timestamp cannot be freshened', () => {
  const old = sign(BODY, SECRET, NOW_S - 1000);
  assert.equal(parse(BODY, `t=${NOW_S},v1=${old}`), null);
  assert.equal(parse(BODY, `t=${NOW_S - 1000},t=${NOW_S},v1=${old}`), null);
});

test('P6: a signature stays valid for 300 s and not longer', () => {
  assert.notEqual(parse(BODY, signature(BODY, SECRET, NOW_S - 300)), null);
  assert.equal(parse(BODY, signature(BODY, SECRET, NOW_S - 301)), null);
});

test('P6: a signature from more than 300 s in the future is refused', () => {
  assert.notEqual(parse(BODY, signature(BODY, SECRET, NOW_S + 300)), null);
  assert.equal(parse(BODY, signature(BODY, SECRET, NOW_S + 301)), null);
  const ahead = NOW_S + 10_000;
  assert.equal(parse(BODY, `t=${NOW_S},t=${ahead},v1=${sign(BODY, SECRET, ahead)}`), null);
});

test('P6: while a secret is rotated, either of ours and either of theirs will do', () => {
  const rotating = parser(['whsec_new', SECRET]);
  assert.notEqual(rotating(BODY, signature(BODY, SECRET, NOW_S)), null);
  assert.notEqual(rotating(BODY, signature(BODY, 'whsec_new', NOW_S)), null);
  assert.equal(rotating(BODY, signature(BODY, 'whsec_third', NOW_S)), null);
  const both = `t=${NOW_S},v1=${sign(BODY, 'whsec_theirs', NOW_S)},v1=${sign(BODY, SECRET, NOW_S)},v0=${'0'.repeat(64)}`;
  assert.notEqual(parse(BODY, both), null);
});

test('P6: blanks around a configured secret do no harm, and an empty one never matches', () => {
  assert.notEqual(parser([` ${SECRET}\n`])(BODY, signature(BODY, SECRET, NOW_S)), null);
  const blank = parser(['', '  ']);
  assert.equal(blank(BODY, `t=${NOW_S},v1=${sign(BODY, '', NOW_S)}`), null);
  assert.equal(blank(BODY, `t=${NOW_S},v1=${sign(BODY, '  ', NOW_S)}`), null);
  assert.equal(parser([])(BODY, signature(BODY, SECRET, NOW_S)), null);
});

test('P6: malformed headers and bodies are refused without an exception', () => {
  for (const header of [
    undefined,
    '',
    't=',
    't=abc,v1=00',
    'v1=00',
    `t=${NOW_S}`,
    '=,=,=',
    `t=${NOW_S},v1=`,
  ]) {
    assert.equal(parse(BODY, header), null, `header ${header}`);
  }
  for (const body of ['', 'no json', 'null', '[]', '"text"', '{}', '{"id":1,"type":"x"}', '{"id":"evt"}']) {
    assert.equal(parse(body, signature(body, SECRET, NOW_S)), null, `body ${body}`);
  }
  for (const id of ['evt_\u0000', '\ud800', 'e'.repeat(300)]) {
    const body = JSON.stringify({ id, type: 'x', data: { object: { object: 'payment_intent', id } } });
    assert.equal(parse(body, signature(body, SECRET, NOW_S)), null, `an id that no record keeps: ${body}`);
  }
});

test('P6: charges and refunds lead to their payment object, other events to none', () => {
  const objectOf = (object: unknown) => {
    const body = eventBody(object);
    return parse(body, signature(body, SECRET, NOW_S))?.object;
  };
  assert.equal(objectOf({ id: 'ch_1', object: 'charge', payment_intent: 'pi_7' }), 'pi_7');
  assert.equal(objectOf({ id: 're_1', object: 'refund', payment_intent: { id: 'pi_8' } }), 'pi_8');
  assert.equal(objectOf({ id: 'cus_1', object: 'customer' }), null);
  assert.equal(objectOf({ id: 'ch_1', object: 'charge', payment_intent: null }), null);
});
