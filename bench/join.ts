import { performance } from 'node:perf_hooks';
import { Redis } from 'ioredis';
import { createPostgresArbiter } from '../src/inventory/postgres.ts';
import { systemClock } from '../src/runtime/clock.ts';
import { systemRandom } from '../src/runtime/random.ts';
import { createPostgresWaitingRoom } from '../src/waiting-room/postgres.ts';
import { joinMemoryMs } from '../src/waiting-room/waiting-room.ts';
import { openPostgresEvent } from './arbiter-arena.ts';
import { serveIn } from './child.ts';
import { sampleOf } from './hold.ts';
import { getBytes, loadWith } from './http-load.ts';
import {
  type Case,
  type Comparison,
  compare,
  interleave,
  type Line,
  type Sample,
  type Spread,
  spreadOf,
} from './measure.ts';
import { joinRequest, openSale, type Sale } from './open-sale.ts';
import type { Bench, BenchContext } from './run.ts';
import { benchDb, type Servers, webPoolSize } from './servers.ts';

const connections = 64;
const sizes = [
  { name: '500 k waiting', waiting: 500_000 },
  { name: '5 M waiting', waiting: 5_000_000 },
] as const;
const joinsPerRun = 40_000;
/** Visitors whose memory is weighed. */
const weighed = 100_000;
/** A byte a visitor is 100 kB of a server's buffers and statistics, which come and go. */
const nothing = 0.5;

const [small, large] = [sizes[0].name, sizes[1].name];
const comparisons: Comparison[] = [
  { case: `join, ${small}`, baseline: 'bare route', budget: 0.7 },
  { case: `join, ${large}`, baseline: 'bare route', budget: 0.7 },
  ...['join', 'status', 'redeem'].map((what) => ({
    case: `${what}, server CPU, ${large}`,
    baseline: `${what}, server CPU, ${small}`,
    budget: 1.1,
    atMost: true,
  })),
];

export const bench: Bench = {
  name: 'join',
  question:
    'What does a join cost beside a bare route, does anything grow with those who wait, and what is kept of one of them?',
  async run(context) {
    const { servers, runs, progress } = context;
    const bare = await serveIn('baselines/bare-route.ts', {});
    const closing: (() => Promise<void>)[] = [() => bare.stop()];
    try {
      const cases: Case[] = [];
      const sales: Sale[] = [];
      for (const { name, waiting } of sizes) {
        const sale = await openSale(servers, { seats: 1_000, waiting });
        closing.push(() => sale.stop());
        sales.push(sale);
        cases.push(...(await httpCases(context, sale, name)));
        const { redeem, close } = await redeemCase(context, name, waiting);
        closing.push(close);
        cases.push(redeem);
      }
      const constant = requests(sales[0]!, 60_000);
      await loadWith(bare.url, { connections, requests: constant.slice(0, 4_000), seconds: 30 });
      const bareRoute: Case = {
        name: 'bare route',
        unit: 'requests/s',
        measure: async () => {
          const cpuBefore = bare.cpuMs();
          const loaded = await loadWith(bare.url, {
            connections,
            requests: constant,
            seconds: context.seconds,
          });
          return sampleOf(loaded, 200, bare.cpuMs() - cpuBefore);
        },
      };
      const spreads = await interleave([bareRoute, ...cases], runs, progress);
      const all = [...spreads, ...cpuSpreads(spreads)];
      const memory = await weigh(servers, sales[0]!, progress);
      return {
        spreads: [...all, ...memory.spreads],
        lines: [...compare('join', all, comparisons), ...memory.lines],
      };
    } finally {
      for (const close of closing.reverse()) await close();
    }
  },
};

const requests = (sale: Sale, count: number): Buffer[] =>
  Array.from({ length: count }, () => joinRequest(sale));

async function httpCases({ seconds }: BenchContext, sale: Sale, size: string): Promise<Case[]> {
  const { served, event } = sale;
  const status = Array.from({ length: 200_000 }, () => getBytes(`/api/events/${event}/status`));
  const against = (what: string, list: () => Buffer[]): Case => ({
    name: `${what}, ${size}`,
    unit: 'requests/s',
    measure: async () => {
      const made = list();
      const cpuBefore = served.cpuMs();
      const loaded = await loadWith(served.url, { connections, requests: made, seconds });
      return sampleOf(loaded, 200, served.cpuMs() - cpuBefore);
    },
  });
  await loadWith(served.url, { connections, requests: requests(sale, 4_000), seconds: 30 });
  await loadWith(served.url, { connections, requests: status.slice(0, 4_000), seconds: 30 });
  return [against('join', () => requests(sale, joinsPerRun)), against('status', () => status)];
}

/** Called numbers become passes in Postgres, with a frontier at the end of the line and a bucket that never empties. */
async function redeemCase({ servers, seconds }: BenchContext, size: string, waiting: number) {
  const db = benchDb(await servers.postgres());
  const { event } = await openPostgresEvent({ db, arbiter: createPostgresArbiter({ db }) }, 100);
  await db.query(
    'bench_frontier',
    `WITH counted AS (UPDATE queue_counters SET last_no = $2::bigint, ceiling = $2::bigint + 10000 WHERE event_no = $1)
     UPDATE admissions SET frontier = ARRAY[$2::bigint], rate = 1e9, burst = 1e9, tokens = 1e9 WHERE event_no = $1`,
    [event, waiting],
  );
  const room = createPostgresWaitingRoom({ db });
  let number = waiting;
  const redeemer = async (endAt: number, latencies: number[]): Promise<void> => {
    while (performance.now() < endAt) {
      const sentAt = performance.now();
      const mine = number--;
      const visitor = `v${String(mine).padStart(21, '0')}`;
      const passId = systemRandom.uuid();
      const { kind } = await room.redeem({
        event,
        shard: 0,
        number: mine,
        visitor,
        passId,
        sessionMs: 900_000,
      });
      if (kind !== 'issued') throw new Error(`number ${mine} was answered ${kind}`);
      latencies.push(performance.now() - sentAt);
    }
  };
  const redeem: Case = {
    name: `redeem, ${size}`,
    unit: 'passes/s',
    async measure(): Promise<Sample> {
      const latencies: number[] = [];
      const startedAt = performance.now();
      const cpuBefore = servers.postgresCpuMs();
      const endAt = startedAt + seconds * 1_000;
      await Promise.all(Array.from({ length: 2 * webPoolSize }, () => redeemer(endAt, latencies)));
      const elapsed = performance.now() - startedAt;
      const count = latencies.length;
      const serverCpuUs = ((servers.postgresCpuMs() - cpuBefore) / count) * 1_000;
      return { value: (count / elapsed) * 1_000, detail: { answers: count, serverCpuUs } };
    },
  };
  return { redeem, close: () => db.close() };
}

/** CPU time of what answers, as cases of their own: the cost of one, whatever else the machine does. */
function cpuSpreads(spreads: readonly Spread[]): Spread[] {
  return spreads
    .filter((spread) => /^(join|status|redeem), /.test(spread.case))
    .map((spread) => {
      const [what, size] = spread.case.split(', ') as [string, string];
      const values = spread.details.map((detail) => detail.serverCpuUs ?? 0);
      return spreadOf(
        `${what}, server CPU, ${size}`,
        'us each',
        values.map((value) => ({ value })),
      );
    });
}

/**
 * Measures the additional memory of Redis and of the process for each visitor: right after they joined, and when their minute
 * is over.
 */
async function weigh(servers: Servers, sale: Sale, progress: (text: string) => void) {
  const client = new Redis((await servers.redis()).url);
  const memory = async (): Promise<{ redis: number; process: number }> => ({
    redis: Number(/used_memory:(\d+)/.exec(await client.info('memory'))![1]),
    process: await sale.served.heapUsed(),
  });
  const forgotten = async (): Promise<boolean> => {
    for (let from = '0'; ; ) {
      const [next, keys] = await client.scan(from, 'MATCH', '*:v:*', 'COUNT', 5_000);
      if (keys.length > 0) return false;
      if (next === '0') return true;
      from = next;
    }
  };
  const wait = async (): Promise<void> => {
    const endAt = performance.now() + joinMemoryMs * 2;
    while (!(await forgotten())) {
      if (performance.now() > endAt) throw new Error('visitors are still remembered');
      await systemClock.sleep(500);
    }
  };
  progress(`memory: waiting until the visitors of the runs are forgotten`);
  await wait();
  const before = await memory();
  let left = weighed;
  while (left > 0) {
    const count = Math.min(left, 20_000);
    const loaded = await loadWith(sale.served.url, {
      connections,
      requests: requests(sale, count),
      seconds: 60,
    });
    sampleOf(loaded, 200, 0);
    left -= loaded.answers;
  }
  const joined = await memory();
  const joinedAt = performance.now();
  progress(`memory: ${weighed} joined; waiting a full minute`);
  await systemClock.sleep(joinMemoryMs);
  await wait();
  const after = await memory();
  const minutes = Math.round((performance.now() - joinedAt) / 1_000);
  progress(`memory: forgotten ${minutes} s after the last one joined`);
  client.disconnect();
  const spreads: Spread[] = [];
  const lines: Line[] = (['redis', 'process'] as const).map((part) => {
    const each = (now: typeof before): number => (now[part] - before[part]) / weighed;
    const [value, baselineValue] = [each(after), each(joined)];
    const name = `memory of ${part === 'redis' ? 'Redis' : 'the process'} a visitor, ${minutes} s after joining`;
    const detail = { before: before[part], joined: joined[part], after: after[part], visitors: weighed };
    spreads.push(spreadOf(name, 'bytes', [{ value, detail }]));
    return {
      bench: 'join',
      case: name,
      value: Math.round(value * 100) / 100,
      unit: 'bytes',
      baseline: 'right after joining',
      baselineValue: Math.round(baselineValue * 100) / 100,
      ratio: baselineValue > 0 ? Math.round((value / baselineValue) * 100) / 100 : 0,
      budget: 0,
      reached: value <= nothing,
      runs: 1,
    };
  });
  return { spreads, lines };
}
