import { type Static, Type } from 'typebox';
import { isEventTime } from '../catalogue/events.ts';
import {
  type CooldownRule,
  cooldownFault,
  type EventLimits,
  limitBounds,
  limitsOf,
  newEventLimits,
} from '../core/limits.ts';
import { problem } from '../core/problems.ts';
import { accountNamed, isPlatformAccount } from '../orders/accounts.ts';
import { listCooldowns } from '../orders/cooldowns.ts';
import {
  type Allowance,
  type AllowedBuyer,
  allowBuyer,
  changeLimits as changeLimitsOf,
  endAllowance as endAllowanceOf,
  findBuyer,
  listAllowances,
} from '../orders/limits.ts';
import type { OperateDeps } from './deps.ts';
import { eventOf } from './event-of.ts';
import { EventParams, Instant, iso, nullable, oneLine, operation, uuidPattern } from './operation.ts';

// Limits per buyer of an event, and exceptions from them (P7). docs/operating/limits.md explains each limit.

const { afterUnpaid, cooldownMs, forgetMs, reasonLengthMax } = limitBounds;
const between = ({ min, max }: { min: number; max: number }, description: string) =>
  Type.Integer({ minimum: min, maximum: max, description });
const seats = (description: string) =>
  Type.Integer({ minimum: 1, maximum: limitBounds.seatsMax, description });
const perMinute = (description: string) =>
  Type.Integer({ minimum: 1, maximum: limitBounds.perMinuteMax, description });

const Cooldown = Type.Object(
  {
    afterUnpaid: between(afterUnpaid, 'Unpaid holds in a row before the first cooldown.'),
    firstMs: between(cooldownMs, 'Length of the first cooldown; each further one is twice as long.'),
    maxMs: between(cooldownMs, 'Length of the longest cooldown.'),
    forgetMs: between(forgetMs, 'Unpaid holds are forgotten after this time without another one.'),
  },
  { additionalProperties: false },
);

/** All limits of an event; null means no limit. */
export const limitSchemas = {
  accountSeatsMax: nullable(seats('Seats bought with one e-mail address.')),
  instrumentSeatsMax: nullable(seats('Seats bought with one card.')),
  visitorSeatsMax: nullable(
    seats('Seats bought, or reserved and unpaid, by one browser, in all partitions.'),
  ),
  addressSeatsMax: nullable(
    seats('Seats held, or reserved and unpaid, from one address (IPv6: /64) in one partition.'),
  ),
  joinsPerMinute: nullable(perMinute('Queue numbers drawn from one address in a minute, at one process.')),
  claimsPerMinute: nullable(
    perMinute('Claims, and attempts to pay, by one browser in a minute, at one process.'),
  ),
  cooldown: nullable(Cooldown),
} satisfies Record<keyof EventLimits, Type.TSchema>;

const Limits = Type.Object(limitSchemas, { additionalProperties: false });

/** A browser, or an account that a platform named. */
const referencePattern = '^([A-Za-z0-9_-]{22}|sub:[\\x21-\\x7e]{1,200})$';

const AllowanceView = Type.Object({
  allowance: Type.String(),
  account: nullable(Type.String()),
  visitor: nullable(Type.String()),
  order: nullable(Type.String({ description: 'The order that named the buyer.' })),
  reason: Type.String(),
  actor: Type.String(),
  createdAt: Instant,
  until: nullable(Instant),
  endedAt: nullable(Instant),
  endedBy: nullable(Type.String()),
  inForce: Type.Boolean(),
});

export const getLimits = operation({
  id: 'getLimits',
  method: 'GET',
  path: '/events/:event/limits',
  summary: 'Limits of the event, who is excepted from them, who is in a cooldown',
  params: EventParams,
  output: Type.Object({
    event: Type.String(),
    limits: Limits,
    defaults: Type.Object(limitSchemas, {
      description: 'The limits that a new event with this quota starts with.',
    }),
    allowances: Type.Array(AllowanceView),
    coolingCount: Type.Integer(),
    cooling: Type.Array(
      Type.Object({ kind: Type.String(), subject: Type.String(), until: Instant, unpaid: Type.Integer() }),
    ),
  }),
  problems: ['unknown_event'],
  async run({ db, events }: OperateDeps, { event: id }) {
    const event = await eventOf(events, id);
    const [allowances, cooling] = await Promise.all([
      listAllowances(db, event.eventNo),
      listCooldowns(db, event.eventNo),
    ]);
    return {
      event: event.event,
      limits: limitsOf(event.settings),
      defaults: newEventLimits(event.settings.holdSeatsMax),
      allowances: allowances.map(allowanceView),
      coolingCount: cooling.count,
      cooling: cooling.cooldowns.map((one) => ({ ...one, until: iso(one.until) })),
    };
  },
});

export const findLimitedBuyer = operation({
  id: 'findLimitedBuyer',
  method: 'GET',
  path: '/events/:event/limits/buyers/:reference',
  summary: 'What counts against the limits of one buyer',
  description:
    'The buyer is named by the reference that a refusal shows. For an unknown reference everything is 0.',
  params: Type.Object({ ...EventParams.properties, reference: Type.String({ pattern: referencePattern }) }),
  output: Type.Object({
    reference: Type.String(),
    bought: Type.Integer({ description: 'Seats of paid and confirmed orders, without refunded ones.' }),
    unpaid: Type.Integer({ description: 'Seats of orders that are not paid yet.' }),
    unpaidHolds: Type.Integer({ description: 'Unpaid holds in a row.' }),
    coolingUntil: nullable(Instant),
    excepted: Type.Boolean(),
    orders: Type.Array(
      Type.Object({
        order: Type.String(),
        state: Type.String(),
        reason: nullable(Type.String()),
        seats: Type.Integer(),
        createdAt: Instant,
      }),
      { description: 'Newest first.' },
    ),
  }),
  problems: ['unknown_event'],
  async run({ db, events }: OperateDeps, { event: id, reference }) {
    const event = await eventOf(events, id);
    const { coolingUntil, orders, ...counts } = await findBuyer(db, event.eventNo, reference);
    return {
      ...counts,
      coolingUntil: iso(coolingUntil),
      orders: orders.map((one) => ({ ...one, createdAt: iso(one.createdAt) })),
    };
  },
});

export const changeLimits = operation({
  id: 'changeLimits',
  method: 'PATCH',
  path: '/events/:event/limits',
  summary: 'Change the limits; names those that it replaces',
  description:
    'Absent members stay; null lifts a limit for every buyer. Orders that wait to be paid are decided by the new limits.',
  params: EventParams,
  body: Type.Object(
    {
      replaces: Type.Object(limitSchemas, {
        additionalProperties: false,
        description: 'The limits as the caller last read them.',
      }),
      ...Type.Partial(Type.Object(limitSchemas)).properties,
    },
    { additionalProperties: false },
  ),
  output: Type.Object({ event: Type.String(), limits: Limits }),
  problems: ['unknown_event', 'invalid_field', 'version_conflict'],
  async run({ db, events }: OperateDeps, { event: id, replaces, ...limits }, { actor }) {
    const event = await eventOf(events, id);
    checkedCooldown(limits.cooldown ?? null);
    const outcome = await changeLimitsOf(db, { event: event.eventNo, actor, replaces, limits });
    events.forget(event);
    if (outcome.kind === 'unknown') throw problem('unknown_event');
    if (outcome.kind === 'conflict') throw problem('version_conflict', { extra: { now: outcome.limits } });
    return { event: event.event, limits: outcome.limits };
  },
});

export const createAllowance = operation({
  id: 'createAllowance',
  method: 'POST',
  path: '/events/:event/limits/allowances',
  summary: 'Except one buyer from every limit of the event',
  description:
    'The buyer is named by `account` (e-mail), `visitor` (the reference on the buyer’s page) or `order`. Ends a cooldown too. Seats held at once stay limited.',
  params: EventParams,
  body: Type.Object(
    {
      account: Type.Optional(
        Type.String({
          minLength: 3,
          maxLength: 254,
          description: 'E-mail address, or sub: and your platform’s name of the account.',
        }),
      ),
      visitor: Type.Optional(
        Type.String({
          pattern: referencePattern,
          description:
            'The reference that the buyer’s page shows: a browser, or an account where there is one.',
        }),
      ),
      order: Type.Optional(Type.String({ pattern: uuidPattern, description: 'Any order of the buyer.' })),
      reason: oneLine(reasonLengthMax),
      until: Type.Optional(nullable(Instant)),
    },
    { additionalProperties: false },
  ),
  output: AllowanceView,
  status: 201,
  problems: ['unknown_event', 'invalid_field', 'unknown_order'],
  async run({ db, events, clock }: OperateDeps, { event: id, until = null, ...body }, { actor }) {
    const event = await eventOf(events, id);
    const reason = body.reason.trim();
    if (reason === '')
      throw problem('invalid_field', { field: '/reason', detail: 'Say why the buyer is excepted.' });
    const outcome = await allowBuyer(db, {
      event: event.eventNo,
      actor,
      buyer: namedBuyer(body),
      reason,
      until: futureTime(until, clock.now()),
    });
    if (outcome.kind === 'unknown_order') throw problem('unknown_order', { field: '/order' });
    return allowanceView(outcome.allowance);
  },
});

export const endAllowance = operation({
  id: 'endAllowance',
  method: 'DELETE',
  path: '/events/:event/limits/allowances/:allowance',
  summary: 'End an exception; what was bought under it stays bought',
  params: Type.Object({ ...EventParams.properties, allowance: Type.String({ pattern: uuidPattern }) }),
  output: AllowanceView,
  problems: ['unknown_event', 'unknown_allowance'],
  async run({ db, events }: OperateDeps, { event: id, allowance }, { actor }) {
    const event = await eventOf(events, id);
    const outcome = await endAllowanceOf(db, { event: event.eventNo, allowance, actor });
    if (outcome.kind === 'unknown') throw problem('unknown_allowance');
    return allowanceView(outcome.allowance);
  },
});

/** Checks the bounds that a schema cannot express. */
export function checkedCooldown(rule: CooldownRule | null): CooldownRule | null {
  const fault = rule && cooldownFault(rule);
  if (fault) throw problem('invalid_field', { field: '/cooldown', detail: fault });
  return rule;
}

function namedBuyer(body: { account?: string; visitor?: string; order?: string }): AllowedBuyer {
  const { account, visitor, order } = body;
  if ([account, visitor, order].filter((one) => one !== undefined).length !== 1) {
    throw problem('invalid_field', {
      field: '/account',
      detail: 'Name the buyer by one of account, visitor and order.',
    });
  }
  if (visitor !== undefined) return isPlatformAccount(visitor) ? { account: visitor } : { visitor };
  if (order !== undefined) return { order };
  const counted = accountNamed(account!);
  if (counted === null)
    throw problem('invalid_field', { field: '/account', detail: 'Enter the buyer’s e-mail address.' });
  return { account: counted };
}

function futureTime(text: string | null, now: number): number | null {
  if (text === null) return null;
  const at = Date.parse(text);
  if (isEventTime(at) && at > now) return at;
  throw problem('invalid_field', { field: '/until', detail: 'Name a time that is still to come.' });
}

function allowanceView(allowance: Allowance): Static<typeof AllowanceView> {
  const { createdAt, until, endedAt, ...rest } = allowance;
  return { ...rest, createdAt: iso(createdAt), until: iso(until), endedAt: iso(endedAt) };
}

export const limitsOperations = [getLimits, findLimitedBuyer, changeLimits, createAllowance, endAllowance];
