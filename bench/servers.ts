import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Redis } from 'ioredis';
import pg from 'pg';
import { createDb, type Db, typeParsers } from '../src/postgres/db.ts';
import { migrate } from '../src/postgres/migrate.ts';
import { type PostgresServer, startPostgres } from '../src/postgres/server.ts';
import { infoFields } from '../src/redis/launch.ts';
import { type RedisServer, startRedis } from '../src/redis/server.ts';
import { systemClock } from '../src/runtime/clock.ts';
import { silentLogger } from '../src/runtime/log.ts';
import { cpuMsOf } from './cpu-time.ts';

/** Private servers of a bench, started when first asked for, stopped by their process ids. */
export interface Servers {
  /** The address of a migrated database on a Postgres that flushes each commit. */
  postgres(): Promise<string>;
  /** Returns the address of a separate empty database on the same server. */
  freshDatabase(): Promise<string>;
  /** A migrated database of a case's own, so that no other case's events and rows are planned for, vacuumed or locked in it. */
  ownDatabase(): Promise<{ url: string; drop(): Promise<void> }>;
  /** A Redis that saves nothing, as our private one. */
  redis(): Promise<RedisServer>;
  postgresCpuMs(): number;
  redisCpuMs(): number;
  versions(): { postgres: string | null; redis: string | null };
  stop(): Promise<void>;
}

const database = 'bench';

export function openServers(): Servers {
  const versions: { postgres: string | null; redis: string | null } = { postgres: null, redis: null };
  const closing: (() => Promise<void>)[] = [];
  let postgres: Promise<string> | undefined;
  let postgresPid = 0;
  let redis: Promise<RedisServer> | undefined;
  let redisPid = 0;

  let server: PostgresServer | undefined;
  let databases = 0;
  async function openPostgres(): Promise<string> {
    const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-bench-'));
    fs.chmodSync(dataDir, 0o711);
    closing.push(async () => fs.rmSync(dataDir, { recursive: true, force: true }));
    const started = await startPostgres({
      dataDir,
      durable: true,
      // A baseline that is refused by an index says so in the log each time, which would be measured too.
      settings: { log_min_messages: 'fatal', log_min_error_statement: 'fatal' },
      log: silentLogger,
      clock: systemClock,
    });
    server = started;
    closing.push(() => started.stop());
    postgresPid = started.pid;
    await started.ensureDatabase(database);
    const url = started.url(database);
    await migrated(url);
    versions.postgres = await versionOf(url);
    return url;
  }

  async function openRedis(): Promise<RedisServer> {
    const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-bench-redis-'));
    closing.push(async () => fs.rmSync(dataDir, { recursive: true, force: true }));
    const server = await startRedis({ dataDir, log: silentLogger, clock: systemClock });
    closing.push(() => server.stop());
    redisPid = server.pid;
    const client = new Redis(server.url);
    const info = infoFields(await client.info('server'));
    client.disconnect();
    versions.redis = `${info.redis_version} (nothing saved)`;
    return server;
  }

  async function freshDatabase(): Promise<string> {
    postgres ??= openPostgres();
    await postgres;
    const name = `${database}_${++databases}`;
    await server!.ensureDatabase(name);
    return server!.url(name);
  }

  return {
    redis: () => {
      redis ??= openRedis();
      return redis;
    },
    freshDatabase,
    ownDatabase: async () => {
      const url = await freshDatabase();
      await migrated(url);
      return { url, drop: () => dropDatabase(server!.url(database), new URL(url).pathname.slice(1)) };
    },
    redisCpuMs: () => cpuMsOf(redisPid),
    postgres: () => {
      postgres ??= openPostgres();
      return postgres;
    },
    postgresCpuMs: () => cpuMsOf(postgresPid),
    versions: () => versions,
    stop: async () => {
      for (const close of closing.splice(0).reverse()) await close();
    },
  };
}

/** The pool that the application's web role has. */
export const webPoolSize = 24;

export function benchDb(url: string, poolSize = webPoolSize): Db {
  return createDb({ url, poolSize, clock: systemClock, log: silentLogger, statementTimeoutMs: 60_000 });
}

/** A plain pool for baselines, with the session settings that ours have; `more` are added to them or put in their place. */
export function benchPool(url: string, size: number, more: Record<string, string | number> = {}): pg.Pool {
  const settings = { synchronous_commit: 'on', TimeZone: 'UTC', lock_timeout: 10_000, ...more };
  const pool = new pg.Pool({
    connectionString: url,
    max: size,
    min: size,
    idleTimeoutMillis: 0,
    options: Object.entries(settings)
      .map(([name, value]) => `-c ${name}=${value}`)
      .join(' '),
    types: typeParsers as never,
  });
  pool.on('error', () => {});
  return pool;
}

/** How many statements the pool's clients have sent since now, BEGIN and COMMIT among them. */
export function countCalls(pool: pg.Pool): () => number {
  let calls = 0;
  pool.on('connect', (client) => {
    client.query = new Proxy(client.query, {
      apply(target, self, values) {
        calls += 1;
        return Reflect.apply(target, self, values);
      },
    });
  });
  return () => calls;
}

async function migrated(url: string): Promise<void> {
  const outcome = await migrate(url);
  if (outcome.kind !== 'migrated') throw new Error(`not migrated: ${JSON.stringify(outcome)}`);
}

async function dropDatabase(adminUrl: string, name: string): Promise<void> {
  const client = new pg.Client({ connectionString: adminUrl });
  await client.connect();
  try {
    // Forced: a pool's sessions end a moment after it.
    await client.query(`DROP DATABASE "${name}" WITH (FORCE)`);
  } finally {
    await client.end();
  }
}

async function versionOf(url: string): Promise<string> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<{
      server_version: string;
      synchronous_commit: string;
      fsync: string;
    }>(
      `SELECT current_setting('server_version') AS server_version, current_setting('synchronous_commit') AS synchronous_commit,
              current_setting('fsync') AS fsync`,
    );
    const { server_version, synchronous_commit, fsync } = rows[0]!;
    return `${server_version} (fsync ${fsync}, synchronous_commit ${synchronous_commit})`;
  } finally {
    await client.end();
  }
}
