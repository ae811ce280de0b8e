import type { SeatNo } from './seat-map.ts';

/** Event's number in the stores; `EventId` is its public, url-safe name. */
export type EventNo = number;
export type EventId = string;
/** UUID text: a keyed hash of (event, visitor, Idempotency-Key), so that a repeated request names the same hold. */
export type HoldId = string;
/** UUID text, a keyed hash of the hold id: the order's identity is the hold. */
export type OrderId = string;
/** Hash of a browser's secret, base64url, 22 characters. */
export type Visitor = string;
/** The visitor, or the account where the event asks for one before holding. Quotas count by holder. */
export type Holder = string;
export type PartitionNo = number;

/** Bounds of a hold's life (S6). All in milliseconds. */
export const holdLimits = {
  /** Default life of a hold; an event may set 1 to 15 minutes. */
  ttlMs: 10 * 60_000,
  /** `extend` at payment leaves at least this much… */
  extendToMs: 5 * 60_000,
  /** …but never beyond this from the grant on. */
  lifeMaxMs: 15 * 60_000,
  /** An order's payment deadline from reserve on; never moved. */
  paymentMs: 10 * 60_000,
  /** Reserve is refused when less than this is left: the statement's own time limit and a second. */
  reserveMarginMs: 6_000,
  /** Seats in one hold, whatever the event says. */
  seatsMax: 50,
  /** Candidate groups in one claim. */
  groupsMax: 32,
} as const;

/** A lease on a set of seats by one holder until an instant of the arbiter's own clock; all or nothing. */
export interface Hold {
  hold: HoldId;
  event: EventNo;
  partition: PartitionNo;
  visitor: Visitor;
  holder: Holder;
  /** Ascending. */
  seats: SeatNo[];
  /** Epoch ms by the arbiter's clock. */
  grantedAt: number;
  deadline: number;
  epoch: number;
  /** Rises per partition and epoch: of two claims to a seat the higher (epoch, grant) wins. */
  grant: number;
  /** The order that `extend` bound the hold to. */
  order: OrderId | null;
}

/** The deadline after `extend` at `now`: at least `extendToMs` left, never beyond the hold's bounded life (S6). */
export function extendedDeadline(hold: { grantedAt: number; deadline: number }, now: number): number {
  return Math.max(
    hold.deadline,
    Math.min(now + holdLimits.extendToMs, hold.grantedAt + holdLimits.lifeMaxMs),
  );
}

/** The state that Postgres decided for a seat. `available` here means "free": a projected state that is taken back. */
export type DecidedState = 'available' | 'reserved' | 'sold' | 'blocked';

/** Every seat is in exactly one of these (S8). The index is its code in a snapshot. */
export const seatStates = ['available', 'held', 'reserved', 'sold', 'blocked'] as const;
export type SeatState = (typeof seatStates)[number];
