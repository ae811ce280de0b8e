import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { blockSeats, unblockSeats } from '../catalogue/blocks.ts';
import type { Events, OnSaleOutcome } from '../catalogue/events.ts';
import { listPlans } from '../catalogue/plans.ts';
import { replanEvent } from '../catalogue/replan.ts';
import { counted } from '../core/counted.ts';
import { impossible } from '../core/outcome.ts';
import { phases } from '../core/phase.ts';
import { problem } from '../core/problems.ts';
import { planLimits, type SeatNo } from '../core/seat-map.ts';
import type { Arbiter } from '../inventory/arbiter.ts';
import { limitsOperations } from '../operate/limits.ts';
import { audit } from '../orders/audit.ts';
import type { EventRecord } from '../orders/record.ts';
import type { Db } from '../postgres/db.ts';
import type { SharedBytes } from '../read-path/published-reader.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Random } from '../runtime/random.ts';
import type { AccountTokens } from './account-token.ts';
import type { ClientAddresses } from './client-address.ts';
import { registerOrganiserAuditLog } from './organiser-audit-log.ts';
import { registerOrganiserCodes } from './organiser-codes.ts';
import { CreateEventBody, createEvent, noPrice } from './organiser-events.ts';
import { registerFindings } from './organiser-findings.ts';
import { registerOperations } from './organiser-operations.ts';
import { registerPlanImport } from './organiser-plans.ts';
import { createOrganiserSessions, type OrganiserAccount } from './organiser-sessions.ts';
import type { PlanDesk } from './plan-desk.ts';
import { isSet, oneLine, QueryFlag } from './schemas.ts';

export interface OrganiserDeps {
  /** With a longer statement time limit than the buyers': publishing a large plan takes seconds. */
  db: Db;
  events: Events;
  planDesk: PlanDesk;
  log: Logger;
  clock: Clock;
  random: Random;
  account: OrganiserAccount;
  clients: ClientAddresses;
  /** Aborted when the process stops. */
  closing: AbortSignal;
  /** The local mailbox is served: the signed-in organiser may read it. */
  hasMailbox: boolean;
  /** Cookies are marked Secure. */
  https: boolean;
  /** The published object of that name, for the counts. */
  published: (event: string, name: string) => SharedBytes | null;
  /** Blocks are claims like any other, and the arbiter receives sale decisions. */
  arbiter: Arbiter;
  /** Names of the configured Redis servers that partitions may be pinned to. Undefined means that any name is accepted. */
  redisServers?: readonly string[];
  /** Undefined means that no event can require an account before seats are held. */
  accountTokens?: AccountTokens;
}

const EventParams = Type.Object({ event: Type.String({ maxLength: 40 }) });
const nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const security = [{ organiser: [] }];
const tags = ['organiser'];
const seatsMax = planLimits.seatsMax;

const OnSaleBody = Type.Object({
  expectedVersion: Type.Integer({ minimum: 0, maximum: 0x7fffffff }),
  phase: Type.Optional(Type.Union(phases.map((phase) => Type.Literal(phase)))),
  message: Type.Optional(nullable(Type.String({ maxLength: 500 }))),
  rateCeiling: Type.Optional(nullable(Type.Number({ minimum: 0, maximum: 100_000 }))),
});

const BlocksBody = Type.Object({
  seats: Type.Array(
    Type.Union([Type.Integer({ minimum: 0 }), Type.String({ minLength: 1, maxLength: 200 })]),
    {
      minItems: 1,
      maxItems: seatsMax,
      description: 'seat_no, or seat_guid as text.',
    },
  ),
  reason: Type.Optional(oneLine(200)),
});

/** Routes of the organiser's page: everything under /api/organiser. */
export async function registerOrganiser(root: FastifyInstance, deps: OrganiserDeps): Promise<void> {
  const { db, events } = deps;
  const sessions = createOrganiserSessions(deps);
  const app = root.withTypeProvider<TypeBoxTypeProvider>();

  async function eventOf(request: { params: { event: string } }): Promise<EventRecord> {
    const event = await events.find(request.params.event);
    if (!event) throw problem('unknown_event');
    return event;
  }

  await sessions.register(root);

  app.get(
    '/api/organiser/plans',
    { schema: { tags, security, summary: 'Seating plans' } },
    async (request) => {
      await sessions.require(request);
      return { plans: (await listPlans(db)).map((plan) => ({ ...plan, createdAt: iso(plan.createdAt) })) };
    },
  );

  await root.register(async (scope) => registerPlanImport(scope, deps, sessions.require));
  registerOperations(root, limitsOperations, deps, sessions.require);
  registerFindings(root, deps, sessions.require);
  registerOrganiserCodes(root, deps, sessions.require);
  registerOrganiserAuditLog(root, deps, sessions.require);

  app.get(
    '/api/organiser/events',
    { schema: { tags, security, summary: 'Events, drafts too' } },
    async (request) => {
      await sessions.require(request);
      return { events: (await events.list()).map(organiserView) };
    },
  );

  app.get(
    '/api/organiser/events/:event',
    { schema: { tags, security, summary: 'One event with its controls and counts', params: EventParams } },
    async (request) => {
      await sessions.require(request);
      const event = await eventOf(request);
      const counts = deps.published(event.event, 'counts');
      const status = deps.published(event.event, 'status');
      return { ...organiserView(event), counts: jsonOf(counts), status: jsonOf(status) };
    },
  );

  app.post(
    '/api/organiser/events',
    {
      schema: { tags, security, summary: 'Create an event (a draft)', body: CreateEventBody },
      bodyLimit: 512 * 1024,
    },
    async (request, reply) => {
      const actor = await sessions.require(request);
      const event = await createEvent(deps, request.body);
      await audit(db, { actor, action: 'create', event: event.eventNo });
      return reply.code(201).send(organiserView(event));
    },
  );

  app.post(
    '/api/organiser/events/:event/publish',
    {
      schema: {
        tags,
        security,
        summary: 'Publish: number the seats; the plan is immutable then',
        params: EventParams,
        querystring: Type.Object({ acceptWarnings: QueryFlag }),
      },
    },
    async (request) => {
      const actor = await sessions.require(request);
      const event = await eventOf(request);
      const acceptWarnings = isSet(request.query.acceptWarnings);
      const outcome = await deps.planDesk.publish({ event, actor, acceptWarnings });
      events.forget(event);
      if (outcome.kind === 'no_price') throw noPrice(outcome.categories, 'published');
      if (outcome.kind === 'unsettled') {
        throw problem('plan_unsettled', { extra: { warnings: outcome.warnings } });
      }
      if (outcome.kind === 'not_draft') {
        throw problem('phase_impossible', {
          detail: 'The event is published already.',
          extra: { phase: event.phase },
        });
      }
      if (outcome.kind === 'unknown') throw problem('unknown_event');
      return { event: event.event, phase: 'scheduled', seats: outcome.seats };
    },
  );

  app.patch(
    '/api/organiser/events/:event/on-sale',
    {
      schema: {
        tags,
        security,
        summary: 'Phase, message and rate ceiling; names the version it replaces',
        params: EventParams,
        body: OnSaleBody,
      },
    },
    async (request) => {
      const actor = await sessions.require(request);
      const event = await eventOf(request);
      const outcome = await events.changeOnSale({ event, actor, ...request.body });
      return controlsOf(event, outcome);
    },
  );

  app.post(
    '/api/organiser/events/:event/plan',
    {
      schema: {
        tags,
        security,
        summary: 'Another version of the plan; refuses to lose seats that somebody has',
        params: EventParams,
        body: Type.Object({ plan: Type.String({ maxLength: 60 }), dryRun: Type.Optional(Type.Boolean()) }),
      },
    },
    async (request) => {
      const actor = await sessions.require(request);
      const event = await eventOf(request);
      const { plan, dryRun = false } = request.body;
      const { prepareReplan } = deps.planDesk;
      const outcome = await replanEvent({ ...deps, prepareReplan }, { event, plan, actor, dryRun });
      events.forget(event);
      if (outcome.kind === 'unknown') throw problem('unknown_plan');
      if (outcome.kind === 'not_published') throw unpublished();
      if (outcome.kind === 'conflict') throw problem('version_conflict');
      if (outcome.kind === 'no_price') throw noPrice(outcome.categories, 'changed');
      if (outcome.kind === 'busy') throw problem('busy', { retryAfterMs: 2_000 });
      if (outcome.kind === 'would_move') {
        throw problem('seats_would_move', {
          extra: {
            seats: outcome.seats.slice(0, planLimits.problemsListedMax),
            seatCount: outcome.seats.length,
          },
        });
      }
      if (outcome.kind === 'would_lose') {
        throw problem('seats_in_use', {
          detail: `The new plan would lose ${counted(outcome.seats.length, 'seat that is', 'seats that are')} held, reserved or sold. Nothing was changed.`,
          extra: {
            seats: outcome.seats.slice(0, planLimits.problemsListedMax),
            seatCount: outcome.seats.length,
          },
        });
      }
      return outcome;
    },
  );

  async function seatNosOf(event: EventRecord, seats: (number | string)[]): Promise<SeatNo[]> {
    if (!event.layoutHash) throw unpublished();
    const house = await events.house(event);
    return seats.map((seat, index) => {
      const no = typeof seat === 'number' ? seat : house.byGuid.get(seat);
      if (no === undefined || !house.seats[no]) throw problem('unknown_seat', { field: `/seats/${index}` });
      return no;
    });
  }

  app.post(
    '/api/organiser/events/:event/blocks',
    {
      schema: {
        tags,
        security,
        summary: 'Block seats; those that somebody has are listed',
        params: EventParams,
        body: BlocksBody,
      },
      bodyLimit: 4 * 1024 * 1024,
    },
    async (request) => {
      const actor = await sessions.require(request);
      const event = await eventOf(request);
      const { reason } = request.body;
      if (!reason)
        throw problem('invalid_field', { field: '/reason', detail: 'Say why the seats are blocked.' });
      const seats = await seatNosOf(event, request.body.seats);
      const outcome = await blockSeats(deps, { event: event.eventNo, actor, reason, seats });
      const blocked = outcome.blocked.map(({ seat }) => seat);
      return { blocked, refused: outcome.refused, unanswered: outcome.unanswered };
    },
  );

  app.delete(
    '/api/organiser/events/:event/blocks',
    {
      schema: {
        tags,
        security,
        summary: 'Give blocked seats back to the sale',
        params: EventParams,
        body: BlocksBody,
      },
      bodyLimit: 4 * 1024 * 1024,
    },
    async (request) => {
      const actor = await sessions.require(request);
      const event = await eventOf(request);
      const seats = await seatNosOf(event, request.body.seats);
      const freed = await unblockSeats(deps, { event: event.eventNo, actor, seats });
      return { unblocked: freed.map(({ seat }) => seat) };
    },
  );
}

function controlsOf(event: EventRecord, outcome: OnSaleOutcome) {
  switch (outcome.kind) {
    case 'changed':
      return { event: event.event, ...outcome.now };
    case 'conflict':
      throw problem('version_conflict', { extra: { now: outcome.now } });
    case 'impossible':
      throw problem('phase_impossible', {
        detail: `The sale is ${outcome.now.phase}; from there it can become ${outcome.possible.join(', ') || 'nothing else'}. A published event is cancelled with POST …/cancellation, which refunds its orders.`,
        extra: { now: outcome.now, possible: outcome.possible },
      });
    case 'unknown':
      throw problem('unknown_event');
    default:
      return impossible(outcome, 'on-sale outcome');
  }
}

function unpublished() {
  return problem('phase_impossible', { detail: 'Publish the event first.' });
}

function organiserView(event: EventRecord) {
  const { eventNo: _eventNo, event: id, performanceAt, onSaleAt, saleEndsAt, planId, ...rest } = event;
  return {
    id,
    ...rest,
    plan: planId,
    performanceAt: iso(performanceAt),
    onSaleAt: iso(onSaleAt),
    saleEndsAt: iso(saleEndsAt),
  };
}

function jsonOf(shared: SharedBytes | null): unknown {
  return shared ? JSON.parse(Buffer.from(shared.bytes).toString('utf8')) : null;
}

function iso(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString();
}
