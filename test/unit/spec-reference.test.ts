import assert from 'node:assert/strict';
import { test } from 'node:test';
import { specWithTests } from '../support/write-spec.ts';

test('docs/SPEC.md lists the tests of each promise as the test files have them', () => {
  const { before, now } = specWithTests();
  assert.equal(before, now, 'run: node --import tsx test/support/write-spec.ts');
});
