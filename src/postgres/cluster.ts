import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { cleanEnvironment } from '../runtime/private-server.ts';
import type { Random } from '../runtime/random.ts';
import { asUser, type Binaries, PostgresFault, type ServerUser } from './install.ts';

/** The files of one private server: `cluster` is the folder of Postgres itself, the other files are ours. */
export interface ClusterFiles {
  home: string;
  cluster: string;
  password: string;
  log: string;
  /** The port of the last run: kept, so that a printed address stays right after a restart. */
  port: string;
}

export function clusterFiles(home: string): ClusterFiles {
  const at = (name: string): string => path.join(home, name);
  return {
    home,
    cluster: at('cluster'),
    password: at('password'),
    log: at('server.log'),
    port: at('port'),
  };
}

/** The server's user must pass through the folder, and see nothing in it. */
export function makeHome(home: string): void {
  try {
    fs.mkdirSync(home, { recursive: true, mode: 0o711 });
    fs.accessSync(home, fs.constants.W_OK);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new PostgresFault(
      code === 'ENOSPC' ? 'disk_full' : 'permission',
      `The data folder ${home} cannot be written: ${message}`,
      error,
    );
  }
}

/** Scram on loopback with a password only we can read: on a shared machine, trust would let everybody in. */
export function readOrMakePassword(files: ClusterFiles, random: Random): string {
  if (fs.existsSync(files.password)) return fs.readFileSync(files.password, 'utf8').trim();
  if (fs.existsSync(files.cluster)) {
    throw new PostgresFault(
      'permission',
      `${files.password} is gone, so nobody can sign in to the database beside it. Put the file back, or move the ` +
        'folder away to begin with an empty database.',
    );
  }
  const password = Buffer.from(random.bytes(24)).toString('base64url');
  fs.writeFileSync(files.password, `${password}\n`, { mode: 0o600 });
  return password;
}

/** Makes the cluster if there is none; a half-made one of an interrupted start is removed first. */
export async function ensureCluster(options: {
  files: ClusterFiles;
  binaries: Binaries;
  user: ServerUser;
  password: string;
  durable: boolean;
}): Promise<'made' | 'existing'> {
  const { files, binaries, user } = options;
  for (const name of fs.readdirSync(files.home)) {
    if (name.startsWith('cluster.partial')) fs.rmSync(path.join(files.home, name), { recursive: true });
  }
  if (fs.existsSync(files.cluster)) {
    const major = Number(fs.readFileSync(path.join(files.cluster, 'PG_VERSION'), 'utf8'));
    if (major === binaries.major) return 'existing';
    throw new PostgresFault(
      'version',
      `The database in ${files.cluster} was made by Postgres ${major}, the programs here are ${binaries.major}. ` +
        `Dump it with Postgres ${major} and load it into a new folder, or keep using ${major}.`,
    );
  }
  const partial = `${files.cluster}.partial`;
  const passwordFile = path.join(files.home, 'cluster.partial.password');
  fs.mkdirSync(partial, { mode: 0o700 });
  fs.writeFileSync(passwordFile, options.password, { mode: 0o600 });
  if (user) {
    fs.chownSync(partial, user.uid, user.gid);
    fs.chownSync(passwordFile, user.uid, user.gid);
  }
  const arguments_ = ['-D', partial, '-U', 'onsale', '--auth=scram-sha-256', `--pwfile=${passwordFile}`];
  arguments_.push('--encoding=UTF8', '--data-checksums', ...localeFlags(binaries.major));
  if (!options.durable) arguments_.push('--no-sync');
  try {
    await run(path.join(binaries.binDir, 'initdb'), arguments_, files.home, user);
    fs.renameSync(partial, files.cluster);
  } catch (error) {
    fs.rmSync(partial, { recursive: true, force: true });
    throw error;
  } finally {
    fs.rmSync(passwordFile, { force: true });
  }
  return 'made';
}

/**
 * Characters sort in the same order on every machine, whatever its locale. Since version 17, Postgres has a
 * locale provider of its own for this.
 */
function localeFlags(major: number): string[] {
  if (major >= 17) return ['--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--locale=C'];
  return [process.platform === 'linux' ? '--locale=C.UTF-8' : '--locale=C'];
}

async function run(program: string, arguments_: string[], cwd: string, user: ServerUser): Promise<void> {
  const output: string[] = [];
  const status = await new Promise<string>((resolve, reject) => {
    const child = spawn(program, arguments_, {
      cwd,
      env: cleanEnvironment(),
      stdio: ['ignore', 'pipe', 'pipe'],
      ...asUser(user),
    });
    child.stdout.on('data', (chunk) => output.push(String(chunk)));
    child.stderr.on('data', (chunk) => output.push(String(chunk)));
    child.on('error', reject);
    child.on('close', (code, signal) => resolve(signal ?? String(code)));
  });
  if (status === '0') return;
  throw faultFromLog(`${path.basename(program)} ended with ${status}`, output.join(''));
}

/** Turns what the server wrote before it ended into one readable fault. */
export function faultFromLog(what: string, text: string): PostgresFault {
  const lines = text.trim().split('\n').slice(-8).join('\n  ');
  const detail = lines ? `It said last:\n  ${lines}` : 'It said nothing.';
  if (/No space left on device|Disk quota exceeded/.test(text)) {
    return new PostgresFault('disk_full', `The disk is full: ${what}. ${detail}`);
  }
  if (/could not bind|Address already in use/.test(text)) {
    return new PostgresFault('port_taken', `The database port is taken: ${what}. ${detail}`);
  }
  if (/lock file ".*" already exists|pre-existing shared memory block/.test(text)) {
    return new PostgresFault('in_use', `Another Postgres still uses this folder: ${what}. ${detail}`);
  }
  if (/Permission denied|has wrong ownership|invalid permissions/.test(text)) {
    return new PostgresFault('permission', `Postgres may not use its folder: ${what}. ${detail}`);
  }
  return new PostgresFault('failed', `Postgres did not start: ${what}. ${detail}`);
}

/** Returns the contents of postmaster.pid about the server that runs, or ran, on this cluster. */
export function readPostmaster(cluster: string): { pid: number; port: number } | undefined {
  const file = path.join(cluster, 'postmaster.pid');
  if (!fs.existsSync(file)) return undefined;
  const lines = fs.readFileSync(file, 'utf8').split('\n');
  const pid = Number(lines[0]);
  return Number.isInteger(pid) && pid > 1 ? { pid, port: Number(lines[3]) || 0 } : undefined;
}

export function removePostmasterFile(cluster: string): void {
  fs.rmSync(path.join(cluster, 'postmaster.pid'), { force: true });
}

/** The number may since have gone to another program; only a postgres is ever stopped. */
export function isPostgres(pid: number): boolean {
  try {
    return fs.readFileSync(`/proc/${pid}/comm`, 'utf8').trim().startsWith('postgres');
  } catch {
    const { stdout } = spawnSync('ps', ['-o', 'comm=', '-p', String(pid)], { encoding: 'utf8' });
    return /postgres/.test(stdout ?? '');
  }
}
