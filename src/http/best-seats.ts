import type { SeatNo } from '../core/seat-map.ts';
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
  describe(seats: readonly SeatNo[]): { asAsked: boolean; note?: string };
}

export interface BestSeats {
  find(event: EventRecord, house: House, wish: BestWish, excluded: ReadonlySet<SeatNo>): Found | null;
  /** Seats to offer to somebody whose named seats were taken: near them, as many, free as far as is known. */
  nearest(event: EventRecord, house: House, wish: Wish, taken: readonly SeatNo[]): SeatNo[];
}

export function createBestSeats({ published }: Pick<HttpDeps, 'published' | 'random'>): BestSeats {
  const bitsOf = (event: EventRecord) => published.get(event.event, 'availability')?.bytes ?? null;
  return {
    find(event, house, wish, excluded) {
      const bits = bitsOf(event);
      if (!bits) return null;
      const groups: SeatNo[][] = [];
      let run: SeatNo[] = [];
      let before: string | null = null;
      for (const { seatNo, sectionId, row, category } of house.seats) {
        const place = `${sectionId}/${row}`;
        const wanted = (wish.section ?? sectionId) === sectionId && (wish.category ?? category) === category;
        if (place !== before || !wanted || excluded.has(seatNo) || !isAvailable(bits, seatNo)) run = [];
        before = place;
        if (!wanted || excluded.has(seatNo) || !isAvailable(bits, seatNo)) continue;
        run.push(seatNo);
        if (run.length === wish.quantity) {
          groups.push(run);
          run = [];
          if (groups.length === 32) break;
        }
      }
      if (groups.length === 0) return null;
      return {
        claim: { kind: 'groups', groups },
        considered: groups.flat(),
        describe: () => ({ asAsked: true }),
      };
    },
    nearest: () => [],
  };
}
