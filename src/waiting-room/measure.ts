import { ageClassMs } from '../core/admission.ts';
import type { EventNo } from '../core/hold.ts';
import { assert } from '../core/outcome.ts';
import type { Phase } from '../core/phase.ts';
import type { Db } from '../sales/db.ts';

/** The line as it is: cheap, read with each tick. */
export interface LineMeasure {
  phase: Phase;
  rateCeiling: number | null;
  holdMs: number | null;
  frontier: number[];
  last: number[];
  /** Passes issued since the event's beginning. */
  issued: number;
  /** Called numbers within their grace that have not come. */
  pending: number;
  /** Numbers whose grace ended within the window, and how many of them came. */
  due: number;
  came: number;
}

/** What became of the sessions: reads the event's open passes, so not with each tick when they are many. */
export interface SessionMeasure {
  /** As in `LineMeasure`, at the same instant as the rest. */
  issued: number;
  /** By age, as in `AdmissionObserved`. */
  opened: number[];
  lookers: number[];
  settled: { sessions: number; buyers: number };
  holds: { count: number; seats: number };
}

/** A session has paid after eight minutes: most of those who ever will. */
const settledMs = 480_000;
/** No-shows are counted over the numbers whose grace ended within these last milliseconds. */
const noShowWindowMs = 120_000;

/**
 * The frontier at an instant is its last move before it. `graceMs` is lengthened by the caller for a pause within it: while
 * paused nobody can come.
 */
const lineText = `
  WITH edges AS (
    SELECT c.shard, c.last_no, coalesce(a.frontier[c.shard + 1], 0) AS frontier,
      coalesce((SELECT max(m.frontier) FROM frontier_moves m WHERE m.event_no = c.event_no AND m.shard = c.shard
        AND m.at <= clock_timestamp() - $2 * interval '1 ms'), 0) AS graced,
      coalesce((SELECT max(m.frontier) FROM frontier_moves m WHERE m.event_no = c.event_no AND m.shard = c.shard
        AND m.at <= clock_timestamp() - ($2 + $3) * interval '1 ms'), 0) AS before
    FROM queue_counters c JOIN admissions a USING (event_no) WHERE c.event_no = $1
  ), counted AS (
    SELECT e.*,
      (SELECT count(*) FROM passes p WHERE p.event_no = $1 AND p.shard = e.shard
        AND p.number > e.before AND p.number <= e.graced) AS came,
      (SELECT count(*) FROM passes p WHERE p.event_no = $1 AND p.shard = e.shard
        AND p.number > e.graced AND p.number <= e.frontier) AS fresh
    FROM edges e
  )
  SELECT v.phase, v.rate_ceiling, (v.settings->>'holdTtlMs')::double precision AS hold_ms, a.issued,
    c.frontier, c.last, c.due, c.came, c.pending
  FROM events v JOIN admissions a USING (event_no) CROSS JOIN (
    SELECT array_agg(frontier::double precision ORDER BY shard) AS frontier,
      array_agg(last_no::double precision ORDER BY shard) AS last,
      sum(graced - before) AS due, sum(came) AS came, sum(frontier - graced - fresh) AS pending
    FROM counted) c
  WHERE v.event_no = $1`;

export async function measureLine(db: Db, event: EventNo, graceMs: number): Promise<LineMeasure> {
  const [row] = await db.query<{
    phase: Phase;
    rate_ceiling: number | null;
    hold_ms: number | null;
    issued: number;
    frontier: number[];
    last: number[];
    due: number;
    came: number;
    pending: number;
  }>('measure_line', lineText, [event, graceMs, noShowWindowMs]);
  assert(row, `event ${event} exists and is published`);
  const { phase, issued, frontier, last, due, came, pending } = row;
  return {
    phase,
    rateCeiling: row.rate_ceiling,
    holdMs: row.hold_ms,
    frontier,
    last,
    issued,
    pending: Math.max(0, pending),
    due,
    came,
  };
}

const sessionsText = `
  WITH took AS (
    SELECT visitor, bool_or(paid) AS paid FROM (
      SELECT h.visitor, false AS paid FROM holds h WHERE h.event_no = $1 AND h.state <> 'tombstone'
      UNION ALL
      SELECT o.visitor, o.state IN ('confirmed','paid') FROM orders o WHERE o.event_no = $1
    ) every GROUP BY visitor
  ), inside AS (
    SELECT extract(epoch FROM clock_timestamp() - p.issued_at) * 1000 AS age, t.visitor IS NOT NULL AS took,
      coalesce(t.paid, false) AS paid
    FROM passes p LEFT JOIN took t USING (visitor)
    WHERE p.event_no = $1 AND p.expires_at > clock_timestamp()
  ), classes AS (
    SELECT greatest(0, floor(age / $2))::integer AS class, count(*) AS opened, count(*) FILTER (WHERE NOT took) AS lookers,
      count(*) FILTER (WHERE age >= $3) AS settled, count(*) FILTER (WHERE age >= $3 AND paid) AS buyers
    FROM inside GROUP BY 1
  )
  SELECT c.*, h.holds, h.seats, (SELECT issued FROM admissions WHERE event_no = $1) AS issued
  FROM (SELECT count(*) AS holds, coalesce(sum(cardinality(seats)), 0) AS seats FROM holds
    WHERE event_no = $1 AND state <> 'tombstone') h LEFT JOIN classes c ON true`;

export async function measureSessions(db: Db, event: EventNo): Promise<SessionMeasure> {
  const rows = await db.query<{
    class: number | null;
    opened: number;
    lookers: number;
    settled: number;
    buyers: number;
    holds: number;
    seats: number;
    issued: number;
  }>('measure_sessions', sessionsText, [event, ageClassMs, settledMs]);
  const [first] = rows;
  assert(first, 'the sessions are measured');
  const measure: SessionMeasure = {
    issued: first.issued,
    opened: [],
    lookers: [],
    settled: { sessions: 0, buyers: 0 },
    holds: { count: first.holds, seats: first.seats },
  };
  for (const row of rows) {
    if (row.class === null) continue;
    while (measure.opened.length <= row.class) {
      measure.opened.push(0);
      measure.lookers.push(0);
    }
    measure.opened[row.class] = row.opened;
    measure.lookers[row.class] = row.lookers;
    measure.settled.sessions += row.settled;
    measure.settled.buyers += row.buyers;
  }
  return measure;
}
