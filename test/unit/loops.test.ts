import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type Clock, systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { createLoops } from '../../src/runtime/loops.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { until } from '../support/app.ts';
import { testLoops } from '../support/loops.ts';
import { pause } from '../support/wait.ts';

const healthOf = (loops: ReturnType<typeof testLoops>) => loops.health()[0]!;

/** Sleeps end at once; their lengths are kept. */
function hurriedClock(): { clock: Clock; slept: number[] } {
  const slept: number[] = [];
  const sleep = async (ms: number): Promise<void> => {
    slept.push(ms);
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { clock: { ...systemClock, sleep }, slept };
}

test('a loop that fails is repeated with growing pauses, says so, and recovers', async (t) => {
  const { clock, slept } = hurriedClock();
  const loops = createLoops({ clock, random: systemRandom, log: silentLogger });
  t.after(() => loops.stop());
  let turns = 0;
  let ok: () => void = () => {};
  const released = new Promise<void>((resolve) => {
    ok = resolve;
  });
  loops.run({
    name: 'try in vain',
    everyMs: 1_000,
    // One throws before its first wait, the others reject.
    turn: () => {
      turns += 1;
      if (turns === 1) throw new Error('at once');
      return turns < 7 ? Promise.reject(new Error('as meant')) : released;
    },
  });
  await until(async () => turns === 7, 'seven turns');
  const failing = healthOf(loops);
  assert.deepEqual(
    [failing.state, failing.failures, failing.error, failing.lastSuccessAt],
    ['failing', 6, 'as meant', null],
  );
  assert.ok(failing.since !== null && failing.since <= Date.now());
  for (const [index, most] of [1_000, 2_000, 4_000, 5_000, 5_000, 5_000].entries()) {
    const pause = slept[index]!;
    assert.ok(pause >= most / 2 && pause <= most, `pause ${index} took ${pause} ms, at most ${most}`);
  }
  ok();
  await until(async () => healthOf(loops).state === 'ok', 'the recovery');
  const { since, failures, error, lastSuccessAt } = healthOf(loops);
  assert.deepEqual([since, failures, error], [null, 0, null]);
  assert.ok(lastSuccessAt !== null);
});

test('a turn that hangs is reported and aborted; if it does not end, the loop goes on without it', async (t) => {
  const loops = testLoops();
  const signals: AbortSignal[] = [];
  let letGo: () => void = () => {};
  const never = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  t.after(async () => {
    letGo();
    await loops.stop();
  });
  loops.run({
    name: 'hang',
    everyMs: 10,
    lateAfterMs: 30,
    turn: (signal) => {
      signals.push(signal);
      return never;
    },
  });
  await until(async () => healthOf(loops).state === 'hung', 'the report');
  assert.ok(signals[0]!.aborted);
  assert.match(healthOf(loops).error ?? '', /no end after 30 ms/);
  await until(async () => signals.length === 4, 'three turns to be given up');
  await until(async () => signals[3]!.aborted, 'the fourth to be late');
  await pause(150, 'that nothing happens can only be seen over a time');
  assert.equal(signals.length, 4, 'no more than three are given up');
  letGo();
  await until(async () => healthOf(loops).state === 'ok', 'the recovery');
});

test('a loop never overlaps itself, misses no wake, and stops after its turn', async (t) => {
  const loops = testLoops();
  t.after(() => loops.stop());
  let begun = 0;
  let ended = 0;
  let letGo: () => void = () => {};
  const loop = loops.run({
    name: 'count',
    everyMs: 60_000,
    turn: async () => {
      assert.equal(begun, ended, 'two at once');
      begun += 1;
      await new Promise<void>((resolve) => {
        letGo = resolve;
      });
      ended += 1;
    },
  });
  await until(async () => begun === 1, 'the first turn');
  loop.wake();
  letGo();
  await until(async () => begun === 2, 'the turn that was asked for meanwhile');
  letGo();
  await until(async () => ended === 2, 'its end');
  loop.wake();
  await until(async () => begun === 3, 'the turn that was asked for during the pause');
  const stopped = loop.stop();
  letGo();
  await stopped;
  assert.deepEqual([begun, ended, loops.health()], [3, 3, []]);
});

test('rounds leave nothing behind: the heap does not grow with them', async () => {
  setFlagsFromString('--expose_gc');
  const collect = runInNewContext('gc') as () => void;
  const { clock, slept } = hurriedClock();
  const loops = createLoops({ clock, random: systemRandom, log: silentLogger });
  let rounds = 0;
  loops.run({
    name: 'go round',
    everyMs: 1,
    turn: async () => {
      rounds += 1;
      slept.length = 0;
    },
  });
  const heapAfter = async (count: number): Promise<number> => {
    await until(async () => rounds >= count, `${count} rounds`);
    collect();
    return process.memoryUsage().heapUsed;
  };
  const before = await heapAfter(10_000);
  const after = await heapAfter(50_000);
  await loops.stop();
  assert.ok(after - before < 700_000, `${after - before} bytes after 40,000 rounds`);
});
