import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, afterEach, before, test } from 'node:test';
import type { ProviderEvent } from '../../src/payments/provider.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { openPayment, startTestSimulator, type TestSimulator } from '../support/simulator.ts';
import { until } from '../support/wait.ts';

/** A shop's receiver: keeps each delivery whose signature the adapter accepts, in order of arrival. */
interface Receiver {
  url: string;
  deliveries: (ProviderEvent & { object: string | null })[];
  forged: number;
  /** The status that deliveries get. */
  answer: number;
  stop(): Promise<void>;
}

async function startReceiver(sim: TestSimulator, answer = 200): Promise<Receiver> {
  const receiver: Receiver = { url: '', deliveries: [], forged: 0, answer, stop: async () => undefined };
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const event = sim.provider.parseWebhook(Buffer.concat(chunks), String(req.headers['stripe-signature']));
      if (event) receiver.deliveries.push(event);
      else receiver.forged += 1;
      res.writeHead(receiver.answer).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  receiver.stop = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return receiver;
}

/** The simulator has read the receiver's 2xx and written it down. */
async function untilAccepted(event: string): Promise<void> {
  await until(async () => {
    const answer = await fetch(`${sim.url}/v1/events/${event}`, {
      headers: { authorization: `Bearer ${sim.secretKey}` },
    });
    return ((await answer.json()) as { pending_webhooks: number }).pending_webhooks === 0;
  }, 'the event to be accepted');
}

let sim: TestSimulator;
let receiver: Receiver;
before(async () => {
  sim = await startTestSimulator({ webhookEvents: 'all' });
  receiver = await startReceiver(sim);
  await sim.webhooksTo(receiver.url);
});
after(async () => {
  await receiver.stop();
  await sim.stop();
});
afterEach(() => sim.clearFaults());

const authorise = (object: string, key: string, card = 'pm_card_visa') =>
  sim.provider.authorise({
    key,
    object,
    instrument: { paymentMethod: card },
    returnUrl: 'http://shop.test/',
  });
const typesOf = (object: string) =>
  receiver.deliveries.filter((event) => event.object === object).map((event) => event.type);
const untilTypes = (object: string, ...types: string[]) =>
  until(() => types.every((type) => typesOf(object).includes(type)), types.join(', '));

test('P6: a signed webhook reports each step of a purchase for its payment', async () => {
  const { object } = await openPayment(sim.provider);
  await authorise(object, 'w1', 'pm_card_chargeDeclined');
  await untilTypes(object, 'payment_intent.created', 'payment_intent.payment_failed', 'charge.failed');
  await authorise(object, 'w2', 'pm_card_threeDSecure2Required');
  await untilTypes(object, 'payment_intent.requires_action');
  await authorise(object, 'w3');
  await untilTypes(object, 'payment_intent.amount_capturable_updated', 'charge.succeeded');
  await sim.provider.capture({ key: 'w4', object, amount: 5000 });
  await untilTypes(object, 'payment_intent.succeeded', 'charge.captured');
  await sim.provider.refund({ key: 'w5', object, amount: 1000, reference: 'r' });
  await untilTypes(object, 'charge.refunded', 'refund.created');
  const other = await openPayment(sim.provider);
  await sim.provider.void({ key: 'w6', object: other.object });
  await untilTypes(other.object, 'payment_intent.canceled');
  assert.equal(receiver.forged, 0);
});

test('P6: a replayed answer sends no second event', async () => {
  const { object } = await openPayment(sim.provider);
  await authorise(object, 'replay');
  await authorise(object, 'replay');
  await sim.provider.void({ key: 'replay-void', object });
  await untilTypes(object, 'payment_intent.canceled');
  const ids = receiver.deliveries.filter((event) => event.object === object).map((event) => event.id);
  assert.equal(new Set(ids).size, ids.length);
  assert.equal(
    typesOf(object).filter((type) => type === 'payment_intent.amount_capturable_updated').length,
    1,
  );
});

test('P6: a webhook can come before the answer of the call that caused it', async () => {
  const { object } = await openPayment(sim.provider);
  await sim.fault('delay', { match: { route: 'confirm', intent: object }, delayMs: 3000, times: 1 });
  let answered = false;
  const call = authorise(object, 'hook-first').then(() => {
    answered = true;
  });
  await untilTypes(object, 'payment_intent.amount_capturable_updated');
  assert.equal(answered, false);
  await call;
});

test('P6: webhooks can come several times, with one id', async () => {
  await sim.fault('webhook_duplicate', { match: { event: 'payment_intent.created' }, copies: 3 });
  const { object } = await openPayment(sim.provider);
  await until(() => typesOf(object).length >= 3, 'three deliveries');
  const events = receiver.deliveries.filter((event) => event.object === object);
  assert.deepEqual(new Set(events.map((event) => event.id)).size, 1);
});

test('P6: webhooks can come late and out of order', async () => {
  await sim.fault('webhook_delay', { match: { event: 'payment_intent.created' }, delayMs: 2000 });
  const { object } = await openPayment(sim.provider);
  await authorise(object, 'late');
  await untilTypes(object, 'payment_intent.amount_capturable_updated', 'payment_intent.created');
  assert.equal(typesOf(object).at(-1), 'payment_intent.created');
});

test('P6: webhooks can be held back until they are released', async () => {
  await sim.fault('webhook_hold', {});
  const { object } = await openPayment(sim.provider);
  await authorise(object, 'held');
  await sim.clearFaults();
  const next = await openPayment(sim.provider);
  await untilTypes(next.object, 'payment_intent.created');
  assert.deepEqual(typesOf(object), []);
  assert.ok((await sim.releaseWebhooks()) >= 3);
  await untilTypes(object, 'payment_intent.created', 'payment_intent.amount_capturable_updated');
});

test('P6: a receiver that answers 500 is asked again, also after the simulator was killed', async () => {
  receiver.answer = 500;
  const { object } = await openPayment(sim.provider);
  await until(() => typesOf(object).length >= 2, 'a second try');
  await sim.restart();
  receiver.answer = 200;
  const seen = typesOf(object).length;
  await sim.webhooksTo(receiver.url);
  await until(() => typesOf(object).length > seen, 'a try after the restart');
  const { id } = receiver.deliveries.find((event) => event.object === object)!;
  await untilAccepted(id);
  // Accepted: another restart does not send it again, while a new event comes through.
  await sim.restart();
  const accepted = typesOf(object).length;
  await sim.webhooksTo(receiver.url);
  const next = await openPayment(sim.provider);
  await untilTypes(next.object, 'payment_intent.created');
  assert.equal(typesOf(object).length, accepted);
});

test('P6: by default only what a shop needs is delivered; the rest stays readable', async () => {
  const shop = await startTestSimulator({ webhookUrl: receiver.url });
  try {
    const { object } = await openPayment(shop.provider);
    await shop.provider.authorise({
      key: 'subscribed',
      object,
      instrument: { paymentMethod: 'pm_card_visa' },
      returnUrl: 'http://shop.test/',
    });
    await shop.provider.capture({ key: 'subscribed-capture', object, amount: 5000 });
    await untilTypes(object, 'payment_intent.succeeded', 'payment_intent.amount_capturable_updated');
    assert.equal(typesOf(object).length, 2);
  } finally {
    await shop.stop();
  }
});

test('P6: a webhook can be told to come before the answer, and the answer waits no longer than that', async () => {
  const { object } = await openPayment(sim.provider);
  await sim.fault('webhook_first', { times: 1, match: { route: 'confirm', intent: object } });
  await authorise(object, 'told-first');
  assert.ok(typesOf(object).includes('payment_intent.amount_capturable_updated'));
  // Nothing is to be told: nothing to wait for.
  await sim.fault('webhook_hold', { match: { intent: object } });
  await sim.fault('webhook_first', { times: 1, match: { route: 'capture', intent: object } });
  const start = systemClock.monotonic();
  await sim.provider.capture({ key: 'told-first-capture', object, amount: 5000 });
  // Waiting would take five seconds.
  assert.ok(systemClock.monotonic() - start < 4_500);
  assert.ok(!typesOf(object).includes('payment_intent.succeeded'));
  await sim.clearFaults();
  await sim.releaseWebhooks();
  await untilTypes(object, 'payment_intent.succeeded', 'charge.captured');
});

test('P6: a webhook can be overtaken by the next one about its payment', async () => {
  const { object } = await openPayment(sim.provider);
  await untilTypes(object, 'payment_intent.created');
  await sim.fault('webhook_reorder', { times: 1, match: { intent: object, event: 'charge.succeeded' } });
  await authorise(object, 'overtaken');
  await untilTypes(object, 'payment_intent.amount_capturable_updated', 'charge.succeeded');
  assert.equal(typesOf(object).at(-1), 'charge.succeeded');
  // Nothing overtakes the last one; its time does.
  await sim.fault('webhook_reorder', { times: 1, match: { intent: object }, delayMs: 300 });
  await sim.provider.void({ key: 'overtaken-void', object });
  await untilTypes(object, 'payment_intent.canceled', 'charge.refunded');
});

test('P6: a webhook can be lost for good; the object and the list of events still tell', async () => {
  const { object, reference } = await openPayment(sim.provider);
  await sim.fault('webhook_never', { match: { reference } });
  await authorise(object, 'lost');
  // Its answer waits until everything is on disk, also that nothing is owed.
  await sim.ledger();
  await sim.restart();
  await sim.webhooksTo(receiver.url);
  const next = await openPayment(sim.provider);
  await untilTypes(next.object, 'payment_intent.created');
  assert.ok(!typesOf(object).includes('payment_intent.amount_capturable_updated'));
  const found = await sim.provider.lookup(object);
  assert.equal(found.kind === 'done' && found.view.status, 'authorised');
});

test('P6: webhooks of a provider that is away come when it is back', async () => {
  const { object } = await openPayment(sim.provider);
  await untilTypes(object, 'payment_intent.created');
  await sim.fault('closed', { forMs: 1500, match: { event: 'charge.succeeded' } });
  await authorise(object, 'away');
  await untilTypes(object, 'payment_intent.amount_capturable_updated');
  assert.ok(!typesOf(object).includes('charge.succeeded'));
  await untilTypes(object, 'charge.succeeded');
});
