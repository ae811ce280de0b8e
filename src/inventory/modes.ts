import type { EventNo, PartitionNo } from '../core/hold.ts';
import type { ArbiterStore, DecidedPhase, Stale } from './arbiter.ts';

/**
 * Which store arbitrates a partition, and how that changes. One row per partition in Postgres is the only
 * truth; every change is one compare-and-set of it, under the event's lock, so that nothing granted before a change commits
 * after it. The functions are in functions/partitions.sql.
 */
export interface PartitionModes {
  /**
   * Reports that the partition's Redis does not respond or lost its memory. Degrades at once if `term` is the current one (the
   * leader's own probe), or if another process reported the same epoch within `witnessMs`; not within `settleMs` of a
   * restore. Degrading sets mode `postgres`, a new epoch, and grace of `graceMs`, and counts open orders in the quota again.
   */
  report(command: ReportCommand): Promise<ReportOutcome>;
  /** A number that the partition's Redis has given under `epoch`, for all processes to know. Never lowers what is known. */
  granted(at: PartitionEpoch, granted: number): Promise<void>;
  /**
   * First step of a rebuild: a new epoch to rebuild under; the mode stays `postgres`. Conditional on the leader's term. `above`:
   * an epoch that the store knows and the new one exceeds.
   */
  begin(at: PartitionTerm & { above?: number }): Promise<{ kind: 'begun'; epoch: number } | Refused>;
  /** Reads what Redis has to know while sales go on: the decided seats first, then the holds and the remembered used-up ids. */
  seats(event: EventNo, partition: PartitionNo): Promise<StoredSeats & { mark: string }>;
  holds(event: EventNo, partition: PartitionNo): Promise<StoredHold[]>;
  /**
   * Second step: sets `moving`. From now on hold, extend, release and reserve return `retry`. Returns the changes since the mark,
   * or everything. Rejected unless `rebuild` is the latest one.
   */
  move(
    at: PartitionTerm & { rebuild: number; since?: string },
  ): Promise<{ kind: 'moving'; seats: StoredSeats; holds: StoredHold[]; phase: DecidedPhase } | Refused>;
  /** Last: `redis` under the rebuild's epoch, trusted with these run ids; the rows of the loaded holds go in the same step. */
  flip(at: PartitionTerm & { rebuild: number; runIds: string[] }): Promise<{ kind: 'flipped' } | Refused>;
  /**
   * Back from `moving` to `postgres` under a fresh epoch which the holds are taken along to: what the leader does that
   * finds a move whose maker is gone, or whose own move fails.
   */
  abort(at: PartitionTerm): Promise<{ kind: 'aborted'; epoch: number } | Refused>;
}

export interface PartitionTerm {
  event: EventNo;
  partition: PartitionNo;
  term: number;
}
/** Another term rules, or the row is not as expected: nothing was changed. */
export type Refused = { kind: 'refused'; reason: 'other_term' | 'other_mode' | 'other_rebuild' | 'in_grace' };

export interface ReportCommand {
  event: EventNo;
  partition: PartitionNo;
  /** Under which the store was expected to answer. */
  epoch: number;
  /** The process that saw it. */
  reporter: string;
  /** For the operator: `unreachable`, `timeout`, `forgot`, `untrusted`, `read_only`, `full`, `clock`. */
  reason: string;
  /** The leader's term. Null if the reporter is only a witness. */
  term: number | null;
}
export type ReportOutcome =
  | { kind: 'degraded'; epoch: number }
  | { kind: 'noted' }
  /** Restored too short a time ago: the store is asked again. */
  | { kind: 'settling'; afterMs: number }
  /** Not in `redis` mode under that epoch any more. */
  | { kind: 'changed' };

export interface StoredSeats {
  /** Every seat of the partition, ascending, side by side with its version and the index of its state in `seatStates`. */
  seats: number[];
  versions: number[];
  states: number[];
}

/** A hold as a store keeps it: the lease and what is remembered after it. Times are epoch ms. */
export interface StoredHold {
  hold: string;
  visitor: string;
  holder: string;
  request: string;
  seats: number[];
  grantedAt: number;
  deadline: number;
  grant: number;
  order: string | null;
  /** Id of the client's address range. Absent or null: none. */
  address?: string | null;
  /** See `HeldRecord` in seat-book.ts. */
  state: 'live' | 'ordered' | 'ended' | 'released' | 'replaced' | 'expired' | 'tombstone';
}

/**
 * An arbiter whose memory is a cache that can be lost: it is rebuilt from Postgres under a new epoch. Until `open`, every
 * operation of the contract answers `stale`; `load` is accepted before and after, under the same epoch.
 */
export interface RebuildableArbiter extends ArbiterStore {
  /** Forgets all of the partition and begins to load it under `epoch`; a rebuild under a lower epoch answers `stale` from here on. */
  begin(at: PartitionEpoch): Promise<{ kind: 'begun' } | Stale>;
  /**
   * Holds and memories of the former store, only while loading; a later reading of one replaces the former. A live hold's seats
   * are taken by it.
   */
  remember(command: PartitionEpoch & { holds: StoredHold[] }): Promise<{ kind: 'remembered' } | Stale>;
  /** From now on it answers. Grant numbers go on above `lastGrant`. */
  open(
    command: PartitionEpoch & { phase: DecidedPhase; lastGrant: number },
  ): Promise<{ kind: 'opened' } | Stale>;
  /**
   * Whether it answers, under which epoch (0: none), the last number it has given, and whether it can be written to. Writes a
   * key of its own.
   */
  probe(event: EventNo, partition: PartitionNo): Promise<{ epoch: number; time: number; grant: number }>;
  /**
   * Returns the highest number that this process knows was given under the epoch, `atLeast` included. A store that has given
   * fewer is an older copy of itself: from here on it is refused, as one that lost its memory.
   */
  floor(at: PartitionEpoch, atLeast?: number): number;
}
export interface PartitionEpoch {
  event: EventNo;
  partition: PartitionNo;
  epoch: number;
}

/** Only receipts are honoured for that long after a degrade. */
export const graceMs = 10_000;
/**
 * No degrade within this long of a restore on the word of witnesses: connections that were made before it may still fail. The
 * leader's own probe does not wait, since a Redis that is gone holds nothing; it makes the next restore wait longer instead,
 * so that one that comes and goes does not take the sale along each time.
 */
export const settleMs = 30_000;
/** Two processes' reports within this long are two witnesses of the same. */
export const witnessMs = 5_000;

/** A partition's row as it was read. */
export interface PartitionRow {
  partition: PartitionNo;
  mode: 'postgres' | 'moving' | 'redis';
  epoch: number;
  /** Name of the configured Redis that it is pinned to. Null means the default one. */
  store: string | null;
  runIds: string[];
  /** A number that its Redis has given under `epoch`. */
  granted: number;
  /** Epoch ms by Postgres's clock; until then only receipts are honoured. */
  graceUntil: number | null;
}

/** Reads the modes of an event's partitions. */
export interface ModeReader {
  /**
   * A reading that began at `at` (monotonic ms), less than a second ago; at `notBefore` or later when that is given. Readers at
   * the same time share one.
   */
  read(event: EventNo, notBefore?: number): Promise<{ at: number; modes: PartitionRow[] }>;
}
