import { ageClassMs } from '../core/admission.ts';
import type { EventNo } from '../core/hold.ts';
import { assert } from '../core/outcome.ts';
import type { Phase } from '../core/phase.ts';
import type { Gap, ShardLine } from '../core/watermark.ts';
import type { StoredHold } from '../inventory/modes.ts';
import type { Db } from '../postgres/db.ts';

/** The line as it is: cheap, read with each tick. */
export interface LineMeasure {
  phase: Phase;
  rateCeiling: number | null;
  holdMs: number | null;
  frontier: number[];
  last: number[];
  /** Numbers that are issued, as far as is known, and not called. */
  waiting: number;
  /** Passes issued since the event's beginning. */
  issued: number;
  /** Called numbers within their grace that have not come. */
  pending: number;
  /** Numbers whose grace ended within the window, and how many of them came. */
  due: number;
  came: number;
}

/** The outcome of the sessions. Reads the event's open passes, so not with each tick if there are many. */
export interface SessionMeasure {
  /** As in `LineMeasure`, at the same instant as the rest. */
  issued: number;
  /** Indexed by age, as in `AdmissionObserved`. */
  opened: number[];
  lookers: number[];
  settled: { sessions: number; buyers: number };
  holds: { count: number; seats: number };
}

/** The measured fields of a hold that is not in Postgres. */
export type HoldElsewhere = Pick<StoredHold, 'visitor' | 'seats' | 'state'>;

/** A session has paid after eight minutes: most of those who ever will. */
const settledMs = 480_000;
/** No-shows are counted over the numbers whose grace ended within these last milliseconds. */
const noShowWindowMs = 120_000;

/**
 * The frontier at an instant is its last move before it. The caller lengthens `graceMs` for a pause within it, because no
 * visitor can enter while the sale is paused. Numbers in gaps count neither as called nor as entered, because it is not known
 * how many of them there are.
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
      e.graced - e.before - queue_gap_numbers($1, e.shard, e.before, e.graced) AS due,
      e.frontier - e.graced - queue_gap_numbers($1, e.shard, e.graced, e.frontier) AS called,
      e.last_no - e.frontier - queue_gap_numbers($1, e.shard, e.frontier, e.last_no) AS waiting,
      (SELECT count(*) FROM passes p WHERE p.event_no = $1 AND p.shard = e.shard
        AND p.number > e.before AND p.number <= e.graced AND NOT in_queue_gap($1, e.shard, p.number)) AS came,
      (SELECT count(*) FROM passes p WHERE p.event_no = $1 AND p.shard = e.shard
        AND p.number > e.graced AND p.number <= e.frontier AND NOT in_queue_gap($1, e.shard, p.number)) AS fresh
    FROM edges e
  )
  SELECT v.phase, v.rate_ceiling, (v.settings->>'holdTtlMs')::double precision AS hold_ms, a.issued,
    c.frontier, c.last, c.due, c.came, c.pending, c.waiting
  FROM events v JOIN admissions a USING (event_no) CROSS JOIN (
    SELECT array_agg(frontier::double precision ORDER BY shard) AS frontier,
      array_agg(last_no::double precision ORDER BY shard) AS last,
      sum(due) AS due, sum(came) AS came, sum(called - fresh) AS pending, sum(waiting) AS waiting
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
    waiting: number;
    due: number;
    came: number;
    pending: number;
  }>('measure_line', lineText, [event, graceMs, noShowWindowMs]);
  assert(row, `event ${event} exists and is published`);
  const { phase, issued, frontier, last, waiting, due, came, pending } = row;
  return {
    phase,
    rateCeiling: row.rate_ceiling,
    holdMs: row.hold_ms,
    frontier,
    last,
    waiting: Math.max(0, waiting),
    issued,
    pending: Math.max(0, pending),
    due,
    came,
  };
}

/** Seconds of arrivals of one shard that a tick looks at: more than it calls. */
const secondsMax = 240;
/** A batch that Postgres drew may commit that much later than it was stamped. */
const commitMs = 100;

const shardsText = `
  SELECT coalesce(a.frontier[c.shard + 1], 0) AS frontier, c.last_no AS last,
    CASE WHEN c.mode = 'redis' THEN coalesce(c.read_ms, 0)
      ELSE extract(epoch FROM statement_timestamp())::double precision * 1000 - $4 END AS "readAt",
    w.seconds, w.lasts,
    (SELECT coalesce(json_agg(json_build_array(g.first, g.last) ORDER BY g.first), '[]') FROM queue_gaps g
      WHERE g.event_no = c.event_no AND g.shard = c.shard AND g.last > coalesce(a.frontier[c.shard + 1], 0)) AS gaps
  FROM queue_counters c JOIN admissions a USING (event_no) CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(r.second::double precision ORDER BY r.second), '{}') AS seconds,
      coalesce(array_agg(r.last::double precision ORDER BY r.second), '{}') AS lasts
    FROM (SELECT second, last FROM queue_arrivals q WHERE q.event_no = c.event_no AND q.shard = c.shard
      AND q.second >= coalesce(($2::bigint[])[c.shard + 1], 0) AND q.last > coalesce(a.frontier[c.shard + 1], 0)
      ORDER BY second LIMIT $3) r) w
  WHERE c.event_no = $1 ORDER BY c.shard`;

/**
 * Returns each shard's queue for the watermark. \`since\`: the second before which arrivals are called, by shard; it only
 * limits what is read. If a queue is longer than what is read, it is reported as if it ended there.
 */
export async function measureShards(db: Db, event: EventNo, since: readonly number[]): Promise<ShardLine[]> {
  const rows = await db.query<{
    frontier: number;
    last: number;
    readAt: number;
    seconds: number[];
    lasts: number[];
    gaps: Gap[];
  }>('measure_shards', shardsText, [event, since, secondsMax, commitMs]);
  return rows.map(({ frontier, last, readAt, seconds, lasts, gaps }) => {
    const arrivals = seconds.map((second, index) => ({ second, last: lasts[index]! }));
    const end = arrivals[secondsMax - 1];
    if (!end) return { frontier, last, readAt, arrivals, gaps };
    return { frontier, last: end.last, readAt: (end.second + 1) * 1000 - 1, arrivals, gaps };
  });
}

const sessionsText = `
  WITH held AS (
    SELECT visitor, cardinality(seats) AS seats FROM holds WHERE event_no = $1 AND state <> 'tombstone'
    UNION ALL
    SELECT * FROM unnest($4::text[], $5::integer[])
  ), took AS (
    SELECT visitor, bool_or(paid) AS paid FROM (
      SELECT visitor, false AS paid FROM held
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
  FROM (SELECT count(*) AS holds, coalesce(sum(seats), 0) AS seats FROM held) h LEFT JOIN classes c ON true`;

/** `elsewhere`: the holds of the partitions that another store arbitrates, memories among them as in Postgres's table. */
export async function measureSessions(
  db: Db,
  event: EventNo,
  elsewhere: readonly HoldElsewhere[],
): Promise<SessionMeasure> {
  const held = elsewhere.filter(({ state }) => state !== 'tombstone');
  const rows = await db.query<{
    class: number | null;
    opened: number;
    lookers: number;
    settled: number;
    buyers: number;
    holds: number;
    seats: number;
    issued: number;
  }>('measure_sessions', sessionsText, [
    event,
    ageClassMs,
    settledMs,
    held.map(({ visitor }) => visitor),
    held.map(({ seats }) => seats.length),
  ]);
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
