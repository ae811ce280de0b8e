import type { EventId, EventNo, PartitionNo } from '../core/hold.ts';
import { newEventLimits } from '../core/limits.ts';
import { type Phase, phases, phasesByHand } from '../core/phase.ts';
import type { Layout, SeatFacts, SeatNo } from '../core/seat-map.ts';
import {
  type EventRecord,
  type EventSettings,
  eventSettingsDefault,
  type PartitionMode,
} from '../orders/record.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import { type EventPartition, eventPartitions, partitionOfSection, readPartitions } from './partitions.ts';
import { findPlan, seatFacts } from './plans.ts';

/** A web process's copy of a published event's seats. It changes only with the layout's hash. */
export interface Venue {
  layoutHash: string;
  layout: Layout;
  /** Indexed by seat_no. */
  seats: SeatFacts[];
  byGuid: Map<string, SeatNo>;
  /** Ascending, from 0; one unless the event asks for more. */
  partitions: EventPartition[];
  partitionOf(seat: SeatNo): PartitionNo;
}

export interface Events {
  /** The event, at most a second old; null when there is none of that name. */
  find(event: EventId): Promise<EventRecord | null>;
  findByNo(event: EventNo): Promise<EventRecord | null>;
  list(): Promise<EventRecord[]>;
  /**
   * The store that arbitrates each partition, read less than a second ago: "granted" is never returned under an older reading.
   */
  modes(event: EventNo): Promise<PartitionMode[]>;
  /**
   * As `modes`, with the instant (of the monotonic clock) at which the reading began. If `notBefore` is
   * given, shares a reading that began then or later.
   */
  modesRead(event: EventNo, notBefore?: number): Promise<ModesReading>;
  /** Forgets what is remembered about modes, after an arbiter answered `stale`. */
  forgetModes(event: EventNo): void;
  /** Forgets what is remembered about an event that was just changed. */
  forget(event: EventRecord): void;
  venue(event: EventRecord): Promise<Venue>;
  layoutBytes(hash: string): Promise<Uint8Array | null>;
  create(command: CreateEventCommand): Promise<CreateEventOutcome>;
  /** Changes the operator's controls if they still have the version that the operator saw. */
  changeOnSale(command: OnSaleCommand): Promise<OnSaleOutcome>;
}

export interface ModesReading {
  /** Milliseconds of this process's monotonic clock. */
  at: number;
  modes: PartitionMode[];
}

export interface CreateEventCommand {
  event: EventId;
  name: string;
  planId: string;
  currency: string;
  performanceAt: number | null;
  onSaleAt: number | null;
  saleEndsAt: number | null;
  prices: Record<string, number>;
  settings: Partial<EventSettings>;
  /** Names of the configured Redis servers; absent or null: not known here, so any name is taken. */
  redisServers?: readonly string[] | null;
}
export type CreateEventOutcome =
  | { kind: 'created'; event: EventRecord }
  | { kind: 'exists' }
  | { kind: 'unknown_plan' }
  /** Categories that seats of the plan are in: a draft's prices cannot be changed, so it is whole from the start. */
  | { kind: 'no_price'; categories: string[] }
  /** `place`: a path below the list of partitions. Empty for the list itself. */
  | { kind: 'partitions_refused'; place: string; sentence: string };

export interface OnSaleCommand {
  event: EventRecord;
  actor: string;
  expectedVersion: number;
  phase?: Phase;
  message?: string | null;
  rateCeiling?: number | null;
}

export interface OnSaleControls {
  phase: Phase;
  version: number;
  message: string | null;
  rateCeiling: number | null;
}
export type OnSaleOutcome =
  | { kind: 'changed'; now: OnSaleControls }
  /** Another change came first: nothing was done. */
  | { kind: 'conflict'; now: OnSaleControls }
  /** The phase cannot follow the present one; `possible` can. */
  | { kind: 'impossible'; now: OnSaleControls; possible: readonly Phase[] }
  | { kind: 'unknown' };

/** Epoch ms between the years 2000 and 2200: the first and the last years do not come back from Postgres as they went. */
export function isEventTime(at: number): boolean {
  return at >= Date.UTC(2000, 0) && at < Date.UTC(2200, 0);
}

/** How long a web process trusts what it read about an event or its modes. */
const freshMs = 900;
/** A move between stores takes a fraction of a second, so a call that waits for its end reads again this soon. */
const movingFreshMs = 50;
/** Venues in memory: some hundred bytes a seat. The one that was used longest ago goes first. */
const houseSeatsMax = 500_000;
/** The fixed memory cost of an event, in addition to its seats, in seats. */
const houseWeight = 200;

const columns = `event_no, event_id, name, plan_id, currency, performance_at, on_sale_at, sale_ends_at, prices, settings,
  phase, version, message, rate_ceiling, layout_hash, seat_count, event_in_presale(events) AS presale`;

interface EventRow {
  event_no: number;
  event_id: string;
  name: string;
  plan_id: string;
  currency: string;
  performance_at: number | null;
  on_sale_at: number | null;
  sale_ends_at: number | null;
  prices: Record<string, number>;
  settings: Partial<EventSettings>;
  phase: Phase;
  version: number;
  message: string | null;
  rate_ceiling: number | null;
  layout_hash: string | null;
  seat_count: number;
  presale: boolean;
}

export function createEvents({ db, clock }: { db: Db; clock: Clock }): Events {
  const byId = createMemory<EventId, EventRecord | null>(clock);
  /** An event keeps its name. */
  const idByNo = new Map<EventNo, EventId>();
  const modesByNo = createMemory<EventNo, ModesReading>(clock);
  /** Keyed by event and layout, in order of use: the one used last is the last. */
  const venues = new Map<string, { weight: number; loading: Promise<Venue> }>();

  const select = async (name: string, where: string, values: unknown[]): Promise<EventRecord[]> =>
    (await db.query<EventRow>(name, `SELECT ${columns} FROM events ${where}`, values)).map(recordOf);

  const readModes = async (no: EventNo): Promise<ModesReading> => {
    const at = clock.monotonic();
    const modes = await db.query<PartitionMode>(
      'event_modes',
      `SELECT partition, mode, epoch, store, run_ids AS "runIds", granted, grace_until AS "graceUntil"
       FROM event_partitions WHERE event_no = $1 ORDER BY partition`,
      [no],
    );
    return { at, modes };
  };

  async function modesRead(no: EventNo, notBefore?: number): Promise<ModesReading> {
    const read = () => readModes(no);
    const found = await modesByNo.get(no, read, notBefore);
    if (!found.modes.some(({ mode }) => mode === 'moving')) return found;
    return await modesByNo.get(no, read, Math.max(notBefore ?? 0, clock.monotonic() - movingFreshMs));
  }

  const forget = (event: EventRecord): void => byId.forget(event.event);

  const find = (event: EventId): Promise<EventRecord | null> =>
    byId.get(event, async () => (await select('event_by_id', 'WHERE event_id = $1', [event]))[0] ?? null);

  /** Looked up through the name: two memories would contradict each other for a second, for a buyer who asks both. */
  async function findByNo(no: EventNo): Promise<EventRecord | null> {
    const known = idByNo.get(no);
    if (known !== undefined) return find(known);
    const [row] = await db.query<{ event_id: EventId }>(
      'event_id_by_no',
      'SELECT event_id FROM events WHERE event_no = $1',
      [no],
    );
    if (!row) return null;
    idByNo.set(no, row.event_id);
    return find(row.event_id);
  }

  async function venue(event: EventRecord): Promise<Venue> {
    const hash = event.layoutHash;
    if (!hash) throw new Error(`event ${event.event} is not published`);
    const key = `${event.eventNo}/${hash}`;
    const found = venues.get(key);
    const entry = found ?? {
      weight: event.seatCount + houseWeight,
      loading: loadVenue(db, event.eventNo, hash),
    };
    venues.delete(key);
    venues.set(key, entry);
    if (found) return found.loading;
    entry.loading.catch(() => {
      if (venues.get(key) === entry) venues.delete(key);
    });
    let weight = 0;
    for (const each of venues.values()) weight += each.weight;
    for (const [old, each] of venues) {
      if (weight <= houseSeatsMax || each === entry) break;
      venues.delete(old);
      weight -= each.weight;
    }
    return entry.loading;
  }

  return {
    find,
    findByNo,
    list: () => select('event_list', 'ORDER BY event_no', []),
    modes: async (no) => (await modesRead(no)).modes,
    modesRead,
    forgetModes: (no) => modesByNo.forget(no),
    venue,
    layoutBytes: async (hash) => {
      const rows = await db.query<{ bytes: Buffer }>(
        'layout_bytes',
        'SELECT bytes FROM layouts WHERE hash = $1',
        [hash],
      );
      return rows[0]?.bytes ?? null;
    },
    create: async (command) => {
      const outcome = await createEvent(db, command);
      if (outcome.kind === 'created') forget(outcome.event);
      return outcome;
    },
    forget,
    changeOnSale: async (command) => {
      const outcome = await changeOnSale(db, command);
      forget(command.event);
      return outcome;
    },
  };
}

async function createEvent(db: Db, command: CreateEventCommand): Promise<CreateEventOutcome> {
  const refused = await refusedByPlan(db, command);
  if (refused) return refused;
  const { holdSeatsMax = eventSettingsDefault.holdSeatsMax } = command.settings;
  const settings: EventSettings = {
    ...eventSettingsDefault,
    ...newEventLimits(holdSeatsMax),
    ...command.settings,
  };
  const rows = await db.query<EventRow>(
    'event_create',
    `INSERT INTO events (event_id, name, plan_id, currency, performance_at, on_sale_at, sale_ends_at, prices, settings)
     SELECT $1, $2, p.plan_id, $4, to_timestamp($5::float8 / 1000), to_timestamp($6::float8 / 1000),
       to_timestamp($7::float8 / 1000), $8, $9
     FROM plans p WHERE p.plan_id = $3
     ON CONFLICT (event_id) DO NOTHING RETURNING ${columns}`,
    [
      command.event,
      command.name,
      command.planId,
      command.currency,
      command.performanceAt,
      command.onSaleAt,
      command.saleEndsAt,
      JSON.stringify(command.prices),
      JSON.stringify(settings),
    ],
  );
  const row = rows[0];
  return row ? { kind: 'created', event: recordOf(row) } : { kind: 'exists' };
}

async function refusedByPlan(db: Db, command: CreateEventCommand): Promise<CreateEventOutcome | null> {
  const plan = await findPlan(db, command.planId);
  if (!plan) return { kind: 'unknown_plan' };
  const { categories, perSection } = plan.report;
  const unpriced = categories.filter(({ name, seats }) => seats > 0 && !Object.hasOwn(command.prices, name));
  if (unpriced.length > 0) return { kind: 'no_price', categories: unpriced.map(({ name }) => name) };
  const { partitions = [] } = command.settings;
  if (partitions.length === 0) return null;
  const read = readPartitions(partitions, { sections: perSection }, command.redisServers ?? null);
  return read.kind === 'refused' ? { ...read, kind: 'partitions_refused' } : null;
}

async function changeOnSale(db: Db, command: OnSaleCommand): Promise<OnSaleOutcome> {
  const { phase } = command;
  const from = phase ? phases.filter((candidate) => phasesByHand(candidate).includes(phase)) : [];
  const [row] = await db.query<{
    outcome: 'changed' | 'conflict' | 'impossible' | 'unknown';
    phase: Phase;
    version: number;
    message: string | null;
    rate_ceiling: number | null;
  }>('on_sale_change', 'SELECT * FROM on_sale_change($1, $2, $3, $4, $5, $6, $7, $8, $9)', [
    command.event.eventNo,
    command.actor,
    command.expectedVersion,
    phase ?? null,
    from,
    command.message !== undefined,
    command.message ?? null,
    command.rateCeiling !== undefined,
    command.rateCeiling ?? null,
  ]);
  if (!row || row.outcome === 'unknown') return { kind: 'unknown' };
  const now = { phase: row.phase, version: row.version, message: row.message, rateCeiling: row.rate_ceiling };
  if (row.outcome === 'impossible') return { kind: 'impossible', now, possible: phasesByHand(row.phase) };
  return { kind: row.outcome, now };
}

async function loadVenue(db: Db, event: EventNo, layoutHash: string): Promise<Venue> {
  const [bytes, seats, partitions] = await Promise.all([
    db.query<{ bytes: Buffer }>('layout_bytes', 'SELECT bytes FROM layouts WHERE hash = $1', [layoutHash]),
    seatFacts(db, event),
    eventPartitions(db, event),
  ]);
  const first = bytes[0];
  if (!first) throw new Error(`layout ${layoutHash} is missing`);
  const ofSection = partitionOfSection(partitions);
  const bySeat = Uint8Array.from(seats, ({ sectionId }) => ofSection(sectionId));
  return {
    layoutHash,
    layout: JSON.parse(first.bytes.toString('utf8')) as Layout,
    seats,
    byGuid: new Map(seats.map((seat) => [seat.seatGuid, seat.seatNo])),
    partitions,
    partitionOf: (seat) => bySeat[seat] ?? 0,
  };
}

function recordOf(row: EventRow): EventRecord {
  return {
    eventNo: row.event_no,
    event: row.event_id,
    name: row.name,
    planId: row.plan_id,
    currency: row.currency,
    performanceAt: row.performance_at,
    onSaleAt: row.on_sale_at,
    saleEndsAt: row.sale_ends_at,
    // Without a prototype: a category may be called "constructor".
    prices: Object.assign(Object.create(null), row.prices),
    settings: { ...eventSettingsDefault, ...row.settings },
    phase: row.phase,
    version: row.version,
    message: row.message,
    rateCeiling: row.rate_ceiling,
    layoutHash: row.layout_hash,
    seatCount: row.seat_count,
    presale: row.presale,
  };
}

/** Shares one read among all who ask within `freshMs`; a failed read is forgotten at once. Bounded. */
function createMemory<Key, Value>(clock: Clock) {
  const entries = new Map<Key, { since: number; value: Promise<Value> }>();
  const entriesMax = 1_000;
  return {
    get(key: Key, read: () => Promise<Value>, notBefore = 0): Promise<Value> {
      const known = entries.get(key);
      const now = clock.monotonic();
      if (known && now - known.since < freshMs && known.since >= notBefore) return known.value;
      if (entries.size >= entriesMax) entries.clear();
      const value = read();
      const entry = { since: now, value };
      entries.set(key, entry);
      value.catch(() => {
        if (entries.get(key) === entry) entries.delete(key);
      });
      return value;
    },
    forget(key: Key): void {
      entries.delete(key);
    },
  };
}
