// run-tests.mjs FOLDER [FILTER…]: runs the test files in FOLDER (the checkout, or what was compiled of it), several at once,
// each through Node's own test runner, and closes with one summary over all of them.
import { setMaxListeners } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';

const [, , root, ...filters] = process.argv;
const fileTimeoutMs = 600_000;

/** Crowds that count each refusal of a busy server: beside little else. */
const crowds = /^(crowd-|race-)/;
/** The machine has this many places; each running file takes those of its stage. */
const places = 6;
/**
 * What mostly computes comes first; then browsers, crowds, killed processes and services side by side, because they mostly wait.
 * A file starts as soon as its places are free, and no more than `atMost` of its stage.
 */
const stages = [
  { name: 'unit', takes: 3, folders: ['test', 'test/unit'] },
  { name: 'contract', takes: 3, folders: ['test/contract'] },
  { name: 'e2e', takes: 2, atMost: 1, folders: ['test/e2e'] },
  { name: 'load', takes: 3, atMost: 1, folders: ['test/load'], isPart: (name) => crowds.test(name) },
  { name: 'load', takes: 1, atMost: 1, folders: ['test/load'], isPart: (name) => !crowds.test(name) },
  { name: 'services', takes: 1, folders: ['test/services'] },
];
/** The longest files of their stages begin first, so that none of them runs alone at the end. */
const longest = [
  ...['checkout-faults', 'job-worker', 'runtime-postgres-server', 'refunds-http', 'degrade-losses'],
  ...['fulfilment-mail', 'http-hostile', 'purchases-faults', 'soak', 'crash-server'],
  ...['buyer-waiting', 'buyer-journey', 'buyer-recovery', 'organiser-page'],
];
const rankOf = (file) => {
  const rank = longest.indexOf(path.basename(file).replace(/\.test\.[tj]s$/, ''));
  return rank < 0 ? longest.length : rank;
};

/** `npm run test:fast`: what needs Postgres at most. */
const fast = ({ name }, file) =>
  ['unit', 'contract'].includes(name) && !path.basename(file).includes('redis');

/** Filters are `fast`, a stage's name or a part of a path; none means everything. */
function filesOf(stage, filters) {
  const files = stage.folders.flatMap((folder) => {
    const full = path.join(root, folder);
    if (!fs.existsSync(full)) return [];
    return fs
      .readdirSync(full)
      .filter((name) => /\.test\.(ts|js)$/.test(name) && (stage.isPart?.(name) ?? true))
      .map((name) => path.join(full, name));
  });
  const wanted = (file) =>
    filters.some(
      (filter) =>
        filter === stage.name ||
        (filter === 'fast' && fast(stage, file)) ||
        (!isName(filter) && path.relative(root, file).includes(filter)),
    );
  const chosen = filters.length === 0 ? files : files.filter(wanted);
  return chosen.sort((a, b) => rankOf(a) - rankOf(b));
}

function isName(filter) {
  return filter === 'fast' || stages.some(({ name }) => name === filter);
}

/** The runner would leave its test files behind. */
const stopping = new AbortController();
setMaxListeners(0, stopping.signal);
for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.once(name, () => stopping.abort());

const counts = new Map();
/** Milliseconds of a test file, by its path. */
const times = new Map();
const slowestShown = 12;
const summaryLine = /^(tests|suites|pass|fail|cancelled|skipped|todo) (\d+)$/;

/** The events of all files, file by file as they end. */
async function* allFiles(filters) {
  const waiting = stages.flatMap((stage) => filesOf(stage, filters).map((file) => ({ stage, file })));
  const running = new Map();
  let free = places;
  const startNext = () => {
    // No file overtakes one that waits for more places than are free, or that one would wait for ever.
    const next = waiting.findIndex(({ stage }) => !isFull(stage, running));
    if (next < 0 || waiting[next].stage.takes > free) return false;
    const [entry] = waiting.splice(next, 1);
    free -= entry.stage.takes;
    running.set(
      entry,
      runFile(entry.file).then((events) => ({ entry, events })),
    );
    return true;
  };
  while (waiting.length + running.size > 0) {
    while (!stopping.signal.aborted && startNext());
    if (running.size === 0) break;
    const { entry, events } = await Promise.race(running.values());
    running.delete(entry);
    free += entry.stage.takes;
    yield* events;
  }
  for (const { file, seconds } of slowestFiles()) {
    yield { type: 'test:diagnostic', data: { nesting: 0, message: `${seconds} s in ${file}` } };
  }
  counts.set('duration_ms', performance.now());
  for (const [name, count] of counts) {
    yield { type: 'test:diagnostic', data: { nesting: 0, message: `${name} ${count}` } };
  }
}

function isFull({ name, atMost }, running) {
  return [...running.keys()].filter(({ stage }) => stage.name === name).length >= (atMost ?? places);
}

/** The file's own totals are held back and added up. */
async function runFile(file) {
  const startedMs = performance.now();
  const events = [];
  for await (const event of run({ files: [file], timeout: fileTimeoutMs, signal: stopping.signal })) {
    const total =
      event.type === 'test:diagnostic' && event.data.nesting === 0 && summaryLine.exec(event.data.message);
    if (total) counts.set(total[1], (counts.get(total[1]) ?? 0) + Number(total[2]));
    else if (event.type === 'test:diagnostic' && event.data.message.startsWith('duration_ms ')) continue;
    // The runner's own summary event would be printed as if it were the end.
    else if (event.type !== 'test:summary') events.push(event);
  }
  times.set(file, performance.now() - startedMs);
  return events;
}

function slowestFiles() {
  return [...times]
    .map(([file, ms]) => ({
      file: path.relative(root, file).replace(/\.js$/, '.ts'),
      seconds: Math.round(ms / 1000),
    }))
    .sort((a, b) => b.seconds - a.seconds)
    .slice(0, process.env.ALLTIMES ? 1000 : slowestShown);
}

const reporter = new spec();
reporter.pipe(process.stdout);
const finished = new Promise((resolve) => {
  reporter.once('end', resolve);
});
for await (const event of allFiles(filters)) {
  if (!reporter.write(event)) await new Promise((resolve) => reporter.once('drain', resolve));
}
reporter.end();
await finished;

const count = (name) => counts.get(name) ?? 0;
const broken = count('fail') + count('cancelled');
if (count('tests') === 0) {
  process.stderr.write(`No test matches ${filters.join(' ')}.\n`);
  process.exitCode = 1;
} else if (broken > 0) {
  process.exitCode = 1;
} else if (process.env.CI === 'true' && count('skipped') + count('todo') > 0) {
  process.stderr.write(`${count('skipped') + count('todo')} tests were skipped: in CI that is a failure.\n`);
  process.exitCode = 1;
}
