import { Type } from 'typebox';
import { listPlans as storedPlans } from '../catalogue/plans.ts';
import { replanEvent } from '../catalogue/replan.ts';
import { counted } from '../core/counted.ts';
import { problem } from '../core/problems.ts';
import { planLimits } from '../core/seat-map.ts';
import type { OperateDeps } from './deps.ts';
import { eventOf } from './event-of.ts';
import { noPrice } from './events.ts';
import { EventParams, Instant, iso, isSet, nullable, operation, QueryFlag } from './operation.ts';

// Seating plans, and the plan of an event. The import of a file is a route of its own: it takes the bytes as they are.

const Warning = Type.Object({
  code: Type.String(),
  sentence: Type.String(),
  places: Type.Array(Type.String(), { description: 'The first of them.' }),
  count: Type.Integer(),
  beforeSale: Type.Boolean({
    description: 'Must be settled, or accepted, before the seats are put on sale.',
  }),
});

/** As core/plan-report.ts: PlanReport. */
export const PlanReportView = Type.Object({
  name: Type.String(),
  seats: Type.Integer({ description: 'Numbered seats and general admission together.' }),
  numberedSeats: Type.Integer(),
  gaUnits: Type.Integer(),
  sections: Type.Integer(),
  rows: Type.Integer(),
  categories: Type.Array(Type.Object({ name: Type.String(), seats: Type.Integer() })),
  perSection: Type.Array(
    Type.Object({
      id: Type.String(),
      name: Type.String(),
      group: Type.String(),
      kind: Type.Enum(['seated', 'ga']),
      rows: Type.Integer(),
      seats: Type.Integer(),
      sellAsUnit: Type.Boolean(),
    }),
  ),
  attributes: Type.Object({
    accessible: Type.Integer(),
    companion: Type.Integer(),
    restrictedView: Type.Integer(),
  }),
  bounds: nullable(
    Type.Object({
      left: Type.Number(),
      top: Type.Number(),
      right: Type.Number(),
      bottom: Type.Number(),
    }),
  ),
  warnings: Type.Array(Warning),
});

export const PlanView = Type.Object({
  plan: Type.String({ description: 'Its id.' }),
  name: Type.String(),
  version: Type.Integer(),
  report: PlanReportView,
  createdAt: Instant,
});

export const listPlans = operation({
  id: 'listPlans',
  method: 'GET',
  path: '/plans',
  summary: 'Seating plans',
  output: Type.Object({ plans: Type.Array(PlanView) }),
  problems: [],
  async run({ db }: Pick<OperateDeps, 'db'>) {
    return {
      plans: (await storedPlans(db)).map((plan) => ({ ...plan, createdAt: iso(plan.createdAt) })),
    };
  },
});

export const publishEvent = operation({
  id: 'publishEvent',
  method: 'POST',
  path: '/events/:event/publish',
  summary: 'Publish: number the seats; the plan is immutable then',
  params: EventParams,
  query: Type.Object({ acceptWarnings: QueryFlag }),
  output: Type.Object({ event: Type.String(), phase: Type.Literal('scheduled'), seats: Type.Integer() }),
  problems: ['unknown_event', 'invalid_field', 'plan_unsettled', 'phase_impossible', 'busy'],
  async run(
    { events, planWork }: Pick<OperateDeps, 'events' | 'planWork'>,
    { event: id, acceptWarnings },
    { actor },
  ) {
    const event = await eventOf(events, id);
    const outcome = await planWork.publish({ event, actor, acceptWarnings: isSet(acceptWarnings) });
    events.forget(event);
    switch (outcome.kind) {
      case 'published':
        return { event: event.event, phase: 'scheduled' as const, seats: outcome.seats };
      case 'no_price':
        throw noPrice(outcome.categories, 'published');
      case 'unsettled':
        throw problem('plan_unsettled', { extra: { warnings: outcome.warnings } });
      case 'not_draft':
        throw problem('phase_impossible', {
          detail: 'The event is published already.',
          extra: { phase: event.phase },
        });
      case 'unknown':
        throw problem('unknown_event');
    }
  },
});

const SeatPlace = Type.Object({
  seatNo: Type.Integer(),
  seatGuid: Type.String(),
  sectionId: Type.String(),
  row: Type.String(),
  label: Type.String(),
  category: Type.String(),
});

export const replan = operation({
  id: 'changePlan',
  method: 'POST',
  path: '/events/:event/plan',
  summary: 'Another version of the plan; refuses to lose seats that a buyer has',
  description:
    'Seats keep their numbers, new ones are added, removed ones are blocked. `untold`: partitions whose store did not get the new seats; they are refused there until the same plan is set again.',
  params: EventParams,
  body: Type.Object({ plan: Type.String({ maxLength: 60 }), dryRun: Type.Optional(Type.Boolean()) }),
  output: Type.Union([
    Type.Object({
      kind: Type.Literal('replanned'),
      added: Type.Integer(),
      removed: Type.Integer(),
      kept: Type.Integer(),
      untold: Type.Array(Type.Integer()),
    }),
    Type.Object({
      kind: Type.Literal('dry_run'),
      added: Type.Integer(),
      removed: Type.Array(SeatPlace),
      kept: Type.Integer(),
    }),
  ]),
  problems: [
    ...(['unknown_event', 'unknown_plan', 'phase_impossible', 'version_conflict'] as const),
    ...(['invalid_field', 'busy', 'seats_would_move', 'seats_in_use'] as const),
  ],
  async run(deps: OperateDeps, { event: id, plan, dryRun = false }, { actor }) {
    const { events, planWork } = deps;
    const event = await eventOf(events, id);
    const { prepareReplan } = planWork;
    const arbiter = await deps.openArbiter();
    const outcome = await replanEvent({ ...deps, arbiter, prepareReplan }, { event, plan, actor, dryRun });
    events.forget(event);
    const listed = planLimits.problemsListedMax;
    switch (outcome.kind) {
      case 'replanned':
      case 'dry_run':
        return outcome;
      case 'unknown':
        throw problem('unknown_plan');
      case 'not_published':
        throw problem('phase_impossible', { detail: 'Publish the event first.' });
      case 'conflict':
        throw problem('version_conflict');
      case 'no_price':
        throw noPrice(outcome.categories, 'changed');
      case 'busy':
        throw problem('busy', { retryAfterMs: 2_000 });
      case 'would_move':
        throw problem('seats_would_move', {
          extra: { seats: outcome.seats.slice(0, listed), seatCount: outcome.seats.length },
        });
      case 'would_lose':
        throw problem('seats_in_use', {
          detail: `The new plan would lose ${counted(outcome.seats.length, 'seat that is', 'seats that are')} held, reserved or sold. Nothing was changed.`,
          extra: { seats: outcome.seats.slice(0, listed), seatCount: outcome.seats.length },
        });
    }
  },
});

export const planOperations = [listPlans, publishEvent, replan];
