import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { PaymentProvider } from '../../src/payments/provider.ts';
import { programArguments } from '../support/program.ts';
import { openPayment, startTestSimulator, type TestSimulator } from '../support/simulator.ts';

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
    [...programArguments('payment-simulator/main.ts'), '--data-dir', directory],
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
