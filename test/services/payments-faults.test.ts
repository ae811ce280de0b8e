import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { after, afterEach, before, test } from 'node:test';
import type { FaultKind } from '../../payment-simulator/faults.ts';
import type { PaymentProvider, ProviderAnswer, UnknownReason } from '../../src/payments/provider.ts';
import { createStripeProvider } from '../../src/payments/stripe.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { openPayment, startTestSimulator, type TestSimulator, untilKnown } from '../support/simulator.ts';
import { until } from '../support/wait.ts';

let sim: TestSimulator;
let provider: PaymentProvider;
/** Gives up after 300 ms. Only for calls that are to time out: a busy machine may be slower than that by itself. */
let hasty: PaymentProvider;
before(async () => {
  sim = await startTestSimulator();
  provider = sim.provider;
  hasty = sim.providerWith({ timeoutMs: 300 });
});
after(() => sim.stop());
afterEach(() => sim.clearFaults());

let keys = 0;

function authoriser(object: string, card = 'pm_card_visa') {
  const key = `fault-${++keys}`;
  return (by = provider) =>
    by.authorise({
      key,
      object,
      instrument: { paymentMethod: card },
      returnUrl: 'http://shop.test/',
    });
}

async function paidCharges(reference: string): Promise<number> {
  const { charges } = await sim.ledger();
  return charges.filter((charge) => charge.reference === reference && charge.status === 'succeeded').length;
}

async function untilPaid(reference: string): Promise<void> {
  await until(async () => (await paidCharges(reference)) === 1, 'the work to be done');
}

function reasonOf(answer: ProviderAnswer): UnknownReason | string {
  return answer.kind === 'unknown' ? answer.reason : answer.kind;
}

/** `times: 2` where the SDK itself re-sends once after a reset connection. Last: whether the work was done all the same. */
const FAULTS: [FaultKind, { times: number; delayMs?: number }, UnknownReason, boolean][] = [
  ['delay', { times: 1, delayMs: 900 }, 'timeout', true],
  ['delay_before', { times: 1, delayMs: 4000 }, 'timeout', false],
  ['drop_after', { times: 2 }, 'connection', true],
  ['drop_before', { times: 2 }, 'connection', false],
  ['cut_after', { times: 2 }, 'connection', true],
  ['rate_limit', { times: 1 }, 'rate_limited', false],
  ['lock_timeout', { times: 1 }, 'rate_limited', false],
  ['key_in_use', { times: 1 }, 'conflict', false],
  ['key_mismatch', { times: 1 }, 'conflict', false],
  ['error_500_before', { times: 1 }, 'server_error', false],
  ['unavailable', { times: 1 }, 'server_error', false],
];

for (const [fault, options, reason, doesTheWork] of FAULTS) {
  const first = () => (reason === 'timeout' ? hasty : provider);

  test(`P4: authorise under ${fault} is unknown; the same key then gives done, and there is one charge`, async () => {
    const { object, reference } = await openPayment(sim.provider);
    await sim.fault(fault, { ...options, match: { route: 'confirm', intent: object } });
    const authorise = authoriser(object);
    assert.equal(reasonOf(await authorise(first())), reason);
    if (doesTheWork) await untilPaid(reference);
    else assert.equal(await paidCharges(reference), 0);
    const answer = await untilKnown(() => authorise());
    assert.ok(answer.kind === 'done', JSON.stringify(answer));
    assert.equal(answer.view.status, 'authorised');
    assert.equal(await paidCharges(reference), 1);
  });

  test(`P4: capture, refund and void under ${fault} are unknown, and done once with the same key`, async () => {
    const { object, reference } = await openPayment(sim.provider);
    assert.equal((await authoriser(object)()).kind, 'done');
    await sim.fault(fault, { ...options, match: { route: 'capture', intent: object } });
    const capture = (by = provider) => by.capture({ key: `${reference}-capture`, object, amount: 5000 });
    assert.equal(reasonOf(await capture(first())), reason);
    assert.equal((await untilKnown(() => capture())).kind, 'done');

    await sim.fault(fault, { ...options, match: { route: 'refunds.create', intent: object } });
    const refund = (by = provider) =>
      by.refund({ key: `${reference}-refund`, object, amount: 1200, reference: 'part' });
    const answer = await refund(first());
    assert.equal(answer.kind === 'unknown' && answer.reason, reason);
    assert.equal((await untilKnown(() => refund())).kind, 'done');

    const other = await openPayment(sim.provider);
    assert.equal((await authoriser(other.object)()).kind, 'done');
    await sim.fault(fault, { ...options, match: { route: 'cancel', intent: other.object } });
    const cancel = (by = provider) => by.void({ key: `${other.reference}-void`, object: other.object });
    assert.equal(reasonOf(await cancel(first())), reason);
    assert.equal((await untilKnown(() => cancel())).kind, 'done');

    const ledger = await sim.ledger();
    const entry = (of: string) => ledger.intents.find((intent) => intent.reference === of);
    assert.deepEqual([entry(reference)?.captured, entry(reference)?.refunded], [5000, 1200]);
    assert.deepEqual([entry(other.reference)?.status, entry(other.reference)?.authorised], ['canceled', 0]);
  });
}

test('P4: a stored 500 is replayed for ever and no verdict; the lookup tells, and there is one charge', async () => {
  const { object, reference } = await openPayment(sim.provider);
  await sim.fault('error_500_after', { times: 1, match: { intent: object } });
  const authorise = authoriser(object);
  for (let i = 0; i < 3; i++) assert.equal(reasonOf(await authorise()), 'server_error');
  const found = await provider.lookup(object);
  assert.equal(found.kind === 'done' && found.view.status, 'authorised');
  assert.equal(await paidCharges(reference), 1);
  // A new key finds the payment authorised and adds nothing.
  assert.equal(reasonOf(await authoriser(object, 'pm_card_mastercard')()), 'done');
  assert.equal(await paidCharges(reference), 1);
});

test('P4: a decline whose answer was lost is the same decline under the same key', async () => {
  const { object, reference } = await openPayment(sim.provider);
  await sim.fault('drop_after', { times: 2, match: { card: 'chargeDeclinedInsufficientFunds' } });
  const authorise = authoriser(object, 'pm_card_chargeDeclinedInsufficientFunds');
  assert.equal(reasonOf(await authorise()), 'connection');
  const answer = await untilKnown(() => authorise());
  assert.ok(answer.kind === 'refused');
  assert.equal(answer.decline, 'insufficient_funds');
  const { charges } = await sim.ledger();
  assert.equal(charges.filter((charge) => charge.reference === reference).length, 1);
});

test('P4: the SDK repairs one reset connection with our key: done at once, one charge', async () => {
  const { object, reference } = await openPayment(sim.provider);
  await sim.fault('drop_after', { times: 1, match: { route: 'confirm', intent: object } });
  assert.equal(reasonOf(await authoriser(object)()), 'done');
  assert.equal(await paidCharges(reference), 1);
});

test('P4: opening with a lost answer opens one payment', async () => {
  await sim.fault('drop_after', { times: 2, match: { key: 'lost-open' } });
  const open = () =>
    provider.open({
      key: 'lost-open',
      reference: 'lost-open',
      eventId: 'event-1',
      amount: 5000,
      currency: 'EUR',
      description: '',
      email: '',
    });
  assert.equal(reasonOf(await open()), 'connection');
  assert.equal((await untilKnown(open)).kind, 'done');
  const { intents } = await sim.ledger();
  assert.equal(intents.filter((intent) => intent.reference === 'lost-open').length, 1);
});

test('P4: a void that overtakes a slow authorisation wins, and nothing is reserved', async () => {
  const { object, reference } = await openPayment(sim.provider);
  await sim.fault('delay_before', { times: 1, delayMs: 4000, match: { route: 'confirm', intent: object } });
  const authorise = authoriser(object);
  assert.equal(reasonOf(await authorise(hasty)), 'timeout');
  assert.equal((await provider.void({ key: `${reference}-void`, object })).kind, 'done');
  // The late one arrives while this repeats; whatever it finds, it finds a cancelled payment.
  const answer = await untilKnown(() => authorise());
  assert.ok(answer.kind === 'refused', JSON.stringify(answer));
  assert.equal(answer.view?.status, 'cancelled');
  assert.equal(await paidCharges(reference), 0);
});

test('D3: a lookup that fails is unknown, and a provider that is gone is unknown too', async () => {
  const { object } = await openPayment(sim.provider);
  await sim.fault('error_500_before', { times: 1, match: { route: 'retrieve' } });
  assert.equal(reasonOf(await provider.lookup(object)), 'server_error');
  const gone = createStripeProvider({
    secretKey: 'sk_test_x',
    webhookSecrets: [],
    apiBase: 'http://127.0.0.1:1',
    log: silentLogger,
    clock: systemClock,
  });
  assert.equal(reasonOf(await gone.lookup(object)), 'connection');
  assert.equal((await gone.ping()).ok, false);
});

const OTHER_PAYMENT = JSON.stringify({
  id: 'pi_other',
  status: 'succeeded',
  amount: 1,
  amount_received: 1,
  currency: 'eur',
  metadata: {},
  latest_charge: null,
  payment_method: null,
  last_payment_error: null,
});

const ODD_ANSWERS: [string, string, UnknownReason][] = [
  ['an empty answer', '', 'connection'],
  ['HTML from a proxy', http(502, 'text/html', '<h1>Bad gateway</h1>'), 'server_error'],
  ['JSON that is no object', http(200, 'application/json', 'null'), 'server_error'],
  ['an object without fields', http(200, 'application/json', '{}'), 'server_error'],
  ['an unknown status', http(200, 'application/json', '{"id":"pi_1","status":"new_word"}'), 'server_error'],
  ['an answer about another payment', http(200, 'application/json', OTHER_PAYMENT), 'server_error'],
  [
    'a body cut short',
    http(200, 'application/json', '{"id":"pi_1"').replace(/length: \d+/, 'length: 900'),
    'connection',
  ],
  ['no HTTP at all', 'SSH-2.0-OpenSSH\r\n', 'connection'],
];

function http(status: number, type: string, body: string): string {
  return `HTTP/1.1 ${status} X\r\ncontent-type: ${type}\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`;
}

for (const [name, bytes, reason] of ODD_ANSWERS) {
  test(`P4: ${name} is unknown, never an exception`, async (t) => {
    const server = createServer((socket) => {
      socket.on('error', () => undefined);
      socket.once('data', () => socket.end(bytes));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => new Promise((resolve) => server.close(resolve)));
    const address = server.address();
    assert.ok(typeof address === 'object' && address);
    const odd = createStripeProvider({
      secretKey: 'sk_test_x',
      webhookSecrets: [],
      apiBase: `http://127.0.0.1:${address.port}`,
      timeoutMs: 1000,
      log: silentLogger,
      clock: systemClock,
    });
    const answers = [
      await odd.authorise({
        key: 'k',
        object: 'pi_1',
        instrument: { paymentMethod: 'pm_1' },
        returnUrl: 'http://shop.test/',
      }),
      await odd.capture({ key: 'k', object: 'pi_1', amount: 1 }),
      await odd.void({ key: 'k', object: 'pi_1' }),
      await odd.lookup('pi_1'),
    ];
    for (const answer of answers) assert.equal(reasonOf(answer), reason, JSON.stringify(answer));
    const refund = await odd.refund({ key: 'k', object: 'pi_1', amount: 1, reference: 'r' });
    assert.equal(refund.kind, 'unknown');
  });
}

test('P4: a provider that accepts the connection and says nothing is a time-out', async (t) => {
  const sockets = new Set<import('node:net').Socket>();
  const server = createServer((socket) => sockets.add(socket));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  const address = server.address();
  assert.ok(typeof address === 'object' && address);
  const silent = createStripeProvider({
    secretKey: 'sk_test_x',
    webhookSecrets: [],
    apiBase: `http://127.0.0.1:${address.port}`,
    timeoutMs: 200,
    log: silentLogger,
    clock: systemClock,
  });
  assert.equal(reasonOf(await silent.capture({ key: 'k', object: 'pi_1', amount: 1 })), 'timeout');
});
