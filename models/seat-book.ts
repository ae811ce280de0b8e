import {
  type DecidedState,
  type EventNo,
  type Hold,
  type Holder,
  type HoldId,
  holdLimits,
  type PartitionNo,
  type SeatState,
  type Visitor,
} from '../src/core/hold.ts';
import { assert } from '../src/core/outcome.ts';
import type { SeatNo } from '../src/core/seat-map.ts';
import type { HoldCommand, SeatChange } from '../src/inventory/arbiter.ts';

interface Seat {
  state: DecidedState;
  version: number;
  /** The last hold that took it; whether that one still counts is a question of its state, deadline and epoch. */
  hold: HeldRecord | null;
}

/**
 * A `live` hold may have lapsed: that is a question of time, not of state; `expired` is one that was swept. All but `live`
 * and `ordered` are memories: a request that comes late finds its id used up. `ended`, of a hold that led to an order, is kept
 * for good.
 */
export interface HeldRecord extends Hold {
  /** Empty if it is not known, because the hold came back by its receipt. */
  request: string;
  /** Id of the client's address range. Null if there is none, or it is no longer known. */
  address: string | null;
  state: 'live' | 'ordered' | 'ended' | 'released' | 'replaced' | 'expired' | 'tombstone';
  /** The rank in the receipt of a recovered hold, by which receipts are compared. */
  receipt: Pick<Hold, 'epoch' | 'grant'> | null;
}

export type SeatBook = ReturnType<typeof createSeatBook>;

/** One partition's seats and holds in memory, with the rules of what counts at an instant. */
export function createSeatBook(event: EventNo, partition: PartitionNo) {
  const seats = new Map<SeatNo, Seat>();
  const holds = new Map<HoldId, HeldRecord>();
  let lastGrant = 0;
  let epoch = 0;
  let now = 0;

  /** An unexpired lease of this epoch. */
  const isLive = (record: HeldRecord) =>
    record.state === 'live' && record.deadline > now && record.epoch === epoch;
  /** A live lease, or the quota entry that outlives it as an unpaid order. */
  const counts = (record: HeldRecord) => record.state === 'ordered' || isLive(record);
  /** An ordered hold's lease covers its seats until the decision about them arrives, but not beyond its deadline. */
  const isHeldBy = (seat: SeatNo, record: HeldRecord) => {
    const found = seats.get(seat);
    if (found?.state !== 'available' || found.hold !== record) return false;
    return isLive(record) || (record.state === 'ordered' && record.deadline > now && record.epoch === epoch);
  };
  /** Whether its owner may see it as theirs: the hold of an order, or a lease that no decision has taken a seat from. */
  const stands = (record: HeldRecord) =>
    record.state === 'ordered' || (isLive(record) && record.seats.every((seat) => isHeldBy(seat, record)));
  /** Forgotten a hold's longest life after the lease was over, swept or not; never if the hold led to an order. */
  const isForgotten = (record: HeldRecord) =>
    !isKept(record) && record.deadline + holdLimits.lifeMaxMs <= now;

  function stateOf(seat: SeatNo): SeatState {
    const found = seats.get(seat)!;
    return found.hold && isHeldBy(seat, found.hold) ? 'held' : found.state;
  }

  return {
    /** `lost`: the store of the epochs before was lost with all it knew; only the record still knows its orders. */
    turnTo(toEpoch: number, at: number, lost: boolean): void {
      if (lost && toEpoch !== epoch) {
        for (const record of holds.values()) if (!isKept(record)) holds.delete(record.hold);
      }
      epoch = toEpoch;
      now = at;
    },
    isLive,
    counts,
    stands,
    isHeldBy,
    stateOf,
    seatNos: () => [...seats.keys()].sort((a, b) => a - b),
    isFree: (seat: SeatNo) => seats.has(seat) && stateOf(seat) === 'available',
    /** The hold whose lease covers the seat. */
    occupantOf(seat: SeatNo): HeldRecord | undefined {
      const record = seats.get(seat)?.hold;
      return record && isHeldBy(seat, record) ? record : undefined;
    },
    all: () => [...holds.values()],
    /** Also finds holds that exist only because the sweep is late. */
    find: (id: HoldId) => holds.get(id),
    recall(id: HoldId): HeldRecord | undefined {
      const found = holds.get(id);
      return found && !isForgotten(found) ? found : undefined;
    },
    liveOf: (visitor: Visitor) =>
      [...holds.values()].find((record) => record.visitor === visitor && isLive(record) && stands(record)),
    usedBy: (holder: Holder) =>
      [...holds.values()].reduce(
        (sum, record) => sum + (record.holder === holder && counts(record) ? record.seats.length : 0),
        0,
      ),
    usedFrom: (address: string) =>
      [...holds.values()].reduce(
        (sum, record) => sum + (record.address === address && counts(record) ? record.seats.length : 0),
        0,
      ),

    grant(command: HoldCommand, chosen: SeatNo[], replaced: HeldRecord | undefined): HeldRecord {
      lastGrant += 1;
      const record: HeldRecord = {
        hold: command.hold,
        event,
        partition,
        visitor: command.visitor,
        holder: command.holder,
        seats: chosen,
        // A replacement goes on with the old lease, so that a chain of them does not outlive the bound (S6).
        grantedAt: replaced?.grantedAt ?? now,
        deadline: replaced?.deadline ?? now + command.ttlMs,
        epoch,
        grant: lastGrant,
        order: null,
        request: command.request,
        address: command.address?.id ?? null,
        state: 'live',
        receipt: null,
      };
      if (replaced) this.end(replaced, 'replaced');
      this.take(record);
      return record;
    },

    /** The hold of a receipt again, under this epoch and a new grant number. */
    grantAgain(receipt: Hold): void {
      lastGrant += 1;
      const { epoch: wasEpoch, grant: wasGrant } = receipt;
      this.take({
        ...receipt,
        seats: [...receipt.seats].sort((a, b) => a - b),
        epoch,
        grant: lastGrant,
        request: '',
        address: null,
        state: 'live',
        receipt: { epoch: wasEpoch, grant: wasGrant },
      });
    },

    take(record: HeldRecord): void {
      for (const seat of record.seats) {
        assert(this.isFree(seat), `seat ${seat} free when granted`);
        seats.get(seat)!.hold = record;
      }
      holds.set(record.hold, record);
    },

    end(record: HeldRecord, state: 'ended' | 'released' | 'replaced'): void {
      record.state = state;
      if (state !== 'ended') record.deadline = now;
    },

    leaveTombstone(hold: HoldId, visitor: Visitor): void {
      const nothing = {
        event,
        partition,
        holder: visitor,
        seats: [],
        epoch,
        grant: 0,
        order: null,
        request: '',
        address: null,
        receipt: null,
      };
      holds.set(hold, { ...nothing, hold, visitor, grantedAt: now, deadline: now, state: 'tombstone' });
    },

    add(seat: SeatChange): void {
      if (seats.has(seat.seat)) this.decide(seat);
      else seats.set(seat.seat, { state: seat.state, version: seat.version, hold: null });
    },

    /** `available` takes back a decision, never a hold; every other decision overrides one. */
    decide(change: SeatChange): void {
      const seat = seats.get(change.seat);
      if (!seat || change.version <= seat.version) return;
      seat.version = change.version;
      seat.state = change.state;
      if (change.state !== 'available') seat.hold = null;
    },

    /** Oldest first, so that every hold has its turn even with a small limit. */
    sweep(limit: number): number {
      const dueOf = (record: HeldRecord) =>
        record.deadline + (record.state === 'live' ? 0 : holdLimits.lifeMaxMs);
      const due = [...holds.values()].filter((record) => !isKept(record) && dueOf(record) <= now);
      due.sort((a, b) => dueOf(a) - dueOf(b));
      for (const record of due.slice(0, limit)) {
        if (record.state === 'live') record.state = 'expired';
        else holds.delete(record.hold);
      }
      return Math.min(limit, due.length);
    },
  };
}

/** Its order is open, or was sold or closed: the record of sales knows the id for good. */
function isKept({ state }: HeldRecord): boolean {
  return state === 'ordered' || state === 'ended';
}

export function holdOf(record: HeldRecord): Hold {
  const { request: _request, address: _address, state: _state, receipt: _receipt, ...hold } = record;
  return { ...hold, seats: [...hold.seats] };
}
