import { type Static, Type } from 'typebox';
import type { Events } from '../catalogue/events.ts';
import { problem } from '../core/problems.ts';
import {
  type CheckInOutcome,
  type EntryUse,
  entryBounds,
  entryCounts,
  entryDoubles,
  checkIn as recordCheckIn,
  uploadScans as recordScans,
  recordTime,
  undoEntry,
} from '../fulfilment/entry.ts';
import { gateListOf, publicKeysOf } from '../fulfilment/gate-list.ts';
import { type ScanOutcome, takeScans } from '../fulfilment/offline-scans.ts';
import { placeOf } from '../fulfilment/place.ts';
import { codeRefusals, type TicketCode } from '../fulfilment/ticket-code.ts';
import type { EventRecord } from '../orders/record.ts';
import { revokedTickets } from '../orders/refunds.ts';
import type { OperateDeps } from './deps.ts';
import { eventOf } from './event-of.ts';
import { EventParams, Instant, iso, nullable, oneLine, operation, timeOf, uuidPattern } from './operation.ts';

// At the gate: check-ins, late corrections, and what a gate without a network needs.

const codeLengthMax = 1_000;
/** Fits `entryBounds.scansMax` scans. One of our codes has 149 characters. */
const scansBytesMax = 512 * 1024;
const Gate = oneLine(entryBounds.gateLengthMax);
const Code = Type.String({ maxLength: codeLengthMax, description: 'What the QR code shows.' });
const EventName = Type.String({ maxLength: 40 });
const Place = Type.Object({
  seat: Type.Integer(),
  section: Type.String(),
  row: Type.String(),
  number: Type.String(),
});
const Use = { at: Instant, gate: nullable(Type.String()) };
const UseView = Type.Object({ ...Use, actor: Type.String() });

export const checkIn = operation({
  id: 'checkIn',
  method: 'POST',
  path: '/checkin',
  summary: 'Let the holder of a ticket in, once',
  description:
    '`result`: `valid` (let in), `used` (let in before: `at`, `gate`), `revoked` (`why`), `undone` (this scan was taken back), `other_event`, `forged`. Whether the ticket is valid is judged before whether it was used.',
  body: Type.Object(
    {
      code: Code,
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
  ),
  output: Type.Object({
    result: Type.Enum(['valid', 'used', 'revoked', 'undone', 'other_event', 'forged']),
    why: Type.Optional(Type.String({ description: 'Of `revoked` and `forged`.' })),
    repeated: Type.Optional(Type.Boolean()),
    at: Type.Optional(Instant),
    gate: Type.Optional(nullable(Type.String())),
    kind: Type.Optional(Type.String({ description: 'The ticket type.' })),
    event: Type.Optional(nullable(Type.String())),
    eventName: Type.Optional(nullable(Type.String())),
    ticket: Type.Optional(Type.String()),
    seat: Type.Optional(nullable(Place)),
  }),
  problems: ['unknown_event', 'invalid_field'],
  async run({ db, events, ticketKeys }: OperateDeps, request, { actor }) {
    const { code, event: wanted, gate = null, scan = null } = request;
    const here = wanted === undefined ? null : await eventOf(events, wanted);
    const read = await (await ticketKeys()).verify(code);
    // All codes that we did not issue look the same to the person at the gate.
    if (read.kind !== 'valid') return { result: 'forged' as const, why: read.kind };
    const its = await events.findByNo(read.code.event);
    if (here && here.eventNo !== read.code.event) {
      return { result: 'other_event' as const, event: its?.event ?? null, eventName: its?.name ?? null };
    }
    if (!its) return { result: 'revoked' as const, why: 'unknown' };
    const { ticket } = read.code;
    const outcome = await recordCheckIn(db, { event: its.eventNo, ticket, gate, scan, actor });
    return { ...resultOf(outcome), ...(await ticketView(events, its, read.code)) };
  },
});

export const getEntries = operation({
  id: 'getEntries',
  method: 'GET',
  path: '/events/:event/entries',
  summary: 'How many came in, by gate, and the tickets that more than one came in with',
  description: `\`doubleUses\`: the newest ${entryBounds.scansMax}, each with all of its uses: when, where, and who reported it.`,
  params: EventParams,
  output: Type.Object({
    event: Type.String(),
    entered: Type.Integer(),
    tickets: Type.Integer(),
    revoked: Type.Integer({ description: 'Came in with a ticket that was not valid any more.' }),
    gates: Type.Array(
      Type.Object({ gate: nullable(Type.String()), entered: Type.Integer(), lastAt: Instant }),
    ),
    doubleUses: Type.Array(
      Type.Object({ ticket: Type.String(), seat: nullable(Place), uses: Type.Array(UseView) }),
    ),
  }),
  problems: ['unknown_event'],
  async run({ db, events }: OperateDeps, { event: id }) {
    const event = await eventOf(events, id);
    const [{ gates, ...counts }, doubles] = await Promise.all([
      entryCounts(db, event.eventNo),
      entryDoubles(db, event.eventNo),
    ]);
    const venue = doubles.length > 0 ? await events.venue(event) : null;
    return {
      event: event.event,
      ...counts,
      gates: gates.map((one) => ({ ...one, lastAt: iso(one.lastAt) })),
      doubleUses: doubles.map(({ ticket, seat, uses }) => ({
        ticket,
        seat: venue && seat !== null ? placeOf(venue, seat) : null,
        uses: uses.map(useView),
      })),
    };
  },
});

export const undoCheckIn = operation({
  id: 'undoCheckIn',
  method: 'POST',
  path: '/checkin/undo',
  summary: 'Take back a check-in that was a mistake',
  description:
    'The ticket may be used again, unless another person came in with it at a gate without a network: `next` is that use.',
  body: Type.Object(
    {
      code: Type.Optional(Code),
      ticket: Type.Optional(
        Type.String({ pattern: uuidPattern, description: 'Instead of the code; asks for `event`.' }),
      ),
      event: Type.Optional(EventName),
      at: Type.Optional({
        ...Instant,
        description: 'Of the check-in that was the mistake: a repeat of this request undoes no later one.',
      }),
      reason: oneLine(entryBounds.reasonLengthMax),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    result: Type.Literal('undone'),
    event: Type.String(),
    ticket: Type.String(),
    ...Use,
    seat: nullable(Place),
    next: nullable(Type.Object(Use)),
  }),
  problems: ['unknown_event', 'unknown_ticket', 'not_entered', 'invalid_request', 'invalid_field'],
  async run({ db, events, ticketKeys }: OperateDeps, request, { actor }) {
    const { code, ticket: named, event: wanted, at, reason } = request;
    const here = wanted === undefined ? null : await eventOf(events, wanted);
    const read = code === undefined ? null : await (await ticketKeys()).verify(code);
    if (read && read.kind !== 'valid')
      throw problem('unknown_ticket', { field: '/code', detail: codeRefusals[read.kind] });
    if (!read && (named === undefined || !here))
      throw problem('invalid_request', { detail: 'Name the code, or the ticket and its event.' });
    const its = read ? await events.findByNo(read.code.event) : here;
    const ticket = read ? read.code.ticket : named!;
    const field = read ? '/code' : '/ticket';
    if (!its) throw problem('unknown_ticket', { field });
    if (here && here.eventNo !== its.eventNo)
      throw problem('unknown_ticket', { field, detail: 'This ticket is for another event.' });
    const time = at === undefined ? null : timeOf('/at', at);
    const outcome = await undoEntry(db, { event: its.eventNo, ticket, at: time, reason, actor });
    if (outcome.kind === 'unknown') throw problem('unknown_ticket', { field });
    if (outcome.kind === 'not_entered')
      throw problem('not_entered', at === undefined ? {} : { detail: notEnteredThen });
    const { seat, next, gate } = outcome;
    const venue = await events.venue(its);
    return {
      result: outcome.kind,
      event: its.event,
      ticket,
      at: iso(outcome.at),
      gate,
      seat: seat === null ? null : placeOf(venue, seat),
      next: next && { ...next, at: iso(next.at) },
    };
  },
});

const notEnteredThen =
  'This ticket was not checked in at that time, or the check-in was taken back before. There is nothing to take back.';

const ScanView = Type.Object({
  scan: Type.String(),
  result: Type.Enum(['entered', 'double', 'revoked', 'undone', 'other_event', 'forged']),
  ...Use,
  ticket: Type.Optional(Type.String()),
  repeated: Type.Optional(Type.Boolean({ description: 'The scan was known before.' })),
  seat: Type.Optional(nullable(Place)),
  why: Type.Optional(Type.String()),
  others: Type.Optional(Type.Array(UseView)),
});

export const uploadScans = operation({
  id: 'uploadScans',
  method: 'POST',
  path: '/events/:event/entries',
  summary: 'Take in the scans of a gate that had no network',
  description: `Up to ${entryBounds.scansMax}. One answer for each scan, in their order: \`entered\` (the ticket’s first use), \`double\` (another person came in with it before), \`revoked\` (\`why\`; it was not valid any more when it was scanned), \`undone\`, \`other_event\`, \`forged\`. The earliest use of a ticket is its first; \`others\`: all its other ones. The same scans again change nothing.`,
  params: EventParams,
  body: Type.Object(
    {
      scans: Type.Array(
        Type.Object(
          {
            code: Type.String({ maxLength: codeLengthMax }),
            scan: Type.String({ minLength: 1, maxLength: entryBounds.scanLengthMax }),
            gate: Type.Optional(nullable(Gate)),
            at: { ...Instant, description: 'When it was scanned, by the gate’s clock.' },
          },
          { additionalProperties: false },
        ),
        { minItems: 1, maxItems: entryBounds.scansMax },
      ),
    },
    { additionalProperties: false },
  ),
  bodyLimit: scansBytesMax,
  output: Type.Object({ event: Type.String(), scans: Type.Array(ScanView) }),
  problems: ['unknown_event', 'invalid_field'],
  async run({ db, events, ticketKeys }: OperateDeps, { event: id, scans: given }, { actor }) {
    const event = await eventOf(events, id);
    const written = given.map(({ gate = null, at, ...one }, i) => ({
      ...one,
      gate,
      at: timeOf(`/scans/${i}/at`, at),
    }));
    const { verify } = await ticketKeys();
    const outcomes = await takeScans({ verify, event: event.eventNo }, written, (scans) =>
      recordScans(db, event.eventNo, scans, actor),
    );
    const venue = await events.venue(event);
    return { event: event.event, scans: outcomes.map((one) => scanView(venue, one)) };
  },
});

const PublicKey = Type.Object({
  keyId: Type.String({ description: 'Hex: the four bytes of a code after its version.' }),
  publicKey: Type.String({ description: 'Ed25519, PEM (SPKI).' }),
});

export const getTicketKeys = operation({
  id: 'getTicketKeys',
  method: 'GET',
  path: '/ticket-key',
  summary: 'The public keys that ticket codes are signed with (Ed25519, PEM)',
  description:
    '`publicKey`: the present one. `keys`: all of this installation, that one first; a code names its own by `keyId`.',
  output: Type.Object({ publicKey: Type.String(), keys: Type.Array(PublicKey) }),
  problems: [],
  async run({ ticketKeys }: OperateDeps) {
    return publicKeysOf(await allKeys(ticketKeys));
  },
});

export const getGateList = operation({
  id: 'getGateList',
  method: 'GET',
  path: '/events/:event/gate-list',
  summary:
    'For gates without a network: the public keys, the tickets that were revoked, and where each seat is',
  description:
    '`asOf` says how old it is: what was revoked later is not in it. `onsale ticket verify` reads it.',
  params: EventParams,
  output: Type.Object(
    {
      format: Type.String(),
      event: Type.String(),
      eventNo: Type.Integer(),
      eventName: Type.String(),
      asOf: Instant,
      publicKey: Type.String(),
      keys: Type.Array(PublicKey),
      revoked: Type.Array(Type.String()),
      places: Type.Array(Type.Object({}, { additionalProperties: true })),
    },
    { description: '`places`: where each seat is, by ranges of seat_no.' },
  ),
  problems: ['unknown_event'],
  async run({ db, events, ticketKeys }: OperateDeps, { event: id }) {
    const event = await eventOf(events, id);
    const asOf = await recordTime(db);
    const revoked = await revokedTickets(db, event.eventNo);
    const venue = event.layoutHash ? await events.venue(event) : null;
    return gateListOf({ event, asOf, keys: await allKeys(ticketKeys), revoked, venue });
  },
});

async function allKeys(ticketKeys: OperateDeps['ticketKeys']) {
  const keys = await (await ticketKeys()).all();
  if (keys.length > 0) return keys;
  throw problem('not_found', { detail: 'No ticket key is recorded yet: "onsale start" makes one.' });
}

const useView = (use: EntryUse) => ({ ...use, at: iso(use.at) });

function scanView(
  venue: Awaited<ReturnType<Events['venue']>>,
  outcome: ScanOutcome,
): Static<typeof ScanView> {
  const { kind, at, ...more } = outcome;
  if (!('ticket' in more)) return { result: kind, at: iso(at), ...more };
  const { seat, why, others, ...rest } = more;
  return {
    result: kind,
    at: iso(at),
    ...rest,
    seat: seat === null ? null : placeOf(venue, seat),
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
async function ticketView(events: Pick<Events, 'venue'>, event: EventRecord, code: TicketCode) {
  const venue = await events.venue(event);
  return {
    event: event.event,
    eventName: event.name,
    ticket: code.ticket,
    seat: placeOf(venue, code.seat),
  };
}

export const entryOperations = [checkIn, getEntries, undoCheckIn, uploadScans, getTicketKeys, getGateList];
