import type { EventNo, HoldId, PartitionNo } from '../core/hold.ts';
import { assert } from '../core/outcome.ts';
import type { Phase } from '../core/phase.ts';
import type { SeatNo } from '../core/seat-map.ts';
import type { Db } from '../postgres/db.ts';
import type { DecidedSeat } from './record.ts';

/** The decisions of the record that have to be reported to an arbiter in another store. */

export async function decidedPhase(db: Db, event: EventNo): Promise<{ phase: Phase; version: number }> {
  const [row] = await db.query<{ phase: Phase; version: number }>(
    'projection_phase',
    'SELECT phase, version FROM events WHERE event_no = $1',
    [event],
  );
  assert(row, `event ${event} exists`);
  return row;
}

export async function decidedSeats(db: Db, event: EventNo, seats: SeatNo[]): Promise<DecidedSeat[]> {
  return await db.query<DecidedSeat>(
    'projection_seats',
    `SELECT seat_no AS seat, version, state FROM seats WHERE event_no = $1 AND seat_no = ANY ($2) ORDER BY seat_no`,
    [event, seats],
  );
}

export interface OrderedHolds {
  partition: PartitionNo;
  /** Holds whose order is not paid yet. */
  ordered: HoldId[];
  /** Holds whose order was sold or has ended. */
  ended: HoldId[];
}

/** Returns the holds of orders that changed within the last `withinMs`, and with `open` of all unpaid orders. */
export async function orderedHolds(
  db: Db,
  event: EventNo,
  which: { withinMs: number; open: boolean },
): Promise<OrderedHolds[]> {
  return await db.query<OrderedHolds>('projection_orders', 'SELECT * FROM projection_orders($1, $2, $3)', [
    event,
    which.withinMs,
    which.open,
  ]);
}
