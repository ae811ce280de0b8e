import { Type } from 'typebox';
import { listPlans as storedPlans } from '../catalogue/plans.ts';
import { replanEvent } from '../catalogue/replan.ts';
import { counted } from '../core/counted.ts';
import { problem } from '../core/problems.ts';
import { planLimits } from '../core/seat-map.ts';
import { logAction } from '../orders/action-log.ts';
import { parseMapping } from '../plans/mapping-text.ts';
import type { OperateDeps } from './deps.ts';
import { eventOf, unknownPlan } from './event-of.ts';
import { noPrice } from './events.ts';
import { EventParams, Instant, iso, isSet, nullable, oneLine, operation, QueryFlag } from './operation.ts';

// Seating plans, and the plan of an event.

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
const PlanReportView = Type.Object({
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

const PlanView = Type.Object({
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

export const importPlan = operation({
  id: 'importPlan',
  method: 'POST',
  path: '/plans',
  summary: 'Import a plan: pretix JSON or a CSV manifest as the body; dryRun reports and stores nothing',
  description:
    'With `Accept: application/x-ndjson` the answer is one JSON object a line: `{"step": …}` (reading, checking, storing) as the work goes on, and last `{"status": …, "body": …}`, which is what the answer would be otherwise.',
  query: Type.Object({
    dryRun: QueryFlag,
    name: Type.Optional(oneLine(planLimits.labelLengthMax)),
    format: Type.Optional(Type.Union([Type.Literal('pretix'), Type.Literal('csv')])),
    map: Type.Optional(Type.String({ maxLength: 1_000, description: 'CSV: section=…,row=…,seat=…,x=…,y=…' })),
  }),
  upload: true,
  admit: ({ planWork }: Pick<OperateDeps, 'planWork'>) => planWork.admit(),
  bodyLimit: planLimits.fileBytesMax,
  output: Type.Union([
    Type.Object(
      { ...PlanView.properties, known: Type.Boolean() },
      { description: 'Stored now (201), or stored before (200).' },
    ),
    Type.Object({ dryRun: Type.Literal(true), report: PlanReportView }),
  ]),
  statuses: [200, 201],
  problems: ['invalid_field', 'plan_refused', 'body_too_large', 'busy'],
  async run(
    { db, planWork }: Pick<OperateDeps, 'db' | 'planWork'>,
    { dryRun, name, format, map },
    { actor, file: bytes, progress, status },
  ) {
    const mapping = map === undefined ? undefined : parseMapping(map);
    if (mapping?.kind === 'invalid')
      throw problem('invalid_field', { field: 'map', detail: mapping.sentence });
    const options = { name, format, mapping: mapping?.mapping };
    const outcome = await planWork.importPlan({ bytes, options, dryRun: isSet(dryRun) }, progress);
    switch (outcome.kind) {
      case 'refused': {
        const { problems, problemCount, report } = outcome;
        throw problem('plan_refused', {
          detail: `The file has ${counted(problemCount, 'problem')}; nothing was stored. Fix the places listed and import it again.`,
          extra: { problems, problemCount, report },
        });
      }
      case 'checked':
        return { dryRun: true as const, report: outcome.report };
      case 'stored': {
        const { plan, known } = outcome;
        await logAction(db, { actor, action: 'import', detail: { plan: plan.plan, known } });
        if (!known) status(201);
        return { ...plan, createdAt: iso(plan.createdAt), known };
      }
    }
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
        throw unknownPlan(plan);
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

export const planOperations = [listPlans, importPlan, publishEvent, replan];
