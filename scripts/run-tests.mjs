// run-tests.mjs FOLDER [FILTER…]: runs the test files in FOLDER (the checkout, or what was compiled of it) in stages through
// Node's own test runner and closes with one summary over all of them.
import { setMaxListeners } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';

const [, , root, ...filters] = process.argv;
const fileTimeoutMs = 600_000;

/** These measure time with a crowd, and keep the machine busy: alone. */
const crowds = /^(crowd-|gameday|race-)/;
/** In this order; what mostly waits (services, killed processes, browsers) side by side. */
const stages = [
  { name: 'unit', concurrency: 2, folders: ['test', 'test/unit'] },
  { name: 'contract', concurrency: 2, folders: ['test/contract'] },
  { name: 'services', concurrency: 5, folders: ['test/services'] },
  { name: 'load', concurrency: 3, folders: ['test/load'], isPart: (name) => !crowds.test(name) },
  { name: 'load', concurrency: 1, folders: ['test/load'], isPart: (name) => crowds.test(name) },
  { name: 'e2e', concurrency: 3, folders: ['test/e2e'] },
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

/** Filters are a stage's name or a part of a path; none means everything. */
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
      (filter) => filter === stage.name || (!isStage(filter) && path.relative(root, file).includes(filter)),
    );
  const chosen = filters.length === 0 ? files : files.filter(wanted);
  return chosen.sort((a, b) => rankOf(a) - rankOf(b));
}

function isStage(filter) {
  return stages.some(({ name }) => name === filter);
}

/** The runner would leave its test files behind. */
const stopping = new AbortController();
setMaxListeners(0, stopping.signal);
for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.once(name, () => stopping.abort());

const counts = new Map();
/** Milliseconds of a test file's tests, by its path. */
const times = new Map();
const slowestShown = 12;
const summaryLine = /^(tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) ([\d.]+)$/;

/** Each stage closes with its own totals: they are held back and added up. */
async function* allStages(filters) {
  for (const stage of stages) {
    const files = filesOf(stage, filters);
    if (files.length === 0 || stopping.signal.aborted) continue;
    const { signal } = stopping;
    for await (const event of run({
      files,
      concurrency: stage.concurrency,
      timeout: fileTimeoutMs,
      signal,
    })) {
      addTime(event);
      const total =
        event.type === 'test:diagnostic' && event.data.nesting === 0 && summaryLine.exec(event.data.message);
      if (total) counts.set(total[1], (counts.get(total[1]) ?? 0) + Number(total[2]));
      // The runner's own summary event would be printed as if it were the end.
      else if (event.type !== 'test:summary') yield event;
    }
  }
  for (const { file, seconds } of slowestFiles()) {
    yield { type: 'test:diagnostic', data: { nesting: 0, message: `${seconds} s in ${file}` } };
  }
  for (const [name, count] of counts) {
    yield { type: 'test:diagnostic', data: { nesting: 0, message: `${name} ${count}` } };
  }
}

/** The runner holds a file's events back until its turn, so that the clock here says nothing: its tests tell their own times. */
function addTime({ type, data: { file, nesting, details } }) {
  if (nesting !== 0 || (type !== 'test:pass' && type !== 'test:fail')) return;
  times.set(file, (times.get(file) ?? 0) + details.duration_ms);
}

function slowestFiles() {
  return [...times]
    .map(([file, ms]) => ({
      file: path.relative(root, file ?? '').replace(/\.js$/, '.ts'),
      seconds: Math.round(ms / 1000),
    }))
    .sort((a, b) => b.seconds - a.seconds)
    .slice(0, slowestShown);
}

const reporter = new spec();
reporter.pipe(process.stdout);
const finished = new Promise((resolve) => {
  reporter.once('end', resolve);
});
for await (const event of allStages(filters)) {
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
