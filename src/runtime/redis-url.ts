/** One server to connect to. */
export interface RedisAddress {
  host: string;
  port: number;
  tls: boolean;
  username?: string;
  password?: string;
  /** 0 by default, and always in a cluster. */
  db?: number;
}

const sample = 'redis://user:password@host:port/db';

/**
 * `redis://` or `rediss://` (TLS), with a database number for a single server. Several nodes of one cluster are comma
 * separated; what the first says about user and password holds for those that say nothing. A problem never repeats the text.
 */
export function parseRedisUrl(text: string): { value: RedisAddress[] } | { problem: string } {
  const addresses: RedisAddress[] = [];
  for (const part of text.split(',')) {
    const parsed = parseOne(part.trim());
    if (typeof parsed === 'string') return { problem: parsed };
    const [first] = addresses;
    if (first && first.tls !== parsed.tls) return { problem: 'mixes redis:// and rediss://' };
    addresses.push(
      first && !parsed.password ? { ...parsed, username: first.username, password: first.password } : parsed,
    );
  }
  if (addresses.length > 1 && addresses.some(({ db }) => db !== undefined))
    return { problem: 'names a database number, which a cluster does not have' };
  return { value: addresses };
}

function parseOne(text: string): RedisAddress | string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (!url || (url.protocol !== 'redis:' && url.protocol !== 'rediss:') || !url.hostname)
    return `is not of the form ${sample}`;
  if (url.search || url.hash) return `has more than ${sample} says`;
  const db = url.pathname.replace(/^\//, '');
  if (db !== '' && !/^\d{1,5}$/.test(db)) return 'has a database that is not a number';
  let username: string;
  let password: string;
  try {
    username = decodeURIComponent(url.username);
    password = decodeURIComponent(url.password);
  } catch {
    return 'has a user or password that is not URL-encoded';
  }
  return {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port ? Number(url.port) : 6379,
    tls: url.protocol === 'rediss:',
    ...(username && password ? { username } : {}),
    ...(password ? { password } : {}),
    ...(Number(db) > 0 ? { db: Number(db) } : {}),
  };
}
