import type { Db } from '../../src/postgres/db.ts';
import type { Stack } from './stack.ts';

/** An event's seats by partition. */
export interface Venue {
  eventNo: number;
  partitions: number[];
  /** Name of the Redis that a partition is pinned to. Null is the default one. */
  storeOf(partition: number): string | null;
  partitionOf(seat: number): number;
  /** One of its cheapest and largest: people take the best first. */
  sectionOf(partition: number): string;
}

export async function readVenue(db: Db, event: string): Promise<Venue> {
  const [row] = await db.query<{ no: number }>(
    'gameday_event',
    'SELECT event_no AS no FROM events WHERE event_id = $1',
    [event],
  );
  if (!row) throw new Error(`there is no event ${event}`);
  const eventNo = row.no;
  const rows = await db.query<{ partition: number; store: string | null }>(
    'gameday_partitions',
    'SELECT partition, store FROM event_partitions WHERE event_no = $1 ORDER BY partition',
    [eventNo],
  );
  const seats = await db.query<{ seat: number; partition: number }>(
    'gameday_seats',
    'SELECT seat_no AS seat, partition FROM seats WHERE event_no = $1 AND partition > 0',
    [eventNo],
  );
  const sections = await db.query<{ section: string; partition: number }>(
    'gameday_sections',
    `SELECT e.section_id AS section, s.partition FROM event_seats e JOIN seats s USING (event_no, seat_no)
       JOIN events v USING (event_no)
     WHERE e.event_no = $1 GROUP BY e.section_id, s.partition
     ORDER BY min((v.prices ->> e.category)::integer), count(*) DESC, e.section_id`,
    [eventNo],
  );
  const partitionOf = new Map(seats.map(({ seat, partition }) => [seat, partition]));
  return {
    eventNo,
    partitions: rows.map(({ partition }) => partition),
    storeOf: (partition) => rows.find((each) => each.partition === partition)?.store ?? null,
    partitionOf: (seat) => partitionOf.get(seat) ?? 0,
    sectionOf: (partition) => sections.find((each) => each.partition === partition)!.section,
  };
}

/** Ended and over: no controller looks after it any more, so that a hundred rounds cost no more than one. */
export async function closeEvent(db: Db, eventNo: number): Promise<void> {
  await db.query(
    'gameday_close',
    `UPDATE events SET phase = 'closed', version = version + 1, performance_at = now() - interval '2 days' WHERE event_no = $1`,
    [eventNo],
  );
}

export interface SalesCheck {
  /** Orders that their buyers were told are paid. */
  bought: number;
  /** Sales among them without all of their tickets in the record. */
  lostSales: number;
  /** Seats with two owners, by the record or by what buyers were told. */
  doubleSales: number;
  chargesWithoutTickets: number;
  /** Every contradiction that the audit found. */
  violations: { promise: string; says: string }[];
}

/** Compares the buyers' results with the record, and reads the audit. */
export async function checkSales(
  stack: Stack,
  event: string,
  eventNo: number,
  bought: ReadonlyMap<string, number[]>,
): Promise<SalesCheck> {
  const violations = await audit(stack, event);
  const tickets = await stack.db.query<{ order: string; seat: number }>(
    'gameday_tickets',
    `SELECT order_id::text AS "order", seat_no AS seat FROM tickets JOIN orders o USING (order_id, event_no)
     WHERE event_no = $1 AND status = 'sold' AND o.state IN ('confirmed','paid')`,
    [eventNo],
  );
  const owned = new Set(tickets.map(({ order, seat }) => `${order} ${seat}`));
  const seats = [...bought.values()].flat();
  const told = seats.length - new Set(seats).size;
  return {
    bought: bought.size,
    lostSales: [...bought].filter(([order, mine]) => mine.some((seat) => !owned.has(`${order} ${seat}`)))
      .length,
    doubleSales: Math.max(
      told,
      tickets.length - new Set(tickets.map(({ seat }) => seat)).size,
      violations.filter(({ promise }) => promise === 'S1').length,
    ),
    chargesWithoutTickets: violations.filter(({ promise }) => ['P2', 'P3', 'P8'].includes(promise)).length,
    violations,
  };
}

interface Audited {
  reports: { promises: { promise: string; violations: { promise: string; says: string }[] }[] }[];
}

async function audit(stack: Stack, event: string): Promise<SalesCheck['violations']> {
  const { code, stdout, stderr } = await stack.run(['audit', '--event', event, '--json', '--wait', '30s']);
  const line = stdout.trim().split('\n').at(-1) ?? '';
  if (!line.startsWith('{')) throw new Error(`onsale audit ended with ${code}: ${stderr.slice(-2_000)}`);
  const { reports } = JSON.parse(line) as Audited;
  return reports
    .flatMap(({ promises }) => promises.flatMap(({ violations }) => violations))
    .map(({ promise, says }) => ({ promise, says }));
}
