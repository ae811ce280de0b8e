/**
 * JSON types of the routes' requests and responses, shared by the server's schemas and the pages. Times are ISO 8601 unless a
 * name ends in Ms.
 */

import type { OrderState } from '../core/order.ts';

export type { CountsObject, EventObject, StatusObject } from '../read-path/published.ts';

/** application/problem+json (RFC 9457). `code` is stable: docs/reference/errors.md lists all. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  code: string;
  /** A sentence that a person can act on. */
  detail: string;
  /** The field at fault, as a path (`/buyer/email`). */
  field?: string;
  retryAfterMs?: number;
  /** Code-specific: taken → seats; hold_exists → hold; not_open → phase, opensAt … */
  [extra: string]: unknown;
}

/** GET /api/events/{event}/queue-cookie is not needed: POST …/queue answers 428 and sets the cookie; the page does so early. */
export interface QueueTicketAnswer {
  ticket: string;
  number: number;
  shard: number;
  issuedAt: string;
  repeated: boolean;
}

export interface PassAnswer {
  pass: string;
  expiresAt: string;
}

export type HoldRequest = { pass: string; replaces?: string } & (
  | { /** seat: seat_no, or seat_guid as text. */ seats: { seat: number | string; kind?: string }[] }
  | { best: { quantity: number; category?: string; section?: string; kinds?: string[] } }
);

export interface SeatInfo {
  seat: number;
  guid: string;
  section: string;
  sectionName: string;
  row: string;
  number: string;
  category: string;
  kind: string;
  /** For people; absent for full. */
  kindName?: string;
  price: number;
  fee: number;
}

/** The areas that an access code opens. */
export interface CodeAnswer {
  code: string;
  categories: string[];
  kinds: string[];
  presale: boolean;
  /** Most seats in one order. Null if the code sets no limit. */
  seatsMax: number | null;
}

export interface HoldAnswer {
  hold: string;
  event: string;
  seats: SeatInfo[];
  /** Minor units. */
  total: number;
  orderFee: number;
  currency: string;
  expiresAt: string;
  serverTime: string;
  receipt: string;
  /** Best available only: false when the seats are not all side by side, or not where they were asked for. */
  asAsked?: boolean;
  note?: string;
  /** The order that this hold became; the page goes on there. */
  order: string | null;
}

export interface OrderAnswer {
  order: string;
  event: string;
  eventName: string;
  /** Start of the performance as printed on its tickets. Null if not fixed yet. */
  performanceAt: string | null;
  /** IANA time zone of the venue. Pages show these times in it. */
  timeZone: string;
  venue: string;
  state: OrderState;
  reason: string | null;
  /** The event does not take place: no ticket of it is valid, also while the order is still paid. */
  eventCancelled?: boolean;
  seats: SeatInfo[];
  amount: number;
  orderFee: number;
  currency: string;
  buyer: { name: string; email: string };
  paymentDeadline: string;
  serverTime: string;
  /** Set if the money came too late for the seats: free seats near them, as many, not reserved. */
  near?: SeatInfo[];
  /** Refunds of a paid or cancelled order with their state, oldest first. */
  refunds?: { amount: number; state: 'under_way' | 'done' | 'failed'; createdAt: string }[];
  /** Money that was taken without a sale and given back, oldest first. */
  returned?: { amount: number; at: string }[];
  /** Opens the order from elsewhere: `/orders/{order}#{secret}`. Only in answers to the visitor himself. */
  secret?: string;
  payment: {
    state: 'none' | 'waiting' | 'under_way' | 'declined' | 'authorised' | 'captured' | 'voided';
    decline: string | null;
    action: { url: string } | null;
    instrument: { brand: string; last4: string } | null;
  };
}

export interface TicketsAnswer {
  tickets: {
    ticket: string;
    seat: SeatInfo;
    code: string /** SVG of the QR code, as markup. */;
    qr: string;
  }[];
}

export interface OnSaleState {
  event: string;
  phase: string;
  version: number;
  message: string | null;
  rateCeiling: number | null;
}
