import type { Drawing, DrawnSection } from './drawing.ts';
import { isFree } from './feed.ts';

/** The result of a click on a seat. A box that is sold whole is selected and deselected as a whole. */
export type Toggled =
  | { kind: 'added' | 'removed'; selected: ReadonlySet<number>; seats: number[] }
  | { kind: 'taken' }
  | { kind: 'too_many' };

export function toggle(
  section: DrawnSection,
  place: number,
  selected: ReadonlySet<number>,
  venue: { bits: Uint8Array | null; mine: ReadonlySet<number>; max: number },
): Toggled {
  const seat = section.seatNos[place]!;
  const group = section.sellAsUnit ? [...section.seatNos] : [seat];
  if (selected.has(seat)) {
    const next = new Set(selected);
    for (const one of group) next.delete(one);
    return { kind: 'removed', selected: next, seats: group };
  }
  const takenAt = (one: number) =>
    !venue.mine.has(section.seatNos[one]!) && isFree(venue.bits, one) === false;
  const places = section.sellAsUnit ? group.map((_, i) => i) : [place];
  if (places.some(takenAt)) return { kind: 'taken' };
  const next = new Set(selected);
  for (const one of group) next.add(one);
  if (next.size > venue.max) return { kind: 'too_many' };
  return { kind: 'added', selected: next, seats: group };
}

/** Selected seats of the watched section that another buyer has taken meanwhile. */
export function lostSeats(
  drawing: Drawing,
  section: DrawnSection,
  bits: Uint8Array | null,
  selected: ReadonlySet<number>,
  mine: ReadonlySet<number>,
): number[] {
  return [...selected].filter(
    (seat) =>
      !mine.has(seat) &&
      drawing.sectionOf[seat] === section.index &&
      isFree(bits, drawing.placeOf[seat]!) === false,
  );
}
