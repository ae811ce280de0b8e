import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { PaymentProvider } from '../../src/payments/provider.ts';
import { programArguments } from '../support/program.ts';
import { openPayment, startTestSimulator, type TestSimulator, untilKnown } from '../support/simulator.ts';

let sim: TestSimulator;
let provider: PaymentProvider;
before(async () => {
  sim = await startTestSimulator();
  provider = sim.providerWith({ timeoutMs: 1000 });
});
after(() => sim.stop());

function authoriser(object: string, key: string) {
  return () =>
    provider.authorise({
      key,
      object,
      instrument: { paymentMethod: 'pm_card_visa' },
      returnUrl: 'http://shop.test/',
    });
}

test('D4: after kill -9 the ledger, the keys and the waiting bank are as they were', async () => {
  const { object, reference } = await openPayment(provider);
  const authorise = authoriser(object, 'kill-1');
  const first = await authorise();
  assert.equal(first.kind, 'done');
  const waiting = await openPayment(provider);
  const asked = await provider.authorise({
    key: 'kill-2',
    object: waiting.object,
    instrument: { paymentMethod: 'pm_card_threeDSecure2Required' },
    returnUrl: 'http://shop.test/',
  });
  assert.ok(asked.kind === 'pending');
  const before = await sim.ledger();

  await sim.restart();
  assert.deepEqual(await sim.ledger(), before);
  assert.deepEqual(await authorise(), first, 'the key is remembered');
  await sim.answerBank(asked.view.action!.url, 'authorise');
  assert.equal((await provider.capture({ key: 'kill-3', object, amount: 5000 })).kind, 'done');

  await sim.restart();
  const { intents } = await sim.ledger();
  const statusOf = (of: string) => intents.find((intent) => intent.reference === of)?.status;
  assert.deepEqual([statusOf(reference), statusOf(waiting.reference)], ['succeeded', 'requires_capture']);
});

test('D4: killed at random moments of 30 purchases, each acknowledged step is in the ledger, each charge once', async () => {
  const acknowledged: string[] = [];
  const purchase = async (name: string): Promise<void> => {
    const open = () =>
      provider.open({
        key: `${name}-open`,
        reference: name,
        eventId: 'event-1',
        amount: 5000,
        currency: 'EUR',
        description: '',
        email: '',
      });
    const opened = await untilKnown(open, 60_000);
    assert.ok(opened.kind === 'done');
    const object = opened.view.object;
    const held = await untilKnown(authoriser(object, `${name}-authorise`), 60_000);
    assert.equal(held.kind, 'done');
    const taken = await untilKnown(
      () => provider.capture({ key: `${name}-capture`, object, amount: 5000 }),
      60_000,
    );
    assert.equal(taken.kind, 'done');
    acknowledged.push(name);
  };
  const purchases = Promise.all(
    Array.from({ length: 6 }, async (_, line) => {
      for (let i = 0; i < 5; i++) await purchase(`random-${line}-${i}`);
    }),
  );
  // Each restart waits until something more was acknowledged, so that kills fall into the middle of the work.
  for (let kills = 0; kills < 3; kills++) {
    const seen = acknowledged.length;
    while (acknowledged.length < Math.min(seen + 4, 30))
      await new Promise((resolve) => setTimeout(resolve, 1));
    await sim.restart();
  }
  await purchases;

  const { intents, charges } = await sim.ledger();
  assert.equal(acknowledged.length, 30);
  for (const name of acknowledged) {
    const of = intents.filter((intent) => intent.reference === name);
    assert.deepEqual(
      of.map((intent) => [intent.status, intent.captured]),
      [['succeeded', 5000]],
      name,
    );
    assert.equal(charges.filter((charge) => charge.reference === name).length, 1, name);
  }
});

test('D4: a line that was cut short by the crash is forgotten, the rest stands', async () => {
  const before = await sim.ledger();
  await sim.kill();
  await appendFile(join(sim.dataDir, 'ledger.jsonl'), '{"puts":[{"table":"intents","row":{"id":"pi_to');
  await sim.restart();
  assert.deepEqual(await sim.ledger(), before);
  await openPayment(provider, { reference: 'after-the-tear' });
  await sim.restart();
  assert.ok((await sim.ledger()).intents.some((intent) => intent.reference === 'after-the-tear'));
});

test('no card number is in the ledger file or in any answer', async () => {
  const token = await sim.confirmationToken('4000000000009995');
  const { object } = await openPayment(provider);
  await provider.authorise({
    key: 'number',
    object,
    instrument: { confirmationToken: token },
    returnUrl: 'http://shop.test/',
  });
  const file = await readFile(join(sim.dataDir, 'ledger.jsonl'), 'utf8');
  assert.ok(file.includes('chargeDeclinedInsufficientFunds'));
  assert.ok(!file.includes('4000000000009995'));
  assert.ok(!JSON.stringify(await sim.ledger()).includes('4000000000009995'));
});

test('the simulator ends when its standard input closes, so it never outlives its parent', async () => {
  const directory = join(sim.dataDir, 'second');
  const child = spawn(
    process.execPath,
    [...programArguments('src/payments/simulator/main.ts'), '--data-dir', directory],
    {
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  );
  const [line] = await once(child.stdout, 'data');
  const ready = JSON.parse(String(line));
  assert.deepEqual([ready.ready, typeof ready.port], [true, 'number']);
  const gone = once(child, 'exit');
  child.stdin.end();
  assert.deepEqual(await gone, [0, null]);
});
