import type { Venue } from '../catalogue/events.ts';
import { assert } from '../core/outcome.ts';
import { fullKind, kindName, priceOf } from '../core/prices.ts';
import type { SeatNo } from '../core/seat-map.ts';
import { sectionNames } from '../core/section-names.ts';
import type { EventRecord, OrderLine } from '../orders/record.ts';

/** A seat as its buyer sees it; money in minor units. */
export interface SeatInfo {
  seat: SeatNo;
  guid: string;
  section: string;
  sectionName: string;
  row: string;
  number: string;
  category: string;
  kind: string;
  /** For people; undefined for full. */
  kindName?: string;
  price: number;
  fee: number;
}

/** The seats at their prices. `kinds`: the ticket type of each seat, in their order; all full when absent. */
export function linesOf(
  event: EventRecord,
  venue: Venue,
  seats: readonly SeatNo[],
  kinds: readonly string[] = [],
): OrderLine[] {
  return seats.map((seat, i) => {
    const category = venue.seats[seat]?.category;
    const kind = kinds[i] ?? fullKind;
    const price = category === undefined ? null : priceOf(event, category, kind);
    assert(category !== undefined && price !== null, `seat ${seat} has a price`);
    const name = kindName(event, kind);
    return {
      seat,
      category,
      kind,
      ...(name === null ? {} : { kindName: name }),
      price,
      fee: event.settings.seatFee,
    };
  });
}

export function seatInfos(venue: Venue, lines: readonly OrderLine[]): SeatInfo[] {
  const names = sectionNames(venue.layout);
  return lines.map(({ seat, category, kind, kindName: name, price, fee }) => {
    const facts = venue.seats[seat];
    assert(facts, `seat ${seat} belongs to the event`);
    return {
      seat,
      guid: facts.seatGuid,
      section: facts.sectionId,
      sectionName: names.get(facts.sectionId) ?? facts.sectionId,
      row: facts.row,
      number: facts.label,
      category,
      kind,
      ...(name === undefined ? {} : { kindName: name }),
      price,
      fee,
    };
  });
}
