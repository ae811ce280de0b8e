import type { EventNo } from '../core/hold.ts';
import { assert } from '../core/outcome.ts';
import type { Phase } from '../core/phase.ts';
import type { Db } from '../postgres/db.ts';
import type { SeatCounts } from './admission-task.ts';
import type { LeaderTask } from './controller.ts';

export type PhaseAdvance = 'advanced' | 'other_term' | 'changed' | 'not_due';

/**
 * Moves an event along its schedule: open at its start (its presale's, if it has one), sold out when no seat is available, held or reserved, open again
 * when seats came back (W5), closed at its end. What it sees is seconds old, so it only proposes: the function decides
 * behind the event's lock whether the change is due.
 */
export function createPhaseTask(options: {
  db: Db;
  seatCounts: (event: EventNo) => Promise<SeatCounts>;
  /** Told after each change, so that this process forgets what it remembers about the event. */
  onAdvance?: (event: EventNo, next: Phase) => void;
}): LeaderTask {
  const { db, seatCounts, onAdvance = () => {} } = options;
  return {
    name: 'phase',
    async run({ event, term }) {
      const [row] = await db.query<{ phase: Phase; starts: boolean | null; ends: boolean | null }>(
        'phase_due',
        `SELECT phase, event_opens_at(e) <= clock_timestamp() AS starts, sale_ends_at <= clock_timestamp() AS ends
         FROM events e WHERE event_no = $1`,
        [event],
      );
      assert(row, `event ${event} exists`);
      const next = await nextPhase(row.phase, row.starts === true, row.ends === true, () =>
        seatCounts(event),
      );
      if (next === null) return;
      const [answer] = await db.query<{ outcome: PhaseAdvance }>(
        'phase_advance',
        'SELECT phase_advance($1, $2, $3, $4) AS outcome',
        [event, term, row.phase, next],
      );
      if (answer?.outcome === 'advanced') onAdvance(event, next);
    },
  };
}

async function nextPhase(
  phase: Phase,
  starts: boolean,
  ends: boolean,
  counts: () => Promise<SeatCounts>,
): Promise<Phase | null> {
  switch (phase) {
    case 'scheduled':
    case 'pre_queue':
      return starts ? 'open' : null;
    case 'open':
    case 'sold_out': {
      if (ends) return 'closed';
      const { available, held, reserved } = await counts();
      if (phase === 'open') return available + held + reserved === 0 ? 'sold_out' : null;
      return available > 0 ? 'open' : null;
    }
    case 'paused':
      return ends ? 'closed' : null;
    case 'draft':
    case 'closed':
    case 'cancelled':
      return null;
  }
}
