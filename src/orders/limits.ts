import type { EventNo, OrderId, Visitor } from '../core/hold.ts';
import type { EventLimits } from '../core/limits.ts';
import type { Db } from '../postgres/db.ts';

/** Limits of purchases (P7) and their exceptions; the steps are in functions/limits.sql. */

/** Seats that count against an account's limit: bought ones, and those of its orders that are not paid yet (P7). */
export async function accountSeats(
  db: Db,
  event: EventNo,
  account: string,
): Promise<{ bought: number; open: number }> {
  const rows = await db.query<{ bought: number; open: number }>(
    'limit_account_seats',
    `SELECT coalesce((SELECT seats FROM limit_counts
                      WHERE event_no = $1 AND kind = 'account' AND subject = $2), 0) AS bought,
            coalesce((SELECT sum(cardinality(seats)) FROM orders
                      WHERE event_no = $1 AND account = $2 AND state IN ('reserved','authorised')), 0)::integer AS open`,
    [event, account],
  );
  return rows[0]!;
}

export type LimitsOutcome =
  | { kind: 'changed'; limits: EventLimits }
  /** They are no longer those that were to be replaced: nothing was done. */
  | { kind: 'conflict'; limits: EventLimits }
  | { kind: 'unknown' };

/**
 * Changes an event's limits; absent members of `limits` stay. Orders that wait to be paid are decided by the new ones when
 * they are confirmed; what is bought stays bought.
 */
export async function changeLimits(
  db: Db,
  command: { event: EventNo; actor: string; replaces: EventLimits; limits: Partial<EventLimits> },
): Promise<LimitsOutcome> {
  const rows = await db.query<{ result: LimitsOutcome }>(
    'limits_change',
    'SELECT limits_change($1, $2, $3, $4) AS result',
    [command.event, command.actor, JSON.stringify(command.replaces), JSON.stringify(command.limits)],
  );
  return rows[0]!.result;
}

/** An organiser's exception for one buyer. Times are epoch ms. */
export interface Allowance {
  allowance: string;
  account: string | null;
  visitor: Visitor | null;
  /** The order that named the buyer. */
  order: OrderId | null;
  reason: string;
  actor: string;
  createdAt: number;
  /** Null means until it is ended. */
  until: number | null;
  endedAt: number | null;
  endedBy: string | null;
  inForce: boolean;
}

/** The counts against a buyer's limits, to explain why the buyer was refused. */
export interface BuyerStanding {
  reference: string;
  /** Seats of paid and confirmed orders, refunded ones left out; of orders that are not paid yet. */
  bought: number;
  unpaid: number;
  /** Holds that ended unpaid one after the other, and epoch ms until which no new one is granted. */
  unpaidHolds: number;
  coolingUntil: number | null;
  excepted: boolean;
  /** Newest first. */
  orders: { order: OrderId; state: string; reason: string | null; seats: number; createdAt: number }[];
}

const ordersOfStanding = 20;

/** `reference`: of a browser, or the account that its platform proved, as refusals show it. */
export async function findBuyer(db: Db, event: EventNo, reference: string): Promise<BuyerStanding> {
  const [row] = await db.query<{ result: BuyerStanding }>(
    'limits_find',
    `WITH mine AS MATERIALIZED (
    SELECT o.*, (SELECT count(*) FROM tickets t WHERE t.event_no = $1 AND t.order_id = o.order_id AND t.status <> 'cancelled') AS n
    FROM orders o WHERE event_no = $1 AND (visitor = $2 OR holder = $2))
  SELECT jsonb_build_object('reference', $2,
    'bought', (SELECT coalesce(sum(n), 0) FROM mine WHERE state IN ('confirmed','paid')),
    'unpaid', (SELECT coalesce(sum(n), 0) FROM mine WHERE state IN ('reserved','authorised')),
    'unpaidHolds', coalesce((SELECT max(unpaid) FROM cooldowns
      WHERE event_no = $1 AND kind <> 'address' AND subject = $2), 0),
    'coolingUntil', (SELECT max(epoch_ms(until)) FROM cooldowns
      WHERE event_no = $1 AND kind <> 'address' AND subject = $2 AND until > clock_timestamp()),
    'excepted', limit_is_lifted($1, $2, $2),
    'orders', coalesce((SELECT jsonb_agg(jsonb_build_object('order', order_id, 'state', state, 'reason', reason,
        'seats', cardinality(seats), 'createdAt', epoch_ms(created_at)) ORDER BY created_at DESC)
      FROM (SELECT * FROM mine ORDER BY created_at DESC LIMIT $3) newest), '[]')) AS result`,
    [event, reference, ordersOfStanding],
  );
  return row!.result;
}

/** The buyer of an exception, named in one of three ways. An order names its account and its browser. */
export type AllowedBuyer = { account: string } | { visitor: Visitor } | { order: OrderId };

export type AllowOutcome = { kind: 'allowed'; allowance: Allowance } | { kind: 'unknown_order' };

/** Lifts every limit of the event for one buyer, and ends their cooldown. `until`: epoch ms. */
export async function allowBuyer(
  db: Db,
  command: { event: EventNo; actor: string; buyer: AllowedBuyer; reason: string; until: number | null },
): Promise<AllowOutcome> {
  const { buyer } = command;
  const rows = await db.query<{ result: AllowOutcome }>(
    'limits_allow',
    'SELECT limits_allow($1, $2, $3, $4, $5, $6, to_timestamp($7::float8 / 1000)) AS result',
    [
      command.event,
      command.actor,
      'account' in buyer ? buyer.account : null,
      'visitor' in buyer ? buyer.visitor : null,
      'order' in buyer ? buyer.order : null,
      command.reason,
      command.until,
    ],
  );
  return rows[0]!.result;
}

/** Whether an exception is in force for the buyer, by account or by browser. */
export async function isExcepted(
  db: Db,
  event: EventNo,
  account: string,
  visitor: Visitor,
): Promise<boolean> {
  const [row] = await db.query<{ lifted: boolean }>(
    'limit_is_lifted',
    'SELECT limit_is_lifted($1, $2, $3) AS lifted',
    [event, account, visitor],
  );
  return row!.lifted;
}

export type DisallowOutcome = { kind: 'ended'; allowance: Allowance } | { kind: 'unknown' };

export async function endAllowance(
  db: Db,
  command: { event: EventNo; allowance: string; actor: string },
): Promise<DisallowOutcome> {
  const rows = await db.query<{ result: DisallowOutcome }>(
    'limits_disallow',
    'SELECT limits_disallow($1, $2, $3) AS result',
    [command.event, command.allowance, command.actor],
  );
  return rows[0]!.result;
}

/** Newest first, those in force before those that ended. */
export async function listAllowances(db: Db, event: EventNo, limit = 500): Promise<Allowance[]> {
  const rows = await db.query<{ result: Allowance }>(
    'limits_allowances',
    `SELECT allowance_json(a) AS result FROM limit_allowances a WHERE event_no = $1
     ORDER BY ended_at IS NOT NULL, created_at DESC LIMIT $2`,
    [event, limit],
  );
  return rows.map(({ result }) => result);
}
