import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
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
  changeLimits,
  endAllowance,
  findBuyer,
  listAllowances,
} from '../orders/limits.ts';
import { ambiguousOrders, refundsAtBank } from '../orders/money-figures.ts';
import {
  type Finding,
  lastRun,
  openFindings,
  settledFindings,
  settleFinding,
} from '../orders/reconcile-findings.ts';
import type { EventRecord } from '../orders/record.ts';
import type { OrganiserDeps } from './organiser.ts';
import { oneLine, uuidPattern } from './schemas.ts';

const nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const { afterUnpaid, cooldownMs, forgetMs, reasonLengthMax } = limitBounds;
const between = ({ min, max }: { min: number; max: number }, description: string) =>
  Type.Integer({ minimum: min, maximum: max, description });

const seats = (description: string) =>
  Type.Integer({ minimum: 1, maximum: limitBounds.seatsMax, description });
const perMinute = (description: string) =>
  Type.Integer({ minimum: 1, maximum: limitBounds.perMinuteMax, description });
export const CooldownBody = Type.Object(
  {
    afterUnpaid: between(afterUnpaid, 'Holds that end unpaid one after the other before the first cooldown.'),
    firstMs: between(cooldownMs, 'Length of the first; each further one is twice as long.'),
    maxMs: between(cooldownMs, 'Length of the longest.'),
    forgetMs: between(forgetMs, 'After so long without another unpaid hold they are forgotten.'),
  },
  { additionalProperties: false },
);

/** All limits of an event, null for none. `docs/operating/limits.md` says what each counts and where it is decided. */
export const limitSchemas = {
  accountSeatsMax: nullable(seats('Seats bought with one e-mail address.')),
  instrumentSeatsMax: nullable(seats('Seats bought with one card.')),
  visitorSeatsMax: nullable(
    seats('Seats bought, or reserved and unpaid, by one browser, in all partitions.'),
  ),
  addressSeatsMax: nullable(
    seats('Seats held, or reserved and unpaid, from one address (IPv6: /64) in one partition.'),
  ),
  joinsPerMinute: nullable(perMinute('Places in the line drawn from one address a minute, at one process.')),
  claimsPerMinute: nullable(
    perMinute('Claims, and attempts to pay, by one browser a minute, at one process.'),
  ),
  cooldown: nullable(CooldownBody),
} satisfies Record<keyof EventLimits, Type.TSchema>;

/** The bounds that a schema cannot say. */
export function checkedCooldown(rule: CooldownRule | null): CooldownRule | null {
  const fault = rule && cooldownFault(rule);
  if (fault) throw problem('invalid_field', { field: '/cooldown', detail: fault });
  return rule;
}

const LimitsBody = Type.Object(
  {
    replaces: Type.Object(limitSchemas, {
      additionalProperties: false,
      description: 'The limits as they were looked at.',
    }),
    ...Type.Partial(Type.Object(limitSchemas)).properties,
  },
  { additionalProperties: false },
);

/** Of a browser, or of an account that a platform named. */
const referencePattern = '^([A-Za-z0-9_-]{22}|sub:[\\x21-\\x7e]{1,200})$';

const AllowanceBody = Type.Object(
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
          'The reference that the buyer’s page shows: of his browser, or of his account where it has one.',
      }),
    ),
    order: Type.Optional(Type.String({ pattern: uuidPattern, description: 'Any order of the buyer’s.' })),
    reason: oneLine(reasonLengthMax),
    until: Type.Optional(nullable(Type.String({ format: 'date-time', maxLength: 40 }))),
  },
  { additionalProperties: false },
);

const EventParams = Type.Object({ event: Type.String({ maxLength: 40 }) });
const ReferenceParams = Type.Object({
  event: Type.String({ maxLength: 40 }),
  reference: Type.String({ pattern: referencePattern }),
});
const AllowanceParams = Type.Object({
  event: Type.String({ maxLength: 40 }),
  allowance: Type.String({ pattern: uuidPattern }),
});
const FindingParams = Type.Object({ finding: Type.String({ pattern: '^[1-9][0-9]{0,14}$' }) });
const findingsMax = 1_000;

const security = [{ organiser: [] }];
const tags = ['organiser'];

/** Limits with their exceptions, and what the comparison with the payment provider found. */
export function registerOrganiserLimits(
  root: FastifyInstance,
  deps: OrganiserDeps,
  requireSession: (request: FastifyRequest) => Promise<string>,
): void {
  const { db, events } = deps;
  const app = root.withTypeProvider<TypeBoxTypeProvider>();

  async function eventOf(id: string): Promise<EventRecord> {
    const event = await events.find(id);
    if (!event) throw problem('unknown_event');
    return event;
  }

  app.get(
    '/api/organiser/events/:event/limits',
    {
      schema: {
        tags,
        security,
        summary: 'Limits of the event, who is excepted from them, who is in a cooldown',
        params: EventParams,
      },
    },
    async (request) => {
      await requireSession(request);
      const event = await eventOf(request.params.event);
      const [allowances, cooling] = await Promise.all([
        listAllowances(db, event.eventNo),
        listCooldowns(db, event.eventNo),
      ]);
      return {
        event: event.event,
        limits: limitsOf(event.settings),
        /** What a new event with this quota starts with. */
        defaults: newEventLimits(event.settings.holdSeatsMax),
        allowances: allowances.map(allowanceView),
        coolingCount: cooling.count,
        cooling: cooling.cooldowns.map((one) => ({ ...one, until: iso(one.until) })),
      };
    },
  );

  app.get(
    '/api/organiser/events/:event/limits/buyers/:reference',
    {
      schema: {
        tags,
        security,
        summary: 'What counts against the limits of one buyer',
        description:
          'Named by the reference that a refusal shows. Nobody of that reference: everything is 0.',
        params: ReferenceParams,
      },
    },
    async (request) => {
      await requireSession(request);
      const event = await eventOf(request.params.event);
      const { coolingUntil, orders, ...standing } = await findBuyer(
        db,
        event.eventNo,
        request.params.reference,
      );
      return {
        ...standing,
        coolingUntil: iso(coolingUntil),
        orders: orders.map((one) => ({ ...one, createdAt: iso(one.createdAt) })),
      };
    },
  );

  app.patch(
    '/api/organiser/events/:event/limits',
    {
      schema: {
        tags,
        security,
        summary: 'Change the limits; names those that it replaces',
        description:
          'Absent members stay, null lifts a limit for everybody. Orders that wait to be paid are decided by the new limits.',
        params: EventParams,
        body: LimitsBody,
      },
    },
    async (request) => {
      const actor = await requireSession(request);
      const event = await eventOf(request.params.event);
      const { replaces, ...limits } = request.body;
      checkedCooldown(limits.cooldown ?? null);
      const outcome = await changeLimits(db, { event: event.eventNo, actor, replaces, limits });
      events.forget(event);
      if (outcome.kind === 'unknown') throw problem('unknown_event');
      if (outcome.kind === 'conflict') throw problem('version_conflict', { extra: { now: outcome.limits } });
      return { event: event.event, limits: outcome.limits };
    },
  );

  app.post(
    '/api/organiser/events/:event/limits/allowances',
    {
      schema: {
        tags,
        security,
        summary: 'Except one buyer from every limit of the event',
        description:
          'Named by `account` (e-mail), `visitor` (the reference on the buyer’s page) or `order`. Ends a cooldown too. Seats held at once stay limited.',
        params: EventParams,
        body: AllowanceBody,
      },
    },
    async (request, reply) => {
      const actor = await requireSession(request);
      const event = await eventOf(request.params.event);
      const reason = request.body.reason.trim();
      if (reason === '') {
        throw problem('invalid_field', { field: '/reason', detail: 'Say why the buyer is excepted.' });
      }
      const outcome = await allowBuyer(db, {
        event: event.eventNo,
        actor,
        buyer: buyerIn(request.body),
        reason,
        until: untilOf(request.body.until ?? null, deps.clock.now()),
      });
      if (outcome.kind === 'unknown_order') throw problem('unknown_order', { field: '/order' });
      return reply.code(201).send(allowanceView(outcome.allowance));
    },
  );

  app.delete(
    '/api/organiser/events/:event/limits/allowances/:allowance',
    {
      schema: {
        tags,
        security,
        summary: 'End an exception; what was bought under it stays bought',
        params: AllowanceParams,
      },
    },
    async (request) => {
      const actor = await requireSession(request);
      const event = await eventOf(request.params.event);
      const { allowance } = request.params;
      const outcome = await endAllowance(db, { event: event.eventNo, allowance, actor });
      if (outcome.kind === 'unknown') throw problem('unknown_allowance');
      return allowanceView(outcome.allowance);
    },
  );

  registerFindings(root, deps, requireSession);
}

function registerFindings(
  root: FastifyInstance,
  { db }: OrganiserDeps,
  requireSession: (request: FastifyRequest) => Promise<string>,
): void {
  const app = root.withTypeProvider<TypeBoxTypeProvider>();
  app.get(
    '/api/organiser/reconcile',
    {
      schema: {
        tags,
        security,
        summary: 'Where the payment provider and the record do not fit',
        description:
          'Oldest first; with `settled=true` those that were taken off the list, newest first. `ambiguous`: orders of which nobody can say yet how their money ends. `refundsAtBank`: refunds that were accepted and that the bank has not paid out yet.',
        querystring: Type.Object({
          settled: Type.Optional(Type.Union([Type.Literal('true'), Type.Literal('false')])),
        }),
      },
    },
    async (request) => {
      await requireSession(request);
      const settled = request.query.settled === 'true';
      const [findings, run, ambiguous, atBank] = await Promise.all([
        settled ? settledFindings(db, findingsMax) : openFindings(db, findingsMax),
        lastRun(db),
        ambiguousOrders(db, null),
        refundsAtBank(db),
      ]);
      return {
        ambiguous: ambiguous.reduce((sum, { orders }) => sum + orders, 0),
        refundsAtBank: atBank.refunds,
        findings: findings.map(findingView),
        lastRun: run && {
          from: iso(run.from),
          to: iso(run.to),
          startedAt: iso(run.startedAt),
          finishedAt: iso(run.finishedAt),
          counts: run.counts,
        },
      };
    },
  );

  app.post(
    '/api/organiser/reconcile/:finding/settle',
    {
      schema: {
        tags,
        security,
        summary: 'Take a finding off the list, with a note of what was done',
        description: 'Changes neither order nor payment. It comes back when something else is found.',
        params: FindingParams,
        body: Type.Object({ note: oneLine(reasonLengthMax) }),
      },
    },
    async (request) => {
      const actor = await requireSession(request);
      const finding = Number(request.params.finding);
      const note = request.body.note.trim();
      if (note === '') throw problem('invalid_field', { field: '/note', detail: 'Say what was done.' });
      const kind = await settleFinding(db, { finding, actor, note });
      if (kind === 'unknown') throw problem('unknown_finding');
      if (kind === 'not_possible') throw problem('action_not_possible', { extra: { actions: [] } });
      return { finding, settled: true };
    },
  );
}

function buyerIn(body: { account?: string; visitor?: string; order?: string }): AllowedBuyer {
  const { account, visitor, order } = body;
  const named = [account, visitor, order].filter((one) => one !== undefined);
  if (named.length !== 1) {
    throw problem('invalid_field', {
      field: '/account',
      detail: 'Name the buyer by one of account, visitor and order.',
    });
  }
  if (visitor !== undefined) return isPlatformAccount(visitor) ? { account: visitor } : { visitor };
  if (order !== undefined) return { order };
  const counted = accountNamed(account!);
  if (counted === null) {
    throw problem('invalid_field', { field: '/account', detail: 'Enter the buyer’s e-mail address.' });
  }
  return { account: counted };
}

function untilOf(text: string | null, now: number): number | null {
  if (text === null) return null;
  const at = Date.parse(text);
  if (isEventTime(at) && at > now) return at;
  throw problem('invalid_field', { field: '/until', detail: 'Name a time that is still to come.' });
}

function allowanceView(allowance: Allowance) {
  const { createdAt, until, endedAt, ...rest } = allowance;
  return { ...rest, createdAt: iso(createdAt), until: iso(until), endedAt: iso(endedAt) };
}

function findingView(finding: Finding) {
  const { firstSeenAt, lastSeenAt, settledAt, ...rest } = finding;
  return { ...rest, firstSeenAt: iso(firstSeenAt), lastSeenAt: iso(lastSeenAt), settledAt: iso(settledAt) };
}

function iso(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString();
}
