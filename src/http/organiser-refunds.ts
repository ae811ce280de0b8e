import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { Events } from '../catalogue/events.ts';
import { type CancelEvent, cancellationText } from '../checkout/cancel-event.ts';
import type { RefundOutcome, RefundPreview, Refunds } from '../checkout/refunds.ts';
import type { Reversals } from '../checkout/reversals.ts';
import { amountMax } from '../core/money.ts';
import { entryWords } from '../core/operator-list.ts';
import { impossible } from '../core/outcome.ts';
import { type Problem, problem } from '../core/problems.ts';
import type { SeatFacts } from '../core/seat-map.ts';
import { oneLine, uuidPattern } from '../operate/operation.ts';
import { accountOf } from '../orders/accounts.ts';
import type { Cancellation, CancellationRecord } from '../orders/cancellations.ts';
import type { EventRecord, Order, SalesRecord } from '../orders/record.ts';
import { goneBack, type Refund, type RefundRecord, refundStates } from '../orders/refunds.ts';
import type { Reversal } from '../orders/reversals.ts';
import { idempotencyKey, timeOf } from './request-checks.ts';
import { IdempotencyHeaders } from './schemas.ts';

export interface OrganiserRefundsDeps {
  events: Events;
  orders: Pick<SalesRecord, 'findOrder'>;
  refunds: Refunds;
  refundRecord: RefundRecord;
  reversals: Pick<Reversals, 'ofOrder'>;
  cancelEvent: Pick<CancelEvent, 'ask' | 'confirm'>;
  cancellations: CancellationRecord;
}

/** Where nothing else is asked for: under the usual limits of a provider's API. */
export const cancellationDefaults = { fees: 'returned', seats: 'release', perSecond: 20 } as const;
export const perSecondMax = 1_000;
/** At a tenth of this rate, a full stadium would take a week. */
export const perSecondMin = 1;
export const reasonLengthMax = 200;
const ordersMax = 50;
const refundsMax = 200;
const outcomesMax = 1_000;

const security = [{ organiser: [] }];
const tags = ['organiser'];
const Uuid = Type.String({ pattern: uuidPattern });
const EventParams = Type.Object({ event: Type.String({ maxLength: 40 }) });
const OrderParams = Type.Object({ order: Uuid });
const RefundParams = Type.Object({ refund: Uuid });
const Reason = oneLine(reasonLengthMax);
const Fees = Type.Union([Type.Literal('returned'), Type.Literal('kept')], {
  description:
    '`returned`: the fees of the tickets too, and the order’s when no ticket stays valid. `kept`: neither.',
});
const Seats = Type.Union([Type.Literal('release'), Type.Literal('block')], {
  description: '`release`: free for the next buyer. `block`: kept back, with the reason.',
});

const RefundBody = Type.Object(
  {
    tickets: Type.Optional(
      Type.Array(Uuid, {
        maxItems: 50,
        uniqueItems: true,
        description: 'Ids of valid tickets of the order; all when absent; none: goodwill alone.',
      }),
    ),
    fees: Type.Optional(Fees),
    goodwill: Type.Optional(
      Type.Integer({ minimum: 0, maximum: amountMax, description: 'Minor units, on top. 0 when absent.' }),
    ),
    seats: Type.Optional(Seats),
    pays: Type.Optional(
      Type.Boolean({
        description:
          'false: the tickets are cancelled and no money is given back, because it is back with the buyer already (a refund at the provider, a dispute). true when absent.',
      }),
    ),
    reason: Reason,
    preview: Type.Optional(
      Type.Boolean({ description: 'true: answers what it would come to and changes nothing.' }),
    ),
  },
  { additionalProperties: false },
);

const CancellationBody = Type.Object(
  {
    reason: Reason,
    fees: Type.Optional(Fees),
    seats: Type.Optional(Seats),
    perSecond: Type.Optional(
      Type.Number({ minimum: perSecondMin, maximum: perSecondMax, description: 'Orders a second, at most.' }),
    ),
    confirmation: Type.Optional(
      Type.String({
        maxLength: 20,
        description:
          'The code that the same request without it was answered with. Without it nothing happens.',
      }),
    ),
  },
  { additionalProperties: false },
);

const State = Type.Union(refundStates.map((state) => Type.Literal(state)));

/** Refunds of orders, and the cancelling of an event with all of its orders. */
export function registerOrganiserRefunds(
  root: FastifyInstance,
  deps: OrganiserRefundsDeps,
  requireSession: (request: FastifyRequest) => Promise<string>,
): void {
  registerRefunds(root, deps, requireSession);
  registerCancellations(root, deps, requireSession);
}

type Require = (request: FastifyRequest) => Promise<string>;

function registerRefunds(root: FastifyInstance, deps: OrganiserRefundsDeps, requireSession: Require): void {
  const { events, orders, refunds, refundRecord, reversals } = deps;
  const app = root.withTypeProvider<TypeBoxTypeProvider>();

  app.get(
    '/api/organiser/events/:event/orders',
    {
      schema: {
        tags,
        security,
        summary: 'Orders of one buyer, newest first',
        params: EventParams,
        querystring: Type.Object({ email: Type.String({ minLength: 3, maxLength: 254 }) }),
      },
    },
    async (request) => {
      await requireSession(request);
      const event = await eventOf(events, request.params.event);
      const found = await refundRecord.ordersOf(event.eventNo, accountOf(request.query.email), ordersMax);
      return { orders: found.map(orderView) };
    },
  );

  app.get(
    '/api/organiser/orders/:order',
    {
      schema: {
        tags,
        security,
        summary: 'An order with its tickets and refunds, and what left its payment without us',
        params: OrderParams,
      },
    },
    async (request) => {
      await requireSession(request);
      const order = await orders.findOrder(request.params.order);
      if (!order) throw problem('unknown_order');
      const [tickets, made, returned, reversed] = await Promise.all([
        refundRecord.paidTickets(order.eventNo, order.order),
        refundRecord.ofOrder(order.order),
        refundRecord.returned(order.order),
        reversals.ofOrder(order.order),
      ]);
      const event = await events.findByNo(order.eventNo);
      const seatOf = event?.layoutHash ? (await events.house(event)).seats : [];
      return {
        ...orderView(order),
        // A ticket of a cancelled event is not valid, even before the refund run has reached its order.
        tickets: tickets.map(({ valid, ...ticket }) => ({
          ...ticket,
          valid: valid && event?.phase !== 'cancelled',
          refundable: valid,
          place: placeOf(seatOf[ticket.seat]),
        })),
        refunds: made.map(refundView),
        returned: returned.map(({ at, ...rest }) => ({ ...rest, at: new Date(at).toISOString() })),
        reversals: reversed.map(reversalView),
      };
    },
  );

  app.post(
    '/api/organiser/orders/:order/refunds',
    {
      schema: {
        tags,
        security,
        summary: 'Refund an order or some of its tickets; what is refunded is not valid any more',
        params: OrderParams,
        // A preview needs no key.
        headers: Type.Partial(IdempotencyHeaders),
        body: RefundBody,
      },
    },
    async (request, reply) => {
      const actor = await requireSession(request);
      const {
        tickets = 'all' as const,
        fees = 'returned',
        goodwill = 0,
        seats = 'release',
        pays = true,
        reason,
      } = request.body;
      if (!pays && goodwill > 0) {
        throw problem('invalid_field', {
          field: '/goodwill',
          detail: 'A refund that pays nothing has no goodwill. Leave out pays or goodwill.',
        });
      }
      const wish = { tickets, fees, goodwill, pays };
      const { order } = request.params;
      if (request.body.preview) return previewView(await refunds.preview(order, wish));
      const requestKey = idempotencyKey(request);
      const outcome = await refunds.make({ ...wish, order, requestKey, actor, reason, seats });
      if (outcome.kind !== 'made' && outcome.kind !== 'repeated') throw problemOfRefund(outcome);
      reply.code(outcome.kind === 'made' ? 201 : 200);
      return { ...refundView(outcome.refund), orderState: outcome.order.state };
    },
  );

  app.get(
    '/api/organiser/events/:event/refunds',
    {
      schema: {
        tags,
        security,
        summary: 'Refunds of an event, newest first',
        params: EventParams,
        querystring: Type.Object({
          state: Type.Optional(State),
          before: Type.Optional(Type.String({ format: 'date-time', maxLength: 40 })),
        }),
      },
    },
    async (request) => {
      await requireSession(request);
      const event = await eventOf(events, request.params.event);
      const { state, before } = request.query;
      const found = await refundRecord.list(event.eventNo, {
        limit: refundsMax,
        ...(state === undefined ? {} : { states: [state] }),
        ...(before === undefined ? {} : { before: timeOf('before', before) }),
      });
      return { refunds: found.map(refundView) };
    },
  );

  app.post(
    '/api/organiser/refunds/:refund/retry',
    { schema: { tags, security, summary: 'Try a failed refund again', params: RefundParams } },
    async (request) => {
      const actor = await requireSession(request);
      return decidedView(await refunds.retry(request.params.refund, actor));
    },
  );

  app.post(
    '/api/organiser/refunds/:refund/elsewhere',
    {
      schema: {
        tags,
        security,
        summary: 'A failed refund was given back by other means: nothing more is owed',
        params: RefundParams,
        body: Type.Object({ note: Reason }, { additionalProperties: false }),
      },
    },
    async (request) => {
      const actor = await requireSession(request);
      return decidedView(await refunds.elsewhere(request.params.refund, actor, request.body.note));
    },
  );
}

function registerCancellations(
  root: FastifyInstance,
  deps: OrganiserRefundsDeps,
  requireSession: Require,
): void {
  const { events, cancelEvent, cancellations } = deps;
  const app = root.withTypeProvider<TypeBoxTypeProvider>();

  async function cancellationOf(id: string): Promise<{ event: EventRecord; now: Cancellation }> {
    const event = await eventOf(events, id);
    const now = await cancellations.find(event.eventNo);
    if (!now) throw problem('not_cancelled');
    return { event, now };
  }

  app.post(
    '/api/organiser/events/:event/cancellation',
    {
      schema: {
        tags,
        security,
        summary: 'Cancel the event and refund its orders; asks for a confirmation first',
        params: EventParams,
        body: CancellationBody,
      },
    },
    async (request, reply) => {
      const actor = await requireSession(request);
      const event = await eventOf(events, request.params.event);
      const { confirmation, ...given } = request.body;
      const wish = { ...cancellationDefaults, ...given };
      if (event.phase === 'draft') throw problem('phase_impossible', { detail: 'A draft has no orders.' });
      if (confirmation === undefined) {
        if (await cancellations.find(event.eventNo)) throw problem('event_cancelled');
        const { shown, code, livesMs } = await cancelEvent.ask(event.eventNo, wish, actor);
        return reply.code(202).send({ ...shown, wish, confirmation: code, confirmWithinMs: livesMs });
      }
      const outcome = await cancelEvent.confirm(event.eventNo, wish, actor, confirmation);
      events.forget(event);
      switch (outcome.kind) {
        case 'started':
          return reply.code(201).send(cancellationView(event, await cancellations.find(event.eventNo)));
        case 'already':
          throw problem('event_cancelled');
        case 'not_confirmed':
          throw problem('not_confirmed');
        case 'not_published':
          throw problem('phase_impossible', { detail: 'A draft has no orders.' });
        default:
          return impossible(outcome, 'cancellation outcome');
      }
    },
  );

  app.get(
    '/api/organiser/events/:event/cancellation',
    {
      schema: { tags, security, summary: 'How far the cancelling has come', params: EventParams },
    },
    async (request) => {
      await requireSession(request);
      const { event, now } = await cancellationOf(request.params.event);
      return cancellationView(event, now);
    },
  );

  app.get(
    '/api/organiser/events/:event/cancellation/orders',
    {
      schema: {
        tags,
        security,
        summary: 'What became of each order, in pages: `after` is the last order of the page before',
        params: EventParams,
        querystring: Type.Object({ after: Type.Optional(Uuid) }),
      },
    },
    async (request) => {
      await requireSession(request);
      const { event } = await cancellationOf(request.params.event);
      const { after = null } = request.query;
      const found = await cancellations.outcomes(event.eventNo, after, outcomesMax);
      const next = found.length === outcomesMax ? found.at(-1)!.order : null;
      return { orders: found, next };
    },
  );

  app.post(
    '/api/organiser/events/:event/cancellation/retry',
    {
      schema: {
        tags,
        security,
        summary: 'Try all failed refunds of a cancelled event again',
        params: EventParams,
      },
    },
    async (request) => {
      const actor = await requireSession(request);
      const { event } = await cancellationOf(request.params.event);
      return { refunds: (await cancellations.retryFailed(event.eventNo, actor)) ?? 0 };
    },
  );
}

async function eventOf(events: Events, id: string): Promise<EventRecord> {
  const event = await events.find(id);
  if (!event) throw problem('unknown_event');
  return event;
}

function previewView(outcome: RefundPreview) {
  if (outcome.kind !== 'refund') throw problemOfRefund(outcome);
  const { kind: _kind, last, ...sums } = outcome;
  return { preview: true, ...sums, orderEnds: last };
}

/** Why nothing was refunded. */
export function problemOfRefund(
  outcome: Exclude<RefundOutcome, { kind: 'made' | 'repeated' }> | Exclude<RefundPreview, { kind: 'refund' }>,
): Problem {
  switch (outcome.kind) {
    case 'unknown_order':
      return problem('unknown_order');
    case 'mismatch':
      return problem('idempotency_mismatch');
    case 'not_paid':
      return problem('not_refundable', {
        ...(outcome.order.state === 'confirmed' && {
          detail:
            'Its payment is not complete yet. If that does not end within a minute, decide about it on the list of payments that need a decision.',
        }),
        extra: { state: outcome.order.state },
      });
    case 'not_valid':
      return problem('tickets_not_valid', { field: '/tickets', extra: { tickets: outcome.tickets } });
    case 'too_much':
      return problem('refund_too_much', { extra: { amount: outcome.amount, most: outcome.most } });
    case 'nothing':
      return problem('invalid_field', { field: '/tickets', detail: 'There is nothing left to refund.' });
    default:
      return impossible(outcome, 'refund outcome');
  }
}

function decidedView(
  outcome:
    | { kind: 'retried' | 'elsewhere' | 'decided' | 'gone_back'; refund: Refund }
    | { kind: 'unknown_refund' },
) {
  if (outcome.kind === 'unknown_refund') throw problem('unknown_refund');
  if (outcome.kind === 'gone_back') throw problem('refund_decided', { detail: goneBack });
  if (outcome.kind === 'decided') {
    throw problem('refund_decided', { extra: { state: outcome.refund.state } });
  }
  return refundView(outcome.refund);
}

function refundView({ eventNo: _eventNo, createdAt, updatedAt, ...rest }: Refund) {
  return {
    ...rest,
    createdAt: new Date(createdAt).toISOString(),
    updatedAt: new Date(updatedAt).toISOString(),
  };
}

/** A refund that was made at the provider, or a dispute. */
function reversalView({ order: _order, object: _object, createdAt, updatedAt, ...rest }: Reversal) {
  return {
    ...rest,
    createdAt: new Date(createdAt).toISOString(),
    updatedAt: new Date(updatedAt).toISOString(),
  };
}

/** As printed; null where the plan has none of these words. */
function placeOf(seat: SeatFacts | undefined) {
  return seat ? { section: seat.sectionId, row: seat.row, seat: seat.label } : null;
}

function orderView(order: Order) {
  const { order: id, event, state, reason, buyer, amount, currency, createdAt } = order;
  return {
    order: id,
    event,
    state,
    reason,
    buyer,
    amount,
    currency,
    createdAt: new Date(createdAt).toISOString(),
  };
}

function cancellationView(event: EventRecord, now: Cancellation | null) {
  if (!now) throw problem('not_cancelled');
  const { eventNo: _eventNo, startedAt, finishedAt, waitsFor, ...rest } = now;
  return {
    event: event.event,
    ...rest,
    startedAt: new Date(startedAt).toISOString(),
    finishedAt: finishedAt === null ? null : new Date(finishedAt).toISOString(),
    waitsFor: waitsFor.map(({ since, attention, operation, ...one }) => ({
      ...one,
      entry: `operation-${operation}`,
      attention,
      why: entryWords(attention ?? 'outcome_unknown').title,
      since: new Date(since).toISOString(),
    })),
    text: cancellationText(event.name, now),
  };
}
