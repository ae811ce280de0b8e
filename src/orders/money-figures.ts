import type { EventNo } from '../core/hold.ts';
import type { OperationState, OrderState } from '../core/order.ts';
import type { Db } from '../postgres/db.ts';
import type { MoneyOperation } from './record.ts';

/**
 * Orders whose payment has an unknown outcome: a call whose response was lost, a reservation that is being cancelled, a sale
 * that is not captured yet. Counted by the operation that is under way, its state and its age.
 */
export interface AmbiguousOrders {
  kind: MoneyOperation['kind'];
  state: OperationState;
  /** The orders' state. */
  order: OrderState;
  orders: number;
  /** Orders among them with a contradiction. */
  attention: number;
  underMinute: number;
  underTenMinutes: number;
  underHour: number;
  older: number;
  /** Milliseconds since the oldest was begun. */
  oldestMs: number;
}

/** A call on its way, and a buyer at the bank, take this long. After it an order counts as ambiguous. Seconds. */
const quietSeconds = 30;

/**
 * For one event, or for all. Returns a few rows, whatever is under way, and reads only what is not settled. A refund that the
 * bank has accepted and not paid out yet is not counted: its end is known, only its day is not (`refundsAtBank`).
 */
export async function ambiguousOrders(db: Db, event: EventNo | null): Promise<AmbiguousOrders[]> {
  return db.query<AmbiguousOrders>(
    'money_ambiguous',
    `WITH open AS (
       SELECT m.kind, m.state, o.state AS order_state, m.order_id, m.attention,
              extract(epoch FROM clock_timestamp() - m.created_at) AS age
       FROM money_operations m JOIN orders o USING (order_id)
       WHERE m.due_at IS NOT NULL AND ($1::integer IS NULL OR o.event_no = $1)
         AND (m.state IN ('unknown','ending')
              OR (m.state IN ('open','done') AND m.created_at < clock_timestamp() - $2 * interval '1 second')
              OR (m.state = 'waiting' AND m.kind <> 'refund' AND o.payment_deadline < clock_timestamp())))
     SELECT kind, state, order_state AS "order", count(DISTINCT order_id)::integer AS orders,
            count(DISTINCT order_id) FILTER (WHERE attention IS NOT NULL)::integer AS attention,
            count(DISTINCT order_id) FILTER (WHERE age < 60)::integer AS "underMinute",
            count(DISTINCT order_id) FILTER (WHERE age >= 60 AND age < 600)::integer AS "underTenMinutes",
            count(DISTINCT order_id) FILTER (WHERE age >= 600 AND age < 3600)::integer AS "underHour",
            count(DISTINCT order_id) FILTER (WHERE age >= 3600)::integer AS older,
            (max(age) * 1000)::float8 AS "oldestMs"
     FROM open GROUP BY kind, state, order_state ORDER BY max(age) DESC`,
    [event, quietSeconds],
  );
}

/** Refunds that the provider accepted and the bank has not paid out yet: days are usual. `oldestMs`: since it was begun. */
export async function refundsAtBank(db: Db): Promise<{ refunds: number; oldestMs: number }> {
  const [row] = await db.query<{ refunds: number; oldestMs: number }>(
    'refunds_at_bank',
    `SELECT count(*)::integer AS refunds,
            coalesce(extract(epoch FROM clock_timestamp() - min(created_at)) * 1000, 0)::float8 AS "oldestMs"
     FROM money_operations WHERE due_at IS NOT NULL AND kind = 'refund' AND state = 'waiting'`,
    [],
  );
  return row!;
}

/** `ambiguous`: orders whose money has no known outcome yet. `refundsAtBank`: refunds that the bank has not paid out yet. */
export async function moneyUnderWay(db: Db): Promise<{ ambiguous: number; refundsAtBank: number }> {
  const [ambiguous, { refunds }] = await Promise.all([ambiguousOrders(db, null), refundsAtBank(db)]);
  return { ambiguous: ambiguous.reduce((sum, { orders }) => sum + orders, 0), refundsAtBank: refunds };
}
