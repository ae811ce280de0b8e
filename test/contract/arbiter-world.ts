import type { Hold, HoldId } from '../../src/core/hold.ts';
import type { Phase } from '../../src/core/phase.ts';
import type { SeatNo } from '../../src/core/seat-map.ts';
import type {
  ArbiterStore,
  Claim,
  HoldCommand,
  HoldOutcome,
  Stale,
  UnderEpoch,
} from '../../src/inventory/arbiter.ts';

/** One event of an adapter under test, with the switches that belong to its store and not to the contract. */
export interface ArbiterWorld {
  arbiter: ArbiterStore;
  event: number;
  /** Epoch of partition 0. */
  epoch: number;
  /** The adapter takes no epoch and reads the mode itself: the router. */
  hidesEpoch?: boolean;
  /** As if `ms` had passed by the store's clock for everything that was granted so far. */
  advance(ms: number): Promise<void>;
  setPhase(phase: Phase): Promise<void>;
  /** A new epoch when it is not the same mode again. */
  setMode(mode: 'postgres' | 'moving'): Promise<number>;
  /**
   * Simulates the loss of a Redis that arbitrated: all leases and memories forgotten, a new epoch, grace for `graceMs`.
   * Undefined for a store that never takes over from another.
   */
  lose?(graceMs: number): Promise<number>;
}

export const minute = 60_000;

/** Id number n, in UUID form. */
export function idOf(n: number): HoldId {
  return `00000000-0000-4000-8000-${n.toString(16).padStart(12, '0')}`;
}

export function seatsOf(...seats: SeatNo[]): Claim {
  return { kind: 'seats', seats };
}

/** Short words for the commands of one world. */
export function commandsOf(world: ArbiterWorld) {
  const at = () => ({ event: world.event, partition: 0, epoch: world.epoch });
  return {
    load: (count: number) =>
      world.arbiter.load({
        ...at(),
        seats: Array.from({ length: count }, (_, seat) => ({
          seat,
          version: 1,
          state: 'available' as const,
        })),
      }),
    hold: (hold: number, visitor: string, claim: Claim, more: Partial<UnderEpoch<HoldCommand>> = {}) =>
      world.arbiter.hold({
        ...at(),
        hold: idOf(hold),
        visitor,
        holder: visitor,
        request: JSON.stringify(claim),
        claim,
        ttlMs: 10 * minute,
        seatsMax: 6,
        replaces: null,
        notAfter: null,
        ...more,
      }),
    extend: (hold: number, visitor: string, order: number) =>
      world.arbiter.extend({ ...at(), hold: idOf(hold), visitor, order: idOf(order) }),
    release: (hold: number, visitor: string, force?: number) =>
      world.arbiter.release({
        ...at(),
        hold: idOf(hold),
        visitor,
        ...(force !== undefined && { force: idOf(force) }),
      }),
    recover: (receipt: Hold, seatsMax = 6) => world.arbiter.recover({ ...at(), receipt, seatsMax }),
    find: (hold: number) => world.arbiter.find(world.event, 0, idOf(hold)),
    project: (
      changes: [seat: SeatNo, version: number, state: 'available' | 'reserved' | 'sold' | 'blocked'][],
      holds: { ordered?: number[]; ended?: number[] } = {},
    ) =>
      world.arbiter.project({
        event: world.event,
        partition: 0,
        changes: changes.map(([seat, version, state]) => ({ seat, version, state })),
        ordered: (holds.ordered ?? []).map(idOf),
        ended: (holds.ended ?? []).map(idOf),
      }),
    sweep: (limit = 100) => world.arbiter.sweep(world.event, 0, limit),
    codes: async () => [...(await world.arbiter.snapshot(world.event, 0)).codes],
  };
}

export function grantedHold(outcome: HoldOutcome | Stale): Hold {
  if (outcome.kind !== 'granted') throw new Error(`expected a grant, not ${JSON.stringify(outcome)}`);
  return outcome.hold;
}
