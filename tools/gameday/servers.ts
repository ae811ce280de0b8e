import fs from 'node:fs';
import path from 'node:path';
import { askRedis, endWithParent, freePort, launchRedis, type RedisProcess } from '../../src/redis/launch.ts';
import type { Clock } from '../../src/runtime/clock.ts';
import { isAlive } from '../../src/runtime/private-server.ts';

/** A private Redis that is there to be hurt. It keeps its port whatever happens to it. */
export interface GameRedis {
  readonly name: string;
  readonly url: string;
  /** SIGKILL: memory and connections are gone. */
  kill(): Promise<void>;
  /** SIGSTOP: connections stay open, nothing answers. */
  freeze(): void;
  thaw(): void;
  /** Writes what it knows to its file, which a later `start('saved')` comes back with: old by then. */
  save(): Promise<void>;
  /** On the same port, empty or with what was saved; resolves when it answers. */
  start(what: 'empty' | 'saved'): Promise<void>;
  flush(): Promise<void>;
  /** Starts a separate server with a copy of the present data. The caller stops it. */
  copy(): Promise<RedisProcess>;
  /** A second server that copies this one; resolves when it has caught up. */
  addReplica(): Promise<void>;
  /** This one dies and the copy takes over its port, as after a failover. Needs Redis 7 (CONFIG SET port). */
  failOver(): Promise<void>;
  stop(): Promise<void>;
}

const caughtUpWithinMs = 10_000;

export async function startGameRedis(options: {
  name: string;
  binary: string;
  folder: string;
  clock: Clock;
}): Promise<GameRedis> {
  const { name, binary, clock } = options;
  let dirs = 0;
  const launch = async (at: {
    dir: string;
    port: number;
    settings?: Record<string, string | number>;
  }): Promise<RedisProcess> => {
    const started = await launchRedis({ binary, clock, ...at });
    endWithParent(started);
    return started;
  };
  const newDir = (): string => {
    dirs += 1;
    const dir = path.join(options.folder, `${name}-${dirs}`);
    fs.mkdirSync(dir, { recursive: true });
    return dir;
  };
  const port = await freePort();
  let dir = newDir();
  let running = await launch({ dir, port });
  let replica: { process: RedisProcess; dir: string } | null = null;

  const end = async (target: RedisProcess): Promise<void> => {
    if (isAlive(target.pid)) process.kill(target.pid, 'SIGKILL');
    // Its end alone keeps no process of ours waiting.
    while (isAlive(target.pid)) await clock.sleep(10);
  };
  return {
    name,
    url: `redis://127.0.0.1:${port}`,
    kill: () => end(running),
    freeze: () => void process.kill(running.pid, 'SIGSTOP'),
    thaw: () => void process.kill(running.pid, 'SIGCONT'),
    save: async () => void (await askRedis({ port }, ['save'])),
    async start(what) {
      await end(running);
      if (what === 'empty') fs.rmSync(path.join(dir, 'dump.rdb'), { force: true });
      running = await launch({ dir, port });
    },
    flush: async () => void (await askRedis({ port }, ['flushall'])),
    async copy() {
      await askRedis({ port }, ['save']);
      const place = newDir();
      fs.copyFileSync(path.join(dir, 'dump.rdb'), path.join(place, 'dump.rdb'));
      return await launch({
        dir: place,
        port: await freePort(),
        settings: { 'repl-diskless-sync-delay': 0 },
      });
    },
    async addReplica() {
      const place = newDir();
      const settings = { replicaof: `127.0.0.1 ${port}`, 'repl-diskless-sync-delay': 0 };
      const copy = await launch({ dir: place, port: await freePort(), settings });
      replica = { process: copy, dir: place };
      const until = clock.monotonic() + caughtUpWithinMs;
      while (!/master_link_status:up/.test(String(await askRedis({ port: copy.port }, ['info'])))) {
        if (clock.monotonic() > until) throw new Error(`the replica of ${name} did not catch up`);
        await clock.sleep(50);
      }
    },
    async failOver() {
      if (!replica) throw new Error(`${name} has no replica to fail over to`);
      const next = replica;
      await end(running);
      await askRedis({ port: next.process.port }, ['replicaof', 'no', 'one']);
      await askRedis({ port: next.process.port }, ['config', 'set', 'port', port]);
      running = next.process;
      dir = next.dir;
      replica = null;
    },
    async stop() {
      await end(running);
      if (replica) await end(replica.process);
    },
  };
}
