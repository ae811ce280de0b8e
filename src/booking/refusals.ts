import { impossible } from '../core/outcome.ts';
import type { Phase } from '../core/phase.ts';
import { type Problem, problem } from '../core/problems.ts';
import type { HoldOutcome, RecoverOutcome, ReleaseOutcome } from '../inventory/arbiter.ts';

/** The only map from what the arbiter refuses to what the buyer is told. */

const phaseProblems = {
  draft: 'not_open',
  scheduled: 'not_open',
  pre_queue: 'not_open',
  open: 'busy',
  paused: 'paused',
  sold_out: 'sold_out',
  closed: 'sale_closed',
  cancelled: 'event_cancelled',
} as const satisfies Record<Phase, string>;

/** `open` is answered when the phase changed under the request: asking again helps. */
export function problemOfPhase(phase: Phase, opensAt: number | null): Problem {
  const code = phaseProblems[phase];
  const extra = { phase, opensAt: opensAt === null ? null : new Date(opensAt).toISOString() };
  return problem(code, code === 'busy' ? { retryAfterMs: 500, extra } : { extra });
}

type Refused<Outcome extends { kind: string }, Kind extends Outcome['kind']> = Exclude<
  Outcome,
  { kind: Kind }
>;

/** When seats of an address become free is not known: most holds are paid or given back within minutes. */
const addressRetryMs = 30_000;

/** `taken`, `hold_exists` and `hold_gone` are handled where the event's seats and orders are known. */
export function problemOfHold(
  outcome: Refused<HoldOutcome, 'granted' | 'taken' | 'hold_exists' | 'hold_gone'>,
  opensAt: number | null,
  reference: string,
): Problem {
  switch (outcome.kind) {
    case 'quota':
      return problem('hold_quota', { extra: { used: outcome.used, max: outcome.max } });
    case 'address_quota':
      return problem('address_limit', {
        retryAfterMs: addressRetryMs,
        extra: { used: outcome.used, max: outcome.max, reference },
      });
    case 'mismatch':
      return problem('idempotency_mismatch');
    case 'not_open':
      return problemOfPhase(outcome.phase, opensAt);
    case 'too_late':
      return problem('busy', { retryAfterMs: 1_000 });
    case 'retry':
      return problem('busy', { retryAfterMs: outcome.afterMs });
    default:
      return impossible(outcome, 'hold outcome');
  }
}

export function problemOfRecover(
  outcome: Refused<RecoverOutcome, 'recovered' | 'recovering' | 'hold_gone'>,
): Problem {
  switch (outcome.kind) {
    case 'taken':
      return problem('taken', { extra: { seats: outcome.seats } });
    case 'retry':
      return problem('busy', { retryAfterMs: outcome.afterMs });
    default:
      return impossible(outcome, 'recover outcome');
  }
}

/** Null if the hold is released, now or before. `bound` needs the checkout. */
export function problemOfRelease(outcome: Refused<ReleaseOutcome, 'bound'>): Problem | null {
  switch (outcome.kind) {
    case 'released':
    case 'hold_gone':
      return null;
    case 'retry':
      return problem('busy', { retryAfterMs: outcome.afterMs });
    default:
      return impossible(outcome, 'release outcome');
  }
}
