import type { EventNo, Hold, PartitionNo } from '../../core/hold.ts';
import { seatStates } from '../../core/hold.ts';
import { assert } from '../../core/outcome.ts';
import { phases } from '../../core/phase.ts';
import type {
  ExtendOutcome,
  HoldCommand,
  HoldOutcome,
  RecoverOutcome,
  ReleaseOutcome,
  Snapshot,
  Stale,
  UnderEpoch,
} from '../arbiter.ts';
import { type Code, codeOf } from './codes.ts';

/**
 * Parses the scripts' replies strictly. A reply of another shape than a script's header documents is a bug or another server,
 * and fails the request. Replies are text; only the snapshot's are bytes.
 */
export interface PartitionOf {
  event: EventNo;
  partition: PartitionNo;
  epoch: number;
}

function listOf(value: unknown, what: string): unknown[] {
  assert(Array.isArray(value), `${what} is a list`);
  return value;
}
function countOf(value: unknown, what: string): number {
  assert(typeof value === 'number' && Number.isSafeInteger(value) && value >= 0, `${what} is a whole number`);
  return value;
}
function textOf(value: unknown, what: string): string {
  assert(typeof value === 'string', `${what} is a text`);
  return value;
}
function seatsOf(value: unknown): number[] {
  const seats = listOf(value, 'seats').map((seat) => countOf(seat, 'a seat'));
  for (let i = 1; i < seats.length; i++) assert(seats[i - 1]! < seats[i]!, 'seats ascend');
  return seats;
}

function answerOf(reply: unknown): { code: Code; answer: unknown[] } {
  const answer = listOf(reply, 'an answer');
  const code = codeOf(answer[0]);
  assert(code, `an answer of a known code, not ${String(answer[0])}`);
  return { code, answer };
}

/**
 * The answers of a call for several requests and the last number that the partition has given, or the epoch that all of them
 * find instead of theirs.
 */
export function batchOf(reply: unknown, requests: number): { grant: number; answers: unknown[] } | Stale {
  const { code, answer } = answerOf(reply);
  if (code === 'stale') return staleOf(answer);
  assert(code === 'done' && answer.length === requests + 2, `${requests} answers, not ${answer.length - 2}`);
  return { grant: countOf(answer[1], 'a grant'), answers: answer.slice(2) };
}

/** Null if the store has no record of the partition. */
export function projectedOf(reply: unknown): { grant: number; epoch: number } | null {
  const { code, answer } = answerOf(reply);
  if (code === 'stale') return null;
  assert(code === 'done', `done, not ${code}`);
  return { grant: countOf(answer[1], 'a grant'), epoch: countOf(answer[2], 'an epoch') };
}

/** Parses the reply of a call that returns no value. */
export function doneOf(reply: unknown): Stale | null {
  const { code, answer } = answerOf(reply);
  if (code === 'stale') return staleOf(answer);
  assert(code === 'done', `done, not ${code}`);
  return null;
}

function staleOf(answer: unknown[]): Stale {
  return { kind: 'stale', epoch: countOf(answer[1], 'an epoch') };
}

/** {code, hold, visitor, holder, order or '', granted at, deadline, grant, seats} */
function holdOf(answer: unknown[], at: PartitionOf): Hold {
  const [, hold, visitor, holder, order, grantedAt, deadline, grant, seats] = answer;
  const granted: Hold = {
    hold: textOf(hold, 'a hold id'),
    event: at.event,
    partition: at.partition,
    visitor: textOf(visitor, 'a visitor'),
    holder: textOf(holder, 'a holder'),
    seats: seatsOf(seats),
    grantedAt: countOf(grantedAt, 'granted at'),
    deadline: countOf(deadline, 'a deadline'),
    epoch: at.epoch,
    grant: countOf(grant, 'a grant'),
    order: textOf(order, 'an order') || null,
  };
  assert(granted.seats.length > 0 && granted.grantedAt < granted.deadline, 'a hold of seats with a life');
  return granted;
}

export function holdOutcomeOf(
  reply: unknown,
  command: UnderEpoch<HoldCommand>,
  quantity: number,
): HoldOutcome {
  const { code, answer } = answerOf(reply);
  switch (code) {
    case 'granted': {
      const [, grantedAt, deadline, grant, seats] = answer;
      const { hold, visitor, holder } = command;
      const granted = holdOf([code, hold, visitor, holder, '', grantedAt, deadline, grant, seats], command);
      assert(granted.seats.length === quantity, `a grant of ${quantity} seats`);
      return { kind: 'granted', hold: granted, repeated: false };
    }
    case 'repeated':
      return { kind: 'granted', hold: ownHoldOf(answer, command), repeated: true };
    case 'hold_exists':
      return { kind: code, hold: ownHoldOf(answer, command) };
    case 'taken':
      return { kind: code, seats: seatsOf(answer[1]) };
    case 'quota':
      return { kind: code, used: countOf(answer[1], 'seats used'), max: command.seatsMax };
    case 'address_quota':
      return { kind: code, used: countOf(answer[1], 'seats used'), max: command.address?.seatsMax ?? 0 };
    case 'not_open': {
      const phase = phases[countOf(answer[1], 'a phase')];
      assert(phase, 'a known phase');
      return { kind: code, phase };
    }
    case 'mismatch':
    case 'hold_gone':
    case 'too_late':
      return { kind: code };
    case 'stale':
    case 'extended':
    case 'bound':
    case 'released':
    case 'recovered':
    case 'found':
    case 'done':
    default:
      throw unexpected(code, 'hold');
  }
}

/** A hold that only its visitor may see. */
function ownHoldOf(answer: unknown[], at: PartitionOf & { visitor: string }): Hold {
  const hold = holdOf(answer, at);
  assert(hold.visitor === at.visitor, 'a hold of this visitor');
  return hold;
}

export function extendOutcomeOf(reply: unknown, command: PartitionOf & { visitor: string }): ExtendOutcome {
  const { code, answer } = answerOf(reply);
  if (code === 'extended') return { kind: code, hold: ownHoldOf(answer, command) };
  if (code === 'bound') return { kind: code, order: textOf(answer[1], 'an order') };
  if (code === 'hold_gone') return { kind: code };
  throw unexpected(code, 'extend');
}

export function releaseOutcomeOf(reply: unknown): ReleaseOutcome {
  const { code, answer } = answerOf(reply);
  if (code === 'released') return { kind: code, seats: seatsOf(answer[1]) };
  if (code === 'bound') return { kind: code, order: textOf(answer[1], 'an order') };
  if (code === 'hold_gone') return { kind: code };
  throw unexpected(code, 'release');
}

export function recoverOutcomeOf(
  reply: unknown,
  at: PartitionOf & { visitor: string },
): RecoverOutcome | Stale {
  const { code, answer } = answerOf(reply);
  if (code === 'recovered') return { kind: code, hold: ownHoldOf(answer, at) };
  if (code === 'stale') return staleOf(answer);
  if (code === 'hold_gone') return { kind: code };
  throw unexpected(code, 'recover');
}

/** {epoch, the hold if it stands}; null epoch: the partition does not answer. */
export function foundOf(
  reply: unknown,
  at: Omit<PartitionOf, 'epoch'>,
): { epoch: number; hold: Hold | null } {
  const [epochSeen, found] = listOf(reply, 'an answer');
  const epoch = countOf(epochSeen, 'an epoch');
  if (found === undefined) return { epoch, hold: null };
  const { code, answer } = answerOf(found);
  if (code !== 'found') throw unexpected(code, 'find');
  return { epoch, hold: holdOf(answer, { ...at, epoch }) };
}

const zero = '0'.charCodeAt(0);
const foreign = 'x'.charCodeAt(0);
const held = seatStates.indexOf('held');

/** Assembles the snapshot, and whether expired holds wait for a sweep. Null if the partition is not loaded. */
export function snapshotOf(reply: unknown): { snapshot: Snapshot; unswept: boolean } | null {
  const [epochSeen, at, text, bits, lapsed, more] = listOf(reply, 'a snapshot');
  const epoch = countOf(epochSeen, 'an epoch');
  if (epoch === 0) return null;
  assert(Buffer.isBuffer(text) && Buffer.isBuffer(bits), 'codes and bits are bytes');
  assert(bits.length === Math.ceil(text.length / 8), `bits for ${text.length} seats`);
  const codes = new Uint8Array(text.length);
  for (let seat = 0; seat < codes.length; seat++) {
    const character = text[seat]!;
    const code = character === foreign ? 255 : character - zero;
    const isSet = (bits[seat >> 3]! & (128 >> (seat & 7))) !== 0;
    // Makes the message only if there is a fault, because most seats are as they should be.
    if (code !== 255 && (code >= seatStates.length || code === held))
      assert(false, `seat ${seat} in a decided state`);
    if (!isSet && code !== 0) assert(false, `seat ${seat} is not plainly free`);
    codes[seat] = isSet && code === 0 ? held : code;
  }
  for (const value of listOf(lapsed, 'lapsed seats')) {
    const seat = countOf(value, 'a lapsed seat');
    assert(codes[seat] === held, `lapsed seat ${seat} was held`);
    codes[seat] = 0;
  }
  return { snapshot: { at: countOf(at, 'a time'), epoch, codes }, unswept: more === 1 };
}

export function sweptOf(reply: unknown): { count: number; more: boolean } {
  const [count, more] = listOf(reply, 'a sweep');
  return { count: countOf(count, 'a count'), more: more === 1 };
}

export function probeOf(reply: unknown): { epoch: number; time: number; grant: number } {
  const [epoch, time, grant] = listOf(reply, 'a probe');
  return {
    epoch: countOf(epoch, 'an epoch'),
    time: countOf(time, 'a time'),
    grant: countOf(grant, 'a grant'),
  };
}

function unexpected(code: Code, operation: string): Error {
  return new Error(`assertion failed: ${operation} does not answer ${code}`);
}
