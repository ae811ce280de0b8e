import { createPublicKey, type KeyObject } from 'node:crypto';
import type { Venue } from '../catalogue/events.ts';
import type { EventNo } from '../core/hold.ts';
import { assert } from '../core/outcome.ts';
import type { SeatNo } from '../core/seat-map.ts';
import { type Place, placeOf } from './place.ts';
import { type TicketKeys, ticketKeyId, ticketKeyPem, ticketKeysOf } from './ticket-code.ts';

/**
 * The data for a gate without a network: the keys that codes are signed with and the revoked tickets, as one JSON file. It does
 * not say which tickets were used: two gates without a network may accept the same ticket.
 */
export interface GateList {
  format: typeof gateListFormat;
  /** Public id, and the number that codes name. */
  event: string;
  eventNo: EventNo;
  eventName: string;
  /** ISO 8601: what was revoked later is not in it. */
  asOf: string;
  /** Ed25519, PEM (SPKI): the present key. */
  publicKey: string;
  /** All keys that tickets of this installation were signed with, the present one first. */
  keys: PublicTicketKey[];
  /** Ids of tickets. */
  revoked: string[];
  /** Where each seat is, so that the door can say it. */
  places: GatePlaces[];
}

export interface PublicTicketKey {
  /** Hex: the four bytes of a code after its version. */
  keyId: string;
  /** Ed25519, PEM (SPKI). */
  publicKey: string;
}

/** Seats side by side: `numbers[i]` is the number of the seat with seat_no `first + i`. */
export interface GatePlaces {
  section: string;
  row: string;
  first: SeatNo;
  numbers: string[];
}

export const gateListFormat = 'onsale-gate-list-1';
const bytesMax = 64 * 1024 * 1024;

export function gateListOf(parts: {
  event: { event: string; eventNo: EventNo; name: string };
  /** Epoch ms, taken before the tickets were read. */
  asOf: number;
  /** At least one; the present one first. */
  keys: readonly KeyObject[];
  revoked: readonly { ticket: string }[];
  /** Null for a draft. */
  venue: Venue | null;
}): GateList {
  const { event, asOf, keys, revoked, venue } = parts;
  return {
    format: gateListFormat,
    event: event.event,
    eventNo: event.eventNo,
    eventName: event.name,
    asOf: new Date(asOf).toISOString(),
    ...publicKeysOf(keys),
    revoked: revoked.map(({ ticket }) => ticket),
    places: venue ? placesOf(venue) : [],
  };
}

/** As scanners are given them; the present one comes first. */
export function publicKeysOf(keys: readonly KeyObject[]): Pick<GateList, 'publicKey' | 'keys'> {
  const views = keys.map((key) => ({ keyId: ticketKeyId(key), publicKey: ticketKeyPem(key) }));
  assert(views[0] !== undefined, 'tickets are signed with some key');
  return { publicKey: views[0].publicKey, keys: views };
}

function placesOf(venue: Venue): GatePlaces[] {
  const places: GatePlaces[] = [];
  for (let seat = 0; seat < venue.seats.length; seat += 1) {
    const place = placeOf(venue, seat);
    if (!place) continue;
    const { section, row, number } = place;
    const last = places.at(-1);
    const isNext = last && last.first + last.numbers.length === seat;
    if (isNext && last.section === section && last.row === row) last.numbers.push(number);
    else places.push({ section, row, first: seat, numbers: [number] });
  }
  return places;
}

/** Returns null if the list does not have the seat. */
export function placeInList(list: GateList, seat: SeatNo): Place | null {
  for (const { section, row, first, numbers } of list.places) {
    const number = numbers[seat - first];
    if (seat >= first && number !== undefined) return { seat, section, row, number };
  }
  return null;
}

/** A list from its file; a sentence when the text is none. */
export function readGateList(
  text: string,
): { kind: 'read'; list: GateList; keys: TicketKeys } | { kind: 'not_one'; sentence: string } {
  const notOne = {
    kind: 'not_one' as const,
    sentence: 'This file is no gate list: "onsale ticket export" writes one.',
  };
  if (text.length > bytesMax) return notOne;
  try {
    const list = JSON.parse(text) as GateList;
    const ids = list.revoked.every((ticket) => typeof ticket === 'string');
    if (list.format !== gateListFormat || !Number.isInteger(list.eventNo) || !ids) return notOne;
    if (Number.isNaN(Date.parse(list.asOf)) || !(list.places ?? []).every(isPlaces)) return notOne;
    // A list that another program wrote may have the current key only.
    const keys = [list.publicKey, ...(list.keys ?? []).map((key) => key.publicKey)];
    return {
      kind: 'read',
      list: { ...list, places: list.places ?? [] },
      keys: ticketKeysOf(keys.map((pem) => createPublicKey(pem))),
    };
  } catch {
    return notOne;
  }
}

function isPlaces({ section, row, first, numbers }: GatePlaces): boolean {
  const isText = (text: unknown) => typeof text === 'string';
  return isText(section) && isText(row) && Number.isInteger(first) && numbers.every(isText);
}
