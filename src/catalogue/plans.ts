import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import type { EventNo } from '../core/hold.ts';
import { assignSeatNos, planLayout, planSeats } from '../core/plan-layout.ts';
import type { PlanReport, PlanWarning } from '../core/plan-report.ts';
import type { SeatFacts, SeatingPlan, SeatNo } from '../core/seat-map.ts';
import type { EventRecord } from '../orders/record.ts';
import type { Db } from '../postgres/db.ts';
import { type EventPartition, partitionOfSection, readPartitions } from './partitions.ts';

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
    // Another process took the version number first, so the next one is tried.
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

/** Returns the summary of a plan without reading its seats. Null if there is no plan with that id. */
export async function findPlan(db: Db, plan: string): Promise<PlanSummary | null> {
  const rows = await db.query<PlanRow>(
    'plan_by_id',
    `SELECT ${summaryColumns} FROM plans WHERE plan_id = $1`,
    [plan],
  );
  return rows[0] ? summaryOf(rows[0]) : null;
}

/** The whole plan; null when there is none of that id. Computes for a good part of a second with a large one. */
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

/**
 * Publishes a draft event: seat numbers, layout, its own tables, phase `scheduled`. Computes for seconds with a large plan, so
 * web processes run it in a thread.
 */
export async function publishEvent(
  db: Db,
  event: EventRecord,
  command: { actor: string; acceptWarnings: boolean },
): Promise<PublishOutcome> {
  const { actor } = command;
  const plan = await loadPlan(db, event.planId);
  if (!plan) return { kind: 'unknown' };
  const summary = await findPlan(db, event.planId);
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

export interface NumberedPlan {
  hash: string;
  bytes: Buffer;
  /** Indexed by seat_no from 0, including removed seats of earlier versions. */
  seats: SeatFacts[];
  /** The seats of this plan. */
  planned: SeatFacts[];
  columns: string[][];
}

export function numberSeats(plan: SeatingPlan, before: SeatFacts[] | null): NumberedPlan {
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

/** A url-safe name: Latin letters (without accents) and digits kept, everything else a dash; a name without any becomes `plan`. */
export function slugOf(name: string): string {
  const slug = name
    .normalize('NFKD')
    // Accents: é becomes e.
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 30)
    .replace(/-+$/, '');
  return slug || 'plan';
}
