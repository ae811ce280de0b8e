import { auditEvent, eventsToAudit } from '../src/audit/audit.ts';
import { createEvents } from '../src/catalogue/events.ts';
import { ledgerAt } from '../src/cli/audit.ts';
import type { HoldId, OrderId } from '../src/core/hold.ts';
import type { ArbiterStore, HoldCommand, UnderEpoch } from '../src/inventory/arbiter.ts';
import type { Db } from '../src/postgres/db.ts';
import { systemClock } from '../src/runtime/clock.ts';
import { holdCommand, openPostgresEvent } from './arbiter-arena.ts';

/** An event of our schema that a bench sells, one partition. */
export interface SaleEvent {
  event: number;
  epoch: number;
}

/** One buyer's purchase, the same for every seller. */
export interface SalePurchase {
  command: UnderEpoch<HoldCommand>;
  order: OrderId;
  seats: number[];
  account: string;
  buyer: { name: string; email: string };
  lines: { seat: number; category: string; kind: string; price: number; fee: number }[];
  orderFee: number;
  currency: string;
}

const price = 5_000;
const fee = 250;

/** A separate open event that Postgres arbitrates. */
export async function openSaleEvent(db: Db, arbiter: ArbiterStore, venue: number): Promise<SaleEvent> {
  const { event, epoch } = await openPostgresEvent({ db, arbiter }, venue);
  // The audit treats an event with this value as published.
  await db.query('bench_published', 'UPDATE events SET seat_count = $2 WHERE event_no = $1', [event, venue]);
  return { event, epoch };
}

/** The hold's id is one buyer's own already. */
export const orderIdOf = (hold: HoldId): OrderId => `${hold.slice(0, 14)}5${hold.slice(15)}`;

export function purchaseOf(
  { event, epoch }: SaleEvent,
  { buyer, seats }: { buyer: number; seats: number[] },
): SalePurchase {
  const command = holdCommand({ event, epoch, buyer, claim: { kind: 'seats', seats } });
  const email = `buyer-${buyer}@example.org`;
  return {
    command,
    order: orderIdOf(command.hold),
    seats,
    account: email,
    buyer: { name: `Buyer ${buyer}`, email },
    lines: seats.map((seat) => ({ seat, category: 'A', kind: 'full', price, fee })),
    orderFee: 0,
    currency: 'EUR',
  };
}

/** Throws when anything was not sold as it was bought, or the audit of record, arbiter and payments finds a broken promise. */
export async function checkSale(
  { db, arbiter, money }: { db: Db; arbiter: ArbiterStore; money: string },
  event: number,
  bought: { purchases: number; seatsEach: number },
): Promise<void> {
  const [row] = await db.query<{ paid: number; sold: number }>(
    'bench_sold',
    `SELECT (SELECT count(*) FROM orders WHERE event_no = $1 AND state = 'paid') AS paid,
            (SELECT count(*) FROM tickets WHERE event_no = $1 AND status = 'sold') AS sold`,
    [event],
  );
  if (row!.paid !== bought.purchases || row!.sold !== bought.purchases * bought.seatsEach)
    throw new Error(`${row!.paid} orders of ${row!.sold} seats after ${bought.purchases} purchases`);
  const ledger = await ledgerAt(money);
  const audited = (await eventsToAudit(db, null)).find((one) => one.event === event);
  if (!ledger || !audited) throw new Error('nothing to audit');
  const events = createEvents({ db, clock: systemClock });
  const report = await auditEvent(
    {
      db,
      clock: systemClock,
      modes: (no) => events.modes(no),
      arbiter,
      redisHolds: null,
      numbers: null,
      money: ledger,
    },
    audited,
  );
  if (report.violations > 0) throw new Error(`promises broken: ${JSON.stringify(report.promises)}`);
}
