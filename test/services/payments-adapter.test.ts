import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { DeclineCode, PaymentView, ProviderAnswer } from '../../src/payments/provider.ts';
import { openPayment, startTestSimulator, type TestSimulator } from '../support/simulator.ts';

let sim: TestSimulator;
before(async () => {
  sim = await startTestSimulator();
});
after(() => sim.stop());

const RETURN_URL = 'http://shop.test/orders/1?step=pay';
let keys = 0;
const newKey = () => `adapter-${++keys}`;

const authorise = (object: string, card: string, key = newKey()) =>
  sim.provider.authorise({ key, object, instrument: { paymentMethod: card }, returnUrl: RETURN_URL });
const capture = (object: string, amount = 5000, key = newKey()) =>
  sim.provider.capture({ key, object, amount });
const voided = (object: string, key = newKey()) => sim.provider.void({ key, object });
const refund = (object: string, amount: number, key = newKey()) =>
  sim.provider.refund({ key, object, amount, reference: `refund-of-${key}` });

function viewOf(answer: ProviderAnswer, kind: ProviderAnswer['kind']): PaymentView {
  assert.equal(answer.kind, kind, JSON.stringify(answer));
  assert.ok(answer.kind !== 'unknown' && answer.view);
  return answer.view;
}

async function intentOf(reference: string) {
  const ledger = await sim.ledger();
  const intents = ledger.intents.filter((intent) => intent.reference === reference);
  assert.equal(intents.length, 1);
  return {
    ...intents[0]!,
    paidCharges: ledger.charges.filter((c) => c.reference === reference && c.status === 'succeeded').length,
  };
}

async function authorised(card = 'pm_card_visa') {
  const opened = await openPayment(sim.provider);
  viewOf(await authorise(opened.object, card), 'done');
  return opened;
}

test('P6: amount, currency and our reference come back in every view', async () => {
  const { object } = await openPayment(sim.provider, { reference: 'o-jpy', amount: 12_345, currency: 'JPY' });
  const facts = (view: PaymentView) => [view.object, view.amount, view.currency, view.reference];
  const expected = [object, 12_345, 'JPY', 'o-jpy'];
  assert.deepEqual(facts(viewOf(await authorise(object, 'pm_card_chargeDeclined'), 'refused')), expected);
  assert.deepEqual(facts(viewOf(await authorise(object, 'pm_card_mastercard'), 'done')), expected);
  assert.deepEqual(facts(viewOf(await sim.provider.lookup(object), 'done')), expected);
  assert.deepEqual(facts(viewOf(await capture(object, 12_345), 'done')), expected);
});

test('P2: authorising reserves and takes nothing; capturing takes the whole', async () => {
  const { object, reference } = await openPayment(sim.provider);
  const before = Date.now();
  const held = viewOf(await authorise(object, 'pm_card_visa'), 'done');
  assert.deepEqual([held.status, held.captured, held.action, held.decline], ['authorised', 0, null, null]);
  assert.equal(held.instrument?.last4, '4242');
  assert.equal(held.instrument?.brand, 'visa');
  const days = ((held.captureBefore ?? 0) - before) / 86_400_000;
  assert.ok(days > 6.99 && days < 7.01, `capture before: in ${days} days`);
  assert.deepEqual(
    (({ authorised, captured }) => [authorised, captured])(await intentOf(reference)),
    [5000, 0],
  );

  const taken = viewOf(await capture(object), 'done');
  assert.deepEqual([taken.status, taken.captured, taken.captureBefore], ['captured', 5000, null]);
  const entry = await intentOf(reference);
  assert.deepEqual([entry.authorised, entry.captured, entry.paidCharges], [0, 5000, 1]);
});

test('P7: a card number has one fingerprint over all payments, another number another', async () => {
  const fingerprintOf = async (card: string) => {
    const { object } = await openPayment(sim.provider);
    return viewOf(await authorise(object, card), 'done').instrument?.fingerprint;
  };
  const visa = await fingerprintOf('pm_card_visa');
  assert.ok(visa);
  assert.equal(await fingerprintOf('pm_card_visa'), visa);
  assert.notEqual(await fingerprintOf('pm_card_mastercard'), visa);
  const { object } = await openPayment(sim.provider);
  const typed = await sim.confirmationToken('4242424242424242');
  const answer = await sim.provider.authorise({
    key: newKey(),
    object,
    instrument: { confirmationToken: typed },
    returnUrl: RETURN_URL,
  });
  assert.equal(viewOf(answer, 'done').instrument?.fingerprint, visa, 'typed into the form');
});

const DECLINES: [string, DeclineCode][] = [
  ['chargeDeclined', 'declined'],
  ['chargeDeclinedInsufficientFunds', 'insufficient_funds'],
  ['chargeDeclinedExpiredCard', 'expired_card'],
  ['chargeDeclinedIncorrectCvc', 'incorrect_cvc'],
  ['chargeDeclinedProcessingError', 'processing_error'],
  ['chargeDeclinedLostCard', 'declined'],
  ['chargeDeclinedStolenCard', 'declined'],
  ['chargeDeclinedVelocityLimitExceeded', 'declined'],
  ['chargeDeclinedFraudulent', 'declined'],
  ['radarBlock', 'declined'],
  ['chargeCustomerFail', 'declined'],
];

for (const [card, decline] of DECLINES) {
  test(`P5: ${card} is refused as ${decline}, repeats its refusal under its key, and another card may be tried`, async () => {
    const { object, reference } = await openPayment(sim.provider);
    const key = newKey();
    for (const answer of [
      await authorise(object, `pm_card_${card}`, key),
      await authorise(object, `pm_card_${card}`, key),
    ]) {
      assert.equal(answer.kind, 'refused');
      assert.ok(answer.kind === 'refused');
      assert.equal(answer.decline, decline);
      assert.deepEqual([answer.view?.status, answer.view?.decline], ['new', decline]);
      assert.ok(answer.view?.instrument?.fingerprint, 'known for limits');
    }
    assert.equal((await intentOf(reference)).confirmations, 1);
    assert.equal(viewOf(await authorise(object, 'pm_card_visa'), 'done').decline, null);
    assert.equal((await intentOf(reference)).paidCharges, 1);
  });
}

test('P5: instruments that do not exist, are spent or are not ours are refused and leave the payment open', async () => {
  const { object, reference } = await openPayment(sim.provider);
  const token = await sim.confirmationToken('pm_card_chargeDeclined');
  const withToken = (confirmationToken: string) =>
    sim.provider.authorise({
      key: newKey(),
      object,
      instrument: { confirmationToken },
      returnUrl: RETURN_URL,
    });
  assert.equal((await withToken(token)).kind, 'refused');
  for (const answer of [
    await withToken(token),
    await withToken('ctoken_nobody'),
    await authorise(object, 'pm_nobody'),
    await authorise(object, 'pm_card_nobody'),
  ]) {
    assert.ok(answer.kind === 'refused', JSON.stringify(answer));
    assert.equal(answer.decline, 'invalid_instrument');
  }
  assert.equal(viewOf(await authorise(object, 'pm_card_visa'), 'done').status, 'authorised');
  assert.equal((await intentOf(reference)).paidCharges, 1);
});

for (const card of ['authenticationRequired', 'threeDSecure2Required', 'authenticationRequiredOnSetup']) {
  test(`P4: ${card} waits for the buyer and is authorised once the bank was answered`, async () => {
    const { object, reference } = await openPayment(sim.provider);
    const waiting = viewOf(await authorise(object, `pm_card_${card}`), 'pending');
    assert.equal(waiting.status, 'waiting');
    assert.ok(waiting.instrument?.fingerprint, 'known before the buyer is sent away');
    assert.ok(waiting.action);
    assert.equal(viewOf(await sim.provider.lookup(object), 'done').action?.url, waiting.action.url);

    const back = new URL(await sim.answerBank(waiting.action.url, 'authorise'));
    assert.equal(`${back.origin}${back.pathname}`, 'http://shop.test/orders/1');
    assert.deepEqual(
      ['step', 'payment_intent', 'redirect_status'].map((name) => back.searchParams.get(name)),
      ['pay', object, 'succeeded'],
    );
    const held = viewOf(await sim.provider.lookup(object), 'done');
    assert.deepEqual([held.status, held.action], ['authorised', null]);
    assert.equal(viewOf(await capture(object), 'done').status, 'captured');
    assert.equal((await intentOf(reference)).paidCharges, 1);
  });
}

test('P4: a refused authentication leaves the payment open for another card', async () => {
  const { object, reference } = await openPayment(sim.provider);
  const waiting = viewOf(await authorise(object, 'pm_card_threeDSecure2Required'), 'pending');
  const back = new URL(await sim.answerBank(waiting.action!.url, 'refuse'));
  assert.equal(back.searchParams.get('redirect_status'), 'failed');
  const open = viewOf(await sim.provider.lookup(object), 'done');
  assert.deepEqual([open.status, open.decline, open.action], ['new', 'authentication_failed', null]);
  assert.equal((await intentOf(reference)).paidCharges, 0);
  // The other answer, given late in another tab, changes nothing any more.
  await sim.answerBank(waiting.action!.url, 'authorise');
  assert.equal(viewOf(await sim.provider.lookup(object), 'done').status, 'new');
  assert.equal(viewOf(await authorise(object, 'pm_card_visa'), 'done').status, 'authorised');
});

test('P4: authenticated and then declined is open again, with the reason', async () => {
  const { object } = await openPayment(sim.provider);
  const card = 'pm_card_authenticationRequiredChargeDeclinedInsufficientFunds';
  const waiting = viewOf(await authorise(object, card), 'pending');
  const back = new URL(await sim.answerBank(waiting.action!.url, 'authorise'));
  assert.equal(back.searchParams.get('redirect_status'), 'failed');
  const open = viewOf(await sim.provider.lookup(object), 'done');
  assert.deepEqual([open.status, open.decline], ['new', 'insufficient_funds']);
});

test('P1: a payment that is authorised already is not authorised again, with whatever card and key', async () => {
  const { object, reference } = await authorised();
  const again = viewOf(await authorise(object, 'pm_card_mastercard'), 'done');
  assert.equal(again.status, 'authorised');
  assert.equal(again.instrument?.last4, '4242', 'the first card stands');
  assert.equal((await intentOf(reference)).paidCharges, 1);
});

test('P3: voiding releases a reservation, once, however often it is asked', async () => {
  const { object, reference } = await authorised();
  for (const _ of [1, 2, 3]) {
    const view = viewOf(await voided(object), 'done');
    assert.deepEqual([view.status, view.captured, view.refunded], ['cancelled', 0, 0]);
  }
  const entry = await intentOf(reference);
  assert.deepEqual([entry.status, entry.authorised, entry.captured], ['canceled', 0, 0]);
});

test('P3: an open and a waiting payment can be closed too, and then nothing can be authorised', async () => {
  for (const card of [null, 'pm_card_chargeDeclined', 'pm_card_threeDSecure2Required']) {
    const { object } = await openPayment(sim.provider);
    const action = card ? await authorise(object, card) : null;
    assert.equal(viewOf(await voided(object), 'done').status, 'cancelled');
    const tried = await authorise(object, 'pm_card_visa');
    assert.equal(viewOf(tried, 'refused').status, 'cancelled');
    if (action?.kind === 'pending') await sim.answerBank(action.view.action!.url, 'authorise');
    assert.equal(viewOf(await sim.provider.lookup(object), 'done').status, 'cancelled');
  }
});

test('P3: what was captured cannot be voided, and the view tells', async () => {
  const { object, reference } = await authorised();
  viewOf(await capture(object), 'done');
  assert.equal(viewOf(await voided(object), 'refused').status, 'captured');
  assert.equal((await intentOf(reference)).captured, 5000);
});

test('P2: a second capture finds it captured; what was cancelled, declined or never tried cannot be captured', async () => {
  const { object, reference } = await authorised();
  viewOf(await capture(object), 'done');
  assert.equal(viewOf(await capture(object), 'done').captured, 5000);
  assert.equal((await intentOf(reference)).captured, 5000);

  const cancelled = await authorised();
  viewOf(await voided(cancelled.object), 'done');
  assert.equal(viewOf(await capture(cancelled.object), 'refused').status, 'cancelled');
  const open = await openPayment(sim.provider);
  assert.equal(viewOf(await capture(open.object), 'refused').status, 'new');
  viewOf(await authorise(open.object, 'pm_card_threeDSecure2Required'), 'pending');
  assert.equal(viewOf(await capture(open.object), 'refused').status, 'waiting');
  assert.equal((await intentOf(open.reference)).captured, 0);
});

test('P2: more than was reserved is not captured', async () => {
  const { object, reference } = await authorised();
  assert.equal((await capture(object, 5001)).kind, 'refused');
  assert.equal((await intentOf(reference)).authorised, 5000);
});

test('P8: refunds in parts add up to what was captured and no further', async () => {
  const { object, reference } = await authorised();
  assert.equal((await refund(object, 100)).kind, 'refused', 'nothing captured yet');
  viewOf(await capture(object), 'done');
  const first = await refund(object, 2000, 'part-1');
  assert.ok(first.kind === 'done');
  assert.deepEqual(first.refund, {
    refund: first.refund.refund,
    object,
    reference: 'refund-of-part-1',
    amount: 2000,
    currency: 'EUR',
    status: 'succeeded',
    reason: null,
    createdAt: first.refund.createdAt,
  });
  assert.ok(Math.abs(first.refund.createdAt - Date.now()) < 60_000);
  assert.equal((await refund(object, 3001)).kind, 'refused', 'more than is left');
  assert.equal((await refund(object, 3000)).kind, 'done');
  assert.equal((await refund(object, 1)).kind, 'refused', 'all is given back');
  const view = viewOf(await sim.provider.lookup(object), 'done');
  assert.deepEqual([view.status, view.captured, view.refunded], ['captured', 5000, 5000]);
  assert.equal((await intentOf(reference)).refunded, 5000);
});

test('P8: a refund may be pending and arrive later, or seem done and fail later', async () => {
  const slow = await authorised('pm_card_pendingRefund');
  viewOf(await capture(slow.object), 'done');
  const pending = await refund(slow.object, 5000);
  assert.ok(pending.kind === 'pending');
  assert.equal(pending.refund.status, 'pending');

  const failing = await authorised('pm_card_refundFail');
  viewOf(await capture(failing.object), 'done');
  assert.equal((await refund(failing.object, 5000)).kind, 'done');

  await sim.settleRefunds();
  const { refunds } = await sim.ledger();
  const statusOf = (object: string) => refunds.find((entry) => entry.intent === object)?.status;
  assert.deepEqual([statusOf(slow.object), statusOf(failing.object)], ['succeeded', 'failed']);
  assert.equal(viewOf(await sim.provider.lookup(failing.object), 'done').refunded, 0);
});

test('P4: a payment that cannot be found is no verdict', async () => {
  for (const answer of [
    await sim.provider.lookup('pi_nobody'),
    await authorise('pi_nobody', 'pm_card_visa'),
    await capture('pi_nobody'),
    await voided('pi_nobody'),
    await refund('pi_nobody', 1),
  ]) {
    assert.ok(answer.kind === 'unknown', JSON.stringify(answer));
    assert.equal(answer.reason, 'not_found');
  }
});

test('an amount below the provider’s least is refused when the payment is opened', async () => {
  const answer = await sim.provider.open({
    key: newKey(),
    reference: 'small',
    eventId: 'event-1',
    amount: 10,
    currency: 'EUR',
    description: '',
    email: '',
  });
  assert.equal(answer.kind, 'refused');
});

test('ping distinguishes a reachable provider, a wrong key and an unreachable one', async () => {
  assert.deepEqual(await sim.provider.ping(), { ok: true });
  const wrong = await sim.providerWith({ secretKey: 'sk_test_other' }).ping();
  assert.equal(wrong.ok, false);
  assert.ok(!wrong.ok && !wrong.reason.includes('sk_test_other'), 'the key is not in the message');
});
