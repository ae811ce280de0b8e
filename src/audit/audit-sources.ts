import type { EventId, EventNo } from '../core/hold.ts';
import type { Arbiter } from '../inventory/arbiter.ts';
import type { StoredHold } from '../inventory/modes.ts';
import type { PartitionMode } from '../orders/record.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';

// What an audit reads, and what its parts return.

export type NumbersAt = Pick<QueueShard, 'shard' | 'store' | 'epoch' | 'runIds'>;

/** The last number issued and the ceiling below which that Redis stops, or another epoch that it knows. */
export type NumbersSeen =
  | { kind: 'looked'; last: number; ceiling: number }
  | { kind: 'stale'; epoch: number };

export const audited = [
  ...(['S1', 'S2', 'S3', 'S4', 'S5', 'S6', 'S7', 'S8'] as const),
  ...(['P1', 'P2', 'P3', 'P4', 'P5', 'P6', 'P7', 'P8'] as const),
  ...(['W1', 'W3', 'W6'] as const),
];

export type AuditedPromise = (typeof audited)[number];

export interface Violation {
  promise: AuditedPromise;
  /** Same contradiction, same key: for looking twice. */
  key: string;
  seat: number | null;
  order: string | null;
  hold: string | null;
  /** The two values that contradict each other. */
  says: string;
  /** The action for the operator. */
  remedy: string;
}

/** The result of comparing two stores, which cannot be read at one instant. */
export interface Comparison {
  looked: Looked[];
  violations: Violation[];
  /** See `AuditReport`. */
  unread: string[];
}

export interface Looked {
  promise: AuditedPromise;
  /** One of the two. */
  evidence?: string;
  unchecked?: string;
}

export interface AuditedEvent {
  event: EventNo;
  id: EventId;
  currency: string;
  holdSeatsMax: number;
}

/**
 * Whether an event keeps its promises, as far as its stores can tell at rest: arbiter, record and payment provider are read
 * and compared. Nothing is written but, in Redis, the mark that a look at its numbers leaves. What is merely under way is
 * counted as in transit; only a contradiction is a violation.
 */
export interface AuditSources {
  db: Db;
  clock: Clock;
  modes(event: EventNo): Promise<PartitionMode[]>;
  /** The routed arbiter. */
  arbiter: Pick<Arbiter, 'snapshot'>;
  /** Returns holds and memories of a partition that Redis arbitrates. Null means that they cannot be read from here. */
  redisHolds: ((event: EventNo, row: PartitionMode) => Promise<StoredHold[]>) | null;
  /** Returns how far a shard whose numbers come from Redis has come there. Null means that it cannot be read from here. */
  numbers: ((event: EventNo, at: NumbersAt) => Promise<NumbersSeen>) | null;
  money: MoneySource;
}

/** Where the provider's side is read. */
export type MoneySource =
  /** All there is, with payments that the record does not know. */
  | { kind: 'ledger'; name: string; read(): Promise<PaymentSeen[]> }
  /** One object at a time, at most `most` of an event: those of orders that are not settled first. */
  | { kind: 'lookups'; name: string; most: number; look(object: string): Promise<PaymentSeen | null> }
  | { kind: 'none'; why: string };

/** A payment object as the provider knows it; minor units. */
export interface PaymentSeen {
  object: string;
  /** Our order, according to the provider. Null means that the payment names none. */
  reference: string | null;
  /** The event's public id; null where the provider does not say. */
  event: string | null;
  /** The installation that made it, as the provider has it; null or absent: it says none. */
  installation?: string | null;
  amount: number;
  currency: string;
  /** Reserved and neither taken nor released. */
  authorised: number;
  captured: number;
  refunded: number;
  status: 'open' | 'authorised' | 'captured' | 'cancelled';
  /** How often a card was tried; null where the provider does not say. */
  tries: number | null;
}

/** Which store issues a shard's numbers, and what the record knows of them. */
export interface QueueShard {
  shard: number;
  mode: 'postgres' | 'redis';
  epoch: number;
  store: string | null;
  runIds: string[];
  /** Known to be issued. */
  last: number;
  /** The highest number that has a pass; 0: none. */
  passed: number;
  /** No number at or above it is issued. */
  ceiling: number;
}
