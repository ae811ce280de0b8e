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
   * Presents a receipt whose signature the caller has checked. Returns the hold unchanged if it exists. A Postgres that has just
   * taken over from a lost Redis takes the seats again during grace. Of several receipts for a seat, and of several of one
   * visitor, the one with the higher (epoch, grant) wins, so the outcome is `recovering` until grace ends. Returns `hold_gone` if
   * the receipt's deadline has passed, its id is used up or has become an order, or it would exceed the holder's quota (S7).
   * Returns `taken` if a decision or a later hold has one of its seats. After grace a forgotten hold is `hold_gone`.
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
   * Applies Postgres's decisions about seats. A change whose version is not higher than the seat's is ignored. `available` takes
   * back only a projected state, never a hold. Other states override a hold, which then can neither be extended nor found; the
   * rest of it can be released, and it expires. `ended` names holds whose order was sold or closed: their quota entries end for
   * good. Unknown seats and holds are ignored. Idempotent, in any order. Returns whether the partition's store applied it. On
   * false, callers that rely on the change must repeat it.
   */
  project(command: ProjectCommand): Promise<boolean>;
  /**
   * Removes up to `limit` expired holds and remembered ids, oldest first, and returns their number. Not needed for
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
  /** Used by stores without the record. Others ignore it. */
  phase?: DecidedPhase;
}
/** The event's phase and the version of its controls: a version that is not higher than the store's is ignored. */
export interface DecidedPhase {
  phase: Phase;
  version: number;
}
export type LoadOutcome = { kind: 'loaded'; seats: number } | Retry;

/** The seats that a command asks for. Lists need no order: the adapter sorts them and asserts that no seat is repeated. */
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
  /** Epoch ms by the arbiter's clock after which the claim must not be granted. Null means no limit. */
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
  /** Used by stores without the record. Others ignore it. */
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

// The contract of a store. Its callers are the router (routed.ts), which knows each partition's mode, and the rebuild.

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
