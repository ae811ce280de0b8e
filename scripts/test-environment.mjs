import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { ensureCompiled, ensurePages, root, run, runTelling, SetupProblem, say } from './prepare.mjs';

const inCi = process.env.CI === 'true';
const chromiumNames = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** Answers the exit code. The last lines printed are the test runner's own summary. */
export async function runAllTests(filters) {
  const everything = filters.length === 0;
  const env = { ...process.env };
  if (everything || filters.some((filter) => filter.includes('e2e')))
    env.ONSALE_TEST_CHROMIUM = await ensureChromium();
  if (everything) {
    // All of them, then the verdict: one run shows every mistake.
    const types = await check('types', ['node_modules/typescript/bin/tsc', '--noEmit']);
    const lint = await check('lint', ['node_modules/@biomejs/biome/bin/biome', 'check', '.']);
    if (!types || !lint) return 1;
  }
  try {
    await ensurePages();
  } catch (error) {
    // Whoever runs a part works on that part: broken pages fail the tests that need them, not all.
    if (everything || inCi || !(error instanceof SetupProblem)) throw error;
    say(error.message);
  }
  if (everything || filters.some((filter) => filter !== 'unit')) env.ONSALE_TEST_REDIS = await ensureRedis();
  return await withPostgres(async (url) => {
    env.ONSALE_TEST_POSTGRES = url;
    const program = path.join(root, 'scripts/run-tests.mjs');
    const compiled = await ensureCompiled('tests', ['src', 'test', 'web']);
    const how = compiled ? [program, compiled] : ['--import', 'tsx', program, root];
    return await run(process.execPath, [...how, ...filters], env, 1);
  });
}

async function check(what, arguments_) {
  say(`Checking ${what} …`);
  return (await run(process.execPath, arguments_)) === 0;
}

/** One server for the whole run, in a folder of its own; stopped whatever happens. */
async function withPostgres(work) {
  const [{ startPostgres }, { systemClock }, { createLogger }] = await Promise.all(
    ['postgres-server.ts', 'clock.ts', 'log.ts'].map(runtime),
  );
  const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-test-'));
  fs.chmodSync(dataDir, 0o711);
  try {
    const server = await startPostgres({
      dataDir,
      durable: false,
      binDir: process.env.ONSALE_TEST_POSTGRES_BIN || undefined,
      // Several test files at once, each with pools of its own.
      settings: { max_connections: 300 },
      log: createLogger('warn'),
      clock: systemClock,
    });
    try {
      return await work(server.url('postgres'));
    } finally {
      await server.stop();
    }
  } finally {
    fs.rmSync(dataDir, { recursive: true, force: true });
  }
}

let registered = false;

/** A module of src/runtime. */
async function runtime(name) {
  if (!registered) {
    const { register } = await import('tsx/esm/api');
    register();
    registered = true;
  }
  return await import(pathToFileURL(path.join(root, 'src/runtime', name)).href);
}

/** The program's path, or an empty text: the tests that need a Redis then count as skipped. */
async function ensureRedis() {
  if (process.env.ONSALE_TEST_REDIS) return process.env.ONSALE_TEST_REDIS;
  const { findOrInstallRedis } = await runtime('redis-install.ts');
  try {
    return findOrInstallRedis(say);
  } catch (error) {
    if (error.code !== 'no_binary') throw error;
    const sentence = `${error.message} Or name one in ONSALE_TEST_REDIS`;
    if (inCi) throw new SetupProblem(`${sentence}; with CI=true nothing may be skipped.`);
    say(`\n!!! THE TESTS OF REDIS ARE SKIPPED. ${sentence}.\n`);
    return '';
  }
}

/** Its path, or an empty text: the browser tests then count as skipped. */
async function ensureChromium() {
  const present = findChromium();
  if (present) return present;
  const canInstall = process.getuid?.() === 0 && spawnSync('apt-get', ['--version']).status === 0;
  if (canInstall) {
    say('Installing chromium for the browser tests …');
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
    await runTelling('updating the package lists', 'apt-get', ['-qq', 'update'], env);
    await runTelling(
      'installing',
      'apt-get',
      ['-qq', '-y', '--no-install-recommends', 'install', 'chromium'],
      env,
    );
    const installed = findChromium();
    if (installed) return installed;
  }
  const sentence =
    'There is no Chromium here: install it (Debian: apt-get install chromium) or name one in ONSALE_TEST_CHROMIUM';
  if (inCi) throw new SetupProblem(`${sentence}; with CI=true nothing may be skipped.`);
  say(`\n!!! THE BROWSER TESTS ARE SKIPPED. ${sentence}.\n`);
  return '';
}

function findChromium() {
  if (process.env.ONSALE_TEST_CHROMIUM) return process.env.ONSALE_TEST_CHROMIUM;
  const folders = (process.env.PATH ?? '').split(path.delimiter);
  const candidates = folders.flatMap((folder) => chromiumNames.map((name) => path.join(folder, name)));
  candidates.push('/Applications/Google Chrome.app/Contents/MacOS/Google Chrome');
  return candidates.find((file) => fs.existsSync(file)) ?? '';
}
