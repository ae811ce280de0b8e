import { execFileSync } from 'node:child_process';
import os from 'node:os';

export interface Machine {
  cpu: string;
  cores: number;
  memoryGiB: number;
  node: string;
  postgres: string | null;
  redis: string | null;
  commit: string;
  /** Files that differ from the commit, if any: the result is then of no commit. */
  changed: string[];
}

/** `versions`: as the servers themselves said. */
export function machineOf(versions: { postgres: string | null; redis: string | null }): Machine {
  const cpus = os.cpus();
  return {
    cpu: cpus[0]?.model.trim() ?? 'unknown',
    cores: cpus.length,
    memoryGiB: Math.round((os.totalmem() / 2 ** 30) * 10) / 10,
    node: process.version,
    ...versions,
    commit: git('rev-parse', 'HEAD').trim() || 'unknown',
    changed: git(
      'status',
      '--porcelain',
      '--untracked-files=all',
      '--',
      'src',
      'payment-simulator',
      'tools',
      'migrations',
      'bench/*.ts',
      'bench/baselines',
    )
      .split('\n')
      .filter(Boolean)
      .map((line) => line.slice(3)),
  };
}

function git(...words: string[]): string {
  try {
    return execFileSync('git', words, { cwd: import.meta.dirname, encoding: 'utf8', stdio: 'pipe' });
  } catch {
    return '';
  }
}
