import { type Static, Type } from 'typebox';
import type { OnSaleOutcome } from '../catalogue/events.ts';
import { readFigures } from '../catalogue/figures.ts';
import { countedLimits, type EventLimits } from '../core/limits.ts';
import { isSellable } from '../core/money.ts';
import { orderStates } from '../core/order.ts';
import { impossible } from '../core/outcome.ts';
import { phases } from '../core/phase.ts';
import { type BuyerKind, presaleFault, priceFault } from '../core/prices.ts';
import { problem } from '../core/problems.ts';
import { logAction } from '../orders/action-log.ts';
import { eventSettingsDefault } from '../orders/record.ts';
import { CountsSchema, StatusSchema } from '../read-path/published.ts';
import type { OperateDeps } from './deps.ts';
import { eventOf } from './event-of.ts';
import { Controls, CreateEventBody, EventView, eventView } from './event-schemas.ts';
import { checkedCooldown } from './limits.ts';
import { EventParams, Instant, iso, nullable, operation, timeOf } from './operation.ts';

// Events: create, look, and steer the sale.

export const listAllEvents = operation({
  id: 'listAllEvents',
  method: 'GET',
  path: '/events',
  summary: 'Events, drafts too',
  output: Type.Object({ events: Type.Array(EventView) }),
  problems: [],
  async run({ events }: Pick<OperateDeps, 'events'>) {
    return { events: (await events.list()).map(eventView) };
  },
});

export const getEventControls = operation({
  id: 'getEventControls',
  method: 'GET',
  path: '/events/:event',
  summary: 'One event with its controls and counts',
  params: EventParams,
  output: Type.Object({
    ...EventView.properties,
    counts: nullable(CountsSchema),
    status: nullable(StatusSchema),
  }),
  problems: ['unknown_event'],
  async run({ events, published }: Pick<OperateDeps, 'events' | 'published'>, { event: id }) {
    const event = await eventOf(events, id);
    const { counts, status } = published(event.event);
    return { ...eventView(event), counts, status };
  },
});

export const createEvent = operation({
  id: 'createEvent',
  method: 'POST',
  path: '/events',
  summary: 'Create an event (a draft)',
  body: CreateEventBody,
  bodyLimit: 512 * 1024,
  output: EventView,
  status: 201,
  problems: ['invalid_field', 'event_exists', 'unknown_plan'],
  async run(
    deps: Pick<OperateDeps, 'db' | 'events' | 'random' | 'redisServers' | 'namesAccounts'>,
    body,
    { actor },
  ) {
    const { times, name } = checkedEvent(body, deps.namesAccounts);
    const { presaleAt, ...fixed } = times;
    const { prices, ...priced } = pricesIn(body);
    const outcome = await deps.events.create({
      event: body.id ?? `e-${Buffer.from(deps.random.bytes(5)).toString('hex')}`,
      name,
      planId: body.plan,
      currency: body.currency,
      ...fixed,
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
    if (outcome.kind === 'partitions_refused')
      throw fieldFault(`/partitions${outcome.place}`, outcome.sentence);
    await logAction(deps.db, { actor, action: 'create', event: outcome.event.eventNo });
    return eventView(outcome.event);
  },
});

export const changeOnSale = operation({
  id: 'changeOnSale',
  method: 'PATCH',
  path: '/events/:event/on-sale',
  summary: 'Phase, message and rate ceiling; names the version it replaces',
  params: EventParams,
  body: Type.Object({
    expectedVersion: Type.Integer({ minimum: 0, maximum: 0x7fffffff }),
    phase: Type.Optional(Type.Enum([...phases])),
    message: Type.Optional(nullable(Type.String({ maxLength: 500 }))),
    rateCeiling: Type.Optional(nullable(Type.Number({ minimum: 0, maximum: 100_000 }))),
  }),
  output: Type.Object({ event: Type.String(), ...Controls.properties }),
  problems: ['unknown_event', 'version_conflict', 'phase_impossible'],
  async run({ events }: Pick<OperateDeps, 'events'>, { event: id, ...change }, { actor }) {
    const event = await eventOf(events, id);
    return { event: event.event, ...changed(await events.changeOnSale({ event, actor, ...change })) };
  },
});

export const getFigures = operation({
  id: 'getFigures',
  method: 'GET',
  path: '/events/:event/figures',
  summary: 'Tickets sold by category and ticket type, and the money: minor units',
  description:
    'Counted a few seconds after each confirmed order and each refund, half a minute old at most; `at` says when.',
  params: EventParams,
  output: Type.Object({
    event: Type.String(),
    currency: Type.String(),
    at: Instant,
    orders: Type.Partial(Type.Record(Type.Enum([...orderStates]), Type.Integer())),
    sold: Type.Array(
      Type.Object({
        category: Type.String(),
        kind: Type.String(),
        tickets: Type.Integer(),
        prices: Type.Integer(),
        fees: Type.Integer(),
      }),
    ),
    taken: Type.Integer({ description: 'Captured so far, refunded or not.' }),
    refunded: Type.Integer({ description: 'Given back, by the provider or elsewhere.' }),
    owed: Type.Integer({ description: 'Decided to be given back, and not there yet.' }),
  }),
  problems: ['unknown_event'],
  async run({ db, events }: Pick<OperateDeps, 'db' | 'events'>, { event: id }) {
    const event = await eventOf(events, id);
    const { at, ...figures } = await readFigures(db, event.eventNo);
    return { event: event.event, currency: event.currency, at: iso(at), ...figures };
  },
});

/** Names the first of them in its sentence, all of them in `categories`. */
export function noPrice(categories: string[], undone: 'created' | 'published' | 'changed') {
  return problem('invalid_field', {
    field: '/prices',
    detail: `These categories have no price: ${categories.slice(0, 20).join(', ')}. Nothing was ${undone}.`,
    extra: { categories },
  });
}

function fieldFault(field: string, detail: string) {
  return problem('invalid_field', { field, detail });
}

/** What the schema cannot check. */
function checkedEvent(body: Static<typeof CreateEventBody>, namesAccounts: boolean) {
  if (!isSellable(body.currency))
    throw fieldFault(
      '/currency',
      `${body.currency} is not a currency of ISO 4217 that cards are charged in.`,
    );
  const performanceAt = instantOf('/performanceAt', body.performanceAt);
  const onSaleAt = instantOf('/onSaleAt', body.onSaleAt);
  const saleEndsAt = instantOf('/saleEndsAt', body.saleEndsAt);
  if (onSaleAt !== null && saleEndsAt !== null && saleEndsAt <= onSaleAt)
    throw fieldFault('/saleEndsAt', 'The sale must end after it starts.');
  const name = body.name.normalize('NFC').trim();
  if (name === '') throw fieldFault('/name', 'Enter a name.');
  if (body.accountFirst && !namesAccounts)
    throw fieldFault('/accountFirst', 'No platform names accounts here: ONSALE_ACCOUNT_SECRET is not set.');
  const presaleAt = instantOf('/presaleAt', body.presaleAt);
  const late = presaleFault(presaleAt, onSaleAt);
  if (late) throw fieldFault('/presaleAt', late);
  return { name, times: { performanceAt, onSaleAt, saleEndsAt, presaleAt } };
}

function instantOf(field: string, text: string | null | undefined): number | null {
  return text ? timeOf(field, text) : null;
}

/** The limits that the organiser named; the others start as `newEventLimits` says. */
function limitsIn(body: Partial<EventLimits>): Partial<EventLimits> {
  const { cooldown } = body;
  const limits: Partial<EventLimits> = cooldown === undefined ? {} : { cooldown: checkedCooldown(cooldown) };
  for (const name of countedLimits) if (body[name] !== undefined) limits[name] = body[name];
  return limits;
}

/** Prices, fees and ticket types, when a card can be charged for each seat by itself. */
function pricesIn(body: Static<typeof CreateEventBody>) {
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

function changed(outcome: OnSaleOutcome): Static<typeof Controls> {
  switch (outcome.kind) {
    case 'changed':
      return outcome.now;
    case 'conflict':
      throw problem('version_conflict', { extra: { now: outcome.now } });
    case 'impossible':
      throw problem('phase_impossible', {
        detail: `The sale is ${outcome.now.phase}; from there it can become ${outcome.possible.join(', ') || 'nothing else'}. Cancelling a published event is an operation of its own, which refunds its orders.`,
        extra: { now: outcome.now, possible: outcome.possible },
      });
    case 'unknown':
      throw problem('unknown_event');
    default:
      return impossible(outcome, 'on-sale outcome');
  }
}

export const eventOperations = [listAllEvents, getEventControls, createEvent, changeOnSale, getFigures];
