import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

/** Why a private Redis cannot run here. The message is a sentence for the person who started it. */
export class RedisServerFault extends Error {
  readonly code: 'no_binary' | 'port_taken' | 'permission' | 'in_use' | 'failed';
  readonly retriable = false;

  constructor(code: RedisServerFault['code'], message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'RedisServerFault';
    this.code = code;
  }
}

const names = ['redis-server', 'valkey-server'];
/** A login without a shell's start files may lack the latter ones. */
const usualFolders = ['/usr/bin', '/usr/local/bin', '/usr/sbin', '/opt/homebrew/bin'];

/** The whole path of redis-server or valkey-server, if one is here. */
export function findRedis(): string | undefined {
  const folders = [...(process.env.PATH ?? '').split(path.delimiter).filter(Boolean), ...usualFolders];
  return folders
    .flatMap((folder) => names.map((name) => path.join(folder, name)))
    .find((file) => fs.existsSync(file));
}

/** `findRedis`, or as root on Debian installed by apt first; otherwise a fault that says what to install. */
export function findOrInstallRedis(say: (line: string) => void): string {
  const found = findRedis();
  if (found) return found;
  if (process.getuid?.() === 0 && spawnSync('apt-get', ['--version'], { stdio: 'ignore' }).status === 0) {
    say('Installing redis-server (once) …');
    const reason = installByApt();
    const installed = findRedis();
    if (installed) return installed;
    throw new RedisServerFault('no_binary', `redis-server could not be installed: ${reason}`);
  }
  throw new RedisServerFault(
    'no_binary',
    'There is no redis-server or valkey-server here: install one (Debian: apt-get install redis-server) or set REDIS_URL.',
  );
}

const policyFile = '/usr/sbin/policy-rc.d';

/**
 * Only the program is wanted: Debian's package would otherwise start a server of its own on the usual port. Its scripts ask
 * policy-rc.d whether they may; a machine that has an answer of its own keeps it.
 */
function installByApt(): string {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' };
  const ours = !fs.existsSync(policyFile);
  if (ours) fs.writeFileSync(policyFile, '#!/bin/sh\nexit 101\n', { mode: 0o755 });
  try {
    const steps = [
      ['-qq', 'update'],
      [
        '-qq',
        '-y',
        '--no-install-recommends',
        '-o',
        'Dpkg::Options::=--force-confold',
        'install',
        'redis-server',
      ],
    ];
    for (const step of steps) {
      const { status, stderr } = spawnSync('apt-get', step, { env, encoding: 'utf8' });
      if (status !== 0)
        return stderr.trim().split('\n').slice(-3).join(' ') || `apt-get ended with ${status}`;
    }
    return 'its package holds no redis-server';
  } finally {
    if (ours) fs.rmSync(policyFile, { force: true });
  }
}
