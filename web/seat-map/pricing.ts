import type { EventObject } from '../../src/http/api-types.ts';
import { money } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { attributesOf, type Drawing, wordsOf } from './drawing.ts';

export interface SeatOffer {
  seat: number;
  section: string;
  category: string;
  /** Minor units. */
  price: number;
  fee: number;
  /** `Row C, seat 12` */
  where: string;
  attributes: string[];
}

/** The seat as the page shows it before it is held: labels from the drawing, prices from the event. */
export function offerOf(drawing: Drawing, event: EventObject, seat: number): SeatOffer {
  const section = drawing.sections[drawing.sectionOf[seat] ?? -1];
  const place = drawing.placeOf[seat] ?? -1;
  const category = section ? (drawing.categories[section.category[place] ?? -1]?.name ?? '') : '';
  const price = event.prices.find((one) => one.category === category);
  const words = wordsOf(drawing, seat);
  return {
    seat,
    section: words.section,
    category,
    price: price?.price ?? 0,
    fee: price?.fee ?? 0,
    where: texts.map.seat(words),
    attributes: attributesOf(section?.flags[place] ?? 0).map((name) => texts.map.attributes[name]),
  };
}

/** One line for tooltips, lists and screen readers. */
export function offerLine(offer: SeatOffer, currency: string): string {
  return texts.map.seatLine(offer.where, offer.category, money(offer.price, currency), offer.attributes);
}
