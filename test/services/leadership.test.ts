import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import readline from 'node:readline';
import test, { type TestContext } from 'node:test';
import { systemClock } from '../../src/runtime/clock.ts';
import { insertTestEvent } from '../contract/waiting-room-event.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { programArguments } from '../support/program.ts';

interface Said {
  name: string;
  did: 'runs' | 'decided' | 'published' | 'refused' | 'stopped';
  term: number;
  tick: number;
}

interface Controlled {
  name: string;
  child: ChildProcess;
  said: Said[];
}

const takeOverMaxMs = 5_000;
/** A process needs long to start on a machine that runs other tests. */
const startMaxMs = 60_000;

function startProcess(t: TestContext, database: TestDatabase, name: string, event: number): Controlled {
  const child = spawn(
    process.execPath,
    [...programArguments('test/services/leadership-process.ts'), database.url, name, String(event)],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  );
  const said: Said[] = [];
  readline.createInterface({ input: child.stdout! }).on('line', (line) => said.push(JSON.parse(line)));
  t.after(() => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
  });
  return { name, child, said };
}

/** Waits for the condition; fails with its name instead of waiting for ever. Returns how long it took, ms. */
async function until(what: string, maxMs: number, met: () => boolean | Promise<boolean>): Promise<number> {
  const start = systemClock.monotonic();
  while (!(await met())) {
    assert.ok(systemClock.monotonic() - start < maxMs, `${what} within ${maxMs} ms`);
    await systemClock.sleep(20);
  }
  return systemClock.monotonic() - start;
}

const published = (process: Controlled, term: number): boolean =>
  process.said.some((one) => one.did === 'published' && one.term === term);

async function eventWithLine(t: TestContext): Promise<{ database: TestDatabase; event: number }> {
  const database = await testDatabase(t);
  const event = await insertTestEvent(database);
  await database.query('UPDATE queue_counters SET last_no = 1000000, ceiling = 1100000 WHERE event_no = $1', [
    event,
  ]);
  return { database, event };
}

/** Two processes, of which `first` leads in term 1. */
async function twoProcesses(t: TestContext) {
  const { database, event } = await eventWithLine(t);
  const first = startProcess(t, database, 'first', event);
  await until('the first process leads', startMaxMs, () => published(first, 1));
  const second = startProcess(t, database, 'second', event);
  await until('the second asks for the lease in vain', startMaxMs, () => second.said.length > 0);
  return { database, event, first, second };
}

test('D4: one of two controllers leads; when it is killed the other leads within 5 s', async (t) => {
  const { database, first, second } = await twoProcesses(t);
  assert.deepEqual(
    second.said.map((one) => one.did),
    ['runs'],
    'the second does nothing while the first leads',
  );
  first.child.kill('SIGKILL');
  await until('the second takes over', takeOverMaxMs, () => published(second, 2));
  const [lease] = await database.query('SELECT owner, term FROM leases');
  assert.match(lease.owner, /^second/);
  assert.equal(Number(lease.term), 2);
});

test('D4: a leader that is stopped loses the lease within 5 s and changes nothing when it wakes', async (t) => {
  const { database, first, second } = await twoProcesses(t);
  // Stopped after a decision whose publishing is still to come.
  const before = first.said.length;
  await until('a new decision', 5_000, () => first.said.slice(before).some((one) => one.did === 'decided'));
  first.child.kill('SIGSTOP');
  const late = first.said.at(-1)!;
  assert.equal(late.did, 'decided');
  await until('the second takes over', takeOverMaxMs, () => published(second, 2));

  first.child.kill('SIGCONT');
  await until('the first tries its late write', 5_000, () =>
    first.said.some((one) => one.tick === late.tick && one.did === 'refused'),
  );
  const seen = second.said.length;
  await until('the second leads on', 5_000, () => second.said.length >= seen + 4);
  assert.ok(!first.said.some((one) => one.did === 'published' && one.tick >= late.tick));
  const moves = await database.query<{ term: string; frontier: string }>(
    'SELECT term, frontier FROM frontier_moves ORDER BY at, frontier',
  );
  const terms = moves.map((move) => Number(move.term));
  assert.deepEqual(
    terms,
    terms.toSorted((a, b) => a - b),
    'no move of term 1 after one of term 2',
  );
  assert.ok(
    !moves.some((move) => Number(move.frontier) === 1_000 + late.tick + 1),
    'the late write left nothing',
  );
  const [row] = await database.query('SELECT term, rate FROM admissions');
  assert.deepEqual([Number(row.term), row.rate], [2, 2]);
});

test('D4: a controller that is asked to stop hands over at once', async (t) => {
  const { first, second } = await twoProcesses(t);
  first.child.kill('SIGTERM');
  await until('it stops', 3_000, () => first.said.some((one) => one.did === 'stopped'));
  const tookMs = await until('the second takes over', takeOverMaxMs, () => published(second, 2));
  assert.ok(tookMs < 2_500, `${Math.round(tookMs)} ms, without waiting for the lease to run out`);
});
