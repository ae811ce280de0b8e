import assert from 'node:assert/strict';
import { test } from 'node:test';
import { claimPatienceMs, createArbiterTime } from '../../src/booking/arbiter-time.ts';
import type { Hold } from '../../src/core/hold.ts';

function stage() {
  const clocks = { ours: 1_000, arbiters: 1_700_000_000_000 };
  const time = createArbiterTime({ clock: { monotonic: () => clocks.ours } });
  const pass = (ms: number): void => {
    clocks.ours += ms;
    clocks.arbiters += ms;
  };
  /** A claim as the arbiter judges it: in time or too late. */
  const claim = (replaces: string | null = null, grantedAt = clocks.arbiters): 'granted' | 'too_late' => {
    const notAfter = time.in(claimPatienceMs);
    if (notAfter !== null && notAfter < clocks.arbiters) {
      time.seen({ replaces }, { kind: 'too_late' });
      return 'too_late';
    }
    time.seen({ replaces }, { kind: 'granted', hold: { grantedAt } as Hold, repeated: false });
    return 'granted';
  };
  return { clocks, time, pass, claim };
}

test('a hold that goes on with an older lease says nothing about the present', () => {
  const { pass, claim, clocks } = stage();
  const first = clocks.arbiters;
  assert.equal(claim(), 'granted');
  pass(60_000);
  assert.equal(claim('the first hold', first), 'granted');
  assert.equal(claim(), 'granted');
});

test('when the clock of the arbiter leaps, one claim is refused and the next ones are not', () => {
  for (const leap of [3_600_000, -3_600_000]) {
    const { clocks, claim, time } = stage();
    claim();
    clocks.arbiters += leap;
    claim();
    assert.equal(claim(), 'granted');
    claim();
    assert.equal(time.in(0), clocks.arbiters, 'the new time is known');
  }
});
