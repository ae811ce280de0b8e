import type { KeyObject } from 'node:crypto';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { SeatNo } from '../core/seat-map.ts';
import { sectionNames } from '../core/section-names.ts';
import { gateListOf } from '../fulfilment/gate-list.ts';
import { type TicketCode, verifyTicketCode } from '../fulfilment/ticket-code.ts';
import type { Db } from '../sales/db.ts';
import { type CheckInOutcome, checkIn, entryBounds, entryCounts, recordTime } from '../sales/entry.ts';
import type { Events } from '../sales/events.ts';
import type { EventRecord } from '../sales/record.ts';
import { revokedTickets } from '../sales/refunds.ts';
import { iso } from './answers.ts';
import { problem } from './errors.ts';

export interface OrganiserEntryDeps {
  db: Db;
  events: Pick<Events, 'find' | 'findByNo' | 'house'>;
  publicKey: KeyObject;
}

const security = [{ organiser: [] }];
const tags = ['organiser'];
const codeLengthMax = 1_000;
const EventParams = Type.Object({ event: Type.String({ maxLength: 40 }) });

const CheckInBody = Type.Object(
  {
    code: Type.String({ maxLength: codeLengthMax, description: 'What the QR code shows.' }),
    event: Type.Optional(
      Type.String({
        maxLength: 40,
        description:
          'What is entered here. A gate always names it: without it a ticket of any event is let in.',
      }),
    ),
    gate: Type.Optional(Type.String({ minLength: 1, maxLength: entryBounds.gateLengthMax })),
    scan: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: entryBounds.scanLengthMax,
        description:
          'A new text for each scan, the same one when the request is repeated: a repeat has the first answer again.',
      }),
    ),
  },
  { additionalProperties: false },
);

type Require = (request: FastifyRequest) => Promise<string>;

/** At the door: codes are checked and their first use marked; and what a gate without a network takes with it. */
export function registerOrganiserEntry(
  root: FastifyInstance,
  deps: OrganiserEntryDeps,
  requireSession: Require,
): void {
  const { db, events, publicKey } = deps;
  const app = root.withTypeProvider<TypeBoxTypeProvider>();

  async function eventOf(id: string): Promise<EventRecord> {
    const event = await events.find(id);
    if (!event) throw problem('unknown_event');
    return event;
  }

  app.post(
    '/api/organiser/checkin',
    {
      schema: {
        tags,
        security,
        summary: 'Let the holder of a ticket in, once',
        description:
          '`result`: `valid` (let in), `used` (let in before: `at`, `gate`), `revoked` (`why`), `other_event`, `forged`. Whether the ticket is valid is judged before whether it was used.',
        body: CheckInBody,
      },
    },
    async (request) => {
      const actor = await requireSession(request);
      const { code, event: wanted, gate = null, scan = null } = request.body;
      const here = wanted === undefined ? null : await eventOf(wanted);
      const read = verifyTicketCode(publicKey, code);
      // For whoever stands at the door all of them are the same: a code that we did not issue.
      if (read.kind !== 'valid') return { result: 'forged', why: read.kind };
      const its = await events.findByNo(read.code.event);
      if (here && here.eventNo !== read.code.event) {
        return { result: 'other_event', event: its?.event ?? null, eventName: its?.name ?? null };
      }
      if (!its) return { result: 'revoked', why: 'unknown' };
      const { ticket } = read.code;
      const outcome = await checkIn(db, { event: its.eventNo, ticket, gate, scan, actor });
      return { ...resultOf(outcome), ...(await ticketView(events, its, read.code)) };
    },
  );

  app.get(
    '/api/organiser/events/:event/entries',
    { schema: { tags, security, summary: 'How many came in, by gate', params: EventParams } },
    async (request) => {
      await requireSession(request);
      const event = await eventOf(request.params.event);
      const { gates, ...counts } = await entryCounts(db, event.eventNo);
      return {
        event: event.event,
        ...counts,
        gates: gates.map((one) => ({ ...one, lastAt: iso(one.lastAt) })),
      };
    },
  );

  app.get(
    '/api/organiser/ticket-key',
    {
      schema: { tags, security, summary: 'The public key that ticket codes are signed with (Ed25519, PEM)' },
    },
    async (request) => {
      await requireSession(request);
      return { publicKey: publicKey.export({ format: 'pem', type: 'spki' }).toString() };
    },
  );

  app.get(
    '/api/organiser/events/:event/gate-list',
    {
      schema: {
        tags,
        security,
        summary: 'For gates without a network: the public key and the tickets that were revoked',
        description:
          '`asOf` says how old it is: what was revoked later is not in it. `onsale ticket verify` reads it.',
        params: EventParams,
      },
    },
    async (request) => {
      await requireSession(request);
      const event = await eventOf(request.params.event);
      const asOf = await recordTime(db);
      return gateListOf({ event, asOf, publicKey, revoked: await revokedTickets(db, event.eventNo) });
    },
  );
}

function resultOf(outcome: CheckInOutcome) {
  if (outcome.kind === 'revoked') return { result: outcome.kind, why: outcome.why };
  const { kind, repeated, at, gate, ticketKind } = outcome;
  // For `used` it says nothing: the scan that was let in was another.
  const again = kind === 'valid' ? { repeated } : {};
  return { result: kind, ...again, at: iso(at), gate, kind: ticketKind };
}

/** Where the ticket's holder sits: by the event's plan, so that the door can help. Never who he is. */
async function ticketView(events: OrganiserEntryDeps['events'], event: EventRecord, code: TicketCode) {
  const house = await events.house(event);
  return {
    event: event.event,
    eventName: event.name,
    ticket: code.ticket,
    seat: placeOf(house, code.seat),
  };
}

function placeOf(house: Awaited<ReturnType<Events['house']>>, seat: SeatNo) {
  const facts = house.seats[seat];
  if (!facts) return null;
  const section = sectionNames(house.layout).get(facts.sectionId) ?? facts.sectionId;
  return { seat, section, row: facts.row, number: facts.label };
}
