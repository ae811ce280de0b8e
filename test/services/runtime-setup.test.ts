import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test, { type TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import { projectDir } from '../../src/runtime/project-dir.ts';

/** The set-up scripts are plain JavaScript, as they run before anything is installed. */
const scripts = path.join(projectDir, 'scripts');
const load = (name: string) => import(pathToFileURL(path.join(scripts, name)).href);

const onThisMachine = { os: [process.platform], cpu: [process.arch] };
const locked = {
  '': {},
  'node_modules/a': { version: '1.0.0' },
  'node_modules/tool': { version: '2.0.0', dev: true },
  'node_modules/here': { version: '3.0.0', optional: true, ...onThisMachine },
  'node_modules/elsewhere': { version: '3.0.0', optional: true, os: ['aix'], cpu: ['ppc64'] },
};

function checkout(t: TestContext, present: Record<string, { version: string }>): string {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-setup-'));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  fs.writeFileSync(path.join(folder, 'package-lock.json'), JSON.stringify({ packages: locked }));
  for (const place of Object.keys(present)) {
    fs.mkdirSync(path.join(folder, place), { recursive: true });
    fs.writeFileSync(path.join(folder, place, 'package.json'), '{}');
  }
  fs.mkdirSync(path.join(folder, 'node_modules'), { recursive: true });
  fs.writeFileSync(
    path.join(folder, 'node_modules/.package-lock.json'),
    JSON.stringify({ packages: present }),
  );
  return folder;
}

const whole = {
  'node_modules/a': { version: '1.0.0' },
  'node_modules/tool': { version: '2.0.0' },
  'node_modules/here': { version: '3.0.0' },
};

test('an install counts when npm finished it and it holds what the lock file asks for on this machine', async (t) => {
  const { isInstalled } = await load('prepare.mjs');
  const { 'node_modules/tool': _tool, ...withoutTools } = whole;
  const { 'node_modules/here': _here, ...withoutBinary } = whole;
  const older = { ...whole, 'node_modules/a': { version: '0.9.0' } };
  assert.equal(isInstalled({ dev: true }, checkout(t, whole)), true);
  assert.equal(isInstalled({ dev: true }, checkout(t, withoutTools)), false);
  assert.equal(isInstalled({ dev: false }, checkout(t, withoutTools)), true);
  assert.equal(isInstalled({ dev: false }, checkout(t, withoutBinary)), false);
  assert.equal(isInstalled({ dev: false }, checkout(t, older)), false);
  const cutShort = checkout(t, whole);
  fs.rmSync(path.join(cutShort, 'node_modules/.package-lock.json'));
  assert.equal(isInstalled({ dev: false }, cutShort), false);
  const emptied = checkout(t, whole);
  fs.rmSync(path.join(emptied, 'node_modules/a'), { recursive: true });
  assert.equal(isInstalled({ dev: false }, emptied), false);
});

test('pages are stale when a source changed, moved or vanished, not when it was only touched', async (t) => {
  const { hashOf } = await load('prepare.mjs');
  const folder = checkout(t, {});
  fs.mkdirSync(path.join(folder, 'web/buyer'), { recursive: true });
  const file = path.join(folder, 'web/buyer/main.tsx');
  fs.writeFileSync(file, 'one');
  const hash = (): string => hashOf(['web', 'not-there'], folder);
  const first = hash();
  fs.utimesSync(file, 1, 1);
  assert.equal(hash(), first);
  fs.writeFileSync(file, 'two');
  assert.notEqual(hash(), first);
  fs.writeFileSync(file, 'one');
  assert.equal(hash(), first);
  fs.renameSync(file, path.join(folder, 'web/buyer/other.tsx'));
  assert.notEqual(hash(), first);
});

test('a Node that is too old is reported in a sentence', async () => {
  const { nodeProblem } = await load('check-node.mjs');
  for (const fits of ['20.19.0', '20.20.2', '22.12.0', '24.0.0', '25.1.0'])
    assert.equal(nodeProblem(fits), '');
  for (const old of ['12.22.0', '18.20.4', '20.18.9', '21.7.0', '22.11.0'])
    assert.match(nodeProblem(old), /needs Node 20\.19/);
});

test('the command line without its dependencies says what to run', (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-bare-'));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  for (const name of ['scripts', 'bin', 'package-lock.json']) {
    fs.cpSync(path.join(scripts, '..', name), path.join(folder, name), { recursive: true });
  }
  const result = spawnSync(process.execPath, ['bin/onsale.mjs', 'event', 'list'], {
    cwd: folder,
    encoding: 'utf8',
  });
  assert.equal(result.status, 1);
  assert.equal(result.stderr, 'Dependencies are missing or out of date: run npm ci first.\n');
});
