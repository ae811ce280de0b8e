import type { HoldCommand, HoldOutcome } from '../inventory/arbiter.ts';
import type { Clock } from '../runtime/clock.ts';

/** A claim that reaches the store later than this is not granted: its buyer has seen an error by then. Milliseconds. */
export const claimPatienceMs = 2_000;

/**
 * The arbiter's clock as this process last saw it, carried on by our own: never ahead of it. It is learnt from grants, and
 * forgotten when a claim was too late: either that claim was slow, or the arbiter's clock has leapt (a suspended machine, a
 * new store). Kept, it would refuse every claim from then on, and without a grant nothing could correct it.
 */
export function createArbiterTime({ clock }: { clock: Pick<Clock, 'monotonic'> }) {
  let offset: number | null = null;
  return {
    seen(command: Pick<HoldCommand, 'replaces'>, outcome: HoldOutcome): void {
      if (outcome.kind === 'too_late') offset = null;
      // A repeat, and what goes on with another hold's lease, were granted long ago.
      if (outcome.kind !== 'granted' || outcome.repeated || command.replaces !== null) return;
      const now = outcome.hold.grantedAt - clock.monotonic();
      // The nearest guess is the highest: each answer took some time to reach us.
      offset = offset === null || now > offset || offset - now > claimPatienceMs ? now : offset;
    },
    /** Epoch ms of the arbiter; null while nothing is known. */
    in: (ms: number): number | null => (offset === null ? null : Math.floor(offset + clock.monotonic()) + ms),
  };
}
