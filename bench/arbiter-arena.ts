import { Redis } from 'ioredis';
import { type EventNo, seatStates } from '../src/core/hold.ts';
import type { ArbiterStore, Claim, HoldCommand, UnderEpoch } from '../src/inventory/arbiter.ts';
import type { RebuildableArbiter } from '../src/inventory/modes.ts';
import { createRedisArbiter } from '../src/inventory/redis/arbiter.ts';
import { partitionKeys, partitionTag } from '../src/inventory/redis/scripts.ts';
import type { Db } from '../src/postgres/db.ts';
import { createRedisStore } from '../src/redis/client.ts';
import type { RedisServer } from '../src/redis/server.ts';
import type { RedisStore } from '../src/redis/store.ts';
import { systemClock } from '../src/runtime/clock.ts';
import { silentLogger } from '../src/runtime/log.ts';
import { StoreFault } from '../src/runtime/store-fault.ts';
import { hotSeats, type StoredArena } from './hot-seats.ts';

const prefix = 'bench';

/** A partition with all its seats free: who arbitrates it, under which epoch. */
export interface OpenEvent {
  arbiter: ArbiterStore;
  event: EventNo;
  epoch: number;
}

/** An event of its own on Postgres, open, with its seats; without layout or labels, which no arbiter reads. */
export async function openPostgresEvent(
  { db, arbiter }: { db: Db; arbiter: ArbiterStore },
  seats: number,
): Promise<OpenEvent> {
  await db.query(
    'bench_plan',
    `INSERT INTO plans (plan_id, name, version, hash, plan, report) VALUES ('bench', 'bench', 1, 'bench', '', '{}')
     ON CONFLICT DO NOTHING`,
  );
  const [row] = await db.query<{ event_no: number }>(
    'bench_event',
    `INSERT INTO events (event_id, name, plan_id, currency, prices, settings, phase)
     VALUES ('bench-' || substr(gen_random_uuid()::text, 1, 18), 'bench', 'bench', 'EUR', '{}', '{}', 'open') RETURNING event_no`,
  );
  const event = row!.event_no;
  await db.query('bench_tables', 'SELECT create_event_tables($1)', [event]);
  const [partition] = await db.query<{ epoch: number }>(
    'bench_epoch',
    'SELECT epoch FROM event_partitions WHERE event_no = $1 AND partition = 0',
    [event],
  );
  const epoch = partition!.epoch;
  await loadFree(arbiter, { event, partition: 0, epoch }, seats);
  await db.query('bench_vacuum', `VACUUM ANALYZE seats_${event}`);
  return { arbiter, event, epoch };
}

let redisEvents = 0;

/**
 * A separate partition in Redis, open, with its seats, as a rebuild makes it. Postgres has no data about it, unless `stored`
 * names it.
 */
export async function openRedisEvent(
  server: RedisServer,
  {
    seats,
    claimsPerCall,
    stored,
  }: { seats: number; claimsPerCall?: number; stored?: { event: EventNo; epoch: number } },
): Promise<OpenEvent & { store: RedisStore; arbiter: RebuildableArbiter; tag: string }> {
  redisEvents += 1;
  const at = { event: redisEvents, epoch: 1, ...stored, partition: 0 };
  const store = createRedisStore({ name: 'default', url: server.url, clock: systemClock, log: silentLogger });
  await store.primaries();
  const tag = partitionTag(prefix, at.event, 0);
  store.trust(tag, [server.runId]);
  const arbiter = createRedisArbiter({ store, prefix, clock: systemClock, claimsPerCall });
  await arbiter.begin(at);
  await loadFree(arbiter, at, seats);
  await arbiter.open({ ...at, phase: { phase: 'open', version: 1 }, lastGrant: 0 });
  return { ...at, arbiter, store, tag };
}

/** Takes the partition's memory back, for the next run. */
export async function closeRedisEvent(
  { store, tag }: { store: RedisStore; tag: string },
  server: RedisServer,
) {
  await store.close();
  const client = new Redis(server.url);
  await client.unlink(...partitionKeys(tag));
  client.disconnect();
}

async function loadFree(
  arbiter: ArbiterStore,
  at: { event: EventNo; partition: number; epoch: number },
  seats: number,
): Promise<void> {
  const step = 10_000;
  for (let from = 0; from < seats; from += step) {
    const count = Math.min(step, seats - from);
    const list = Array.from({ length: count }, (_, index) => ({
      seat: from + index,
      version: 1,
      state: 'available' as const,
    }));
    await arbiter.load({ ...at, seats: list });
  }
}

/** Buyers, each a separate visitor, who claim through the adapter; nothing rejects them earlier. */
export function arbiterArena(
  opened: OpenEvent,
  { seats, units, close }: { seats: number; units: boolean; close: () => Promise<void> },
): StoredArena {
  const { arbiter, event, epoch } = opened;
  return {
    rounds: Math.floor(seats / hotSeats),
    claim: async (round, place, buyer) => {
      const first = round * hotSeats;
      const claim: Claim = units
        ? { kind: 'units', first, count: hotSeats, quantity: 1, start: place }
        : { kind: 'seats', seats: [first + place] };
      const outcome = await surely(() => arbiter.hold(holdCommand({ event, epoch, buyer, claim })));
      if (outcome.kind === 'granted') return outcome.hold.seats[0]!;
      if (outcome.kind === 'taken') return null;
      throw new Error(`an answer that no claim of this bench should get: ${JSON.stringify(outcome)}`);
    },
    held: async () => {
      const { codes } = await arbiter.snapshot(event, 0);
      const held = seatStates.indexOf('held');
      return [...codes.keys()].filter((seat) => codes[seat] === held);
    },
    close,
  };
}

const patience = 20;

/** Asks again when the store did not answer in time, as a web process does; the claim is the same by its id. */
export async function surely<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  for (let i = 1; ; i++) {
    try {
      return await ask();
    } catch (fault) {
      if (!(fault instanceof StoreFault) || i === patience) throw fault;
    }
  }
}

export function holdCommand(wanted: {
  event: EventNo;
  epoch: number;
  buyer: number;
  claim: Claim;
}): UnderEpoch<HoldCommand> {
  const { event, epoch, buyer, claim } = wanted;
  const visitor = `v${String(buyer).padStart(21, '0')}`;
  return {
    event,
    partition: 0,
    epoch,
    hold: `${hex(buyer, 8)}-0000-4000-8000-${hex(event, 12)}`,
    visitor,
    holder: visitor,
    request: 'bench',
    claim,
    ttlMs: 600_000,
    seatsMax: 8,
    replaces: null,
    notAfter: null,
  };
}

const hex = (value: number, length: number): string => value.toString(16).padStart(length, '0');
