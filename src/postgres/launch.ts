import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import pg from 'pg';
import { exitOf } from '../runtime/child-exit.ts';
import type { Clock } from '../runtime/clock.ts';
import { cleanEnvironment, isAlive, signal } from '../runtime/private-server.ts';
import {
  type ClusterFiles,
  faultFromLog,
  isPostgres,
  readPostmaster,
  removePostmasterFile,
} from './cluster.ts';
import { asUser, type Binaries, PostgresFault, type ServerUser } from './install.ts';
import type { PostgresOptions } from './options.ts';

const readyTimeoutMs = 300_000;
const readyPollMs = 15;
const stopFastMs = 10_000;
const stopImmediateMs = 5_000;
const adoptedPollMs = 500;
export const restartsMax = 5;
export const restartDelayMs = 100;
const logBytesMax = 4 * 1024 * 1024;

/** One postmaster, ours or adopted. */
export interface Running {
  pid: number;
  port: number;
  adopted: boolean;
  /** Resolves when the postmaster is gone. */
  exited: Promise<void>;
}

/** The input of a launch. */
export interface Launch {
  options: PostgresOptions;
  files: ClusterFiles;
  binaries: Binaries;
  user: ServerUser;
  password: string;
}

/** The server of an earlier process of ours, if it lives and fits what is asked; stopped if it does not fit. */
export async function adopt(context: Launch): Promise<Running | undefined> {
  const { files, options } = context;
  const found = readPostmaster(files.cluster);
  if (!found) return undefined;
  if (!isAlive(found.pid) || !isPostgres(found.pid)) {
    // Postgres itself refuses to start when the number in its file has gone to any other live program.
    removePostmasterFile(files.cluster);
    return undefined;
  }
  const running: Running = { ...found, adopted: true, exited: goneByPolling(found.pid, options.clock) };
  const answer = await ask(urlOf(context, found.port, 'postgres'), whereQuery).catch(() => undefined);
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

export const whereQuery = `SELECT current_setting('data_directory') AS data_directory, current_setting('fsync') AS fsync`;

/** Starts a server and waits until it answers: on `samePort`, the port asked for, the last one or any. */
export async function launch(context: Launch, samePort?: number): Promise<Running> {
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
      // Another program took the port after it was found free.
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

async function launchOn(context: Launch, port: number): Promise<Running> {
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

async function launchOnce(context: Launch, port: number): Promise<Running> {
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
  const { exited, isGone } = exitOf(child);
  child.unref();
  const pid = child.pid;
  if (!pid) throw new PostgresFault('failed', `${binaries.binDir}/postgres could not be run.`);
  const running: Running = { pid, port, adopted: false, exited };
  if (!options.durable) endWithParent(running, user);
  try {
    await waitUntilReady(context, running, isGone, logStart);
  } catch (error) {
    if (!isGone()) await stopServer(running, options.clock);
    throw error;
  }
  return running;
}

/**
 * A temporary server ends with its process, however the process dies, because no later process would adopt it: a shell next to
 * it reads from us until our end of the pipe closes.
 */
function endWithParent(running: Running, user: ServerUser): void {
  const watch = spawn('/bin/sh', ['-c', 'read -r _; kill -INT "$0"', String(running.pid)], {
    cwd: '/',
    // Ctrl-C signals our whole group; the watch has to outlive it.
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    ...asUser(user),
  });
  watch.on('error', () => {});
  watch.unref();
  (watch.stdin as net.Socket).unref();
  void running.exited.then(() => watch.kill('SIGKILL'));
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
    // A rejected statement is reported to its client. If it were also written here, the conflicts of an on-sale would fill the
    // disk.
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
  context: Launch,
  running: Running,
  gone: () => boolean,
  logStart: number,
): Promise<void> {
  const { files, options } = context;
  const deadline = options.clock.monotonic() + readyTimeoutMs;
  let reportedAt = options.clock.monotonic();
  for (;;) {
    if (gone()) throw faultFromLog('the server ended while starting', readLogFrom(files, logStart));
    try {
      const answer = await ask(urlOf(context, running.port, 'postgres'), whereQuery);
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
    if (now - reportedAt > 5000) {
      reportedAt = now;
      options.log.info('Postgres is still recovering from its last end');
    }
    await options.clock.sleep(readyPollMs);
  }
}

/** One statement on a connection of its own; its first row. */
export async function ask(url: string, sql: string): Promise<Record<string, string> | undefined> {
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

export function urlOf(context: Pick<Launch, 'password'>, port: number, database: string): string {
  return `postgres://onsale:${context.password}@127.0.0.1:${port}/${encodeURIComponent(database)}`;
}

/** Fast, then immediate, then killed. */
export async function stopServer(running: Running, clock: Clock): Promise<void> {
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
  // The process is not our child, so its end is not reported. `after` does not keep our process alive for this watch alone.
  while (isAlive(pid)) await new Promise<void>((resolve) => void clock.after(adoptedPollMs, resolve));
}

function rotateLog(files: ClusterFiles): void {
  const size = fs.statSync(files.log, { throwIfNoEntry: false })?.size ?? 0;
  if (size > logBytesMax) fs.renameSync(files.log, `${files.log}.old`);
}

function readLogFrom(files: ClusterFiles, start: number): string {
  return fs.existsSync(files.log) ? fs.readFileSync(files.log).subarray(start).toString('utf8') : '';
}

export function readLogTail(files: ClusterFiles): string {
  return readLogFrom(files, 0).slice(-4000);
}
