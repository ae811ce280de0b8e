import type { EventId, EventNo, OrderId } from '../core/hold.ts';
import type { EntryAction, EntryKind } from '../core/operator-list.ts';
import type { OrderState } from '../core/order.ts';
import type { Db } from '../postgres/db.ts';
import type { DecidedSeat, MoneyOperation, OperationId, Order } from './record.ts';

/**
 * The statements of the operator's list (functions/operator-list.sql). Times are epoch ms, amounts minor units. What the
 * kinds mean and what can be done is in core/operator-list.ts.
 */

/** A row of the list. */
export interface ListedEntry {
  /** Names the entry: `operation-…`, `refund-…`, `event-…` or `finding-…`. */
  entry: string;
  kind: EntryKind;
  since: number;
  ageMs: number;
  operation: {
    operation: OperationId;
    kind: MoneyOperation['kind'];
    state: MoneyOperation['state'];
    attempts: number;
  } | null;
  refund: string | null;
  order: OrderId | null;
  orderState: OrderState | null;
  event: EventId | null;
  eventNo: EventNo | null;
  seats: number[];
  /** Amount of the operation, the refund or the order. */
  amount: number | null;
  currency: string | null;
  /** Last state that the provider reported. Null if it has reported none. */
  captured: number | null;
  refunded: number | null;
  /** The provider's id of the payment. */
  object: string | null;
  /** The provider's or the comparison's own words. */
  says: string | null;
}

const entryColumns = `
  l.entry, l.kind, l.since, (extract(epoch FROM clock_timestamp() - l.since) * 1000)::float8 AS "ageMs",
  CASE WHEN m.operation_id IS NOT NULL THEN jsonb_build_object('operation', m.operation_id, 'kind', m.kind, 'state', m.state,
    'attempts', m.attempts) END AS operation,
  l.refund_id AS refund, l.order_id AS "order", o.state AS "orderState", e.event_id AS event, o.event_no AS "eventNo",
  coalesce(o.seats, '{}') AS seats, coalesce(m.amount, r.amount, o.amount) AS amount, coalesce(o.currency, r.currency) AS currency,
  (m.answer #>> '{view,captured}')::bigint AS captured, (m.answer #>> '{view,refunded}')::bigint AS refunded, l.object,
  coalesce(l.says, m.answer ->> 'detail') AS says
  FROM operator_list l LEFT JOIN money_operations m USING (operation_id) LEFT JOIN refunds r ON r.refund_id = l.refund_id
    LEFT JOIN orders o ON o.order_id = l.order_id LEFT JOIN events e ON e.event_no = o.event_no`;

export interface ListPlace {
  since: number;
  entry: string;
}

/** Oldest first. `event` null: of all events, and what belongs to none. */
export function listEntries(
  db: Db,
  query: { event: EventNo | null; after: ListPlace | null; limit: number },
): Promise<ListedEntry[]> {
  const { event, after, limit } = query;
  return db.query<ListedEntry>(
    'operator_list',
    `SELECT ${entryColumns}
     WHERE ($1::integer IS NULL OR o.event_no = $1)
       AND ($2::float8 IS NULL OR (date_trunc('milliseconds', l.since), l.entry) > (to_timestamp($2::float8 / 1000), $3))
     ORDER BY date_trunc('milliseconds', l.since), l.entry LIMIT $4`,
    [event, after?.since ?? null, after?.entry ?? null, limit],
  );
}

export async function countEntries(db: Db, event: EventNo | null): Promise<number> {
  const [row] = await db.query<{ n: number }>(
    'operator_list_count',
    `SELECT count(*)::integer AS n FROM operator_list l LEFT JOIN orders o USING (order_id)
     WHERE $1::integer IS NULL OR o.event_no = $1`,
    [event],
  );
  return row!.n;
}

/** Returns null if the entry is not or no longer on the list. */
export async function findEntry(db: Db, entry: string): Promise<ListedEntry | null> {
  const rows = await db.query<ListedEntry>('operator_entry', `SELECT ${entryColumns} WHERE l.entry = $1`, [
    entry,
  ]);
  return rows[0] ?? null;
}

/** `busy`: a call to the provider is under way. `not_possible`: it is in another state by now. */
export type StepKind = 'done' | 'repeated' | 'busy' | 'not_possible';
export interface OperatorStep {
  kind: StepKind;
  order: Order;
  seats: DecidedSeat[];
}

async function step(db: Db, name: string, values: unknown[]): Promise<OperatorStep> {
  const places = values.map((_, i) => `$${i + 1}`).join(', ');
  const rows = await db.query<{ result: OperatorStep }>(name, `SELECT ${name}(${places}) AS result`, values);
  return rows[0]!.result;
}

export const giveBack = (
  db: Db,
  operation: OperationId,
  actor: string,
  endKey: string,
): Promise<OperatorStep> => step(db, 'operator_give_back', [operation, actor, endKey]);
export const acceptPayment = (
  db: Db,
  operation: OperationId,
  actor: string,
  note: string,
): Promise<OperatorStep> => step(db, 'operator_accept', [operation, actor, note]);
export const settlePayment = (
  db: Db,
  operation: OperationId,
  actor: string,
  note: string,
): Promise<OperatorStep> => step(db, 'operator_settle', [operation, actor, note]);
export const dismissPayment = (
  db: Db,
  operation: OperationId,
  actor: string,
  note: string,
): Promise<OperatorStep> => step(db, 'operator_dismiss', [operation, actor, note]);
/** The attempt of a refund that the provider has lost counts as failed. */
export const giveUpRefund = (db: Db, operation: OperationId, actor: string): Promise<OperatorStep> =>
  step(db, 'operator_give_up_refund', [operation, actor]);

/** The worker looks at the payment at once. */
export async function lookAgain(
  db: Db,
  at: { operation: OperationId | null; object: string | null; actor: string },
): Promise<void> {
  await db.query('operator_look', 'SELECT operator_look($1, $2, $3)', [at.operation, at.object, at.actor]);
}

/** Decides that the tickets of a finding's order are cancelled, and cancels them. Pays nothing. */
export async function cancelTicketsOfFinding(
  db: Db,
  command: { finding: number; refund: string; actor: string; note: string },
): Promise<
  { kind: 'done'; order: Order; seats: DecidedSeat[] } | { kind: 'repeated' | 'not_possible' | 'unknown' }
> {
  const { finding, refund, actor, note } = command;
  const rows = await db.query<{ result: Awaited<ReturnType<typeof cancelTicketsOfFinding>> }>(
    'finding_cancel_tickets',
    'SELECT finding_cancel_tickets($1, $2, $3, $4) AS result',
    [finding, refund, actor, note],
  );
  return rows[0]!.result;
}

export async function dismissEvents(
  db: Db,
  object: string,
  actor: string,
  note: string,
): Promise<Exclude<StepKind, 'busy'>> {
  const rows = await db.query<{ result: Exclude<StepKind, 'busy'> }>(
    'operator_dismiss_events',
    'SELECT operator_dismiss_events($1, $2, $3) AS result',
    [object, actor, note],
  );
  return rows[0]!.result;
}

/** Returns the refund that an operation is an attempt of. Null if it is not one. */
export async function refundOfOperation(db: Db, operation: OperationId): Promise<string | null> {
  const rows = await db.query<{ refund: string | null }>(
    'operator_refund',
    'SELECT refund_id AS refund FROM money_operations WHERE operation_id = $1',
    [operation],
  );
  return rows[0]?.refund ?? null;
}

/**
 * Returns the action that ended an entry which is no longer on the list, or `other` if the worker or an
 * action elsewhere ended it. Null if there was no such entry.
 */
export async function endOfEntry(db: Db, entry: string): Promise<EntryAction | 'other' | null> {
  const at = entry.indexOf('-');
  const [source, id] = [entry.slice(0, at), entry.slice(at + 1)];
  const rows = await db.query<{ ended: EntryAction | 'other' }>(
    'operator_entry_end',
    `SELECT coalesce(decision ->> 'action', 'other') AS ended FROM money_operations
       WHERE $1 = 'operation' AND operation_id = CASE WHEN $1 = 'operation' THEN $2::text::uuid END
     UNION ALL SELECT CASE WHEN state = 'elsewhere' THEN 'settle'
                   WHEN (SELECT count(*) FROM money_operations m WHERE m.refund_id = r.refund_id) > 1 THEN 'retry'
                   ELSE 'other' END FROM refunds r
       WHERE $1 = 'refund' AND refund_id = CASE WHEN $1 = 'refund' THEN $2::text::uuid END
     UNION ALL SELECT coalesce(decision ->> 'action', 'other') FROM reconcile_findings
       WHERE $1 = 'finding' AND finding_id = CASE WHEN $1 = 'finding' THEN $2::text::bigint END
     UNION ALL (SELECT CASE note WHEN 'dismissed' THEN 'dismiss' ELSE 'other' END FROM provider_events
       WHERE $1 = 'event' AND object = $2::text LIMIT 1)`,
    [source, id],
  );
  return rows[0]?.ended ?? null;
}
