import { type EventNo, type Hold, holdLimits, type OrderId, type Visitor } from '../core/hold.ts';
import type { OrderEnd } from '../core/order.ts';
import { assert } from '../core/outcome.ts';
import type { Db } from '../postgres/db.ts';
import type {
  Claim,
  ConfirmOutcome,
  Order,
  RecordCloseOutcome,
  ReserveCommand,
  ReserveOutcome,
  SalesRecord,
} from './record.ts';

/** The statements of orders; the steps are in functions/orders.sql. */

interface Answer<Result> {
  result: Result;
}

/** The part of the record (record.ts: SalesRecord) that this file holds. */
export function orderStatements(db: Db) {
  return {
    async reserve(command: ReserveCommand): Promise<ReserveOutcome> {
      assert(command.lines.length > 0 && command.lines.length <= holdLimits.seatsMax, 'an order has seats');
      const { accessCode = null } = command;
      const values = [
        command.order,
        command.hold,
        command.event,
        command.partition,
        command.epoch,
        command.deadline,
        command.visitor,
        command.holder,
        command.account,
        JSON.stringify(command.buyer),
        JSON.stringify(command.lines),
        command.orderFee,
        command.currency,
      ];
      const rows =
        accessCode === null
          ? await db.query<Answer<ReserveOutcome>>(
              'order_reserve',
              'SELECT order_reserve($1, $2, $3, $4, $5, to_timestamp($6::float8 / 1000), $7, $8, $9, $10, $11, $12, $13) AS result',
              values,
              command.event,
            )
          : await db.query<Answer<ReserveOutcome>>(
              'order_reserve_with_code',
              'SELECT order_reserve_with_code($14, $1, $2, $3, $4, $5, to_timestamp($6::float8 / 1000), $7, $8, $9, $10, $11, $12, $13) AS result',
              [...values, accessCode],
              command.event,
            );
      return rows[0]!.result;
    },
    async abandon(hold: Hold, order: OrderId): ReturnType<SalesRecord['abandon']> {
      const rows = await db.query<Answer<Awaited<ReturnType<SalesRecord['abandon']>>>>(
        'order_abandon',
        'SELECT order_abandon($1, $2, $3, $4, $5, $6) AS result',
        [order, hold.hold, hold.event, hold.partition, hold.visitor, hold.holder],
        hold.event,
      );
      return rows[0]!.result;
    },
    async findOrder(order: OrderId): Promise<Order | null> {
      const rows = await db.query<Answer<Order>>(
        'order_find',
        'SELECT order_json(o) AS result FROM orders o WHERE order_id = $1',
        [order],
      );
      return rows[0]?.result ?? null;
    },
    async isOverdue(order: OrderId): Promise<boolean> {
      const rows = await db.query<{ overdue: boolean }>(
        'order_is_overdue',
        'SELECT payment_deadline <= clock_timestamp() AS overdue FROM orders WHERE order_id = $1',
        [order],
      );
      return rows[0]?.overdue ?? false;
    },
    async findOpenOrder(event: EventNo, visitor: Visitor): Promise<Order | null> {
      const rows = await db.query<Answer<Order>>(
        'order_find_open',
        `SELECT order_json(o) AS result FROM orders o
     WHERE event_no = $1 AND visitor = $2 AND state IN ('reserved','authorised')`,
        [event, visitor],
        event,
      );
      return rows[0]?.result ?? null;
    },
    async confirm(
      order: OrderId,
      ids: { capture: string; captureKey: string; endKey: string },
      claim: Claim,
    ): Promise<ConfirmOutcome> {
      const rows = await db.query<Answer<ConfirmOutcome>>(
        'order_confirm',
        'SELECT order_confirm($1, $2, $3, $4, $5, $6) AS result',
        [order, ids.capture, ids.captureKey, ids.endKey, claim.owner, claim.leaseMs],
      );
      return rows[0]!.result;
    },
    async close(order: OrderId, reason: OrderEnd, endKey: string, claim: Claim): Promise<RecordCloseOutcome> {
      const rows = await db.query<Answer<RecordCloseOutcome>>(
        'order_close',
        'SELECT order_close($1, $2, $3, $4, $5) AS result',
        [order, reason, endKey, claim.owner, claim.leaseMs],
      );
      return rows[0]!.result;
    },
    /** Unpaid orders past their deadline with no money operation under way, oldest first. */
    async overdue(limit: number): Promise<OrderId[]> {
      const rows = await db.query<{ order_id: OrderId }>(
        'order_overdue',
        `SELECT order_id FROM orders o
     WHERE state = 'reserved' AND payment_deadline <= clock_timestamp()
       AND NOT EXISTS (SELECT 1 FROM money_operations m
                       WHERE m.order_id = o.order_id AND m.state IN ('open','waiting','unknown','ending'))
     ORDER BY payment_deadline LIMIT $1`,
        [limit],
      );
      return rows.map((row) => row.order_id);
    },
  } satisfies Partial<SalesRecord>;
}

/** The purchase's timeline, for support and tests. */
export async function orderHistory(
  db: Db,
  order: OrderId,
): Promise<{ at: number; change: string; from: string | null; to: string | null; detail: unknown }[]> {
  return db.query(
    'order_history',
    `SELECT at, change, from_state AS "from", to_state AS "to", detail FROM order_history
     WHERE order_id = $1 ORDER BY at`,
    [order],
  );
}
