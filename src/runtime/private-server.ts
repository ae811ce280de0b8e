import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';

// Shared by the private Postgres and the private Redis: their folders, their processes, and who may use them.

/** Where root puts what the server's user must be able to read when that user cannot read the checkout. */
export const systemDir = '/var/lib/onsale';

/** A folder for the cluster of a data folder that the server's user cannot reach; one per data folder. */
export function fallbackDataDir(dataDir: string): string {
  const name = createHash('sha256').update(path.resolve(dataDir)).digest('hex').slice(0, 12);
  return path.join(systemDir, name);
}

/** Variables such as PGPORT or a foreign locale must not reach the server; its own libraries are found by rpath. */
export function cleanEnvironment(): NodeJS.ProcessEnv {
  return { PATH: process.env.PATH ?? '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' };
}

/** Another live Onsale uses the folder; `pid` is its process. */
export class FolderInUse extends Error {
  readonly pid: number;

  constructor(pid: number, home: string) {
    super(`Another Onsale (process ${pid}) is running on ${home}. Stop it first, or set ONSALE_DATA_DIR.`);
    this.name = 'FolderInUse';
    this.pid = pid;
  }
}

/**
 * Claims the folder for this process: a second Onsale would stop the server under the first. Returns the release; throws
 * FolderInUse.
 */
export function claimFolder(home: string): () => void {
  const file = path.join(home, 'owner.json');
  const claim = JSON.stringify({ pid: process.pid, identity: processIdentity(process.pid) });
  for (;;) {
    try {
      fs.writeFileSync(file, claim, { flag: 'wx', mode: 0o600 });
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const owner = readOwner(file);
    if (owner && isAlive(owner.pid) && processIdentity(owner.pid) === owner.identity)
      throw new FolderInUse(owner.pid, home);
    fs.rmSync(file, { force: true });
  }
  return () => {
    if (fs.existsSync(file) && fs.readFileSync(file, 'utf8') === claim) fs.rmSync(file, { force: true });
  };
}

function readOwner(file: string): { pid: number; identity: string } | undefined {
  try {
    return JSON.parse(fs.readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
  // A process that ended but was not yet collected by its parent is not alive for us.
  return processState(pid) !== 'Z';
}

function processState(pid: number): string | undefined {
  return statFields(pid)?.[0];
}

/** The fields of /proc/PID/stat behind the program's name, which may itself hold spaces and brackets. */
function statFields(pid: number): string[] | undefined {
  try {
    const text = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
    return text.slice(text.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}

/** Tells a process from a later one that got the same number: its start, in whatever form the system gives it. */
export function processIdentity(pid: number): string {
  const ticks = statFields(pid)?.[19];
  if (ticks) return ticks;
  return spawnSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).stdout?.trim() ?? '';
}

/** Sends a signal; does nothing if the process is gone. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
