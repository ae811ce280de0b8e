import assert from 'node:assert/strict';
import { appendFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { cardByName, passesLuhn, TEST_CARDS } from '../../payment-simulator/cards.ts';
import { createFaults, parseFault } from '../../payment-simulator/faults.ts';
import { list, parseForm, subtree, text } from '../../payment-simulator/form.ts';
import { openJournal } from '../../payment-simulator/journal.ts';
import { createState } from '../../payment-simulator/state.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { seededRandom } from '../../src/runtime/random.ts';

test('form bodies nest by brackets', () => {
  const form = parseForm(
    'amount=5000&card[number]=4242&card[networks][preferred]=visa&expand[]=a&expand[]=b&list[0]=x&list[1]=y',
  );
  assert.ok(form);
  assert.equal(text(form, 'amount'), '5000');
  assert.equal(text(subtree(form, 'card')!, 'number'), '4242');
  assert.equal(text(subtree(subtree(form, 'card')!, 'networks')!, 'preferred'), 'visa');
  assert.deepEqual(list(form, 'expand'), ['a', 'b']);
  assert.deepEqual(list(form, 'list'), ['x', 'y']);
});

test('hostile form bodies are refused or harmless', () => {
  assert.equal(parseForm('a=1&a[b]=2'), null, 'both a value and a tree');
  assert.equal(parseForm('a[b]=2&a=1'), null);
  assert.equal(parseForm(`a${'[x]'.repeat(50)}=1`), null, 'too deep');
  assert.equal(parseForm('a[=1'), null);
  assert.equal(parseForm('[a]=1'), null);
  const form = parseForm('__proto__[polluted]=1&constructor=2');
  assert.ok(form);
  assert.equal(({} as Record<string, unknown>).polluted, undefined);
  assert.equal(text(form, 'constructor'), '2');
});

test('every test card is a valid number under one name', () => {
  assert.equal(new Set(TEST_CARDS.map((card) => card.name)).size, TEST_CARDS.length);
  assert.equal(new Set(TEST_CARDS.map((card) => card.number)).size, TEST_CARDS.length);
  for (const card of TEST_CARDS) {
    assert.ok(passesLuhn(card.number), card.name);
    assert.equal(cardByName(card.name), card);
  }
  assert.equal(passesLuhn('4242424242424241'), false);
  assert.equal(passesLuhn(''), false);
  assert.equal(passesLuhn('0'), false);
});

async function directory(t: { after(f: () => Promise<void>): void }): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'onsale-journal-'));
  t.after(() => rm(path, { recursive: true, force: true }));
  return path;
}

test('D4: the journal forgets a line that a crash cut short, and nothing else', async (t) => {
  const path = join(await directory(t), 'ledger.jsonl');
  const first = await openJournal<number>(path, () => assert.fail('it is new'));
  await Promise.all([1, 2, 3].map((n) => first.append(n)));
  await first.close();
  for (const torn of ['{"puts":[', '4', '\u0000\u0000']) {
    await appendFile(path, torn);
    const seen: number[] = [];
    const again = await openJournal<number>(path, (n) => seen.push(n));
    await again.close();
    assert.deepEqual(seen, [1, 2, 3], torn);
    assert.equal(await readFile(path, 'utf8'), '1\n2\n3\n');
  }
  const more = await openJournal<number>(path, () => undefined);
  await more.append(4);
  await more.close();
  assert.equal(await readFile(path, 'utf8'), '1\n2\n3\n4\n');
});

test('D4: a journal that is broken in its middle is not opened', async (t) => {
  const path = join(await directory(t), 'ledger.jsonl');
  await writeFile(path, '1\nbroken{\n3\n');
  await assert.rejects(
    openJournal(path, () => undefined),
    /broken line at byte 2/,
  );
});

const SUBJECT = {
  route: 'payment_intents.capture',
  card: 'visa',
  key: 'k',
  intent: 'pi_1',
  reference: 'o1',
  event: undefined,
};

function faultsOf(...given: unknown[]) {
  const signal = new AbortController().signal;
  const faults = createFaults({ clock: systemClock, random: seededRandom(7), signal });
  for (const one of given) {
    const fault = parseFault(one);
    assert.ok(typeof fault === 'object', String(fault));
    faults.add(fault);
  }
  return faults;
}

test('a fault strikes what it matches and nothing else', async () => {
  const strikes = async (match: unknown) =>
    (await faultsOf({ fault: 'drop_after', match }).strike('request', SUBJECT).leave()) === 'drop';
  for (const match of [
    undefined,
    {},
    { route: 'payment_intents.capture' },
    { route: 'capture' },
    { card: 'pm_card_visa' },
    { card: 'visa', key: 'k', intent: 'pi_1', reference: 'o1' },
  ]) {
    assert.equal(await strikes(match), true, JSON.stringify(match));
  }
  for (const match of [
    { route: 'confirm' },
    { route: 'ture' },
    { card: 'amex' },
    { key: 'other' },
    { card: 'visa', reference: 'o2' },
    { event: 'charge.succeeded' },
  ]) {
    assert.equal(await strikes(match), false, JSON.stringify(match));
  }
});

test('a fault strikes as often, or at the rate, that it was switched on for', async () => {
  const twice = faultsOf({ fault: 'rate_limit', times: 2 });
  const verdicts = [];
  for (let i = 0; i < 3; i++) verdicts.push(await twice.strike('request', SUBJECT).arrive());
  assert.deepEqual(verdicts, ['rate_limit', 'rate_limit', null]);
  assert.equal(twice.list().length, 0);

  const often = faultsOf({ fault: 'rate_limit', rate: 0.25 });
  let struck = 0;
  for (let i = 0; i < 2000; i++) if (await often.strike('request', SUBJECT).arrive()) struck++;
  assert.ok(struck > 400 && struck < 600, `${struck} of 2000`);
});

test('a fault strikes only what its kind is about', () => {
  const capture = { fault: 'capture_refused', times: 1 };
  const confirm = { ...SUBJECT, route: 'payment_intents.confirm' };
  const faults = faultsOf(capture, { fault: 'hold_short', delayMs: 1500 }, { fault: 'webhook_never' });
  assert.deepEqual(faults.strike('request', confirm).manner(), { holdMs: 1500 });
  assert.deepEqual(faults.strike('request', SUBJECT).manner(), { capture: 'refused' });
  assert.deepEqual(faults.strike('request', SUBJECT).manner(), {}, 'once');
  assert.equal(faults.strike('request', SUBJECT).delivery().never, false);
  assert.equal(faults.strike('webhook', SUBJECT).delivery().never, true);
  assert.deepEqual(faults.struck(), { capture_refused: 1, hold_short: 1, webhook_never: 1 });
});

test('a switch that cannot be understood is refused with a sentence', () => {
  for (const wrong of [
    null,
    'x',
    {},
    { fault: 'toString' },
    { fault: 'explode' },
    { fault: 'delay', delayMs: -1 },
    { fault: 'delay', times: 0 },
    { fault: 'delay', rate: 2 },
    { fault: 'closed', forMs: 0 },
    { fault: 'delay', match: { colour: 'red' } },
    { fault: 'delay', match: { key: 5 } },
    { fault: 'delay', colour: 'red' },
  ]) {
    assert.equal(typeof parseFault(wrong), 'string', JSON.stringify(wrong));
  }
});

test('the simulator’s memory holds a bounded number of events, and every one that is not delivered', () => {
  const state = createState(10);
  const put = (id: number, delivered: boolean) =>
    state.put('events', {
      id: `evt_${id}`,
      created: id,
      type: 'charge.succeeded',
      intent: null,
      object: {},
      requestId: null,
      key: null,
      delivered,
    });
  for (let id = 0; id < 100; id++) put(id, id % 25 !== 0);
  const kept = [...state.tables.events.keys()];
  assert.equal(kept.length, 10);
  for (const id of [0, 25, 50, 75, 99]) assert.ok(kept.includes(`evt_${id}`), `evt_${id}`);
  state.replay({ delivered: ['evt_0', 'evt_25'] });
  // Earlier delivered ones are dropped first.
  for (let id = 100; id < 108; id++) put(id, true);
  assert.equal(state.tables.events.size, 10);
  assert.ok(!state.tables.events.has('evt_0'));
  assert.ok(!state.tables.events.has('evt_25'));
  assert.ok(state.tables.events.has('evt_50'));
});
