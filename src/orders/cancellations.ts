import type { EventNo, OrderId } from '../core/hold.ts';
import type { Attention } from '../core/operator-list.ts';
import type { Db } from '../postgres/db.ts';
import { giveBack, type OperatorStep } from './operator-list.ts';
import type { DecidedSeat, MoneyOperation, OperationId, Order } from './record.ts';
import type { MakeRefundOutcome, RefundState } from './refunds.ts';

/** How an event is to be cancelled. */
export interface CancellationWish {
  reason: string;
  fees: 'returned' | 'kept';
  seats: 'release' | 'block';
  /** Orders a second, at most, over all workers. */
  perSecond: number;
}

/** The effect that cancelling would have now. Amounts in minor units. */
export interface CancellationPreview {
  /** Paid ones, with those whose capture is on its way. */
  orders: number;
  tickets: number;
  amount: number;
  currency: string;
  unpaidOrders: number;
}

type Counts = Partial<Record<RefundState, { refunds: number; amount: number }>>;

export interface Cancellation extends CancellationWish {
  eventNo: EventNo;
  actor: string;
  state: 'running' | 'done';
  /** Epoch ms. */
  startedAt: number;
  finishedAt: number | null;
  currency: string;
  /** Refunds that it made, by how they stand, minor units. */
  refunds: Counts;
  /** Refunds of the event that were made before. */
  earlier: Counts;
  /** Orders that were closed unpaid. */
  closed: number;
  /** Paid orders that it has not come to. */
  left: number;
  /** Unpaid orders whose payment is being ended. */
  ending: number;
  /** Payments that keep the run from ending, the oldest first; `waiting`: how many there are. */
  waitsFor: WaitingPayment[];
  waiting: number;
}

export interface WaitingPayment {
  order: OrderId;
  operation: OperationId;
  kind: MoneyOperation['kind'];
  state: MoneyOperation['state'];
  attention: Attention | null;
  /** Epoch ms. */
  since: number;
}

/** More are on the operator's list. */
const waitsMax = 20;

export type StartCancellationOutcome =
  /** `holds`: those that ended in the same step. */
  | { kind: 'started'; holds: number }
  /** It was cancelled before. */
  | { kind: 'already' }
  /** The code is wrong, too old, used, or was issued for another request or to another organiser. */
  | { kind: 'not_confirmed' }
  | { kind: 'not_published' };

export type NextOrders =
  /** Orders to be ended and failed refunds to be tried again, of an event in that currency. */
  | { kind: 'next'; orders: OrderId[]; retries: string[]; currency: string }
  | { kind: 'done' }
  /** Another worker is at it, or it does not run. */
  | { kind: 'not_mine' };

export type CancelledOrder =
  /** Refunded, or why not, such as another worker that was there first. */
  | MakeRefundOutcome
  | { kind: 'closed'; order: Order; seats: DecidedSeat[] }
  /** Its payment is being ended. */
  | { kind: 'ending' }
  /** A call is in flight, or nothing is left to do. */
  | { kind: 'left' };

/** The result for one order. */
export interface OrderOutcome {
  order: OrderId;
  account: string;
  tickets: number;
  outcome: RefundState | 'closed' | 'left';
  amount: number;
  refund: string | null;
  detail: string | null;
}

/** The cancelling of events in the record; each call is one step. */
export interface CancellationRecord {
  preview(event: EventNo, fees: CancellationWish['fees']): Promise<CancellationPreview>;
  /** Stores a code's hash with its request. It is valid for `ttlMs`. */
  ask(command: {
    event: EventNo;
    actor: string;
    codeHash: string;
    request: string;
    shown: CancellationPreview;
    ttlMs: number;
  }): Promise<void>;
  /** Closes the sale for good, ends the holds in Postgres and begins the run. */
  start(command: {
    event: EventNo;
    actor: string;
    codeHash: string;
    request: string;
    wish: CancellationWish;
  }): Promise<StartCancellationOutcome>;
  running(): Promise<EventNo[]>;
  next(event: EventNo, claim: { owner: string; leaseMs: number; most: number }): Promise<NextOrders>;
  cancelOrder(
    order: OrderId,
    ids: { refund: string; operation: OperationId; key: string; endKey: string },
    step: number,
  ): Promise<CancelledOrder>;
  find(event: EventNo): Promise<Cancellation | null>;
  /** Sales of the event of which another amount was captured: they are given back like all others. */
  capturedOtherwise(event: EventNo): Promise<{ operation: OperationId; actor: string }[]>;
  giveBack(operation: OperationId, actor: string, endKey: string): Promise<OperatorStep>;
  /** Retries all failed refunds of the event. Returns their number, or null if the event is not being cancelled. */
  retryFailed(event: EventNo, actor: string): Promise<number | null>;
  /** Order by order, by id, from the one after `after`. */
  outcomes(event: EventNo, after: OrderId | null, limit: number): Promise<OrderOutcome[]>;
}

interface Answer<Result> {
  result: Result;
}

export function createCancellationRecord({ db }: { db: Db }): CancellationRecord {
  const one = async <Result>(name: string, text: string, values: unknown[]): Promise<Result> => {
    const rows = await db.query<Answer<Result>>(name, text, values);
    return rows[0]?.result as Result;
  };
  return {
    preview: (event, fees) =>
      one('cancellation_preview', 'SELECT cancellation_preview($1, $2) AS result', [event, fees]),
    ask: async ({ event, actor, codeHash, request, shown, ttlMs }) => {
      await db.query(
        'confirmation_ask',
        `WITH tidied AS (DELETE FROM confirmations WHERE used_at IS NULL AND expires_at < clock_timestamp() - interval '1 day')
         INSERT INTO confirmations (code_hash, act, event_no, request, actor, shown, expires_at)
         VALUES ($1, 'cancel_event', $2, $3, $4, $5, clock_timestamp() + $6 * interval '1 millisecond')`,
        [codeHash, event, request, actor, JSON.stringify(shown), ttlMs],
      );
    },
    start: ({ event, actor, codeHash, request, wish }) =>
      one('event_cancel', 'SELECT event_cancel($1, $2, $3, $4, $5, $6, $7, $8) AS result', [
        event,
        actor,
        codeHash,
        request,
        wish.reason,
        wish.fees,
        wish.seats,
        wish.perSecond,
      ]),
    running: async () => {
      const rows = await db.query<{ event: EventNo }>(
        'cancellations_running',
        `SELECT event_no AS event FROM event_cancellations WHERE state = 'running' ORDER BY started_at`,
      );
      return rows.map(({ event }) => event);
    },
    next: (event, { owner, leaseMs, most }) =>
      one('cancellation_next', 'SELECT cancellation_next($1, $2, $3, $4) AS result', [
        event,
        owner,
        leaseMs,
        most,
      ]),
    cancelOrder: (order, ids, step) =>
      one('cancellation_order', 'SELECT cancellation_order($1, $2, $3, $4, $5, $6) AS result', [
        order,
        ids.refund,
        ids.operation,
        ids.key,
        ids.endKey,
        step,
      ]),
    find: (event) => findCancellation(db, event),
    giveBack: (operation, actor, endKey) => giveBack(db, operation, actor, endKey),
    capturedOtherwise: (event) =>
      db.query(
        'cancellation_captured_otherwise',
        `SELECT m.operation_id AS operation, c.actor FROM money_operations m JOIN orders o USING (order_id)
           JOIN event_cancellations c USING (event_no)
         WHERE o.event_no = $1 AND o.state = 'confirmed' AND m.attention = 'captured_amount' AND m.state = 'unknown'`,
        [event],
      ),
    retryFailed: (event, actor) =>
      one('cancellation_retry', 'SELECT cancellation_retry($1, $2) AS result', [event, actor]),
    outcomes: (event, after, limit) => outcomes(db, event, after, limit),
  };
}

async function findCancellation(db: Db, event: EventNo): Promise<Cancellation | null> {
  const rows = await db.query<Answer<Omit<Cancellation, 'waitsFor' | 'waiting'>>>(
    'cancellation_find',
    'SELECT cancellation_json(c) AS result FROM event_cancellations c WHERE event_no = $1',
    [event],
  );
  const found = rows[0]?.result;
  if (!found) return null;
  if (found.state === 'done') return { ...found, waitsFor: [], waiting: 0 };
  const waits = await db.query<WaitingPayment & { total: number }>(
    'cancellation_waits',
    'SELECT * FROM cancellation_waits($1, $2)',
    [event, waitsMax],
  );
  const waitsFor = waits.map(({ total: _total, ...one }) => one);
  return { ...found, waitsFor, waiting: waits[0]?.total ?? 0 };
}

/** Orders that had nothing to be refunded and were no part of it (closed before, never reserved) are left out. */
function outcomes(db: Db, event: EventNo, after: OrderId | null, limit: number): Promise<OrderOutcome[]> {
  return db.query<OrderOutcome>(
    'cancellation_outcomes',
    `SELECT o.order_id AS "order", o.account, coalesce(t.n, 0)::integer AS tickets, coalesce(r.amount, 0) AS amount,
       coalesce(r.state, CASE WHEN o.state = 'closed' THEN 'closed' ELSE 'left' END) AS outcome, r.refund_id AS refund, r.detail
     FROM orders o
       LEFT JOIN refunds r ON r.order_id = o.order_id AND r.cancellation
       LEFT JOIN LATERAL (SELECT count(*) AS n FROM refund_tickets t WHERE t.refund_id = r.refund_id) t ON true
     WHERE o.event_no = $1 AND ($2::uuid IS NULL OR o.order_id > $2)
       AND (r.refund_id IS NOT NULL OR o.reason = 'event_cancelled' OR o.state NOT IN ('closed','cancelled'))
     ORDER BY o.order_id LIMIT $3`,
    [event, after, limit],
  );
}
