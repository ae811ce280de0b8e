// Node's built-ins only: this runs before anything is installed.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');

/** Progress goes to stderr: stdout belongs to what a command prints. */
export function say(line) {
  process.stderr.write(`${line}\n`);
}

/** A problem that the person can fix: printed as a sentence, without a stack. */
export class SetupProblem extends Error {}

/** Installs what the package-lock.json of a folder asks for, if anything of it is missing there. */
export async function ensureInstalled({ dev, folder = root }) {
  if (isInstalled({ dev }, folder)) return;
  say('Installing dependencies (once, about a minute) …');
  // Test tools too: a second install for `npm test` would take the first one down while a server runs from it.
  const npm = npmCommand();
  const code = await runTelling('installing', npm.program, [
    ...npm.leading,
    'ci',
    '--prefix',
    folder,
    '--include=dev',
    '--include=optional',
    '--no-audit',
    '--no-fund',
    '--no-progress',
    '--no-update-notifier',
    '--loglevel=error',
  ]);
  if (code !== 0)
    throw new SetupProblem('npm ci failed; its messages are above. Mend that and run the command again.');
  if (!isInstalled({ dev }, folder)) {
    throw new SetupProblem(
      'npm ci ended well but left packages out. Remove node_modules and the omit settings of npm (npm config get omit), and try again.',
    );
  }
}

/**
 * Compares npm's own list of what it installed, which it writes last, with the lock file. So an install by hand
 * counts, and one that was cut short does not.
 */
export function isInstalled({ dev }, folder = root) {
  const list = path.join(folder, 'node_modules/.package-lock.json');
  if (!fs.existsSync(list)) return false;
  const wanted = readJson(path.join(folder, 'package-lock.json')).packages;
  const present = readJson(list).packages;
  return Object.entries(wanted).every(([place, entry]) => {
    if (place === '' || entry.link || !isNeeded(entry, dev)) return true;
    return (
      present[place]?.version === entry.version && fs.existsSync(path.join(folder, place, 'package.json'))
    );
  });
}

function isNeeded(entry, dev) {
  if ((entry.dev || entry.devOptional) && !dev) return false;
  if (!entry.optional) return true;
  // Optional packages are mostly binaries for other machines; those for this machine must be there. npm knows
  // best which libc this machine has.
  if (!entry.os || !entry.cpu || entry.libc) return false;
  return entry.os.includes(process.platform) && entry.cpu.includes(process.arch);
}

/** Builds the pages when they are missing or older than their sources. */
export async function ensurePages() {
  if (!fs.existsSync(path.join(root, 'vite.config.ts')) || !fs.existsSync(path.join(root, 'web'))) return;
  const stamp = path.join(root, 'dist/web.sources');
  const sources = hashOf(['web', 'src/core', 'src/http/api-types.ts', 'vite.config.ts', 'package-lock.json']);
  if (
    fs.existsSync(path.join(root, 'dist/web')) &&
    fs.existsSync(stamp) &&
    fs.readFileSync(stamp, 'utf8') === sources
  )
    return;
  say('Building the pages …');
  fs.rmSync(stamp, { force: true });
  const code = await runTelling('building', process.execPath, [
    path.join(root, 'node_modules/vite/bin/vite.js'),
    'build',
    '--logLevel',
    'warn',
  ]);
  if (code !== 0) throw new SetupProblem('The pages could not be built; the messages are above.');
  fs.writeFileSync(stamp, sources);
}

/** One hash over names and contents: times of files change with every checkout. */
export function hashOf(places, folder = root) {
  const hash = createHash('sha256');
  const add = (place) => {
    const full = path.join(folder, place);
    const info = fs.statSync(full, { throwIfNoEntry: false });
    if (info?.isDirectory()) for (const name of fs.readdirSync(full).sort()) add(path.join(place, name));
    else if (info) hash.update(`${place}\0${info.size}\0`).update(fs.readFileSync(full));
  };
  for (const place of places) add(place);
  return hash.digest('hex');
}

/** The code of `onsale`: the engine, and the tools and the payment simulator that it ships with. */
export const programFolders = ['src', 'payment-simulator', 'tools'];

/** Builds of each kind that are kept: a running program may still load a part of its own. */
const buildsKept = 5;
/** A compiler is done within seconds. */
const leftAfterMs = 600_000;

/**
 * The folder of the program (or of the tests with it) compiled from the sources as they are; compiled now if it is not there.
 * Compiled it starts without a loader. Null where nothing can be written: the sources are run as they are.
 */
export async function ensureCompiled(kind, sources) {
  const builds = path.join(root, 'dist', kind);
  const config = `tsconfig.${kind}.json`;
  const settings = [
    'tsconfig.json',
    'tsconfig.program.json',
    config,
    'package-lock.json',
    'scripts/prepare.mjs',
  ];
  const built = path.join(builds, hashOf([...sources, ...settings]).slice(0, 16));
  if (fs.existsSync(built)) return built;
  const partial = `${built}.${process.pid}`;
  try {
    fs.mkdirSync(partial, { recursive: true });
  } catch (error) {
    if (['EACCES', 'EPERM', 'EROFS'].includes(error.code)) return null;
    throw error;
  }
  try {
    const compiler = path.join(root, 'node_modules/typescript/bin/tsc');
    const code = await run(process.execPath, [compiler, '-p', config, '--outDir', partial]);
    if (code !== 0) throw new SetupProblem('The program could not be compiled; the messages are above.');
    for (const folder of sources) {
      const filter = (file) => !/\.tsx?$/.test(file);
      fs.cpSync(path.join(root, folder), path.join(partial, folder), { recursive: true, filter });
    }
    await bundlePackages(path.join(partial, 'node_modules'));
    // Two that compile at once make the same; the later one's is not needed.
    if (!fs.existsSync(built)) fs.renameSync(partial, built);
  } catch (error) {
    if (!fs.existsSync(built)) throw error;
  } finally {
    fs.rmSync(partial, { recursive: true, force: true });
  }
  removeOldBuilds(builds);
  return built;
}

/** Packages of hundreds of small modules: as one file each, a process starts with a fifth less work. By entry, as code imports them. */
const bundled = { typebox: ['typebox', 'typebox/value'], stripe: ['stripe'] };

async function bundlePackages(into) {
  const { build } = await import('vite');
  for (const [name, entries] of Object.entries(bundled)) {
    const outDir = path.join(into, name);
    const fileOf = (entry) => (entry === name ? 'index' : entry.slice(name.length + 1));
    const input = entries.map((entry) => [fileOf(entry), fileURLToPath(import.meta.resolve(entry))]);
    await build({
      root,
      configFile: false,
      publicDir: false,
      logLevel: 'error',
      ssr: { noExternal: true },
      build: {
        ssr: true,
        outDir,
        minify: false,
        target: 'node20',
        rolldownOptions: { input: Object.fromEntries(input), output: { entryFileNames: '[name].js' } },
      },
    });
    const exports = entries.map((entry) => [entry.replace(name, '.'), `./${fileOf(entry)}.js`]);
    const about = { name, type: 'module', exports: Object.fromEntries(exports) };
    fs.writeFileSync(path.join(outDir, 'package.json'), JSON.stringify(about));
  }
}

function removeOldBuilds(builds) {
  const all = fs.readdirSync(builds);
  const isOld = (folder) =>
    Date.now() - fs.statSync(folder, { throwIfNoEntry: false })?.mtimeMs > leftAfterMs;
  // Leftovers of a compiler that was killed.
  for (const folder of all.filter((name) => name.includes('.')).map((name) => path.join(builds, name))) {
    if (isOld(folder)) fs.rmSync(folder, { recursive: true, force: true });
  }
  const byAge = all
    .filter((name) => !name.includes('.'))
    .map((name) => ({ folder: path.join(builds, name), made: fs.statSync(path.join(builds, name)).mtimeMs }))
    .sort((a, b) => b.made - a.made);
  for (const { folder } of byAge.slice(buildsKept)) fs.rmSync(folder, { recursive: true, force: true });
}

/** Runs the command line in this very process, so that Ctrl-C and kill affect one process. Returns the exit code. */
export async function runOnsale(argv) {
  const program = await ensureCompiled('program', programFolders);
  if (!program) {
    const { register } = await import('tsx/esm/api');
    register();
  }
  const entry = program ? path.join(program, 'src/cli.js') : path.join(root, 'src/cli.ts');
  const { main } = await import(pathToFileURL(entry).href);
  return await main(argv);
}

/** Calls `work` and ends the process with its answer; a SetupProblem is printed as a sentence. */
export async function runToExit(work) {
  try {
    process.exit(await work());
  } catch (error) {
    if (!(error instanceof SetupProblem)) throw error;
    say(error.message);
    process.exit(1);
  }
}

/** Runs a program, passes its output on, and reports every 10 s that it is still running. Returns its exit code. */
export async function runTelling(what, program, arguments_, env = process.env) {
  const started = performance.now();
  const timer = setInterval(
    () => say(`  still ${what} (${Math.round((performance.now() - started) / 1000)} s)`),
    10_000,
  );
  try {
    return await run(program, arguments_, env);
  } finally {
    clearInterval(timer);
  }
}

const endSignals = ['SIGTERM', 'SIGINT', 'SIGHUP'];

/** Output to stderr and ours to stdout stay apart: the child's stdout is passed to our stderr. */
export async function run(program, arguments_, env = process.env, stdout = 2) {
  const child = spawn(program, arguments_, { cwd: root, env, stdio: ['ignore', stdout, 2] });
  // kill concerns us alone, unlike Ctrl-C: what we started must not go on without us.
  const pass = (signal) => child.kill(signal);
  for (const signal of endSignals) process.on(signal, pass);
  try {
    const [code, signal] = await new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (...end) => resolve(end));
    });
    if (signal) throw new SetupProblem(`Stopped (${signal}).`);
    return code;
  } finally {
    for (const signal of endSignals) process.removeListener(signal, pass);
  }
}

/** The npm that started us, else the one on the PATH. */
function npmCommand() {
  const running = process.env.npm_execpath;
  if (running && path.basename(running) === 'npm-cli.js')
    return { program: process.execPath, leading: [running] };
  return { program: 'npm', leading: [] };
}

function readJson(file) {
  return JSON.parse(fs.readFileSync(file, 'utf8'));
}
