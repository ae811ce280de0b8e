import type { Venue } from '../catalogue/events.ts';
import type { EventNo } from '../core/hold.ts';
import { fullKind, kindsIn, priceOf } from '../core/prices.ts';
import { knownNumbers } from '../core/watermark.ts';
import type { Snapshot } from '../inventory/arbiter.ts';
import type { EventRecord } from '../orders/record.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import { availabilityBits, coarse, countVenue, type VenueCounts } from './availability.ts';
import type { CountsObject, EventObject, StatusObject, Version } from './published.ts';

/** The controller's measurements of the queue; see the admission task. */
export interface LineFigures {
  frontier: number[];
  last: number[];
  /** Per shard; see the status object. */
  gaps: readonly (readonly (readonly [first: number, last: number])[])[];
  /** Passes a second over the last 30 s. */
  measuredRate: number;
  targetRate: number;
  noShow: number;
}

export interface PublishCommand {
  event: EventRecord;
  venue: Venue;
  /** The leader's term: every write is conditional on it. */
  term: number;
  /** Rises by one with each call of one term. */
  count: number;
  snapshot: Snapshot;
  line: LineFigures;
  /** From the partitions' rows, including grace that has ended. Undefined if no partition has ever been lost. */
  grace?: readonly { partition: number; until: number }[];
}

export interface Publisher {
  /** Publishes what is due; `false` and nothing written when another term rules. */
  publish(command: PublishCommand): Promise<boolean>;
}

/** To be raised when the form of a published object changes: objects of events at rest are then published again. */
export const publishedForm = 1;

/** The crowd's polls: quick while the line is short, and never rarer than every 30 s (W5). Milliseconds. */
const pollMaxMs = 30_000;
const pollMinShortLineMs = 2_000;
const pollMinMs = 5_000;
const shortLine = 2_000;

/** Every how many milliseconds an object is published again although nothing asked for it. */
const dueMs = { status: 1_000, availability: 2_000, counts: 5_000, event: 5_000 } as const;
type ObjectName = keyof typeof dueMs;

export interface PublisherOptions {
  db: Db;
  clock: Clock;
  payment: EventObject['payment'];
  /** IANA name: the venue's. */
  timeZone: string;
}

export function createPublisher({ db, clock, payment, timeZone }: PublisherOptions): Publisher {
  const published = new Map<string, number>();

  function isDue(event: EventNo, term: number, name: ObjectName, change: string): boolean {
    // A new phase, version or layout is published at once: the key changes, so that nothing is remembered for it.
    const key = `${event}/${term}/${name}/${change}`;
    const last = published.get(key);
    const now = clock.monotonic();
    // Half a tick of slack, so that a loop of one second does not miss every other time.
    if (last !== undefined && now - last < dueMs[name] - 500) return false;
    if (published.size > 10_000) published.clear();
    published.set(key, now);
    return true;
  }

  return {
    async publish(command) {
      const { event, venue, term, count, snapshot } = command;
      const v: Version = [term, count];
      const counts = countVenue(snapshot.codes, venue);
      const inGrace = graceOf(command);
      const change = `${event.phase}/${event.version}/${event.layoutHash}/${counts.available === 0}/${JSON.stringify(inGrace)}`;
      const objects: [ObjectName, Uint8Array][] = [];
      const add = (name: ObjectName, bytes: () => Uint8Array): void => {
        if (isDue(event.eventNo, term, name, change)) objects.push([name, bytes()]);
      };
      add('status', () => json(statusObject(v, command, counts)));
      add('availability', () => availabilityBits(snapshot.codes, event.seatCount));
      add('counts', () => json(countsObject(v, venue, counts)));
      add('event', () => json(eventObject(v, event, venue, { payment, timeZone })));
      if (objects.length === 0) return true;
      const [row] = await db.query<{ written: boolean }>(
        'publish_objects',
        'SELECT publish_objects($1, $2, $3, $4, $5) AS written',
        [
          event.eventNo,
          term,
          objects.map(([name]) => name),
          objects.map(() => count),
          objects.map(([, bytes]) => Buffer.from(bytes)),
        ],
      );
      return row?.written === true;
    },
  };
}

function statusObject(v: Version, command: PublishCommand, counts: VenueCounts): StatusObject {
  const { event, venue, snapshot, line } = command;
  const waiting = line.last.reduce(
    (sum, last, shard) => sum + knownNumbers(line.frontier[shard] ?? 0, last, line.gaps[shard] ?? []),
    0,
  );
  return {
    v,
    event: event.event,
    phase: event.phase,
    frontier: line.frontier,
    last: line.last,
    gaps: line.gaps.map((shard) => shard.map(([first, last]) => [first, last])),
    grace: graceOf(command),
    rate: { measured: twoDigits(line.measuredRate), target: twoDigits(line.targetRate) },
    noShow: twoDigits(line.noShow),
    seats: {
      total: event.seatCount - counts.blocked,
      left: coarse(counts.available),
      inBaskets: coarse(counts.held + counts.reserved),
    },
    priceRange: priceRange(event, counts),
    soldOut: event.phase === 'sold_out',
    poll: { minMs: waiting < shortLine ? pollMinShortLineMs : pollMinMs, maxMs: pollMaxMs },
    message: event.message,
    serverTime: snapshot.at,
    opensAt: event.onSaleAt,
    closesAt: event.saleEndsAt,
    layout: venue.layoutHash,
    log: null,
  };
}

/** Returns the partitions whose grace has not ended by the clock that set it. */
function graceOf({ grace = [], snapshot }: PublishCommand): StatusObject['grace'] {
  return grace
    .filter(({ until }) => until > snapshot.at)
    .map(({ partition, until }) => ({ partition, until }));
}

function countsObject(v: Version, venue: Venue, counts: VenueCounts): CountsObject {
  return {
    v,
    layout: venue.layoutHash,
    total: { available: counts.available, seats: venue.seats.length - counts.blocked },
    sections: counts.sections,
    categories: counts.categories,
  };
}

function eventObject(
  v: Version,
  event: EventRecord,
  venue: Venue,
  installation: Pick<EventObject, 'payment' | 'timeZone'>,
): EventObject {
  return {
    v,
    id: event.event,
    name: event.name,
    phase: event.phase,
    currency: event.currency,
    performanceAt: iso(event.performanceAt),
    timeZone: installation.timeZone,
    venue: venue.layout.name,
    opensAt: iso(event.onSaleAt),
    closesAt: iso(event.saleEndsAt),
    prices: venue.layout.categories.flatMap(({ name, color }) => {
      const price = event.prices[name];
      return price === undefined
        ? []
        : [{ category: name, color, price, fee: event.settings.seatFee, ...termsOf(event, name) }];
    }),
    ...kindsOf(event),
    ...(event.settings.presaleAt ? { presaleAt: new Date(event.settings.presaleAt).toISOString() } : {}),
    orderFee: event.settings.orderFee,
    limits: {
      holdSeatsMax: event.settings.holdSeatsMax,
      accountSeatsMax: event.settings.accountSeatsMax,
      ...(event.settings.instrumentSeatsMax ? { instrumentSeatsMax: event.settings.instrumentSeatsMax } : {}),
      holdMinutes: event.settings.holdTtlMs / 60_000,
    },
    seatCount: event.seatCount,
    ...(event.settings.accountFirst ? { accountFirst: true as const } : {}),
    ...(venue.partitions.length > 1
      ? { partitions: venue.partitions.map(({ partition, sections }) => ({ partition, sections })) }
      : {}),
    layout: `/api/events/${event.event}/layout-${venue.layoutHash}.json`,
    payment: installation.payment,
  };
}

function kindsOf({ settings: { kinds = [] } }: EventRecord): Pick<EventObject, 'kinds'> {
  if (kinds.length === 0) return {};
  return {
    kinds: kinds.map(({ id, name, conditions, locked }) => ({
      id,
      name,
      conditions,
      ...(locked ? { locked: true as const } : {}),
    })),
  };
}

/** Returns the terms of a category in addition to its full price. */
function termsOf(
  event: EventRecord,
  category: string,
): Pick<EventObject['prices'][number], 'kinds' | 'locked'> {
  const kinds = kindsIn(event, category).filter((kind) => kind !== fullKind);
  const prices = kinds.map((kind) => [kind, priceOf(event, category, kind)!] as const);
  return {
    ...(prices.length === 0 ? {} : { kinds: Object.fromEntries(prices) }),
    ...(event.settings.lockedCategories?.includes(category) ? { locked: true as const } : {}),
  };
}

/**
 * Returns the range from the lowest to the highest price without an access code. If everything needs a code, the range with
 * one.
 */
function priceRange(event: EventRecord, counts: VenueCounts): StatusObject['priceRange'] {
  const { lockedCategories = [], kinds = [], seatFee } = event.settings;
  const left = Object.keys(event.prices).filter((category) => (counts.categories[category] ?? 0) > 0);
  const open = left.filter((category) => !lockedCategories.includes(category));
  const offered = [fullKind, ...kinds.filter(({ locked }) => !locked).map(({ id }) => id)];
  const prices = (open.length > 0 ? open : left).flatMap((category) =>
    offered.flatMap((kind) => {
      const price = priceOf(event, category, kind);
      return price === null ? [] : [price + seatFee];
    }),
  );
  if (prices.length === 0) return null;
  return { min: Math.min(...prices), max: Math.max(...prices), currency: event.currency };
}

function twoDigits(value: number): number {
  return Math.round(value * 100) / 100;
}

function iso(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString();
}

function json(value: unknown): Uint8Array {
  return Buffer.from(JSON.stringify(value));
}
