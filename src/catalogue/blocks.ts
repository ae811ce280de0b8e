import { type EventNo, holdLimits, type PartitionNo, type SeatState, seatStates } from '../core/hold.ts';
import type { Phase } from '../core/phase.ts';
import type { SeatNo } from '../core/seat-map.ts';
import type { Arbiter } from '../inventory/arbiter.ts';
import type { DecidedSeat, PartitionMode } from '../orders/record.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Random } from '../runtime/random.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import type { Events } from './events.ts';

export interface BlockDeps {
  db: Db;
  arbiter: Pick<Arbiter, 'hold' | 'release' | 'project' | 'snapshot'>;
  events: Pick<Events, 'modes' | 'forgetModes'>;
  clock: Pick<Clock, 'sleep'>;
  random: Random;
}

export interface BlockCommand {
  event: EventNo;
  actor: string;
  reason: string;
  seats: SeatNo[];
}

export interface BlockOutcome {
  blocked: DecidedSeat[];
  /** Held, reserved, sold or already blocked: left as they are. */
  refused: { seat: SeatNo; state: SeatState }[];
  /** Their partition is moving between stores, or its store does not answer: nothing was done about them. */
  unanswered: SeatNo[];
}

/** A partition that is moving is asked again this many times, this far apart. A move takes under a second. */
const triesMax = 4;
const retryMs = 400;
/** The organiser's own holds: under the reserve margin they would be refused. */
const holdTtlMs = 60_000;
/** Held at once before the record is asked: they share the store's calls. */
const holdsAtOnce = 20;

/** Blocks the free ones of `seats` for the organiser; the others are listed, not taken. */
export async function blockSeats(deps: BlockDeps, command: BlockCommand): Promise<BlockOutcome> {
  const outcome: BlockOutcome = { blocked: [], refused: [], unanswered: ascending(command.seats) };
  const partitionOf = await partitionsOfSeats(deps.db, command.event, outcome.unanswered);
  for (let tries = 1; outcome.unanswered.length > 0 && tries <= triesMax; tries++) {
    if (tries > 1) await deps.clock.sleep(retryMs);
    deps.events.forgetModes(command.event);
    const seats = outcome.unanswered;
    outcome.unanswered = [];
    for (const mode of await deps.events.modes(command.event)) {
      const mine = seats.filter((seat) => partitionOf.get(seat) === mode.partition);
      if (mine.length === 0) continue;
      const part = await blockInPartition({ ...deps, ...command, mode }, mine);
      outcome.blocked.push(...part.blocked);
      outcome.refused.push(...part.refused);
      outcome.unanswered.push(...part.unanswered);
    }
  }
  for (const list of [outcome.blocked, outcome.refused]) list.sort((a, b) => a.seat - b.seat);
  return outcome;
}

/** Gives blocked seats back to the sale; answers those that were blocked. */
export async function unblockSeats(
  deps: Pick<BlockDeps, 'db' | 'arbiter'>,
  command: { event: EventNo; actor: string; seats: SeatNo[] },
): Promise<DecidedSeat[]> {
  const rows = await deps.db.query<{ seat_no: number; version: number }>(
    'seats_unblock',
    'SELECT * FROM seats_unblock($1, $2, $3)',
    [command.event, command.actor, ascending(command.seats)],
  );
  const freed = rows.map((row) => ({ seat: row.seat_no, version: row.version, state: 'available' as const }));
  const partitionOf = await partitionsOfSeats(
    deps.db,
    command.event,
    freed.map(({ seat }) => seat),
  );
  for (const partition of new Set(partitionOf.values())) {
    const mine = freed.filter(({ seat }) => partitionOf.get(seat) === partition);
    await project(deps.arbiter, command.event, partition, mine);
  }
  return freed;
}

async function partitionsOfSeats(db: Db, event: EventNo, seats: SeatNo[]): Promise<Map<SeatNo, PartitionNo>> {
  const rows = await db.query<{ seat: SeatNo; partition: PartitionNo }>(
    'seats_partitions',
    'SELECT seat_no AS seat, partition FROM seats WHERE event_no = $1 AND seat_no = ANY ($2)',
    [event, seats],
  );
  return new Map(rows.map(({ seat, partition }) => [seat, partition]));
}

/** The input for blocking the seats of one partition. */
type Blocking = BlockDeps & Omit<BlockCommand, 'seats'> & { mode: PartitionMode };

function blockInPartition(blocking: Blocking, seats: SeatNo[]): Promise<BlockOutcome> | BlockOutcome {
  switch (blocking.mode.mode) {
    case 'postgres':
      return decide(blocking, seats, {});
    case 'moving':
      return unanswered(seats);
    case 'redis':
      return blockInRedis(blocking, seats);
  }
}

function unanswered(seats: SeatNo[]): BlockOutcome {
  return { blocked: [], refused: [], unanswered: seats };
}

function together(parts: readonly BlockOutcome[]): BlockOutcome {
  return {
    blocked: parts.flatMap(({ blocked }) => blocked),
    refused: parts.flatMap(({ refused }) => refused),
    unanswered: parts.flatMap((part) => part.unanswered),
  };
}

/**
 * The record's one step, and then the report to the arbiter. `proof`: in Redis mode the reason why no other claim can get the
 * seats in the meantime. Empty if arbiter and record are the same rows.
 */
async function decide(
  { db, arbiter, event, actor, reason, mode }: Blocking,
  seats: SeatNo[],
  proof: { until?: number; version?: number },
): Promise<BlockOutcome> {
  if (seats.length === 0) return unanswered([]);
  const rows = await db.query<{
    seat_no: number | null;
    version: number;
    state: SeatState | 'other_mode';
    blocked: boolean;
  }>('seats_block', 'SELECT * FROM seats_block($1, $2, $3, $4, $5, $6, $7, $8)', [
    event,
    actor,
    reason,
    ascending(seats),
    mode.partition,
    mode.mode === 'redis' ? mode.epoch : null,
    proof.until === undefined ? null : new Date(proof.until),
    proof.version ?? null,
  ]);
  if (rows[0]?.state === 'other_mode') return unanswered(seats);
  const blocked = rows
    .filter((row) => row.blocked)
    .map((row) => ({ seat: row.seat_no!, version: row.version, state: 'blocked' as const }));
  const refused = rows
    .filter((row) => !row.blocked)
    .map((row) => ({ seat: row.seat_no!, state: row.state as SeatState }));
  await project(arbiter, event, mode.partition, blocked);
  return { blocked, refused, unanswered: [] };
}

/** The leader tells the arbiter again of every decision, so that a failure here only delays the display. */
async function project(
  arbiter: Pick<Arbiter, 'project'>,
  event: EventNo,
  partition: PartitionNo,
  changes: DecidedSeat[],
): Promise<void> {
  if (changes.length === 0) return;
  try {
    await arbiter.project({ event, partition, changes, ordered: [], ended: [] });
  } catch (error) {
    if (!(error instanceof StoreFault)) throw error;
  }
}

async function blockInRedis(blocking: Blocking, seats: SeatNo[]): Promise<BlockOutcome> {
  try {
    const [now] = await blocking.db.query<{ phase: Phase; version: number }>(
      'event_phase',
      'SELECT phase, version FROM events WHERE event_no = $1',
      [blocking.event],
    );
    if (!now) return unanswered(seats);
    return now.phase === 'open'
      ? await blockByHolds(blocking, seats)
      : await blockAtRest(blocking, seats, now);
  } catch (error) {
    // Whatever was held lapses within a minute, and whatever was blocked answers `blocked` to the next try.
    if (error instanceof StoreFault) return unanswered(seats);
    throw error;
  }
}

/** While the sale is not open no new hold is granted: once the store knows that, what is free there stays free. */
async function blockAtRest(
  blocking: Blocking,
  seats: SeatNo[],
  phase: { phase: Phase; version: number },
): Promise<BlockOutcome> {
  const { arbiter, event, mode } = blocking;
  const knows = await arbiter.project({
    event,
    partition: mode.partition,
    changes: [],
    ordered: [],
    ended: [],
    phase,
  });
  // It may still grant what is free there.
  if (!knows) return unanswered(seats);
  const { free, outcome } = await lookAt(blocking, seats);
  return together([outcome, await decide(blocking, free, { version: phase.version })]);
}

/** First holds the free seats for the organiser, as for a buyer but without a quota. */
async function blockByHolds(blocking: Blocking, seats: SeatNo[]): Promise<BlockOutcome> {
  const { free, outcome } = await lookAt(blocking, seats);
  const parts = [outcome];
  const lost: SeatNo[] = [];
  for (const many of sliced(free, holdLimits.seatsMax * holdsAtOnce)) {
    const holds = await Promise.all(
      sliced(many, holdLimits.seatsMax).map((few) => holdFree(blocking, few, lost)),
    );
    const held = holds.filter((each) => each.seats.length > 0 && each.deadline !== null);
    try {
      const until = Math.min(...held.map(({ deadline }) => deadline!));
      parts.push(
        await decide(
          blocking,
          held.flatMap((each) => each.seats),
          { until },
        ),
      );
    } finally {
      await Promise.all(held.map((each) => giveBack(blocking, each.own)));
    }
    parts.push(unanswered(holds.flatMap((each) => (each.deadline === null ? each.seats : []))));
  }
  if (lost.length > 0) {
    // Another claim was faster: reports the current state, or `held` if the seat has come free again since.
    const { free: again, outcome: now } = await lookAt(blocking, lost);
    parts.push(now, {
      ...unanswered([]),
      refused: again.map((seat) => ({ seat, state: 'held' as const })),
    });
  }
  return together(parts);
}

interface OrganiserHold {
  own: { hold: string; visitor: string };
  seats: SeatNo[];
  /** Null if the store did not respond, or will be another one. */
  deadline: number | null;
}

/** Holds as many of the seats as are free: those that turn out to be taken are left out, and noted in `lost`. */
async function holdFree(blocking: Blocking, seats: SeatNo[], lost: SeatNo[]): Promise<OrganiserHold> {
  const { arbiter, event, mode, random } = blocking;
  let wanted = seats;
  while (wanted.length > 0) {
    // A visitor of its own for each, since a visitor has one hold.
    const visitor = Buffer.from(random.bytes(16)).toString('base64url');
    const own = { hold: random.uuid(), visitor };
    const outcome = await arbiter.hold({
      ...own,
      event,
      partition: mode.partition,
      holder: visitor,
      request: 'block',
      claim: { kind: 'seats', seats: wanted },
      ttlMs: holdTtlMs,
      seatsMax: holdLimits.seatsMax,
      replaces: null,
      notAfter: null,
    });
    if (outcome.kind === 'granted') return { own, seats: wanted, deadline: outcome.hold.deadline };
    if (outcome.kind !== 'taken') {
      // Its answer may be what was lost.
      await giveBack(blocking, own);
      return { own, seats: wanted, deadline: null };
    }
    const taken = new Set(outcome.seats);
    lost.push(...wanted.filter((seat) => taken.has(seat)));
    wanted = wanted.filter((seat) => !taken.has(seat));
  }
  return { own: { hold: '', visitor: '' }, seats: [], deadline: null };
}

async function giveBack({ arbiter, event, mode }: Blocking, own: OrganiserHold['own']): Promise<void> {
  try {
    await arbiter.release({ ...own, event, partition: mode.partition });
  } catch (error) {
    // It lapses by itself.
    if (!(error instanceof StoreFault)) throw error;
  }
}

async function lookAt(
  { arbiter, event, mode }: Blocking,
  seats: SeatNo[],
): Promise<{ free: SeatNo[]; outcome: BlockOutcome }> {
  const { codes } = await arbiter.snapshot(event, mode.partition);
  const free: SeatNo[] = [];
  const outcome = unanswered([]);
  for (const seat of seats) {
    const state = seatStates[codes[seat] ?? 255];
    if (state === 'available') free.push(seat);
    else if (state) outcome.refused.push({ seat, state });
    // A seat of a new plan that the store does not have yet.
    else outcome.unanswered.push(seat);
  }
  return { free, outcome };
}

function sliced<Item>(items: readonly Item[], length: number): Item[][] {
  return Array.from({ length: Math.ceil(items.length / length) }, (_, i) =>
    items.slice(i * length, (i + 1) * length),
  );
}

/** Sorted and without repeats: rows are locked in this order everywhere. */
function ascending(seats: SeatNo[]): SeatNo[] {
  return [...new Set(seats)].sort((a, b) => a - b);
}
