import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { allows, type Phase, phases, phaseTransitions } from '../../src/core/phase.ts';
import { projectDir } from '../../src/runtime/project-dir.ts';

test('every phase can be reached from a draft, and none but the cancelled one is a dead end', () => {
  const reached = new Set<Phase>(['draft']);
  for (const phase of reached) for (const next of phaseTransitions[phase]) reached.add(next);
  assert.deepEqual([...reached].toSorted(), [...phases].toSorted());
  assert.deepEqual(
    phases.filter((phase) => phaseTransitions[phase].length === 0),
    ['cancelled'],
  );
  for (const phase of phases) {
    assert.ok(!phaseTransitions[phase].includes(phase), `${phase} does not lead to itself`);
    if (phase !== 'cancelled')
      assert.ok(phaseTransitions[phase].includes('cancelled'), `${phase} can be cancelled`);
  }
});

test('what the leader may do is in the table of transitions', () => {
  const sql = readFileSync(path.join(projectDir, 'functions/leader.sql'), 'utf8');
  const cases = [...sql.matchAll(/WHEN p_expected (?:= '(\w+)'|IN \(([^)]+)\)) AND p_next = '(\w+)'/g)];
  const changes = cases.flatMap(([, one, several, next]) =>
    (one ? [one] : several!.replaceAll("'", '').split(',')).map(
      (from) => [from.trim(), next] as [Phase, Phase],
    ),
  );
  assert.equal(changes.length, 7);
  for (const [from, next] of changes) {
    assert.ok(phaseTransitions[from].includes(next), `${from} → ${next}`);
  }
});

test('W5: while sold out people may wait, pay for what they hold, but neither redeem nor hold', () => {
  const may = (phase: Phase) =>
    (['join', 'redeem', 'hold', 'reserve', 'pay', 'confirm'] as const).filter((act) => allows(phase, act));
  assert.deepEqual(may('sold_out'), ['join', 'reserve', 'pay', 'confirm']);
  assert.deepEqual(may('paused'), ['join', 'reserve', 'pay', 'confirm']);
  assert.deepEqual(may('closed'), ['reserve', 'pay', 'confirm']);
  assert.deepEqual(may('open'), ['join', 'redeem', 'hold', 'reserve', 'pay', 'confirm']);
  assert.deepEqual(may('pre_queue'), ['join', 'confirm']);
  assert.deepEqual(may('scheduled'), ['confirm']);
  assert.deepEqual(may('cancelled'), []);
});
