import { indexCheck, type RecordCheck } from './check.ts';

/**
 * S1 to S8 inside Postgres. Each statement sees one instant, so that whatever it finds is a contradiction and not two looks at
 * a moving thing. Holds of partitions that Redis arbitrates are not here: see src/audit/held.ts.
 */

/** A hold row counts while its epoch is the partition's, and its partition is not Redis's. */
const liveHolds = `
  SELECT h.* FROM holds h JOIN event_partitions p USING (event_no, partition)
  WHERE h.event_no = $1 AND h.state = 'live' AND h.deadline > now() AND h.epoch = p.epoch AND p.mode <> 'redis'`;

const ticketCounts = `
  SELECT order_id, count(*) FILTER (WHERE status = 'reserved') AS reserved, count(*) FILTER (WHERE status = 'sold') AS sold
  FROM tickets WHERE event_no = $1 GROUP BY order_id`;

export const ownerChecks: readonly RecordCheck[] = [
  {
    promise: 'S1',
    name: 'two_owners',
    looks: 'tickets reserved or sold, by seat',
    remedy: 'Stop the sale. Keep the older ticket, cancel and refund the other order, and report the fault.',
    text: `
      SELECT seat_no AS seat, NULL::uuid AS "order", NULL::uuid AS hold,
             format('%s tickets: %s', count(*), string_agg(format('%s of order %s', status, order_id), ', ')) AS says
      FROM tickets WHERE event_no = $1 AND status IN ('reserved','sold') GROUP BY seat_no HAVING count(*) > 1`,
  },
  indexCheck(
    'S1',
    'tickets',
    'seat_no, event_no',
    `status = ANY (ARRAY['reserved'::text, 'sold'::text])`,
    'tickets reserved or sold',
  ),
  {
    promise: 'S2',
    name: 'order_short',
    looks: 'unpaid orders have a reserved ticket for each of their seats',
    remedy: 'Close the order (its buyer is told, nothing is charged) and report the fault.',
    text: `
      SELECT NULL::integer AS seat, o.order_id AS "order", o.hold_id AS hold,
             format('the order is of %s seats, it has %s reserved and %s sold tickets', cardinality(o.seats),
                    coalesce(t.reserved, 0), coalesce(t.sold, 0)) AS says
      FROM orders o LEFT JOIN (${ticketCounts}) t USING (order_id)
      WHERE o.event_no = $1 AND o.state IN ('reserved','authorised')
        AND (coalesce(t.reserved, 0) <> cardinality(o.seats) OR coalesce(t.sold, 0) > 0)`,
  },
  {
    promise: 'S5',
    name: 'order_of_ended_hold',
    looks: 'no order came of a hold that had been released, replaced or had lapsed before',
    remedy: 'Look at the order history: if it is paid, the buyer keeps the seats. Report the fault.',
    text: `
      SELECT NULL::integer AS seat, o.order_id AS "order", o.hold_id AS hold,
             format('the hold was %s at %s, the order was made at %s',
                    CASE WHEN h.state IN ('released','replaced','tombstone') THEN h.state ELSE 'lapsed' END,
                    h.deadline, o.created_at) AS says
      FROM orders o JOIN holds h ON h.event_no = o.event_no AND h.hold_id = o.hold_id
      WHERE o.event_no = $1 AND o.seats <> '{}'
        AND (h.state IN ('released','replaced','tombstone') OR o.created_at > h.deadline)`,
  },
  {
    promise: 'S5',
    name: 'order_unlike_hold',
    looks: 'orders have the visitor and the seats of their holds',
    remedy: 'Close or refund the order and report the fault.',
    text: `
      SELECT NULL::integer AS seat, o.order_id AS "order", o.hold_id AS hold,
             format('the order is of visitor %s and seats %s, its hold of %s and %s', o.visitor, o.seats, h.visitor, h.seats) AS says
      FROM orders o JOIN holds h ON h.event_no = o.event_no AND h.hold_id = o.hold_id
      WHERE o.event_no = $1 AND o.seats <> '{}' AND (h.visitor <> o.visitor OR h.seats <> o.seats)`,
  },
  {
    promise: 'S6',
    name: 'late_payment_deadline',
    looks: "no order's payment deadline is later than 10 min after its reserve",
    remedy: 'Set the deadline back, or close the order.',
    text: `
      SELECT NULL::integer AS seat, order_id AS "order", hold_id AS hold,
             format('made at %s, payment deadline %s', created_at, payment_deadline) AS says
      FROM orders WHERE event_no = $1 AND payment_deadline > created_at + interval '10 minutes 1 second'`,
  },
  {
    promise: 'S7',
    name: 'quota',
    looks: 'seats held, or reserved and unpaid, by holder and partition',
    remedy: 'Nothing is to be undone by hand: what is over the quota lapses or is paid. Report the fault.',
    text: `
      SELECT NULL::integer AS seat, NULL::uuid AS "order", min(hold_id::text)::uuid AS hold,
             format('holder %s has %s seats in partition %s, the quota is %s', holder, sum(n), partition, max(quota)) AS says
      FROM (
        SELECT partition, holder, hold_id, cardinality(seats) AS n FROM (${liveHolds}) h
        UNION
        SELECT partition, holder, hold_id, cardinality(seats) FROM orders
        WHERE event_no = $1 AND state IN ('reserved','authorised')) counted,
        (SELECT coalesce((settings ->> 'holdSeatsMax')::integer, 6) AS quota FROM events WHERE event_no = $1) q
      GROUP BY partition, holder HAVING sum(n) > max(quota)`,
  },
];

export const leaseChecks: readonly RecordCheck[] = [
  {
    promise: 'S2',
    name: 'hold_short',
    looks: 'live holds have all their seats',
    remedy: 'Release the hold; its buyer is asked to choose again. Report the fault.',
    text: `
      SELECT NULL::integer AS seat, h.order_id AS "order", h.hold_id AS hold,
             format('holds seats %s, but these are not its own: %s', h.seats, array_agg(u.seat ORDER BY u.seat)) AS says
      FROM (${liveHolds}) h CROSS JOIN LATERAL unnest(h.seats) AS u (seat)
        LEFT JOIN seats s ON s.event_no = $1 AND s.seat_no = u.seat
      WHERE s.seat_no IS NULL OR (s.state = 'available' AND s.hold_id IS DISTINCT FROM h.hold_id)
      GROUP BY h.hold_id, h.order_id, h.seats`,
  },
  {
    promise: 'S3',
    name: 'two_holds',
    looks: 'no seat is under two live holds',
    remedy: 'Release the hold with the lower grant number and report the fault.',
    text: `
      SELECT u.seat, NULL::uuid AS "order", min(h.hold_id::text)::uuid AS hold,
             format('under live holds %s', string_agg(format('%s (grant %s)', h.hold_id, h.grant_no), ', ')) AS says
      FROM (${liveHolds}) h CROSS JOIN LATERAL unnest(h.seats) AS u (seat)
      GROUP BY u.seat HAVING count(*) > 1`,
  },
  {
    promise: 'S4',
    name: 'lease_without_hold',
    looks: 'no seat is kept by a hold that has ended',
    remedy: 'Clear the lease of the seat (hold_id, hold_until, hold_epoch) and report the fault.',
    text: `
      SELECT s.seat_no AS seat, NULL::uuid AS "order", s.hold_id AS hold,
             format('kept until %s by a hold that %s', s.hold_until, CASE
               WHEN h.hold_id IS NULL THEN 'is not there' WHEN h.state <> 'live' THEN 'is ' || h.state
               WHEN NOT s.seat_no = ANY (h.seats) THEN 'is of other seats' ELSE format('ends at %s', h.deadline) END) AS says
      FROM seats s JOIN event_partitions p ON p.event_no = s.event_no AND p.partition = s.partition
        LEFT JOIN holds h ON h.event_no = s.event_no AND h.hold_id = s.hold_id
      WHERE s.event_no = $1 AND s.state = 'available' AND s.hold_until > now() AND s.hold_epoch = p.epoch AND p.mode <> 'redis'
        AND (h.hold_id IS NULL OR h.state <> 'live' OR h.deadline < s.hold_until OR NOT s.seat_no = ANY (h.seats))`,
  },
  {
    promise: 'S6',
    name: 'long_hold',
    looks: 'no live hold outlives 15 min',
    remedy: 'Release the hold and report the fault.',
    text: `
      SELECT NULL::integer AS seat, order_id AS "order", hold_id AS hold,
             format('granted at %s, lives until %s', granted_at, deadline) AS says
      FROM (${liveHolds}) h WHERE deadline > granted_at + interval '15 minutes'`,
  },
];

export const stateChecks: readonly RecordCheck[] = [
  {
    promise: 'S8',
    name: 'seat_rows',
    looks: 'a row for each seat of the venue, in a partition that there is',
    remedy: 'Restore the missing rows from the plan, or report the fault.',
    text: `
      SELECT coalesce(s.seat_no, n.seat_no) AS seat, NULL::uuid AS "order", NULL::uuid AS hold,
             CASE WHEN s.seat_no IS NULL THEN 'no row says what is decided about it'
                  WHEN n.seat_no IS NULL THEN 'it is none of the seats of the venue'
                  ELSE format('its partition %s is not there', s.partition) END AS says
      FROM (SELECT seat_no, partition FROM seats WHERE event_no = $1) s
        FULL JOIN (SELECT generate_series(0, seat_count - 1) AS seat_no FROM events WHERE event_no = $1) n USING (seat_no)
        LEFT JOIN event_partitions p ON p.event_no = $1 AND p.partition = s.partition
      WHERE s.seat_no IS NULL OR n.seat_no IS NULL OR p.partition IS NULL`,
  },
  {
    promise: 'S8',
    name: 'seat_unlike_ticket',
    looks: 'seats say what their tickets say',
    remedy: 'The ticket is the truth: set state and order of the seat to it, with the next version.',
    text: `
      SELECT coalesce(s.seat_no, t.seat_no) AS seat, coalesce(t.order_id, s.order_id) AS "order", NULL::uuid AS hold,
             format('the seat is %s%s, its ticket %s', coalesce(s.state, 'missing'),
                    coalesce(' for order ' || s.order_id, ''),
                    coalesce(format('%s for order %s', t.status, t.order_id), 'is not there')) AS says
      FROM (SELECT seat_no, state, order_id FROM seats WHERE event_no = $1) s
        FULL JOIN (SELECT seat_no, order_id, status FROM tickets WHERE event_no = $1 AND status IN ('reserved','sold')) t
        USING (seat_no)
      WHERE NOT coalesce(CASE WHEN s.state IN ('reserved','sold') THEN t.status = s.state AND t.order_id = s.order_id
                              ELSE t.seat_no IS NULL AND s.order_id IS NULL END, false)`,
  },
  {
    promise: 'S8',
    name: 'ticket_unlike_order',
    looks: 'tickets say what their orders say',
    remedy: "Follow the order's history: it is the order's state that decides.",
    text: `
      SELECT t.seat_no AS seat, t.order_id AS "order", NULL::uuid AS hold,
             format('the ticket is %s, its order %s', t.status, coalesce(CASE
               WHEN NOT t.seat_no = ANY (o.seats) THEN 'has not this seat' ELSE 'is ' || o.state END, 'is not there')) AS says
      FROM tickets t LEFT JOIN orders o ON o.order_id = t.order_id AND o.event_no = t.event_no
      WHERE t.event_no = $1 AND t.status IN ('reserved','sold') AND NOT coalesce(t.seat_no = ANY (o.seats)
        AND o.state = ANY (CASE t.status WHEN 'sold' THEN ARRAY['confirmed','paid'] ELSE ARRAY['reserved','authorised'] END), false)`,
  },
  {
    promise: 'S8',
    name: 'block_unlike_seat',
    looks: 'blocked seats are those with a block',
    remedy: 'Block or unblock the seat once more.',
    text: `
      SELECT coalesce(s.seat_no, b.seat_no) AS seat, NULL::uuid AS "order", NULL::uuid AS hold,
             CASE WHEN b.seat_no IS NULL THEN 'the seat is blocked, nobody blocked it'
                  ELSE format('blocked by %s (%s), yet the seat is not', b.actor, b.reason) END AS says
      FROM (SELECT seat_no FROM seats WHERE event_no = $1 AND state = 'blocked') s
        FULL JOIN (SELECT seat_no, actor, reason FROM blocks WHERE event_no = $1) b USING (seat_no)
      WHERE s.seat_no IS NULL OR b.seat_no IS NULL`,
  },
];
