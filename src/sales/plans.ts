import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import type { DecidedState, EventNo, PartitionNo, SeatState } from '../core/hold.ts';
import { assignSeatNos, planDiff, planLayout, planSeats } from '../core/plan-layout.ts';
import type { PlanReport, PlanWarning } from '../core/plan-report.ts';
import type { SeatFacts, SeatingPlan, SeatNo } from '../core/seat-map.ts';
import type { Arbiter } from '../inventory/arbiter.ts';
import { type BlockDeps, blockSeats, unblockSeats } from './blocks.ts';
import type { Db } from './db.ts';
import {
  type EventPartition,
  eventPartitions,
  partitionOfSection,
  readPartitions,
  regroup,
} from './partitions.ts';
import type { EventRecord } from './record.ts';

export interface PlanSummary {
  plan: string;
  name: string;
  version: number;
  report: PlanReport;
  createdAt: number;
}

interface PlanRow {
  plan_id: string;
  name: string;
  version: number;
  report: PlanReport;
  created_at: number;
}

const summaryColumns = 'plan_id, name, version, report, created_at';
const saveTriesMax = 5;

/**
 * Stores an imported plan. A plan is immutable: the same one again is answered as it is (`known`), another one under the
 * same name becomes that name's next version.
 */
export async function savePlan(
  db: Db,
  plan: SeatingPlan,
  report: PlanReport,
): Promise<{ kind: 'saved' | 'known'; plan: PlanSummary }> {
  const json = JSON.stringify(plan);
  const hash = createHash('sha256').update(json).digest('hex');
  const bytes = await promisify(gzip)(json);
  for (let attempt = 0; attempt < saveTriesMax; attempt++) {
    const saved = await db.query<PlanRow>(
      'plan_save',
      `INSERT INTO plans (plan_id, name, version, hash, plan, report)
       SELECT $1 || '-v' || v.next, $2, v.next, $3, $4, $5
       FROM (SELECT coalesce(max(version), 0) + 1 AS next FROM plans
             WHERE name = $2 OR plan_id ~ ('^' || $1 || '-v[0-9]+$')) v
       ON CONFLICT DO NOTHING RETURNING ${summaryColumns}`,
      [slugOf(plan.name), plan.name, hash, bytes, JSON.stringify(report)],
    );
    if (saved[0]) return { kind: 'saved', plan: summaryOf(saved[0]) };
    const known = await db.query<PlanRow>(
      'plan_by_hash',
      `SELECT ${summaryColumns} FROM plans WHERE hash = $1`,
      [hash],
    );
    if (known[0]) return { kind: 'known', plan: summaryOf(known[0]) };
    // Somebody took the version number in between: the next one.
  }
  throw new Error(`plan ${plan.name} could not be stored: its name is being written by others`);
}

export async function listPlans(db: Db): Promise<PlanSummary[]> {
  const rows = await db.query<PlanRow>(
    'plan_list',
    `SELECT ${summaryColumns} FROM plans ORDER BY created_at DESC, plan_id LIMIT 1000`,
  );
  return rows.map(summaryOf);
}

/** The whole plan; null when there is none of that id. */
export async function loadPlan(db: Db, plan: string): Promise<SeatingPlan | null> {
  const rows = await db.query<{ plan: Buffer }>('plan_load', 'SELECT plan FROM plans WHERE plan_id = $1', [
    plan,
  ]);
  if (!rows[0]) return null;
  const json = await promisify(gunzip)(rows[0].plan);
  return JSON.parse(json.toString('utf8')) as SeatingPlan;
}

export type PublishOutcome =
  | { kind: 'published'; seats: number }
  | { kind: 'not_draft' }
  | { kind: 'unknown' }
  /** Categories of the plan without a price. */
  | { kind: 'no_price'; categories: string[] }
  /** Oddities of the plan that the organiser has to settle, or to accept, before its seats go on sale. */
  | { kind: 'unsettled'; warnings: PlanWarning[] };

/** Publishes a draft event: seat numbers, layout, its own tables, phase `scheduled`. */
export async function publishEvent(
  db: Db,
  event: EventRecord,
  command: { actor: string; acceptWarnings: boolean },
): Promise<PublishOutcome> {
  const { actor } = command;
  const plan = await loadPlan(db, event.planId);
  if (!plan) return { kind: 'unknown' };
  const [summary] = await db.query<PlanRow>(
    'plan_by_id',
    `SELECT ${summaryColumns} FROM plans WHERE plan_id = $1`,
    [event.planId],
  );
  const warnings = summary?.report.warnings.filter((warning) => warning.beforeSale) ?? [];
  if (warnings.length > 0 && !command.acceptWarnings) return { kind: 'unsettled', warnings };
  const unpriced = categoriesWithoutPrice(plan, event.prices);
  if (unpriced.length > 0) return { kind: 'no_price', categories: unpriced };
  const numbered = numberSeats(plan, null);
  const read = readPartitions(event.settings.partitions ?? [], plan, null);
  if (read.kind === 'refused') throw new Error(`event ${event.event}: ${read.sentence}`);
  const [row] = await db.query<{ outcome: 'published' | 'not_draft' | 'unknown' }>(
    'event_publish',
    'SELECT event_publish($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) AS outcome',
    [
      event.eventNo,
      actor,
      numbered.hash,
      numbered.bytes,
      ...numbered.columns,
      ...partitionColumns(numbered.seats, read.partitions),
    ],
  );
  const kind = row?.outcome ?? 'unknown';
  return kind === 'published' ? { kind, seats: numbered.seats.length } : { kind };
}

export type ReplanOutcome =
  | {
      kind: 'replanned';
      added: number;
      removed: number;
      kept: number;
      /** Partitions whose store was not told of new seats: it refuses them until the same plan is given once more. */
      untold: PartitionNo[];
    }
  | { kind: 'dry_run'; added: number; removed: SeatFacts[]; kept: number }
  /** Seats that the new version would lose although somebody has them: nothing was changed. */
  | { kind: 'would_lose'; seats: (SeatFacts & { state: SeatState })[] }
  /** Seats whose new section is sold in another partition: nothing was changed. */
  | { kind: 'would_move'; seats: SeatFacts[] }
  | { kind: 'no_price'; categories: string[] }
  /** The event's plan was changed in between: nothing was done. */
  | { kind: 'conflict' }
  /** A partition is moving between stores, or its store does not answer: nothing was changed. */
  | { kind: 'busy' }
  | { kind: 'not_published' }
  | { kind: 'unknown' };

export interface ReplanCommand {
  event: EventRecord;
  plan: string;
  actor: string;
  dryRun: boolean;
}
export type ReplanDeps = BlockDeps & { arbiter: Pick<Arbiter, 'load'> };

/** Another version of the plan for a published event. Seats keep their numbers; removed ones stay as blocked. */
export async function replanEvent(deps: ReplanDeps, command: ReplanCommand): Promise<ReplanOutcome> {
  const { db } = deps;
  const { event } = command;
  if (!event.layoutHash) return { kind: 'not_published' };
  const [oldPlan, newPlan] = await Promise.all([loadPlan(db, event.planId), loadPlan(db, command.plan)]);
  if (!oldPlan || !newPlan) return { kind: 'unknown' };
  const unpriced = categoriesWithoutPrice(newPlan, event.prices);
  if (unpriced.length > 0) return { kind: 'no_price', categories: unpriced };
  const before = await seatFacts(db, event.eventNo);
  const numbered = numberSeats(newPlan, before);
  const regrouped = regroup(await eventPartitions(db, event.eventNo), before, numbered.planned);
  if (regrouped.kind === 'would_move') return regrouped;
  const kept = new Set(numbered.planned.map((seat) => seat.seatNo));
  const removed = before.filter((seat) => !kept.has(seat.seatNo));
  const diff = planDiff(oldPlan, newPlan);
  const counts = { added: numbered.seats.length - before.length, kept: diff.kept.length };
  if (command.dryRun) return { kind: 'dry_run', ...counts, removed };
  const outcome = await withRemovedBlocked(deps, command, removed, () =>
    writePlan(db, command, numbered, regrouped.partitions, removed),
  );
  if (outcome.kind !== 'written') return outcome;
  const untold = await loadNewSeats(deps, event.eventNo);
  return { kind: 'replanned', ...counts, removed: removed.length, untold };
}

type Written = { kind: 'written' } | Extract<ReplanOutcome, { kind: 'would_lose' | 'conflict' | 'busy' }>;

async function writePlan(
  db: Db,
  { event, actor, plan }: ReplanCommand,
  numbered: NumberedPlan,
  partitions: EventPartition[],
  removed: SeatFacts[],
): Promise<Written> {
  const lost = await db.query<{ seat_no: number | null; state: SeatState | 'conflict' | 'busy' }>(
    'event_replan',
    'SELECT * FROM event_replan($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)',
    [
      event.eventNo,
      actor,
      event.layoutHash,
      plan,
      numbered.hash,
      numbered.bytes,
      ...numbered.columns,
      ...partitionColumns(numbered.seats, partitions),
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
 * Where Redis arbitrates, a seat that nobody holds is known by holding it: so the removed seats are blocked before the plan is
 * written, and given back when it is not.
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

/** Tells each Redis of all its seats as they are: those that it knows stay as they are there. Answers who was not reached. */
async function loadNewSeats({ db, arbiter, events }: ReplanDeps, event: EventNo): Promise<PartitionNo[]> {
  events.forgetModes(event);
  const untold: PartitionNo[] = [];
  for (const { partition, epoch, mode } of await events.modes(event)) {
    if (mode === 'postgres') continue;
    const seats = await db.query<{ seat: SeatNo; version: number; state: DecidedState }>(
      'replan_seats',
      `SELECT seat_no AS seat, version, state FROM seats WHERE event_no = $1 AND partition = $2 ORDER BY seat_no`,
      [event, partition],
    );
    for (let at = 0; at < seats.length; at += loadedMax) {
      const part = seats.slice(at, at + loadedMax);
      const outcome = await arbiter.load({ event, partition, epoch, seats: part }).catch(() => null);
      if (outcome?.kind === 'loaded') continue;
      untold.push(partition);
      break;
    }
  }
  return untold;
}

/** Everything about an event's seats that does not change during a sale, by seat_no. */
export async function seatFacts(db: Db, event: EventNo): Promise<SeatFacts[]> {
  const rows = await db.query<{
    n: number;
    guid: string;
    section: string;
    row: string;
    label: string;
    category: string;
  }>(
    'event_seats',
    `SELECT seat_no AS n, seat_guid AS guid, section_id AS section, row_label AS row, seat_label AS label, category
     FROM event_seats WHERE event_no = $1 ORDER BY seat_no`,
    [event],
  );
  return rows.map((row) => ({
    seatNo: row.n,
    seatGuid: row.guid,
    sectionId: row.section,
    row: row.row,
    label: row.label,
    category: row.category,
  }));
}

interface NumberedPlan {
  hash: string;
  bytes: Buffer;
  /** By seat_no from 0, removed seats of earlier versions included. */
  seats: SeatFacts[];
  /** Those of this plan. */
  planned: SeatFacts[];
  columns: string[][];
}

function numberSeats(plan: SeatingPlan, before: SeatFacts[] | null): NumberedPlan {
  const previous = before
    ? new Map<string, SeatNo>(before.map((seat) => [seat.seatGuid, seat.seatNo]))
    : null;
  const seatNos = assignSeatNos(previous, plan);
  const bytes = Buffer.from(JSON.stringify(planLayout(plan, seatNos)));
  const planned = planSeats(plan, seatNos);
  const seats = [...(before ?? [])];
  for (const seat of planned) seats[seat.seatNo] = seat;
  return {
    hash: createHash('sha256').update(bytes).digest('hex').slice(0, 20),
    bytes,
    seats,
    planned,
    columns: [
      seats.map((seat) => seat.seatGuid),
      seats.map((seat) => seat.sectionId),
      seats.map((seat) => seat.row),
      seats.map((seat) => seat.label),
      seats.map((seat) => seat.category),
    ],
  };
}

/** The partition of each seat, by seat_no, and the partitions as JSON. */
function partitionColumns(seats: readonly SeatFacts[], partitions: readonly EventPartition[]) {
  const partitionOf = partitionOfSection(partitions);
  return [seats.map(({ sectionId }) => partitionOf(sectionId)), JSON.stringify(partitions)];
}

/** Categories that seats of the plan are in and a price list has nothing for. */
export function categoriesWithoutPrice(plan: SeatingPlan, prices: Record<string, number>): string[] {
  const used = new Set<string>();
  for (const section of plan.sections) {
    if (section.kind === 'ga') used.add(section.category);
    for (const row of section.rows) for (const seat of row.seats) used.add(seat.category);
  }
  return [...used].filter((category) => !Object.hasOwn(prices, category));
}

function summaryOf(row: PlanRow): PlanSummary {
  return {
    plan: row.plan_id,
    name: row.name,
    version: row.version,
    report: row.report,
    createdAt: row.created_at,
  };
}

/** A url-safe name: latin letters and digits kept, everything else a dash; a name without any becomes `plan`. */
export function slugOf(name: string): string {
  const slug = name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 30)
    .replace(/-+$/, '');
  return slug || 'plan';
}
