import { type Static, type TSchema, Type } from 'typebox';
import { phases } from '../core/phase.ts';

/**
 * The shared objects that everybody reads: one per event, the same for all, cacheable, no cookie, no per-visitor state
 * (W4). Published by the leader, served from memory. Versions are [term, count], compared in that order: browser and edge
 * ignore an older one. The schemas describe the JSON to clients; the leader writes it by these types.
 */
const Version = Type.Tuple([Type.Integer(), Type.Integer()], {
  description: '[term, count], compared in that order. A reader ignores an older one.',
});
export type Version = Static<typeof Version>;

/** Max-age of each object, seconds. */
export const maxAgeSeconds = { status: 1, availability: 2, counts: 5, event: 5 } as const;

const nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const Phase = Type.Enum([...phases]);
const time = () => Type.String({ format: 'date-time' });
const epochMs = (description: string) => nullable(Type.Number({ description: `Epoch ms; ${description}` }));
const LayoutHash = Type.String({ description: 'Of the drawing: `/api/events/{event}/layout-{hash}.json`.' });
const minorUnits = (description?: string) =>
  Type.Integer({ description: `${description ? `${description} ` : ''}Minor units of the currency.` });

/** GET /api/events/{event}/status */
export const StatusSchema = Type.Object(
  {
    v: Version,
    event: Type.String(),
    phase: Phase,
    frontier: Type.Array(Type.Integer(), { description: 'Last number called, by shard.' }),
    last: Type.Array(Type.Integer(), {
      description: 'Last number issued, by shard: how long the queue is.',
    }),
    gaps: Type.Array(Type.Array(Type.Tuple([Type.Integer(), Type.Integer()])), {
      description:
        'For each shard, ahead of the frontier, at most four ranges [first, last] of numbers that may or may not have been issued, because the store that issued them was lost. They are not counted as visitors, and are passed in one step.',
    }),
    grace: Type.Array(Type.Object({ partition: Type.Integer(), until: Type.Number() }), {
      description:
        'Partitions whose Redis was just lost, and until when (epoch ms) only receipts of holds are honoured in them: a page with a hold there presents its receipt again.',
    }),
    rate: Type.Object(
      { measured: Type.Number(), target: Type.Number() },
      { description: 'Passes a second: measured over the last 30 s, and what the controller aims at.' },
    ),
    noShow: Type.Number({ description: 'Smoothed share of called numbers that did not come.' }),
    seats: Type.Object({
      total: Type.Integer(),
      left: Type.Integer({ description: 'Coarse: exact below 100, else rounded down to two digits.' }),
      inBaskets: Type.Integer({
        description: 'Held or reserved and unpaid: may come back. Coarse as `left`.',
      }),
    }),
    priceRange: nullable(
      Type.Object(
        { min: minorUnits(), max: minorUnits(), currency: Type.String() },
        { description: 'Over the categories that have seats left; null when none has.' },
      ),
    ),
    soldOut: Type.Boolean({ description: 'Everything is sold: final unless seats come back.' }),
    poll: Type.Object({ minMs: Type.Integer(), maxMs: Type.Integer() }),
    message: nullable(Type.String()),
    serverTime: Type.Number({
      description:
        'Epoch ms at publishing, by the clock of the store; of an event about which nothing changes, as late as that is known.',
    }),
    opensAt: epochMs('null when not scheduled.'),
    closesAt: epochMs('null when open-ended.'),
    layout: LayoutHash,
    log: nullable(
      Type.String({ description: "Hash of the fairness log's last entry; null until the log exists." }),
    ),
  },
  { title: 'EventStatus' },
);
export type StatusObject = Static<typeof StatusSchema>;

/** GET /api/events/{event}/counts */
export const CountsSchema = Type.Object(
  {
    v: Version,
    layout: LayoutHash,
    total: Type.Object({ available: Type.Integer(), seats: Type.Integer() }),
    sections: Type.Record(Type.String(), Type.Integer()),
    categories: Type.Record(Type.String(), Type.Integer()),
  },
  { title: 'SeatCounts' },
);
export type CountsObject = Static<typeof CountsSchema>;

/**
 * GET /api/events/{event}/availability and /availability/{section}: `application/octet-stream`. The whole event: one bit a
 * seat by seat_no, least significant bit first, 1 = available. A section: the same in the order of `LayoutSection.seats`.
 * Headers `x-onsale-version: term.count`, `x-onsale-layout: hash`.
 */
export type AvailabilityBits = Uint8Array;

/** GET /api/events/{event} */
export const EventSchema = Type.Object(
  {
    v: Version,
    id: Type.String(),
    name: Type.String(),
    phase: Phase,
    currency: Type.String(),
    performanceAt: nullable(time()),
    timeZone: Type.String({
      description: "IANA name of the venue's time zone, in which pages show these times.",
    }),
    venue: Type.String({ description: 'Name of the seating plan: of the venue, as a rule.' }),
    opensAt: nullable(time()),
    closesAt: nullable(time()),
    prices: Type.Array(
      Type.Object({
        category: Type.String(),
        color: Type.String(),
        price: minorUnits(),
        fee: minorUnits(),
        kinds: Type.Optional(
          Type.Record(
            Type.String(),
            minorUnits(
              'The price for other ticket types, by their ids. Absent: the category is not sold as any of them.',
            ),
          ),
        ),
        locked: Type.Optional(Type.Literal(true, { description: 'Only an access code opens it.' })),
      }),
    ),
    kinds: Type.Optional(
      Type.Array(
        Type.Object({
          id: Type.String(),
          name: Type.String(),
          conditions: Type.String(),
          locked: Type.Optional(Type.Literal(true)),
        }),
        { description: 'Ticket types other than full. Absent if there are none.' },
      ),
    ),
    presaleAt: Type.Optional(
      Type.String({
        format: 'date-time',
        description:
          'From then until `opensAt` only buyers with an access code that opens the presale may buy. Absent if there is no presale.',
      }),
    ),
    orderFee: minorUnits(),
    limits: Type.Object({
      holdSeatsMax: Type.Integer(),
      accountSeatsMax: nullable(Type.Integer()),
      instrumentSeatsMax: Type.Optional(
        Type.Integer({ description: 'Seats bought with one card. Absent: no limit.' }),
      ),
      holdMinutes: Type.Number(),
    }),
    seatCount: Type.Integer(),
    accountFirst: Type.Optional(
      Type.Literal(true, {
        description:
          'Seats are held by account: the page needs the token by which the embedding platform names it.',
      }),
    ),
    partitions: Type.Optional(
      Type.Array(Type.Object({ partition: Type.Integer(), sections: nullable(Type.Array(Type.String())) }), {
        description:
          'Parts of the venue that are sold separately: a hold takes seats of one part. Each has the ids of its sections; null means all sections that no other part names. Absent if there is only one part.',
      }),
    ),
    layout: LayoutHash,
    payment: Type.Object({ publishableKey: Type.String(), script: Type.String(), test: Type.Boolean() }),
  },
  { title: 'Event' },
);
export type EventObject = Static<typeof EventSchema>;
