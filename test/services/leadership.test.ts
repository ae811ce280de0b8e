import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import readline from 'node:readline';
import test, { type TestContext } from 'node:test';
import { leaseMs } from '../../src/controller/lease.ts';
import { insertTestEvent } from '../contract/waiting-room-event.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { programArguments } from '../support/program.ts';
import { until } from '../support/wait.ts';

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

/** D4: a lease that is not renewed runs out, and the others ask each second. */
const takeOverMaxMs = leaseMs + 1_000;

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
  await until(() => published(first, 1), 'the first process leads');
  const second = startProcess(t, database, 'second', event);
  await until(() => second.said.length > 0, 'the second asks for the lease in vain');
  return { database, event, first, second };
}

test('D4: one of two controllers leads; when it is killed the other leads within 5 s', async (t) => {
  const { database, first, second } = await twoProcesses(t);
  assert.deepEqual(
    second.said.map((one) => one.did),
    ['runs'],
    'the second does nothing while the first leads',
  );
  assert.ok(takeOverMaxMs <= 5_000, 'what the two processes do takes less than was promised');
  first.child.kill('SIGKILL');
  await until(() => published(second, 2), 'the second takes over');
  const [lease] = await database.query('SELECT owner, term FROM leases');
  assert.match(lease.owner, /^second/);
  assert.equal(Number(lease.term), 2);
});

test('D4: a leader that is stopped loses the lease within 5 s and changes nothing when it wakes', async (t) => {
  const { database, first, second } = await twoProcesses(t);
  // Stopped after a decision whose publishing is still to come.
  const before = first.said.length;
  await until(() => first.said.slice(before).some((one) => one.did === 'decided'), 'a new decision');
  first.child.kill('SIGSTOP');
  const late = first.said.at(-1)!;
  assert.equal(late.did, 'decided');
  await until(() => published(second, 2), 'the second takes over');

  first.child.kill('SIGCONT');
  await until(
    () => first.said.some((one) => one.tick === late.tick && one.did === 'refused'),
    'the first tries its late write',
  );
  const seen = second.said.length;
  await until(() => second.said.length >= seen + 4, 'the second leads on');
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
  const { database, first, second } = await twoProcesses(t);
  first.child.kill('SIGTERM');
  await until(() => first.said.some((one) => one.did === 'stopped'), 'it stops');
  const [lease] = await database.query('SELECT owner, until > clock_timestamp() AS lasts FROM leases');
  assert.ok(!/^first/.test(lease.owner) || !lease.lasts, 'its lease was given up, not left to run out');
  await until(() => published(second, 2), 'the second takes over');
});
