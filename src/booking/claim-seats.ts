import type { Venue } from '../catalogue/events.ts';
import type { Hold, HoldId, PartitionNo, Visitor } from '../core/hold.ts';
import type { SeatNo } from '../core/seat-map.ts';
import type { Arbiter, Claim, HoldOutcome } from '../inventory/arbiter.ts';
import type { EventRecord } from '../orders/record.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import { allBut, type BestSeats, type Found } from './best-seats.ts';
import { acrossHeld, partitionOfSeats, type Selection, sectionPartition } from './selection.ts';

/** Best available: how often new candidates are drawn if all of the previous ones were taken. */
const bestTriesMax = 4;

export interface SeatRequest {
  event: EventRecord;
  venue: Venue;
  selection: Selection;
  visitor: Visitor;
  /** The partition of the hold to replace; the new hold has to be in the same one. Null if none is replaced. */
  held: PartitionNo | null;
  /** The id of the hold in that partition. */
  idIn(partition: PartitionNo): HoldId;
  claim(partition: PartitionNo, what: Claim): Promise<HoldOutcome>;
}

interface Claimed {
  outcome: HoldOutcome;
  found?: Found;
}

/** Turns selections into claims. Each claim lies in one partition, and so is decided by one store. */
export function createSeatClaims(deps: { arbiter: Pick<Arbiter, 'find'>; best: BestSeats }) {
  const { arbiter, best } = deps;
  /** Selections of the best seats that are being claimed in a venue of several partitions, by their id in the first. */
  const underWay = new Map<HoldId, Promise<unknown>>();

  async function claimBest(request: SeatRequest): Promise<Claimed> {
    const { event, venue, selection, held, claim } = request;
    if (selection.kind !== 'best') throw new Error('a selection of the best');
    const gone = new Set<SeatNo>();
    const asked = sectionPartition(selection, venue);
    if (held !== null && asked !== null && asked !== held) throw acrossHeld(held);
    const left = new Set(held === null ? [] : allBut(venue, held));
    let away: HoldOutcome | null = null;
    for (let tries = 1; ; ) {
      const found = best.find(event, venue, selection, { seats: gone, partitions: left }, tries);
      // A store that does not respond may still have seats, so the outcome is not "taken".
      if (!found) return { outcome: away ?? (await repeatedOrTaken(request)) };
      const outcome = await claim(found.partition, found.claim);
      if (outcome.kind === 'retry' && venue.partitions.length > 1) {
        // A buyer who asked for one section gets offers from others only if that section is known to be full.
        if (found.partition === (asked ?? held)) return { outcome };
        away = outcome;
        left.add(found.partition);
        continue;
      }
      if (outcome.kind !== 'taken' || tries === bestTriesMax) return { outcome, found };
      for (const seat of found.considered) gone.add(seat);
      tries += 1;
    }
  }

  /**
   * If the best seats may be in several partitions, a repeat must reach the partition that granted its first claim. That
   * partition returns the same hold, or reports that the request differs.
   */
  async function claimBestAnywhere(request: SeatRequest): Promise<Claimed> {
    const id = request.idIn(0);
    while (underWay.has(id)) await underWay.get(id)!.catch(() => {});
    const work = (async (): Promise<Claimed> => {
      const past = await pastOf(request);
      if (!past) return await claimBest(request);
      return { outcome: await request.claim(past.partition, { kind: 'seats', seats: past.seats }) };
    })();
    underWay.set(id, work);
    try {
      return await work;
    } finally {
      underWay.delete(id);
    }
  }

  async function pastOf({ event, venue, visitor, idIn }: SeatRequest): Promise<Hold | null> {
    const found = await Promise.all(
      venue.partitions.map(({ partition }) =>
        arbiter.find(event.eventNo, partition, idIn(partition)).catch((error: unknown) => {
          // An unreachable store must not prevent buying in other partitions.
          if (error instanceof StoreFault && venue.partitions.length > 1) return null;
          throw error;
        }),
      ),
    );
    return found.find((hold) => hold?.visitor === visitor) ?? null;
  }

  /** Nothing is left to try, but this may be the repeat of a claim that was granted earlier. */
  async function repeatedOrTaken(request: SeatRequest): Promise<HoldOutcome> {
    const hold = await pastOf(request);
    return hold ? { kind: 'granted', hold, repeated: true } : { kind: 'taken', seats: [] };
  }

  return {
    async make(request: SeatRequest): Promise<Claimed> {
      const { event, venue, selection, held, claim } = request;
      if (selection.kind === 'best') {
        return venue.partitions.length === 1 ? claimBest(request) : claimBestAnywhere(request);
      }
      const partition = partitionOfSeats(selection.seats, event, venue, held);
      return { outcome: await claim(partition, { kind: 'seats', seats: selection.seats }) };
    },
  };
}
