import type { Booking } from '../booking/booking.ts';
import type { Hold, Holder, Visitor } from '../core/hold.ts';
import { problem } from '../core/problems.ts';
import type { EventRecord } from '../orders/record.ts';
import type { AdmissionPass } from '../waiting-room/credentials.ts';
import { holdAnswer, iso } from './answers.ts';
import type { HoldAnswer } from './api-types.ts';
import { createBounds } from './bounds.ts';
import { eventOf } from './buyer-queue.ts';
import type { HttpDeps } from './deps.ts';
import { idempotencyKey } from './request-checks.ts';
import type { App } from './routes.ts';
import {
  EventParams,
  HoldBody,
  HoldParams,
  HoldSchema,
  IdempotencyHeaders,
  problemResponses,
  RecoverBody,
  RecoveringSchema,
} from './schemas.ts';
import { createVisitors } from './visitor.ts';

const tags = ['holds'];

/** Routes of holds. booking/booking.ts tells how a hold is placed. */
export function registerHolds(app: App, deps: HttpDeps, booking: Booking): void {
  const { credentials, events, clock, accessCodes } = deps;
  const visitors = createVisitors(deps);
  const bounds = createBounds(deps);

  const answer = async (
    event: EventRecord,
    hold: Hold,
    selected: { kinds?: readonly string[]; described?: { asAsked: boolean; note?: string } } = {},
  ): Promise<HoldAnswer> =>
    holdAnswer({
      hold,
      event,
      venue: await events.venue(event),
      receipt: credentials.signReceipt(hold),
      // The deadline is by the arbiter’s clock, so the time to compare it with is too, once it is known.
      serverTime: booking.storeTime(event, hold.partition) ?? clock.now(),
      best: selected.described,
      kinds: selected.kinds,
    });

  app.post(
    '/api/events/:event/holds',
    {
      schema: {
        tags,
        operationId: 'holdSeats',
        summary: 'Hold seats',
        description:
          'Named `seats`, or the `best` available. All or nothing, and all within one of the event’s `partitions`. A repeat with the same Idempotency-Key answers the same hold. Ticket types price the answer; they are decided when the order is made, which names them again.',
        params: EventParams,
        headers: IdempotencyHeaders,
        body: HoldBody,
        response: { 200: HoldSchema, 201: HoldSchema, ...problemResponses },
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store');
      const { pass: passText, account, replaces = null, ...selection } = request.body;
      const key = idempotencyKey(request);
      const event = await eventOf(deps, request.params.event);
      const pass = admitted(deps, event, visitors.of(request), passText);
      bounds.checkClaim('hold', event, pass.visitor);
      const buyer = {
        pass,
        holder: () => holderOf(deps, event, pass.visitor, account),
        opened: await accessCodes.of(request, event),
        address: bounds.addressOf(request, event),
        isConnected: () => !request.raw.socket.destroyed,
      };
      const placed = await booking.placeHold({ event, buyer, key, selection, replaces });
      if (placed.kind === 'hold_exists') {
        const { hold } = placed;
        throw problem('hold_exists', { extra: { hold: hold.hold, held: await answer(event, hold) } });
      }
      return reply.code(placed.repeated ? 200 : 201).send(await answer(event, placed.hold, placed));
    },
  );

  app.get(
    '/api/holds/:hold',
    {
      schema: {
        tags,
        operationId: 'getHold',
        summary: 'A hold of this visitor',
        params: HoldParams,
        response: { 200: HoldSchema, ...problemResponses },
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store');
      const { event, hold } = await booking.getHold(visitors.of(request), request.params.hold);
      return await answer(event, hold);
    },
  );

  app.delete(
    '/api/holds/:hold',
    {
      schema: {
        tags,
        operationId: 'releaseHold',
        summary: 'Give the seats back',
        description: 'Repeatable. A hold whose payment has started is closed by its order.',
        params: HoldParams,
        response: { 204: { type: 'null', description: 'Released, now or before' }, ...problemResponses },
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store');
      await booking.releaseHold(visitors.of(request), request.params.hold);
      return reply.code(204).send(null);
    },
  );

  app.post(
    '/api/holds/:hold/recover',
    {
      schema: {
        tags,
        operationId: 'recoverHold',
        summary: 'Recover a hold by its receipt',
        description:
          'After a change of stores the browser shows its receipt by itself; answers the hold as it is.',
        params: HoldParams,
        body: RecoverBody,
        response: { 200: HoldSchema, 202: RecoveringSchema, ...problemResponses },
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store');
      const { hold: id } = request.params;
      const outcome = await booking.recoverHold(visitors.of(request), id, request.body.receipt);
      if (outcome.kind === 'recovered')
        return reply.code(200).send(await answer(outcome.event, outcome.hold));
      return reply.code(202).send({
        code: 'recovering' as const,
        hold: id,
        until: iso(outcome.until),
        retryAfterMs: 3_000,
      });
    },
  );
}

/** The pass, whose visitor has to be the one who brings it (W2). Whether its session has ended is for the arbiter. */
function admitted(
  { credentials }: HttpDeps,
  event: EventRecord,
  visitor: Visitor | null,
  pass: string,
): AdmissionPass {
  const read = visitor ? credentials.readPass(pass, { event: event.eventNo, visitor }) : null;
  if (!read || read.kind === 'invalid') throw problem('pass_refused');
  return read.pass;
}

/** The visitor; the account, where the event asks for one before seats are held, and it has to be proved. */
async function holderOf(
  { accountTokens }: HttpDeps,
  event: EventRecord,
  visitor: Visitor,
  token: string | undefined,
): Promise<Holder> {
  if (!event.settings.accountFirst) return visitor;
  const account = token === undefined ? null : await accountTokens?.read(token, event.event);
  if (!account) throw problem('account_required');
  return account;
}
