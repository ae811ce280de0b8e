import { createHash } from 'node:crypto';
import type { PartitionNo } from '../core/hold.ts';
import type { LayoutSection, SeatNo } from '../core/seat-map.ts';
import type { House } from '../sales/events.ts';
import type { EventRecord } from '../sales/record.ts';
import { fullKind, linesOf, seatInfos } from './answers.ts';
import type { SeatInfo } from './api-types.ts';
import { problem } from './errors.ts';

/** What a buyer asks for, checked against the house. */
export type Wish =
  | { kind: 'seats'; seats: SeatNo[] }
  | { kind: 'best'; quantity: number; category?: string; section?: string };

export interface WishBody {
  seats?: { seat: number | string; kind?: string }[];
  best?: { quantity: number; category?: string; section?: string; kinds?: string[] };
}

export function readWish(body: WishBody, event: EventRecord, house: House): Wish {
  const { seats, best } = body;
  if ((seats === undefined) === (best === undefined)) {
    throw problem('invalid_field', {
      field: seats ? '/best' : '/seats',
      detail: 'Send either seats or best.',
    });
  }
  return seats ? namedSeats(seats, event, house) : bestWish(best!, event, house);
}

function namedSeats(asked: NonNullable<WishBody['seats']>, event: EventRecord, house: House): Wish {
  const seats: SeatNo[] = [];
  for (const [i, { seat, kind }] of asked.entries()) {
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
    checkKind(kind, `${field}/kind`);
    seats.push(no);
  }
  checkQuantity(seats.length, event);
  checkWholeBoxes(seats, house);
  return { kind: 'seats', seats: seats.sort((a, b) => a - b) };
}

function bestWish(best: NonNullable<WishBody['best']>, event: EventRecord, house: House): Wish {
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
  for (const [i, kind] of kinds.entries()) checkKind(kind, `/best/kinds/${i}`);
  checkQuantity(quantity, event);
  return { kind: 'best', quantity, category, section };
}

/** An event prices by category alone as yet: another kind of ticket would be a promise that nobody keeps. */
function checkKind(kind: string | undefined, field: string): void {
  if (kind === undefined || kind === fullKind) return;
  throw problem('invalid_field', { field, detail: `The only kind of ticket is "${fullKind}".` });
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

/** What is to be replaced and what is asked for cannot be one hold, nor be exchanged in one step. */
export function acrossHeld(held: PartitionNo, parts: { partition: PartitionNo; seats: SeatInfo[] }[] = []) {
  return problem('across_partitions', {
    detail:
      'The seats that you hold and these are sold in separate parts of the house. Hold these by themselves, then give the others back. Nothing was changed.',
    extra: { parts, held },
  });
}

/** The partition of the section that is asked for; null: none is. */
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

/** What makes a repeat the same request: the wish, not the pass nor the order in which seats were named. */
export function requestHash(wish: Wish, replaces: string | undefined): string {
  const asked =
    wish.kind === 'seats'
      ? { seats: wish.seats }
      : { quantity: wish.quantity, category: wish.category ?? null, section: wish.section ?? null };
  return createHash('sha256')
    .update(JSON.stringify({ ...asked, replaces: replaces ?? null }))
    .digest('base64url');
}
