import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Redis } from 'ioredis';
import pg from 'pg';
import { systemClock } from '../src/runtime/clock.ts';
import { silentLogger } from '../src/runtime/log.ts';
import { type PostgresServer, startPostgres } from '../src/runtime/postgres-server.ts';
import { infoFields } from '../src/runtime/redis-launch.ts';
import { type RedisServer, startRedis } from '../src/runtime/redis-server.ts';
import { createDb, type Db } from '../src/sales/db.ts';
import { migrate } from '../src/sales/migrate.ts';
import { cpuMsOf } from './cpu-time.ts';

/** Private servers of a bench, started when first asked for, stopped by their process ids. */
export interface Servers {
  /** The address of a migrated database on a Postgres that flushes each commit. */
  postgres(): Promise<string>;
  /** The address of an empty database of its own beside it. */
  freshDatabase(): Promise<string>;
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
    const outcome = await migrate(url);
    if (outcome.kind !== 'migrated') throw new Error(`not migrated: ${JSON.stringify(outcome)}`);
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

  return {
    redis: () => {
      redis ??= openRedis();
      return redis;
    },
    freshDatabase: async () => {
      postgres ??= openPostgres();
      await postgres;
      const name = `${database}_${++databases}`;
      await server!.ensureDatabase(name);
      return server!.url(name);
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

/** A plain pool for baselines, with the session settings that ours have. */
export function benchPool(url: string, size: number): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    max: size,
    min: size,
    idleTimeoutMillis: 0,
    options: '-c synchronous_commit=on -c TimeZone=UTC -c lock_timeout=10000',
  });
  pool.on('error', () => {});
  return pool;
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
