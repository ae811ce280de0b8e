import type { EventNo, PartitionNo } from '../core/hold.ts';
import { extendedDeadline, seatStates } from '../core/hold.ts';
import { assert } from '../core/outcome.ts';
import { allows, type Phase } from '../core/phase.ts';
import type { SeatNo } from '../core/seat-map.ts';
import type { Clock } from '../runtime/clock.ts';
import type {
  Arbiter,
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
} from './arbiter.ts';
import { type CheckedClaim, checkedClaim, retryAfterMs } from './claims.ts';
import { createSeatBook, type HeldRecord, holdOf, type SeatBook } from './seat-book.ts';

export interface InProcessArbiterOptions {
  /** The store's own clock (S3): one for all callers. */
  clock: Pick<Clock, 'now'>;
  phaseOf?: (event: EventNo) => Phase;
  modeOf?: (event: EventNo, partition: PartitionNo) => { mode: 'postgres' | 'moving'; epoch: number };
}

/**
 * The reference: the contract in its plainest form, one step at a time in one process. Other adapters are compared with it.
 * Refusals of a claim have one order of precedence: the id's own past (repeated, mismatch, hold_gone), not_open, too_late,
 * taken, the visitor's other hold (repeated, hold_exists, hold_gone), quota.
 */
export function createInProcessArbiter(options: InProcessArbiterOptions): Arbiter {
  const { clock, phaseOf = () => 'open', modeOf = () => ({ mode: 'postgres', epoch: 1 }) } = options;
  const books = new Map<string, SeatBook>();

  /** The partition's book as of this instant. */
  function open(event: EventNo, partition: PartitionNo): SeatBook {
    const key = `${event}/${partition}`;
    let book = books.get(key);
    if (!book) {
      book = createSeatBook(event, partition);
      books.set(key, book);
    }
    book.turnTo(modeOf(event, partition).epoch, clock.now());
    return book;
  }

  function turnedAway(at: {
    event: EventNo;
    partition: PartitionNo;
    epoch: number;
  }): Stale | Retry | undefined {
    const { mode, epoch } = modeOf(at.event, at.partition);
    if (mode === 'moving') return { kind: 'retry', afterMs: retryAfterMs };
    return epoch === at.epoch ? undefined : { kind: 'stale', epoch };
  }

  function load(command: LoadCommand): LoadOutcome {
    const { epoch } = modeOf(command.event, command.partition);
    if (epoch !== command.epoch) return { kind: 'stale', epoch };
    const book = open(command.event, command.partition);
    for (const seat of command.seats) book.add(seat);
    return { kind: 'loaded', seats: command.seats.length };
  }

  function hold(command: HoldCommand): HoldOutcome {
    const claim = checkedClaim(command);
    const refused = turnedAway(command);
    if (refused) return refused;
    const book = open(command.event, command.partition);
    const past = book.recall(command.hold);
    if (past) return pastOf(book, past, command);
    const phase = phaseOf(command.event);
    if (!allows(phase, 'hold')) return { kind: 'not_open', phase };
    if (command.notAfter !== null && clock.now() > command.notAfter) return { kind: 'too_late' };
    // The visitor's own seats count as free until it is known whether he gives them up for the new ones.
    const own = book.liveOf(command.visitor);
    const freeOrOwn = (seat: SeatNo) => book.isFree(seat) || own?.seats.includes(seat) === true;
    const seats = choose(claim, freeOrOwn);
    if (!seats) {
      return {
        kind: 'taken',
        seats: claim.kind === 'seats' ? claim.groups[0]!.filter((s) => !freeOrOwn(s)) : [],
      };
    }
    if (own && command.replaces === null) {
      return claim.kind === 'seats' && sameSeats(own.seats, seats)
        ? { kind: 'granted', hold: holdOf(own), repeated: true }
        : { kind: 'hold_exists', hold: holdOf(own) };
    }
    if (command.replaces !== own?.hold && command.replaces !== null) return { kind: 'hold_gone' };
    if (own?.order) return { kind: 'hold_gone' };
    const used = book.usedBy(command.holder) - (own?.holder === command.holder ? own.seats.length : 0);
    if (used + claim.quantity > command.seatsMax) return { kind: 'quota', used, max: command.seatsMax };
    return { kind: 'granted', hold: holdOf(book.grant(command, seats, own)), repeated: false };
  }

  function recover(command: RecoverCommand): RecoverOutcome {
    const refused = turnedAway(command);
    if (refused) return refused;
    const book = open(command.event, command.partition);
    const found = book.recall(command.receipt.hold);
    if (!found || found.visitor !== command.receipt.visitor || !book.stands(found))
      return { kind: 'hold_gone' };
    return { kind: 'recovered', hold: holdOf(found) };
  }

  function extend(command: ExtendCommand): ExtendOutcome {
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

  function release(command: ReleaseCommand): ReleaseOutcome {
    const refused = turnedAway(command);
    if (refused) return refused;
    const book = open(command.event, command.partition);
    const found = book.recall(command.hold);
    if (!found) book.leaveTombstone(command.hold, command.visitor);
    if (!found || found.visitor !== command.visitor || !book.counts(found)) return { kind: 'hold_gone' };
    if (found.order !== null && found.order !== command.force) return { kind: 'bound', order: found.order };
    const seats = found.seats.filter((seat) => book.isHeldBy(seat, found));
    book.end(found, found.state === 'ordered' ? 'ended' : 'released');
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
    project: async (command) => project(command),
    sweep: async (event, partition, limit) => open(event, partition).sweep(limit),
    snapshot: async (event, partition) => snapshot(event, partition),
  };
}

/** What a hold id that was used before answers. */
function pastOf(book: SeatBook, past: HeldRecord, command: HoldCommand): HoldOutcome {
  if (past.visitor !== command.visitor) return { kind: 'mismatch' };
  if (past.state === 'tombstone') return { kind: 'hold_gone' };
  if (past.request !== command.request) return { kind: 'mismatch' };
  return book.stands(past) ? { kind: 'granted', hold: holdOf(past), repeated: true } : { kind: 'hold_gone' };
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
