import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startSimulator } from '../../payment-simulator/server.ts';
import { createStripeProvider } from '../../src/payments/stripe.ts';
import { type Clock, systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { openPayment, startTestSimulator, type TestSimulator, untilKnown } from '../support/simulator.ts';

let sim: TestSimulator;
before(async () => {
  sim = await startTestSimulator();
});
after(() => sim.stop());

async function call(
  path: string,
  key: string | null,
  params: Record<string, string>,
  secret = sim.secretKey,
) {
  const response = await fetch(`${sim.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}`, ...(key && { 'idempotency-key': key }) },
    body: new URLSearchParams(params),
  });
  const text = await response.text();
  return {
    status: response.status,
    text,
    body: JSON.parse(text),
    replayed: response.headers.get('idempotent-replayed'),
    requestId: response.headers.get('request-id'),
  };
}

const NEW_INTENT = { amount: '5000', currency: 'eur', capture_method: 'manual' };
const intents = async () => (await sim.ledger()).intents.length;

test('P5: the same key with the same parameters replays the first answer byte for byte', async () => {
  const before = await intents();
  const first = await call('/v1/payment_intents', 'same', NEW_INTENT);
  const second = await call('/v1/payment_intents', 'same', {
    capture_method: 'manual',
    currency: 'eur',
    amount: '5000',
  });
  assert.equal(first.status, 200);
  assert.equal(first.replayed, null);
  assert.equal(second.replayed, 'true');
  assert.equal(second.text, first.text);
  assert.notEqual(second.requestId, first.requestId);
  assert.equal(await intents(), before + 1);
  const other = await call('/v1/payment_intents', 'another', NEW_INTENT);
  assert.notEqual(other.body.id, first.body.id);
});

test('P5: a replay tells the old state, a lookup the present one', async () => {
  const { object } = await openPayment(sim.provider);
  const authorise = () =>
    sim.provider.authorise({
      key: 'old-state',
      object,
      instrument: { paymentMethod: 'pm_card_visa' },
      returnUrl: 'http://shop.test/',
    });
  const first = await authorise();
  await sim.provider.capture({ key: 'old-state-capture', object, amount: 5000 });
  assert.deepEqual(await authorise(), first);
  const now = await sim.provider.lookup(object);
  assert.equal(now.kind === 'done' && now.view.status, 'captured');
});

test('P5: one key with other parameters or for another call is a conflict and does nothing', async () => {
  const { object } = await openPayment(sim.provider, { reference: 'mismatch' });
  const authorise = (paymentMethod: string) =>
    sim.provider.authorise({
      key: 'mismatch-key',
      object,
      instrument: { paymentMethod },
      returnUrl: 'http://shop.test/',
    });
  assert.equal((await authorise('pm_card_visa')).kind, 'done');
  for (const answer of [
    await authorise('pm_card_mastercard'),
    await sim.provider.capture({ key: 'mismatch-key', object, amount: 5000 }),
    await sim.provider.void({ key: 'mismatch-key', object }),
  ]) {
    assert.ok(answer.kind === 'unknown', JSON.stringify(answer));
    assert.equal(answer.reason, 'conflict');
  }
  const entry = (await sim.ledger()).intents.find((intent) => intent.reference === 'mismatch');
  assert.equal(entry?.status, 'requires_capture');
  const raw = await call('/v1/payment_intents', 'mismatch-key', NEW_INTENT);
  assert.deepEqual([raw.status, raw.body.error.type], [400, 'idempotency_error']);
});

test('P1: of many concurrent calls with one key one does the work, the others have to wait', async () => {
  const { object, reference } = await openPayment(sim.provider);
  await sim.fault('delay', { match: { intent: object }, delayMs: 2000, times: 1 });
  const authorise = () =>
    sim.provider.authorise({
      key: 'concurrent',
      object,
      instrument: { paymentMethod: 'pm_card_visa' },
      returnUrl: 'http://shop.test/',
    });
  const answers = await Promise.all(Array.from({ length: 20 }, authorise));
  const done = answers.filter((answer) => answer.kind === 'done');
  const conflicts = answers.filter((answer) => answer.kind === 'unknown' && answer.reason === 'conflict');
  assert.equal(done.length, 1);
  assert.equal(conflicts.length, 19);
  const again = await Promise.all(Array.from({ length: 5 }, () => untilKnown(authorise)));
  for (const answer of again) assert.deepEqual(answer, done[0]);
  const charges = (await sim.ledger()).charges.filter((charge) => charge.reference === reference);
  assert.equal(charges.length, 1);
});

test('P1: of concurrent authorisations with different keys one stands', async () => {
  const { object, reference } = await openPayment(sim.provider);
  const cards = ['visa', 'mastercard', 'amex', 'discover', 'visa_debit'];
  const answers = await Promise.all(
    cards.map((card) =>
      sim.provider.authorise({
        key: `race-${card}`,
        object,
        instrument: { paymentMethod: `pm_card_${card}` },
        returnUrl: 'http://shop.test/',
      }),
    ),
  );
  for (const answer of answers) assert.equal(answer.kind, 'done', JSON.stringify(answer));
  const { charges } = await sim.ledger();
  assert.equal(charges.filter((charge) => charge.reference === reference).length, 1);
});

test('P5: nothing is remembered of what was refused before it ran', async () => {
  const key = 'not-remembered';
  assert.equal((await call('/v1/payment_intents', key, NEW_INTENT, 'sk_test_wrong')).status, 401);
  await sim.fault('rate_limit', { match: { key }, times: 1 });
  assert.equal((await call('/v1/payment_intents', key, NEW_INTENT)).status, 429);
  const tooSmall = await call('/v1/payment_intents', key, { ...NEW_INTENT, amount: '1' });
  assert.deepEqual([tooSmall.status, tooSmall.body.error.code], [400, 'amount_too_small']);
  const unknown = await call('/v1/payment_intents', key, { ...NEW_INTENT, colour: 'red' });
  assert.deepEqual([unknown.status, unknown.body.error.code], [400, 'parameter_unknown']);
  const done = await call('/v1/payment_intents', key, NEW_INTENT);
  assert.deepEqual([done.status, done.replayed], [200, null]);
});

test('a request that is refused as invalid half-way changes nothing', async () => {
  const token = await sim.confirmationToken('4242424242424242');
  const intent = await call('/v1/payment_intents', null, NEW_INTENT);
  // Accepts redirects (no list of allowed types), so it needs an address to return to.
  const path = `/v1/payment_intents/${intent.body.id}/confirm`;
  const refused = await call(path, null, { payment_method: 'pm_card_visa' });
  assert.deepEqual([refused.status, refused.body.error.param], [400, 'return_url']);
  const created = await intents();
  const both = await call('/v1/payment_intents', 'half-way', {
    ...NEW_INTENT,
    confirm: 'true',
    confirmation_token: 'ctoken_nobody',
  });
  assert.equal(both.status, 400);
  assert.equal(await intents(), created, 'the intent made on the way is gone again');
  const used = await call(path, null, { confirmation_token: token, return_url: 'http://shop.test/' });
  assert.equal(used.status, 200);
});

test('payment_method_types is refused as Stripe refuses it since 2026-09-30', async () => {
  const answer = await call('/v1/payment_intents', null, { ...NEW_INTENT, 'payment_method_types[]': 'card' });
  assert.deepEqual(
    [answer.status, answer.body.error.code],
    [400, 'payment_method_types_no_longer_supported'],
  );
});

test('the publishable key makes tokens and nothing else', async () => {
  const card = {
    'payment_method_data[type]': 'card',
    'payment_method_data[card][number]': '4242424242424242',
    'payment_method_data[card][exp_month]': '12',
    'payment_method_data[card][exp_year]': '40',
    'payment_method_data[card][cvc]': '123',
  };
  const key = sim.publishableKey;
  assert.equal((await call('/v1/confirmation_tokens', null, card, key)).status, 200);
  assert.equal((await call('/v1/payment_intents', null, NEW_INTENT, key)).status, 401);
  const list = await fetch(`${sim.url}/v1/payment_intents`, { headers: { authorization: `Bearer ${key}` } });
  assert.equal(list.status, 401);
});

test('P5: a key that is 24 hours old is forgotten, and a reservation of 7 days ends by itself', async (t) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'onsale-simulator-'));
  let now = 1_900_000_000_000;
  const clock: Clock = { ...systemClock, now: () => now };
  const simulator = await startSimulator({
    dataDir,
    port: 0,
    host: '127.0.0.1',
    webhookSecret: 'whsec_x',
    secretKey: 'sk_test_x',
    publishableKey: 'pk_test_x',
    clock,
    random: systemRandom,
    log: silentLogger,
  });
  t.after(async () => {
    await simulator.stop();
    await rm(dataDir, { recursive: true, force: true });
  });
  const provider = createStripeProvider({
    secretKey: 'sk_test_x',
    webhookSecrets: [],
    apiBase: simulator.url,
    log: silentLogger,
    clock,
  });
  const open = () => openPayment(provider, { key: 'aging', reference: 'aging' });
  const first = await open();
  now += 24 * 3600 * 1000 - 1;
  assert.equal((await open()).object, first.object);
  now += 1;
  assert.notEqual((await open()).object, first.object);

  await provider.authorise({
    key: 'aging-2',
    object: first.object,
    instrument: { paymentMethod: 'pm_card_visa' },
    returnUrl: 'http://shop.test/',
  });
  now += 7 * 24 * 3600 * 1000;
  const expired = await provider.capture({ key: 'aging-3', object: first.object, amount: 5000 });
  assert.ok(expired.kind === 'refused', JSON.stringify(expired));
  assert.equal(expired.view?.status, 'cancelled');
});

test('hostile requests are answered or cut off, and the simulator lives on', async () => {
  const authorization = `Bearer ${sim.secretKey}`;
  const odd = [
    ['GET', '//', undefined],
    ['GET', '/v1/payment_intents/%E0%A4%A', undefined],
    ['GET', '/v1/payment_intents?created[gte]=x&limit=1e9', undefined],
    ['GET', '/v1/payment_intents?limit=-1', undefined],
    ['POST', '/v1/payment_intents', 'a[b][c][d][e][f][g][h][i][j]=1'],
    ['POST', '/v1/payment_intents', `amount=5000&currency=eur&description=${'x'.repeat(70_000)}`],
    ['POST', '/v1/payment_intents', 'amount=-1&currency=eur'],
    ['POST', '/v1/payment_intents', 'amount=5000&currency=__proto__'],
    ['POST', '/v1/payment_intents', 'amount=5000&currency=eur&description='],
    ['POST', '/v1/payment_intents', 'amount=5001&currency=isk'],
    ['POST', '/v1/payment_intents/constructor/confirm', 'payment_method=pm_card_visa'],
    ['POST', '/_sim/faults', '{"fault":"__proto__"}'],
    ['POST', '/_sim/webhooks/target', '{"url":"file:///etc/passwd"}'],
    ['GET', '/authenticate/%00', undefined],
    ['PUT', '/v1/balance', 'x=1'],
  ] as const;
  for (const [method, path, body] of odd) {
    const { status } = await fetch(`${sim.url}${path}`, { method, body, headers: { authorization } });
    assert.ok(status >= 400 && status < 500, `${method} ${path}: ${status}`);
  }
  assert.deepEqual(await sim.provider.ping(), { ok: true });
});
