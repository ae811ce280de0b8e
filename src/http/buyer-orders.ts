import { createHash } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { toString as qrText } from 'qrcode';
import type { Booking } from '../booking/booking.ts';
import { demandRights } from '../booking/rights.ts';
import { linesOf, seatInfos } from '../booking/seat-lines.ts';
import { checkKind } from '../booking/selection.ts';
import type { Venue } from '../catalogue/events.ts';
import type { PayOutcome } from '../checkout/outcomes.ts';
import type { Hold } from '../core/hold.ts';
import { maximumOf, orderAmount } from '../core/money.ts';
import { assert } from '../core/outcome.ts';
import { areNone, fullKind, rightsNeeded } from '../core/prices.ts';
import { problem } from '../core/problems.ts';
import type { SeatNo } from '../core/seat-map.ts';
import type { EventRecord, Order, OrderLine } from '../orders/record.ts';
import type { RefundState } from '../orders/refunds.ts';
import type { Reversal } from '../orders/reversals.ts';
import { iso, orderAnswer, type PaymentNow, paymentNow } from './answers.ts';
import type { OrderAnswer } from './api-types.ts';
import { createBounds } from './bounds.ts';
import { buyerOf } from './buyer-details.ts';
import type { HttpDeps } from './deps.ts';
import { createMyOrder } from './my-order.ts';
import { problemOfClose, problemOfPay, problemOfReserve } from './outcomes.ts';
import { idempotencyKey } from './request-checks.ts';
import type { App } from './routes.ts';
import {
  HoldParams,
  IdempotencyHeaders,
  OrderBody,
  OrderParams,
  OrderSchema,
  PaymentBody,
  PendingSchema,
  problemResponses,
  TicketsSchema,
} from './schemas.ts';
import { createVisitors } from './visitor.ts';

const tags = ['orders'];
const ticketsOverText =
  'The event was cancelled, and its tickets are not valid any more. What you paid goes back to the card you paid with.';
const orderOrPending = { 200: OrderSchema, 202: PendingSchema, ...problemResponses };

export function registerOrders(app: App, deps: HttpDeps, booking: Booking): void {
  const { credentials, checkout, events, clock, timeZone, accessCodes } = deps;
  const visitors = createVisitors(deps);
  const bounds = createBounds(deps);

  const myOrder = createMyOrder(deps);
  const mine = (request: FastifyRequest<{ Params: { order: string } }>): Promise<Order> =>
    myOrder(request, request.params.order);

  async function answer(order: Order, seen?: PaymentNow): Promise<OrderAnswer> {
    const open = order.state === 'reserved' && !seen;
    const payment = open ? paymentNow(await deps.operations(order.order)) : seen;
    const event = await events.findByNo(order.eventNo);
    assert(event, `the event of order ${order.order} exists`);
    const venue = await events.venue(event);
    const said = orderAnswer(order, event, venue, { serverTime: clock.now(), timeZone }, payment);
    if (order.reason !== 'late_payment') return said;
    const seats = order.lines.map(({ seat }) => seat);
    const near = booking.nearest(event, venue, { kind: 'seats', seats }, [], null);
    return { ...said, near: seatInfos(venue, linesOf(event, venue, near)) };
  }

  async function notePaid({ eventNo, hold }: Order): Promise<void> {
    const event = await events.findByNo(eventNo);
    if (event?.settings.cooldown) deps.cooldowns?.paid(eventNo, hold);
  }

  async function paid(outcome: PayOutcome) {
    if (outcome.kind === 'bought') {
      await notePaid(outcome.order);
      return { status: 200 as const, body: await answer(outcome.order) };
    }
    if (outcome.kind === 'unpaid') return { status: 200 as const, body: await answer(outcome.order) };
    if (outcome.kind !== 'pending') throw problemOfPay(outcome);
    const { order, action, afterMs } = outcome;
    const body = await answer(order, { waiting: action, underWay: true });
    return {
      status: 202 as const,
      body: { ...body, code: 'pending' as const, action, retryAfterMs: afterMs },
    };
  }

  app.post(
    '/api/holds/:hold/order',
    {
      schema: {
        tags,
        operationId: 'createOrder',
        summary: 'Start paying for a hold',
        description:
          'From here the seats are the order’s until its payment deadline. Any repeat answers the same order. `seats` says of which ticket type each is; those that it leaves out are full. With `total` nothing is ordered at another sum.',
        params: HoldParams,
        body: OrderBody,
        response: { 200: OrderSchema, 201: OrderSchema, ...problemResponses },
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store');
      const { buyer, account } = buyerOf(request.body.buyer);
      const visitor = visitors.of(request);
      const { hold, event, id } = await booking.findHold(visitor, request.params.hold);
      const withSecret = async (order: Order): Promise<OrderAnswer> => ({
        ...(await answer(order)),
        secret: credentials.orderSecretOf(order.order),
      });
      if (!hold) {
        // A repeat after the lease went over to its order; otherwise the lease has simply ended.
        const order = await checkout.find(credentials.orderIdOf(id));
        if (!order || order.visitor !== visitor) throw problem('hold_gone');
        return reply.code(200).send(await withSecret(order));
      }
      const lines = chosenLines(request.body, event, await events.venue(event), hold);
      const needed = rightsNeeded(event, event.presale === true, lines);
      let accessCode: string | null = null;
      if (!areNone(needed)) {
        // Its own first request may have taken the code's last use.
        const before = await checkout.find(credentials.orderIdOf(id));
        if (before && before.lines.length > 0) return reply.code(200).send(await withSecret(before));
        const opened = await accessCodes.of(request, event);
        demandRights(opened, event, needed);
        accessCode = opened.code?.id ?? null;
      }
      const { orderFee } = event.settings;
      checkTotal(request.body.total, orderAmount(lines, orderFee), event.currency);
      const outcome = await checkout.reserve({
        hold,
        lines,
        orderFee,
        accessCode,
        currency: event.currency,
        // An account that was verified before the hold takes precedence. An address is only what the buyer typed.
        account: hold.holder === hold.visitor ? account : hold.holder,
        buyer,
      });
      if (outcome.kind !== 'order') throw problemOfReserve(outcome, event.onSaleAt, hold.holder);
      return reply.code(outcome.repeated ? 200 : 201).send(await withSecret(outcome.order));
    },
  );

  app.post(
    '/api/orders/:order/payment',
    {
      schema: {
        tags,
        operationId: 'payOrder',
        summary: 'Pay',
        description:
          'With a payment method or a confirmation token of the provider: card data never comes here. 402 `declined`: try another card with a new key. 503 `payment_unavailable`: no card was tried; send the same again, or a new try, after `retryAfterMs`.',
        params: OrderParams,
        headers: IdempotencyHeaders,
        body: PaymentBody,
        response: orderOrPending,
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store');
      const clientKey = idempotencyKey(request);
      const instrument = instrumentOf(request.body);
      const { order, eventNo, visitor } = await mine(request);
      const event = await events.findByNo(eventNo);
      if (event) bounds.checkClaim('pay', event, visitor);
      const outcome = await checkout.pay({
        order,
        clientKey,
        request: createHash('sha256').update(JSON.stringify(instrument)).digest('base64url'),
        instrument,
        returnUrl: `${deps.publicUrl()}/orders/${order}`,
      });
      const { status, body } = await paid(outcome);
      return reply.code(status).send(body);
    },
  );

  app.post(
    '/api/orders/:order/payment/refresh',
    {
      schema: {
        tags,
        operationId: 'refreshPayment',
        summary: 'Look the payment up and carry on',
        description:
          'After the bank’s page or a lost answer; repeatable. The provider is asked at most once in each back-off interval; in between the answer is what is known. Ask again after `retryAfterMs`.',
        params: OrderParams,
        response: orderOrPending,
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store');
      const { order } = await mine(request);
      const { status, body } = await paid(await checkout.refresh(order));
      return reply.code(status).send(body);
    },
  );

  app.get(
    '/api/orders/:order',
    {
      schema: {
        tags,
        operationId: 'getOrder',
        summary: 'An order of this visitor',
        description: 'For the visitor’s browser, or with `Authorization: Bearer {secret}`.',
        params: OrderParams,
        response: { 200: OrderSchema, ...problemResponses },
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store');
      const order = await mine(request);
      const own = order.visitor === visitors.of(request);
      return {
        ...(await answer(order)),
        ...(await refundsIn(deps, order)),
        ...(await returnedIn(deps, order)),
        ...(own ? { secret: credentials.orderSecretOf(order.order) } : {}),
      };
    },
  );

  app.delete(
    '/api/orders/:order',
    {
      schema: {
        tags,
        operationId: 'closeOrder',
        summary: 'Close an unpaid order and free its seats',
        description:
          '202: it is cancelled and its seats are free, and the reservation on the card is still being lifted (`state` is `voiding`). Nothing will be charged; the order itself says when it is done. Repeatable.',
        params: OrderParams,
        response: { 200: OrderSchema, 202: OrderSchema, ...problemResponses },
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store');
      const outcome = await checkout.close((await mine(request)).order);
      if (outcome.kind !== 'closed' && outcome.kind !== 'closing') throw problemOfClose(outcome);
      return reply.code(outcome.kind === 'closed' ? 200 : 202).send(await answer(outcome.order));
    },
  );

  app.get(
    '/api/orders/:order/tickets',
    {
      schema: {
        tags,
        operationId: 'getTickets',
        summary: 'The tickets, once they are paid for',
        params: OrderParams,
        response: { 200: TicketsSchema, ...problemResponses },
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store');
      const order = await mine(request);
      // The capture is on its way: the codes follow in a moment.
      if (order.state === 'confirmed') throw problem('not_paid', { retryAfterMs: 1_000 });
      if (order.state !== 'paid') throw problem('not_paid', { extra: { state: order.state } });
      const event = await events.findByNo(order.eventNo);
      if (event?.phase === 'cancelled') throw problem('event_cancelled', { detail: ticketsOverText });
      return { tickets: await ticketAnswers(deps, order) };
    },
  );
}

/** The buyer's refunds and their state. A failed refund is still owed, and the organiser has to send it again. */
async function refundsIn(deps: HttpDeps, { order, state }: Order): Promise<Pick<OrderAnswer, 'refunds'>> {
  if (state !== 'paid' && state !== 'cancelled') return {};
  const decided = await deps.refundsOf(order);
  const made = decided.filter(({ amount }) => amount > 0);
  // Money returned by others: refunds made at the provider, and final chargebacks of the buyer's bank.
  const reversed = (await deps.reversalsOf(order)).filter(({ state }) =>
    ['pending', 'done', 'lost'].includes(state),
  );
  if (decided.length + reversed.length === 0) return {};
  return {
    refunds: [...made, ...reversed].map((refund) => ({
      amount: refund.amount,
      state: refundStates[refund.state],
      createdAt: new Date(refund.createdAt).toISOString(),
    })),
  };
}

const refundStates: Record<RefundState | Reversal['state'], 'under_way' | 'done' | 'failed'> = {
  open: 'under_way',
  unknown: 'under_way',
  pending: 'under_way',
  failed: 'failed',
  done: 'done',
  elsewhere: 'done',
  lost: 'done',
  won: 'failed',
};

async function returnedIn(deps: HttpDeps, { order, state }: Order): Promise<Pick<OrderAnswer, 'returned'>> {
  if (state === 'reserved' || state === 'authorised') return {};
  const returned = await deps.returnedOf(order);
  if (returned.length === 0) return {};
  return { returned: returned.map(({ amount, at }) => ({ amount, at: iso(at) })) };
}

async function ticketAnswers(deps: HttpDeps, order: Order) {
  const event = await deps.events.findByNo(order.eventNo);
  assert(event, `the event of order ${order.order} exists`);
  const venue = await deps.events.venue(event);
  const issued = await deps.tickets(order);
  return Promise.all(
    issued.map(async ({ ticket, seat, code }) => {
      const [info] = seatInfos(
        venue,
        order.lines.filter((line) => line.seat === seat),
      );
      assert(info, `seat ${seat} is in its order`);
      const qr = await qrText(code, { type: 'svg', margin: 2, errorCorrectionLevel: 'M' });
      return { ticket, seat: info, code, qr };
    }),
  );
}

/** The hold's seats at the prices of the chosen ticket types. Seats without a choice have the full price. */
function chosenLines(
  { seats: chosen = [] }: { seats?: { seat: number | string; kind: string }[] },
  event: EventRecord,
  venue: Venue,
  hold: Hold,
): OrderLine[] {
  const kinds = new Map<SeatNo, string>();
  for (const [i, { seat, kind }] of chosen.entries()) {
    const no = typeof seat === 'number' ? seat : venue.byGuid.get(seat);
    const field = `/seats/${i}`;
    if (no === undefined || !hold.seats.includes(no)) {
      throw problem('unknown_seat', { field: `${field}/seat`, detail: 'Your hold has no such seat.' });
    }
    if (kinds.has(no)) {
      throw problem('invalid_field', { field: `${field}/seat`, detail: 'The same seat is named twice.' });
    }
    checkKind(event, venue.seats[no]!.category, kind, `${field}/kind`);
    kinds.set(no, kind);
  }
  const inOrder = hold.seats.map((seat) => kinds.get(seat) ?? fullKind);
  return linesOf(event, venue, hold.seats, inOrder);
}

function checkTotal(agreed: number | undefined, amount: number, currency: string): void {
  if (amount > maximumOf(currency)) {
    throw problem('invalid_field', {
      field: '/seats',
      detail: 'So much cannot be paid at once. Order fewer seats.',
    });
  }
  if (agreed !== undefined && agreed !== amount) {
    throw problem('price_differs', { field: '/total', extra: { amount } });
  }
}

type Instrument = { paymentMethod: string } | { confirmationToken: string };

function instrumentOf(body: { paymentMethod?: string; confirmationToken?: string }): Instrument {
  const { paymentMethod, confirmationToken } = body;
  if (paymentMethod !== undefined && confirmationToken === undefined) return { paymentMethod };
  if (confirmationToken !== undefined && paymentMethod === undefined) return { confirmationToken };
  throw problem('invalid_field', {
    field: '/paymentMethod',
    detail: 'Send either paymentMethod or confirmationToken.',
  });
}
