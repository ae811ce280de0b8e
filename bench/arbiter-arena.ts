import type { EventNo } from '../src/core/hold.ts';
import { seatStates } from '../src/core/hold.ts';
import type { Arbiter, Claim, HoldCommand } from '../src/inventory/arbiter.ts';
import type { Db } from '../src/sales/db.ts';
import { type Arena, hotSeats } from './hot-seats.ts';

/** A partition with all its seats free: who arbitrates it, under which epoch. */
export interface OpenEvent {
  arbiter: Arbiter;
  event: EventNo;
  epoch: number;
}

/** An event of its own on Postgres, open, with its seats; without layout or labels, which no arbiter reads. */
export async function openPostgresEvent(
  { db, arbiter }: { db: Db; arbiter: Arbiter },
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
  const step = 10_000;
  for (let from = 0; from < seats; from += step) {
    const count = Math.min(step, seats - from);
    await arbiter.load({
      event,
      partition: 0,
      epoch,
      seats: Array.from({ length: count }, (_, index) => ({ seat: from + index, version: 1, state: 'available' })),
    });
  }
  await db.query('bench_vacuum', `VACUUM ANALYZE seats_${event}`);
  return { arbiter, event, epoch };
}

/** Buyers, each a visitor of his own, who claim through the adapter; nothing refuses early. */
export function arbiterArena(
  opened: OpenEvent,
  { seats, units, close }: { seats: number; units: boolean; close: () => Promise<void> },
): Arena {
  const { arbiter, event, epoch } = opened;
  return {
    rounds: Math.floor(seats / hotSeats),
    claim: async (round, place, buyer) => {
      const first = round * hotSeats;
      const claim: Claim = units
        ? { kind: 'units', first, count: hotSeats, quantity: 1, start: place }
        : { kind: 'seats', seats: [first + place] };
      const outcome = await arbiter.hold(holdCommand({ event, epoch, buyer, claim }));
      if (outcome.kind === 'granted' && !outcome.repeated) return outcome.hold.seats[0]!;
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

export function holdCommand(wanted: { event: EventNo; epoch: number; buyer: number; claim: Claim }): HoldCommand {
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
