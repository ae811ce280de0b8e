import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { Redis } from 'ioredis';
import { exitOf } from '../runtime/child-exit.ts';
import type { Clock } from '../runtime/clock.ts';
import { cleanEnvironment, isAlive, signal } from '../runtime/private-server.ts';
import { RedisServerFault } from './program.ts';

export interface RedisLaunch {
  /** redis-server or valkey-server. */
  binary: string;
  /** The server's own folder, which exists: its settings, its log and what it saves. */
  dir: string;
  port: number;
  password?: string;
  /** Further settings by their name in redis.conf: they win over ours. */
  settings?: Record<string, string | number>;
  clock: Clock;
}

/** One running server of ours. */
export interface RedisProcess {
  readonly pid: number;
  readonly port: number;
  /** Redis's own name of this run: another after each start. */
  readonly runId: string;
  /** Resolves when it is gone. */
  readonly exited: Promise<void>;
}

const readyTimeoutMs = 30_000;
const readyPollMs = 10;
/** Nothing has to be saved, so a second is plenty. */
const stopMs = 1_000;
const goneMs = 5_000;

/** Starts a server on 127.0.0.1 and waits until it answers, its saved data loaded. Throws RedisServerFault. */
export async function launchRedis(launch: RedisLaunch): Promise<RedisProcess> {
  const log = path.join(launch.dir, 'server.log');
  fs.rmSync(log, { force: true });
  const settings = path.join(launch.dir, 'redis.conf');
  // A file, because every user of the machine may read the arguments of a process.
  fs.writeFileSync(settings, settingsText(launch, log), { mode: 0o600 });
  // Detached: Ctrl-C in a terminal signals the whole group, and the server must outlive our own drain.
  const child: ChildProcess = spawn(launch.binary, [settings], {
    cwd: launch.dir,
    detached: true,
    env: cleanEnvironment(),
    stdio: 'ignore',
  });
  const { exited, isGone } = exitOf(child);
  child.unref();
  const { pid } = child;
  if (!pid) throw new RedisServerFault('failed', `${launch.binary} could not be run.`);
  try {
    const runId = await untilReady(launch, pid, isGone, log);
    return { pid, port: launch.port, runId, exited };
  } catch (error) {
    if (!isGone()) signal(pid, 'SIGKILL');
    throw error;
  }
}

function settingsText(launch: RedisLaunch, log: string): string {
  const quoted = (text: string): string => `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
  const settings: Record<string, string | number> = {
    bind: '127.0.0.1',
    port: launch.port,
    'protected-mode': 'yes',
    daemonize: 'no',
    dir: quoted(launch.dir),
    logfile: quoted(log),
    // Its data is a cache of Postgres: a stale file would be distrusted anyway.
    save: '""',
    appendonly: 'no',
    // Evicting one of our keys would free seats that are held; a full server has to say so.
    'maxmemory-policy': 'noeviction',
    // Short hashes are scanned from end to end. Both Redis and Valkey of all versions take this older name.
    'hash-max-ziplist-entries': 32,
    ...(launch.password ? { requirepass: launch.password, masterauth: launch.password } : {}),
    ...launch.settings,
  };
  return `${Object.entries(settings)
    .map(([name, value]) => `${name} ${value}`)
    .join('\n')}\n`;
}

async function untilReady(
  launch: RedisLaunch,
  pid: number,
  gone: () => boolean,
  log: string,
): Promise<string> {
  const { clock, port, password } = launch;
  const deadline = clock.monotonic() + readyTimeoutMs;
  for (;;) {
    if (gone()) throw faultFromLog(log);
    const info = await askRedis({ port, password }, ['info']).catch(() => null);
    const fields = infoFields(String(info ?? ''));
    if (fields.process_id && Number(fields.process_id) !== pid) {
      throw new RedisServerFault('port_taken', `Port ${port} answers for another Redis.`);
    }
    if (fields.run_id && fields.loading === '0') return fields.run_id;
    if (clock.monotonic() > deadline)
      throw new RedisServerFault('failed', `The private Redis did not answer within ${readyTimeoutMs} ms.`);
    await clock.sleep(readyPollMs);
  }
}

function faultFromLog(log: string): RedisServerFault {
  const text = fs.existsSync(log) ? fs.readFileSync(log, 'utf8') : '';
  const code = /Address already in use|Failed listening on port/i.test(text) ? 'port_taken' : 'failed';
  const lines = text.trim().split('\n').slice(-5).join('\n  ');
  return new RedisServerFault(
    code,
    `The private Redis ended while starting. ${lines ? `It said last:\n  ${lines}` : 'It said nothing.'}`,
  );
}

/** The `name:value` lines of INFO and of CLUSTER INFO. */
export function infoFields(text: string): Record<string, string> {
  return Object.fromEntries(
    text.split('\n').flatMap((line) => {
      const colon = line.indexOf(':');
      return colon > 0 ? [[line.slice(0, colon), line.slice(colon + 1).trim()]] : [];
    }),
  );
}

/** One command on a connection of its own to a server on this machine. */
export async function askRedis(
  at: { port: number; password?: string },
  command: readonly (string | number)[],
  timeoutMs = 2_000,
): Promise<unknown> {
  const client = new Redis({
    host: '127.0.0.1',
    port: at.port,
    password: at.password,
    lazyConnect: true,
    retryStrategy: () => null,
    enableOfflineQueue: false,
    enableReadyCheck: false,
    disableClientInfo: true,
    connectTimeout: timeoutMs,
    commandTimeout: timeoutMs,
  });
  client.on('error', () => {});
  try {
    await client.connect();
    const [name = '', ...args] = command;
    return await client.call(String(name), args);
  } finally {
    client.disconnect();
  }
}

/**
 * Ends a process by its pid: first by a signal, then by killing it if it does not end in time (for example because it is
 * frozen). `killed` kills it at once.
 */
export async function stopRedisProcess(
  running: Pick<RedisProcess, 'pid' | 'exited'>,
  clock: Clock,
  how: 'asked' | 'killed' = 'asked',
): Promise<void> {
  const steps = [
    ['SIGTERM', stopMs],
    ['SIGKILL', goneMs],
  ] as const;
  for (const [name, waitMs] of how === 'asked' ? steps : steps.slice(1)) {
    if (!isAlive(running.pid)) return;
    signal(running.pid, name);
    // Watching a child does not keep this process alive; the sleep does.
    const patience = new AbortController();
    const quiet = clock.sleep(waitMs, patience.signal).catch(() => {});
    const ended = await Promise.race([running.exited.then(() => true), quiet.then(() => false)]);
    patience.abort();
    if (ended) return;
  }
}

/**
 * A temporary server ends with its process, however the process dies: a shell next to it reads from us until our end of the
 * pipe closes.
 */
export function endWithParent(running: RedisProcess): void {
  const watch = spawn('/bin/sh', ['-c', 'read -r _; kill -KILL "$0"', String(running.pid)], {
    cwd: '/',
    // Ctrl-C signals our whole group; the watch has to outlive it.
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  watch.on('error', () => {});
  watch.unref();
  (watch.stdin as net.Socket).unref();
  void running.exited.then(() => watch.kill('SIGKILL'));
}

/** `preferred` if it is free, else any free one. */
export async function freePort(preferred = 0): Promise<number> {
  const port = (preferred > 0 ? await portIfFree(preferred) : undefined) ?? (await portIfFree(0));
  if (port === undefined) throw new RedisServerFault('port_taken', 'No port is free on 127.0.0.1.');
  return port;
}

export function portIfFree(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const probe = net.createServer();
    probe.once('error', () => resolve(undefined));
    probe.listen(port, '127.0.0.1', () => {
      const address = probe.address() as net.AddressInfo;
      probe.close(() => resolve(address.port));
    });
  });
}
