import { assert } from '../core/outcome.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import type { HoldCommand, HoldOutcome, Stale, UnderEpoch } from './arbiter.ts';
import { type CheckedClaim, checkedClaim } from './claims.ts';

/** A claim that can share a call: named seats or groups, and no hold that it replaces. */
export interface SharedClaim {
  command: UnderEpoch<HoldCommand>;
  checked: CheckedClaim;
}

export interface HoldBatcher {
  hold(command: UnderEpoch<HoldCommand>): Promise<HoldOutcome | Stale>;
}

interface Waiting extends SharedClaim {
  resolve(outcome: HoldOutcome | Stale): void;
  reject(fault: unknown): void;
}

interface Line {
  waiting: Waiting[];
  /** A call is under way. */
  busy: boolean;
}

/** Claims in one call: more save little, and each waits for the last one's work. */
const claimsPerCallMax = 128;
/**
 * Lines of one partition, each with one call under way: a second keeps the server busy while the first one's answer travels.
 * Claims to neighbouring seats go the same way: two calls that decide about one seat at once are in each other's.
 */
const linesMax = 2;
const neighbours = 8;

/**
 * Claims of one partition that come while a call is under way share the next one: without a crowd a claim waits for nothing, in
 * one the cost of a call is shared. `many` waits for no seat; it answers each claim, or undefined for those that have to be asked
 * about alone.
 */
export function createHoldBatcher(options: {
  alone(claim: SharedClaim): Promise<HoldOutcome | Stale>;
  many(claims: readonly SharedClaim[]): Promise<(HoldOutcome | Stale | undefined)[]>;
  claimsPerCall?: number;
}): HoldBatcher {
  const { alone, many, claimsPerCall = claimsPerCallMax } = options;
  const lines = new Map<string, Line>();

  /** Returns the fault that all of the batch met, or null. */
  async function answer(batch: Waiting[]): Promise<unknown> {
    try {
      const outcomes = await many(batch);
      assert(outcomes.length === batch.length, 'a place for the answer to each claim of a batch');
      batch.forEach((one, index) => {
        const outcome = outcomes[index];
        if (outcome) one.resolve(outcome);
        // It may wait for a seat's lock, so it runs alone and delays no other claim.
        else void alone(one).then(one.resolve, one.reject);
      });
      return null;
    } catch (fault) {
      for (const one of batch) one.reject(fault);
      return fault;
    }
  }

  async function serve(key: string, line: Line): Promise<void> {
    line.busy = true;
    while (line.waiting.length > 0) {
      const fault = await answer(line.waiting.splice(0, claimsPerCall));
      // The event is locked: those behind have waited as long for the same.
      if (!(fault instanceof StoreFault) || fault.code !== 'store_busy') continue;
      for (const one of line.waiting.splice(0)) one.reject(fault);
    }
    line.busy = false;
    lines.delete(key);
  }

  return {
    hold(command) {
      const checked = checkedClaim(command);
      const shared = claimsPerCall > 1 && checked.kind !== 'units' && command.replaces === null;
      if (!shared) return alone({ command, checked });
      const key = `${command.event}:${command.partition}:${command.epoch}:${lineOf(checked)}`;
      const line = lines.get(key) ?? { waiting: [], busy: false };
      lines.set(key, line);
      return new Promise((resolve, reject) => {
        line.waiting.push({ command, checked, resolve, reject });
        if (!line.busy) void serve(key, line);
      });
    },
  };
}

function lineOf({ groups }: CheckedClaim): number {
  return Math.floor(groups[0]![0]! / neighbours) % linesMax;
}
