import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import Stripe from 'stripe';
import { openJournal } from '../../payment-simulator/journal.ts';
import { createState, type JournalRecord } from '../../payment-simulator/state.ts';
import type { PaymentProvider } from '../../src/payments/provider.ts';
import { seededRandom, systemRandom } from '../../src/runtime/random.ts';
import { openPayment, startTestSimulator, type TestSimulator, untilKnown } from '../support/simulator.ts';
import { pause, until } from '../support/wait.ts';

/** The oracle must not lose or half-do anything itself: killed at random moments while requests run. */
const KILLS = 5;
/** So many of them must cut a request off: kills go on until they do. */
const CUT_OFF = 2;
const MOST_KILLS = 40;
/** Orders one after the other, so long as there are kills. */
const LINES = 5;
/** Longest time between something being done and the kill, ms. */
const KILL_WITHIN_MS = 40;

let sim: TestSimulator;
let provider: PaymentProvider;
let stopReceiver: () => Promise<void>;
/** Ids of events that were accepted, with how often. */
const received = new Map<string, number>();

before(async () => {
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const event = provider.parseWebhook(Buffer.concat(chunks), String(req.headers['stripe-signature']));
      if (event) received.set(event.id, (received.get(event.id) ?? 0) + 1);
      res.writeHead(event ? 200 : 400).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  stopReceiver = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  const webhookUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  sim = await startTestSimulator({ webhookUrl, webhookEvents: 'all' });
  provider = sim.providerWith({ timeoutMs: 2000 });
});
after(async () => {
  await sim.stop();
  await stopReceiver();
});

type Answer = { kind: string; detail?: string };
type Step = [name: string, call: () => Promise<Answer>];

/** The steps of an order, by its number; `sums` are the ledger's sums in the end. */
const COURSES: { steps: string[]; sums: number[] }[] = [
  { steps: ['authorise', 'capture'], sums: [0, 5000, 0, 0] },
  { steps: ['authorise', 'void'], sums: [0, 0, 0, 5000] },
  { steps: ['authorise', 'capture', 'refund', 'refund'], sums: [0, 5000, 2400, 0] },
  { steps: ['decline', 'authorise', 'void'], sums: [0, 0, 0, 5000] },
  { steps: ['authorise'], sums: [5000, 0, 0, 0] },
];

function callOf(step: string, key: string, object: string): () => Promise<Answer> {
  const card = step === 'decline' ? 'pm_card_chargeDeclined' : 'pm_card_visa';
  const instrument = { paymentMethod: card };
  const calls: Record<string, () => Promise<Answer>> = {
    authorise: () => provider.authorise({ key, object, instrument, returnUrl: 'http://shop.test/' }),
    decline: () => provider.authorise({ key, object, instrument, returnUrl: 'http://shop.test/' }),
    capture: () => provider.capture({ key, object, amount: 5000 }),
    void: () => provider.void({ key, object }),
    refund: () => provider.refund({ key, object, amount: 1200, reference: key }),
  };
  return calls[step] ?? assert.fail(step);
}

test('D4: killed at random moments while requests run, nothing answered is lost, nothing is half done, no webhook is lost', async () => {
  const seed = systemRandom.int(1_000_000);
  const random = seededRandom(seed);
  const answered: { step: Step; answer: Answer }[] = [];
  let cutOff = 0;
  const counted = async (call: () => Promise<Answer>): Promise<Answer> => {
    const answer = await call();
    if (answer.kind === 'unknown') cutOff += 1;
    return answer;
  };

  const order = async (name: string, steps: string[]): Promise<void> => {
    const { object } = await untilKnown(() => opened(name));
    for (const [at, step] of steps.entries()) {
      const call = callOf(step, `${name}-${at}`, object);
      const answer = await untilKnown(() => counted(call));
      answered.push({ step: [`${name} ${step}`, call], answer });
    }
  };
  let total = 0;
  let killing = true;
  const orders = Promise.all(
    Array.from({ length: LINES }, async () => {
      while (killing) {
        const number = total++;
        await order(`kill-${number}`, COURSES[number % COURSES.length]!.steps);
      }
    }),
  );
  orders.catch(() => undefined);
  for (let kill = 0; kill < KILLS || (cutOff < CUT_OFF && kill < MOST_KILLS); kill++) {
    const seen = answered.length;
    await until(() => answered.length > seen, 'an answer since the last kill');
    await pause(random.int(KILL_WITHIN_MS), 'a random moment for the kill');
    await sim.restart();
  }
  killing = false;
  await orders;
  assert.ok(cutOff >= CUT_OFF, `${cutOff} of ${MOST_KILLS} kills fell into a request`);
  await sim.restart();

  // Each answer that was given is given again: it was remembered.
  for (const { step, answer } of answered) {
    const again = await untilKnown(step[1]);
    assert.deepEqual(withoutRequest(again), withoutRequest(answer), `${step[0]} (seed ${seed})`);
  }
  const ledger = await sim.ledger();
  assert.equal(ledger.intents.length, total, `seed ${seed}`);
  for (let number = 0; number < total; number++) {
    const { intents, charges, refunds } = await sim.ledgerOf(`kill-${number}`);
    const { steps, sums } = COURSES[number % COURSES.length]!;
    const found = intents.map((one) => [one.authorised, one.captured, one.refunded, one.voided]);
    assert.deepEqual(found, [sums], `kill-${number} (seed ${seed})`);
    const paid = charges.filter(({ status }) => status === 'succeeded');
    assert.equal(paid.length, 1, `kill-${number} (seed ${seed})`);
    assert.equal(charges.length, steps.includes('decline') ? 2 : 1);
    assert.equal(refunds.length, steps.filter((step) => step === 'refund').length);
  }
  await checkEvents(seed, total);
});

/** The detail of a refusal names the request, and each has its own. */
function withoutRequest(answer: Answer): Answer {
  return 'detail' in answer ? { ...answer, detail: undefined } : answer;
}

async function opened(name: string): Promise<{ kind: 'opened'; object: string } | { kind: 'unknown' }> {
  const answer = await provider.open({
    key: `${name}-open`,
    reference: name,
    eventId: 'event-1',
    amount: 5000,
    currency: 'EUR',
    description: '',
    email: '',
  });
  if (answer.kind === 'unknown') return { kind: 'unknown' };
  return answer.kind === 'done' ? { kind: 'opened', object: answer.view.object } : assert.fail(answer.kind);
}

/** Every event of the ledger came at least once, and nothing came that the ledger does not know. */
async function checkEvents(seed: number, orders: number): Promise<void> {
  const { hostname, port } = new URL(sim.url);
  const stripe = new Stripe(sim.secretKey, { host: hostname, port, protocol: 'http', telemetry: false });
  const events = new Set<string>();
  for await (const event of stripe.events.list({ limit: 100 })) events.add(event.id);
  assert.ok(events.size > orders);
  const owed = () => [...events].filter((id) => !received.has(id));
  await until(
    () => owed().length === 0,
    () => `${owed().length} webhooks (seed ${seed})`,
  );
  const unknown = [...received.keys()].filter((id) => !events.has(id));
  assert.deepEqual(unknown, [], `webhooks told what a crash took back (seed ${seed})`);
}

test('D4: wherever a crash cuts the journal, what stands before the cut line is whole, and it goes on from there', async (t) => {
  await sim.kill();
  const bytes = await readFile(join(sim.dataDir, 'ledger.jsonl'));
  await sim.restart();
  const directory = await mkdtemp(join(tmpdir(), 'onsale-journal-'));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const path = join(directory, 'ledger.jsonl');
  const seed = systemRandom.int(1_000_000);
  const random = seededRandom(seed);

  const read = async (content: Uint8Array): Promise<{ records: number; tables: unknown }> => {
    await writeFile(path, content);
    const state = createState();
    let records = 0;
    const journal = await openJournal<JournalRecord>(path, (record) => {
      state.replay(record);
      records += 1;
    });
    await journal.append({ delivered: [] });
    await journal.close();
    const tables = Object.entries(state.tables).map(([name, rows]) => [name, [...rows.values()]]);
    return { records, tables };
  };
  // Some lines after the first, and some ends of each: within, before and after its line feed.
  const ends = [...bytes.keys()].filter((at) => bytes[at] === 0x0a).slice(0, 15);
  assert.equal(ends.length, 15);
  for (let i = 10; i < ends.length; i++) {
    const [from, to] = [ends[i - 1]! + 1, ends[i]!];
    const whole = await read(bytes.subarray(0, from));
    for (const cut of [from + 1, from + 1 + random.int(to - from), to - 1, to]) {
      assert.deepEqual(await read(bytes.subarray(0, cut)), whole, `cut at ${cut} (seed ${seed})`);
      const lines = (await readFile(path, 'utf8')).trimEnd().split('\n');
      assert.equal(lines.at(-1), '{"delivered":[]}');
      assert.equal(lines.length, whole.records + 1);
    }
    assert.equal((await read(bytes.subarray(0, to + 1))).records, whole.records + 1);
  }
});

test('D4: texts with line ends of other alphabets survive a restart', async () => {
  const description = 'Row 1\u2028Row 2\u2029Row 3\u0085Row 4\rRow 5\nRow 6';
  const { object, reference } = await openPayment(provider, { description });
  await sim.restart();
  assert.equal((await sim.ledgerOf(reference)).intents[0]?.id, object);
});
