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

/** `findRedis`; throws RedisServerFault `no_binary`, which says what to install, if there is none. */
export function requireRedis(): string {
  const found = findRedis();
  if (found) return found;
  throw new RedisServerFault(
    'no_binary',
    'There is no redis-server or valkey-server here: install one (Debian: apt-get install redis-server) or set REDIS_URL.',
  );
}
