import assert from 'node:assert/strict';
import test from 'node:test';
import { waitingRoomContract } from './waiting-room-cases.ts';
import { sameAnswers } from './waiting-room-history.ts';
import { inProcessRoom, postgresRoom } from './waiting-room-stores.ts';

waitingRoomContract('in-process', inProcessRoom);
waitingRoomContract('Postgres', postgresRoom);

test('W1 W3 W6: the same commands in the same order get the same answers from both stores', async (t) => {
  const kinds = new Set<string>();
  for (const seed of [1, 2, 3, 4].map((nth) => nth * 7_919)) {
    const [reference, store] = [await inProcessRoom(t, 'open'), await postgresRoom(t, 'open')];
    for (const kind of await sameAnswers(reference, store, seed, 150)) kinds.add(kind);
  }
  assert.deepEqual([...kinds].toSorted(), [
    'issued',
    'joined',
    'not_open',
    'not_yet',
    'over',
    'used',
    'wait',
  ]);
});
