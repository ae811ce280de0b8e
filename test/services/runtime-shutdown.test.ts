import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import type { Clock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { createShutdown, secondSignalAfterMs } from '../../src/runtime/shutdown.ts';
import { storedSecret } from '../../src/runtime/stored-secret.ts';

/** Time does not move until a test moves it; a sleep ends only when `wake` is called. */
function handClock(): Clock & { move(ms: number): void; wake: () => void } {
  let now = 0;
  const clock = {
    now: () => now,
    monotonic: () => now,
    sleep: (_ms: number, signal?: AbortSignal) =>
      new Promise<void>((resolve, reject) => {
        clock.wake = resolve;
        signal?.addEventListener('abort', () => reject(signal.reason));
      }),
    after: () => () => {},
    move: (ms: number) => {
      now += ms;
    },
    wake: () => {},
  };
  return clock;
}

test('closers run last opened first, each once, and a broken one does not keep the others open', async () => {
  const order: string[] = [];
  const shutdown = createShutdown({ clock: handClock(), log: silentLogger, signals: new EventEmitter() });
  shutdown.add('database', () => void order.push('database'));
  shutdown.add('broken', () => {
    throw new Error('no');
  });
  const remove = shutdown.add('removed', () => void order.push('removed'));
  shutdown.add('web', async () => void order.push('web'));
  remove();
  assert.equal(shutdown.requested.aborted, false);
  const [first, second] = await Promise.all([shutdown.stop('test'), shutdown.stop('again')]);
  assert.deepEqual(first, { kind: 'closed', failed: ['broken'] });
  assert.equal(first, second);
  assert.equal(await shutdown.ended, first);
  assert.equal(shutdown.requested.aborted, true);
  assert.deepEqual(order, ['web', 'database']);
});

test('a second signal forces the end; one that comes at once is the same Ctrl-C sent twice', async () => {
  const clock = handClock();
  const signals = new EventEmitter();
  const shutdown = createShutdown({ clock, log: silentLogger, signals });
  shutdown.add('never', () => new Promise(() => {}));
  const stopListening = shutdown.listen();
  signals.emit('SIGINT', 'SIGINT');
  clock.move(secondSignalAfterMs - 1);
  signals.emit('SIGINT', 'SIGINT');
  const early = await Promise.race([
    shutdown.ended,
    new Promise((resolve) => setImmediate(resolve, 'waiting')),
  ]);
  assert.equal(early, 'waiting');
  clock.move(1);
  signals.emit('SIGTERM', 'SIGTERM');
  assert.deepEqual(await shutdown.ended, { kind: 'forced', open: ['never'] });
  stopListening();
  assert.equal(signals.listenerCount('SIGINT') + signals.listenerCount('SIGTERM'), 0);
});

test('the whole stop has a deadline, and names what was still open', async () => {
  const clock = handClock();
  const shutdown = createShutdown({ clock, log: silentLogger, signals: new EventEmitter() });
  shutdown.add('database', () => {});
  shutdown.add('never', () => new Promise(() => {}));
  const stopped = shutdown.stop('test');
  clock.wake();
  assert.deepEqual(await stopped, { kind: 'timed_out', open: ['never', 'database'] });
});

test('a stored secret is made once, stays the same, and only its owner can read it', (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-secret-'));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  const made = storedSecret(path.join(folder, 'data'), 'secret', systemRandom);
  assert.ok(made.length >= 43);
  assert.equal(storedSecret(path.join(folder, 'data'), 'secret', systemRandom), made);
  assert.notEqual(storedSecret(path.join(folder, 'data'), 'other', systemRandom), made);
  assert.equal(fs.statSync(path.join(folder, 'data/secret')).mode & 0o777, 0o600);
  assert.deepEqual(fs.readdirSync(path.join(folder, 'data')).sort(), ['other', 'secret']);
});
