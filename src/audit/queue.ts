import type { EventNo } from '../core/hold.ts';
import type { Db } from '../postgres/db.ts';
import type { QueueShard } from './audit-sources.ts';
import { indexCheck, type RecordCheck } from './check.ts';

/** W1 and W3 inside Postgres: numbers, passes and the frontier. */
export const lineChecks: readonly RecordCheck[] = [
  {
    promise: 'W1',
    name: 'number_twice',
    looks: 'numbers by shard, as passes and as remembered for 60 s',
    remedy: 'Let both in: neither buyer can help it. Report the fault.',
    text: `
      SELECT NULL::integer AS seat, NULL::uuid AS "order", NULL::uuid AS hold,
             format('number %s of shard %s: %s', number, shard, string_agg(DISTINCT visitor, ', ')) AS says
      FROM (SELECT shard, number, visitor FROM passes WHERE event_no = $1
            UNION SELECT shard, number, visitor FROM queue_recent WHERE event_no = $1) n
      GROUP BY shard, number HAVING count(DISTINCT visitor) > 1`,
  },
  {
    promise: 'W1',
    name: 'number_beyond',
    looks:
      'no number above the last issued, on the ceiling or above it, or drawn anew out of a range that a lost store had',
    remedy: 'Raise the ceiling above the number before anybody else joins. Report the fault.',
    text: `
      SELECT NULL::integer AS seat, NULL::uuid AS "order", NULL::uuid AS hold,
             CASE WHEN g.first IS NOT NULL THEN format('number %s of shard %s was drawn at %s, yet %s to %s had been left to a lost store',
                                                       n.number, n.shard, n.at, g.first, g.last)
                  ELSE format('number %s of shard %s was drawn; the last issued is %s, the ceiling %s (%s)', n.number, n.shard,
                              c.last_no, c.ceiling, c.mode) END AS says
      FROM (SELECT shard, number, NULL::timestamptz AS at FROM passes WHERE event_no = $1
            UNION SELECT shard, number, issued_at FROM queue_recent WHERE event_no = $1
            UNION SELECT shard, last_no, NULL FROM queue_counters WHERE event_no = $1 AND last_no > 0) n
        LEFT JOIN queue_counters c ON c.event_no = $1 AND c.shard = n.shard
        LEFT JOIN queue_gaps g ON g.event_no = $1 AND g.shard = n.shard AND n.number BETWEEN g.first AND g.last AND n.at > g.at
      WHERE c.shard IS NULL OR n.number >= c.ceiling OR (c.mode = 'postgres' AND n.number > c.last_no) OR g.first IS NOT NULL`,
  },
  {
    promise: 'W1',
    name: 'number_order',
    looks: 'numbers remembered for 60 s rise in the order of arrival at the store',
    remedy: 'Nothing is to be undone. Report the fault.',
    text: `
      SELECT NULL::integer AS seat, NULL::uuid AS "order", NULL::uuid AS hold,
             format('number %s of shard %s was drawn at %s, number %s at %s', number, shard, issued_at, former, former_at) AS says
      FROM (SELECT shard, number, issued_at, lag(number) OVER line AS former, lag(issued_at) OVER line AS former_at
            FROM queue_recent WHERE event_no = $1 WINDOW line AS (PARTITION BY shard ORDER BY number)) n
      WHERE issued_at < former_at`,
  },
  {
    promise: 'W3',
    name: 'pass_ahead',
    looks: 'passes are at or behind the frontier, and were when they were issued',
    remedy: 'Nothing is to be undone: their buyers came early. Report the fault.',
    text: `
      SELECT NULL::integer AS seat, NULL::uuid AS "order", NULL::uuid AS hold,
             format('pass of number %s, shard %s, issued at %s; the frontier is %s and reached it %s', p.number, p.shard, p.issued_at,
                    coalesce(a.frontier[p.shard + 1], 0), coalesce('at ' || m.at::text, 'never')) AS says
      FROM passes p JOIN admissions a USING (event_no)
        LEFT JOIN LATERAL (SELECT f.at FROM frontier_moves f
          WHERE f.event_no = p.event_no AND f.shard = p.shard AND f.frontier >= p.number ORDER BY f.frontier LIMIT 1) m ON true
      WHERE p.event_no = $1 AND NOT coalesce(p.number <= a.frontier[p.shard + 1] AND m.at <= p.issued_at, false)`,
  },
  {
    promise: 'W3',
    name: 'pass_count',
    looks: 'passes by visitor and by number, none uncounted',
    remedy: 'Nothing is to be undone. Report the fault.',
    text: `
      SELECT NULL::integer AS seat, NULL::uuid AS "order", NULL::uuid AS hold, says FROM (
        SELECT format('visitor %s has %s passes', visitor, count(*)) AS says FROM passes WHERE event_no = $1
        GROUP BY visitor HAVING count(*) > 1
        UNION ALL
        SELECT format('number %s of shard %s has %s passes', number, shard, count(*)) FROM passes WHERE event_no = $1
        GROUP BY shard, number HAVING count(*) > 1
        UNION ALL
        SELECT format('%s passes, of which only %s were counted when issued', count(*), min(a.issued))
        FROM passes p JOIN admissions a USING (event_no) WHERE p.event_no = $1 HAVING count(*) > min(a.issued)) found`,
  },
  indexCheck('W3', 'passes', 'event_no, visitor', '', ''),
  indexCheck('W3', 'passes', 'event_no, shard, number', '', ''),
];

export function queueShards(db: Db, event: EventNo): Promise<QueueShard[]> {
  return db.query<QueueShard>(
    'audit_queue_shards',
    `SELECT c.shard, c.mode, c.epoch, c.store, c.run_ids AS "runIds", c.last_no AS last, c.ceiling,
        (SELECT coalesce(max(p.number), 0) FROM passes p WHERE p.event_no = $1 AND p.shard = c.shard) AS passed
     FROM queue_counters c WHERE c.event_no = $1 ORDER BY c.shard`,
    [event],
  );
}
