import fs from 'node:fs';
import { askRedis, type RedisProcess } from '../../src/redis/launch.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import type { OnsaleProcess, Stack } from './stack.ts';

/** A fault of an installation. Each fault starts and ends without help; no part of the product is restarted. */
export interface Fault {
  name: string;
  play(stack: Stack): Promise<void>;
}

const sleep = (ms: number): Promise<void> => systemClock.sleep(ms);

function postgresAway(how: 'fast' | 'immediate', ms: number): Fault {
  return {
    name: `Postgres stopped (${how}) for ${ms / 1_000} s`,
    async play({ postgres }) {
      await postgres.stop(how);
      await sleep(ms);
      await postgres.start();
    },
  };
}

function frozen(name: keyof Stack['processes'], ms: number): Fault {
  return {
    name: `process ${name} frozen for ${ms / 1_000} s`,
    async play({ processes }) {
      const pid = processes[name].pid();
      process.kill(pid, 'SIGSTOP');
      await sleep(ms);
      process.kill(pid, 'SIGCONT');
    },
  };
}

const jobsKilled: Fault = {
  name: 'job worker killed',
  async play({ processes }) {
    process.kill(await jobWorkerOf(processes.third), 'SIGKILL');
  },
};

function jobsFrozen(ms: number): Fault {
  return {
    name: `job worker frozen for ${ms / 1_000} s`,
    async play({ processes }) {
      const pid = await jobWorkerOf(processes.third);
      process.kill(pid, 'SIGSTOP');
      await sleep(ms);
      // Its parent may have ended it meanwhile.
      if (fs.existsSync(`/proc/${pid}`)) process.kill(pid, 'SIGCONT');
    },
  };
}

const redisKilled: Fault = {
  name: 'Redis killed, back empty after 5 s',
  async play({ redis }) {
    await redis.kill();
    await sleep(5_000);
    await redis.start('empty');
  },
};

function redisFrozen(ms: number): Fault {
  return {
    name: `Redis frozen for ${ms / 1_000} s`,
    async play({ redis }) {
      redis.freeze();
      await sleep(ms);
      redis.thaw();
    },
  };
}

/** The same run with older data: what a detour as the replica of a stale copy leaves behind. */
function redisOlder(ageMs: number): Fault {
  return {
    name: 'Redis with older data under the same run',
    async play({ redis }) {
      const copy: RedisProcess = await redis.copy();
      try {
        await sleep(ageMs);
        const { port } = new URL(redis.url);
        const ask = (command: readonly string[]): Promise<unknown> =>
          askRedis({ port: Number(port) }, command);
        await ask(['replicaof', '127.0.0.1', `${copy.port}`]);
        const until = systemClock.monotonic() + 5_000;
        while (!/master_link_status:up/.test(String(await ask(['info', 'replication'])))) {
          if (systemClock.monotonic() > until) throw new Error('Redis did not follow its older copy');
          await sleep(10);
        }
        await ask(['replicaof', 'no', 'one']);
      } finally {
        process.kill(copy.pid, 'SIGKILL');
      }
    },
  };
}

/** A process that dies is started again by a service manager, here while the database is away. */
function startedWithout(name: keyof Stack['processes'], ms: number): Fault {
  return {
    name: `process ${name} killed, and started while Postgres is away for ${ms / 1_000} s`,
    async play({ postgres, processes }) {
      await postgres.stop('fast');
      await processes[name].kill();
      processes[name].start();
      await sleep(ms);
      await postgres.start();
      await processes[name].ready(90_000);
    },
  };
}

/** As a rolling update does. */
const restarted: Fault = {
  name: 'process second stopped in order and started again',
  async play({ processes: { second } }) {
    const code = await second.stop();
    if (code !== 0) throw new Error(`the process ended with ${code}`);
    second.start();
    await second.ready(90_000);
  },
};

/** For an hour: all of them in turn. */
export const allFaults: readonly Fault[] = [
  postgresAway('immediate', 1_000),
  jobsKilled,
  redisKilled,
  postgresAway('fast', 5_000),
  frozen('third', 20_000),
  redisOlder(3_000),
  postgresAway('immediate', 30_000),
  jobsFrozen(20_000),
  redisFrozen(5_000),
  startedWithout('third', 8_000),
  frozen('first', 20_000),
  startedWithout('first', 8_000),
  restarted,
];

/** For the test suite: one of each kind, short. */
export const shortFaults: readonly Fault[] = [
  jobsKilled,
  postgresAway('immediate', 1_000),
  redisOlder(1_000),
];

/** The child of the process that runs jobs. */
async function jobWorkerOf(owner: OnsaleProcess): Promise<number> {
  const until = systemClock.monotonic() + 30_000;
  for (;;) {
    const found = childrenOf(owner.pid()).find((pid) => commandOf(pid).includes('job-worker'));
    if (found !== undefined) return found;
    if (systemClock.monotonic() > until) throw new Error('the process has no job worker');
    await sleep(100);
  }
}

function childrenOf(parent: number): number[] {
  return fs
    .readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && parentOf(pid) === parent);
}

function parentOf(pid: number): number {
  const stat = readProc(pid, 'stat');
  // The name in brackets may hold anything; state and parent follow it.
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
}

function commandOf(pid: number): string {
  return readProc(pid, 'cmdline');
}

function readProc(pid: number, name: string): string {
  try {
    return fs.readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch {
    return '';
  }
}
