import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { asUser, findBinaries, serverUser } from '../../src/postgres/install.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { cleanEnvironment } from '../../src/runtime/private-server.ts';
import { freePort } from '../support/server-process.ts';

/** A Postgres as an operator has it: made by initdb, with default settings and without a supervisor. */
export interface OwnPostgres {
  readonly version: string;
  url: string;
  /** `fast` ends sessions in order, as a restart by a package update does; `immediate` is a crash. */
  stop(how: 'fast' | 'immediate'): Promise<void>;
  /** On the same port and data; resolves when it takes connections. */
  start(): Promise<void>;
}

const debianBinDir = '/usr/lib/postgresql/15/bin';
const database = 'onsale';

/** Debian's Postgres 15 where it is installed, else the embedded one's program. */
export async function startOwnPostgres(folder: string): Promise<OwnPostgres> {
  const dir = path.join(folder, 'postgres');
  const wanted = process.env.ONSALE_TEST_POSTGRES_BIN || debianBinDir;
  const user = serverUser(path.join(dir, 'cluster'), silentLogger);
  fs.mkdirSync(dir, { mode: 0o711 });
  const { binDir } = findBinaries({
    binDir: fs.existsSync(wanted) ? wanted : undefined,
    user,
    copyTo: dir,
    log: silentLogger,
  });
  if (user) fs.chownSync(dir, user.uid, user.gid);
  const cluster = path.join(dir, 'cluster');
  const options = { cwd: dir, env: cleanEnvironment(), ...asUser(user) };
  const init = ['-D', cluster, '-U', 'onsale', '-A', 'trust', '-E', 'UTF8', '--locale=C'];
  await promisify(execFile)(path.join(binDir, 'initdb'), init, options);
  const port = await freePort();
  const urlOf = (name: string): string => `postgres://onsale@127.0.0.1:${port}/${name}`;
  let running: ChildProcess | null = null;

  async function start(): Promise<void> {
    const output = fs.openSync(path.join(dir, 'server.log'), 'a');
    // Sets only where the server listens. Two clusters on one machine differ in that, too.
    const where = [
      '-c',
      `port=${port}`,
      '-c',
      'listen_addresses=127.0.0.1',
      '-c',
      'unix_socket_directories=',
    ];
    running = spawn(path.join(binDir, 'postgres'), ['-D', cluster, ...where], {
      ...options,
      stdio: ['ignore', output, output],
    });
    fs.closeSync(output);
    const end = systemClock.monotonic() + 60_000;
    while (!(await ask(urlOf('postgres'), 'SELECT 1').catch(() => null))) {
      if (running.exitCode !== null || systemClock.monotonic() > end)
        throw new Error('Postgres did not start');
      await systemClock.sleep(50);
    }
  }

  async function stop(how: 'fast' | 'immediate'): Promise<void> {
    if (!running || running.exitCode !== null || running.signalCode !== null) return;
    const gone = once(running, 'exit');
    running.kill(how === 'fast' ? 'SIGINT' : 'SIGQUIT');
    await gone;
  }

  await start();
  await ask(urlOf('postgres'), `CREATE DATABASE ${database}`);
  const [row] = await ask(urlOf('postgres'), 'SHOW server_version');
  return { version: row!.server_version!, url: urlOf(database), stop, start };
}

async function ask(url: string, sql: string): Promise<Record<string, string>[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
  client.on('error', () => {});
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}
