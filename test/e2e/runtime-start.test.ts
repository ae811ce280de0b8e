import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test, { type TestContext } from 'node:test';
import { readPostmaster } from '../../src/postgres/cluster.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { isAlive } from '../../src/runtime/private-server.ts';
import { projectDir } from '../../src/runtime/project-dir.ts';
import { until } from '../support/app.ts';

/** The first start makes a stadium of 50,000 seats, and CI's machine may be busy with other tests. */
const limit = { timeout: 300_000 };
/** A wish of a person is 5 s; a test on a shared machine only tells a start from a rebuild. */
const secondStartMs = 20_000;

interface Started {
  child: ChildProcess;
  url: string;
  /** Everything that was printed. */
  printed: string;
  startedInMs: number;
}

/** `npm start` (without npm unless told otherwise), on a data folder of its own; answers when the addresses are printed. */
async function start(
  t: TestContext,
  dataDir: string,
  [program, ...argv]: [string, ...string[]] = [process.execPath, 'scripts/start.mjs'],
  env: Record<string, string> = {},
): Promise<Started> {
  const before = systemClock.monotonic();
  const child = spawn(program, argv, {
    cwd: projectDir,
    // A process group and session of its own, and no terminal: as service managers and CI start it.
    detached: true,
    env: { ...process.env, ONSALE_DATA_DIR: dataDir, PORT: '0', ONSALE_LOG_LEVEL: 'warn', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.after(() => {
    try {
      process.kill(-child.pid!, 'SIGKILL');
    } catch {
      // All of them are gone already.
    }
  });
  let printed = '';
  const told = new Promise<Started>((resolve, reject) => {
    const read = (chunk: Buffer): void => {
      printed += String(chunk);
      const url = /Buyers\s+(http:\/\/[^/\s]+)/.exec(printed)?.[1];
      if (url && printed.includes('Ctrl-C'))
        resolve({ child, url, printed, startedInMs: systemClock.monotonic() - before });
    };
    child.stdout?.on('data', read);
    child.stderr?.on('data', read);
    child.once('exit', (code, signal) => reject(new Error(`it ended with ${signal ?? code}:\n${printed}`)));
  });
  return await told;
}

async function answers(url: string): Promise<number> {
  const response = await fetch(url);
  await response.arrayBuffer();
  return response.status;
}

function postmasterOf(dataDir: string): number {
  const found = readPostmaster(path.join(dataDir, 'postgres/cluster'));
  assert.ok(found);
  return found.pid;
}

test(
  'D4: npm start sells, survives kill -9 with all it knew, and Ctrl-C leaves nothing running',
  limit,
  async (t) => {
    const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-start-'));
    fs.chmodSync(dataDir, 0o755);
    t.after(() => fs.rmSync(dataDir, { recursive: true, force: true }));

    const first = await start(t, dataDir);
    assert.equal(await answers(`${first.url}/healthz`), 200);
    assert.equal(await answers(`${first.url}/readyz`), 200);
    assert.equal(await answers(`${first.url}/events/demo`), 200);
    const orphan = postmasterOf(dataDir);

    // Another one on the same folder is refused, and the first goes on.
    await assert.rejects(start(t, dataDir), /Another Onsale \(process \d+\) is running/);
    assert.equal(await answers(`${first.url}/readyz`), 200);

    const gone = once(first.child, 'exit');
    first.child.kill('SIGKILL');
    await gone;
    assert.equal(isAlive(orphan), true);

    const second = await start(t, dataDir);
    t.diagnostic(
      `first start ${Math.round(first.startedInMs)} ms, second ${Math.round(second.startedInMs)} ms`,
    );
    assert.ok(second.startedInMs < secondStartMs, `${second.startedInMs} ms`);
    assert.equal(postmasterOf(dataDir), orphan, 'the orphan was adopted');
    const file = path.join(dataDir, 'organiser-password');
    const password = fs.readFileSync(file, 'utf8').trim();
    assert.ok(
      first.printed.includes(`organiser@example.org  ${password}`),
      'printed by the start that made it',
    );
    assert.ok(second.printed.includes(`password in the file ${file}`), second.printed);
    assert.ok(!second.printed.includes(password), 'and by no other');
    for (const { printed, url } of [first, second])
      assert.match(printed, /Mail +kept here: http.*\/dev\/mail/, url);
    assert.equal(
      await answers(`${second.url}/dev/mail`),
      200,
      'a newcomer opens the mailbox as it is printed',
    );
    assert.equal(await answers(`${second.url}/readyz`), 200);

    const ended = once(second.child, 'exit');
    second.child.kill('SIGINT');
    // Ctrl-C under npm arrives twice.
    second.child.kill('SIGINT');
    assert.deepEqual(await ended, [0, null]);
    assert.equal(isAlive(orphan), false);
    await assert.rejects(fetch(`${second.url}/healthz`));
  },
);

test(
  'without a terminal, whatever ends npm ends what it started: port and data folder are free at once',
  limit,
  async (t) => {
    const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-start-'));
    fs.chmodSync(dataDir, 0o755);
    t.after(() => fs.rmSync(dataDir, { recursive: true, force: true }));
    const ways: { command: [string, ...string[]]; signal: NodeJS.Signals }[] = [
      { command: ['npm', 'start', '--', '--no-demo'], signal: 'SIGTERM' },
      // npm passes nothing on, and its shell stays.
      { command: ['npx', 'onsale', 'start', '--no-demo'], signal: 'SIGKILL' },
    ];
    for (const { command, signal } of ways) {
      const own = 'a password of the environment';
      const { child, url, printed } = await start(t, dataDir, command, { ONSALE_ORGANISER_PASSWORD: own });
      assert.ok(printed.includes('password set by ONSALE_ORGANISER_PASSWORD') && !printed.includes(own));
      const way = `${signal} to ${command.join(' ')}`;
      const postmaster = postmasterOf(dataDir);
      t.after(() => void (isAlive(postmaster) && process.kill(postmaster, 'SIGINT')));
      child.kill(signal);
      await until(async () => !isAlive(postmaster), `the end of the database after ${way}`);
      await assert.rejects(fetch(`${url}/healthz`), way);
    }
  },
);
