import type { DecidedState, EventNo, PartitionNo, SeatState } from '../core/hold.ts';
import { planDiff } from '../core/plan-layout.ts';
import type { SeatFacts, SeatNo } from '../core/seat-map.ts';
import type { Arbiter } from '../inventory/arbiter.ts';
import type { EventRecord } from '../orders/record.ts';
import type { Db } from '../postgres/db.ts';
import { type BlockDeps, blockSeats, unblockSeats } from './blocks.ts';
import { type EventPartition, eventPartitions, partitionOfSection, regroup } from './partitions.ts';
import { categoriesWithoutPrice, loadPlan, numberSeats, seatFacts } from './plans.ts';

/*
 * Another version of the plan for a published event, in two steps. `prepareReplan` does the computing: it reads both plans and
 * numbers the seats. `replanEvent` then writes what changes.
 */

/** The effect that a replan would have. */
export interface PreparedReplan {
  kind: 'prepared';
  /** The layout that the numbers were given on top of. */
  base: string;
  layoutHash: string;
  layout: Uint8Array;
  seatCount: number;
  /** JSON of the seats that are new or described otherwise than before, as `event_replan` reads it. */
  changed: string;
  added: number;
  kept: number;
  removed: SeatFacts[];
  partitions: EventPartition[];
}
export type PrepareOutcome =
  | PreparedReplan
  /** Seats whose new section is sold in another partition. */
  | { kind: 'would_move'; seats: SeatFacts[] }
  | { kind: 'no_price'; categories: string[] }
  | { kind: 'not_published' }
  | { kind: 'unknown' };

export type ReplanOutcome =
  | {
      kind: 'replanned';
      added: number;
      removed: number;
      kept: number;
      /** Partitions whose store did not get the new seats: it refuses them until the same plan is set again. */
      untold: PartitionNo[];
    }
  | { kind: 'dry_run'; added: number; removed: SeatFacts[]; kept: number }
  /** Seats that the new version would lose although a buyer has them: nothing was changed. */
  | { kind: 'would_lose'; seats: (SeatFacts & { state: SeatState })[] }
  /** The event's plan was changed in between: nothing was done. */
  | { kind: 'conflict' }
  /** A partition is moving between stores, or its store does not answer: nothing was changed. */
  | { kind: 'busy' }
  | Exclude<PrepareOutcome, PreparedReplan>;

export interface ReplanCommand {
  event: EventRecord;
  plan: string;
  actor: string;
  dryRun: boolean;
}
export type ReplanDeps = BlockDeps & {
  arbiter: Pick<Arbiter, 'load'>;
  /** `prepareReplan` with a database; web processes run it in a thread. */
  prepareReplan(event: EventRecord, plan: string): Promise<PrepareOutcome>;
};

/** Seats keep their numbers; removed ones stay as blocked. */
export async function replanEvent(deps: ReplanDeps, command: ReplanCommand): Promise<ReplanOutcome> {
  const { event, plan, dryRun } = command;
  const prepared = await deps.prepareReplan(event, plan);
  if (prepared.kind !== 'prepared') return prepared;
  const { added, kept, removed } = prepared;
  if (dryRun) return { kind: 'dry_run', added, removed, kept };
  const outcome = await withRemovedBlocked(deps, command, removed, () =>
    writePlan(deps.db, command, prepared),
  );
  if (outcome.kind !== 'written') return outcome;
  const untold = await loadNewSeats(deps, event.eventNo);
  return { kind: 'replanned', added, kept, removed: removed.length, untold };
}

/** Changes nothing. Computes for seconds with a large plan. */
export async function prepareReplan(db: Db, event: EventRecord, plan: string): Promise<PrepareOutcome> {
  if (!event.layoutHash) return { kind: 'not_published' };
  const [oldPlan, newPlan] = await Promise.all([loadPlan(db, event.planId), loadPlan(db, plan)]);
  if (!oldPlan || !newPlan) return { kind: 'unknown' };
  const unpriced = categoriesWithoutPrice(newPlan, event.prices);
  if (unpriced.length > 0) return { kind: 'no_price', categories: unpriced };
  const before = await seatFacts(db, event.eventNo);
  const numbered = numberSeats(newPlan, before);
  const regrouped = regroup(await eventPartitions(db, event.eventNo), before, numbered.planned);
  if (regrouped.kind === 'would_move') return regrouped;
  const { partitions } = regrouped;
  const kept = new Set(numbered.planned.map((seat) => seat.seatNo));
  const changed = numbered.seats.filter((seat) => !sameFacts(seat, before[seat.seatNo]));
  return {
    kind: 'prepared',
    base: event.layoutHash,
    layoutHash: numbered.hash,
    layout: numbered.bytes,
    seatCount: numbered.seats.length,
    changed: changedJson(changed, partitions),
    added: numbered.seats.length - before.length,
    kept: planDiff(oldPlan, newPlan).kept.length,
    removed: before.filter((seat) => !kept.has(seat.seatNo)),
    partitions,
  };
}

function changedJson(seats: readonly SeatFacts[], partitions: readonly EventPartition[]): string {
  const partitionOf = partitionOfSection(partitions);
  return JSON.stringify(
    seats.map(({ seatNo, seatGuid, sectionId, row, label, category }) => ({
      n: seatNo,
      guid: seatGuid,
      section: sectionId,
      row,
      label,
      category,
      partition: partitionOf(sectionId),
    })),
  );
}

function sameFacts(seat: SeatFacts, before: SeatFacts | undefined): boolean {
  return (
    before !== undefined &&
    seat.sectionId === before.sectionId &&
    seat.row === before.row &&
    seat.label === before.label &&
    seat.category === before.category
  );
}

type Written = { kind: 'written' } | Extract<ReplanOutcome, { kind: 'would_lose' | 'conflict' | 'busy' }>;

async function writePlan(
  db: Db,
  { event, actor, plan }: ReplanCommand,
  prepared: PreparedReplan,
): Promise<Written> {
  const { removed, layout } = prepared;
  const lost = await db.query<{ seat_no: number | null; state: SeatState | 'conflict' | 'busy' }>(
    'event_replan',
    'SELECT * FROM event_replan($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)',
    [
      event.eventNo,
      actor,
      prepared.base,
      plan,
      prepared.layoutHash,
      Buffer.from(layout.buffer, layout.byteOffset, layout.byteLength),
      prepared.seatCount,
      prepared.changed,
      JSON.stringify(prepared.partitions),
      removed.map((seat) => seat.seatNo),
    ],
  );
  const [first] = lost;
  if (!first) return { kind: 'written' };
  if (first.state === 'conflict' || first.state === 'busy') return { kind: first.state };
  return {
    kind: 'would_lose',
    seats: withState(
      removed,
      lost.map(({ seat_no, state }) => ({ seat: seat_no!, state: state as SeatState })),
    ),
  };
}

/**
 * Where Redis arbitrates, Postgres cannot see who holds a seat. So the removed seats are blocked, which claims them in Redis,
 * before the plan is written, and are unblocked if it is not.
 */
async function withRemovedBlocked(
  deps: ReplanDeps,
  { event, actor }: ReplanCommand,
  removed: SeatFacts[],
  write: () => Promise<Written>,
): Promise<Written> {
  const modes = await deps.events.modes(event.eventNo);
  if (removed.length === 0 || modes.every(({ mode }) => mode === 'postgres')) return write();
  const seats = removed.map(({ seatNo }) => seatNo);
  const blocking = { event: event.eventNo, actor, reason: 'removed from the plan', seats };
  const { blocked, refused, unanswered } = await blockSeats(deps, blocking);
  const giveBack = async (answer: Written): Promise<Written> => {
    const ours = blocked.map(({ seat }) => seat);
    if (ours.length > 0) await unblockSeats(deps, { event: event.eventNo, actor, seats: ours });
    return answer;
  };
  const lost = refused.filter(({ state }) => state !== 'blocked');
  if (lost.length > 0) return giveBack({ kind: 'would_lose', seats: withState(removed, lost) });
  if (unanswered.length > 0) return giveBack({ kind: 'busy' });
  try {
    const written = await write();
    return written.kind === 'written' ? written : await giveBack(written);
  } catch (error) {
    await giveBack({ kind: 'busy' });
    throw error;
  }
}

function withState(facts: readonly SeatFacts[], seats: { seat: SeatNo; state: SeatState }[]) {
  const byNo = new Map(facts.map((seat) => [seat.seatNo, seat]));
  return seats.flatMap(({ seat, state }) => {
    const found = byNo.get(seat);
    return found ? [{ ...found, state }] : [];
  });
}

/** Seats in one call to a store. */
const loadedMax = 5_000;

/**
 * Loads each partition's seats into its Redis, which keeps those that it knows. Returns the partitions that could not be
 * reached. A page at a time: 200,000 rows at once would keep this process from its buyers.
 */
async function loadNewSeats({ db, arbiter, events }: ReplanDeps, event: EventNo): Promise<PartitionNo[]> {
  events.forgetModes(event);
  const untold: PartitionNo[] = [];
  for (const { partition, mode } of await events.modes(event)) {
    if (mode === 'postgres') continue;
    for (let after = -1; ; ) {
      const seats = await db.query<{ seat: SeatNo; version: number; state: DecidedState }>(
        'replan_seats',
        `SELECT seat_no AS seat, version, state FROM seats WHERE event_no = $1 AND partition = $2 AND seat_no > $3
         ORDER BY seat_no LIMIT $4`,
        [event, partition, after, loadedMax],
      );
      const last = seats.at(-1);
      if (!last) break;
      after = last.seat;
      const outcome = await arbiter.load({ event, partition, seats }).catch(() => null);
      if (outcome?.kind === 'loaded') continue;
      untold.push(partition);
      break;
    }
  }
  return untold;
}
