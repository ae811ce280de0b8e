import { type Static, Type } from 'typebox';
import type { RefundOutcome, RefundPreview } from '../checkout/refunds.ts';
import { amountMax } from '../core/money.ts';
import { orderStates } from '../core/order.ts';
import { impossible } from '../core/outcome.ts';
import { type Problem, problem } from '../core/problems.ts';
import type { SeatFacts } from '../core/seat-map.ts';
import { accountOf } from '../orders/accounts.ts';
import type { Order } from '../orders/record.ts';
import { goneBack, type Refund, refundStates } from '../orders/refunds.ts';
import type { Reversal } from '../orders/reversals.ts';
import type { OperateDeps } from './deps.ts';
import { eventOf } from './event-of.ts';
import { EventParams, Instant, iso, nullable, oneLine, operation, timeOf, uuidPattern } from './operation.ts';

// Orders as the organiser sees them, and refunds. The workers give the money back.

const reasonLengthMax = 200;
const ordersMax = 50;
/** Refunds of a page. */
export const refundsMax = 200;

export const Uuid = Type.String({ pattern: uuidPattern });
export const Reason = oneLine(reasonLengthMax);
export const Fees = Type.Enum(['returned', 'kept'], {
  description:
    '`returned`: the fees of the tickets too, and the order’s when no ticket stays valid. `kept`: neither.',
});
export const Seats = Type.Enum(['release', 'block'], {
  description: '`release`: free for the next buyer. `block`: kept back, with the reason.',
});
const Amount = (description?: string) => Type.Integer(description ? { description } : {});

export const RefundView = Type.Object({
  refund: Type.String(),
  order: Type.String(),
  cancellation: Type.Boolean({ description: 'Made by the cancellation of the event.' }),
  actor: Type.String(),
  reason: Type.String(),
  feesKept: Amount(),
  orderFee: Amount(),
  goodwill: Amount(),
  amount: Amount('Minor units, like the other sums.'),
  currency: Type.String(),
  state: Type.Enum([...refundStates]),
  detail: nullable(
    Type.String({
      description: 'Why it waits or failed, in the words of the provider; how it was given back elsewhere.',
    }),
  ),
  tickets: Type.Array(Type.String(), { description: 'Tickets that it cancelled.' }),
  attempts: Type.Integer(),
  createdAt: Instant,
  updatedAt: Instant,
});

const OrderView = Type.Object({
  order: Type.String(),
  event: Type.String(),
  state: Type.Enum([...orderStates]),
  reason: nullable(Type.String()),
  buyer: Type.Object({ name: Type.String(), email: Type.String() }),
  amount: Amount('Minor units.'),
  currency: Type.String(),
  createdAt: Instant,
});

const TicketView = Type.Object({
  ticket: Type.String(),
  seat: Type.Integer(),
  price: Amount(),
  fee: Amount(),
  valid: Type.Boolean({ description: 'The gate admits it.' }),
  refundable: Type.Boolean({ description: 'Not refunded yet.' }),
  place: nullable(Type.Object({ section: Type.String(), row: Type.String(), seat: Type.String() })),
});

const ReversalView = Type.Object({
  reversal: Type.String({ description: 'The provider’s id of the refund or the dispute.' }),
  kind: Type.Enum(['refund', 'dispute']),
  amount: Amount(),
  currency: Type.String(),
  state: Type.Enum(['pending', 'done', 'failed', 'open', 'won', 'lost']),
  taken: Amount('In the currency of the order, what can no longer be refunded.'),
  detail: Type.Object({}, { additionalProperties: true }),
  createdAt: Instant,
  updatedAt: Instant,
});

export const findOrders = operation({
  id: 'findOrders',
  method: 'GET',
  path: '/events/:event/orders',
  summary: 'Orders of one buyer, newest first',
  params: EventParams,
  query: Type.Object({ email: Type.String({ minLength: 3, maxLength: 254 }) }),
  output: Type.Object({ orders: Type.Array(OrderView) }),
  problems: ['unknown_event'],
  async run(deps: OperateDeps, { event: id, email }) {
    const event = await eventOf(deps.events, id);
    const { refundRecord } = deps.refundServices;
    const found = await refundRecord.ordersOf(event.eventNo, accountOf(email), ordersMax);
    return { orders: found.map(orderView) };
  },
});

export const getOrder = operation({
  id: 'getOrderOfBuyer',
  method: 'GET',
  path: '/orders/:order',
  summary: 'An order with its tickets and refunds, and what left its payment without us',
  params: Type.Object({ order: Uuid }),
  output: Type.Object({
    ...OrderView.properties,
    tickets: Type.Array(TicketView),
    refunds: Type.Array(RefundView),
    returned: Type.Array(Type.Object({ amount: Amount(), at: Instant, object: Type.String() }), {
      description: 'Money that was taken without a sale and given back.',
    }),
    reversals: Type.Array(ReversalView, { description: 'Refunds made at the provider, and disputes.' }),
  }),
  problems: ['unknown_order'],
  async run(deps: OperateDeps, { order: id }) {
    const { events } = deps;
    const { orders, refundRecord, reversals } = deps.refundServices;
    const order = await orders.findOrder(id);
    if (!order) throw unknownOrder(id);
    const [tickets, refunds, returned, reversed] = await Promise.all([
      refundRecord.paidTickets(order.eventNo, order.order),
      refundRecord.ofOrder(order.order),
      refundRecord.returned(order.order),
      reversals.ofOrder(order.order),
    ]);
    const event = await events.findByNo(order.eventNo);
    const seatOf = event?.layoutHash ? (await events.venue(event)).seats : [];
    return {
      ...orderView(order),
      // A ticket of a cancelled event is not valid, even before the refund run has reached its order.
      tickets: tickets.map(({ valid, ...ticket }) => ({
        ...ticket,
        valid: valid && event?.phase !== 'cancelled',
        refundable: valid,
        place: placeOf(seatOf[ticket.seat]),
      })),
      refunds: refunds.map(refundView),
      returned: returned.map(({ at, ...rest }) => ({ ...rest, at: iso(at) })),
      reversals: reversed.map(reversalView),
    };
  },
});

export const refundOrder = operation({
  id: 'refundOrder',
  method: 'POST',
  path: '/orders/:order/refunds',
  summary: 'Refund an order or some of its tickets; what is refunded is not valid any more',
  description: 'Needs an Idempotency-Key, except for a preview. 200: a preview, or a repeat.',
  params: Type.Object({ order: Uuid }),
  requestKey: 'optional',
  body: Type.Object(
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
  ),
  output: Type.Union([
    Type.Object({ ...RefundView.properties, orderState: Type.Enum([...orderStates]) }),
    Type.Object({
      preview: Type.Literal(true),
      tickets: Type.Array(Type.String()),
      feesKept: Amount(),
      orderFee: Amount(),
      goodwill: Amount(),
      amount: Amount('Minor units, like the other sums.'),
      orderEnds: Type.Boolean({ description: 'No ticket of the order stays valid.' }),
    }),
  ]),
  statuses: [201, 200],
  problems: [
    ...(['unknown_order', 'invalid_field', 'idempotency_key_required', 'idempotency_mismatch'] as const),
    ...(['not_refundable', 'tickets_not_valid', 'refund_too_much'] as const),
  ],
  async run(deps: OperateDeps, { order, ...body }, caller) {
    const { tickets = 'all' as const, fees = 'returned', goodwill = 0, pays = true } = body;
    if (!pays && goodwill > 0)
      throw problem('invalid_field', {
        field: '/goodwill',
        detail: 'A refund that pays nothing has no goodwill. Leave out pays or goodwill.',
      });
    const request = { tickets, fees, goodwill, pays };
    const { refunds } = deps.refundServices;
    if (body.preview) return previewView(order, await refunds.preview(order, request));
    const requestKey = caller.requestKey();
    const { reason, seats = 'release' } = body;
    const outcome = await refunds.make({ ...request, order, requestKey, actor: caller.actor, reason, seats });
    if (outcome.kind !== 'made' && outcome.kind !== 'repeated') throw problemOfRefund(order, outcome);
    caller.status(outcome.kind === 'made' ? 201 : 200);
    return { ...refundView(outcome.refund), orderState: outcome.order.state };
  },
});

export const listRefunds = operation({
  id: 'listRefunds',
  method: 'GET',
  path: '/events/:event/refunds',
  summary: 'Refunds of an event, newest first',
  description: `Pages of ${refundsMax} or a few more; \`before\` is the \`createdAt\` of the last one of the page before.`,
  params: EventParams,
  query: Type.Object({
    state: Type.Optional(Type.Enum([...refundStates])),
    before: Type.Optional(Instant),
  }),
  output: Type.Object({ refunds: Type.Array(RefundView) }),
  problems: ['unknown_event', 'invalid_field'],
  async run(deps: OperateDeps, { event: id, state, before }) {
    const event = await eventOf(deps.events, id);
    const { refundRecord } = deps.refundServices;
    const found = await refundRecord.list(event.eventNo, {
      limit: refundsMax,
      ...(state === undefined ? {} : { states: [state] }),
      ...(before === undefined ? {} : { before: timeOf('before', before) }),
    });
    return { refunds: found.map(refundView) };
  },
});

export const retryRefund = operation({
  id: 'retryRefund',
  method: 'POST',
  path: '/refunds/:refund/retry',
  summary: 'Try a failed refund again',
  params: Type.Object({ refund: Uuid }),
  output: RefundView,
  problems: ['unknown_refund', 'refund_decided'],
  async run(deps: OperateDeps, { refund }, { actor }) {
    const { refunds } = deps.refundServices;
    return decidedView(await refunds.retry(refund, actor));
  },
});

export const settleRefund = operation({
  id: 'settleRefund',
  method: 'POST',
  path: '/refunds/:refund/elsewhere',
  summary: 'A failed refund was given back by other means: nothing more is owed',
  params: Type.Object({ refund: Uuid }),
  body: Type.Object({ note: Reason }, { additionalProperties: false }),
  output: RefundView,
  problems: ['unknown_refund', 'refund_decided'],
  async run(deps: OperateDeps, { refund, note }, { actor }) {
    const { refunds } = deps.refundServices;
    return decidedView(await refunds.elsewhere(refund, actor, note));
  },
});

function previewView(order: string, outcome: RefundPreview) {
  if (outcome.kind !== 'refund') throw problemOfRefund(order, outcome);
  const { kind: _kind, last, ...sums } = outcome;
  return { preview: true as const, ...sums, orderEnds: last };
}

function unknownOrder(order: string): Problem {
  return problem('unknown_order', { detail: `There is no order ${order}.` });
}

/** Why nothing was refunded. */
function problemOfRefund(
  order: string,
  outcome: Exclude<RefundOutcome, { kind: 'made' | 'repeated' }> | Exclude<RefundPreview, { kind: 'refund' }>,
): Problem {
  switch (outcome.kind) {
    case 'unknown_order':
      return unknownOrder(order);
    case 'mismatch':
      return problem('idempotency_mismatch');
    case 'not_paid':
      return problem('not_refundable', {
        ...(outcome.order.state === 'confirmed' && {
          detail:
            'Its payment is not complete yet. If that does not end within a minute, decide about it on the list of payments that need a decision.',
        }),
        ...(outcome.order.state === 'cancelled' && {
          detail: 'The order is cancelled: all of its tickets were refunded, or its capture was refused.',
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
  if (outcome.kind === 'decided') throw problem('refund_decided', { extra: { state: outcome.refund.state } });
  return refundView(outcome.refund);
}

function refundView({ eventNo: _eventNo, createdAt, updatedAt, ...rest }: Refund): Static<typeof RefundView> {
  return { ...rest, createdAt: iso(createdAt), updatedAt: iso(updatedAt) };
}

function reversalView({ order: _order, object: _object, createdAt, updatedAt, ...rest }: Reversal) {
  return { ...rest, createdAt: iso(createdAt), updatedAt: iso(updatedAt) };
}

/** As printed. Null for a seat that the plan does not have any more. */
function placeOf(seat: SeatFacts | undefined) {
  return seat ? { section: seat.sectionId, row: seat.row, seat: seat.label } : null;
}

function orderView(order: Order): Static<typeof OrderView> {
  const { order: id, event, state, reason, buyer, amount, currency, createdAt } = order;
  return { order: id, event, state, reason, buyer, amount, currency, createdAt: iso(createdAt) };
}

export const refundOperations = [findOrders, getOrder, refundOrder, listRefunds, retryRefund, settleRefund];
