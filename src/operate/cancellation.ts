import { type Static, Type } from 'typebox';
import { cancellationText } from '../checkout/cancel-event.ts';
import { attentions, entryWords } from '../core/operator-list.ts';
import { operationStates } from '../core/order.ts';
import { impossible } from '../core/outcome.ts';
import { problem } from '../core/problems.ts';
import type { Cancellation } from '../orders/cancellations.ts';
import type { EventRecord } from '../orders/record.ts';
import { refundStates } from '../orders/refunds.ts';
import type { OperateDeps } from './deps.ts';
import { eventOf } from './event-of.ts';
import { EventParams, Instant, iso, nullable, operation } from './operation.ts';
import { Fees, Reason, Seats, Uuid } from './refunds.ts';

// Cancelling an event with all of its orders.

/** Where nothing else is asked for: under the usual limits of a provider's API. */
export const cancellationDefaults = { fees: 'returned', seats: 'release', perSecond: 20 } as const;
/** Orders a second. At a tenth of the lower bound, a full stadium would take a week. */
const perSecond = { min: 1, max: 1_000 };
const outcomesMax = 1_000;

const terms = {
  reason: Reason,
  fees: Type.Optional(Fees),
  seats: Type.Optional(Seats),
  perSecond: Type.Optional(
    Type.Number({ minimum: perSecond.min, maximum: perSecond.max, description: 'Orders a second, at most.' }),
  ),
};
const Counts = Type.Partial(
  Type.Record(
    Type.Enum([...refundStates]),
    Type.Object({ refunds: Type.Integer(), amount: Type.Integer({ description: 'Minor units.' }) }),
  ),
);

const CancellationView = Type.Object({
  event: Type.String(),
  ...Type.Required(Type.Object(terms)).properties,
  actor: Type.String(),
  state: Type.Enum(['running', 'done']),
  startedAt: Instant,
  finishedAt: nullable(Instant),
  currency: Type.String(),
  refunds: Counts,
  earlier: Counts,
  closed: Type.Integer({ description: 'Orders that were closed unpaid.' }),
  left: Type.Integer({ description: 'Paid orders that the run has not reached.' }),
  ending: Type.Integer({ description: 'Unpaid orders whose payment is being ended.' }),
  waitsFor: Type.Array(
    Type.Object({
      order: Type.String(),
      entry: Type.String({ description: 'On the operator’s list.' }),
      kind: Type.Enum(['open', 'authorise', 'capture', 'refund']),
      state: Type.Enum([...operationStates]),
      attention: nullable(Type.Enum([...attentions])),
      why: Type.String(),
      since: Instant,
    }),
    { description: 'The oldest payments that keep the run from ending; `waiting`: how many there are.' },
  ),
  waiting: Type.Integer(),
  text: Type.Array(Type.String(), { description: 'The same in sentences.' }),
});

export const cancelEvent = operation({
  id: 'cancelEvent',
  method: 'POST',
  path: '/events/:event/cancellation',
  summary: 'Cancel the event and refund its orders; asks for a confirmation first',
  description: 'Without `confirmation`: 202, what would happen, and the code. With it: 201, the run.',
  params: EventParams,
  body: Type.Object(
    {
      ...terms,
      confirmation: Type.Optional(
        Type.String({
          maxLength: 20,
          description:
            'The code that the same request without it was answered with. Without it nothing happens.',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Union([
    Type.Object({
      orders: Type.Integer(),
      tickets: Type.Integer(),
      amount: Type.Integer({ description: 'Minor units.' }),
      currency: Type.String(),
      unpaidOrders: Type.Integer(),
      wish: Type.Required(Type.Object(terms)),
      confirmation: Type.String(),
      confirmWithinMs: Type.Integer(),
    }),
    CancellationView,
  ]),
  statuses: [202, 201],
  problems: ['unknown_event', 'phase_impossible', 'event_cancelled', 'not_confirmed'],
  async run(deps: OperateDeps, { event: id, confirmation, ...given }, { actor, status }) {
    const event = await eventOf(deps.events, id);
    const { cancelEvent, cancellations } = deps.refundServices;
    const request = { ...cancellationDefaults, ...given };
    if (event.phase === 'draft') throw draft();
    if (confirmation === undefined) {
      if (await cancellations.find(event.eventNo)) throw problem('event_cancelled');
      const { shown, code, livesMs } = await cancelEvent.ask(event.eventNo, request, actor);
      status(202);
      return { ...shown, wish: request, confirmation: code, confirmWithinMs: livesMs };
    }
    const outcome = await cancelEvent.confirm(event.eventNo, request, actor, confirmation);
    deps.events.forget(event);
    switch (outcome.kind) {
      case 'started':
        status(201);
        return cancellationView(event, await cancellations.find(event.eventNo));
      case 'already':
        throw problem('event_cancelled');
      case 'not_confirmed':
        throw problem('not_confirmed');
      case 'not_published':
        throw draft();
      default:
        return impossible(outcome, 'cancellation outcome');
    }
  },
});

export const getCancellation = operation({
  id: 'getCancellation',
  method: 'GET',
  path: '/events/:event/cancellation',
  summary: 'How far the cancelling has come',
  params: EventParams,
  output: CancellationView,
  problems: ['unknown_event', 'not_cancelled'],
  async run(deps: OperateDeps, { event: id }) {
    const { event, now } = await cancellationOf(deps, id);
    return cancellationView(event, now);
  },
});

export const listCancelledOrders = operation({
  id: 'listCancelledOrders',
  method: 'GET',
  path: '/events/:event/cancellation/orders',
  summary: 'What became of each order, in pages: `after` is the last order of the page before',
  params: EventParams,
  query: Type.Object({ after: Type.Optional(Uuid) }),
  output: Type.Object({
    orders: Type.Array(
      Type.Object({
        order: Type.String(),
        account: Type.String(),
        tickets: Type.Integer(),
        outcome: Type.Enum([...refundStates, 'closed', 'left']),
        amount: Type.Integer({ description: 'Minor units.' }),
        refund: nullable(Type.String()),
        detail: nullable(Type.String()),
      }),
    ),
    next: nullable(Type.String({ description: '`after` of the next page; null on the last.' })),
  }),
  problems: ['unknown_event', 'not_cancelled'],
  async run(deps: OperateDeps, { event: id, after = null }) {
    const { event } = await cancellationOf(deps, id);
    const { cancellations } = deps.refundServices;
    const orders = await cancellations.outcomes(event.eventNo, after, outcomesMax);
    return { orders, next: orders.length === outcomesMax ? orders.at(-1)!.order : null };
  },
});

export const retryCancellation = operation({
  id: 'retryCancellation',
  method: 'POST',
  path: '/events/:event/cancellation/retry',
  summary: 'Try all failed refunds of a cancelled event again',
  params: EventParams,
  output: Type.Object({ refunds: Type.Integer() }),
  problems: ['unknown_event', 'not_cancelled'],
  async run(deps: OperateDeps, { event: id }, { actor }) {
    const { event } = await cancellationOf(deps, id);
    const { cancellations } = deps.refundServices;
    return { refunds: (await cancellations.retryFailed(event.eventNo, actor)) ?? 0 };
  },
});

async function cancellationOf(deps: OperateDeps, id: string) {
  const event = await eventOf(deps.events, id);
  const { cancellations } = deps.refundServices;
  const now = await cancellations.find(event.eventNo);
  if (!now) throw problem('not_cancelled');
  return { event, now };
}

function draft() {
  return problem('phase_impossible', { detail: 'A draft has no orders: it need not be cancelled.' });
}

function cancellationView(event: EventRecord, now: Cancellation | null): Static<typeof CancellationView> {
  if (!now) throw problem('not_cancelled');
  const { eventNo: _eventNo, startedAt, finishedAt, waitsFor, ...rest } = now;
  return {
    event: event.event,
    ...rest,
    startedAt: iso(startedAt),
    finishedAt: iso(finishedAt),
    waitsFor: waitsFor.map(({ since, attention, operation, ...one }) => ({
      ...one,
      entry: `operation-${operation}`,
      attention,
      why: entryWords(attention ?? 'outcome_unknown').title,
      since: iso(since),
    })),
    text: cancellationText(event.name, now),
  };
}

export const cancellationOperations = [cancelEvent, getCancellation, listCancelledOrders, retryCancellation];
