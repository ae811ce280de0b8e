import { Type } from 'typebox';
import { partitionsMax } from '../catalogue/partitions.ts';
import { countedLimits, type EventLimits } from '../core/limits.ts';
import { amountMax, isSellable } from '../core/money.ts';
import { type BuyerKind, presaleFault, priceFault, priceLimits } from '../core/prices.ts';
import { problem } from '../core/problems.ts';
import { planLimits } from '../core/seat-map.ts';
import { checkedCooldown, limitSchemas } from '../operate/limits.ts';
import { type EventRecord, eventSettingsDefault } from '../orders/record.ts';
import { queueShardsMax } from '../waiting-room/waiting-room.ts';
import type { OrganiserDeps } from './organiser.ts';
import { timeOf } from './request-checks.ts';
import { oneLine } from './schemas.ts';

const nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const Instant = Type.String({ format: 'date-time', maxLength: 40 });
const Price = Type.Integer({ minimum: 0, maximum: amountMax, description: 'Minor units of the currency.' });
const CategoryName = Type.String({ maxLength: planLimits.labelLengthMax });
const KindBody = Type.Object(
  {
    id: Type.String({ pattern: '^[a-z0-9][a-z0-9-]{0,39}$' }),
    name: oneLine(priceLimits.kindNameMax),
    conditions: Type.Optional(
      Type.String({
        maxLength: priceLimits.conditionsMax,
        description: 'Who may take it, and what is asked for at the door.',
      }),
    ),
    prices: Type.Record(CategoryName, Price, {
      description: 'Price by category; a category that is missing is not sold to this kind.',
    }),
    locked: Type.Optional(Type.Boolean({ description: 'Only an access code opens it.' })),
  },
  { additionalProperties: false },
);

export const CreateEventBody = Type.Object({
  id: Type.Optional(Type.String({ pattern: '^[a-z0-9][a-z0-9-]{0,39}$' })),
  name: oneLine(200),
  plan: Type.String({ maxLength: 60 }),
  currency: Type.String({ pattern: '^[A-Z]{3}$' }),
  prices: Type.Record(CategoryName, Price, {
    description: 'Full price by category; each category of the plan that seats are in needs one.',
  }),
  kinds: Type.Optional(
    Type.Array(KindBody, {
      maxItems: priceLimits.kindsMax,
      description: 'Kinds of buyers beside `full`, such as reduced.',
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
  if (!isSellable(body.currency)) {
    throw problem('invalid_field', {
      field: '/currency',
      detail: `${body.currency} is not a currency of ISO 4217 that cards are charged in.`,
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
  const presaleAt = instantOf('/presaleAt', body.presaleAt);
  const late = presaleFault(presaleAt, onSaleAt);
  if (late) throw problem('invalid_field', { field: '/presaleAt', detail: late });
  const { prices, ...priced } = pricesIn(body);
  const event = body.id ?? `e-${Buffer.from(deps.random.bytes(5)).toString('hex')}`;
  const outcome = await deps.events.create({
    event,
    name,
    planId: body.plan,
    currency: body.currency,
    performanceAt,
    onSaleAt,
    saleEndsAt,
    prices,
    settings: {
      ...priced,
      ...(presaleAt === null ? {} : { presaleAt }),
      holdTtlMs: Math.round((body.holdMinutes ?? 10) * 60_000),
      ...(body.holdSeatsMax === undefined ? {} : { holdSeatsMax: body.holdSeatsMax }),
      ...limitsIn(body),
      ...(body.accountFirst ? { accountFirst: true } : {}),
      ...(body.queueShards === undefined ? {} : { queueShards: body.queueShards }),
      ...(body.partitions === undefined ? {} : { partitions: body.partitions }),
    },
    redisServers: deps.redisServers,
  });
  if (outcome.kind === 'exists') throw problem('event_exists', { field: '/id' });
  if (outcome.kind === 'unknown_plan') throw problem('unknown_plan', { field: '/plan' });
  if (outcome.kind === 'no_price') throw noPrice(outcome.categories, 'created');
  if (outcome.kind === 'partitions_refused') {
    throw problem('invalid_field', { field: `/partitions${outcome.place}`, detail: outcome.sentence });
  }
  return outcome.event;
}

/** The limits that the organiser named; the others start as `newEventLimits` says. */
function limitsIn(body: Partial<EventLimits>): Partial<EventLimits> {
  const { cooldown } = body;
  const limits: Partial<EventLimits> = cooldown === undefined ? {} : { cooldown: checkedCooldown(cooldown) };
  for (const name of countedLimits) if (body[name] !== undefined) limits[name] = body[name];
  return limits;
}

/** Names the first of them in its sentence, all of them in `categories`. */
export function noPrice(categories: string[], undone: 'created' | 'published' | 'changed') {
  return problem('invalid_field', {
    field: '/prices',
    detail: `These categories have no price: ${categories.slice(0, 20).join(', ')}. Nothing was ${undone}.`,
    extra: { categories },
  });
}

/** Prices, fees and kinds, when a card can be charged for each seat by itself. */
function pricesIn(body: Type.Static<typeof CreateEventBody>) {
  const { currency, prices, seatFee = 0, orderFee = 0, lockedCategories = [] } = body;
  const { holdSeatsMax = eventSettingsDefault.holdSeatsMax } = body;
  const kinds: BuyerKind[] = (body.kinds ?? []).map((kind) => ({
    ...kind,
    name: kind.name.normalize('NFC').trim(),
    conditions: (kind.conditions ?? '').normalize('NFC').trim(),
  }));
  const settings = { seatFee, orderFee, kinds, lockedCategories, holdSeatsMax };
  const fault = priceFault({ currency, prices, settings });
  if (fault) {
    const { place, sentence, categories } = fault;
    throw problem('invalid_field', {
      field: place,
      detail: sentence,
      extra: categories ? { categories } : {},
    });
  }
  return {
    prices,
    seatFee,
    orderFee,
    ...(kinds.length === 0 ? {} : { kinds }),
    ...(lockedCategories.length === 0 ? {} : { lockedCategories }),
  };
}

function instantOf(field: string, text: string | null | undefined): number | null {
  return text ? timeOf(field, text) : null;
}
