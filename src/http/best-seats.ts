import { candidateGroups, createHouse, nearestFree } from '../core/best-available.ts';
import { holdLimits } from '../core/hold.ts';
import type { Layout, SeatNo } from '../core/seat-map.ts';
import type { Claim } from '../inventory/arbiter.ts';
import { isAvailable } from '../read-path/availability.ts';
import type { House } from '../sales/events.ts';
import type { EventRecord } from '../sales/record.ts';
import type { HttpDeps } from './deps.ts';
import type { Wish } from './seat-wish.ts';

type BestWish = Extract<Wish, { kind: 'best' }>;

/** What to claim for a wish, and what to say of the seats that came of it. */
export interface Found {
  claim: Claim;
  /** Seats that were among the candidates: gone, when the claim answers `taken`. */
  considered: Iterable<SeatNo>;
  described: { asAsked: boolean; note?: string };
}

export interface BestSeats {
  /** From this process's copy of the availability, seconds old: the arbiter decides. Null: nothing is left to try. */
  find(event: EventRecord, house: House, wish: BestWish, excluded: ReadonlySet<SeatNo>): Found | null;
  /** Seats to offer to somebody whose named seats were taken: near them, as many, free as far as is known. */
  nearest(event: EventRecord, house: House, wish: Wish, taken: readonly SeatNo[]): SeatNo[];
}

const notes = {
  split: 'So many seats side by side are not left: these are in rows close to each other.',
  other_section: 'The section that you asked for has not so many seats left: these are in another one.',
} as const;
const spreadSteps = 1 << 20;

export function createBestSeats({ published, random }: Pick<HttpDeps, 'published' | 'random'>): BestSeats {
  const prepared = new WeakMap<Layout, ReturnType<typeof createHouse>>();

  function preparedHouse({ layout }: House): ReturnType<typeof createHouse> {
    let made = prepared.get(layout);
    if (!made) {
      made = createHouse(layout);
      prepared.set(layout, made);
    }
    return made;
  }

  /** On sale and free as last published. */
  function freeSeats(event: EventRecord, house: House, excluded: ReadonlySet<SeatNo>) {
    const bits = published.get(event.event, 'availability')?.bytes;
    return (seat: SeatNo): boolean =>
      bits !== undefined &&
      isAvailable(bits, seat) &&
      !excluded.has(seat) &&
      event.prices[house.seats[seat]?.category ?? ''] !== undefined;
  }

  return {
    find(event, house, wish, excluded) {
      const { quantity, category, section } = wish;
      const best = candidateGroups(preparedHouse(house), {
        quantity,
        category,
        section,
        available: freeSeats(event, house, excluded),
        spread: random.int(spreadSteps) / spreadSteps,
        max: holdLimits.groupsMax,
      });
      const note = best.note === 'split' || best.note === 'other_section' ? notes[best.note] : undefined;
      const described = { asAsked: note === undefined, ...(note ? { note } : {}) };
      if (best.units) {
        const { first, count } = best.units;
        const considered = Array.from({ length: count }, (_, i) => first + i);
        return { claim: { kind: 'units', ...best.units, quantity }, considered, described };
      }
      if (best.groups.length === 0) return null;
      return { claim: { kind: 'groups', groups: best.groups }, considered: best.groups.flat(), described };
    },
    nearest(event, house, wish, taken) {
      if (wish.kind === 'best') return [];
      const free = freeSeats(event, house, new Set(taken));
      return nearestFree(preparedHouse(house), wish.seats, free, wish.seats.length) ?? [];
    },
  };
}
