import assert from 'node:assert/strict';
import { test } from 'node:test';
import { counted } from '../../src/core/counted.ts';

test('one thing is one, everything else is several', () => {
  assert.deepEqual(
    [0, 1, 2].map((n) => counted(n, 'ticket')),
    ['0 tickets', '1 ticket', '2 tickets'],
  );
  assert.deepEqual(
    [1, 21].map((n) => counted(n, 'entry', 'entries')),
    ['1 entry', '21 entries'],
  );
});
