import type { EventId, EventNo, PartitionNo } from '../core/hold.ts';
import type { Db } from '../postgres/db.ts';

/** Counts of an audit, and the parts of an event that are in transit: no contradictions, only things that are not at rest. */
export interface AuditFacts {
  seats: number;
  tickets: number;
  orders: number;
  paid: number;
  operations: number;
  numbers: number;
  passes: number;
  accounts: number;
  /** Live holds of partitions that Postgres arbitrates. */
  liveHolds: number;
  transit: Transit;
}

export interface Transit {
  /** Orders that wait for their buyer. */
  reserved: number;
  /** Orders between authorised and paid, or being voided. */
  halfway: number;
  /** Money operations under way. */
  operations: number;
  /**
   * Operations that have been due for more than 2 min, and unpaid orders more than 2 min past their deadline.
   * If there are any, no worker runs.
   */
  overdue: number;
  /** Partitions that move between stores, or in grace. */
  partitions: number;
}

/** All figures at one instant. */
export async function readFacts(db: Db, event: EventNo): Promise<AuditFacts> {
  const [row] = await db.query<Omit<AuditFacts, 'transit'> & Transit>(
    'audit_facts',
    `SELECT
      (SELECT count(*) FROM seats WHERE event_no = $1) AS seats,
      (SELECT count(*) FROM tickets WHERE event_no = $1 AND status IN ('reserved','sold')) AS tickets,
      o.orders, o.paid, o.reserved, o.halfway, o.accounts,
      m.operations AS operations, m.under_way AS "underWay", m.overdue + o.overdue AS overdue,
      (SELECT coalesce(sum(last_no), 0)::bigint FROM queue_counters WHERE event_no = $1) AS numbers,
      (SELECT count(*) FROM passes WHERE event_no = $1) AS passes,
      (SELECT count(*) FROM holds h JOIN event_partitions p USING (event_no, partition)
        WHERE h.event_no = $1 AND h.state = 'live' AND h.deadline > now() AND h.epoch = p.epoch AND p.mode <> 'redis') AS "liveHolds",
      (SELECT count(*) FROM event_partitions
        WHERE event_no = $1 AND (mode = 'moving' OR grace_until > now())) AS partitions
     FROM (SELECT count(*) AS orders, count(*) FILTER (WHERE state = 'paid') AS paid,
             count(*) FILTER (WHERE state = 'reserved') AS reserved,
             count(*) FILTER (WHERE state IN ('authorised','confirmed','voiding')) AS halfway,
             count(*) FILTER (WHERE state = 'reserved' AND payment_deadline < now() - interval '2 minutes') AS overdue,
             count(DISTINCT account) AS accounts
           FROM orders WHERE event_no = $1) o,
          (SELECT count(*) AS operations, count(*) FILTER (WHERE m.state IN ('open','waiting','unknown','ending')) AS under_way,
             count(*) FILTER (WHERE m.due_at < now() - interval '2 minutes') AS overdue
           FROM money_operations m JOIN orders USING (order_id) WHERE event_no = $1) m`,
    [event],
  );
  const { reserved, halfway, overdue, partitions, underWay, ...counts } = row as unknown as AuditFacts &
    Transit & { underWay: number };
  return { ...counts, transit: { reserved, halfway, operations: underWay, overdue, partitions } };
}

/** An order next to the sums of its money operations. Amounts in minor units. */
export interface AuditedOrder {
  order: string;
  state: string;
  amount: number;
  currency: string;
  /** Objects of the provider that its operations were about. */
  objects: string[];
  /** Authorisations that were written before they were sent. */
  tries: number;
  underWay: boolean;
  /** The operation under way was first sent more than 2 min ago, and a worker is looking after it. */
  lingering: boolean;
  /** Kind of the operation under way. */
  kind: string | null;
  soldTickets: number;
  /** Prices and fees of its valid tickets. */
  valid: number;
  /** How many refunds were decided; then their sums (core/money-due.ts). */
  refunds: number;
  /** The part of the order's own fee that was kept. */
  orderFee: number;
  feesKept: number;
  goodwill: number;
  /** Refunded at the provider, not by us. */
  refundedThere: number;
  /** Refunds that failed, or were given back by other means: decided, yet still with the provider. */
  notGivenBack: number;
  /** Kept at the provider beyond that (negative: less), because an operator accepted it. */
  accepted: number;
  /** An operator decided about one of its payments. */
  decided: boolean;
  /** Payments of which an operator settled by other means what is left. */
  settled: string[];
  /** Payments of other attempts: they were ended here, their money was given back, and the buyer was notified. */
  strays: string[];
}

/** `limit` orders after `after` (null: from the first), by id. */
export function auditedOrders(
  db: Db,
  event: EventNo,
  after: string | null,
  limit: number,
): Promise<AuditedOrder[]> {
  return db.query<AuditedOrder>(
    'audit_orders',
    `SELECT o.order_id AS "order", o.state, o.amount, o.currency, m.objects, m.tries, m.under_way AS "underWay",
        m.lingering, m.kind, t.sold AS "soldTickets", t.valid, r.refunds, o.order_fee - r.order_fee AS "orderFee",
        r.fees_kept AS "feesKept", r.goodwill, r.not_given_back AS "notGivenBack", o.accepted_difference AS accepted, m.strays,
        m.settled, m.decided, v.refunded AS "refundedThere"
     FROM orders o CROSS JOIN LATERAL (
       SELECT count(*) AS sold, coalesce(sum(price + fee), 0) AS valid FROM tickets
       WHERE event_no = $1 AND order_id = o.order_id AND status = 'sold') t
     CROSS JOIN LATERAL (
       SELECT count(*) AS refunds, coalesce(sum(order_fee), 0) AS order_fee, coalesce(sum(fees_kept), 0) AS fees_kept,
         coalesce(sum(goodwill), 0) AS goodwill,
         coalesce(sum(amount) FILTER (WHERE state IN ('failed','elsewhere')), 0) AS not_given_back
       FROM refunds WHERE order_id = o.order_id) r
     CROSS JOIN LATERAL (
       SELECT coalesce(sum(taken), 0) AS refunded FROM reversals WHERE order_id = o.order_id AND kind = 'refund') v
     CROSS JOIN LATERAL (
       SELECT coalesce(array_agg(DISTINCT provider_object) FILTER (WHERE provider_object IS NOT NULL), '{}') AS objects,
         ARRAY(SELECT s.provider_object FROM money_operations s WHERE s.order_id = o.order_id AND s.state = 'voided'
               AND ((s.answer #>> '{view,captured}')::bigint > 0
                    OR (s.kind = 'open' AND s.provider_object IS DISTINCT FROM o.provider_object AND NOT EXISTS (
                          SELECT 1 FROM money_operations a WHERE a.order_id = o.order_id AND a.kind <> 'open'
                            AND a.provider_object = s.provider_object)))) AS strays,
         coalesce(array_agg(provider_object) FILTER (WHERE state = 'voided' AND decision ->> 'action' = 'settle'), '{}') AS settled,
         coalesce(bool_or(decision IS NOT NULL), false) AS decided,
         count(*) FILTER (WHERE kind = 'authorise') AS tries,
         coalesce(bool_or(state IN ('open','waiting','unknown','ending')), false) AS under_way,
         coalesce(bool_or(state IN ('open','unknown','ending') AND first_sent_at < now() - interval '2 minutes'
                          AND due_at > now() - interval '2 minutes'), false) AS lingering,
         max(CASE WHEN state = 'ending' THEN 'ending' ELSE kind END)
           FILTER (WHERE state IN ('open','waiting','unknown','ending')) AS kind
       FROM money_operations WHERE order_id = o.order_id) m
     WHERE o.event_no = $1 AND ($2::uuid IS NULL OR o.order_id > $2) ORDER BY o.order_id LIMIT $3`,
    [event, after, limit],
  );
}

/** Which of these references are orders of any event. */
export async function knownOrders(db: Db, orders: readonly string[]): Promise<Set<string>> {
  const rows = await db.query<{ order: string }>(
    'audit_known_orders',
    'SELECT order_id::text AS "order" FROM orders WHERE order_id::text = ANY ($1)',
    [orders],
  );
  return new Set(rows.map(({ order }) => order));
}

/** Decided state of every seat of a partition, side by side. */
export async function decidedSeats(
  db: Db,
  event: EventNo,
  partition: PartitionNo,
): Promise<{ seats: number[]; states: string[]; orders: (string | null)[] }> {
  const [row] = await db.query<{ seats: number[] | null; states: string[]; orders: (string | null)[] }>(
    'audit_decided_seats',
    `SELECT array_agg(seat_no ORDER BY seat_no) AS seats, array_agg(state ORDER BY seat_no) AS states,
        array_agg(order_id::text ORDER BY seat_no) AS orders
     FROM seats WHERE event_no = $1 AND partition = $2`,
    [event, partition],
  );
  return { seats: row?.seats ?? [], states: row?.states ?? [], orders: row?.orders ?? [] };
}

/** Seats by number as people name them: "Block A · row 3 · seat 12". */
export async function seatNames(
  db: Db,
  event: EventNo,
  seats: readonly number[],
): Promise<Map<number, string>> {
  const rows = await db.query<{ seat: number; name: string }>(
    'audit_seat_names',
    `SELECT seat_no AS seat, concat_ws(' · ', section_id, nullif('row ' || row_label, 'row '), nullif('seat ' || seat_label, 'seat ')) AS name
     FROM event_seats WHERE event_no = $1 AND seat_no = ANY ($2)`,
    [event, seats],
  );
  return new Map(rows.map(({ seat, name }) => [seat, name]));
}

export interface OpenOrderSeats {
  partition: PartitionNo;
  holder: string;
  hold: string;
  seats: number;
}

/** Orders that count against the quotas of their holders (S7). */
export function unpaidSeats(db: Db, event: EventNo): Promise<OpenOrderSeats[]> {
  return db.query<OpenOrderSeats>(
    'audit_unpaid_seats',
    `SELECT partition, holder, hold_id AS hold, cardinality(seats) AS seats FROM orders
     WHERE event_no = $1 AND state IN ('reserved','authorised')`,
    [event],
  );
}

/** An order of one partition, to be compared with its hold. */
export interface OrderOfHold {
  order: string;
  hold: string;
  visitor: string;
  /** Ascending. Empty means that the hold was given back before there was an order. */
  seats: number[];
  state: string;
  /** Epoch ms. */
  createdAt: number;
}

export function ordersOfPartition(db: Db, event: EventNo, partition: PartitionNo): Promise<OrderOfHold[]> {
  return db.query<OrderOfHold>(
    'audit_orders_of_partition',
    `SELECT order_id AS "order", hold_id AS hold, visitor, seats, state, created_at AS "createdAt"
     FROM orders WHERE event_no = $1 AND partition = $2`,
    [event, partition],
  );
}

/** How many of a partition's orders Postgres still has the holds of. */
export async function rememberedOrders(
  db: Db,
  event: EventNo,
  partition: PartitionNo,
): Promise<{ orders: number; remembered: number }> {
  const [row] = await db.query<{ orders: number; remembered: number }>(
    'audit_remembered_orders',
    `SELECT count(*) AS orders, count(h.hold_id) AS remembered
     FROM orders o LEFT JOIN holds h ON h.event_no = $1 AND h.hold_id = o.hold_id
     WHERE o.event_no = $1 AND o.partition = $2 AND o.seats <> '{}'`,
    [event, partition],
  );
  return row ?? { orders: 0, remembered: 0 };
}

/** Published events: those that have seats to be audited. */
export function auditableEvents(
  db: Db,
): Promise<{ event: EventNo; id: EventId; currency: string; holdSeatsMax: number }[]> {
  return db.query(
    'audit_events',
    `SELECT event_no AS event, event_id AS id, currency, coalesce((settings ->> 'holdSeatsMax')::integer, 6) AS "holdSeatsMax"
     FROM events WHERE seat_count > 0 ORDER BY event_no`,
  );
}
