import type { Venue } from '../catalogue/events.ts';
import { seatStates } from '../core/hold.ts';
import { assert } from '../core/outcome.ts';
import type { Layout, SeatNo } from '../core/seat-map.ts';
import type { Snapshot } from '../inventory/arbiter.ts';

const codeAvailable = seatStates.indexOf('available');

const codeForeign = 255;

/**
 * The whole venue from its partitions' snapshots. It is as old as its oldest part; 255: a seat of a partition that is not among
 * them, which counts as in no state.
 */
export function mergeSnapshots(parts: readonly Snapshot[]): Snapshot {
  const [first] = parts;
  assert(first, 'a partition at least');
  if (parts.length === 1) return first;
  const codes = new Uint8Array(Math.max(...parts.map((part) => part.codes.length))).fill(codeForeign);
  for (const part of parts) {
    for (let seat = 0; seat < part.codes.length; seat++) {
      const code = part.codes[seat]!;
      if (code === codeForeign) continue;
      assert(codes[seat] === codeForeign, `seat ${seat} belongs to one partition`);
      codes[seat] = code;
    }
  }
  return {
    at: Math.min(...parts.map(({ at }) => at)),
    epoch: Math.max(...parts.map(({ epoch }) => epoch)),
    codes,
  };
}

/** One bit a seat by seat_no, least significant bit first, 1 = available. `codes`: seat states as in a snapshot. */
export function availabilityBits(codes: Uint8Array, seatCount: number): Uint8Array {
  const bits = new Uint8Array(Math.ceil(seatCount / 8));
  const known = Math.min(codes.length, seatCount);
  for (let seat = 0; seat < known; seat++) {
    if (codes[seat] === codeAvailable) bits[seat >> 3]! |= 1 << (seat & 7);
  }
  return bits;
}

export function isAvailable(bits: Uint8Array, seat: SeatNo): boolean {
  return ((bits[seat >> 3] ?? 0) & (1 << (seat & 7))) !== 0;
}

/** The same for one section, in the order of `LayoutSection.seats`; null when the layout has no such section. */
export function sectionBits(bits: Uint8Array, layout: Layout, sectionId: string): Uint8Array | null {
  const section = layout.sections.find((candidate) => candidate.id === sectionId);
  if (!section) return null;
  const total = section.seats.reduce((sum, [, count]) => sum + count, 0);
  const out = new Uint8Array(Math.ceil(total / 8));
  let index = 0;
  for (const [first, count] of section.seats) {
    for (let seat = first; seat < first + count; seat++, index++) {
      if (isAvailable(bits, seat)) out[index >> 3]! |= 1 << (index & 7);
    }
  }
  return out;
}

export interface VenueCounts {
  available: number;
  held: number;
  reserved: number;
  sold: number;
  blocked: number;
  sections: Record<string, number>;
  categories: Record<string, number>;
}

/** How many seats are in which state; the available ones also by section and category. */
export function countVenue(codes: Uint8Array, venue: Venue): VenueCounts {
  const totals = { available: 0, held: 0, reserved: 0, sold: 0, blocked: 0 };
  const sections: Record<string, number> = {};
  const categories: Record<string, number> = {};
  for (const section of venue.layout.sections) sections[section.id] = 0;
  for (const category of venue.layout.categories) categories[category.name] = 0;
  // Seats of a section and category lie side by side: counted in a number, not by their names, which for a large venue would
  // stop the process for as long as hundreds of requests take.
  let [sectionId, category, available] = ['', '', 0];
  const keep = (): void => {
    if (available === 0) return;
    sections[sectionId] = (sections[sectionId] ?? 0) + available;
    categories[category] = (categories[category] ?? 0) + available;
    available = 0;
  };
  for (const seat of venue.seats) {
    const state = seatStates[codes[seat.seatNo] ?? 255];
    if (!state) continue;
    totals[state]++;
    if (state !== 'available') continue;
    if (seat.sectionId !== sectionId || seat.category !== category) {
      keep();
      ({ sectionId, category } = seat);
    }
    available++;
  }
  keep();
  return { ...totals, sections, categories };
}

/** Coarse figures for the crowd: exact below 100, else rounded down to two digits. */
export function coarse(count: number): number {
  if (count < 100) return count;
  const step = 10 ** (Math.floor(Math.log10(count)) - 1);
  return Math.floor(count / step) * step;
}
