import { performance } from 'node:perf_hooks';
import { Redis } from 'ioredis';
import { closeRedisEvent, holdCommand, openRedisEvent, surely } from './arbiter-arena.ts';
import { hasRedisBenchmark, holdByRedisBenchmark } from './baselines/redis-benchmark.ts';
import { ownCpuMs } from './cpu-time.ts';
import { type Case, type Comparison, compare, interleave, type Sample } from './measure.ts';
import type { Bench, BenchContext } from './run.ts';

/**
 * The seats of a partition, and the number of claims made to it before the next partition is used. Each claim
 * is for two random seats, so that a quarter of the claims is refused, for ours as for the baselines.
 */
const seats = 60_000;
const claims = 9_000;
const flights = [64, 256, 512];
/** The same pairs in every run. */
const seed = 0x2545f491;

const batched = (flight: number): string => `adapter, ${flight} in flight`;
const unbatched = (flight: number): string => `adapter, a call a claim, ${flight} in flight`;
const benchmark = 'redis-benchmark -P 16';

const comparisons: Comparison[] = flights.flatMap((flight) => [
  { case: batched(flight), baseline: unbatched(flight), budget: 2.5 },
  { case: batched(flight), baseline: benchmark, budget: 1.3 },
]);

export const bench: Bench = {
  name: 'arbiter',
  question:
    'How many holds of two seats a second does the Redis adapter decide, by what it gathers into a call?',
  async run(context) {
    if (!(await hasRedisBenchmark()))
      throw new Error('redis-benchmark is missing: apt-get install redis-tools');
    const cases = await contenders(context);
    context.progress('warming up');
    for (const one of cases) await one.measure();
    const spreads = await interleave(cases, context.runs, context.progress);
    return { spreads, lines: compare('arbiter', spreads, comparisons) };
  },
};

async function contenders(context: BenchContext): Promise<Case[]> {
  const { servers, seconds } = context;
  const server = await servers.redis();

  /** Fresh partitions one after the other until the time is over; only the claims count. */
  const measured = (
    name: string,
    claimsPerCall: number,
    work: (opened: Opened) => Promise<number>,
  ): Case => ({
    name,
    unit: 'holds/s',
    async measure(): Promise<Sample> {
      let elapsed = 0;
      let decided = 0;
      let taken = 0;
      let client = 0;
      let store = 0;
      while (elapsed < seconds * 1_000) {
        const opened = await openRedisEvent(server, { seats, claimsPerCall });
        const before = { own: ownCpuMs(), store: servers.redisCpuMs() };
        const took = await work(opened);
        elapsed += took;
        client += ownCpuMs() - before.own;
        store += servers.redisCpuMs() - before.store;
        decided += claims;
        const granted = await grantedOf(server.url, opened.tag);
        taken += claims - granted;
        await closeRedisEvent(opened, server);
      }
      return {
        value: (decided / elapsed) * 1_000,
        detail: {
          decided,
          refusedShare: taken / decided,
          clientCpuUs: (client / decided) * 1_000,
          storeCpuUs: (store / decided) * 1_000,
        },
      };
    },
  });
  return [
    ...flights.flatMap((flight) => [
      measured(batched(flight), 64, (opened) => throughAdapter(opened, flight)),
      measured(unbatched(flight), 1, (opened) => throughAdapter(opened, flight)),
    ]),
    measured(benchmark, 64, ({ tag, epoch }) => holdByRedisBenchmark(server, { tag, epoch, seats, claims })),
  ];
}

type Opened = Awaited<ReturnType<typeof openRedisEvent>>;

async function throughAdapter({ arbiter, event, epoch }: Opened, flight: number): Promise<number> {
  const commands = pairs().map((claimed, buyer) =>
    holdCommand({ event, epoch, buyer, claim: { kind: 'seats', seats: claimed } }),
  );
  let next = 0;
  const buyer = async (): Promise<void> => {
    for (;;) {
      const command = commands[next++];
      if (!command) return;
      const { kind } = await surely(() => arbiter.hold(command));
      if (kind !== 'granted' && kind !== 'taken') throw new Error(`answered ${kind}`);
    }
  };
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: flight }, buyer));
  return performance.now() - startedAt;
}

function pairs(): number[][] {
  let state = seed;
  const random = (): number => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % seats;
  };
  return Array.from({ length: claims }, () => {
    const first = random();
    const second = random();
    return first === second ? [first, (first + 1) % seats] : [first, second];
  });
}

async function grantedOf(url: string, tag: string): Promise<number> {
  const client = new Redis(url);
  const grant = await client.hget(`{${tag}}:meta`, 'grant');
  client.disconnect();
  return Number(grant ?? 0);
}
