import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { Events } from '../catalogue/events.ts';
import { problem } from '../core/problems.ts';
import {
  type CheckInOutcome,
  checkIn,
  type EntryUse,
  entryBounds,
  entryCounts,
  entryDoubles,
  recordTime,
  undoEntry,
  uploadScans,
} from '../fulfilment/entry.ts';
import { gateListOf, publicKeysOf } from '../fulfilment/gate-list.ts';
import { type ScanOutcome, takeScans } from '../fulfilment/offline-scans.ts';
import { placeOf } from '../fulfilment/place.ts';
import { codeRefusals, type TicketCode } from '../fulfilment/ticket-code.ts';
import type { TicketKeyring } from '../fulfilment/ticket-keys.ts';
import { oneLine, timeOf, uuidPattern } from '../operate/operation.ts';
import type { EventRecord } from '../orders/record.ts';
import { revokedTickets } from '../orders/refunds.ts';
import type { Db } from '../postgres/db.ts';
import { iso } from './answers.ts';

export interface OrganiserEntryDeps {
  db: Db;
  events: Pick<Events, 'find' | 'findByNo' | 'house'>;
  ticketKeys: TicketKeyring;
}

const security = [{ organiser: [] }];
const tags = ['organiser'];
const codeLengthMax = 1_000;
/** Fits `entryBounds.scansMax` scans. One of our codes has 149 characters. */
const scansBytesMax = 512 * 1024;
const EventParams = Type.Object({ event: Type.String({ maxLength: 40 }) });

const Gate = oneLine(entryBounds.gateLengthMax);

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
    gate: Type.Optional(Gate),
    scan: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: entryBounds.scanLengthMax,
        description:
          'A new text for each scan, the same one when its gate repeats the request: a repeat has the first answer again.',
      }),
    ),
  },
  { additionalProperties: false },
);

const instant = Type.String({ format: 'date-time', maxLength: 40 });

const UndoBody = Type.Object(
  {
    code: Type.Optional(Type.String({ maxLength: codeLengthMax, description: 'What the QR code shows.' })),
    ticket: Type.Optional(
      Type.String({ pattern: uuidPattern, description: 'Instead of the code; asks for `event`.' }),
    ),
    event: Type.Optional(Type.String({ maxLength: 40 })),
    at: Type.Optional({
      ...instant,
      description: 'Of the check-in that was the mistake: a repeat of this request undoes no later one.',
    }),
    reason: oneLine(entryBounds.reasonLengthMax),
  },
  { additionalProperties: false },
);

const ScansBody = Type.Object(
  {
    scans: Type.Array(
      Type.Object(
        {
          code: Type.String({ maxLength: codeLengthMax }),
          scan: Type.String({ minLength: 1, maxLength: entryBounds.scanLengthMax }),
          gate: Type.Optional(Gate),
          at: { ...instant, description: 'When it was scanned, by the gate’s clock.' },
        },
        { additionalProperties: false },
      ),
      { minItems: 1, maxItems: entryBounds.scansMax },
    ),
  },
  { additionalProperties: false },
);

type Require = (request: FastifyRequest) => Promise<string>;

/** Check-in at the gate: verifies codes, marks their first use, and exports what an offline gate needs. */
export function registerOrganiserEntry(
  root: FastifyInstance,
  deps: OrganiserEntryDeps,
  requireSession: Require,
): void {
  const { db, events, ticketKeys } = deps;
  const app = withTypes(root);

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
      const read = await ticketKeys.verify(code);
      // All codes that we did not issue look the same to the person at the gate.
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
    {
      schema: {
        tags,
        security,
        summary: 'How many came in, by gate, and the tickets that more than one came in with',
        description: `\`doubleUses\`: the newest ${entryBounds.scansMax}, each with all of its uses: when, where, who told of it.`,
        params: EventParams,
      },
    },
    async (request) => {
      await requireSession(request);
      const event = await eventOf(request.params.event);
      const [{ gates, ...counts }, doubles] = await Promise.all([
        entryCounts(db, event.eventNo),
        entryDoubles(db, event.eventNo),
      ]);
      const house = doubles.length > 0 ? await events.house(event) : null;
      return {
        event: event.event,
        ...counts,
        gates: gates.map((one) => ({ ...one, lastAt: iso(one.lastAt) })),
        doubleUses: doubles.map(({ ticket, seat, uses }) => ({
          ticket,
          seat: house && seat !== null ? placeOf(house, seat) : null,
          uses: uses.map(useView),
        })),
      };
    },
  );

  registerCorrections(app, { ...deps, eventOf }, requireSession);

  app.get(
    '/api/organiser/ticket-key',
    {
      schema: {
        tags,
        security,
        summary: 'The public keys that ticket codes are signed with (Ed25519, PEM)',
        description:
          '`publicKey`: the present one. `keys`: all of this installation’s, that one first; a code names its own by `keyId`.',
      },
    },
    async (request) => {
      await requireSession(request);
      return publicKeysOf(await ticketKeys.all());
    },
  );

  app.get(
    '/api/organiser/events/:event/gate-list',
    {
      schema: {
        tags,
        security,
        summary:
          'For gates without a network: the public keys, the tickets that were revoked, and where each seat is',
        description:
          '`asOf` says how old it is: what was revoked later is not in it. `onsale ticket verify` reads it.',
        params: EventParams,
      },
    },
    async (request) => {
      await requireSession(request);
      const event = await eventOf(request.params.event);
      const asOf = await recordTime(db);
      const revoked = await revokedTickets(db, event.eventNo);
      const house = event.layoutHash ? await events.house(event) : null;
      return gateListOf({ event, asOf, keys: await ticketKeys.all(), revoked, house });
    },
  );
}

const nobodyThen =
  'This ticket was not checked in at that time, or the check-in was taken back before. There is nothing to take back.';

type App = ReturnType<typeof withTypes>;
const withTypes = (root: FastifyInstance) => root.withTypeProvider<TypeBoxTypeProvider>();

/** Late corrections: a check-in made by mistake, and scans of gates that were offline. */
function registerCorrections(
  app: App,
  deps: OrganiserEntryDeps & { eventOf(id: string): Promise<EventRecord> },
  requireSession: Require,
): void {
  const { db, events, ticketKeys, eventOf } = deps;

  app.post(
    '/api/organiser/checkin/undo',
    {
      schema: {
        tags,
        security,
        summary: 'Take back a check-in that was a mistake',
        description:
          'The ticket may be used again, unless somebody else came in with it at a gate without a network: `next` is that use.',
        body: UndoBody,
      },
    },
    async (request) => {
      const actor = await requireSession(request);
      const { code, ticket: named, event: wanted, at, reason } = request.body;
      const here = wanted === undefined ? null : await eventOf(wanted);
      const read = code === undefined ? null : await ticketKeys.verify(code);
      if (read && read.kind !== 'valid') {
        throw problem('unknown_ticket', { field: '/code', detail: codeRefusals[read.kind] });
      }
      if (!read && (named === undefined || !here)) {
        throw problem('invalid_request', { detail: 'Name the code, or the ticket and its event.' });
      }
      const its = read ? await events.findByNo(read.code.event) : here;
      const ticket = read ? read.code.ticket : named!;
      const field = read ? '/code' : '/ticket';
      if (!its) throw problem('unknown_ticket', { field });
      if (here && here.eventNo !== its.eventNo) {
        throw problem('unknown_ticket', { field, detail: 'This ticket is for another event.' });
      }
      const time = at === undefined ? null : timeOf('/at', at);
      const outcome = await undoEntry(db, { event: its.eventNo, ticket, at: time, reason, actor });
      if (outcome.kind === 'unknown') throw problem('unknown_ticket', { field });
      if (outcome.kind === 'not_entered') {
        throw problem('not_entered', at === undefined ? {} : { detail: nobodyThen });
      }
      const { seat, next, gate } = outcome;
      const house = await events.house(its);
      return {
        result: outcome.kind,
        event: its.event,
        ticket,
        at: iso(outcome.at),
        gate,
        seat: seat === null ? null : placeOf(house, seat),
        next: next && { ...next, at: iso(next.at) },
      };
    },
  );

  app.post(
    '/api/organiser/events/:event/entries',
    {
      bodyLimit: scansBytesMax,
      schema: {
        tags,
        security,
        summary: 'Take in the scans of a gate that had no network',
        description: `Up to ${entryBounds.scansMax}. One answer a scan, in their order: \`entered\` (the ticket’s first use), \`double\` (somebody came in with it before), \`revoked\` (\`why\`; it was valid no more when it was scanned), \`undone\`, \`other_event\`, \`forged\`. The earliest use of a ticket is its first; \`others\`: all its other ones. The same scans again change nothing.`,
        params: EventParams,
        body: ScansBody,
      },
    },
    async (request) => {
      const actor = await requireSession(request);
      const event = await eventOf(request.params.event);
      const written = request.body.scans.map(({ gate = null, at, ...one }, i) => ({
        ...one,
        gate,
        at: timeOf(`/scans/${i}/at`, at),
      }));
      const { verify } = ticketKeys;
      const outcomes = await takeScans({ verify, event: event.eventNo }, written, (scans) =>
        uploadScans(db, event.eventNo, scans, actor),
      );
      const house = await events.house(event);
      return { event: event.event, scans: outcomes.map((one) => scanView(house, one)) };
    },
  );
}

const useView = (use: EntryUse) => ({ ...use, at: iso(use.at) });

function scanView(house: Awaited<ReturnType<Events['house']>>, outcome: ScanOutcome) {
  const { kind, at, ...more } = outcome;
  if (!('ticket' in more)) return { result: kind, at: iso(at), ...more };
  const { seat, why, others, ...rest } = more;
  return {
    result: kind,
    at: iso(at),
    ...rest,
    seat: seat === null ? null : placeOf(house, seat),
    ...(why && { why }),
    ...(others && { others: others.map(useView) }),
  };
}

function resultOf(outcome: CheckInOutcome) {
  if (outcome.kind === 'revoked') return { result: outcome.kind, why: outcome.why };
  const { kind, at, gate, ticketKind } = outcome;
  // For other outcomes `repeated` would say nothing: another scan was let in, or this scan no longer counts.
  const again = kind === 'valid' ? { repeated: outcome.repeated } : {};
  return { result: kind, ...again, at: iso(at), gate, kind: ticketKind };
}

/** Where the ticket's seat is in the event's plan, so that gate staff can help. Never includes who the holder is. */
async function ticketView(events: OrganiserEntryDeps['events'], event: EventRecord, code: TicketCode) {
  const house = await events.house(event);
  return {
    event: event.event,
    eventName: event.name,
    ticket: code.ticket,
    seat: placeOf(house, code.seat),
  };
}
