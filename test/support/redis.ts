import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after } from 'node:test';
import { Redis } from 'ioredis';
import {
  endWithParent,
  infoFields,
  launchRedis,
  type RedisProcess,
  stopRedisProcess,
} from '../../src/redis/launch.ts';
import { findRedis, RedisServerFault } from '../../src/redis/program.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { freePort } from './server-process.ts';
import { until } from './wait.ts';

/**
 * Real Redis servers for tests, each a process of its own on 127.0.0.1. The program is the one that scripts/test.mjs found or
 * installed (ONSALE_TEST_REDIS; an empty text says that there is none), else that of the PATH.
 */
const binary = process.env.ONSALE_TEST_REDIS ?? findRedis() ?? '';

/** For the `skip` of a test: why it cannot run here, or false. In CI a skipped test is a failure. */
export const withoutRedis: string | false = fs.existsSync(binary) ? false : 'there is no redis-server here';

export interface TestRedis {
  /** redis://127.0.0.1:port, with the password if there is one. It stays the same over restarts. */
  readonly url: string;
  readonly port: number;
  /** Process id of the running server, or of the last one. */
  readonly pid: number;
  readonly runId: string;
  /** Its folder: `dump.rdb` is what `save` wrote. */
  readonly dir: string;
  /** A plain connection, for looking and meddling; closed for you at the end. */
  client(): Redis;
  /** SIGKILL, and waits until it is gone: memory and connections are lost. */
  kill(): Promise<void>;
  /** SIGSTOP: connections stay open and nothing answers. */
  freeze(): void;
  thaw(): void;
  /** Writes what it knows to its file. */
  save(): Promise<void>;
  /** Kills it if it runs, and starts it on the same port: empty, or with what `save` wrote. Resolves when it answers. */
  restart(what?: 'empty' | 'saved'): Promise<void>;
  /** FLUSHALL: it forgets all and stays the same run. */
  flush(): Promise<void>;
  /** Ends it and removes its folder; done by itself at the end of the test or of the file. */
  stop(): Promise<void>;
}

export interface TestRedisOptions {
  settings?: Record<string, string | number>;
  password?: string;
  /** Uses a free port if undefined. */
  port?: number;
}

type TestContext = { after(run: () => Promise<void>): void };

const open = new Set<TestRedis>();

// Once a file, when all its tests are done, also those that failed before they could clean up.
after(async () => {
  for (const server of open) await server.stop();
});

/** A test's context (`t`), or nothing: then the server lives until the file's end. */
export async function testRedis(t?: TestContext, options: TestRedisOptions = {}): Promise<TestRedis> {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-test-redis-'));
  const { password, settings } = options;
  const start = async (port: number): Promise<RedisProcess> => {
    const started = await launchRedis({ binary, dir, port, password, settings, clock: systemClock });
    endWithParent(started);
    return started;
  };
  let running: RedisProcess;
  try {
    running = await startOnFreePort(start, options.port);
  } catch (error) {
    fs.rmSync(dir, { recursive: true, force: true });
    throw error;
  }
  const { port } = running;
  const clients: Redis[] = [];
  const client = (): Redis => {
    const made = new Redis({ host: '127.0.0.1', port, password });
    made.on('error', () => {});
    clients.push(made);
    return made;
  };
  let own: Redis | undefined;
  const ask = (): Redis => {
    own ??= client();
    return own;
  };
  const kill = (): Promise<void> => stopRedisProcess(running, systemClock, 'killed');
  let stopped: Promise<void> | undefined;
  const stopOnce = async (): Promise<void> => {
    open.delete(server);
    for (const made of clients) made.disconnect();
    await kill();
    fs.rmSync(dir, { recursive: true, force: true });
  };
  const server: TestRedis = {
    url: password ? `redis://:${password}@127.0.0.1:${port}` : `redis://127.0.0.1:${port}`,
    port,
    get pid() {
      return running.pid;
    },
    get runId() {
      return running.runId;
    },
    dir,
    client,
    kill,
    freeze: () => void process.kill(running.pid, 'SIGSTOP'),
    thaw: () => void process.kill(running.pid, 'SIGCONT'),
    save: async () => void (await ask().save()),
    restart: async (what = 'empty') => {
      await kill();
      if (what === 'empty') fs.rmSync(path.join(dir, 'dump.rdb'), { force: true });
      running = await start(port);
    },
    flush: async () => void (await ask().flushall()),
    stop: () => {
      stopped ??= stopOnce();
      return stopped;
    },
  };
  open.add(server);
  t?.after(() => server.stop());
  return server;
}

/** The fields of INFO. */
export async function infoOf(client: Redis): Promise<Record<string, string>> {
  return infoFields(await client.info());
}

/** Waits until it is a replica that has its primary's data. */
export async function untilReplicated(client: Redis): Promise<void> {
  await until(async () => {
    const { role, master_link_status: link } = await infoOf(client);
    return role === 'slave' && link === 'up';
  }, 'the replica to get its data');
}

/** Waits until this primary counts the replica on that port as online: only then does FAILOVER accept it as its target. */
export async function untilFollowedBy(primary: Redis, port: number): Promise<void> {
  const online = new RegExp(`port=${port},state=online`);
  await until(
    async () =>
      Object.entries(await infoOf(primary)).some(([name, of]) => /^slave\d/.test(name) && online.test(of)),
    `the replica on port ${port} to be online`,
  );
}

async function startOnFreePort(
  start: (port: number) => Promise<RedisProcess>,
  wanted?: number,
): Promise<RedisProcess> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await start(wanted ?? (await freePort()));
    } catch (error) {
      // Another process took the port between our check and the server's start.
      const taken = error instanceof RedisServerFault && error.code === 'port_taken';
      if (!taken || wanted !== undefined || attempt >= 5) throw error;
    }
  }
}
