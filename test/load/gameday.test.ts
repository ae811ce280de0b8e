import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { projectDir } from '../../src/runtime/project-dir.ts';
import type { RoundResult } from '../../tools/gameday/results.ts';
import { withoutRedis } from '../support/redis.ts';

const buyers = 60;
/** The others are in `onsale gameday`, and one by one in test/services/degrade-losses.test.ts. */
const scenarios = ['freeze'];

test('D1: Redis frozen under a crowd: no double sale, no lost sale, holds come back', {
  skip: withoutRedis,
}, async (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-gameday-test-'));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  const file = path.join(folder, 'rounds.json');
  const args = [
    '--rounds',
    `${scenarios.length}`,
    '--scenarios',
    scenarios.join(','),
    '--buyers',
    `${buyers}`,
    '--seats',
    '1000',
  ];
  const child = spawn(process.execPath, ['bin/onsale.mjs', 'gameday', ...args, '--quick', '--json', file], {
    cwd: projectDir,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  child.stdout.on('data', (chunk: Buffer) => {
    said += String(chunk);
  });
  child.stderr.on('data', (chunk: Buffer) => {
    said += String(chunk);
  });
  await once(child, 'close');
  t.diagnostic(said);
  assert.ok(fs.existsSync(file), said);
  const { results } = JSON.parse(fs.readFileSync(file, 'utf8')) as { results: RoundResult[] };
  assert.deepEqual(
    results.map(({ scenario }) => scenario),
    scenarios,
  );
  for (const round of results) {
    const where = `${round.scenario}, seed ${round.seed}`;
    assert.deepEqual(round.problems, [], where);
    assert.equal(round.doubleSales + round.lostSales + round.chargesWithoutTickets + round.errors, 0, where);
    assert.ok(round.live >= 5, `${where}: ${round.live} holds lived at the blow`);
    assert.ok(round.bought >= buyers / 2, `${where}: ${round.bought} bought`);
    assert.equal(round.lost, 0, `${where}: ${round.lostTrails}`);
    // How soon this happened can be judged only on a machine with no other load. That it happened at all can
    // be checked here.
    assert.ok(round.degradeMs !== null && round.holdAgainMs !== null && round.restoreMs !== null, where);
  }
});
