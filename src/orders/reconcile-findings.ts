import type { EventId, OrderId } from '../core/hold.ts';
import { type FindingKind, reversalFindings } from '../core/operator-list.ts';
import type { OrderState } from '../core/order.ts';
import type { Db } from '../postgres/db.ts';

/**
 * The data of the record that is compared with the payment provider, and the stored findings. The steps are in
 * functions/provider.sql. Times are epoch ms, amounts minor units.
 */

export type { FindingKind };

/** One thing that does not fit, as it was seen. */
export interface Misfit {
  kind: FindingKind;
  /** The provider's object; the order where there is none. */
  subject: string;
  order: OrderId | null;
  object: string | null;
  /** A sentence for the operator. */
  says: string;
  detail: Record<string, unknown>;
}

export interface Finding extends Misfit {
  finding: number;
  firstSeenAt: number;
  lastSeenAt: number;
  settledAt: number | null;
  /** An operator, or `reconcile` when it fits by now. */
  settledBy: string | null;
  note: string | null;
}

/** The record's side of an order's payments. */
export interface OrderMoney {
  order: OrderId;
  event: EventId;
  state: OrderState;
  amount: number;
  currency: string;
  /** A money operation is at work, or an authorisation waits to be confirmed: the saga's own reconciler has it. */
  underWay: boolean;
  /** Keyed by the provider's object: every one that the order knows. */
  payments: { object: string; captured: number; refunded: number }[];
}

export type RunStep = 'theirs' | 'ours' | 'again' | 'done';

export interface ReconcileRun {
  run: string;
  scheduled: boolean;
  from: number;
  to: number;
  step: RunStep;
  cursor: string | null;
  counts: Record<string, number>;
  startedAt: number;
  finishedAt: number | null;
}

/** Lease of a run: after this long without a new page another process may take it over. */
export const runLeaseMs = 120_000;

/** Claims the scheduled run that is due. Null if none is due, or another process works on it. */
export async function dueRun(
  db: Db,
  owner: string,
  when: { everyMs: number; backMs: number; youngMs: number },
): Promise<ReconcileRun | null> {
  const rows = await db.query<{ run: ReconcileRun | null }>(
    'reconcile_run_due',
    'SELECT reconcile_run_due($1, $2, $3, $4, $5) AS run',
    [owner, when.everyMs, when.backMs, when.youngMs, runLeaseMs],
  );
  return rows[0]?.run ?? null;
}

/** A run on demand. */
export async function startRun(
  db: Db,
  owner: string,
  window: { from: number; to: number },
): Promise<ReconcileRun> {
  const rows = await db.query<{ run: ReconcileRun }>(
    'reconcile_run_start',
    `INSERT INTO reconcile_runs AS r (scheduled, from_at, to_at, owner, claimed_until)
     VALUES (false, to_timestamp($2::float8 / 1000), to_timestamp($3::float8 / 1000), $1, clock_timestamp() + interval '1 day')
     RETURNING reconcile_run_json(r) AS run`,
    [owner, window.from, window.to],
  );
  return rows[0]!.run;
}

export interface RunPage {
  step: RunStep;
  cursor: string | null;
  /** Objects seen at the provider on this page. */
  seen: readonly string[];
  counts: Record<string, number>;
  found: readonly Misfit[];
  /** Subjects that were looked at and fit: what was said of them is settled. */
  fitting: readonly string[];
}

/** Stores the result of a page and the place to continue. Null if the run belongs to another process by now. */
export async function advanceRun(
  db: Db,
  owner: string,
  run: ReconcileRun,
  page: RunPage,
): Promise<ReconcileRun | null> {
  const rows = await db.query<{ run: ReconcileRun | null }>(
    'reconcile_run_advance',
    'SELECT reconcile_run_advance($1, $2, $3, $4, $5, $6, $7, $8, $9) AS run',
    [
      run.run,
      owner,
      page.step,
      page.cursor,
      page.seen,
      JSON.stringify(page.counts),
      JSON.stringify(page.found),
      page.fitting,
      runLeaseMs,
    ],
  );
  return rows[0]?.run ?? null;
}

export async function lastRun(db: Db): Promise<ReconcileRun | null> {
  const rows = await db.query<{ run: ReconcileRun }>(
    'reconcile_run_last',
    `SELECT reconcile_run_json(r) AS run FROM reconcile_runs r WHERE step = 'done' ORDER BY started_at DESC LIMIT 1`,
  );
  return rows[0]?.run ?? null;
}

/** Money that was taken without a sale is given back when its operation ends: the last response has both sums. */
const orderMoney = `
  SELECT o.order_id AS "order", e.event_id AS event, o.state, o.amount::float8 AS amount, o.currency,
         coalesce(m.under_way, false) AS "underWay", coalesce(m.payments, '[]') AS payments
  FROM orders o JOIN events e USING (event_no) LEFT JOIN LATERAL (
    SELECT bool_or(one.under_way) AS under_way,
           jsonb_agg(jsonb_build_object('object', one.object, 'captured', one.captured, 'refunded', one.refunded))
             FILTER (WHERE one.object IS NOT NULL) AS payments
    FROM (
      SELECT provider_object AS object,
             coalesce(sum(amount) FILTER (WHERE kind = 'capture' AND state = 'done'), 0)
               + coalesce(max((answer #>> '{view,captured}')::bigint) FILTER (WHERE state = 'voided'), 0) AS captured,
             coalesce(sum(amount) FILTER (WHERE kind = 'refund' AND state = 'done'), 0)
               + (SELECT coalesce(sum(v.taken), 0) FROM reversals v WHERE v.object = provider_object AND v.kind = 'refund'
                    AND v.order_id = o.order_id)
               + coalesce(max((answer #>> '{view,refunded}')::bigint) FILTER (WHERE state = 'voided'), 0) AS refunded,
             bool_or(state IN ('open','waiting','unknown','ending') OR (kind = 'authorise' AND state = 'done' AND due_at IS NOT NULL))
               AS under_way
      FROM money_operations WHERE order_id = o.order_id GROUP BY provider_object) one) m ON true`;

/** The money of those orders, by order; names that are no order's are left out. */
export async function moneyOfOrders(db: Db, orders: readonly string[]): Promise<Map<OrderId, OrderMoney>> {
  const uuids = orders.filter((name) => uuidForm.test(name));
  if (uuids.length === 0) return new Map();
  const rows = await db.query<OrderMoney>(
    'reconcile_orders',
    `${orderMoney} WHERE o.order_id = ANY ($1::uuid[])`,
    [uuids],
  );
  return new Map(rows.map((row) => [row.order, row]));
}

/** Returns the money of the order that has this object. Null if none has it. */
export async function moneyOfObject(db: Db, object: string): Promise<OrderMoney | null> {
  const rows = await db.query<OrderMoney>(
    'reconcile_order_of_object',
    `${orderMoney} WHERE o.order_id = (SELECT order_id FROM money_operations WHERE provider_object = $1 LIMIT 1)`,
    [object],
  );
  return rows[0] ?? null;
}

const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export interface OpenedPayment {
  order: OrderId;
  /** Null if the call never got a response. */
  object: string | null;
  seen: boolean;
  /** Where the next page begins. */
  place: string;
}

/** Payments that we opened in the run's window, oldest first, with whether the run saw them at the provider. */
export async function openedPayments(
  db: Db,
  run: ReconcileRun,
  after: string | null,
  limit: number,
): Promise<OpenedPayment[]> {
  return db.query<OpenedPayment>(
    'reconcile_opened',
    `SELECT m.order_id AS "order", m.provider_object AS object, s.object IS NOT NULL AS seen,
            m.created_at::text || ' ' || m.operation_id AS place
     FROM money_operations m LEFT JOIN reconcile_seen s ON s.run_id = $1 AND s.object = m.provider_object
     WHERE m.kind = 'open' AND m.created_at >= to_timestamp($2::float8 / 1000) AND m.created_at <= to_timestamp($3::float8 / 1000)
       AND ($4::text IS NULL OR (m.created_at, m.operation_id) >
            (left($4, length($4) - 37)::timestamptz, right($4, 36)::uuid))
     ORDER BY m.created_at, m.operation_id LIMIT $5`,
    [run.run, run.from, run.to, after, limit],
  );
}

/** Orders of the window that are sold although no capture was ever written for them. */
export async function soldUnpaid(db: Db, run: ReconcileRun, limit: number): Promise<OrderMoney[]> {
  return db.query<OrderMoney>(
    'reconcile_unpaid',
    `${orderMoney}
     WHERE o.created_at >= to_timestamp($1::float8 / 1000) AND o.created_at <= to_timestamp($2::float8 / 1000)
       AND o.state IN ('confirmed','paid') AND o.amount > 0
       AND NOT EXISTS (SELECT 1 FROM money_operations c WHERE c.order_id = o.order_id AND c.kind = 'capture')
     ORDER BY o.created_at LIMIT $3`,
    [run.from, run.to, limit],
  );
}

const findingColumns = `finding_id AS finding, kind, subject, order_id AS "order", object, says, detail,
  first_seen_at AS "firstSeenAt", last_seen_at AS "lastSeenAt", settled_at AS "settledAt", settled_by AS "settledBy", note`;

/** Returns the findings on the list, oldest first. */
export async function openFindings(db: Db, limit: number): Promise<Finding[]> {
  return db.query<Finding>(
    'reconcile_findings_open',
    `SELECT ${findingColumns} FROM reconcile_findings WHERE settled_at IS NULL ORDER BY finding_id LIMIT $1`,
    [limit],
  );
}

/** Returns the findings that were taken off it, newest first. */
export async function settledFindings(db: Db, limit: number): Promise<Finding[]> {
  return db.query<Finding>(
    'reconcile_findings_settled',
    `SELECT ${findingColumns} FROM reconcile_findings WHERE settled_at IS NOT NULL ORDER BY settled_at DESC LIMIT $1`,
    [limit],
  );
}

/** Open ones that the run has not come by, beyond a place: its last step looks at them again. */
export async function unvisitedFindings(
  db: Db,
  run: ReconcileRun,
  after: number,
  limit: number,
): Promise<Finding[]> {
  return db.query<Finding>(
    'reconcile_findings_unvisited',
    `SELECT ${findingColumns} FROM reconcile_findings
     WHERE settled_at IS NULL AND last_seen_at < to_timestamp($1::float8 / 1000) AND finding_id > $2 AND NOT kind = ANY ($4)
     ORDER BY finding_id LIMIT $3`,
    [run.startedAt, after, limit, reversalFindings],
  );
}

/** Takes a finding off the list. `not_possible`: another decision was taken before, or the worker has ended it. */
export async function settleFinding(
  db: Db,
  command: { finding: number; actor: string; note: string },
): Promise<'done' | 'repeated' | 'not_possible' | 'unknown'> {
  const rows = await db.query<{ result: 'done' | 'repeated' | 'not_possible' | 'unknown' }>(
    'finding_dismiss',
    `SELECT finding_decide($1, 'dismiss', $2, $3) AS result`,
    [command.finding, command.actor, command.note],
  );
  return rows[0]!.result;
}
