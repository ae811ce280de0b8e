import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { test } from 'node:test';
import { projectDir } from '../../src/runtime/project-dir.ts';
import { withoutRedis } from '../support/redis.ts';

const binaries = process.env.ONSALE_SOAK_POSTGRES_BIN ?? '/usr/lib/postgresql/15/bin';

/** What the run needs of the machine and cannot be had; false: everything is there. */
function missing(): string | false {
  if (withoutRedis) return withoutRedis;
  if (!fs.existsSync(`${binaries}/initdb`)) return 'needs postgresql-15';
  try {
    execFileSync('nginx', ['-v'], { stdio: 'ignore' });
    return false;
  } catch {
    return 'needs nginx';
  }
}

test('D4: three servers behind nginx, a job worker killed and Postgres stopped under a crowd: all mails go out, the audit is clean', {
  skip: missing(),
}, async () => {
  const child = spawn(process.execPath, ['--import', 'tsx', 'scripts/soak.ts', '--short'], {
    cwd: projectDir,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      said += String(chunk);
    });
  }
  const [code] = await once(child, 'close');
  assert.equal(code, 0, said.slice(-4_000));
});
