import { performance } from 'node:perf_hooks';
import { Redis } from 'ioredis';
import type { ArbiterStore } from '../src/inventory/arbiter.ts';
import { createPostgresArbiter } from '../src/inventory/postgres.ts';
import { partitionKeys } from '../src/inventory/redis/scripts.ts';
import { closeRedisEvent, holdCommand, openPostgresEvent, openRedisEvent, surely } from './arbiter-arena.ts';
import { type Case, type Comparison, compare, interleave, type Spread, spreadOf } from './measure.ts';
import type { Bench, BenchContext } from './run.ts';
import { benchDb } from './servers.ts';

const venues = [50_000, 500_000] as const;
const holds = 10_000;
const flight = 256;
/** The cost of a hold must not grow with the number of seats. */
const perHoldMost = 1.1;
const figures = [
  { name: 'bytes a free seat', unit: 'bytes' },
  { name: 'bytes a hold of two seats', unit: 'bytes' },
  { name: 'holds', unit: 'holds/s' },
  { name: 'snapshot of all seats', unit: 'ms' },
] as const;
type Figures = Record<(typeof figures)[number]['name'], number>;

const nameOf = (store: string, figure: string, seats: number): string =>
  `${store}: ${figure}, ${seats / 1_000} k seats`;
const [small, large] = venues;
const comparisons: Comparison[] = ['Redis', 'Postgres'].flatMap((store) =>
  figures.map(({ name, unit }) => ({
    case: nameOf(store, name, large),
    baseline: nameOf(store, name, small),
    // Redis's strings grow by doubling, so that a free seat costs a byte or two by chance.
    budget: name === 'bytes a hold of two seats' ? perHoldMost : null,
    atMost: unit !== 'holds/s',
  })),
);

export const bench: Bench = {
  name: 'size',
  question: 'What does a partition of ten times the seats cost: memory, holds, pictures of it?',
  async run(context) {
    const { cases, spreads } = sizes(context);
    await interleave(cases, context.runs, context.progress);
    const all = spreads();
    return { spreads: all, lines: compare('size', all, comparisons) };
  },
};

function sizes({ servers }: BenchContext): { cases: Case[]; spreads(): Spread[] } {
  const kept = new Map<string, { unit: string; values: { value: number }[] }>();
  const measured = (store: string, seats: number, measure: () => Promise<Figures>): Case => ({
    name: `${store}, ${seats / 1_000} k seats`,
    unit: 'holds/s',
    async measure() {
      const found = await measure();
      for (const { name, unit } of figures) {
        const key = nameOf(store, name, seats);
        const entry = kept.get(key) ?? { unit, values: [] };
        entry.values.push({ value: found[name] });
        kept.set(key, entry);
      }
      return { value: found.holds, detail: found };
    },
  });
  return {
    cases: venues.flatMap((seats) => [
      measured('Redis', seats, async () => {
        const server = await servers.redis();
        const opened = await openRedisEvent(server, { seats });
        const client = new Redis(server.url);
        const bytes = async (): Promise<number> => {
          const keys = partitionKeys(opened.tag);
          const each = await Promise.all(keys.map((key) => client.memory('USAGE', key, 'SAMPLES', 0)));
          return each.reduce<number>((sum, used) => sum + (used ?? 0), 0);
        };
        const found = await weigh(opened, seats, bytes);
        client.disconnect();
        await closeRedisEvent(opened, server);
        return found;
      }),
      measured('Postgres', seats, async () => {
        const db = benchDb(await servers.postgres());
        const opened = await openPostgresEvent({ db, arbiter: createPostgresArbiter({ db }) }, seats);
        const { event } = opened;
        const bytes = async (): Promise<number> => {
          const [row] = await db.query<{ bytes: number }>(
            'bench_bytes',
            'SELECT pg_total_relation_size($1::regclass) + pg_total_relation_size($2::regclass) AS bytes',
            [`seats_${event}`, `holds_${event}`],
          );
          return row!.bytes;
        };
        const found = await weigh(opened, seats, bytes);
        await db.close();
        return found;
      }),
    ]),
    spreads: () => [...kept].map(([name, { unit, values }]) => spreadOf(name, unit, values)),
  };
}

async function weigh(
  { arbiter, event, epoch }: { arbiter: ArbiterStore; event: number; epoch: number },
  seats: number,
  bytes: () => Promise<number>,
): Promise<Figures> {
  const free = await bytes();
  let next = 0;
  // Spread over the whole venue, in no order that a store could like.
  const pairOf = (hold: number): number[] => {
    const first = ((hold * 7_919) % (seats / 2)) * 2;
    return [first, first + 1];
  };
  const buyer = async (): Promise<void> => {
    while (next < holds) {
      const hold = next++;
      const claim = { kind: 'seats' as const, seats: pairOf(hold) };
      const { kind } = await surely(() => arbiter.hold(holdCommand({ event, epoch, buyer: hold, claim })));
      if (kind !== 'granted') throw new Error(`hold ${hold} was answered ${kind}`);
    }
  };
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: flight }, buyer));
  const elapsed = performance.now() - startedAt;
  const held = await bytes();
  const lookedAt = performance.now();
  await arbiter.snapshot(event, 0);
  return {
    'bytes a free seat': free / seats,
    'bytes a hold of two seats': (held - free) / holds,
    holds: (holds / elapsed) * 1_000,
    'snapshot of all seats': performance.now() - lookedAt,
  };
}
