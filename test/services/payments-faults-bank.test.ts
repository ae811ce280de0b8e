import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import Stripe from 'stripe';
import { FAULT_KINDS } from '../../payment-simulator/fault-kinds.ts';
import type { FaultKind } from '../../payment-simulator/faults.ts';
import type { PaymentProvider, PaymentView, ProviderAnswer } from '../../src/payments/provider.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { projectDir } from '../../src/runtime/project-dir.ts';
import { openPayment, startTestSimulator, type TestSimulator, untilKnown } from '../support/simulator.ts';
import { until } from '../support/wait.ts';

/** The faults in which the bank, or the provider as a whole, does otherwise than the card promises. */
let sim: TestSimulator;
let provider: PaymentProvider;
before(async () => {
  sim = await startTestSimulator();
  provider = sim.provider;
});
after(() => sim.stop());
afterEach(() => sim.clearFaults());

let keys = 0;
const newKey = () => `bank-${++keys}`;
const authorise = (object: string, card = 'pm_card_visa', key = newKey()) =>
  provider.authorise({
    key,
    object,
    instrument: { paymentMethod: card },
    returnUrl: 'http://shop.test/',
  });
const capture = (object: string, key = newKey()) => provider.capture({ key, object, amount: 5000 });
const cancel = (object: string, key = newKey()) => provider.void({ key, object });
const refund = (object: string, amount: number, key = newKey()) =>
  provider.refund({ key, object, amount, reference: key });

function viewOf(answer: ProviderAnswer): PaymentView {
  assert.ok('view' in answer && answer.view, JSON.stringify(answer));
  return answer.view;
}

async function reserved(): Promise<string> {
  const { object } = await openPayment(provider);
  assert.equal((await authorise(object)).kind, 'done');
  return object;
}

async function taken(): Promise<string> {
  const object = await reserved();
  assert.equal((await capture(object)).kind, 'done');
  return object;
}

/** Reserved, taken, given back, of that the pending part, released: one query of the ledger. */
async function sums(of: string): Promise<number[]> {
  const { intents } = await sim.ledgerOf(of);
  assert.equal(intents.length, 1);
  const { authorised, captured, refunded, refundPending, voided } = intents[0]!;
  return [authorised, captured, refunded, refundPending, voided];
}

async function untilSums(of: string, wanted: number[]): Promise<void> {
  let found: unknown;
  await until(
    async () => {
      found = await sums(of);
      return String(found) === String(wanted);
    },
    () => `${wanted} instead of ${found}`,
  );
}

const eventsOf = async (object: string): Promise<string[]> => {
  const stripe = client(0);
  const { data } = await stripe.events.list({ limit: 100 });
  return data
    .filter(({ data: { object: about } }) => {
      const { id, payment_intent } = about as { id?: string; payment_intent?: unknown };
      return id === object || payment_intent === object;
    })
    .map(({ type }) => type);
};

function client(maxNetworkRetries: number): Stripe {
  const { hostname, port } = new URL(sim.url);
  return new Stripe(sim.secretKey, {
    host: hostname,
    port,
    protocol: 'http',
    telemetry: false,
    maxNetworkRetries,
  });
}

test('the ledger returns for one payment, or for one order, the reserved, captured, refunded and released amounts', async () => {
  const { object, reference } = await openPayment(provider);
  assert.deepEqual(await sums(object), [0, 0, 0, 0, 0]);
  await authorise(object);
  assert.deepEqual(await sums(reference), [5000, 0, 0, 0, 0]);
  await provider.capture({ key: newKey(), object, amount: 4000 });
  assert.deepEqual(await sums(reference), [0, 4000, 0, 0, 1000]);
  await refund(object, 1500);
  assert.deepEqual(await sums(object), [0, 4000, 1500, 0, 1000]);
  const whole = await sim.ledgerOf(reference);
  assert.deepEqual([whole.charges.length, whole.refunds.map(({ amount }) => amount)], [1, [1500]]);
  const released = await reserved();
  await cancel(released);
  assert.deepEqual(await sums(released), [0, 0, 0, 0, 5000]);
  assert.deepEqual(await sim.ledgerOf('nobody'), { intents: [], charges: [], refunds: [], disputes: [] });
});

test('any card can be made to ask for authentication; an abandoned one waits until it is ended', async () => {
  await sim.fault('authentication_required', { times: 1, match: { card: 'pm_card_visa' } });
  const { object, reference } = await openPayment(provider);
  const asked = await authorise(object);
  assert.equal(asked.kind, 'pending');
  const { url } = viewOf(asked).action!;
  await sim.fault('authentication_abandoned', { match: { reference } });
  await assert.rejects(sim.answerBank(url, 'authorise'), /answered 200/);
  assert.equal(viewOf(await provider.lookup(object)).status, 'waiting');
  await sim.clearFaults();
  await sim.answerBank(url, 'authorise');
  assert.equal(viewOf(await provider.lookup(object)).status, 'authorised');
  assert.deepEqual(await sums(object), [5000, 0, 0, 0, 0]);
});

test('any card can be declined, as often as it is said', async () => {
  await sim.fault('declined', { times: 1 });
  const { object } = await openPayment(provider);
  const answer = await authorise(object);
  assert.ok(answer.kind === 'refused' && answer.decline === 'insufficient_funds', JSON.stringify(answer));
  assert.equal((await authorise(object)).kind, 'done');
  assert.equal((await sim.struck()).declined, 1);
});

test('a short hold says when it ends and ends by itself: nothing is left to capture', async () => {
  await sim.fault('hold_short', { times: 1, delayMs: 1000 });
  const { object } = await openPayment(provider);
  const { captureBefore } = viewOf(await authorise(object));
  assert.ok(captureBefore !== null && captureBefore <= systemClock.now() + 2000, String(captureBefore));
  await untilSums(object, [0, 0, 0, 0, 5000]);
  assert.ok((await eventsOf(object)).includes('payment_intent.canceled'));
  const late = await capture(object);
  assert.ok(late.kind === 'refused' && late.view?.status === 'cancelled', JSON.stringify(late));
});

test('a hold that was lost is found at the capture: refused for good, nothing taken', async () => {
  const object = await reserved();
  await sim.fault('hold_lost', { times: 1, match: { intent: object } });
  for (const key of ['lost', 'lost', 'lost-again']) {
    const answer = await capture(object, key);
    assert.ok(answer.kind === 'refused' && answer.view?.status === 'cancelled', JSON.stringify(answer));
  }
  assert.deepEqual(await sums(object), [0, 0, 0, 0, 5000]);
});

test('a refused capture is refused under its key for ever; the hold stands until it is voided', async () => {
  const object = await reserved();
  await sim.fault('capture_refused', { times: 1, match: { intent: object } });
  for (let i = 0; i < 2; i++) {
    const answer = await capture(object, 'refused-capture');
    assert.ok(answer.kind === 'refused' && answer.view?.status === 'authorised', JSON.stringify(answer));
  }
  assert.deepEqual(await sums(object), [5000, 0, 0, 0, 0]);
  assert.equal((await cancel(object)).kind, 'done');
  assert.deepEqual(await sums(object), [0, 0, 0, 0, 5000]);
});

test('a refused void is no verdict and stays so under its key; a new key ends the payment', async () => {
  const object = await reserved();
  await sim.fault('void_refused', { times: 1, match: { intent: object } });
  for (let i = 0; i < 2; i++) {
    const answer = await cancel(object, 'refused-void');
    assert.ok(answer.kind === 'unknown' && answer.reason === 'conflict', JSON.stringify(answer));
  }
  assert.deepEqual(await sums(object), [5000, 0, 0, 0, 0]);
  assert.equal((await cancel(object)).kind, 'done');
});

test('a stored 500 in place of the work is replayed for ever: only a new key does it', async () => {
  const object = await reserved();
  await sim.fault('error_500_stored', { times: 1, match: { intent: object, route: 'capture' } });
  for (let i = 0; i < 2; i++) {
    const answer = await capture(object, 'stored-500');
    assert.ok(answer.kind === 'unknown' && answer.reason === 'server_error', JSON.stringify(answer));
  }
  assert.deepEqual(await sums(object), [5000, 0, 0, 0, 0]);
  assert.equal((await capture(object)).kind, 'done');
});

test('refunds wait, arrive late, fail at once or later, as the faults say; the ledger knows each', async () => {
  const told = async (fault: FaultKind, kind: string, then: number[], settled: number[]) => {
    const object = await taken();
    await sim.fault(fault, { times: 1, match: { intent: object } });
    assert.equal((await refund(object, 1200)).kind, kind, fault);
    assert.deepEqual(await sums(object), then, fault);
    await sim.settleRefunds();
    assert.deepEqual(await sums(object), settled, fault);
  };
  await told('refund_pending', 'pending', [0, 5000, 1200, 1200, 0], [0, 5000, 1200, 0, 0]);
  await told('refund_waits_for_balance', 'pending', [0, 5000, 1200, 1200, 0], [0, 5000, 1200, 0, 0]);
  await told('refund_pending_fails', 'pending', [0, 5000, 1200, 1200, 0], [0, 5000, 0, 0, 0]);
  await told('refund_fails_later', 'done', [0, 5000, 1200, 0, 0], [0, 5000, 0, 0, 0]);
  await told('refund_fails', 'refused', [0, 5000, 0, 0, 0], [0, 5000, 0, 0, 0]);
  await told('refund_insufficient_balance', 'refused', [0, 5000, 0, 0, 0], [0, 5000, 0, 0, 0]);
});

test('a refund with a delay goes on by itself, and a restart does not forget it', async () => {
  const object = await taken();
  await sim.fault('refund_pending_fails', { times: 1, match: { intent: object }, delayMs: 1000 });
  assert.equal((await refund(object, 1200)).kind, 'pending');
  await sim.restart();
  await untilSums(object, [0, 5000, 0, 0, 0]);
  const events = await eventsOf(object);
  assert.ok(events.includes('refund.failed') && events.includes('refund.updated'), events.join());
  assert.equal((await refund(object, 5000)).kind, 'done');
});

test('P4: a provider that is unreachable for a while is unknown to all calls, then the same key returns the finished work', async () => {
  const object = await reserved();
  const waiting = await openPayment(provider);
  const asked = await authorise(waiting.object, 'pm_card_threeDSecure2Required');
  const away = await sim.fault('closed');
  const answers = [await capture(object, 'away'), await provider.lookup(object), await cancel(object)];
  for (const answer of answers) {
    assert.ok(answer.kind === 'unknown' && answer.reason === 'connection', JSON.stringify(answer));
  }
  assert.equal((await provider.ping()).ok, false);
  await assert.rejects(fetch(viewOf(asked).action!.url), 'the bank’s page is away too');
  assert.deepEqual(await sums(object), [5000, 0, 0, 0, 0], 'the ledger can still be asked');
  assert.equal(await sim.endFault(away), true, 'a minute is not over');
  assert.equal((await untilKnown(() => capture(object, 'away'))).kind, 'done');
  assert.equal((await fetch(viewOf(asked).action!.url)).status, 200);
});

test('a fault that is on for a while goes off by itself', async () => {
  const away = await sim.fault('closed', { forMs: 200 });
  await until(async () => (await provider.ping()).ok, 'the end of the fault');
  assert.equal(await sim.endFault(away), false, 'it is off already');
});

test('what an answer says of repeating is what the SDK does', async () => {
  const tries = async (...faults: FaultKind[]): Promise<number> => {
    await sim.clearFaults();
    const [error] = faults;
    const before = (await sim.struck())[error!] ?? 0;
    for (const fault of faults) await sim.fault(fault, { match: { route: 'balance.retrieve' } });
    await assert.rejects(client(1).balance.retrieve());
    return (await sim.struck())[error!]! - before;
  };
  assert.equal(await tries('unavailable'), 2);
  assert.equal(await tries('unavailable', 'retry_refused'), 1);
  assert.equal(await tries('error_500_before'), 2);
  assert.equal(await tries('error_500_stored'), 1);
  assert.equal(await tries('rate_limit'), 1);
  assert.equal(await tries('rate_limit', 'retry_advised'), 2);
  assert.equal(await tries('lock_timeout'), 2);
});

test('faults are switched on and off by the forms of the page, and not from another site', async () => {
  const form = (path: string, fields: Record<string, string>, headers: Record<string, string> = {}) =>
    fetch(sim.url + path, {
      method: 'POST',
      redirect: 'manual',
      headers,
      body: new URLSearchParams(fields),
    });
  const page = async () => (await fetch(sim.url)).text();
  const listed = async () =>
    ((await (await fetch(`${sim.url}/_sim/faults`)).json()) as { faults: { id: string }[] }).faults;

  const empty = { card: '', key: '', intent: '', reference: '', event: '', copies: '', forMs: '' };
  const on = { ...empty, fault: 'delay', route: ' capture ', times: '3', rate: '0.5', delayMs: '250' };
  assert.equal((await form('/_sim/faults', on)).status, 303);
  const [fault] = await listed();
  assert.deepEqual(fault, {
    id: fault?.id,
    fault: 'delay',
    match: { route: 'capture' },
    times: 3,
    rate: 0.5,
    delayMs: 250,
    copies: 2,
    forMs: null,
    until: null,
  });
  assert.ok((await page()).includes(`value="${fault?.id}"`));
  const wrong = await form('/_sim/faults', { ...on, rate: '7', reference: '<script>' });
  assert.deepEqual([wrong.status, (await listed()).length], [400, 1]);
  assert.match(await wrong.text(), /rate 0 to 1/);
  await form('/_sim/faults', { fault: 'drop_before', reference: '<script>alert(1)</script>', route: 'x' });
  assert.ok(!(await page()).includes('<script>alert'));
  assert.equal((await form('/_sim/faults/off', { id: fault!.id })).status, 303);
  assert.deepEqual((await listed()).length, 1);
  assert.equal((await form('/_sim/faults/off', {})).status, 303);
  assert.deepEqual(await listed(), []);
  assert.equal((await form('/_sim/faults', on, { 'sec-fetch-site': 'cross-site' })).status, 403);
  assert.equal((await form('/_sim/nothing', {})).status, 404);
  assert.deepEqual(await listed(), []);

  const id = await sim.fault('rate_limit');
  assert.deepEqual([await sim.endFault(id), await sim.endFault(id), await listed()], [true, false, []]);
});

test('the page and the reference say what each kind of fault does', async () => {
  const reference = await readFile(join(projectDir, 'docs/reference/simulator.md'), 'utf8');
  const page = await (await fetch(sim.url)).text();
  for (const [name, { says }] of Object.entries(FAULT_KINDS)) {
    assert.ok(
      reference.includes(`| \`${name}\` | ${says} |`),
      `the reference does not have: | \`${name}\` | ${says} |`,
    );
    assert.ok(page.includes(`<option>${name}</option>`), name);
  }
});
