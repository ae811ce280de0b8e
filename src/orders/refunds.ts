import type { EventNo, OrderId } from '../core/hold.ts';
import type { PaidTicket, RefundWish } from '../core/money-due.ts';
import type { Attention } from '../core/operator-list.ts';
import type { RefundView } from '../payments/provider.ts';
import type { Db } from '../postgres/db.ts';
import type { Claim, DecidedSeat, MoneyOperation, OperationId, Order } from './record.ts';

export const refundStates = ['open', 'unknown', 'pending', 'done', 'failed', 'elsewhere'] as const;
/**
 * The state of a refund's last attempt. `unknown`: the outcome is not known yet. `pending`: accepted, the provider or the bank
 * works on it. `failed`: the money is still owed, another attempt may be made. `elsewhere`: given back by other means.
 */
export type RefundState = (typeof refundStates)[number];

export interface Refund {
  refund: string;
  order: OrderId;
  eventNo: EventNo;
  /** Made by the cancellation of the event. */
  cancellation: boolean;
  actor: string;
  reason: string;
  /** Minor units of `currency`; see core/money-due.ts. */
  feesKept: number;
  orderFee: number;
  goodwill: number;
  amount: number;
  currency: string;
  state: RefundState;
  /** Why it waits or failed, in the provider's words; how it was given back elsewhere. */
  detail: string | null;
  /** Tickets that it cancelled. */
  tickets: string[];
  attempts: number;
  /** Epoch ms. */
  createdAt: number;
  updatedAt: number;
}

export interface MakeRefundCommand extends RefundWish {
  refund: string;
  order: OrderId;
  operation: OperationId;
  key: string;
  /** The organiser's Idempotency-Key and the hash of what came with it: unique per order. */
  requestKey: string;
  request: string;
  actor: string;
  reason: string;
  /** The new state of the seats: free for the next buyer, or blocked with `reason`. */
  seats: 'release' | 'block';
  /** `stepOf` the order's currency. */
  step: number;
}

export type MakeRefundOutcome =
  /** `operation`: the first attempt, claimed by the caller. Null if nothing has to be paid. */
  | { kind: 'made'; order: Order; refund: Refund; operation: MoneyOperation | null; seats: DecidedSeat[] }
  | { kind: 'repeated'; order: Order; refund: Refund; seats: DecidedSeat[] }
  /** The same key came with another wish. */
  | { kind: 'mismatch' }
  | { kind: 'unknown_order' }
  | { kind: 'not_paid'; order: Order }
  | { kind: 'not_valid'; tickets: string[] }
  | { kind: 'too_much'; amount: number; most: number }
  | { kind: 'nothing' };

/** Why a failed refund is not tried again, for operators. */
export const goneBack =
  'The provider shows a refund that was made there, so this money may be back with the buyer. Nothing was paid. Settle this refund as paid by other means.';

export type RetryRefundOutcome =
  | { kind: 'retried'; order: Order; refund: Refund; operation: MoneyOperation }
  /** Not failed: under way, done, or given back elsewhere. */
  | { kind: 'decided'; order: Order; refund: Refund }
  /** The provider shows a refund that we did not make, which may be what replaces this one: nothing is paid twice. */
  | { kind: 'gone_back'; order: Order; refund: Refund }
  | { kind: 'unknown_refund' };

/** The current result of an attempt. */
export interface SettleRefundCommand {
  operation: OperationId;
  state: 'unknown' | 'waiting' | 'done' | 'refused';
  /** When to look again; for `unknown` and `waiting`. */
  dueMs?: number;
  view?: RefundView;
  detail?: string;
  attention?: Attention;
  /** Replaces a key that cannot be sent again. */
  newKey?: string;
}

export interface RefundStanding {
  order: Order;
  refund: Refund;
  operation: MoneyOperation;
}

/**
 * Refunds in the record. Each operation is ONE atomic step, conditional on the state that it leaves: a repeat, or a late or
 * lost response, changes nothing. With `claim` null the attempt is due at once for any process.
 */
export interface RefundRecord {
  /** Decides a refund with the tickets that it cancels, and writes its first attempt (P5). Only of a paid order. */
  make(command: MakeRefundCommand, claim: Claim | null): Promise<MakeRefundOutcome>;
  /** A further attempt of one that failed, with a key of its own. */
  retry(
    command: { refund: string; operation: OperationId; key: string; actor: string | null },
    claim: Claim | null,
  ): Promise<RetryRefundOutcome>;
  /** A failed one was given back by other means: nothing more is owed. */
  elsewhere(
    refund: string,
    actor: string,
    note: string,
  ): Promise<
    | { kind: 'elsewhere'; order: Order; refund: Refund }
    | { kind: 'decided'; order: Order; refund: Refund }
    | { kind: 'unknown_refund' }
  >;
  /**
   * Stores the result of an attempt. `done` may become `refused` (the bank sent the money back) and `refused` `done`, but not
   * while another attempt is under way or done: that goes to the operator's list as `refunded_twice`.
   */
  settle(command: SettleRefundCommand): Promise<RefundStanding>;
  /** The refund that an operation is an attempt of, and the others of its attempts, oldest first. */
  attemptOf(operation: OperationId): Promise<{ refund: Refund; others: MoneyOperation[] } | null>;
  /** Orders of up to `limit` refunds that succeeded and are to be looked at again by now; `checked`: it was done. */
  dueChecks(limit: number): Promise<OrderId[]>;
  checked(order: OrderId): Promise<void>;
  /** Returns the captured amount of the order, minor units: its price, unless an operator accepted less. */
  taken(order: OrderId): Promise<number>;
  /** Returns how much of what went back at the provider settled refunds stand for, minor units (`order_settled_there`). */
  settledThere(order: OrderId): Promise<number>;
  /** Money that was taken for the order without a sale and given back, oldest first; `at`: when that was known, epoch ms. */
  returned(order: OrderId): Promise<MoneyReturned[]>;
  find(refund: string): Promise<Refund | null>;
  ofOrder(order: OrderId): Promise<Refund[]>;
  /**
   * Newest first; `before`: only those made before that instant, epoch ms. More than `limit` when others were made in the same
   * millisecond as the last one, so that a next page with its `createdAt` misses none.
   */
  list(
    event: EventNo,
    filter: { states?: readonly RefundState[]; limit: number; before?: number },
  ): Promise<Refund[]>;
  /** An order's tickets that were sold to it, by seat: what was paid for, and whether it is still valid. */
  paidTickets(event: EventNo, order: OrderId): Promise<(PaidTicket & { seat: number })[]>;
  /** Orders of an account (its e-mail address, normalised), newest first. */
  ordersOf(event: EventNo, account: string, limit: number): Promise<Order[]>;
}

export interface MoneyReturned {
  amount: number;
  at: number;
  /** The provider's id of the payment. */
  object: string;
}

interface Answer<Result> {
  result: Result;
}

export function createRefundRecord({ db }: { db: Db }): RefundRecord {
  const one = async <Result>(name: string, text: string, values: unknown[]): Promise<Result> => {
    const rows = await db.query<Answer<Result>>(name, text, values);
    return rows[0]!.result;
  };
  return {
    make: (command, claim) => makeRefund(one, command, claim),
    retry: ({ refund, operation, key, actor }, claim) =>
      one('refund_retry', 'SELECT refund_retry($1, $2, $3, $4, $5, $6) AS result', [
        refund,
        operation,
        key,
        actor,
        claim?.owner ?? null,
        claim?.leaseMs ?? 0,
      ]),
    elsewhere: (refund, actor, note) =>
      one('refund_elsewhere', 'SELECT refund_elsewhere($1, $2, $3) AS result', [refund, actor, note]),
    settle: (command) =>
      one('refund_settle', 'SELECT refund_settle($1, $2, $3, $4, $5, $6, $7) AS result', [
        command.operation,
        command.state,
        command.dueMs ?? null,
        command.view ? JSON.stringify({ refund: command.view }) : null,
        command.detail ?? null,
        command.attention ?? null,
        command.newKey ?? null,
      ]),
    attemptOf: (operation) => attemptOf(db, operation),
    dueChecks: async (limit) => {
      const rows = await db.query<{ order: OrderId }>(
        'refund_checks_claim',
        'SELECT c AS "order" FROM refund_checks_claim($1) c',
        [limit],
      );
      return rows.map(({ order }) => order);
    },
    checked: async (order) => {
      await db.query('refund_checked', 'SELECT refund_checked($1)', [order]);
    },
    taken: (order) =>
      one('order_taken', 'SELECT order_taken(o) AS result FROM orders o WHERE order_id = $1', [order]),
    settledThere: (order) => one('order_settled_there', 'SELECT order_settled_there($1) AS result', [order]),
    returned: (order) =>
      db.query(
        'money_returned',
        `SELECT max((answer #>> '{view,captured}')::bigint)::float8 AS amount, max(updated_at) AS at, provider_object AS object
         FROM money_operations WHERE order_id = $1 AND state = 'voided' AND (answer #>> '{view,captured}')::bigint > 0
           AND coalesce(decision ->> 'action', '') <> 'settle'
         GROUP BY provider_object ORDER BY 2`,
        [order],
      ),
    find: async (refund) => (await select(db, 'refund_find', 'WHERE refund_id = $1', [refund]))[0] ?? null,
    ofOrder: (order) =>
      select(db, 'refunds_of_order', 'WHERE order_id = $1 ORDER BY created_at, refund_id', [order]),
    list: (event, { states, limit, before }) =>
      select(
        db,
        'refunds_list',
        `WHERE event_no = $1 AND ($2::text[] IS NULL OR state = ANY ($2))
           AND ($4::float8 IS NULL OR created_at < to_timestamp($4 / 1000))
         ORDER BY date_trunc('milliseconds', created_at) DESC FETCH FIRST $3 ROWS WITH TIES`,
        [event, states ? [...states] : null, limit, before ?? null],
      ),
    paidTickets: (event, order) =>
      db.query(
        'refund_tickets_of_order',
        `SELECT ticket_id AS ticket, seat_no AS seat, price, fee, status = 'sold' AS valid FROM tickets
         WHERE event_no = $1 AND order_id = $2 AND (status = 'sold' OR revoked_at IS NOT NULL) ORDER BY seat_no, created_at`,
        [event, order],
      ),
    ordersOf: async (event, account, limit) => {
      const rows = await db.query<Answer<Order>>(
        'orders_of_account',
        `SELECT order_json(o) AS result FROM orders o
         WHERE event_no = $1 AND account = $2 ORDER BY created_at DESC LIMIT $3`,
        [event, account, limit],
      );
      return rows.map(({ result }) => result);
    },
  };
}

function makeRefund(
  one: <Result>(name: string, text: string, values: unknown[]) => Promise<Result>,
  command: MakeRefundCommand,
  claim: Claim | null,
): Promise<MakeRefundOutcome> {
  return one(
    'refund_make',
    `SELECT refund_make($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, false, $14, $15, $16) AS result`,
    [
      command.refund,
      command.order,
      command.operation,
      command.key,
      command.requestKey,
      command.request,
      command.actor,
      command.reason,
      command.tickets === 'all' ? null : [...command.tickets],
      command.fees,
      command.goodwill,
      command.seats,
      command.step,
      claim?.owner ?? null,
      claim?.leaseMs ?? 0,
      command.pays ?? true,
    ],
  );
}

async function attemptOf(
  db: Db,
  operation: OperationId,
): Promise<{ refund: Refund; others: MoneyOperation[] } | null> {
  const rows = await db.query<{ refund: Refund; others: MoneyOperation[] }>(
    'refund_attempt_of',
    `SELECT refund_json(r) AS refund,
       (SELECT coalesce(jsonb_agg(operation_json(other) ORDER BY other.created_at), '[]') FROM money_operations other
        WHERE other.refund_id = m.refund_id AND other.operation_id <> m.operation_id) AS others
     FROM money_operations m JOIN refunds r USING (refund_id) WHERE m.operation_id = $1`,
    [operation],
  );
  return rows[0] ?? null;
}

async function select(db: Db, name: string, where: string, values: unknown[]): Promise<Refund[]> {
  const rows = await db.query<Answer<Refund>>(
    name,
    `SELECT refund_json(r) AS result FROM refunds r ${where}`,
    values,
  );
  return rows.map(({ result }) => result);
}

/** Tickets whose codes are not valid any more, oldest first; for scanners that are offline. Times are epoch ms. */
export function revokedTickets(db: Db, event: EventNo): Promise<{ ticket: string; revokedAt: number }[]> {
  return db.query('revoked_tickets', 'SELECT ticket, revoked_at AS "revokedAt" FROM revoked_tickets($1)', [
    event,
  ]);
}
