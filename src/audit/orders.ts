import { indexCheck, type RecordCheck } from './check.ts';

/** P1 to P8 inside Postgres. src/audit/money.ts compares them with the provider. */

const operations = `
  SELECT m.*, o.state AS order_state, o.amount AS order_amount, o.currency AS order_currency, o.event_no
  FROM money_operations m JOIN orders o USING (order_id) WHERE o.event_no = $1`;

export const purchaseChecks: readonly RecordCheck[] = [
  {
    promise: 'P1',
    name: 'two_authorisations',
    looks: 'money operations and authorisations by order',
    remedy: 'Void the later authorisation at the provider and report the fault.',
    text: `
      SELECT NULL::integer AS seat, order_id AS "order", NULL::uuid AS hold,
             format('%s authorisations stand or are under way, %s operations are under way', authorisations, under_way) AS says
      FROM (SELECT order_id, count(*) FILTER (WHERE kind = 'authorise' AND state NOT IN ('refused','voided')) AS authorisations,
                   count(*) FILTER (WHERE state IN ('open','waiting','unknown','ending') AND kind <> 'refund') AS under_way
            FROM (${operations}) m GROUP BY order_id) counted
      WHERE authorisations > 1 OR under_way > 1`,
  },
  {
    promise: 'P1',
    name: 'two_orders',
    looks: 'orders by hold, open ones by visitor',
    remedy: 'Close or refund the later order and report the fault.',
    text: `
      SELECT NULL::integer AS seat, min(order_id::text)::uuid AS "order", hold_id AS hold,
             format('%s orders of one hold', count(*)) AS says
      FROM orders WHERE event_no = $1 GROUP BY hold_id HAVING count(*) > 1
      UNION ALL
      SELECT NULL, min(order_id::text)::uuid, NULL, format('visitor %s has %s open orders', visitor, count(*))
      FROM orders WHERE event_no = $1 AND state IN ('reserved','authorised') GROUP BY visitor HAVING count(*) > 1`,
  },
  indexCheck('P1', 'money_operations', 'order_id', 'authorise', 'authorisations'),
  indexCheck('P1', 'money_operations', 'order_id', 'ending', 'operations under way'),
  indexCheck('P1', 'orders', 'hold_id', '', ''),
  indexCheck('P1', 'orders', 'event_no, visitor', 'reserved', 'open orders'),
  {
    promise: 'P2',
    name: 'capture_without_tickets',
    looks: 'captures are of orders whose seats are all sold to them',
    remedy: 'Refund the order, or give its buyer the seats if they are free. Report the fault.',
    text: `
      SELECT NULL::integer AS seat, m.order_id AS "order", NULL::uuid AS hold,
             format('a capture is %s, the order %s with %s of %s tickets sold', m.state, o.state, coalesce(t.sold, 0),
                    cardinality(o.seats)) AS says
      FROM (${operations}) m JOIN orders o USING (order_id)
        LEFT JOIN (SELECT order_id, count(*) AS sold FROM tickets
                   WHERE event_no = $1 AND (status = 'sold' OR revoked_at IS NOT NULL) GROUP BY order_id) t
          USING (order_id)
      WHERE m.kind = 'capture' AND m.state <> 'refused'
        AND CASE WHEN o.state IN ('confirmed','paid') THEN coalesce(t.sold, 0) <> cardinality(o.seats)
                 ELSE o.state <> 'cancelled' END`,
  },
  {
    promise: 'P2',
    name: 'sold_without_capture',
    looks: 'sold orders have their capture, paid ones a done one',
    remedy: 'Look the payment up at the provider; capture it, or cancel the order.',
    text: `
      SELECT NULL::integer AS seat, o.order_id AS "order", o.hold_id AS hold,
             format('the order is %s, its capture %s', o.state, coalesce(m.state, 'is not there')) AS says
      FROM orders o LEFT JOIN money_operations m ON m.order_id = o.order_id AND m.kind = 'capture'
      WHERE o.event_no = $1 AND o.state IN ('confirmed','paid')
        AND (m.state IS NULL OR (o.state = 'paid' AND m.state <> 'done'))`,
  },
  {
    promise: 'P3',
    name: 'standing_after_end',
    looks: 'ended orders have no authorisation that stands, those being voided have one being ended',
    remedy: 'Void the authorisation at the provider.',
    text: `
      SELECT NULL::integer AS seat, o.order_id AS "order", o.hold_id AS hold,
             format('the order is %s, its authorisation %s', o.state, coalesce(m.state, 'is not there')) AS says
      FROM orders o LEFT JOIN money_operations m
        ON m.order_id = o.order_id AND m.kind = 'authorise' AND m.state NOT IN ('refused','voided')
      WHERE o.event_no = $1 AND CASE o.state WHEN 'voiding' THEN m.state IS DISTINCT FROM 'ending' WHEN 'closed' THEN m.state = 'done' END`,
  },
  {
    promise: 'P4',
    name: 'nobody_looks',
    looks: 'each operation under way is looked at again',
    remedy: 'Set its due_at to now: the worker then asks the provider.',
    text: `
      SELECT NULL::integer AS seat, order_id AS "order", NULL::uuid AS hold,
             format('%s operation %s is %s and due never', kind, operation_id, state) AS says
      FROM (${operations}) m WHERE state IN ('open','waiting','unknown','ending') AND due_at IS NULL`,
  },
  {
    promise: 'P4',
    name: 'seats_gone_while_unknown',
    looks: 'orders whose payment is unknown keep their seats',
    remedy: 'Set its due_at to now; if the money is taken and the seats are gone, void or refund it.',
    text: `
      SELECT NULL::integer AS seat, order_id AS "order", NULL::uuid AS hold,
             format('the authorisation is %s, yet the order is %s', state, order_state) AS says
      FROM (${operations}) m
      WHERE kind = 'authorise' AND state IN ('open','waiting','unknown') AND order_state <> 'reserved'`,
  },
  {
    promise: 'P5',
    name: 'keys',
    looks: 'operations by idempotency key, none without the object that it is about',
    remedy: 'Do not repeat the call; look the payment up at the provider.',
    text: `
      SELECT NULL::integer AS seat, min(order_id::text)::uuid AS "order", NULL::uuid AS hold,
             format('%s operations with key %s', count(*), key) AS says
      FROM (SELECT order_id, key FROM (${operations}) a UNION ALL
            SELECT order_id, end_key FROM (${operations}) b WHERE end_key IS NOT NULL) used
      GROUP BY key HAVING count(*) > 1
      UNION ALL
      SELECT NULL, order_id, NULL, format('%s operation %s names no object of the provider', kind, operation_id)
      FROM (${operations}) m WHERE kind <> 'open' AND provider_object IS NULL`,
  },
  indexCheck('P5', 'money_operations', 'key', '', ''),
  {
    promise: 'P5',
    name: 'refund_attempts',
    looks: 'refunds have one attempt at a time, and say what their last one came to',
    remedy: 'Look the refunds of the payment up at the provider before anything is tried again.',
    text: `
      SELECT NULL::integer AS seat, r.order_id AS "order", NULL::uuid AS hold,
             format('refund %s over %s is %s, its attempts: %s', r.refund_id, r.amount, r.state, coalesce(m.states, 'none')) AS says
      FROM refunds r LEFT JOIN LATERAL (
        SELECT string_agg(state, ', ' ORDER BY created_at) AS states, count(*) FILTER (WHERE state <> 'refused') AS standing,
               max(state) FILTER (WHERE state <> 'refused') AS state,
               -- An attempt that was refused may have been over more: money that went back since is taken off (refund_retry).
               bool_and(currency = r.currency AND (amount = r.amount OR (state = 'refused' AND amount > r.amount))) AS fits
        FROM money_operations WHERE refund_id = r.refund_id) m ON true
      WHERE r.event_no = $1 AND r.amount > 0 AND NOT coalesce(m.fits AND CASE r.state
        WHEN 'open' THEN m.state = 'open' WHEN 'unknown' THEN m.state = 'unknown' WHEN 'pending' THEN m.state = 'waiting'
        WHEN 'done' THEN m.state = 'done' ELSE m.standing = 0 END AND m.standing <= 1, false)`,
  },
  {
    promise: 'P6',
    name: 'operation_amount',
    looks: 'operations have the amount and currency of their orders',
    remedy: 'Look the payment up at the provider before anything else is sent.',
    text: `
      SELECT NULL::integer AS seat, order_id AS "order", NULL::uuid AS hold,
             format('%s operation over %s %s, the order over %s %s', kind, amount, currency, order_amount, order_currency) AS says
      FROM (${operations}) m
      WHERE kind <> 'refund' AND (amount <> order_amount OR currency <> order_currency)
        -- An operator accepted less.
        AND NOT (kind = 'capture' AND coalesce(decision ->> 'action' = 'accept', false) AND amount < order_amount)`,
  },
];

/** Refunded tickets do not count any more. */
const limited = `
  SELECT o.event_no, o.order_id, o.state, o.account, o.visitor, subject, kind, cardinality(o.seats) - coalesce(t.revoked, 0)::integer AS n
  FROM orders o
    CROSS JOIN LATERAL (VALUES ('account', o.account), ('instrument', o.instrument ->> 'fingerprint')) AS limits (kind, subject)
    LEFT JOIN (SELECT order_id, count(*) AS revoked FROM tickets
               WHERE event_no = $1 AND revoked_at IS NOT NULL GROUP BY order_id) t USING (order_id)
  WHERE o.event_no = $1 AND subject IS NOT NULL`;

export const limitChecks: readonly RecordCheck[] = [
  {
    promise: 'P7',
    name: 'over_limit',
    looks: 'seats by account and by payment instrument against the limits of the event',
    remedy: 'Cancel what is over the limit, or leave it; report the fault.',
    text: `
      SELECT NULL::integer AS seat, min(order_id::text)::uuid AS "order", NULL::uuid AS hold,
             format('%s %s has %s seats, the limit is %s', kind, subject, sum(n), most) AS says
      FROM (${limited}) l JOIN LATERAL (
        SELECT CASE WHEN bool_and(v.most IS NOT NULL) THEN max(v.most) END AS most
        FROM (SELECT CASE kind WHEN 'account' THEN 'accountSeatsMax' ELSE 'instrumentSeatsMax' END AS name) n
          CROSS JOIN LATERAL (
            SELECT (settings ->> n.name)::integer AS most FROM events WHERE event_no = $1
            -- What was bought under a higher limit stays bought.
            UNION ALL SELECT (detail -> 'from' ->> n.name)::integer FROM audit_log WHERE event_no = $1 AND action = 'limits') v
        ) m ON m.most IS NOT NULL
      WHERE (state IN ('confirmed','paid') OR (kind = 'account' AND state IN ('reserved','authorised')))
        AND NOT EXISTS (SELECT 1 FROM limit_allowances a
                        WHERE a.event_no = $1 AND (a.account = l.account OR a.visitor = l.visitor))
      GROUP BY kind, subject, most HAVING sum(n) > most`,
  },
  {
    promise: 'P7',
    name: 'limit_counts',
    looks: 'the counts that limits are decided by are those of the sold orders',
    remedy: 'Set the count to that of the orders.',
    text: `
      SELECT NULL::integer AS seat, NULL::uuid AS "order", NULL::uuid AS hold,
             format('%s %s: counted %s seats, its orders have %s', kind, subject, coalesce(c.seats, 0), coalesce(s.seats, 0)) AS says
      FROM (SELECT kind, subject, seats FROM limit_counts WHERE event_no = $1) c
        FULL JOIN (SELECT kind, subject, sum(n)::integer AS seats FROM (${limited}) l
                   WHERE state IN ('confirmed','paid') GROUP BY kind, subject) s USING (kind, subject)
      WHERE coalesce(c.seats, 0) <> coalesce(s.seats, 0)`,
  },
  {
    promise: 'P7',
    name: 'code_uses',
    looks: 'access codes: as many uses are counted as orders use them',
    remedy: 'Set the count to that of the orders.',
    text: `
      SELECT NULL::integer AS seat, min(o.order_id::text)::uuid AS "order", NULL::uuid AS hold,
             format('access code of batch %s: %s uses counted, %s orders use it', c.batch, c.used, count(o.order_id)) AS says
      FROM access_codes c LEFT JOIN orders o ON o.access_code = c.code_id AND order_uses_code(o)
      WHERE c.event_no = $1 AND c.uses_max IS NOT NULL
      GROUP BY c.code_id HAVING c.used <> count(o.order_id)`,
  },
];

export const amountChecks: readonly RecordCheck[] = [
  {
    promise: 'P8',
    name: 'order_sum',
    looks: "orders' amounts are the sums of their lines, sold ones of their tickets",
    remedy: 'Find out which is right from the order history, then refund the difference.',
    text: `
      SELECT NULL::integer AS seat, o.order_id AS "order", o.hold_id AS hold,
             format('the order is over %s, its lines sum to %s, its tickets to %s', o.amount, l.sum, coalesce(t.sum::text, 'none')) AS says
      FROM orders o
        CROSS JOIN LATERAL (SELECT coalesce(sum((line ->> 'price')::bigint + (line ->> 'fee')::bigint), 0) + o.order_fee AS sum
                            FROM jsonb_array_elements(o.lines) line) l
        LEFT JOIN (SELECT order_id, sum(price + fee) AS sum FROM tickets
                   WHERE event_no = $1 AND (status = 'sold' OR revoked_at IS NOT NULL) GROUP BY order_id) t
          USING (order_id)
      WHERE o.event_no = $1 AND (o.amount <> l.sum OR (o.state IN ('confirmed','paid') AND o.amount <> coalesce(t.sum, 0) + o.order_fee))`,
  },
  {
    promise: 'P8',
    name: 'refund_sum',
    looks: "refunds' amounts are the sums of their tickets, and no order gave back more than it took",
    remedy: 'Find out which is right from the order history, then refund or collect the difference.',
    text: `
      SELECT NULL::integer AS seat, r.order_id AS "order", NULL::uuid AS hold,
             format('refund %s is over %s, its tickets and fees sum to %s', r.refund_id, r.amount, s.sum) AS says
      FROM refunds r CROSS JOIN LATERAL (
        SELECT coalesce(sum(t.price + t.fee), 0) - r.fees_kept + r.order_fee + r.goodwill AS sum
        FROM refund_tickets rt JOIN tickets t USING (event_no, ticket_id) WHERE rt.refund_id = r.refund_id) s
      WHERE r.event_no = $1 AND r.amount <> s.sum
      UNION ALL
      SELECT NULL, o.order_id, NULL, format('%s were decided to be given back of %s', sum(r.amount), o.amount)
      FROM orders o JOIN refunds r USING (order_id) WHERE o.event_no = $1
      GROUP BY o.order_id, o.amount HAVING sum(r.amount) > o.amount
      UNION ALL
      -- Money that went back at the provider and refunds that were settled may be the same; an operator may have said so.
      SELECT NULL, g.order_id, NULL, format('%s of %s were given back or are on their way, %s of it at the provider',
                                            g.given + g.there, g.taken, g.there)
      FROM (SELECT o.order_id, order_taken(o) AS taken, v.taken - order_settled_there(o.order_id) AS there,
                   (SELECT coalesce(sum(amount), 0) FROM refunds WHERE order_id = o.order_id AND state <> 'failed') AS given
            FROM orders o
            JOIN (SELECT order_id, sum(taken) AS taken FROM reversals WHERE kind = 'refund' GROUP BY 1) v USING (order_id)
            WHERE o.event_no = $1 AND o.state IN ('paid','cancelled')) g
      WHERE g.given + g.there > g.taken
        AND NOT EXISTS (SELECT FROM reconcile_findings f WHERE f.order_id = g.order_id AND f.decision IS NOT NULL)`,
  },
  {
    promise: 'P8',
    name: 'refund_of_ticket',
    looks: 'tickets that were revoked have a refund, and refunded ones are revoked',
    remedy: 'Refund the ticket that was revoked without one, or revoke the one that was refunded.',
    text: `
      SELECT t.seat_no AS seat, t.order_id AS "order", NULL::uuid AS hold,
             format('ticket %s is %s%s, its refund %s', t.ticket_id, t.status,
                    CASE WHEN t.revoked_at IS NULL THEN '' ELSE ' and revoked' END, coalesce(rt.refund_id::text, 'is not there')) AS says
      FROM (SELECT * FROM tickets WHERE event_no = $1) t
        FULL JOIN (SELECT * FROM refund_tickets WHERE event_no = $1) rt USING (ticket_id)
      WHERE (rt.refund_id IS NULL AND t.revoked_at IS NOT NULL)
        OR (rt.refund_id IS NOT NULL AND (t.revoked_at IS NULL OR t.status <> 'cancelled'))`,
  },
  {
    promise: 'P8',
    name: 'kept_without_ticket',
    looks:
      'orders without a valid ticket keep no money but fees, unless an operator decided so or has it on the list',
    remedy:
      'Give the difference back: refund it as goodwill, or at the provider if the order was never paid.',
    text: `
      WITH without_ticket AS MATERIALIZED (
        SELECT o.order_id, o.order_fee FROM orders o
        WHERE o.event_no = $1 AND o.state IN ('paid','cancelled')
          AND EXISTS (SELECT FROM money_operations m WHERE m.order_id = o.order_id AND m.kind = 'capture' AND m.state = 'done')
          AND NOT EXISTS (SELECT FROM tickets t WHERE t.event_no = $1 AND t.order_id = o.order_id AND t.status = 'sold')),
      kept AS MATERIALIZED (
        -- A refund of nothing is a decision: the organiser cancelled its tickets without paying.
        SELECT w.order_id, order_left(o) + r.unpaid AS kept, r.fees_kept + w.order_fee - r.order_fee AS fees
        FROM without_ticket w JOIN orders o USING (order_id) CROSS JOIN LATERAL (
          SELECT coalesce(sum(fees_kept), 0) AS fees_kept, coalesce(sum(order_fee), 0) AS order_fee,
                 coalesce(sum(goodwill) FILTER (WHERE amount = 0), 0) AS unpaid
          FROM refunds WHERE order_id = w.order_id) r)
      SELECT NULL::integer AS seat, k.order_id AS "order", NULL::uuid AS hold,
             format('%s are kept and no ticket is valid, the fees that may be kept are %s', kept, fees) AS says
      FROM kept k
      WHERE kept > fees
        AND NOT EXISTS (SELECT FROM operator_list l WHERE l.order_id = k.order_id)
        AND NOT EXISTS (SELECT FROM reconcile_findings f WHERE f.order_id = k.order_id AND f.decision IS NOT NULL)
      UNION ALL
      SELECT NULL, order_id, NULL, format('%s operation %s has ended, %s were captured and %s given back', kind, operation_id,
                                          answer #>> '{view,captured}', answer #>> '{view,refunded}')
      FROM (${operations}) m
      WHERE state = 'voided' AND (answer #>> '{view,captured}')::bigint > (answer #>> '{view,refunded}')::bigint
        AND coalesce(decision ->> 'action', '') <> 'settle'`,
  },
  {
    promise: 'P8',
    name: 'reversal_not_listed',
    looks:
      'refunds made at the provider and disputes are on the operator list or were decided, in their present state',
    remedy: 'Compare the order with the provider; cancel its tickets if the money went back.',
    // Decided findings are kept for a year (reconcile_run_due).
    text: `
      SELECT NULL::integer AS seat, v.order_id AS "order", NULL::uuid AS hold,
             format('%s %s is %s and took %s, and no operator saw it', v.kind, v.reversal_id, v.state, v.taken) AS says
      FROM reversals v JOIN orders o USING (order_id)
      WHERE o.event_no = $1 AND v.seen_at > now() - interval '1 year'
        AND NOT EXISTS (SELECT FROM reconcile_findings f WHERE f.subject = v.reversal_id
                        AND (f.settled_at IS NULL OR f.decision IS NOT NULL)
                        AND f.detail ->> 'state' = v.state AND (f.detail ->> 'taken')::bigint = v.taken)`,
  },
];
