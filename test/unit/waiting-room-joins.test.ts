import assert from 'node:assert/strict';
import test from 'node:test';
import { systemClock } from '../../src/runtime/clock.ts';
import { createJoinBatcher } from '../../src/waiting-room/join-batcher.ts';
import type { JoinOutcome } from '../../src/waiting-room/waiting-room.ts';
import { until } from '../support/wait.ts';

/** A store whose calls end when the test says so. */
function heldStore() {
  const calls: { event: number; visitors: string[]; answer: () => void; fail: (fault: Error) => void }[] = [];
  let last = 0;
  const join = (event: number, shard: number, visitors: string[]): Promise<JoinOutcome[]> =>
    new Promise((resolve, reject) => {
      const answer = (): void =>
        resolve(
          visitors.map(() => {
            last += 1;
            return { kind: 'joined', shard, number: last, issuedAt: 0, repeated: false };
          }),
        );
      calls.push({ event, visitors, answer, fail: reject });
    });
  const called = async (count: number): Promise<void> => {
    await until(() => calls.length >= count, `${count} calls`);
  };
  return { join, calls, called };
}

test('joins of one tick make one call; what comes while it is under way makes the next', async () => {
  const store = heldStore();
  const batcher = createJoinBatcher({ room: store, clock: systemClock });
  const first = ['a', 'b', 'c'].map((visitor) => batcher.join(1, 0, visitor));
  await store.called(1);
  const later = ['d', 'e'].map((visitor) => batcher.join(1, 0, visitor));
  const elsewhere = batcher.join(2, 0, 'f');
  await store.called(2);
  assert.deepEqual(
    store.calls.map((call) => [call.event, call.visitors]),
    [
      [1, ['a', 'b', 'c']],
      [2, ['f']],
    ],
    'another event does not wait',
  );
  store.calls[0]!.answer();
  store.calls[1]!.answer();
  await Promise.all([...first, elsewhere]);
  await store.called(3);
  assert.deepEqual(store.calls[2]!.visitors, ['d', 'e']);
  store.calls[2]!.answer();
  assert.ok((await Promise.all(later)).every((outcome) => outcome.kind === 'joined'));
});

test('over its limit a join is answered overloaded at once and draws nothing; room comes back', async () => {
  const store = heldStore();
  const batcher = createJoinBatcher({ room: store, clock: systemClock, limit: 3 });
  const accepted = ['a', 'b', 'c'].map((visitor) => batcher.join(1, 0, visitor));
  assert.deepEqual(await batcher.join(1, 0, 'd'), { kind: 'overloaded', afterMs: 1_000 });
  await store.called(1);
  assert.equal((await batcher.join(1, 0, 'd')).kind, 'overloaded', 'those under way count');
  store.calls[0]!.answer();
  await Promise.all(accepted);
  const next = batcher.join(1, 0, 'd');
  await store.called(2);
  assert.deepEqual(store.calls[1]!.visitors, ['d']);
  store.calls[1]!.answer();
  assert.equal((await next).kind, 'joined');
});

test('a fault of the store reaches each join of its batch and none of the next', async () => {
  const store = heldStore();
  const batcher = createJoinBatcher({ room: store, clock: systemClock });
  const lost = ['a', 'b'].map((visitor) => batcher.join(1, 0, visitor));
  await store.called(1);
  const next = batcher.join(1, 0, 'c');
  store.calls[0]!.fail(new Error('lost'));
  for (const outcome of await Promise.allSettled(lost)) assert.equal(outcome.status, 'rejected');
  await store.called(2);
  store.calls[1]!.answer();
  assert.equal((await next).kind, 'joined');
});
