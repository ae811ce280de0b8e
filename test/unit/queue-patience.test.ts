import assert from 'node:assert/strict';
import test from 'node:test';
import { createQueuePatience } from '../../src/waiting-room/queue-patience.ts';

test('W1: a Redis that fails again is tried at once, then after twice as long each time up to a minute; health makes up for it', () => {
  let now = 0;
  const patience = createQueuePatience({ clock: { monotonic: () => now } });
  /** Milliseconds until it is tried again. */
  const waitAfterFailure = (): number => {
    patience.failed('1:0');
    const failedAt = now;
    while (!patience.due('1:0')) now += 100;
    return now - failedAt;
  };
  assert.equal(patience.due('1:0'), true);
  const waits = Array.from({ length: 8 }, waitAfterFailure);
  assert.deepEqual(waits, [0, 2_500, 5_000, 10_000, 20_000, 40_000, 60_000, 60_000]);
  patience.failed('1:0');
  assert.equal(patience.due('2:0'), true, 'each shard for itself');

  patience.succeeded('1:0');
  now += 8 * 60_000;
  assert.deepEqual([waitAfterFailure(), waitAfterFailure()], [2_500, 5_000], 'eight of nine are forgiven');
  patience.succeeded('1:0');
  now += 60 * 60_000;
  assert.equal(waitAfterFailure(), 0);
});

test('W1: a complaint about a shard is news once, until it changes or is settled', () => {
  const patience = createQueuePatience({ clock: { monotonic: () => 0 } });
  const said = ['full', 'full', 'clock', 'full', null, null, 'full'].map((complaint) =>
    patience.isNews('1:0', complaint),
  );
  assert.deepEqual(said, [true, false, true, true, true, false, true]);
});
