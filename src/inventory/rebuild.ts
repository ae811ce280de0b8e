import { type DecidedState, seatStates } from '../core/hold.ts';
import { assert } from '../core/outcome.ts';
import type { Clock } from '../runtime/clock.ts';
import type { SeatChange } from './arbiter.ts';
import type {
  PartitionModes,
  PartitionTerm,
  RebuildableArbiter,
  Refused,
  StoredHold,
  StoredSeats,
} from './modes.ts';

export interface RebuildParts {
  modes: PartitionModes;
  clock: Clock;
}

/** The store to fill, which already trusts these run ids for the partition. */
export interface RebuildTarget {
  at: PartitionTerm;
  arbiter: RebuildableArbiter;
  runIds: string[];
}

export type RebuildStep = 'begin' | 'load' | 'remember' | 'move' | 'open' | 'flip';
export type RebuildOutcome =
  | {
      kind: 'rebuilt';
      epoch: number;
      seats: number;
      holds: number /** From `moving` to `redis`. */;
      pauseMs: number;
      /** Whole milliseconds that each step took. */
      stepsMs: Partial<Record<RebuildStep, number>>;
    }
  /** Another leader or rebuild was there first; what we moved is moved back, unless it is theirs. */
  | { kind: 'refused'; step: RebuildStep; reason: string }
  | { kind: 'failed'; step: RebuildStep; fault: unknown };

/** How many seats, and how many holds, one call to the store contains. */
const loadedAtOnce = 2_000;
const rememberedAtOnce = 100;
/** While a partition moves, no seat in it can be held. A move that takes longer than this is aborted. */
const pauseMaxMs = 2_000;

/** Ends a rebuild: not a fault of a store. */
class Given {
  readonly reason: string;
  constructor(reason: string) {
    this.reason = reason;
  }
}

/**
 * Fills a Redis with what Postgres knows of a partition and hands the partition over:
 * begin → load the seats → remember the holds → move → what changed, and open → flip. Everything that takes long is done before
 * the move, and the move is three questions long: in a busy process each waits its turn. Each step is conditional: in Postgres
 * on the leader's term and on this rebuild being the last begun, in Redis on its epoch; so one that was paused and wakes
 * changes nothing.
 */
export async function rebuild(parts: RebuildParts, target: RebuildTarget): Promise<RebuildOutcome> {
  const { modes, clock } = parts;
  const { at, arbiter, runIds } = target;
  const { event, partition } = at;
  let step: RebuildStep = 'begin';
  const stepsMs: Partial<Record<RebuildStep, number>> = {};
  let enteredAt = clock.monotonic();
  const enter = (next: RebuildStep): void => {
    const now = clock.monotonic();
    stepsMs[step] = Math.round(now - enteredAt);
    enteredAt = now;
    step = next;
  };
  let movedAt: number | null = null;
  const inTime = (): void => {
    if (movedAt !== null && clock.monotonic() - movedAt > pauseMaxMs) throw new Given('it takes too long');
  };

  async function load(epoch: number, stored: StoredSeats): Promise<void> {
    for (const seats of chunks(changesOf(stored), loadedAtOnce)) {
      expect(await arbiter.load({ event, partition, epoch, seats }), 'loaded');
    }
  }
  async function remember(epoch: number, stored: StoredHold[]): Promise<void> {
    for (const holds of chunks(stored, rememberedAtOnce)) {
      expect(await arbiter.remember({ event, partition, epoch, holds }), 'remembered');
    }
  }

  try {
    const epoch = await begin(parts, target);
    const here = { event, partition, epoch };
    enter('load');
    const { mark, ...before } = await modes.seats(event, partition);
    // Read after the seats and their mark, so that a change that is missed here comes after the mark.
    const held = await modes.holds(event, partition);
    await load(epoch, before);
    enter('remember');
    await remember(epoch, held);
    enter('move');
    // From before the call: its answer may be lost.
    movedAt = clock.monotonic();
    const { seats, holds, phase } = expect(
      await modes.move({ ...at, rebuild: epoch, since: mark }),
      'moving',
    );
    inTime();
    enter('open');
    const lastGrant = [...held, ...holds].reduce((last, { grant }) => Math.max(last, grant), 0);
    // The seats first: a hold takes only those that are free by then.
    await load(epoch, seats);
    await remember(epoch, holds.slice(rememberedAtOnce));
    // The last of them and `open` are sent together and done in this order; were it another, `remember` would refuse.
    const last = remember(epoch, holds.slice(0, rememberedAtOnce));
    const [opened] = await Promise.all([arbiter.open({ ...here, phase, lastGrant }), last]);
    expect(opened, 'opened');
    inTime();
    enter('flip');
    expect(await modes.flip({ ...at, rebuild: epoch, runIds }), 'flipped');
    const pauseMs = clock.monotonic() - movedAt;
    stepsMs.flip = Math.round(clock.monotonic() - enteredAt);
    return { kind: 'rebuilt', epoch, seats: before.seats.length, holds: held.length, pauseMs, stepsMs };
  } catch (fault) {
    // Refused when nothing was moved, when another leader did it, or when the flip took effect and only its answer was lost.
    if (movedAt !== null) await modes.abort(at).catch(() => {});
    return fault instanceof Given
      ? { kind: 'refused', step, reason: fault.reason }
      : { kind: 'failed', step, fault };
  }
}

/**
 * Returns the new epoch. A database restored from a backup may give an older epoch than the store has; then this tries again.
 */
async function begin({ modes }: RebuildParts, { at, arbiter }: RebuildTarget): Promise<number> {
  const { event, partition } = at;
  let { epoch } = expect(await modes.begin(at), 'begun');
  let answer = await arbiter.begin({ event, partition, epoch });
  if (answer.kind === 'stale') {
    ({ epoch } = expect(await modes.begin({ ...at, above: answer.epoch }), 'begun'));
    answer = await arbiter.begin({ event, partition, epoch });
  }
  expect(answer, 'begun');
  return epoch;
}

/** The answer of that kind; any other (refused, stale) ends the rebuild. */
function expect<Answer extends { kind: string }, Kind extends Answer['kind']>(
  answer: Answer,
  kind: Kind,
): Extract<Answer, { kind: Kind }> {
  if (answer.kind === kind) return answer as Extract<Answer, { kind: Kind }>;
  throw new Given((answer as Partial<Refused>).reason ?? answer.kind);
}

function changesOf({ seats, versions, states }: StoredSeats): SeatChange[] {
  assert(seats.length === versions.length && seats.length === states.length, 'seats side by side');
  return seats.map((seat, i) => ({ seat, version: versions[i]!, state: decidedOf(states[i]!) }));
}

function decidedOf(code: number): DecidedState {
  const state = seatStates[code];
  assert(state !== undefined && state !== 'held', `a decided state, not ${state ?? code}`);
  return state;
}

function chunks<Item>(all: Item[], size: number): Item[][] {
  const parts: Item[][] = [];
  for (let i = 0; i < all.length; i += size) parts.push(all.slice(i, i + size));
  return parts;
}
