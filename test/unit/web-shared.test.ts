import assert from 'node:assert/strict';
import { test } from 'node:test';
import { phases } from '../../src/core/phase.ts';
import { minorOf } from '../../web/console/fields.tsx';
import { isNewer } from '../../web/shared/api.ts';
import { createServerClock, lookAgainMs } from '../../web/shared/clock.ts';
import { createAttempts, createKeep } from '../../web/shared/storage.ts';
import { clockFace, money, plural } from '../../web/shared/texts/format.ts';
import { texts } from '../../web/shared/texts/texts.ts';

test('the server’s clock: a stale sample does not set it back, and a wrong device clock does not matter', () => {
  let device = 1_000_000;
  const clock = createServerClock(() => device);
  clock.sample(5_000_000);
  device += 10_000;
  assert.equal(clock.now(), 5_010_000);
  clock.sample(5_008_000);
  assert.equal(clock.now(), 5_010_000, 'an object that is 2 s old says nothing new');
  device += 3_600_000;
  clock.forget();
  clock.sample(5_020_000);
  assert.equal(clock.now(), 5_020_000, 'after sleep only fresh samples count');
});

test('P1: one key an attempt: the same wish again has the same key until it is settled, another wish has its own', () => {
  let made = 0;
  const attempts = createAttempts(null, () => `key-${++made}`);
  const first = attempts.key('hold', { seats: [1, 2] });
  assert.equal(attempts.key('hold', { seats: [1, 2] }), first);
  assert.notEqual(attempts.key('hold', { seats: [1, 3] }), first);
  const again = attempts.key('hold', { seats: [1, 3] });
  attempts.settled('hold');
  assert.notEqual(attempts.key('hold', { seats: [1, 3] }), again);
});

test('facts live in memory when storage is refused', () => {
  const refusing = {
    getItem: () => {
      throw new Error('refused');
    },
    setItem: () => {
      throw new Error('refused');
    },
    removeItem: () => {
      throw new Error('refused');
    },
  } as unknown as Storage;
  const keep = createKeep('show', refusing);
  keep.write('place', { number: 7 });
  assert.deepEqual(keep.read('place'), { number: 7 });
  keep.drop('place');
  assert.equal(keep.read('place'), null);
});

test('versions are (term, count): a new leader’s first object is newer than the old one’s last', () => {
  assert.ok(isNewer([2, 1], [1, 900]));
  assert.ok(!isNewer([1, 901], [2, 1]));
  assert.ok(!isNewer([2, 1], [2, 1]));
  assert.ok(isNewer([1, 1], null));
});

test('money by the currency’s own decimals, both ways', () => {
  assert.equal(money(14900, 'EUR'), '€149.00');
  assert.equal(money(14900, 'JPY'), '¥14,900');
  assert.equal(minorOf('49', 'EUR'), 4900);
  assert.equal(minorOf('49,5', 'EUR'), 4950);
  assert.equal(minorOf('49.00', 'EUR'), 4900);
  assert.equal(minorOf('4900', 'JPY'), 4900);
  assert.equal(minorOf('1.234', 'KWD'), 1234);
  for (const wrong of ['', '-1', '4.999', 'free', '1.2.3']) assert.equal(minorOf(wrong, 'EUR'), null, wrong);
});

test('countdowns and plurals', () => {
  assert.equal(clockFace(600_000), '10:00');
  assert.equal(clockFace(59_001), '1:00');
  assert.equal(clockFace(-5), '0:00');
  assert.equal(clockFace(3_909_000), '1:05:09');
  assert.equal(plural(1, { one: '# seat', other: '# seats' }), '1 seat');
  assert.equal(plural(1200, { one: '# seat', other: '# seats' }), '1,200 seats');
});

test('a page looks at a payment more rarely the longer it takes, and never sooner than the server wants', () => {
  const gaps = [1, 2, 3, 4, 5, 6, 50].map((looks) => Math.round(lookAgainMs(looks) / 1000));
  assert.deepEqual(gaps, [2, 3, 4, 5, 8, 10, 10]);
  assert.equal(lookAgainMs(1, 8_000), 8_000);
});

test('every phase and every way an order ends has its words, and whatever charged nothing says so', () => {
  for (const phase of phases) assert.ok(texts.phases[phase]);
  const paidBefore = ['event_cancelled', 'refunded'];
  for (const [end, text] of Object.entries(texts.order.ends)) {
    if (!paidBefore.includes(end)) assert.match(text, /Nothing was (charged|taken)/, end);
  }
});
