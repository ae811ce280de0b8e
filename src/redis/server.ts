import fs from 'node:fs';
import path from 'node:path';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import { claimFolder, FolderInUse, isAlive, processIdentity, signal } from '../runtime/private-server.ts';
import { type Random, systemRandom } from '../runtime/random.ts';
import {
  askRedis,
  freePort,
  infoFields,
  launchRedis,
  type RedisProcess,
  stopRedisProcess,
} from './launch.ts';
import { RedisServerFault, requireRedis } from './program.ts';

export interface RedisServerOptions {
  /** Our folder: made if missing; holds the server's settings, password and log. */
  dataDir: string;
  /** Default: the last run's port if it is free, else any free one. */
  port?: number;
  /** Further settings by their name in redis.conf: they win over ours. */
  settings?: Record<string, string | number>;
  log: Logger;
  clock: Clock;
  random?: Random;
  /** Told once when the server died and could not be brought back. Nothing is lost: Postgres arbitrates. */
  onFailure?: (fault: Error) => void;
}

export interface RedisServer {
  /** redis://… on 127.0.0.1, with the password inside: never log it. It stays the same over restarts. */
  readonly url: string;
  readonly port: number;
  /** Pid of the current run, or of the last one. */
  readonly pid: number;
  readonly runId: string;
  /** Ends it. Repeat calls get the same promise. */
  stop(): Promise<void>;
  /** For trying what its loss does: killed at once, and gone until `start`. */
  kill(): Promise<void>;
  /** Suspends the server: connections stay open and nothing answers. `thaw` resumes it. */
  freeze(): void;
  thaw(): void;
  /** After `kill`: the same address, an empty memory. */
  start(): Promise<void>;
}

const restartDelayMs = 100;
const restartsMax = 5;
const restartsWindowMs = 60_000;
const adoptedPollMs = 250;

interface Files {
  home: string;
  password: string;
  /** Which process serves this folder, for the one that comes after a kill. */
  server: string;
}

/**
 * Starts a private Redis (or Valkey) and keeps it running until `stop`: on 127.0.0.1 only, behind a generated password, nothing
 * saved, nothing evicted. The program must be on the PATH.
 *
 * Throws RedisServerFault, whose message says what to do.
 */
export async function startRedis(options: RedisServerOptions): Promise<RedisServer> {
  const { clock, log, settings } = options;
  const begun = await begin(options);
  const { binary, files, password } = begun;
  let { running } = begun;
  const { port } = running;
  let stopping: Promise<void> | undefined;
  let down = false;
  // Whatever ends this process short of SIGKILL takes the server with it.
  const onProcessExit = (): void => signal(running.pid, 'SIGKILL');
  process.once('exit', onProcessExit);

  const relaunch = async (): Promise<void> => {
    running = await launchRedis({ binary, dir: files.home, port, password, settings, clock });
    remember(files, running);
  };
  let supervised: Promise<void> = Promise.resolve();
  const supervise = async (): Promise<void> => {
    const restarts: number[] = [];
    for (;;) {
      await running.exited;
      if (stopping || down) return;
      const now = clock.monotonic();
      restarts.push(now);
      while (restarts[0]! < now - restartsWindowMs) restarts.shift();
      if (restarts.length > restartsMax)
        throw new RedisServerFault('failed', 'The private Redis keeps ending.');
      log.warn({ pid: running.pid }, 'the private Redis ended by itself and is started again');
      await clock.sleep(restartDelayMs);
      if (stopping || down) return;
      await relaunch();
      // It was stopped while it was being started.
      if (stopping || down) signal(running.pid, 'SIGKILL');
    }
  };
  const watch = (): void => {
    supervised = supervise().catch((error: Error) => {
      log.error({ reason: error.message }, 'the private Redis is gone: Postgres arbitrates');
      options.onFailure?.(error);
    });
  };
  watch();

  const stopOnce = async (): Promise<void> => {
    await stopRedisProcess(running, clock);
    // A restart may be under way: it must not slip out of the stop.
    await supervised;
    process.removeListener('exit', onProcessExit);
    begun.release();
  };
  return {
    url: urlOf(port, password),
    port,
    get pid() {
      return running.pid;
    },
    get runId() {
      return running.runId;
    },
    stop: () => {
      stopping ??= stopOnce();
      return stopping;
    },
    kill: async () => {
      down = true;
      await stopRedisProcess(running, clock, 'killed');
      await supervised;
    },
    freeze: () => signal(running.pid, 'SIGSTOP'),
    thaw: () => signal(running.pid, 'SIGCONT'),
    start: async () => {
      if (!down || stopping) return;
      await relaunch();
      down = false;
      watch();
    },
  };
}

interface Begun {
  binary: string;
  files: Files;
  password: string;
  running: RedisProcess;
  /** Gives the folder free. */
  release(): void;
}

async function begin(options: RedisServerOptions): Promise<Begun> {
  const { clock, log, random = systemRandom } = options;
  const binary = requireRedis();
  const files = filesOf(options.dataDir);
  makeHome(files.home);
  const release = claim(files.home);
  try {
    const password = readOrMakePassword(files, random);
    await endLeftOver(files, clock, log);
    const running = await launchOnPort(binary, files, password, options);
    return { binary, files, password, running, release };
  } catch (error) {
    release();
    throw error;
  }
}

/**
 * Returns the server that a live Onsale, or one that was killed, runs on this folder; for commands that run at the same time.
 */
export async function runningRedis(
  dataDir: string,
): Promise<{ url: string; port: number; pid: number } | undefined> {
  const files = filesOf(dataDir);
  if (!fs.existsSync(files.password)) return undefined;
  const password = fs.readFileSync(files.password, 'utf8').trim();
  const known = aliveOne(files);
  if (!known || (await runIdAt(known.port, password)) !== known.runId) return undefined;
  return { url: urlOf(known.port, password), port: known.port, pid: known.pid };
}

function filesOf(dataDir: string): Files {
  const home = path.resolve(dataDir);
  return { home, password: path.join(home, 'password'), server: path.join(home, 'server.json') };
}

function makeHome(home: string): void {
  try {
    fs.mkdirSync(home, { recursive: true, mode: 0o700 });
    fs.accessSync(home, fs.constants.W_OK);
  } catch (error) {
    const { message } = error as Error;
    throw new RedisServerFault('permission', `The folder ${home} cannot be written: ${message}`, error);
  }
}

/** Every program on the machine can reach 127.0.0.1, and a client of Redis can write files as its user. */
function readOrMakePassword(files: Files, random: Random): string {
  if (fs.existsSync(files.password)) return fs.readFileSync(files.password, 'utf8').trim();
  const password = Buffer.from(random.bytes(24)).toString('base64url');
  fs.writeFileSync(files.password, `${password}\n`, { mode: 0o600 });
  return password;
}

interface Remembered {
  pid: number;
  /** See processIdentity: numbers are given again. */
  identity: string;
  port: number;
  runId: string;
}

function remember(files: Files, { pid, port, runId }: RedisProcess): void {
  const known: Remembered = { pid, identity: processIdentity(pid), port, runId };
  fs.writeFileSync(files.server, JSON.stringify(known), { mode: 0o600 });
}

function readRemembered(files: Files): Remembered | undefined {
  try {
    const known: Remembered = JSON.parse(fs.readFileSync(files.server, 'utf8'));
    return Number.isInteger(known.pid) && known.pid > 1 ? known : undefined;
  } catch {
    return undefined;
  }
}

function aliveOne(files: Files): Remembered | undefined {
  const known = readRemembered(files);
  return known && isAlive(known.pid) && processIdentity(known.pid) === known.identity ? known : undefined;
}

/** Ends the server that a killed process of ours left running. Nothing is lost with it: Postgres has what was decided. */
async function endLeftOver(files: Files, clock: Clock, log: Logger): Promise<void> {
  const left = aliveOne(files);
  if (!left) return;
  log.info({ pid: left.pid }, 'stopping the Redis of an earlier run that was killed');
  await stopRedisProcess({ ...left, exited: goneByPolling(left.pid, clock) }, clock);
}

async function launchOnPort(
  binary: string,
  files: Files,
  password: string,
  options: RedisServerOptions,
): Promise<RedisProcess> {
  const { settings, clock } = options;
  const last = readRemembered(files)?.port;
  for (let attempt = 1; ; attempt += 1) {
    const port = options.port ?? (await freePort(attempt === 1 ? last : 0));
    try {
      const started = await launchRedis({ binary, dir: files.home, port, password, settings, clock });
      remember(files, started);
      return started;
    } catch (error) {
      // Another program took the port after it was found free.
      const taken = error instanceof RedisServerFault && error.code === 'port_taken';
      if (!taken || options.port !== undefined || attempt >= restartsMax) throw error;
    }
  }
}

async function runIdAt(port: number, password: string): Promise<string | undefined> {
  const info = await askRedis({ port, password }, ['info', 'server']).catch(() => '');
  return infoFields(String(info)).run_id;
}

async function goneByPolling(pid: number, clock: Clock): Promise<void> {
  // The process is not our child, so its end is not reported. `after` does not keep our process alive for this watch alone.
  while (isAlive(pid)) await new Promise<void>((resolve) => void clock.after(adoptedPollMs, resolve));
}

function urlOf(port: number, password: string): string {
  return `redis://:${password}@127.0.0.1:${port}`;
}

function claim(home: string): () => void {
  try {
    return claimFolder(home);
  } catch (error) {
    if (!(error instanceof FolderInUse)) throw error;
    throw new RedisServerFault('in_use', error.message, error);
  }
}
