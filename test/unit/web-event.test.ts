import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { phases } from '../../src/core/phase.ts';
import { timeWords } from '../../src/fulfilment/words.ts';
import type { EventObject } from '../../src/http/api-types.ts';
import { rangeFor } from '../../web/buyer/price-range.ts';
import { inOrder, wayTo } from '../../web/events/listed.ts';
import { createAnnouncer } from '../../web/shared/live.tsx';
import * as format from '../../web/shared/texts/format.ts';

/** An hour and its zone stay on one line; the words are the same. */
const spaced = (text: string) => text.replaceAll('\u00a0', ' ');
const eventTime = (at: number | string, zone: string) => spaced(format.eventTime(at, zone));
const shortEventTime = (at: number | string, zone: string) => spaced(format.shortEventTime(at, zone));

test('pages say when an event is by the venue’s clock, word for word as its mail and its ticket do', () => {
  const at = Date.parse('2026-12-05T18:30:00Z');
  assert.equal(eventTime(at, 'Europe/Berlin'), 'Saturday, 5 December 2026, 19:30 CET');
  assert.equal(shortEventTime('2026-12-05T23:30:00Z', 'Europe/Berlin'), '6 Dec 2026, 00:30 CET');
  assert.equal(shortEventTime('2026-07-05T18:30:00Z', 'Europe/Berlin'), '5 Jul 2026, 20:30 CEST');
  const zones = ['Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Pacific/Chatham', 'UTC'];
  fc.assert(
    fc.property(
      fc.integer({ min: Date.parse('2020-01-01'), max: Date.parse('2060-01-01') }),
      fc.constantFrom(...zones),
      (instant, zone) => assert.equal(eventTime(instant, zone), timeWords(instant, zone)),
    ),
  );
});

test('a zone that the browser does not know is no reason to show no time: its own, named', () => {
  assert.match(
    eventTime('2026-12-05T18:30:00Z', 'Europe/Not_Yet_Made'),
    /December 2026, \d\d:\d\d (UTC|GMT|[A-Z]+)/,
  );
});

test('the list of events offers tickets only where there are some to get, and puts what is over last', () => {
  const events = phases.map((phase) => ({ phase, name: 'The Show' }));
  const offering = events.filter((event) => wayTo(event).primary).map(({ phase }) => phase);
  assert.deepEqual(offering, ['scheduled', 'pre_queue', 'open', 'paused']);
  for (const event of events) {
    const { label, primary } = wayTo(event);
    assert.match(label, /The Show/, 'each link says by itself where it leads');
    if (!primary) assert.doesNotMatch(label, /^Get tickets/);
  }
  assert.equal(wayTo({ phase: 'cancelled', name: 'The Show' }).label, 'See what happened to The Show');
  const order = inOrder([
    { phase: 'cancelled' },
    { phase: 'open' },
    { phase: 'closed' },
    { phase: 'sold_out' },
  ]);
  assert.deepEqual(
    order.map(({ phase }) => phase),
    ['open', 'sold_out', 'cancelled', 'closed'],
  );
});

test('a spoken sentence goes after a few seconds, or with its view, and never takes a later one along', () => {
  let timers: { run: () => void; ms: number }[] = [];
  const { spoken, announce, hush } = createAnnouncer((run, ms) => {
    const timer = { run, ms };
    timers.push(timer);
    return () => {
      timers = timers.filter((one) => one !== timer);
    };
  });
  announce('Ahead of you: 3 people.');
  announce('You are next.');
  assert.equal(spoken.get().text, 'You are next.');
  assert.equal(timers.length, 1, 'the time of the first sentence does not end the second');
  assert.ok(timers[0]!.ms >= 3_000 && timers[0]!.ms <= 10_000);
  timers[0]!.run();
  assert.equal(spoken.get().text, '');
  announce('Removed.');
  const before = spoken.get().text;
  announce('Removed.');
  assert.notEqual(spoken.get().text, before, 'announced again, it is read again');
  hush();
  assert.equal(spoken.get().text, '');
  assert.equal(timers.length, 0);
});

test('prices reach from the cheapest to the dearest that this buyer’s code opens and that are left', () => {
  const event = {
    currency: 'EUR',
    prices: [
      { category: 'A', price: 5_000, fee: 50, kinds: { reduced: 3_000, members: 100 } },
      { category: 'B', price: 20_000, fee: 50, locked: true },
      { category: 'C', price: 30_000, fee: 50, locked: true },
    ],
    kinds: [
      { id: 'reduced', name: 'Reduced', conditions: '' },
      { id: 'members', name: 'Members', conditions: '', locked: true },
    ],
  } as unknown as EventObject;
  const shared = { min: 3_050, max: 5_050, currency: 'EUR' };
  const left = { A: 10, B: 10, C: 10 };
  const range = (
    code: { categories: string[]; kinds: string[] } | null,
    counts: typeof left | null = left,
  ) => {
    const found = rangeFor(event, shared, code, counts);
    return found && [found.min, found.max];
  };
  assert.deepEqual(range(null), [3_050, 5_050]);
  assert.deepEqual(
    range({ categories: ['B'], kinds: [] }, null),
    [3_050, 5_050],
    'until the counts are there',
  );
  assert.deepEqual(range({ categories: ['B'], kinds: [] }), [3_050, 20_050]);
  assert.deepEqual(range({ categories: [], kinds: ['members'] }), [150, 5_050]);
  assert.deepEqual(
    range({ categories: ['B'], kinds: [] }, { ...left, B: 0 }),
    [3_050, 5_050],
    'none of it left',
  );
  assert.deepEqual(range({ categories: ['B'], kinds: [] }, { A: 0, B: 1, C: 1 }), [20_050, 20_050]);
  assert.deepEqual(range({ categories: [], kinds: [] }, { A: 0, B: 1, C: 1 }), [3_050, 5_050]);
});
