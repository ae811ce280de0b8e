import type { EventNo, OrderId, Visitor } from '../core/hold.ts';
import type { Db } from './db.ts';
import type { CooldownRule, EventSettings } from './record.ts';

/** Limits of purchases (P7) and their exceptions; the steps are functions of migrations/0014_limits.sql. */

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

/** What an event limits; null: not at all. */
export interface EventLimits {
  accountSeatsMax: number | null;
  instrumentSeatsMax: number | null;
  cooldown: CooldownRule | null;
}

export function limitsOf(settings: Partial<EventSettings>): EventLimits {
  const { accountSeatsMax = null, instrumentSeatsMax = null, cooldown = null } = settings;
  return { accountSeatsMax, instrumentSeatsMax, cooldown };
}

export const limitBounds = {
  seatsMax: 1_000,
  /** Holds that end unpaid one after the other before the first cooldown. */
  afterUnpaid: { min: 1, max: 100 },
  /** A cooldown outlives no buying session by much: longer ones would be a ban. */
  cooldownMs: { min: 10_000, max: 60 * 60_000 },
  forgetMs: { min: 60_000, max: 24 * 60 * 60_000 },
  reasonLengthMax: 500,
} as const;

/** What is taken where an organiser asks for a cooldown without saying more. */
export const cooldownDefault: CooldownRule = {
  afterUnpaid: 3,
  firstMs: 60_000,
  maxMs: 15 * 60_000,
  forgetMs: 60 * 60_000,
};

/** A sentence about what is wrong with the rule; null: nothing is. */
export function cooldownFault(rule: CooldownRule): string | null {
  const { afterUnpaid, cooldownMs, forgetMs } = limitBounds;
  const within = (value: number, { min, max }: { min: number; max: number }) =>
    Number.isInteger(value) && value >= min && value <= max;
  if (!within(rule.afterUnpaid, afterUnpaid)) return 'The number of unpaid holds has to be 1 to 100.';
  if (!within(rule.firstMs, cooldownMs)) return 'The first cooldown has to be 10 seconds to an hour.';
  if (!within(rule.maxMs, cooldownMs)) return 'The longest cooldown has to be 10 seconds to an hour.';
  if (rule.maxMs < rule.firstMs) return 'The longest cooldown cannot be shorter than the first.';
  if (!within(rule.forgetMs, forgetMs)) return 'Unpaid holds are forgotten after a minute to a day.';
  return null;
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
  /** Null: until it is ended. */
  until: number | null;
  endedAt: number | null;
  endedBy: string | null;
  inForce: boolean;
}

/** Whom an exception is for: named in one of three ways; an order stands for its account and its browser. */
export type AllowedBuyer = { account: string } | { visitor: Visitor } | { order: OrderId };

export type AllowOutcome = { kind: 'allowed'; allowance: Allowance } | { kind: 'unknown_order' };

/** Lifts every limit of the event for one buyer, and ends his cooldown. `until`: epoch ms. */
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
