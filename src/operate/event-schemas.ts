import { type Static, Type } from 'typebox';
import { partitionsMax } from '../catalogue/partitions.ts';
import { amountMax } from '../core/money.ts';
import { phases } from '../core/phase.ts';
import { priceLimits } from '../core/prices.ts';
import { planLimits } from '../core/seat-map.ts';
import type { EventRecord } from '../orders/record.ts';
import { queueShardsMax } from '../waiting-room/waiting-room.ts';
import { limitSchemas } from './limits.ts';
import { eventPattern, Instant, iso, nullable, oneLine } from './operation.ts';

// An event as the organiser gives and sees it.

const Price = Type.Integer({ minimum: 0, maximum: amountMax, description: 'Minor units of the currency.' });
const CategoryName = Type.String({ maxLength: planLimits.labelLengthMax });

const TicketType = Type.Object(
  {
    id: Type.String({ pattern: eventPattern }),
    name: oneLine(priceLimits.kindNameMax),
    conditions: Type.Optional(
      Type.String({
        maxLength: priceLimits.conditionsMax,
        description: 'Who may take it, and what is asked for at the door.',
      }),
    ),
    prices: Type.Record(CategoryName, Price, {
      description: 'Price by category; a category that is missing is not sold as this ticket type.',
    }),
    locked: Type.Optional(Type.Boolean({ description: 'Only an access code opens it.' })),
  },
  { additionalProperties: false },
);

const Partition = Type.Object({
  sections: Type.Array(Type.String({ minLength: 1, maxLength: 64 }), {
    minItems: 1,
    maxItems: planLimits.sectionsMax,
    description: 'Ids of whole sections of the plan.',
  }),
  redis: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 64,
      description: 'Name of a configured Redis server (ONSALE_REDIS_SERVERS); the default one when absent.',
    }),
  ),
});

export const CreateEventBody = Type.Object({
  id: Type.Optional(
    Type.String({ pattern: eventPattern, description: 'Part of its address; a random one when absent.' }),
  ),
  name: oneLine(200),
  plan: Type.String({ maxLength: 60, description: 'Id of a stored plan.' }),
  currency: Type.String({ pattern: '^[A-Z]{3}$', description: 'ISO 4217.' }),
  prices: Type.Record(CategoryName, Price, {
    description: 'Full price by category; each category of the plan that seats are in needs one.',
  }),
  kinds: Type.Optional(
    Type.Array(TicketType, {
      maxItems: priceLimits.kindsMax,
      description: 'Ticket types beside `full`, such as reduced.',
    }),
  ),
  lockedCategories: Type.Optional(
    Type.Array(CategoryName, { maxItems: 500, description: 'Categories that only an access code opens.' }),
  ),
  seatFee: Type.Optional(Price),
  orderFee: Type.Optional(Price),
  performanceAt: Type.Optional(nullable(Instant)),
  onSaleAt: Type.Optional(nullable(Instant)),
  presaleAt: Type.Optional(
    nullable(
      Type.String({
        format: 'date-time',
        maxLength: 40,
        description: 'From then until onSaleAt only those may buy whose access code opens the presale.',
      }),
    ),
  ),
  saleEndsAt: Type.Optional(nullable(Instant)),
  holdMinutes: Type.Optional(Type.Number({ minimum: 1, maximum: 15 })),
  holdSeatsMax: Type.Optional(Type.Integer({ minimum: 1, maximum: 50 })),
  ...Type.Partial(Type.Object(limitSchemas)).properties,
  accountFirst: Type.Optional(
    Type.Boolean({
      description: 'Seats are held by account, which your platform names by a token (ONSALE_ACCOUNT_SECRET).',
    }),
  ),
  queueShards: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: queueShardsMax,
      description: 'Counters that number the queue. 1, the default, keeps strict order of arrival.',
    }),
  ),
  partitions: Type.Optional(
    Type.Array(Partition, {
      maxItems: partitionsMax,
      description:
        'Parts of the venue that are sold separately: a hold takes seats of one part. All other sections are one part. Fixed at publishing.',
    }),
  ),
});

const Phase = Type.Enum([...phases]);
export const Controls = Type.Object({
  phase: Phase,
  version: Type.Integer({ description: 'A change names the version that it replaces.' }),
  message: nullable(Type.String()),
  rateCeiling: nullable(Type.Number({ description: 'Passes a second.' })),
});

const Settings = Type.Object(
  {
    holdTtlMs: Type.Integer(),
    holdSeatsMax: Type.Integer(),
    ...Type.Partial(Type.Object(limitSchemas)).properties,
    accountFirst: Type.Optional(Type.Boolean()),
    queueShards: Type.Optional(Type.Integer()),
    seatFee: Type.Integer(),
    orderFee: Type.Integer(),
    kinds: Type.Optional(Type.Array(Type.Required(TicketType))),
    lockedCategories: Type.Optional(Type.Array(Type.String())),
    presaleAt: Type.Optional(nullable(Type.Number({ description: 'Epoch ms.' }))),
    partitions: Type.Optional(Type.Array(Partition)),
  },
  { description: 'Money in minor units. Absent: the default, or none.' },
);

export const EventView = Type.Object({
  id: Type.String(),
  name: Type.String(),
  plan: Type.String(),
  currency: Type.String(),
  performanceAt: nullable(Instant),
  onSaleAt: nullable(Instant),
  saleEndsAt: nullable(Instant),
  prices: Type.Record(Type.String(), Type.Integer()),
  settings: Settings,
  ...Controls.properties,
  layoutHash: nullable(Type.String()),
  seatCount: Type.Integer(),
  presale: Type.Optional(Type.Boolean({ description: 'The sale is not open to every buyer yet.' })),
});

export function eventView(event: EventRecord): Static<typeof EventView> {
  const { eventNo: _eventNo, event: id, performanceAt, onSaleAt, saleEndsAt, planId, ...rest } = event;
  return {
    id,
    ...rest,
    plan: planId,
    performanceAt: iso(performanceAt),
    onSaleAt: iso(onSaleAt),
    saleEndsAt: iso(saleEndsAt),
  } as Static<typeof EventView>;
}
