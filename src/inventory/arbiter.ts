import type {
  DecidedState,
  EventNo,
  Hold,
  Holder,
  HoldId,
  OrderId,
  PartitionNo,
  Visitor,
} from '../core/hold.ts';
import type { Phase } from '../core/phase.ts';
import type { SeatNo } from '../core/seat-map.ts';

/**
 * The arbiter decides who holds a seat now. One contract, several stores: in-process (the reference and specification),
 * Postgres (the embedded default and the degraded path), Redis. Every adapter passes one contract suite.
 *
 * - Each operation is ONE atomic conditional step in the store; nothing is read first and written later.
 * - Time is the store's own clock. A caller's clock decides nothing (S3).
 * - "Taken" is a normal, cheap outcome. Faults of the store are exceptions (`StoreFault`), never outcomes.
 * - An expired hold is free for the next claim at once, whether or not anything swept it (S4).
 */
export interface Arbiter {
  /**
   * Makes the partition's seats known (once at publishing; again when a store is rebuilt). Seats already known keep the
   * higher version. Idempotent.
   */
  load(command: LoadCommand): Promise<LoadOutcome>;
  /**
   * Claims a set of seats for a holder: all or nothing (S2), within the holder's quota (S7), idempotent by hold id. Refusals
   * have one order of precedence: what the id's own past says (repeated, mismatch, hold_gone), not_open, too_late, taken,
   * the visitor's other hold (repeated, hold_exists, hold_gone), quota, address quota. A hold id is used up for `lifeMaxMs`
   * after its lease has ended, and for good if it led to an order: that order would come back under the same key.
   */
  hold(command: HoldCommand): Promise<HoldOutcome>;
  /**
   * Presents a receipt whose signature the caller has checked: answers the hold as it is. A Postgres that has just taken over
   * from a lost Redis takes the seats again while grace lasts: of several receipts for a seat, and of several of one
   * visitor, the one with the higher (epoch, grant) wins, so the answer is `recovering` until grace ends. Refused with
   * `hold_gone`: a receipt whose deadline has passed, whose id is used up or has become an order, or that would exceed the
   * holder's quota (S7); `taken`: a decision or a later hold has a seat of it. After grace a forgotten hold is `hold_gone`.
   */
  recover(command: RecoverCommand): Promise<RecoverOutcome>;
  /**
   * The hold as it is now; for its owner's page. Expired, released and unknown holds are `null`, and one that a decision has
   * taken a seat from. A hold that has become an order is answered until that order has ended, whatever its deadline.
   */
  find(event: EventNo, partition: PartitionNo, hold: HoldId): Promise<Hold | null>;
  /**
   * Binds the hold to one order and sets its deadline to `extendedDeadline` (core/hold.ts): the proof that it lives.
   * Repeatable with the same order id: then the deadline is not moved again (S6), and a hold that has become this very order
   * still answers `extended`, so that a repeated purchase finds its order (P1). A hold bound to another order refuses.
   */
  extend(command: ExtendCommand): Promise<ExtendOutcome>;
  /**
   * Gives the seats back, only by its own id and visitor (S5). A hold bound to an order refuses: the order has to be closed
   * first (`force` is for the caller that has just written the order as closed). For an id that is not there yet a tombstone
   * is left for a hold's maximum life, so that an overtaken claim cannot leave a ghost.
   */
  release(command: ReleaseCommand): Promise<ReleaseOutcome>;
  /**
   * What Postgres decided about seats. A change whose version is not higher than the seat's is ignored; `available` takes
   * back only a projected state, never a hold; the others override a hold, which then can neither be extended nor found; what
   * is left of it can be released, and lapses. `ended` names holds whose order was sold or closed: their quota entries end,
   * for good. Unknown seats and holds are ignored. Idempotent; any order. Returns whether the partition's store has it: false is
   * for whoever builds on it, or has to tell it again.
   */
  project(command: ProjectCommand): Promise<boolean>;
  /**
   * Tidies up to `limit` expired holds and memories of used-up ids, oldest first, and answers how many. Never needed for
   * correctness.
   */
  sweep(event: EventNo, partition: PartitionNo, limit: number): Promise<number>;
  /** Every seat's state at one instant of the store's clock. */
  snapshot(event: EventNo, partition: PartitionNo): Promise<Snapshot>;
}

export interface LoadCommand {
  event: EventNo;
  partition: PartitionNo;
  seats: { seat: SeatNo; version: number; state: DecidedState }[];
  /** For stores that do not have the record beside them; others ignore it. */
  phase?: DecidedPhase;
}
/** The event's phase and the version of its controls: a version that is not higher than the store's is ignored. */
export interface DecidedPhase {
  phase: Phase;
  version: number;
}
export type LoadOutcome = { kind: 'loaded'; seats: number } | Retry;

/** What is asked for. Seat lists need no order; the adapter sorts and refuses repeats by assertion. */
export type Claim =
  /** Exactly these. */
  | { kind: 'seats'; seats: SeatNo[] }
  /**
   * The first group that is wholly free, in the order given (best available in one round trip); groups of one size. A group
   * that another claim is just deciding about may be passed over for a later one.
   */
  | { kind: 'groups'; groups: SeatNo[][] }
  /** Any `quantity` free units of the range [first, first + count), scanning from `start` (an offset) and wrapping: GA. */
  | { kind: 'units'; first: SeatNo; count: number; quantity: number; start: number };

export interface HoldCommand {
  event: EventNo;
  partition: PartitionNo;
  hold: HoldId;
  visitor: Visitor;
  holder: Holder;
  /** Hash of the request body: the same hold id with another request is refused (`mismatch`). */
  request: string;
  claim: Claim;
  /** Milliseconds of life from the grant; with `replaces` the old grant's time and deadline are kept instead (S6). */
  ttlMs: number;
  /** The holder's quota in this partition: seats held, or reserved and unpaid (S7). */
  seatsMax: number;
  /** The client's address range and its quota in this partition. Absent or null: the hold does not count for any address. */
  address?: AddressQuota | null;
  /**
   * All of the new set, where the old hold's own seats count as free, or nothing changed; the old hold then ends. It has to
   * live, belong to this visitor and not be bound to an order.
   */
  replaces: HoldId | null;
  /** Epoch ms of the arbiter's clock after which the claim must not be granted any more; null: no limit. */
  notAfter: number | null;
}

export interface AddressQuota {
  /** Id of the range, not the address itself. */
  id: string;
  /** Seats held, or reserved and unpaid, by all visitors of the range. A hold that came back by its receipt does not count. */
  seatsMax: number;
}

export type HoldOutcome =
  /** `repeated`: the hold was there before: same id and request, or same visitor and exactly the same seats. */
  | { kind: 'granted'; hold: Hold; repeated: boolean }
  /** Named seats: which of them are not free. Groups and units: empty list. */
  | { kind: 'taken'; seats: SeatNo[] }
  /** The visitor has a live hold in this partition and did not say `replaces`. */
  | { kind: 'hold_exists'; hold: Hold }
  | { kind: 'quota'; used: number; max: number }
  /** The visitors of this address range hold, or have reserved, `used` seats. */
  | { kind: 'address_quota'; used: number; max: number }
  | { kind: 'mismatch' }
  /** `replaces` names a hold that is not this visitor's live, unbound hold; or this very id was released or has expired. */
  | { kind: 'hold_gone' }
  | { kind: 'too_late' }
  /** The phase does not allow new holds. */
  | { kind: 'not_open'; phase: Phase }
  | Retry;

/** The partition is moving between stores (under a second), was just degraded (grace), or its store did not answer. */
export type Retry = { kind: 'retry'; afterMs: number };

export interface RecoverCommand {
  event: EventNo;
  partition: PartitionNo;
  receipt: Hold;
  seatsMax: number;
}
export type RecoverOutcome =
  | { kind: 'recovered'; hold: Hold }
  | { kind: 'recovering'; until: number }
  | { kind: 'taken'; seats: SeatNo[] }
  | { kind: 'hold_gone' }
  | Retry;

export interface ExtendCommand {
  event: EventNo;
  partition: PartitionNo;
  hold: HoldId;
  visitor: Visitor;
  order: OrderId;
  /** The rank in the hold's receipt. A store that has granted fewer numbers under that epoch is an older copy of itself. */
  receipt?: Pick<Hold, 'epoch' | 'grant'>;
}
export type ExtendOutcome =
  | { kind: 'extended'; hold: Hold }
  | { kind: 'hold_gone' }
  | { kind: 'bound'; order: OrderId }
  | Retry;

export interface ReleaseCommand {
  event: EventNo;
  partition: PartitionNo;
  hold: HoldId;
  visitor: Visitor;
  /** The order that this hold was bound to and that the caller has just closed. */
  force?: OrderId;
  /** As in `ExtendCommand`. */
  receipt?: Pick<Hold, 'epoch' | 'grant'>;
}
export type ReleaseOutcome =
  | { kind: 'released'; seats: SeatNo[] }
  /** Nothing to give back: it was not there (a tombstone now is), had expired or was released before. */
  | { kind: 'hold_gone' }
  | { kind: 'bound'; order: OrderId }
  | Retry;

export interface SeatChange {
  seat: SeatNo;
  version: number;
  state: DecidedState;
}
export interface ProjectCommand {
  event: EventNo;
  partition: PartitionNo;
  changes: SeatChange[];
  /** Holds that became an order (seats reserved): the quota entry stays although the lease is over. */
  ordered: HoldId[];
  /** Holds whose order was sold or closed: the quota entry ends. */
  ended: HoldId[];
  /** For stores that do not have the record beside them; others ignore it. */
  phase?: DecidedPhase;
}

export interface Snapshot {
  /** Epoch ms of the store's clock. */
  at: number;
  epoch: number;
  /**
   * Indices into `seatStates` by seat_no, from seat 0 to the partition's last seat; 255: a seat of another partition.
   */
  codes: Uint8Array;
}

// What a store implements. Its callers are the router (routed.ts), which knows the mode of each partition, and the rebuild.

/** The command under the epoch that the caller read. A store at another epoch returns `stale` and changes nothing. */
export type UnderEpoch<Command> = Command & { epoch: number };

/** The store's epoch is another one: read the mode again. */
export type Stale = { kind: 'stale'; epoch: number };

/** `Arbiter`, with the epoch in each command. The check is part of the same atomic step. */
export interface ArbiterStore extends Pick<Arbiter, 'find' | 'project' | 'sweep' | 'snapshot'> {
  load(command: UnderEpoch<LoadCommand>): Promise<LoadOutcome | Stale>;
  hold(command: UnderEpoch<HoldCommand>): Promise<HoldOutcome | Stale>;
  recover(command: UnderEpoch<RecoverCommand>): Promise<RecoverOutcome | Stale>;
  extend(command: UnderEpoch<ExtendCommand>): Promise<ExtendOutcome | Stale>;
  release(command: UnderEpoch<ReleaseCommand>): Promise<ReleaseOutcome | Stale>;
}
