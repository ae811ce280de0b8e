import type { EventNo, Visitor } from '../core/hold.ts';
import type { RedisPrimary } from '../redis/store.ts';

/**
 * A store that issues a queue shard's numbers and may lose its memory: Redis. It issues under an epoch and below a ceiling,
 * both given by Postgres (see queue-control.ts), so that no number is ever issued twice, whatever it forgets (W1).
 *
 * Faults are `StoreFault`s. After one with `outcome_unknown`, numbers may have been drawn that no visitor received: they are
 * lost.
 */
export interface NumberStore {
  /** Draws for a batch in one step, in the order of the list. Repeats within `joinMemoryMs` return the same number. */
  draw(command: DrawCommand): Promise<DrawOutcome>;
  /** How far the shard has come, and the arrivals from the second `since` (Unix time) on, ascending. Tests that it can write. */
  look(at: ShardEpoch & { floor: number; since: number }): Promise<LookOutcome>;
  /** Which epoch the shard knows there; 0: none. Tests that it can write. May be asked under any epoch, also before the first. */
  probe(event: EventNo, shard: number): Promise<{ epoch: number }>;
  /** Begins to issue from `last` on. Called only once for an epoch, even if the answer was lost. */
  open(at: ShardEpoch & { last: number; ceiling: number }): Promise<{ kind: 'opened' } | StaleNumbers>;
  /** Uses only servers with these run ids for the shard from now on; null uses none. */
  trust(event: EventNo, shard: number, runIds: readonly string[] | null): void;
  primaries(): Promise<RedisPrimary[]>;
}

export interface ShardEpoch {
  event: EventNo;
  shard: number;
  epoch: number;
}

export interface DrawCommand extends ShardEpoch {
  /** As read together with the epoch: nothing at or above it is issued. */
  ceiling: number;
  /** A number known to be issued under the epoch; a store that has issued fewer has lost its memory. */
  floor: number;
  visitors: readonly Visitor[];
}

export type DrawOutcome =
  | {
      kind: 'drawn';
      /** The last number issued after the batch, and the highest ceiling that the store received. */
      last: number;
      ceiling: number;
      /** One for each visitor, in order. Null means that the ceiling is reached and nothing was drawn for this visitor. */
      drawn: (DrawnNumber | null)[];
    }
  | StaleNumbers;
export interface DrawnNumber {
  number: number;
  /** Epoch ms, the store's clock. */
  issuedAt: number;
  repeated: boolean;
}
/** The store knows another epoch (0: none, or it forgot what it issued): nothing was done. */
export type StaleNumbers = { kind: 'stale'; epoch: number };

export type LookOutcome =
  | { kind: 'looked'; at: number; last: number; ceiling: number; arrivals: SecondOfArrivals[] }
  | StaleNumbers;
export interface SecondOfArrivals {
  /** Unix time of the issuing store's clock. */
  second: number;
  /** The last number issued in it. */
  last: number;
}
