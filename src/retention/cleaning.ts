import type { Db } from '../postgres/db.ts';
import type { Loops } from '../runtime/loops.ts';

/** Deletes rows that are kept for a limited time (provider_events_clean in functions/provider.sql). */

const gapMs = 10 * 60_000;
const cleaningLateMs = 5 * 60_000;
/**
 * A statement locks at most `batchMax` rows, and a pass runs at most `batchesMax` statements. A large backlog
 * is deleted over several passes.
 */
const batchMax = 1_000;
const batchesMax = 100;

/**
 * Deletes the provider's events that ended at least `keptMs` ago, at most one pass of them. Returns the number of deleted
 * events.
 */
export async function cleanProviderEvents(db: Db, keptMs: number, signal?: AbortSignal): Promise<number> {
  let total = 0;
  for (let batch = 0; batch < batchesMax && !signal?.aborted; batch += 1) {
    const rows = await db.query<{ deleted: number }>(
      'provider_events_clean',
      'SELECT provider_events_clean($1, $2) AS deleted',
      [keptMs, batchMax],
    );
    const { deleted } = rows[0]!;
    total += deleted;
    if (deleted < batchMax) break;
  }
  return total;
}

/** Deletes the provider's data of comparison runs that were killed or did not finish. */
export async function cleanReconcileSeen(db: Db): Promise<void> {
  await db.query(
    'reconcile_seen_clean',
    `DELETE FROM reconcile_seen s USING reconcile_runs r
     WHERE r.run_id = s.run_id AND r.claimed_until < clock_timestamp() - interval '1 day'`,
  );
}

/** Cleans every ten minutes. Several processes may: they share the work. */
export function cleanRegularly(loops: Loops, { db, keptMs }: { db: Db; keptMs: number }): void {
  loops.run({
    name: 'clean old provider events',
    everyMs: gapMs,
    waitsFirst: true,
    lateAfterMs: cleaningLateMs,
    turn: async (signal) => {
      await cleanProviderEvents(db, keptMs, signal);
      await cleanReconcileSeen(db);
    },
  });
}
