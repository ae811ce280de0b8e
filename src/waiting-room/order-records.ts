import { type CalledCell, cellsOf, type OrderReport, reportOrder } from '../core/order-report.ts';
import { type Gap, knownNumbers } from '../core/watermark.ts';
import type { Db } from '../postgres/db.ts';

/** A report, after a sale, about the order in which its queue was called. */
export interface QueueReport extends OrderReport {
  shards: ShardReport[];
  /**
   * Milliseconds by which the stores' clocks differed from Postgres's at most, as the leader measured it with its reading
   * of each second; what that reading took is part of it. 0 where Postgres stamped all arrivals.
   */
  clockDifferenceMs: number;
}

export interface ShardReport {
  shard: number;
  /** Numbers issued, those in gaps apart, and how many of them were called. */
  issued: number;
  called: number;
  /** Numbers that may or may not have been issued. */
  unknown: number;
  busiest: { second: number; arrivals: number } | null;
}

interface ShardRow {
  shard: number;
  last: number;
  skew: number | null;
  gaps: Gap[];
  seconds: number[];
  lasts: number[];
  moved: number[];
  frontiers: number[];
}

const recordText = `
  SELECT c.shard, c.last_no AS last, c.skew_max_ms AS skew,
    (SELECT coalesce(json_agg(json_build_array(g.first, g.last) ORDER BY g.first), '[]') FROM queue_gaps g
      WHERE g.event_no = c.event_no AND g.shard = c.shard) AS gaps,
    a.seconds, a.lasts, m.moved, m.frontiers
  FROM queue_counters c CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(q.second::double precision ORDER BY q.second), '{}') AS seconds,
      coalesce(array_agg(q.last::double precision ORDER BY q.second), '{}') AS lasts
    FROM queue_arrivals q WHERE q.event_no = c.event_no AND q.shard = c.shard) a
  CROSS JOIN LATERAL (
    SELECT coalesce(array_agg((extract(epoch FROM f.at) * 1000)::double precision ORDER BY f.frontier), '{}') AS moved,
      coalesce(array_agg(f.frontier::double precision ORDER BY f.frontier), '{}') AS frontiers
    FROM frontier_moves f WHERE f.event_no = c.event_no AND f.shard = c.shard) m
  WHERE c.event_no = $1 ORDER BY c.shard`;

/** From the recorded arrivals and moves of the frontier; see core/order-report.ts for what the figures mean. */
export async function reportQueue(db: Db, event: number): Promise<QueueReport> {
  const rows = await db.query<ShardRow>('queue_record', recordText, [event]);
  const cells: CalledCell[] = [];
  const shards = rows.map((row): ShardReport => {
    const arrivals = row.seconds.map((second, index) => ({ second, last: row.lasts[index]! }));
    const moves = row.moved.map((at, index) => ({ at, frontier: row.frontiers[index]! }));
    const ofShard = cellsOf({ shard: row.shard, arrivals, moves, gaps: row.gaps });
    for (const cell of ofShard) cells.push(cell);
    const unknown = row.gaps.reduce((sum, [first, last]) => sum + last - first + 1, 0);
    const busiest = busiestOf(arrivals, row.gaps);
    const called = ofShard.reduce((sum, { count }) => sum + count, 0);
    return { shard: row.shard, issued: row.last - unknown, called, unknown, busiest };
  });
  const clockDifferenceMs = Math.ceil(Math.max(0, ...rows.map(({ skew }) => skew ?? 0)));
  return { ...reportOrder(cells), shards, clockDifferenceMs };
}

function busiestOf(
  arrivals: readonly { second: number; last: number }[],
  gaps: readonly Gap[],
): ShardReport['busiest'] {
  let busiest: ShardReport['busiest'] = null;
  let before = 0;
  for (const { second, last } of arrivals) {
    const count = knownNumbers(before, last, gaps);
    if (count > (busiest?.arrivals ?? 0)) busiest = { second, arrivals: count };
    before = last;
  }
  return busiest;
}
