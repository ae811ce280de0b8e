import type { EventNo, Visitor } from '../core/hold.ts';
import type { Phase } from '../core/phase.ts';

/**
 * The waiting room's store: numbers and passes. One contract, several stores: in-process, Postgres, and Postgres with numbers
 * from Redis (routed.ts), where `redeem` stays in Postgres; one contract suite.
 *
 * Nothing is kept per waiting visitor beyond 60 s: the place is the signed number that the browser carries.
 */
export interface WaitingRoom {
  /**
   * Draws numbers for a batch of visitors in one step; the order of the list is the order of arrival (W1). A visitor who
   * drew within the last 60 s gets the same number again (lost answer, second tab). All answers are of one phase.
   */
  join(event: EventNo, shard: number, visitors: Visitor[]): Promise<JoinOutcome[]>;
  /**
   * Turns a number at or behind the frontier into the visitor's one pass (W3). Debits the token bucket in the same step. A
   * repeat by the same visitor returns the same pass and debits nothing. The caller has checked ticket and secret.
   */
  redeem(command: RedeemCommand): Promise<RedeemOutcome>;
  /** The last number issued, per shard; of a shard on Redis as its leader read it last. */
  lastNumbers(event: EventNo): Promise<number[]>;
  /**
   * Forgets visitor → number pairs older than 60 s, at least those of this event. Returns how many. A store whose entries
   * expire has none.
   */
  sweep(event: EventNo): Promise<number>;
}

export type JoinOutcome =
  | {
      kind: 'joined';
      shard: number;
      number: number /** Epoch ms, the store's clock. */;
      issuedAt: number;
      repeated: boolean;
    }
  | { kind: 'not_open'; phase: Phase /** Epoch ms; null when unknown. */; opensAt: number | null }
  /** The numbering is moving between stores, or its store did not answer: try again after that many ms. */
  | { kind: 'retry'; afterMs: number };

export interface RedeemCommand {
  event: EventNo;
  shard: number;
  number: number;
  visitor: Visitor;
  /** UUID for the pass if one is issued now. */
  passId: string;
  /** Length of the buying session, ms (15 min by default). */
  sessionMs: number;
}

export type RedeemOutcome =
  | { kind: 'issued'; passId: string; number: number; issuedAt: number; expiresAt: number; repeated: boolean }
  /** The session of the pass that this number became has ended, by the store's clock. */
  | { kind: 'over' }
  /** The frontier has not reached the number. */
  | { kind: 'not_yet'; frontier: number }
  /** Called, but the bucket is empty just now: try again after that many ms. */
  | { kind: 'wait'; afterMs: number }
  /** Another visitor already redeemed this number (a copied ticket). */
  | { kind: 'used' }
  | { kind: 'not_open'; phase: Phase };

/** Once a second the leader writes what it decided; conditional on its term. */
export interface AdmissionControl {
  /** Frontier per shard (only forward, never past the last number issued: W6), the bucket's rate and burst. `false`: another term rules. */
  publish(
    event: EventNo,
    term: number,
    decision: { frontier: number[]; rate: number; burst: number },
  ): Promise<boolean>;
}

/** Milliseconds that the store remembers visitor → number. */
export const joinMemoryMs = 60_000;
/** How far ahead of use the ceiling of numbers is raised, at least. */
export const ceilingStep = 10_000;
/** Length of a buying session, ms. */
export const sessionMs = 15 * 60_000;
/** Joins in one batch at most; the rest go in the next. */
export const joinBatchMax = 500;
/** Counters of one event's queue at most. */
export const queueShardsMax = 16;

/** Returns the shard that a visitor draws from, always the same one. A visitor's name is a hash, so all shards fill evenly. */
export function shardOf(visitor: Visitor, shards: number): number {
  return shards <= 1
    ? 0
    : Buffer.from(visitor, 'base64url').readUInt32BE(0) % Math.min(shards, queueShardsMax);
}
