import type { EventNo } from '../core/hold.ts';
import type { SeatNo } from '../core/seat-map.ts';
import type { Db } from '../postgres/db.ts';

/** Statements about entry (functions/entry.sql). Times are epoch ms. */

export const entryBounds = {
  gateLengthMax: 60,
  scanLengthMax: 100,
  reasonLengthMax: 200,
  /** Maximum of scans in one upload, and of listed tickets with several uses. */
  scansMax: 500,
} as const;

/** Why a code that we issued is not valid. */
export type RevokedWhy = 'refunded' | 'event_cancelled' | 'not_paid' | 'unknown';

export type CheckInOutcome =
  /** Let in. `repeated`: the same scan of this gate asked before and has the same answer. */
  | { kind: 'valid'; repeated: boolean; at: number; gate: string | null; seat: SeatNo; ticketKind: string }
  /** This very scan was taken back since. */
  | { kind: 'undone'; at: number; gate: string | null; seat: SeatNo; ticketKind: string }
  /** Let in before, at that time and gate. */
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

/** Records the first use, once, whatever process asks. The code was verified before. */
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

export type UndoOutcome =
  /** The ticket may be used again, unless another use of it was recorded: `next` is then its first use. */
  | {
      kind: 'undone';
      at: number;
      gate: string | null;
      seat: SeatNo | null;
      next: { at: number; gate: string | null } | null;
    }
  | { kind: 'not_entered' }
  /** The event has no such ticket. */
  | { kind: 'unknown' };

/** Takes back a use that was a mistake; audited. `at`: only the use of that time, so that a repeat undoes no later one. */
export async function undoEntry(
  db: Db,
  undo: { event: EventNo; ticket: string; at: number | null; reason: string; actor: string },
): Promise<UndoOutcome> {
  const rows = await db.query<{ outcome: UndoOutcome }>(
    'entry_undo',
    `SELECT entry_undo($1, $2, to_timestamp($3::double precision / 1000), $4, $5) AS outcome`,
    [undo.event, undo.ticket, undo.at, undo.reason, undo.actor],
  );
  return rows[0]!.outcome;
}

/** An entry at a gate without a network. */
export interface OfflineScan {
  ticket: string;
  scan: string;
  gate: string | null;
  /** Time by the gate's clock. */
  at: number;
}

/** A use of a ticket: its time, its gate, and the source of the record. */
export interface EntryUse {
  at: number;
  gate: string | null;
  actor: string;
}

/** The state of a scan after it was taken in. `repeated`: the scan was known before. */
export interface ScanStanding {
  scan: string;
  ticket: string;
  /** `entered`: the ticket's first use. `double`: it had been used before. `revoked`: it was no longer valid. */
  kind: 'entered' | 'double' | 'revoked' | 'undone';
  repeated: boolean;
  at: number;
  gate: string | null;
  seat: SeatNo | null;
  why: RevokedWhy | null;
  /** The ticket's other uses, the earliest first; null where the scan itself does not count. */
  others: EntryUse[] | null;
}

/** Takes in up to `entryBounds.scansMax` scans; answers one a scan, in their order. The same again changes nothing. */
export async function uploadScans(
  db: Db,
  event: EventNo,
  scans: readonly OfflineScan[],
  actor: string,
): Promise<ScanStanding[]> {
  const rows = await db.query<{ standing: ScanStanding[] }>(
    'entry_upload',
    'SELECT entry_upload($1, $2, $3) AS standing',
    [event, JSON.stringify(scans), actor],
  );
  return rows[0]!.standing;
}

/** Tickets that more than one came in with, the newest first. */
export async function entryDoubles(
  db: Db,
  event: EventNo,
): Promise<{ ticket: string; seat: SeatNo | null; uses: EntryUse[] }[]> {
  const rows = await db.query<{ doubles: Awaited<ReturnType<typeof entryDoubles>> }>(
    'entry_doubles',
    'SELECT entry_doubles($1, $2) AS doubles',
    [event, entryBounds.scansMax],
  );
  return rows[0]!.doubles;
}

export interface EntryCounts {
  entered: number;
  /** From gates without a network: uses of tickets that had been used before, and of tickets that were no longer valid. */
  doubles: number;
  revoked: number;
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

/** Returns Postgres's time, which is the time of an export. */
export async function recordTime(db: Db): Promise<number> {
  const rows = await db.query<{ now: number }>('record_time', 'SELECT clock_timestamp() AS now');
  return rows[0]!.now;
}
