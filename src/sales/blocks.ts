import type { EventNo, SeatState } from '../core/hold.ts';
import type { SeatNo } from '../core/seat-map.ts';
import type { Db } from './db.ts';
import type { DecidedSeat } from './record.ts';

export interface BlockOutcome {
  blocked: DecidedSeat[];
  /** Held, reserved, sold or already blocked: left as they are. */
  refused: { seat: SeatNo; state: SeatState }[];
}

/** Blocks the free ones of `seats` for the organiser; the others are listed, not taken. */
export async function blockSeats(
  db: Db,
  command: { event: EventNo; actor: string; reason: string; seats: SeatNo[] },
): Promise<BlockOutcome> {
  const rows = await db.query<{ seat_no: number; version: number; state: SeatState; blocked: boolean }>(
    'seats_block',
    'SELECT * FROM seats_block($1, $2, $3, $4)',
    [command.event, command.actor, command.reason, ascending(command.seats)],
  );
  return {
    blocked: rows
      .filter((row) => row.blocked)
      .map((row) => ({ seat: row.seat_no, version: row.version, state: 'blocked' as const })),
    refused: rows.filter((row) => !row.blocked).map((row) => ({ seat: row.seat_no, state: row.state })),
  };
}

/** Gives blocked seats back to the sale; answers those that were blocked. */
export async function unblockSeats(
  db: Db,
  command: { event: EventNo; actor: string; seats: SeatNo[] },
): Promise<DecidedSeat[]> {
  const rows = await db.query<{ seat_no: number; version: number }>(
    'seats_unblock',
    'SELECT * FROM seats_unblock($1, $2, $3)',
    [command.event, command.actor, ascending(command.seats)],
  );
  return rows.map((row) => ({ seat: row.seat_no, version: row.version, state: 'available' as const }));
}

/** Sorted and without repeats: rows are locked in this order everywhere. */
function ascending(seats: SeatNo[]): SeatNo[] {
  return [...new Set(seats)].sort((a, b) => a - b);
}
