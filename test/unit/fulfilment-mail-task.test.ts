import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { unlessStopped } from '../../src/fulfilment/mail-task.ts';

test('sending leaves nothing behind on the worker’s signal, which lives for months', async () => {
  const worker = new AbortController();
  for (let mail = 0; mail < 20; mail += 1) {
    const outcome = await unlessStopped(worker.signal, Promise.resolve({ kind: 'taken' }));
    assert.deepEqual(outcome, { kind: 'taken' });
    await assert.rejects(unlessStopped(worker.signal, Promise.reject(new Error('no route'))), /no route/);
  }
  assert.equal(getEventListeners(worker.signal, 'abort').length, 0);
});

test('a stop lets go of a mail server that keeps us waiting; stopped before, nothing waits', async () => {
  const worker = new AbortController();
  const never = new Promise<never>(() => {});
  const waiting = unlessStopped(worker.signal, never);
  worker.abort();
  assert.equal((await waiting).kind, 'not_now');
  assert.equal((await unlessStopped(worker.signal, never)).kind, 'not_now');
});
