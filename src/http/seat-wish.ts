import { createHash } from 'node:crypto';
import type { House } from '../catalogue/events.ts';
import type { PartitionNo } from '../core/hold.ts';
import { categoriesFor, fullKind, kindsIn, noRights, type Rights, rightsNeeded } from '../core/prices.ts';
import { problem } from '../core/problems.ts';
import type { LayoutSection, SeatNo } from '../core/seat-map.ts';
import type { EventRecord } from '../orders/record.ts';
import { linesOf, seatInfos } from './answers.ts';
import type { SeatInfo } from './api-types.ts';

/** A buyer's request for seats, checked against the house. */
export type Wish = WishTerms &
  (
    | { kind: 'seats'; seats: SeatNo[] }
    | { kind: 'best'; quantity: number; category?: string; section?: string }
  );

export interface WishTerms {
  /** Ticket type of each seat of the hold, by ascending seat number. */
  kinds: string[];
  /** Categories that may be taken or offered: sold to all of these kinds, and open to this buyer. */
  categories: readonly string[];
}

export interface WishBody {
  seats?: { seat: number | string; kind?: string }[];
  best?: { quantity: number; category?: string; section?: string; kinds?: string[] };
}

/** `opened`: what this buyer's access code opens. Whether it has to open more is for `rightsOfWish`. */
export function readWish(body: WishBody, event: EventRecord, house: House, opened: Rights = noRights): Wish {
  const { seats, best } = body;
  if ((seats === undefined) === (best === undefined)) {
    throw problem('invalid_field', {
      field: seats ? '/best' : '/seats',
      detail: 'Send either seats or best.',
    });
  }
  const wish = seats ? namedSeats(seats, event, house) : bestWish(best!, event, house);
  return { ...wish, categories: categoriesFor(event, wish.kinds, opened) };
}

type Asked =
  | Omit<Extract<Wish, { kind: 'seats' }>, 'categories'>
  | Omit<Extract<Wish, { kind: 'best' }>, 'categories'>;

function namedSeats(asked: NonNullable<WishBody['seats']>, event: EventRecord, house: House): Asked {
  const seats: SeatNo[] = [];
  const kinds = new Map<SeatNo, string>();
  for (const [i, { seat, kind = fullKind }] of asked.entries()) {
    const field = `/seats/${i}`;
    const no = typeof seat === 'number' ? seat : house.byGuid.get(seat);
    const facts = no === undefined ? undefined : house.seats[no];
    if (no === undefined || !facts) throw problem('unknown_seat', { field: `${field}/seat` });
    if (event.prices[facts.category] === undefined) {
      throw problem('unknown_seat', { field: `${field}/seat`, detail: 'This seat is not on sale.' });
    }
    if (seats.includes(no)) {
      throw problem('invalid_field', { field: `${field}/seat`, detail: 'The same seat is named twice.' });
    }
    checkKind(event, facts.category, kind, `${field}/kind`);
    kinds.set(no, kind);
    seats.push(no);
  }
  checkQuantity(seats.length, event);
  checkWholeBoxes(seats, house);
  seats.sort((a, b) => a - b);
  return { kind: 'seats', seats, kinds: seats.map((seat) => kinds.get(seat)!) };
}

function bestWish(best: NonNullable<WishBody['best']>, event: EventRecord, house: House): Asked {
  const { quantity, category, section, kinds = [] } = best;
  if (category !== undefined && !Object.hasOwn(event.prices, category)) {
    throw problem('invalid_field', {
      field: '/best/category',
      detail: 'The event has no such price category.',
    });
  }
  if (section !== undefined && !house.layout.sections.some(({ id }) => id === section)) {
    throw problem('invalid_field', { field: '/best/section', detail: 'The event has no such section.' });
  }
  for (const [i, kind] of kinds.entries()) checkKind(event, category, kind, `/best/kinds/${i}`);
  if (kinds.length > quantity) {
    throw problem('invalid_field', {
      field: '/best/kinds',
      detail: 'Name at most as many kinds as seats; those without one are full.',
    });
  }
  checkQuantity(quantity, event);
  const all = Array.from({ length: quantity }, (_, i) => kinds[i] ?? fullKind);
  if (!Object.keys(event.prices).some((name) => all.every((kind) => kindsIn(event, name).includes(kind)))) {
    throw problem('invalid_field', {
      field: '/best/kinds',
      detail: 'No category is sold to all of these kinds.',
    });
  }
  return { kind: 'best', quantity, category, section, kinds: all };
}

/** `category` undefined: any that is sold to that kind. */
export function checkKind(
  event: EventRecord,
  category: string | undefined,
  kind: string,
  field: string,
): void {
  const categories = category === undefined ? Object.keys(event.prices) : [category];
  const sold = [...new Set(categories.flatMap((name) => kindsIn(event, name)))];
  if (kind === fullKind || sold.includes(kind)) return;
  throw problem('invalid_field', { field, detail: `Sold here: ${sold.map((id) => `"${id}"`).join(', ')}.` });
}

/** The rights that an access code must give for this wish. */
export function rightsOfWish(wish: Wish, event: EventRecord, house: House): Rights {
  const presale = event.presale === true;
  if (wish.kind === 'seats') {
    const seats = wish.seats.map((seat, i) => ({
      category: house.seats[seat]!.category,
      kind: wish.kinds[i]!,
    }));
    return rightsNeeded(event, presale, seats);
  }
  // Where no category is named, it may be that only locked categories are left for these kinds.
  const all = Object.keys(event.prices).filter((name) =>
    wish.kinds.every((kind) => kindsIn(event, name).includes(kind)),
  );
  const category = wish.category ?? (wish.categories.length === 0 ? all[0]! : wish.categories[0]!);
  return rightsNeeded(
    event,
    presale,
    wish.kinds.map((kind) => ({ category, kind })),
  );
}

function checkQuantity(quantity: number, event: EventRecord): void {
  const max = event.settings.holdSeatsMax;
  if (quantity <= max) return;
  throw problem('hold_quota', {
    detail: `At most ${max} seats can be held at once.`,
    extra: { used: 0, max },
  });
}

function checkWholeBoxes(seats: readonly SeatNo[], house: House): void {
  const asked = new Map<string, number>();
  for (const seat of seats) {
    const id = house.seats[seat]!.sectionId;
    asked.set(id, (asked.get(id) ?? 0) + 1);
  }
  for (const section of house.layout.sections) {
    const count = asked.get(section.id);
    if (count === undefined || !section.sellAsUnit || count === seatCount(section)) continue;
    throw problem('sold_as_unit', { extra: { section: section.id, seats: seatsOf(section) } });
  }
}

/** The partition that all of the seats are in. Otherwise the refusal, which says what lies in which part of the house. */
export function partitionOfSeats(
  seats: readonly SeatNo[],
  event: EventRecord,
  house: House,
  /** The partition of the hold that they are to replace. */
  held: PartitionNo | null,
): PartitionNo {
  const found = new Map<PartitionNo, SeatNo[]>();
  for (const seat of seats) {
    const partition = house.partitionOf(seat);
    found.set(partition, [...(found.get(partition) ?? []), seat]);
  }
  const [first = 0] = found.keys();
  if (found.size === 1 && (held === null || held === first)) return first;
  const parts = [...found]
    .sort(([a], [b]) => a - b)
    .map(([partition, some]) => ({ partition, seats: seatInfos(house, linesOf(event, house, some)) }));
  if (found.size === 1 && held !== null) throw acrossHeld(held, parts);
  const named = parts
    .map((part) => [...new Set(part.seats.map(({ sectionName }) => sectionName))].join(', '))
    .join(' / ');
  throw problem('across_partitions', {
    detail: `These seats are sold in separate parts of the house; choose within one: ${named}. Nothing was held.`,
    extra: { parts, held },
  });
}

/** The problem if the held seats and the requested ones are in different partitions and so cannot be exchanged in one step. */
export function acrossHeld(held: PartitionNo, parts: { partition: PartitionNo; seats: SeatInfo[] }[] = []) {
  return problem('across_partitions', {
    detail:
      'The seats that you hold and these are sold in separate parts of the house. Hold these by themselves, then give the others back. Nothing was changed.',
    extra: { parts, held },
  });
}

/** The partition of the requested section. Null if the wish names none. */
export function sectionPartition(wish: Wish, house: House): PartitionNo | null {
  if (wish.kind !== 'best' || wish.section === undefined) return null;
  const section = house.layout.sections.find(({ id }) => id === wish.section);
  const seat = section?.seats[0]?.[0];
  return seat === undefined ? null : house.partitionOf(seat);
}

export function seatCount(section: LayoutSection): number {
  return section.seats.reduce((sum, [, count]) => sum + count, 0);
}

export function seatsOf(section: LayoutSection): SeatNo[] {
  return section.seats.flatMap(([first, count]) => Array.from({ length: count }, (_, i) => first + i));
}

/** Identifies a repeat of the same request: hashes the wish, but neither the pass nor the order in which seats were named. */
export function requestHash(wish: Wish, replaces: string | undefined): string {
  const asked =
    wish.kind === 'seats'
      ? { seats: wish.seats }
      : { quantity: wish.quantity, category: wish.category ?? null, section: wish.section ?? null };
  const kinds = wish.kinds.some((kind) => kind !== fullKind) ? { kinds: wish.kinds } : {};
  return createHash('sha256')
    .update(JSON.stringify({ ...asked, ...kinds, replaces: replaces ?? null }))
    .digest('base64url');
}
