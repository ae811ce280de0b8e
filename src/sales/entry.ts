import type { EventNo } from '../core/hold.ts';
import type { SeatNo } from '../core/seat-map.ts';
import type { Db } from './db.ts';

/** Statements about entry (migrations/0018_entry.sql). Times are epoch ms. */

export const entryBounds = { gateLengthMax: 60, scanLengthMax: 100 } as const;

/** Why a code that we issued lets nobody in. */
export type RevokedWhy = 'refunded' | 'event_cancelled' | 'not_paid' | 'unknown';

export type CheckInOutcome =
  /** Let in. `repeated`: the same scan asked before and has the same answer. */
  | { kind: 'valid'; repeated: boolean; at: number; gate: string | null; seat: SeatNo; ticketKind: string }
  /** Let in before, then and there. */
  | { kind: 'used'; repeated: boolean; at: number; gate: string | null; seat: SeatNo; ticketKind: string }
  | { kind: 'revoked'; why: RevokedWhy; seat: SeatNo | null; ticketKind?: string };

export interface CheckIn {
  event: EventNo;
  ticket: string;
  gate: string | null;
  /** The scanner's own key of this scan, so that a repeat after a lost answer is not told `used`. */
  scan: string | null;
  actor: string;
}

/** Marks the first use, once whoever asks: the code was verified before. */
export async function checkIn(
  db: Db,
  { event, ticket, gate, scan, actor }: CheckIn,
): Promise<CheckInOutcome> {
  const rows = await db.query<{ outcome: CheckInOutcome }>(
    'entry_check_in',
    'SELECT entry_check_in($1, $2, $3, $4, $5) AS outcome',
    [event, ticket, gate, scan, actor],
  );
  return rows[0]!.outcome;
}

export interface EntryCounts {
  entered: number;
  /** Valid ones, those that were used with them. */
  tickets: number;
  gates: { gate: string | null; entered: number; lastAt: number }[];
}

export async function entryCounts(db: Db, event: EventNo): Promise<EntryCounts> {
  const rows = await db.query<{ counts: EntryCounts }>('entry_counts', 'SELECT entry_counts($1) AS counts', [
    event,
  ]);
  return rows[0]!.counts;
}

/** By Postgres's clock: what an export is as old as. */
export async function recordTime(db: Db): Promise<number> {
  const rows = await db.query<{ now: number }>('record_time', 'SELECT clock_timestamp() AS now');
  return rows[0]!.now;
}
