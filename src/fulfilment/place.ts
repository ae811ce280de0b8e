import type { Venue } from '../catalogue/events.ts';
import type { SeatNo } from '../core/seat-map.ts';
import { sectionNames } from '../core/section-names.ts';

/** Where a seat is, as its ticket says it. `row` and `number` are empty where the plan has none. */
export interface Place {
  seat: SeatNo;
  section: string;
  row: string;
  number: string;
}

/** Returns null if the plan no longer has the seat. */
export function placeOf(venue: Pick<Venue, 'layout' | 'seats'>, seat: SeatNo): Place | null {
  const facts = venue.seats[seat];
  if (!facts) return null;
  const section = sectionNames(venue.layout).get(facts.sectionId) ?? facts.sectionId;
  return { seat, section, row: facts.row, number: facts.label };
}

/** The text for gate staff: "Block A, row 3, seat 12". */
export function placeText({ section, row, number }: Omit<Place, 'seat'>): string {
  return [section, row && `row ${row}`, number && `seat ${number}`].filter((part) => part !== '').join(', ');
}
