import type { EventNo } from '../core/hold.ts';
import type { SeatNo } from '../core/seat-map.ts';
import type { Db } from '../postgres/db.ts';

/** Statements about entry (functions/entry.sql). Times are epoch ms. */

export const entryBounds = {
  gateLengthMax: 60,
  scanLengthMax: 100,
  reasonLengthMax: 200,
  /** Of scans that are taken in at once, and of tickets with several uses that are listed. */
  scansMax: 500,
} as const;

/** Why a code that we issued lets nobody in. */
export type RevokedWhy = 'refunded' | 'event_cancelled' | 'not_paid' | 'unknown';

export type CheckInOutcome =
  /** Let in. `repeated`: the same scan of this gate asked before and has the same answer. */
  | { kind: 'valid'; repeated: boolean; at: number; gate: string | null; seat: SeatNo; ticketKind: string }
  /** Let in before, then and there. */
  /** This very scan was taken back since. */
  | { kind: 'undone'; at: number; gate: string | null; seat: SeatNo; ticketKind: string }
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

export type UndoOutcome =
  /** The ticket may be used again, unless somebody else came in with it: `next` is its first use then. */
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

/** What a gate without a network let in. */
export interface OfflineScan {
  ticket: string;
  scan: string;
  gate: string | null;
  /** By the gate's clock. */
  at: number;
}

/** A use of a ticket: when, where, and who told of it. */
export interface EntryUse {
  at: number;
  gate: string | null;
  actor: string;
}

/** How a scan stands after it was taken in. `repeated`: it was known before. */
export interface ScanStanding {
  scan: string;
  ticket: string;
  /** `entered`: the ticket's first use. `double`: somebody came in with it before. `revoked`: it was valid no more. */
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
  /** Of gates without a network: uses of tickets that somebody had come in with, and of tickets that were valid no more. */
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

/** By Postgres's clock: what an export is as old as. */
export async function recordTime(db: Db): Promise<number> {
  const rows = await db.query<{ now: number }>('record_time', 'SELECT clock_timestamp() AS now');
  return rows[0]!.now;
}
