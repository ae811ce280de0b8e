import assert from 'node:assert/strict';
import test from 'node:test';
import { promisesWithTests } from '../support/write-spec.ts';

test('docs/reference/promises-and-tests.md lists the tests of each promise as the test files have them', () => {
  const { before, now } = promisesWithTests();
  assert.ok(before === now, 'run: node --import tsx test/support/write-spec.ts');
});
