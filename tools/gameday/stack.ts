import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createDb, type Db } from '../../src/postgres/db.ts';
import { runningPostgres } from '../../src/postgres/server.ts';
import { freePort } from '../../src/redis/launch.ts';
import type { Clock } from '../../src/runtime/clock.ts';
import type { Logger } from '../../src/runtime/log.ts';
import { projectDir } from '../../src/runtime/project-dir.ts';
import { type GameRedis, startGameRedis } from './servers.ts';

/** A whole installation of its own in a folder of its own: Postgres, payment simulator, Redis servers, one `onsale start`. */
export interface Stack {
  url: string;
  db: Db;
  /** `default` first. */
  redis: readonly GameRedis[];
  /** Runs one of our commands on this installation. Returns its output and exit code. */
  run(args: readonly string[]): Promise<{ code: number | null; stdout: string; stderr: string }>;
  /** Whether the servers' process is still the one that was started. */
  alive(): boolean;
  /** Last lines of the servers' log. */
  log(): string;
  folder: string;
  stop(): Promise<void>;
}

export interface StackOptions {
  /** redis-server or valkey-server. */
  binary: string;
  /** Names of Redis servers other than the default one. */
  others: readonly string[];
  clock: Clock;
  log: Logger;
  /** The folder stays when it is over. */
  keep: boolean;
}

const readyWithinMs = 90_000;
const stopWithinMs = 20_000;
const logTail = 3_000;

export async function startStack(options: StackOptions): Promise<Stack> {
  const { clock } = options;
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-gameday-'));
  // The embedded Postgres runs as a user of its own when we are root, and has to get there.
  fs.chmodSync(folder, 0o711);
  const closing: (() => Promise<void>)[] = [];
  const stop = async (): Promise<void> => {
    for (const close of closing.splice(0).reverse()) await close().catch(() => {});
    if (!options.keep) fs.rmSync(folder, { recursive: true, force: true });
  };
  try {
    const redis: GameRedis[] = [];
    for (const name of ['default', ...options.others]) {
      const started = await startGameRedis({ name, binary: options.binary, folder, clock });
      closing.push(() => started.stop());
      redis.push(started);
    }
    const dataDir = path.join(folder, 'data');
    fs.mkdirSync(dataDir, { mode: 0o711 });
    const port = await freePort();
    const env = environment(dataDir, port, redis);
    const url = `http://127.0.0.1:${port}`;
    const served = await serve(url, env, clock, path.join(folder, 'server.log'));
    closing.push(() => served.stop());
    const postgres = await runningPostgres({ dataDir: path.join(dataDir, 'postgres') });
    if (!postgres) throw new Error(`the private Postgres was not found:\n${served.log()}`);
    const db = createDb({
      url: postgres.url('onsale'),
      poolSize: 4,
      clock,
      log: options.log,
      applicationName: 'onsale gameday',
      statementTimeoutMs: 60_000,
    });
    closing.push(() => db.close());
    return {
      url,
      db,
      redis,
      folder,
      alive: served.alive,
      log: served.log,
      stop,
      run: (args) => runCommand(args, env),
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function environment(dataDir: string, port: number, redis: readonly GameRedis[]): NodeJS.ProcessEnv {
  // Nothing of the caller's own installation gets in.
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^(ONSALE_|STRIPE_|DATABASE_URL$|REDIS_URL$|PORT$|HOST$)/.test(name),
  );
  const [first, ...others] = redis;
  return {
    ...Object.fromEntries(inherited),
    ONSALE_DATA_DIR: dataDir,
    ONSALE_LOG_LEVEL: 'warn',
    PORT: String(port),
    REDIS_URL: first!.url,
    ...(others.length > 0
      ? { ONSALE_REDIS_SERVERS: others.map(({ name, url }) => `${name}=${url}`).join(';') }
      : {}),
  };
}

interface Served {
  alive(): boolean;
  log(): string;
  stop(): Promise<void>;
}

/** All that it says goes to `logFile`; the end of it, without what a round is about, can be asked for. */
async function serve(url: string, env: NodeJS.ProcessEnv, clock: Clock, logFile: string): Promise<Served> {
  const child = spawn(process.execPath, ['bin/onsale.mjs', 'start', '--no-demo'], {
    cwd: projectDir,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    // Ctrl-C goes to us alone; we end it in order.
    detached: true,
  });
  let text = '';
  const keep = (chunk: Buffer): void => {
    // "Not now" is what a round is about, and is counted elsewhere.
    const lines = String(chunk)
      .split('\n')
      .filter((line) => !line.includes('"msg":"busy"'));
    text = (text + lines.join('\n')).slice(-logTail);
    fs.appendFileSync(logFile, chunk);
  };
  child.stdout.on('data', keep);
  child.stderr.on('data', keep);
  const alive = (): boolean => child.exitCode === null && child.signalCode === null;
  const served: Served = { alive, log: () => text, stop: () => endChild(child, alive, clock) };
  const until = clock.monotonic() + readyWithinMs;
  for (;;) {
    if (!alive()) throw new Error(`onsale start ended with ${child.exitCode}:\n${text}`);
    const ready = await fetch(`${url}/healthz`).then(
      (answer) => answer.ok,
      () => false,
    );
    if (ready) return served;
    if (clock.monotonic() > until) {
      await served.stop();
      throw new Error(`onsale start did not answer:\n${text}`);
    }
    await clock.sleep(50);
  }
}

async function endChild(child: ChildProcess, alive: () => boolean, clock: Clock): Promise<void> {
  if (!alive()) return;
  const gone = once(child, 'exit');
  child.kill('SIGTERM');
  const cancel = clock.after(stopWithinMs, () => child.kill('SIGKILL'));
  await gone;
  cancel();
}

async function runCommand(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const child = spawn(process.execPath, ['bin/onsale.mjs', ...args], {
    cwd: projectDir,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const texts = { stdout: '', stderr: '' };
  child.stdout.on('data', (chunk: Buffer) => {
    texts.stdout += String(chunk);
  });
  child.stderr.on('data', (chunk: Buffer) => {
    texts.stderr += String(chunk);
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, ...texts };
}
