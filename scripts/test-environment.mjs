import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import {
  ensureCompiled,
  ensureInstalled,
  ensurePages,
  programFolders,
  root,
  run,
  SetupProblem,
  say,
} from './prepare.mjs';
import { chromium, findOrInstall, nginx, redis } from './programs.mjs';

const inCi = process.env.CI === 'true';
/** Returns the exit code. The last lines printed are the test runner's own summary. */
export async function runAllTests(filters) {
  const everything = filters.length === 0;
  const env = { ...process.env };
  for (const [program, part] of [
    [chromium, 'e2e'],
    [nginx, 'load'],
  ]) {
    if (everything || filters.some((filter) => filter.includes(part)))
      env[program.variable] = await programFor(program);
  }
  // The generator of the client's types has packages of its own.
  if (everything || filters.some((filter) => 'services/client'.includes(filter)))
    await ensureInstalled({ dev: false, folder: path.join(root, 'client') });
  if (everything) {
    // All of them, then the verdict: one run shows every mistake.
    const types = await check('types', ['node_modules/typescript/bin/tsc', '--noEmit']);
    const lint = await check('lint', ['node_modules/@biomejs/biome/bin/biome', 'check', '.']);
    const typedLint = await check('promises and switches', [
      'node_modules/oxlint/bin/oxlint',
      '--type-aware',
      '--quiet',
    ]);
    if (!types || !lint || !typedLint) return 1;
  }
  try {
    await ensurePages();
  } catch (error) {
    // A person who runs a part works on that part: broken pages fail the tests that need them, not all.
    if (everything || inCi || !(error instanceof SetupProblem)) throw error;
    say(error.message);
  }
  if (everything || filters.some((filter) => !['unit', 'fast'].includes(filter)))
    env[redis.variable] = await programFor(redis);
  return await withPostgres(async (url) => {
    env.ONSALE_TEST_POSTGRES = url;
    const program = path.join(root, 'scripts/run-tests.mjs');
    const compiled = await ensureCompiled('tests', [...programFolders, 'models', 'test', 'web']);
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
    ['postgres/server.ts', 'runtime/clock.ts', 'runtime/log.ts'].map(engine),
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

/** A module of src. */
async function engine(name) {
  if (!registered) {
    const { register } = await import('tsx/esm/api');
    register();
    registered = true;
  }
  return await import(pathToFileURL(path.join(root, 'src', name)).href);
}

/** The program's path, or an empty text: the tests that need it then count as skipped. */
async function programFor(program) {
  const found = await findOrInstall(program);
  if (found) return found;
  const sentence = `There is no ${program.what} here: install it (Debian: apt-get install ${program.package}) or name one in ${program.variable}`;
  if (inCi) throw new SetupProblem(`${sentence}; with CI=true nothing may be skipped.`);
  say(`\n!!! ${program.skipped} SKIPPED. ${sentence}.\n`);
  return '';
}
