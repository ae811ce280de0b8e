import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FAULT_KINDS } from '../../payment-simulator/fault-kinds.ts';
import { MAIL_FAULTS, STEPS } from '../support/saga-matrix.ts';
import { failureModes, unusedEnds } from '../support/write-failure-modes.ts';

test('docs/reference/failure-modes.md is what the matrix plays', () => {
  const { before, now } = failureModes();
  assert.equal(before, now, 'run: node --import tsx test/support/write-failure-modes.ts');
});

test('every fault that the simulator knows strikes some step, and each step is played without any', () => {
  const struck = new Set(STEPS.flatMap(({ entries }) => Object.keys(entries)));
  const known = [...Object.keys(FAULT_KINDS), ...Object.keys(MAIL_FAULTS)];
  assert.deepEqual(
    known.filter((fault) => !struck.has(fault)),
    [],
  );
  for (const { name, entries } of STEPS) assert.ok('none' in entries, name);
  assert.deepEqual(unusedEnds(), []);
});
