import type { Venue } from '../catalogue/events.ts';
import { type BestFound, candidateGroups, createVenueIndex, nearestFree } from '../core/best-available.ts';
import { type EventNo, holdLimits, type PartitionNo } from '../core/hold.ts';
import { categoriesFor, noRights } from '../core/prices.ts';
import type { Layout, SeatNo } from '../core/seat-map.ts';
import type { Claim } from '../inventory/arbiter.ts';
import type { EventRecord } from '../orders/record.ts';
import { isAvailable } from '../read-path/availability.ts';
import type { PublishedReader } from '../read-path/published-reader.ts';
import type { Random } from '../runtime/random.ts';
import type { Selection } from './selection.ts';

type Loose<Strict extends Selection> = Omit<Strict, 'kinds' | 'categories'> & {
  categories?: Selection['categories'];
};
type BestSelection = Loose<Extract<Selection, { kind: 'best' }>>;
/** The parts of a selection that say where to look. Without categories, all that are open to everybody are searched. */
type AnySelection = BestSelection | Loose<Extract<Selection, { kind: 'seats' }>>;

/** Where not to look. */
export interface Excluded {
  /** Gone, as claims have told. */
  seats: ReadonlySet<SeatNo>;
  /** Their stores do not answer, or their seats cannot be had by this buyer. */
  partitions: ReadonlySet<PartitionNo>;
}

/** The seats to claim for a selection, and what to report about them. */
export interface Found {
  /** The partition of all the claim's candidates, so that one store decides about them. */
  partition: PartitionNo;
  claim: Claim;
  /** Seats that were among the candidates: gone, when the claim answers `taken`. */
  considered: Iterable<SeatNo>;
  described: { asAsked: boolean; note?: string };
}

export interface BestSeats {
  /**
   * Searches this process's copy of the availability, which is seconds old; the arbiter decides. Null if there is nothing left
   * to try.
   */
  find(
    event: EventRecord,
    venue: Venue,
    selection: BestSelection,
    excluded: Excluded,
    attempt: number,
  ): Found | null;
  /** Records a hold that this process granted. The published bits include it seconds later. */
  granted(event: EventRecord, seats: readonly SeatNo[]): void;
  /**
   * Seats to offer a buyer whose chosen seats were taken: near them, as many, free according to the published bits; in the same
   * partition if a hold is to be replaced.
   */
  nearest(
    event: EventRecord,
    venue: Venue,
    selection: AnySelection,
    taken: readonly SeatNo[],
    within: PartitionNo | null,
  ): readonly SeatNo[];
}

const spreadSteps = 1 << 20;
const notes = {
  split: 'So many seats side by side are not left: these are in rows close to each other.',
  other_section: 'The section that you asked for has not so many seats left: these are in another one.',
} as const;
/**
 * Searching a large venue takes milliseconds, and in a rush hundreds of buyers ask within the two seconds
 * that one published state lasts. Buyers with the same selection share this many searches, each of which has its
 * own spread.
 */
const searchesPerSelection = 32;
/** A shared search with fewer groups left is repeated without the seats that were taken meanwhile. */
const groupsLeftMin = 4;
/** The offers for this many rejected claims are kept until the next published state. */
const offersMax = 1_000;
/**
 * Each further try considers this many times as many nearly equal groups, because our copy of the venue may
 * be old by then.
 */
const widenBy = 4;

const nowhere: Excluded = { seats: new Set(), partitions: new Set() };

export function allBut({ partitions }: Venue, only: PartitionNo): ReadonlySet<PartitionNo> {
  return new Set(partitions.flatMap(({ partition }) => (partition === only ? [] : [partition])));
}

/** This process's knowledge about one published state of an event. */
interface Moment {
  version: string;
  /** Granted by this process since then. */
  gone: Set<SeatNo>;
  searches: Map<string, BestFound>;
  /** Offers after a refusal: everybody wants the same few seats, and is refused them. */
  offers: Map<string, readonly SeatNo[]>;
}

export function createBestSeats({
  published,
  random,
}: {
  published: Pick<PublishedReader, 'get'>;
  random: Random;
}): BestSeats {
  const moments = new Map<EventNo, Moment>();
  const prepared = new WeakMap<Layout, ReturnType<typeof createVenueIndex>>();

  function preparedSeats({ layout }: Venue): ReturnType<typeof createVenueIndex> {
    let seats = prepared.get(layout);
    if (!seats) {
      seats = createVenueIndex(layout);
      prepared.set(layout, seats);
    }
    return seats;
  }

  /**
   * On sale to this buyer and free as last published; before anything was (a first start), all may be tried: the arbiter
   * decides.
   */
  function freeSeats(event: EventRecord, venue: Venue, selection: AnySelection, excluded: Excluded) {
    const bits = published.get(event.event, 'availability')?.bytes;
    const several = excluded.partitions.size > 0;
    const open = new Set(selection.categories ?? categoriesFor(event, [], noRights));
    return (seat: SeatNo): boolean =>
      (bits === undefined || isAvailable(bits, seat)) &&
      !excluded.seats.has(seat) &&
      !(several && excluded.partitions.has(venue.partitionOf(seat))) &&
      open.has(venue.seats[seat]?.category ?? '');
  }

  function search(
    event: EventRecord,
    venue: Venue,
    selection: BestSelection,
    excluded: Excluded,
    widen: number,
  ): BestFound {
    const { quantity, category, section } = selection;
    return candidateGroups(preparedSeats(venue), {
      quantity,
      category,
      section,
      available: freeSeats(event, venue, selection, excluded),
      spread: random.int(spreadSteps) / spreadSteps,
      max: holdLimits.groupsMax,
      widen,
    });
  }

  function momentOf(event: EventRecord): Moment {
    // Compares versions instead of contents, because seats that were taken and released between two publications are free
    // again.
    const version = String(published.get(event.event, 'availability')?.version);
    let moment = moments.get(event.eventNo);
    if (moment?.version !== version) {
      moment = { version, gone: new Set(), searches: new Map(), offers: new Map() };
      moments.set(event.eventNo, moment);
    }
    return moment;
  }

  function shared(event: EventRecord, venue: Venue, selection: BestSelection): BestFound {
    const { gone, searches } = momentOf(event);
    const { quantity, category, section, categories } = selection;
    const narrowed = categories && categories.length < Object.keys(event.prices).length ? categories : null;
    const key = JSON.stringify([random.int(searchesPerSelection), quantity, category, section, narrowed]);
    const found = searches.get(key);
    const groups = found?.groups.filter((group) => !group.some((seat) => gone.has(seat))) ?? [];
    if (found && (found.units || groups.length >= Math.min(groupsLeftMin, found.groups.length))) {
      return { ...found, groups };
    }
    const fresh = search(event, venue, selection, { ...nowhere, seats: gone }, 1);
    searches.set(key, fresh);
    return fresh;
  }

  return {
    find(event, venue, selection, excluded, attempt) {
      const best =
        attempt === 1 && excluded.partitions.size === 0
          ? shared(event, venue, selection)
          : search(event, venue, selection, excluded, widenBy ** (attempt - 1));
      const note = best.note === 'split' || best.note === 'other_section' ? notes[best.note] : undefined;
      const described = { asAsked: note === undefined, ...(note ? { note } : {}) };
      if (best.units) {
        const { first, count } = best.units;
        const considered = Array.from({ length: count }, (_, i) => first + i);
        const start = random.int(count);
        const claim: Claim = { kind: 'units', first, count, start, quantity: selection.quantity };
        return { partition: venue.partitionOf(first), claim, considered, described };
      }
      const [first] = best.groups;
      if (!first) return null;
      // A group lies in one section, and so in one partition.
      const partition = venue.partitionOf(first[0]!);
      const groups = best.groups.filter((group) => venue.partitionOf(group[0]!) === partition);
      return { partition, claim: { kind: 'groups', groups }, considered: groups.flat(), described };
    },
    granted(event, seats) {
      const moment = momentOf(event);
      for (const seat of seats) moment.gone.add(seat);
    },
    nearest(event, venue, selection, taken, within) {
      if (selection.kind === 'best') return [];
      const { gone, offers } = momentOf(event);
      const key = JSON.stringify([selection.seats, taken, within, selection.categories]);
      const known = offers.get(key);
      if (known && !known.some((seat) => gone.has(seat))) return known;
      const partitions = within === null ? nowhere.partitions : allBut(venue, within);
      const free = freeSeats(event, venue, selection, { seats: new Set(taken), partitions });
      const isFree = (seat: SeatNo): boolean => !gone.has(seat) && free(seat);
      const offer = nearestFree(preparedSeats(venue), selection.seats, isFree, selection.seats.length) ?? [];
      if (offers.size < offersMax || known) offers.set(key, offer);
      return offer;
    },
  };
}
