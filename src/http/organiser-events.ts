import { Type } from 'typebox';
import { planLimits } from '../core/seat-map.ts';
import { freeCategories, isEventTime } from '../sales/events.ts';
import { partitionsMax } from '../sales/partitions.ts';
import type { EventRecord } from '../sales/record.ts';
import { queueShardsMax } from '../waiting-room/waiting-room.ts';
import { problem } from './errors.ts';
import { CooldownBody, checkedCooldown, SeatsMax } from './organiser-limits.ts';
import type { OrganiserDeps } from './organiser.ts';

const nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const Instant = Type.String({ format: 'date-time', maxLength: 40 });
/** Minor units: one hundred million of a two-decimal currency's cents is a million. */
const Price = Type.Integer({ minimum: 0, maximum: 100_000_000 });

export const CreateEventBody = Type.Object({
  id: Type.Optional(Type.String({ pattern: '^[a-z0-9][a-z0-9-]{0,39}$' })),
  name: Type.String({ minLength: 1, maxLength: 200 }),
  plan: Type.String({ maxLength: 60 }),
  currency: Type.String({ pattern: '^[A-Z]{3}$' }),
  prices: Type.Record(Type.String({ maxLength: planLimits.labelLengthMax }), Price),
  seatFee: Type.Optional(Price),
  orderFee: Type.Optional(Price),
  performanceAt: Type.Optional(nullable(Instant)),
  onSaleAt: Type.Optional(nullable(Instant)),
  saleEndsAt: Type.Optional(nullable(Instant)),
  holdMinutes: Type.Optional(Type.Number({ minimum: 1, maximum: 15 })),
  holdSeatsMax: Type.Optional(Type.Integer({ minimum: 1, maximum: 50 })),
  accountSeatsMax: Type.Optional(nullable(SeatsMax)),
  instrumentSeatsMax: Type.Optional(nullable(SeatsMax)),
  accountFirst: Type.Optional(
    Type.Boolean({
      description: 'Seats are held by account, which your platform names by a token (ONSALE_ACCOUNT_SECRET).',
    }),
  ),
  cooldown: Type.Optional(nullable(CooldownBody)),
  queueShards: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: queueShardsMax,
      description: 'Counters that number the line. 1, the default, keeps strict order of arrival.',
    }),
  ),
  partitions: Type.Optional(
    Type.Array(
      Type.Object({
        sections: Type.Array(Type.String({ minLength: 1, maxLength: 64 }), {
          minItems: 1,
          maxItems: planLimits.sectionsMax,
          description: 'Ids of whole sections of the plan.',
        }),
        redis: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 64,
            description:
              'Name of a configured Redis server (ONSALE_REDIS_SERVERS); the default one when absent.',
          }),
        ),
      }),
      {
        maxItems: partitionsMax,
        description:
          'Parts of the house that are sold apart from each other: a hold takes seats of one. All other sections are one part. Fixed at publishing.',
      },
    ),
  ),
});

export async function createEvent(
  deps: Pick<OrganiserDeps, 'events' | 'random' | 'redisServers' | 'accountTokens'>,
  body: Type.Static<typeof CreateEventBody>,
): Promise<EventRecord> {
  if (!Intl.supportedValuesOf('currency').includes(body.currency)) {
    throw problem('invalid_field', {
      field: '/currency',
      detail: `${body.currency} is not a currency of ISO 4217.`,
    });
  }
  const performanceAt = instantOf('/performanceAt', body.performanceAt);
  const onSaleAt = instantOf('/onSaleAt', body.onSaleAt);
  const saleEndsAt = instantOf('/saleEndsAt', body.saleEndsAt);
  if (onSaleAt !== null && saleEndsAt !== null && saleEndsAt <= onSaleAt) {
    throw problem('invalid_field', { field: '/saleEndsAt', detail: 'The sale must end after it starts.' });
  }
  const name = body.name.normalize('NFC').trim();
  if (name === '') throw problem('invalid_field', { field: '/name', detail: 'Enter a name.' });
  if (body.accountFirst && !deps.accountTokens) {
    throw problem('invalid_field', {
      field: '/accountFirst',
      detail: 'No platform names accounts here: ONSALE_ACCOUNT_SECRET is not set.',
    });
  }
  const { seatFee = 0, orderFee = 0 } = body;
  const free = freeCategories(body.prices, { seatFee, orderFee });
  if (free.length > 0) {
    throw problem('invalid_field', {
      field: '/prices',
      detail: `Tickets that cost nothing cannot be sold: ${free.slice(0, 20).join(', ')}.`,
      extra: { categories: free },
    });
  }
  const event = body.id ?? `e-${Buffer.from(deps.random.bytes(5)).toString('hex')}`;
  const outcome = await deps.events.create({
    event,
    name,
    planId: body.plan,
    currency: body.currency,
    performanceAt,
    onSaleAt,
    saleEndsAt,
    prices: body.prices,
    settings: {
      seatFee,
      orderFee,
      holdTtlMs: Math.round((body.holdMinutes ?? 10) * 60_000),
      ...(body.holdSeatsMax === undefined ? {} : { holdSeatsMax: body.holdSeatsMax }),
      ...(body.accountSeatsMax === undefined ? {} : { accountSeatsMax: body.accountSeatsMax }),
      ...(body.instrumentSeatsMax === undefined ? {} : { instrumentSeatsMax: body.instrumentSeatsMax }),
      ...(body.accountFirst ? { accountFirst: true } : {}),
      ...(body.cooldown === undefined ? {} : { cooldown: checkedCooldown(body.cooldown) }),
      ...(body.queueShards === undefined ? {} : { queueShards: body.queueShards }),
      ...(body.partitions === undefined ? {} : { partitions: body.partitions }),
    },
    redisServers: deps.redisServers,
  });
  if (outcome.kind === 'exists') throw problem('event_exists', { field: '/id' });
  if (outcome.kind === 'unknown_plan') throw problem('unknown_plan', { field: '/plan' });
  if (outcome.kind === 'partitions_refused') {
    throw problem('invalid_field', { field: `/partitions${outcome.place}`, detail: outcome.sentence });
  }
  return outcome.event;
}

/** Leap seconds, for one, have a well-formed text and are no instant. */
function instantOf(field: string, text: string | null | undefined): number | null {
  if (!text) return null;
  const at = Date.parse(text);
  if (isEventTime(at)) return at;
  throw problem('invalid_field', { field, detail: 'This is no time between the years 2000 and 2200.' });
}
