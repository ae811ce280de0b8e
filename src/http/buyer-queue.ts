import { problemOfPhase } from '../booking/refusals.ts';
import { demandRights } from '../booking/rights.ts';
import type { EventId } from '../core/hold.ts';
import { impossible } from '../core/outcome.ts';
import { allows } from '../core/phase.ts';
import { noRights } from '../core/prices.ts';
import { problem } from '../core/problems.ts';
import { eventPattern } from '../operate/operation.ts';
import type { EventRecord } from '../orders/record.ts';
import type { QueueTicket } from '../waiting-room/credentials.ts';
import { sessionMs, shardOf } from '../waiting-room/waiting-room.ts';
import type { QueueTicketAnswer } from './api-types.ts';
import { createBounds } from './bounds.ts';
import type { HttpDeps } from './deps.ts';
import type { App } from './routes.ts';
import { EventParams, PassBody, PassSchema, problemResponses, QueueTicketSchema } from './schemas.ts';
import { createVisitors } from './visitor.ts';

export function registerQueue(app: App, deps: HttpDeps): void {
  const { credentials, joins, room, random, accessCodes } = deps;
  const visitors = createVisitors(deps);
  const bounds = createBounds(deps);

  app.post(
    '/api/events/:event/queue',
    {
      schema: {
        tags: ['queue'],
        operationId: 'joinQueue',
        summary: 'Join the queue',
        description:
          'A number is drawn only when the visitor cookie comes back: without it 428 sets it. A repeat answers the same number. During a presale the line is for those whose access code opens it.',
        params: EventParams,
        response: { 200: QueueTicketSchema, ...problemResponses },
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store');
      const event = await eventOf(deps, request.params.event);
      const visitor = visitors.of(request);
      if (!visitor) {
        visitors.greet(reply);
        throw problem('cookie_required');
      }
      const kept = visitors.ticketOf(request);
      const read = kept ? credentials.readTicket(kept, { event: event.eventNo, visitor }) : null;
      // The signed number is the place in the queue, so no store is needed to return it.
      if (kept && read?.kind === 'valid') return ticketAnswer(kept, read.ticket, true);

      if (event.presale && allows(event.phase, 'join')) {
        demandRights(await accessCodes.of(request, event), event, { ...noRights, presale: true });
      }
      bounds.checkJoin(request, event, visitor);
      // One shard, strict order, unless the event asks for more.
      const shard = shardOf(visitor, event.settings.queueShards ?? 1);
      const outcome = await joins.join(event.eventNo, shard, visitor);
      if (outcome.kind === 'overloaded' || outcome.kind === 'retry')
        throw problem('busy', { retryAfterMs: outcome.afterMs });
      if (outcome.kind === 'not_open') throw problemOfPhase(outcome.phase, outcome.opensAt);
      const ticket = { ...outcome, event: event.eventNo, visitor };
      const text = credentials.signTicket(ticket);
      visitors.keepTicket(reply, event.event, text);
      return ticketAnswer(text, ticket, outcome.repeated);
    },
  );

  app.post(
    '/api/events/:event/pass',
    {
      schema: {
        tags: ['queue'],
        operationId: 'getPass',
        summary: 'Turn a called number into a buying session',
        description:
          'Once per visitor; a repeat answers the same pass. Without `ticket` the one in the cookie is taken. 409 `not_yet` while the number is not called.',
        params: EventParams,
        body: PassBody,
        response: { 200: PassSchema, ...problemResponses },
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store');
      const event = await eventOf(deps, request.params.event);
      const text = request.body.ticket ?? visitors.ticketOf(request);
      if (!text)
        throw problem('invalid_field', { field: '/ticket', detail: 'The body field /ticket is missing.' });
      const visitor = visitors.of(request);
      const read = visitor ? credentials.readTicket(text, { event: event.eventNo, visitor }) : null;
      if (!visitor || read?.kind !== 'valid') throw problem('ticket_refused');
      const { ticket } = read;

      const outcome = await room.redeem({ ...ticket, passId: random.uuid(), sessionMs });
      switch (outcome.kind) {
        case 'issued': {
          const pass = credentials.signPass({ ...outcome, event: event.eventNo, visitor: ticket.visitor });
          return { pass, expiresAt: new Date(outcome.expiresAt).toISOString() };
        }
        case 'over':
          visitors.dropTicket(reply, event.event);
          throw problem('pass_expired');
        case 'not_yet':
          throw problem('not_yet', { extra: { number: ticket.number, frontier: outcome.frontier } });
        case 'wait':
          throw problem('not_yet', {
            detail: 'Your number is called. Many came at once: you are let in in a few seconds.',
            retryAfterMs: outcome.afterMs,
            extra: { number: ticket.number, called: true },
          });
        case 'used':
          throw problem('ticket_refused', { detail: 'This number was redeemed in another browser.' });
        case 'not_open':
          throw problemOfPhase(outcome.phase, event.onSaleAt);
        default:
          return impossible(outcome, 'redeem');
      }
    },
  );
}

function ticketAnswer(text: string, ticket: QueueTicket, repeated: boolean): QueueTicketAnswer {
  return {
    ticket: text,
    number: ticket.number,
    shard: ticket.shard,
    issuedAt: new Date(ticket.issuedAt).toISOString(),
    repeated,
  };
}

const eventForm = new RegExp(eventPattern);

/** The event as buyers may know it: a draft does not exist for them. */
export async function eventOf({ events }: Pick<HttpDeps, 'events'>, id: EventId): Promise<EventRecord> {
  const event = eventForm.test(id) ? await events.find(id) : null;
  if (!event || event.phase === 'draft' || !event.layoutHash) throw problem('unknown_event');
  return event;
}
