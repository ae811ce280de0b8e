import { createHash } from 'node:crypto';
import type { Venue } from '../catalogue/events.ts';
import type { PartitionNo } from '../core/hold.ts';
import { categoriesFor, fullKind, kindsIn, noRights, type Rights, rightsNeeded } from '../core/prices.ts';
import { problem } from '../core/problems.ts';
import type { LayoutSection, SeatNo } from '../core/seat-map.ts';
import type { EventRecord } from '../orders/record.ts';
import { linesOf, type SeatInfo, seatInfos } from './seat-lines.ts';

/** A buyer's request for seats, checked against the venue. */
export type Selection = SelectionTerms &
  (
    | { kind: 'seats'; seats: SeatNo[] }
    | { kind: 'best'; quantity: number; category?: string; section?: string }
  );

export interface SelectionTerms {
  /** Ticket type of each seat of the hold, by ascending seat number. */
  kinds: string[];
  /** Categories that may be taken or offered: sold to all of these kinds, and open to this buyer. */
  categories: readonly string[];
}

export interface SelectionBody {
  seats?: { seat: number | string; kind?: string }[];
  best?: { quantity: number; category?: string; section?: string; kinds?: string[] };
}

/** `opened`: what this buyer's access code opens. Whether it has to open more is for `rightsOfSelection`. */
export function readSelection(
  body: SelectionBody,
  event: EventRecord,
  venue: Venue,
  opened: Rights = noRights,
): Selection {
  const { seats, best } = body;
  if ((seats === undefined) === (best === undefined)) {
    throw problem('invalid_field', {
      field: seats ? '/best' : '/seats',
      detail: 'Send either seats or best.',
    });
  }
  const selection = seats ? namedSeats(seats, event, venue) : bestSelection(best!, event, venue);
  return { ...selection, categories: categoriesFor(event, selection.kinds, opened) };
}

type Unpriced =
  | Omit<Extract<Selection, { kind: 'seats' }>, 'categories'>
  | Omit<Extract<Selection, { kind: 'best' }>, 'categories'>;

function namedSeats(asked: NonNullable<SelectionBody['seats']>, event: EventRecord, venue: Venue): Unpriced {
  const seats: SeatNo[] = [];
  const kinds = new Map<SeatNo, string>();
  for (const [i, { seat, kind = fullKind }] of asked.entries()) {
    const field = `/seats/${i}`;
    const no = typeof seat === 'number' ? seat : venue.byGuid.get(seat);
    const facts = no === undefined ? undefined : venue.seats[no];
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
  checkWholeBoxes(seats, venue);
  seats.sort((a, b) => a - b);
  return { kind: 'seats', seats, kinds: seats.map((seat) => kinds.get(seat)!) };
}

function bestSelection(best: NonNullable<SelectionBody['best']>, event: EventRecord, venue: Venue): Unpriced {
  const { quantity, category, section, kinds = [] } = best;
  if (category !== undefined && !Object.hasOwn(event.prices, category)) {
    throw problem('invalid_field', {
      field: '/best/category',
      detail: 'The event has no such price category.',
    });
  }
  if (section !== undefined && !venue.layout.sections.some(({ id }) => id === section)) {
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

/** The rights that an access code must give for this selection. */
export function rightsOfSelection(selection: Selection, event: EventRecord, venue: Venue): Rights {
  const presale = event.presale === true;
  if (selection.kind === 'seats') {
    const seats = selection.seats.map((seat, i) => ({
      category: venue.seats[seat]!.category,
      kind: selection.kinds[i]!,
    }));
    return rightsNeeded(event, presale, seats);
  }
  // Where no category is named, it may be that only locked categories are left for these kinds.
  const all = Object.keys(event.prices).filter((name) =>
    selection.kinds.every((kind) => kindsIn(event, name).includes(kind)),
  );
  const category =
    selection.category ?? (selection.categories.length === 0 ? all[0]! : selection.categories[0]!);
  return rightsNeeded(
    event,
    presale,
    selection.kinds.map((kind) => ({ category, kind })),
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

function checkWholeBoxes(seats: readonly SeatNo[], venue: Venue): void {
  const asked = new Map<string, number>();
  for (const seat of seats) {
    const id = venue.seats[seat]!.sectionId;
    asked.set(id, (asked.get(id) ?? 0) + 1);
  }
  for (const section of venue.layout.sections) {
    const count = asked.get(section.id);
    if (count === undefined || !section.sellAsUnit || count === seatCount(section)) continue;
    throw problem('sold_as_unit', { extra: { section: section.id, seats: seatsOf(section) } });
  }
}

/** The partition that all of the seats are in. Otherwise the refusal, which says what lies in which part of the venue. */
export function partitionOfSeats(
  seats: readonly SeatNo[],
  event: EventRecord,
  venue: Venue,
  /** The partition of the hold that they are to replace. */
  held: PartitionNo | null,
): PartitionNo {
  const found = new Map<PartitionNo, SeatNo[]>();
  for (const seat of seats) {
    const partition = venue.partitionOf(seat);
    found.set(partition, [...(found.get(partition) ?? []), seat]);
  }
  const [first = 0] = found.keys();
  if (found.size === 1 && (held === null || held === first)) return first;
  const parts = [...found]
    .sort(([a], [b]) => a - b)
    .map(([partition, some]) => ({ partition, seats: seatInfos(venue, linesOf(event, venue, some)) }));
  if (found.size === 1 && held !== null) throw acrossHeld(held, parts);
  const named = parts
    .map((part) => [...new Set(part.seats.map(({ sectionName }) => sectionName))].join(', '))
    .join(' / ');
  throw problem('across_partitions', {
    detail: `These seats are sold in separate parts of the venue; choose within one: ${named}. Nothing was held.`,
    extra: { parts, held },
  });
}

/** The problem if the held seats and the requested ones are in different partitions and so cannot be exchanged in one step. */
export function acrossHeld(held: PartitionNo, parts: { partition: PartitionNo; seats: SeatInfo[] }[] = []) {
  return problem('across_partitions', {
    detail:
      'The seats that you hold and these are sold in separate parts of the venue. Hold these by themselves, then give the others back. Nothing was changed.',
    extra: { parts, held },
  });
}

/** The partition of the requested section. Null if the selection names none. */
export function sectionPartition(selection: Selection, venue: Venue): PartitionNo | null {
  if (selection.kind !== 'best' || selection.section === undefined) return null;
  const section = venue.layout.sections.find(({ id }) => id === selection.section);
  const seat = section?.seats[0]?.[0];
  return seat === undefined ? null : venue.partitionOf(seat);
}

function seatCount(section: LayoutSection): number {
  return section.seats.reduce((sum, [, count]) => sum + count, 0);
}

function seatsOf(section: LayoutSection): SeatNo[] {
  return section.seats.flatMap(([first, count]) => Array.from({ length: count }, (_, i) => first + i));
}

/** Identifies a repeat of the same request: hashes the selection, but neither the pass nor the order in which seats were named. */
export function requestHash(selection: Selection, replaces: string | null): string {
  const asked =
    selection.kind === 'seats'
      ? { seats: selection.seats }
      : {
          quantity: selection.quantity,
          category: selection.category ?? null,
          section: selection.section ?? null,
        };
  const kinds = selection.kinds.some((kind) => kind !== fullKind) ? { kinds: selection.kinds } : {};
  return createHash('sha256')
    .update(JSON.stringify({ ...asked, ...kinds, replaces }))
    .digest('base64url');
}
