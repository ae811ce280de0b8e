import type { EventNo, PartitionNo } from '../src/core/hold.ts';
import { extendedDeadline, type Hold, seatStates } from '../src/core/hold.ts';
import { assert } from '../src/core/outcome.ts';
import { allows, type Phase } from '../src/core/phase.ts';
import type { SeatNo } from '../src/core/seat-map.ts';
import type {
  ArbiterStore,
  ExtendCommand,
  ExtendOutcome,
  HoldCommand,
  HoldOutcome,
  LoadCommand,
  LoadOutcome,
  ProjectCommand,
  RecoverCommand,
  RecoverOutcome,
  ReleaseCommand,
  ReleaseOutcome,
  Retry,
  Snapshot,
  Stale,
  UnderEpoch,
} from '../src/inventory/arbiter.ts';
import { type CheckedClaim, checkedClaim, retryAfterMs } from '../src/inventory/claims.ts';
import type { Clock } from '../src/runtime/clock.ts';
import { createSeatBook, type HeldRecord, holdOf, type SeatBook } from './seat-book.ts';

export interface InProcessArbiterOptions {
  /** The store's own clock (S3): one for all callers. */
  clock: Pick<Clock, 'now'>;
  phaseOf?: (event: EventNo) => Phase;
  modeOf?: (event: EventNo, partition: PartitionNo) => InProcessMode;
}

export interface InProcessMode {
  mode: 'postgres' | 'moving';
  epoch: number;
  /**
   * Epoch ms of `clock`: the store before this epoch was lost, and only receipts are accepted until then. Undefined if it was
   * not.
   */
  graceUntil?: number | null;
}

/**
 * The reference: the contract in its plainest form, one step at a time in one process. Other adapters are compared with it.
 * Refusals of a claim have one order of precedence: the id's own past (repeated, mismatch, hold_gone), not_open, too_late,
 * taken, the visitor's other hold (repeated, hold_exists, hold_gone), quota, address quota.
 */
export function createInProcessArbiter(options: InProcessArbiterOptions): ArbiterStore {
  const { clock, phaseOf = () => 'open' } = options;
  const modeOf = options.modeOf ?? ((): InProcessMode => ({ mode: 'postgres', epoch: 1 }));
  const books = new Map<string, SeatBook>();

  /** The partition's book as of this instant. */
  function open(event: EventNo, partition: PartitionNo): SeatBook {
    const key = `${event}/${partition}`;
    let book = books.get(key);
    if (!book) {
      book = createSeatBook(event, partition);
      books.set(key, book);
    }
    const { epoch, graceUntil = null } = modeOf(event, partition);
    book.turnTo(epoch, clock.now(), graceUntil !== null);
    return book;
  }

  /** `grace`: whether it goes on while grace lasts. */
  function turnedAway(
    at: { event: EventNo; partition: PartitionNo; epoch: number },
    grace: 'goes_on' | 'waits' = 'waits',
  ): Stale | Retry | undefined {
    const { mode, epoch } = modeOf(at.event, at.partition);
    if (mode === 'moving') return { kind: 'retry', afterMs: retryAfterMs };
    if (epoch !== at.epoch) return { kind: 'stale', epoch };
    const until = graceOf(at.event, at.partition);
    return until !== null && grace === 'waits' ? { kind: 'retry', afterMs: until - clock.now() } : undefined;
  }

  /** Its end, while it lasts. */
  function graceOf(event: EventNo, partition: PartitionNo): number | null {
    const { graceUntil = null } = modeOf(event, partition);
    return graceUntil !== null && graceUntil > clock.now() ? graceUntil : null;
  }

  function load(command: UnderEpoch<LoadCommand>): LoadOutcome | Stale {
    const { epoch } = modeOf(command.event, command.partition);
    if (epoch !== command.epoch) return { kind: 'stale', epoch };
    const book = open(command.event, command.partition);
    for (const seat of command.seats) book.add(seat);
    return { kind: 'loaded', seats: command.seats.length };
  }

  function hold(command: UnderEpoch<HoldCommand>): HoldOutcome | Stale {
    const claim = checkedClaim(command);
    const refused = turnedAway(command);
    if (refused) return refused;
    const book = open(command.event, command.partition);
    const past = book.recall(command.hold);
    if (past) return pastOf(book, past, command);
    const phase = phaseOf(command.event);
    if (!allows(phase, 'hold')) return { kind: 'not_open', phase };
    if (command.notAfter !== null && clock.now() > command.notAfter) return { kind: 'too_late' };
    // The visitor's own seats count as free until it is known whether the visitor gives them up for the new ones.
    const current = book.liveOf(command.visitor);
    const freeOrOwn = (seat: SeatNo) => book.isFree(seat) || current?.seats.includes(seat) === true;
    const seats = choose(claim, freeOrOwn);
    if (!seats) {
      return {
        kind: 'taken',
        seats: claim.kind === 'seats' ? claim.groups[0]!.filter((s) => !freeOrOwn(s)) : [],
      };
    }
    if (current && command.replaces === null) {
      return claim.kind === 'seats' && sameSeats(current.seats, seats)
        ? { kind: 'granted', hold: holdOf(current), repeated: true }
        : { kind: 'hold_exists', hold: holdOf(current) };
    }
    if (command.replaces !== current?.hold && command.replaces !== null) return { kind: 'hold_gone' };
    if (current?.order) return { kind: 'hold_gone' };
    const used =
      book.usedBy(command.holder) - (current?.holder === command.holder ? current.seats.length : 0);
    if (used + claim.quantity > command.seatsMax) return { kind: 'quota', used, max: command.seatsMax };
    const { address = null } = command;
    if (address) {
      const others = book.usedFrom(address.id) - (current?.address === address.id ? current.seats.length : 0);
      if (others + claim.quantity > address.seatsMax) {
        return { kind: 'address_quota', used: others, max: address.seatsMax };
      }
    }
    return { kind: 'granted', hold: holdOf(book.grant(command, seats, current)), repeated: false };
  }

  function recover(command: UnderEpoch<RecoverCommand>): RecoverOutcome | Stale {
    const { event, partition, receipt } = command;
    const refused = turnedAway(command, 'goes_on');
    if (refused) return refused;
    const book = open(event, partition);
    const until = graceOf(event, partition);
    const found = book.recall(receipt.hold);
    if (found && (found.visitor !== receipt.visitor || !book.isLive(found))) return { kind: 'hold_gone' };
    if (found) {
      const lost = found.seats.filter((seat) => !book.isHeldBy(seat, found));
      if (lost.length > 0) return { kind: 'taken', seats: lost };
      if (until === null) return { kind: 'recovered', hold: holdOf(found) };
      presentAgain(found, receipt);
      return { kind: 'recovering', until };
    }
    const late = until === null || receipt.deadline <= clock.now() || receipt.epoch >= command.epoch;
    return late ? { kind: 'hold_gone' } : (takeAgain(book, command) ?? { kind: 'recovering', until });
  }

  function extend(command: UnderEpoch<ExtendCommand>): ExtendOutcome | Stale {
    const refused = turnedAway(command);
    if (refused) return refused;
    const book = open(command.event, command.partition);
    const found = book.recall(command.hold);
    if (!found || found.visitor !== command.visitor || !book.stands(found)) return { kind: 'hold_gone' };
    if (found.order !== null && found.order !== command.order) return { kind: 'bound', order: found.order };
    if (found.order === null) {
      found.order = command.order;
      found.deadline = extendedDeadline(found, clock.now());
    }
    return { kind: 'extended', hold: holdOf(found) };
  }

  function release(command: UnderEpoch<ReleaseCommand>): ReleaseOutcome | Stale {
    const refused = turnedAway(command, 'goes_on');
    if (refused) return refused;
    const book = open(command.event, command.partition);
    const found = book.recall(command.hold);
    if (!found) book.leaveTombstone(command.hold, command.visitor);
    if (!found || found.visitor !== command.visitor || !book.counts(found)) return { kind: 'hold_gone' };
    if (found.order !== null && found.order !== command.force) return { kind: 'bound', order: found.order };
    const seats = found.seats.filter((seat) => book.isHeldBy(seat, found));
    book.end(found, found.order === null ? 'released' : 'ended');
    return { kind: 'released', seats };
  }

  function project(command: ProjectCommand): void {
    const book = open(command.event, command.partition);
    for (const id of command.ordered) {
      const found = book.find(id);
      if (found?.state === 'live' || found?.state === 'expired') found.state = 'ordered';
    }
    for (const id of command.ended) {
      const found = book.find(id);
      if (found?.state === 'live' || found?.state === 'expired' || found?.state === 'ordered') {
        book.end(found, 'ended');
      }
    }
    for (const change of command.changes) book.decide(change);
  }

  function snapshot(event: EventNo, partition: PartitionNo): Snapshot {
    const book = open(event, partition);
    const seats = book.seatNos();
    const codes = new Uint8Array((seats.at(-1) ?? -1) + 1).fill(255);
    for (const seat of seats) codes[seat] = seatStates.indexOf(book.stateOf(seat));
    return { at: clock.now(), epoch: modeOf(event, partition).epoch, codes };
  }

  // Each step runs to its end before the next: that is what makes it atomic here.
  return {
    load: async (command) => load(command),
    hold: async (command) => hold(command),
    recover: async (command) => recover(command),
    find: async (event, partition, id) => {
      const book = open(event, partition);
      const found = book.recall(id);
      return found && book.stands(found) ? holdOf(found) : null;
    },
    extend: async (command) => extend(command),
    release: async (command) => release(command),
    project: async (command) => {
      project(command);
      return true;
    },
    sweep: async (event, partition, limit) => open(event, partition).sweep(limit),
    snapshot: async (event, partition) => snapshot(event, partition),
  };
}

/** Returns the outcome for a hold id that was used before. */
function pastOf(book: SeatBook, past: HeldRecord, command: UnderEpoch<HoldCommand>): HoldOutcome {
  if (past.visitor !== command.visitor) return { kind: 'mismatch' };
  if (past.state === 'tombstone') return { kind: 'hold_gone' };
  // For a hold that came back by its receipt, the request is no longer known.
  if (past.request !== command.request && past.request !== '') return { kind: 'mismatch' };
  return book.stands(past) ? { kind: 'granted', hold: holdOf(past), repeated: true } : { kind: 'hold_gone' };
}

/** Receipts are compared by (epoch, grant): the higher one wins. */
function outranks(one: HeldRecord, receipt: Hold): boolean {
  const { epoch, grant } = one.receipt ?? one;
  return epoch === receipt.epoch ? grant >= receipt.grant : epoch > receipt.epoch;
}

/**
 * In grace, an unknown receipt takes its seats, or is rejected and nothing changes. Holds of a lower rank give way and end
 * completely: the holds of its seats; the visitor's other hold, because a later hold means that the earlier one was over; and
 * the holder's holds, lowest first, as far as the quota requires.
 */
function takeAgain(
  book: SeatBook,
  { receipt, seatsMax }: UnderEpoch<RecoverCommand>,
): RecoverOutcome | undefined {
  const live = book.all().filter(book.isLive);
  const current = live.filter((one) => one.visitor === receipt.visitor);
  if (current.some((one) => outranks(one, receipt))) return { kind: 'hold_gone' };
  const occupants = receipt.seats.map((seat) => book.occupantOf(seat));
  const lost = receipt.seats.filter((seat, i) => {
    const occupant = occupants[i];
    return occupant ? occupant.state === 'ordered' || outranks(occupant, receipt) : !book.isFree(seat);
  });
  if (lost.length > 0) return { kind: 'taken', seats: lost };
  const losers = new Set([...current, ...occupants.filter((one) => one !== undefined)]);
  const counted = book
    .all()
    .filter((one) => one.holder === receipt.holder && book.counts(one) && !losers.has(one))
    .sort((a, b) => (isAhead(a, b) ? -1 : 1));
  let used = 0;
  for (const one of counted) {
    used += one.seats.length;
    if (used + receipt.seats.length <= seatsMax) continue;
    if (one.state === 'ordered' || outranks(one, receipt)) return { kind: 'hold_gone' };
    losers.add(one);
  }
  if (receipt.seats.length > seatsMax) return { kind: 'hold_gone' };
  for (const loser of losers) book.end(loser, 'released');
  book.grantAgain(receipt);
  return undefined;
}

/** The order in which a holder's holds count: what became an order, then by rank. */
function isAhead(one: HeldRecord, other: HeldRecord): boolean {
  if ((one.state === 'ordered') !== (other.state === 'ordered')) return one.state === 'ordered';
  return outranks(one, { ...other, ...other.receipt });
}

/** Another receipt of the same hold, perhaps a later one: from after its extension, or its recovery in an earlier grace. */
function presentAgain(found: HeldRecord, receipt: Hold): void {
  if (!found.receipt || receipt.epoch >= found.epoch) return;
  if (!outranks(found, receipt)) found.receipt = { epoch: receipt.epoch, grant: receipt.grant };
  found.deadline = Math.max(found.deadline, receipt.deadline);
  found.order ??= receipt.order;
}

function choose(claim: CheckedClaim, free: (seat: SeatNo) => boolean): SeatNo[] | undefined {
  if (!claim.units) return claim.groups.find((group) => group.every(free));
  const { first, count, quantity, start } = claim.units;
  const found: SeatNo[] = [];
  for (let i = 0; i < count && found.length < quantity; i++) {
    const seat = first + ((start + i) % count);
    if (free(seat)) found.push(seat);
  }
  return found.length === quantity ? found.sort((a, b) => a - b) : undefined;
}

function sameSeats(a: readonly SeatNo[], b: readonly SeatNo[]): boolean {
  assert(a.length > 0 && b.length > 0, 'sets of seats to compare');
  return a.length === b.length && a.every((seat, i) => seat === b[i]);
}
