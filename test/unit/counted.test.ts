import assert from 'node:assert/strict';
import { test } from 'node:test';
import { counted } from '../../src/core/counted.ts';

test('one thing is one, everything else is several', () => {
  assert.deepEqual(
    [0, 1, 2_000].map((n) => counted(n, 'ticket')),
    ['0 tickets', '1 ticket', '2,000 tickets'],
  );
  assert.deepEqual(
    [1, 21].map((n) => counted(n, 'entry', 'entries')),
    ['1 entry', '21 entries'],
  );
});
