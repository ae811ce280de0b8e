import { assert } from '../core/outcome.ts';
import type { Phase } from '../core/phase.ts';
import type { Db } from '../postgres/db.ts';
import { createPostgresRedeem } from './postgres-redeem.ts';
import {
  type AdmissionControl,
  ceilingStep,
  type JoinOutcome,
  joinBatchMax,
  joinMemoryMs,
  type WaitingRoom,
} from './waiting-room.ts';

/** Forgotten in one sweep at most, so that no sweep is long; the next comes a second later. */
const sweepMax = 20_000;

/** As long as a process may take to read where a shard's numbers come from. */
const movedAfterMs = 500;

interface JoinRow {
  /** `moved`: the numbers come from another store. */
  phase: Phase | 'moved';
  opens_at: number | null;
  number: number | null;
  issued_at: number | null;
  repeated: boolean;
}

/** The waiting room in Postgres; each operation is one function of functions/queue.sql or queue-stores.sql. */
export function createPostgresWaitingRoom(options: { db: Db }): WaitingRoom & AdmissionControl {
  const { db } = options;
  return {
    async join(event, shard, visitors) {
      assert(visitors.length <= joinBatchMax, `a batch of joins has at most ${joinBatchMax}`);
      if (visitors.length === 0) return [];
      const rows = await db.query<JoinRow>(
        'queue_join',
        'SELECT * FROM queue_join($1, $2, $3, $4, $5)',
        [event, shard, visitors, joinMemoryMs, ceilingStep],
        event,
      );
      return joinOutcomes(rows, shard, visitors.length);
    },

    redeem: createPostgresRedeem(db),

    async lastNumbers(event) {
      const rows = await db.query<{ last_no: number }>(
        'queue_last_numbers',
        'SELECT last_no FROM queue_counters WHERE event_no = $1 ORDER BY shard',
        [event],
      );
      return rows.map((row) => row.last_no);
    },

    sweep: () => sweepRemembered(db),

    async publish(event, term, decision) {
      const [row] = await db.query<{ ruled: boolean }>(
        'admission_publish',
        'SELECT admission_publish($1, $2, $3, $4, $5) AS ruled',
        [event, term, decision.frontier, decision.rate, decision.burst],
      );
      return row?.ruled === true;
    },
  };
}

/**
 * Sweeps all events, because an event that ended is swept by no leader, and its rows would be read again for every other event.
 * Skips rows that a join is renewing: waiting for them could end in a deadlock, and they are no longer old.
 */
async function sweepRemembered(db: Db): Promise<number> {
  const [row] = await db.query<{ forgotten: number }>(
    'queue_sweep',
    `WITH old AS (
       SELECT ctid FROM queue_recent
       WHERE issued_at <= clock_timestamp() - $1 * interval '1 ms'
       ORDER BY issued_at LIMIT $2 FOR UPDATE SKIP LOCKED
     ), gone AS (
       DELETE FROM queue_recent r USING old WHERE r.ctid = old.ctid RETURNING 1
     )
     SELECT count(*) AS forgotten FROM gone`,
    [joinMemoryMs, sweepMax],
  );
  return row?.forgotten ?? 0;
}

function joinOutcomes(rows: JoinRow[], shard: number, asked: number): JoinOutcome[] {
  const [first] = rows;
  assert(first, 'queue_join answers');
  if (first.number === null) {
    const { phase, opens_at: opensAt } = first;
    const answer: JoinOutcome =
      phase === 'moved' ? { kind: 'retry', afterMs: movedAfterMs } : { kind: 'not_open', phase, opensAt };
    return Array.from({ length: asked }, () => answer);
  }
  assert(rows.length === asked, 'every visitor of a batch gets an answer');
  return rows.map((row) => ({
    kind: 'joined',
    shard,
    number: row.number!,
    issuedAt: row.issued_at!,
    repeated: row.repeated,
  }));
}
