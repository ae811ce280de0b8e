// npm run soak -- [--minutes 60] [--every 180] [--buyers 3600] [--keep]
// Plays the faults of faults.ts in turn under a crowd and writes bench/results/soak.json. It ends with code 1 if a promise broke.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { machineOf } from '../../bench/machine.ts';
import { findRedis } from '../../src/redis/program.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { projectDir } from '../../src/runtime/project-dir.ts';
import { testScope } from '../support/app.ts';
import { allFaults } from './faults.ts';
import { playSoak } from './play.ts';
import { startStack } from './stack.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    every: { type: 'string', default: '180' },
    buyers: { type: 'string', default: '3600' },
    keep: { type: 'boolean', default: false },
  },
});
const redisBinary = findRedis();
if (!redisBinary)
  throw new Error('There is no redis-server here: install it (Debian: apt-get install redis-server).');
const say = (line: string): void => void process.stderr.write(`${line}\n`);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-soak-'));
const scope = testScope();
say(`Starting Postgres, Redis, nginx and three processes in ${folder} …`);
try {
  const stack = await startStack(scope, { folder, redisBinary, seats: 50_000 });
  const result = await playSoak(stack, {
    faults: allFaults,
    everyMs: Number(values.every) * 1_000,
    overMs: Number(values.minutes) * 60_000,
    buyers: Number(values.buyers),
    restWithinMs: 15 * 60_000,
    say: (line) => say(line),
  });
  const machine = machineOf({ postgres: stack.postgres.version, redis: null });
  const kept = { at: new Date(systemClock.now()).toISOString(), machine, ...result };
  const file = path.join(projectDir, 'bench/results/soak.json');
  fs.writeFileSync(file, `${JSON.stringify(kept, null, 2)}\n`);
  say(JSON.stringify(kept, null, 2));
  if (result.problems.length > 0) process.exitCode = 1;
} finally {
  await scope.close();
  if (values.keep) say(`Logs and data are in ${folder}.`);
  else fs.rmSync(folder, { recursive: true, force: true });
}
