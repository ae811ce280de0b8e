import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import test, { after, type TestContext } from 'node:test';
import pg from 'pg';
import { PostgresFault } from '../../src/postgres/install.ts';
import type { PostgresOptions } from '../../src/postgres/options.ts';
import { type PostgresServer, runningPostgres, startPostgres } from '../../src/postgres/server.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { isAlive } from '../../src/runtime/private-server.ts';
import { programArguments } from '../support/program.ts';
import { pause, until } from '../support/wait.ts';

const isRoot = process.getuid?.() === 0;
const binDir = process.env.ONSALE_TEST_POSTGRES_BIN || undefined;

function scratch(t: TestContext, under = os.tmpdir()): string {
  const folder = fs.mkdtempSync(path.join(under, 'onsale-pg-'));
  fs.chmodSync(folder, 0o755);
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  return folder;
}

let prepared: Promise<string> | undefined;
after(async () => {
  if (prepared) fs.rmSync(await prepared, { recursive: true, force: true });
});

/** A data folder with a stopped server's database in it: a copy, as making one takes most of a test's time. */
async function withDatabase(t: TestContext): Promise<string> {
  const make = async (): Promise<string> => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-pg-made-'));
    fs.chmodSync(folder, 0o711);
    const options = { dataDir: folder, binDir, durable: false, log: silentLogger, clock: systemClock };
    await (await startPostgres(options)).stop();
    fs.rmSync(path.join(folder, 'port'));
    return folder;
  };
  prepared ??= make();
  const dataDir = scratch(t);
  execFileSync('cp', ['-a', `${await prepared}/.`, dataDir]);
  return dataDir;
}

async function start(
  t: TestContext,
  dataDir: string,
  more: Partial<PostgresOptions> = {},
): Promise<PostgresServer> {
  const server = await startPostgres({
    dataDir,
    binDir,
    durable: true,
    log: silentLogger,
    clock: systemClock,
    ...more,
  });
  t.after(() => server.stop());
  return server;
}

async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

interface Parent {
  child: ChildProcess;
  line: { port: number; pid: number; adopted: boolean; url: string };
}

async function startParent(t: TestContext, dataDir: string, ...more: string[]): Promise<Parent> {
  const child = spawn(
    process.execPath,
    [...programArguments('test/support/postgres-parent.ts'), dataDir, ...more],
    {
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  );
  t.after(() => void child.kill('SIGKILL'));
  const died = once(child, 'exit').then(([code]) => {
    throw new Error(`the parent ended with ${code} before its server was up`);
  });
  const [chunk] = await Promise.race([once(child.stdout!, 'data'), died]);
  died.catch(() => {});
  return { child, line: JSON.parse(String(chunk)) };
}

async function killed(child: ChildProcess): Promise<void> {
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}

const limit = { timeout: 120_000 };

test('it starts, keeps rows and its port over a restart, and stops for all who ask', limit, async (t) => {
  const dataDir = scratch(t);
  const first = await start(t, dataDir);
  await first.ensureDatabase('onsale');
  await first.ensureDatabase('onsale');
  await query(first.url('onsale'), 'CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)');
  const { pid, port } = first;
  assert.equal(first.stop(), first.stop());
  await first.stop();
  assert.equal(isAlive(pid), false);
  const second = await start(t, dataDir);
  assert.equal(second.adopted, false);
  assert.equal(second.port, port);
  assert.deepEqual(await query(second.url('onsale'), 'SELECT n FROM kept'), [{ n: 7 }]);
});

test('it is durable when told so, listens on loopback only and asks for the password', limit, async (t) => {
  const server = await start(t, await withDatabase(t));
  const [row] = await query(
    server.url('postgres'),
    `SELECT current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS commit,
            current_setting('full_page_writes') AS pages, current_setting('listen_addresses') AS listen,
            current_setting('unix_socket_directories') AS sockets`,
  );
  assert.deepEqual(row, { fsync: 'on', commit: 'on', pages: 'on', listen: '127.0.0.1', sockets: '' });
  const other = new URL(server.url('postgres'));
  other.password = 'guess';
  await assert.rejects(query(other.href, 'SELECT 1'), { code: '28P01' });
  assert.equal(fs.statSync(path.join(server.dataDir, 'password')).mode & 0o777, 0o600);
});

test(
  'D4: a killed postmaster is started again on the same port, with every committed row',
  limit,
  async (t) => {
    const server = await start(t, await withDatabase(t));
    const url = server.url('postgres');
    await query(url, 'CREATE TABLE kept (n int); INSERT INTO kept SELECT generate_series(1, 1000)');
    const { pid, port } = server;
    server.kill9();
    await until(
      () =>
        query(url, 'SELECT count(*)::int AS n FROM kept').then(
          (rows) => rows[0]?.n === 1000,
          () => false,
        ),
      'its rows',
    );
    await until(() => server.pid !== pid, 'another server');
    assert.equal(server.port, port);
    await server.stop();
    assert.equal(isAlive(server.pid), false);
  },
);

test('stop at any moment of a restart ends, and leaves nothing running', limit, async (t) => {
  const dataDir = await withDatabase(t);
  // From the wait before it over the launch itself to a server that is just up.
  for (const intoRestartMs of [0, 220, 260, 320, 450]) {
    const server = await start(t, dataDir);
    const { pid } = server;
    server.kill9();
    await until(() => !isAlive(pid), 'its end');
    await pause(intoRestartMs, 'a moment of the restart');
    await server.stop();
    assert.equal(isAlive(server.pid), false, `${intoRestartMs} ms into the restart`);
  }
  const again = await start(t, dataDir);
  assert.equal(again.adopted, false);
});

test(
  'D4: after kill -9 of the parent the orphan is adopted, with the same port and rows',
  limit,
  async (t) => {
    const dataDir = await withDatabase(t);
    const { child, line } = await startParent(t, dataDir);
    await query(line.url, 'CREATE TABLE kept AS SELECT 42 AS n');
    await killed(child);
    assert.equal(isAlive(line.pid), true);
    const server = await start(t, dataDir);
    assert.equal(server.adopted, true);
    assert.deepEqual([server.pid, server.port], [line.pid, line.port]);
    assert.deepEqual(await query(server.url('postgres'), 'SELECT n FROM kept'), [{ n: 42 }]);
    // An adopted server is supervised like any other.
    server.kill9();
    await until(() => server.pid !== line.pid, 'another server');
    assert.deepEqual(await query(server.url('postgres'), 'SELECT n FROM kept'), [{ n: 42 }]);
    await server.stop();
    assert.equal(isAlive(server.pid), false);
  },
);

test(
  'D4: an orphan that does not fit what is asked is stopped, and a fitting server started',
  limit,
  async (t) => {
    const dataDir = await withDatabase(t);
    const { child, line } = await startParent(t, dataDir);
    await killed(child);
    const server = await start(t, dataDir, { durable: false });
    assert.equal(server.adopted, false);
    assert.equal(isAlive(line.pid), false);
  },
);

test('a parent that leaves by an uncaught fault takes its server with it', limit, async (t) => {
  const { child, line } = await startParent(t, await withDatabase(t), 'exit');
  if (child.exitCode === null) await once(child, 'exit');
  await until(() => !isAlive(line.pid), 'its end');
});

test('a throw-away server ends with its process, even by kill -9', limit, async (t) => {
  const { child, line } = await startParent(t, await withDatabase(t), 'throw-away');
  assert.equal(isAlive(line.pid), true);
  await killed(child);
  await until(() => !isAlive(line.pid), 'its end');
});

test('a second Onsale on the folder of a live one is refused and harms nothing', limit, async (t) => {
  const dataDir = await withDatabase(t);
  const { line } = await startParent(t, dataDir);
  await assert.rejects(
    start(t, dataDir),
    (fault: PostgresFault) => fault.code === 'in_use' && /process \d+/.test(fault.message),
  );
  assert.equal((await query(line.url, 'SELECT 1 AS one'))[0]?.one, 1);
});

test(
  'a command next to a running Onsale finds its database, and none when there is none',
  limit,
  async (t) => {
    const dataDir = await withDatabase(t);
    const elsewhere = scratch(t);
    assert.equal(await runningPostgres({ dataDir }), undefined);
    const server = await start(t, dataDir);
    const found = await runningPostgres({ dataDir: elsewhere, fallbackDir: dataDir });
    assert.equal(found?.pid, server.pid);
    assert.equal(found?.url('postgres'), server.url('postgres'));
    await server.stop();
    assert.equal(await runningPostgres({ dataDir }), undefined);
  },
);

test('a stale lock file whose number now belongs to another program is no obstacle', limit, async (t) => {
  const dataDir = await withDatabase(t);
  await (await start(t, dataDir)).stop();
  const file = path.join(dataDir, 'cluster/postmaster.pid');
  fs.writeFileSync(file, `${process.pid}\n${dataDir}/cluster\n0\n5432\n`, { mode: 0o600 });
  const server = await start(t, dataDir);
  assert.equal(server.adopted, false);
});

test('an interrupted first start leaves nothing that a later one takes for a database', limit, async (t) => {
  const dataDir = scratch(t);
  fs.mkdirSync(path.join(dataDir, 'cluster.partial/base'), { recursive: true });
  fs.writeFileSync(path.join(dataDir, 'cluster.partial/PG_VERSION'), '18\n');
  const server = await start(t, dataDir);
  assert.equal((await query(server.url('postgres'), 'SELECT 1 AS one'))[0]?.one, 1);
  assert.equal(fs.existsSync(path.join(dataDir, 'cluster.partial')), false);
});

test('a port that is taken is a readable fault; one that we chose is chosen again', limit, async (t) => {
  const dataDir = await withDatabase(t);
  const server = await start(t, dataDir);
  const { port } = server;
  await server.stop();
  const blocker = net.createServer().listen(port, '127.0.0.1');
  t.after(() => void blocker.close());
  await once(blocker, 'listening');
  await assert.rejects(start(t, dataDir, { port }), { code: 'port_taken' });
  const other = await start(t, dataDir);
  assert.notEqual(other.port, port);
});

test('a server that cannot start says why, with its last words', limit, async (t) => {
  const dataDir = await withDatabase(t);
  const faulty = start(t, dataDir, { settings: { max_connections: 'many' } });
  await assert.rejects(
    faulty,
    (fault: PostgresFault) => fault.code === 'failed' && /max_connections/.test(fault.message),
  );
  fs.writeFileSync(path.join(dataDir, 'cluster/PG_VERSION'), '9\n');
  await assert.rejects(start(t, dataDir), { code: 'version' });
});

test('a lost password file is said, not replaced', limit, async (t) => {
  const dataDir = await withDatabase(t);
  await (await start(t, dataDir)).stop();
  fs.rmSync(path.join(dataDir, 'password'));
  await assert.rejects(start(t, dataDir), (fault: PostgresFault) => /password is gone/.test(fault.message));
});

test('as root, a folder under a closed one is refused when named, and kept elsewhere when it is ours', {
  ...limit,
  skip: isRoot ? false : 'the traps of root exist only as root',
}, async (t) => {
  const closed = scratch(t);
  fs.chmodSync(closed, 0o700);
  const dataDir = path.join(closed, 'data');
  await assert.rejects(start(t, dataDir), { code: 'unreachable' });
  const fallbackDir = path.join(scratch(t), 'kept');
  const server = await start(t, dataDir, { fallbackDir });
  assert.equal(server.dataDir, fallbackDir);
  assert.equal((await query(server.url('postgres'), 'SELECT 1 AS one'))[0]?.one, 1);
  assert.notEqual(fs.statSync(path.join(fallbackDir, 'cluster')).uid, 0);
});

test('the error is an Error with a code, never undefined', limit, async (t) => {
  const file = path.join(scratch(t), 'file');
  fs.writeFileSync(file, '');
  await assert.rejects(
    start(t, path.join(file, 'data')),
    (fault) => fault instanceof PostgresFault && fault.code === 'permission',
  );
});
