import type { PartitionSetting } from '../catalogue/partitions.ts';
import type { EventId, EventNo, Hold, Holder, HoldId, OrderId, PartitionNo, Visitor } from '../core/hold.ts';
import type { CooldownRule } from '../core/limits.ts';
import type { Attention, EntryAction } from '../core/operator-list.ts';
import type { OperationState, OrderEnd, OrderState } from '../core/order.ts';
import type { Phase } from '../core/phase.ts';
import type { BuyerKind } from '../core/prices.ts';
import type { SeatNo } from '../core/seat-map.ts';
import type { PaymentView, UnknownReason } from '../payments/provider.ts';

/** An event as the record knows it. Times are epoch ms, money is minor units of `currency`. */
export interface EventRecord {
  eventNo: EventNo;
  event: EventId;
  name: string;
  planId: string;
  currency: string;
  performanceAt: number | null;
  onSaleAt: number | null;
  saleEndsAt: number | null;
  prices: Record<string, number>;
  settings: EventSettings;
  phase: Phase;
  /** Version of the operator's controls; every change names the version that it replaces. */
  version: number;
  message: string | null;
  rateCeiling: number | null;
  layoutHash: string | null;
  seatCount: number;
  /** True while the sale is not open to every buyer yet, by Postgres's clock, when the record was read. */
  presale?: boolean;
}

export interface EventSettings {
  /** Milliseconds; 1 to 15 min, 10 by default. */
  holdTtlMs: number;
  /** Seats held, or reserved and unpaid, per holder (S7). */
  holdSeatsMax: number;
  /** Seats bought per account. Null means no limit (P7). */
  accountSeatsMax: number | null;
  /** Seats bought with one payment instrument (a card's fingerprint); absent or null: no limit (P7). */
  instrumentSeatsMax?: number | null;
  /** Seats bought, or reserved and unpaid, by one browser in all parts of the venue; absent or null: no limit. */
  visitorSeatsMax?: number | null;
  /** Seats held, or reserved and unpaid, from one address range in one part of the venue; absent or null: no limit. */
  addressSeatsMax?: number | null;
  /** Places in the line that one address range may draw a minute from one web process; absent or null: no limit. */
  joinsPerMinute?: number | null;
  /** Claims to seats, and attempts to pay, by one browser a minute at one web process; absent or null: no limit. */
  claimsPerMinute?: number | null;
  /** A hold is its buyer's account's, which has to be proved before: seats held at once are then counted by account (S7). */
  accountFirst?: boolean;
  /** For buyers who repeatedly let holds end unpaid. Absent or null: no cooldown. */
  cooldown?: CooldownRule | null;
  /**
   * Number of counters that issue queue numbers, 1 to 16. Undefined means 1, with strict order of arrival. More are only needed
   * if one counter cannot serve the arrivals: the order across them is kept to within about a second.
   */
  queueShards?: number;
  /** Minor units, added to each seat's price and once to an order. */
  seatFee: number;
  orderFee: number;
  /** Ticket types other than `full`, with their prices. Undefined if there are none. */
  kinds?: BuyerKind[];
  /** Categories that need an access code. Undefined if there are none. */
  lockedCategories?: string[];
  /**
   * Epoch ms. From then until the sale opens to everybody, only buyers whose code opens the presale may buy.
   * Absent or null: no presale.
   */
  presaleAt?: number | null;
  /** Fixed when the event is published. Undefined means one partition. */
  partitions?: PartitionSetting[];
}

/** Settings that an event without them has. New events start with limits besides: `newEventLimits` in core/limits.ts. */
export const eventSettingsDefault: EventSettings = {
  holdTtlMs: 10 * 60_000,
  holdSeatsMax: 6,
  accountSeatsMax: null,
  seatFee: 0,
  orderFee: 0,
};

/** The current arbiter of a partition. */
export interface PartitionMode {
  partition: PartitionNo;
  mode: 'postgres' | 'moving' | 'redis';
  epoch: number;
  /** The configured Redis that the partition is pinned to. Null is the default one. */
  store: string | null;
  /** In `redis` mode: the runs that are trusted with it (redis/run.ts). */
  runIds: string[];
  /** In `redis` mode: a number that was given under the epoch. A store that has given fewer is an older copy. */
  granted: number;
  /** Epoch ms by Postgres's clock; until then only receipts are honoured. Null or past: no grace. */
  graceUntil: number | null;
}

export interface OrderLine {
  seat: SeatNo;
  category: string;
  kind: string;
  /** The name of the ticket type when the order was made. Undefined for `full`. */
  kindName?: string;
  price: number;
  fee: number;
}

export interface Order {
  order: OrderId;
  eventNo: EventNo;
  event: EventId;
  partition: PartitionNo;
  hold: HoldId;
  visitor: Visitor;
  holder: Holder;
  account: string;
  buyer: { name: string; email: string };
  lines: OrderLine[];
  orderFee: number;
  amount: number;
  currency: string;
  state: OrderState;
  reason: string | null;
  paymentDeadline: number;
  /**
   * Epoch ms until which the reserved money can be taken, according to the provider. Null if it did not say, or nothing is
   * reserved.
   */
  captureBefore: number | null;
  providerObject: string | null;
  instrument: { fingerprint: string; brand: string; last4: string } | null;
  createdAt: number;
}

export interface ReserveCommand {
  order: OrderId;
  hold: HoldId;
  event: EventNo;
  partition: PartitionNo;
  /** The epoch and deadline that `extend` answered. */
  epoch: number;
  deadline: number;
  visitor: Visitor;
  holder: Holder;
  account: string;
  buyer: { name: string; email: string };
  lines: OrderLine[];
  orderFee: number;
  currency: string;
  /** Id of the access code that the order needs; it has one use less while the order lives. The model in memory knows none. */
  accessCode?: string | null;
}

/** `ended`: revoked, or its time is over; `seats`: it is good for fewer seats an order; `used_up`: by others. */
export type CodeRefusal = 'unknown' | 'ended' | 'seats' | 'used_up';

/** `holder`: the quota of one hold, over all browsers of an account and all partitions. */
export type ReachedLimit = 'account' | 'visitor' | 'holder';

export type ReserveOutcome =
  | ({ kind: 'reserved'; repeated: boolean } & Changed)
  /** Lapsed, released, too near its deadline, or its seats belong to another hold or order. */
  | { kind: 'hold_gone' }
  /** The visitor has another unpaid order in this event. */
  | { kind: 'open_order'; order: OrderId }
  | { kind: 'limit'; limit: ReachedLimit; max: number; used: number }
  /** Its access code cannot be used (any more); nothing was done. */
  | { kind: 'code'; why: CodeRefusal; seatsMax: number | null }
  | { kind: 'not_open'; phase: Phase }
  | { kind: 'stale' }
  | { kind: 'retry' };

export type OperationId = string;

export interface MoneyOperation {
  operation: OperationId;
  order: OrderId;
  kind: 'open' | 'authorise' | 'capture' | 'refund';
  state: OperationState;
  key: string;
  endKey: string | null;
  /** Why it is being ended. */
  endReason: OrderEnd | null;
  clientKey: string | null;
  request: string | null;
  /** With where the bank sends the buyer back to: a repeat with the same key must be the same request. */
  instrument: (({ paymentMethod: string } | { confirmationToken: string }) & { returnUrl: string }) | null;
  providerObject: string | null;
  amount: number;
  currency: string;
  /** Claims since the row was written or, once it is `ending`, since then. */
  attempts: number;
  firstSentAt: number | null;
  dueAt: number | null;
  answer: OperationAnswer | null;
  /** For the operator's list: what does not fit. */
  attention: Attention | null;
  /** The operator's last decision about it. */
  decision: { action: EntryAction; actor: string; at: number } | null;
}

export interface OperationAnswer {
  view?: PaymentView;
  decline?: string;
  /** Why the last call has no verdict. */
  unknown?: UnknownReason;
  detail?: string;
}

/** A seat whose decided state changed in a step, for the arbiter's `project`. */
export interface DecidedSeat {
  seat: SeatNo;
  version: number;
  state: 'available' | 'reserved' | 'sold' | 'blocked';
}

/** The order as it is after a step, and the seats that the step decided (empty when it repeated). */
export interface Changed {
  order: Order;
  seats: DecidedSeat[];
}

/** A step of a money operation. `settled`: another call was there first; `order` and `operation` tell how it went. */
export interface OperationStep<Kind extends string> extends Changed {
  kind: Kind | 'settled';
  operation: MoneyOperation;
}

/**
 * The result for the seats of an order that was closed at its deadline and whose money came later. `held`: the arbiter granted
 * them to a new hold, which is bound to the order; `gone`: they are no longer free.
 */
export type LateSeats = { kind: 'held'; hold: HoldId; epoch: number; deadline: number } | { kind: 'gone' };

/** How long the reserved money can still be taken, by the record's clock. `ending`: less than a day is left. */
export type CaptureWindow = 'open' | 'ending' | 'over';

/** An object of the provider that names our order and that none of the order's operations knows. */
export interface StrayCommand {
  order: OrderId;
  object: string;
  /** Amount and currency are the order's. */
  fits: boolean;
  /** Id of the row that is written if the object has to be cancelled. */
  operation: OperationId;
  key: string;
  endKey: string;
}

export type StrayOutcome =
  /** An order of ours has it, or is having it cancelled: it is no stray. */
  | { kind: 'known' }
  /** An opening of the order was still waiting for just this answer. */
  | ({ kind: 'adopted'; operation: MoneyOperation } & Changed)
  /** Written down in order to be cancelled; claimed by the caller. */
  | ({ kind: 'ending'; operation: MoneyOperation } & Changed)
  /** The order is not settled, or has something else under way: later. */
  | { kind: 'under_way' }
  | { kind: 'unknown_order' };

export interface BeginCommand {
  operation: OperationId;
  order: OrderId;
  kind: 'open' | 'authorise';
  key: string;
  /** The buyer's Idempotency-Key and the hash of what came with it: unique per order. */
  clientKey: string | null;
  request: string | null;
  instrument: MoneyOperation['instrument'];
}

export type BeginOutcome =
  | { kind: 'begun'; order: Order; operation: MoneyOperation }
  /** The same client key with the same request was here before; or an opening of the order was refused a moment ago. */
  | { kind: 'repeated'; order: Order; operation: MoneyOperation }
  | { kind: 'mismatch' }
  | { kind: 'under_way'; order: Order; operation: MoneyOperation }
  /** `open` only: the order has its provider object. */
  | { kind: 'opened'; order: Order }
  /** The order is no longer waiting to be paid. */
  | { kind: 'decided'; order: Order }
  /** Past its deadline, or its event is cancelled: it is to be closed with that reason. */
  | { kind: 'too_late'; order: Order; reason: OrderEnd }
  | { kind: 'unknown_order' };

export interface ParkCommand {
  operation: OperationId;
  state: 'waiting' | 'unknown';
  /** When the reconciler looks next; never later than the order's deadline while the buyer may still act. */
  dueMs: number;
  answer?: OperationAnswer;
  attention?: Attention;
  /** Replaces a key that grew too old to be sent again. */
  newKey?: string;
}

export type ConfirmOutcome =
  /** `operation` is the capture, written in the same step and claimed by the caller (P2). */
  | ({ kind: 'confirmed'; operation: MoneyOperation } & Changed)
  /** Seats freed, limits untouched; `operation` is the authorisation, `ending` and claimed by the caller (P3). */
  | ({ kind: 'impossible'; operation: MoneyOperation } & Changed)
  /**
   * It cannot be confirmed (any more), or not yet: it is still `authorised` while an object that belongs to no operation is
   * being cancelled.
   */
  | { kind: 'decided'; order: Order }
  | { kind: 'unknown_order' };

export type RecordCloseOutcome =
  | ({ kind: 'closed' } & Changed)
  /**
   * Closed by its buyer while the bank was asked: its seats are free, and the reservation is being cancelled. `operation` is
   * `ending` and claimed by the caller. Null if another process works on it.
   */
  | ({ kind: 'voiding'; operation: MoneyOperation | null } & Changed)
  /** A money operation is under way, or (`not_paid_in_time`) the deadline has not come. */
  | { kind: 'under_way'; order: Order }
  /** Authorised, sold or being voided: not the buyer's to close. */
  | { kind: 'decided'; order: Order }
  | { kind: 'unknown_order' };

/**
 * The record of sales: who bought what, and every call to the payment provider before it is made. Each operation is ONE
 * atomic step of the store and one transition of `core/order.ts`, conditional on the state it leaves, so that a repeat, a
 * late or a lost answer changes nothing: all may be called again. Time is the store's own. Steps that decide seats answer
 * them with their new versions; the caller projects them to the arbiter. Faults of the store are `StoreFault`s.
 *
 * `owner` names the process that works on an operation; a claim keeps others off for `leaseMs` and ends by itself.
 */
export interface SalesRecord {
  /**
   * A live hold becomes an order in `reserved` and its seats leave the lease. Its identity is the hold: any repeat returns the
   * same order (P1). Conditions, all under the event's shared lock: phase, epoch, seats free or held by this very hold, at
   * least 6 s left on the hold, the account's limit counting open orders (P7), no other open order of the visitor.
   */
  reserve(command: ReserveCommand): Promise<ReserveOutcome>;
  /** Writes a closed order for a bound hold that never was reserved, so that a reserve on its way loses (S5). */
  abandon(hold: Hold, order: OrderId): Promise<{ kind: 'abandoned' } | { kind: 'ordered'; order: Order }>;
  findOrder(order: OrderId): Promise<Order | null>;
  /** Whether the order's payment deadline has passed, by the record's own clock (S6). */
  isOverdue(order: OrderId): Promise<boolean>;
  /** The visitor's order that is not paid yet (`reserved`, `authorised`). */
  findOpenOrder(event: EventNo, visitor: Visitor): Promise<Order | null>;
  /** All of the order's money operations, oldest first. */
  operationsOf(order: OrderId): Promise<MoneyOperation[]>;
  /** Writes the row of a provider call that is about to be made (P5); claimed by the caller. At most one under way (P1). */
  begin(command: BeginCommand, claim: Claim): Promise<BeginOutcome>;
  /** Claims up to `limit` operations that are due, or the one named whether due or not; claimed ones are skipped. */
  claim(claim: Claim & { limit: number; operation?: OperationId }): Promise<MoneyOperation[]>;
  /**
   * Claims the named operation for a look that was requested: when it is due, or before that once in a gap that doubles (0.5 to
   * 20 s), for all processes together. `buyer`: before it is due only while the buyer's bank is waited for. `provider`: its
   * event says that something changed. Null if not now, or if another process works on it.
   */
  ask(claim: Claim & { operation: OperationId; by: 'buyer' | 'provider' }): Promise<MoneyOperation | null>;
  /** At start: operations that this owner had claimed before a restart are due at once. Returns their number. */
  releaseClaims(owner: string): Promise<number>;
  /** The provider's object is open; its id is on the order from here on. */
  opened(operation: OperationId, object: string, answer: OperationAnswer): Promise<OperationStep<'opened'>>;
  /** Not ended yet: `waiting` for the buyer, or `unknown` (P4). A row that is `ending` stays so. */
  park(command: ParkCommand): Promise<OperationStep<'parked'>>;
  /**
   * The money is reserved: reserved → authorised. For an order that was closed at its deadline the outcome is `late`, with
   * nothing changed, until the caller has asked the arbiter for its seats. With `held` it becomes an order again out of that
   * hold (the conditions of `reserve`; `late` again if the hold's epoch is over). With `gone`, or if that fails, its reason is
   * `late_payment`. If it cannot continue, the row is `ending` with `endKey`, claimed by the caller.
   */
  authorised(
    operation: OperationId,
    view: PaymentView,
    endKey: string,
    claim: Claim,
    late?: LateSeats,
  ): Promise<OperationStep<'authorised' | 'ending' | 'late'>>;
  /** Returns the quota under which the arbiter is asked for the seats of a closed order. */
  lateSeatsMax(order: OrderId): Promise<number>;
  captureWindow(order: OrderId): Promise<CaptureWindow>;
  /** Decides about an object that was found at the provider. An object of a settled order is cancelled. */
  stray(command: StrayCommand, claim: Claim): Promise<StrayOutcome>;
  /** Finally refused. A refused capture undoes the sale in the same step: confirmed → cancelled, seats and limits back. */
  refused(operation: OperationId, answer: OperationAnswer): Promise<OperationStep<'refused'>>;
  /** From now on the operation's object is being cancelled, with a key of its own. */
  end(
    operation: OperationId,
    reason: OrderEnd,
    endKey: string,
    claim: Claim,
  ): Promise<OperationStep<'ending'>>;
  /**
   * The object is cancelled for good. An order whose operation was being ended is closed; if the provider cancelled by
   * itself, a `reserved` order may open a new object.
   */
  voided(operation: OperationId, answer: OperationAnswer): Promise<OperationStep<'voided'>>;
  /** authorised → confirmed with seats sold and the capture written, or → voiding with the seats freed: never neither. */
  confirm(
    order: OrderId,
    ids: { capture: OperationId; captureKey: string; endKey: string },
    claim: Claim,
  ): Promise<ConfirmOutcome>;
  /** confirmed → paid. */
  captured(operation: OperationId, view: PaymentView): Promise<OperationStep<'captured'>>;
  /**
   * reserved → closed, conditional: loses to an operation under way; `not_paid_in_time` only after the deadline. For
   * `closed_by_buyer` an operation that waits for the bank or is being ended does not count: then reserved → voiding. `endKey`
   * voids the provider's object afterwards, so that nothing can be authorised on it any more.
   */
  close(order: OrderId, reason: OrderEnd, endKey: string, claim: Claim): Promise<RecordCloseOutcome>;
  /** Unpaid orders past their deadline with nothing under way. */
  overdue(limit: number): Promise<OrderId[]>;
  /** Stores a provider's event; twice is once. Due at once, but for one that concerns no payment. */
  providerEvent(event: StoredEvent): Promise<{ repeated: boolean }>;
  /** Claims the events that are due of up to `limit` objects, those that wait longest first. */
  claimEvents(claim: Claim & { limit: number }): Promise<ObjectEvents[]>;
  /** These are looked at no more. `note`: of an end that was not brought about by their payment. */
  eventsProcessed(ids: string[], note: EventsNote | null): Promise<void>;
  /** These are looked at again. */
  eventsAgain(ids: string[], dueMs: number): Promise<void>;
}

export interface Claim {
  owner: string;
  leaseMs: number;
}

/** The events of one provider object that wait to be looked at: its present state answers all of them. */
export interface ObjectEvents {
  object: string;
  /** The order that the object is or was a payment of, as far as is known. */
  order: OrderId | null;
  events: string[];
  types: string[];
  /** Looks at them so far, this one included. */
  attempts: number;
  /** Milliseconds since the first of them came. */
  ageMs: number;
}
/** `dismissed`: an operator took them off the list. `foreign`: of a payment that is not ours. */
export type EventsNote = 'no_payment' | 'unknown_object' | 'dismissed' | 'foreign';

export interface StoredEvent {
  id: string;
  type: string;
  object: string | null;
  /**
   * The event itself says that the payment belongs to another program. If the record knows the payment, it is ours all the
   * same.
   */
  foreign?: boolean;
}
