import {
  type AdmissionDecision,
  type AdmissionObserved,
  type AdmissionSettings,
  type AdmissionState,
  admissionSettingsDefault,
  admissionStart,
  decideAdmission,
  type ProviderLimit,
  postgresArbiterCeiling,
} from '../core/admission.ts';
import type { EventNo } from '../core/hold.ts';
import { allows } from '../core/phase.ts';
import { advanceByWatermark, type Gap, type ShardLine } from '../core/watermark.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import type { AdmissionControl } from '../waiting-room/waiting-room.ts';
import type { LeaderTask } from './controller.ts';
import {
  type HoldElsewhere,
  type LineMeasure,
  measureLine,
  measureSessions,
  measureShards,
  type SessionMeasure,
} from './measure.ts';

/** How many seats are in which state, by the arbiter's snapshot. */
export interface SeatCounts {
  available: number;
  held: number;
  reserved: number;
  sold: number;
  blocked: number;
}

/** The last tick's measurements and decision for an event: for the published status, metrics and the console. */
export interface MeasuredAdmission {
  term: number;
  /** Milliseconds of this process's monotonic clock. */
  at: number;
  /** Per shard, as published: last number called, last number issued. */
  frontier: number[];
  last: number[];
  /** For each shard, ahead of the frontier, the next ranges of numbers that may or may not have been issued. */
  gaps: Gap[][];
  /** Passes a second over the last 30 s, and what the bucket lets through. */
  measuredRate: number;
  targetRate: number;
  noShow: number;
  sessions: number;
  pending: number;
  seats: SeatCounts;
  reason: AdmissionDecision['reason'];
  estimates: AdmissionDecision['estimates'];
  /** Time alone will not change this: no visitor waits to be called, and every called visitor finds a pass. */
  settled: boolean;
}

export interface PathSignals {
  latencyP95Ms: number;
  errorShare: number;
}

export interface AdmissionTaskOptions {
  db: Db;
  control: AdmissionControl;
  clock: Clock;
  seatCounts: (event: EventNo) => Promise<SeatCounts>;
  /** The state of the purchase path over the last seconds. Null if nothing was measured. */
  pathSignals?: (event: EventNo) => PathSignals | null;
  /** The payment provider's limit over all events. Null means no limit. */
  providerLimit?: () => ProviderLimit | null;
  /** Passes a second that the arbiter in use can serve. */
  arbiterCeiling?: (event: EventNo) => number | Promise<number>;
  /** Before each measurement: brings Postgres up to date about numbers that another store issues (queue-stores.ts). */
  refreshLine?: (event: EventNo, term: number) => Promise<void>;
  /**
   * The holds of the event's partitions that Redis arbitrates, which Postgres knows nothing of. Read as rarely as sessions are
   * measured; where it fails, what it last answered in this term stands, or no hold.
   */
  redisHolds?: (event: EventNo) => Promise<readonly HoldElsewhere[]>;
  settings?: AdmissionSettings;
}

export interface AdmissionTask extends LeaderTask {
  /**
   * Null until this process measured the event in this very term: figures of a former one may be older than what another
   * leader published meanwhile, and a frontier never goes back (W6).
   */
  measured(event: EventNo, term: number): MeasuredAdmission | null;
  /** Forgets events that this process no longer leads. */
  forget(event: EventNo): void;
}

/** Gaps of one shard that are published: those behind them are passed long after. */
const gapsShownMax = 4;
const rateWindowMs = 30_000;
/** Measuring sessions takes a twentieth of the time at most: the larger the sale, the rarer. */
const sessionsShareMax = 0.05;
const sessionsEveryMaxMs = 10_000;
const quickMs = 100;

interface Led {
  term: number;
  state: AdmissionState;
  decidedAt: number | null;
  redisHolds: readonly HoldElsewhere[];
  sessions: SessionMeasure | null;
  sessionsDueAt: number;
  /** A measurement under way behind the ticks, and the fault of the last one. */
  refreshing: boolean;
  refreshFault: unknown;
  /** Readings of the count of passes, over the last 30 s. */
  readings: { at: number; issued: number }[];
  pause: { since: number | null; endedAt: number; lastedMs: number };
  /** For each shard, the last second of arrivals that is called. */
  since: number[];
  measured: MeasuredAdmission | null;
}

/** Measures, decides (core/admission.ts) and publishes frontier and rate, conditional on the term. */
export function createAdmissionTask(options: AdmissionTaskOptions): AdmissionTask {
  const { db, control, clock, seatCounts, pathSignals = () => null, providerLimit = () => null } = options;
  const { arbiterCeiling = () => postgresArbiterCeiling, settings = admissionSettingsDefault } = options;
  const { refreshLine = async () => {}, redisHolds = async () => [] } = options;
  const led = new Map<EventNo, Led>();

  function ledOf(event: EventNo, term: number): Led {
    const found = led.get(event);
    if (found?.term === term) return found;
    const fresh: Led = {
      term,
      state: admissionStart(settings),
      decidedAt: null,
      redisHolds: [],
      sessions: null,
      sessionsDueAt: 0,
      refreshing: false,
      refreshFault: null,
      readings: [],
      pause: { since: null, endedAt: 0, lastedMs: 0 },
      since: [],
      measured: null,
    };
    led.set(event, fresh);
    return fresh;
  }

  async function refresh(event: EventNo, entry: Led): Promise<SessionMeasure> {
    const before = clock.monotonic();
    entry.refreshing = true;
    try {
      // Slightly wrong figures are better than a frontier that does not move.
      entry.redisHolds = await redisHolds(event).catch(() => entry.redisHolds);
      entry.sessions = await measureSessions(db, event, entry.redisHolds);
      return entry.sessions;
    } finally {
      entry.refreshing = false;
      const tookMs = clock.monotonic() - before;
      entry.sessionsDueAt = before + Math.min(sessionsEveryMaxMs, tookMs / sessionsShareMax);
    }
  }

  /** Waits for the first measurement only: in a large sale the frontier must not stop for the later ones. */
  async function sessionsOf(event: EventNo, entry: Led): Promise<SessionMeasure> {
    if (entry.refreshFault !== null) {
      const fault = entry.refreshFault;
      entry.refreshFault = null;
      throw fault;
    }
    if (!entry.sessions) return refresh(event, entry);
    if (!entry.refreshing && clock.monotonic() >= entry.sessionsDueAt) {
      const underWay = refresh(event, entry);
      underWay.catch((fault) => {
        entry.refreshFault = fault;
      });
      // A quick one is still of use to this tick.
      await Promise.race([underWay, clock.sleep(quickMs)]).catch(() => {});
    }
    return entry.sessions;
  }

  return {
    name: 'admission',
    async run({ event, term }) {
      const entry = ledOf(event, term);
      await refreshLine(event, term);
      const now = clock.monotonic();
      const [line, sessions, seats, ceiling] = await Promise.all([
        measureLine(db, event, settings.graceMs + frozenMs(entry, now, settings.graceMs)),
        sessionsOf(event, entry),
        seatCounts(event),
        arbiterCeiling(event),
      ]);
      // A called visitor cannot enter while nothing is admitted.
      const open = allows(line.phase, 'redeem') && ceiling > 0;
      notePause(entry, open, now);
      const measuredRate = rateOf(entry, now, line.issued);
      const decision = decideAdmission(
        entry.state,
        {
          elapsedMs: entry.decidedAt === null ? 1_000 : now - entry.decidedAt,
          open: allows(line.phase, 'redeem'),
          path: pathSignals(event),
          arbiterCeiling: ceiling,
          provider: providerLimit(),
          ...observedOf(line, sessions, seats),
        },
        { ...settings, holdMs: line.holdMs ?? settings.holdMs },
      );
      const { rate, burst, advance } = decision;
      const shards = await measureShards(db, event, entry.since);
      // No visitor waits behind a gap: the visitors in it are next.
      const jump = rate > 0 && (advance > 0 || line.waiting === 0);
      const frontier = advanceByWatermark(shards, advance, jump);
      if (!(await control.publish(event, term, { frontier, rate, burst }))) {
        led.delete(event);
        return;
      }
      // Only now, because a decision that was not published called no visitor and used up nothing.
      entry.state = decision.state;
      entry.decidedAt = now;
      entry.since = shards.map(
        (shard, index) => calledSecond(shard, frontier[index]!) ?? entry.since[index] ?? 0,
      );
      entry.measured = {
        term,
        at: now,
        frontier,
        last: line.last,
        gaps: shards.map(({ gaps }, index) => gapsAhead(gaps, frontier[index]!)),
        measuredRate,
        targetRate: rate,
        noShow: decision.estimates.noShow,
        sessions: sessions.opened.reduce((sum, count) => sum + count, 0),
        pending: line.pending,
        seats,
        reason: decision.reason,
        estimates: decision.estimates,
        settled:
          measuredRate === 0 &&
          (!allows(line.phase, 'redeem') ||
            decision.reason === 'nothing_left' ||
            (line.waiting === 0 && rate > 0)),
      };
    },
    measured(event, term) {
      const entry = led.get(event);
      return entry?.term === term ? entry.measured : null;
    },
    forget: (event) => void led.delete(event),
  };
}

function observedOf(
  line: LineMeasure,
  sessions: SessionMeasure,
  seats: SeatCounts,
): Omit<AdmissionObserved, 'elapsedMs' | 'open' | 'path' | 'arbiterCeiling' | 'provider'> {
  // Visitors who entered since the sessions were counted.
  const since = Math.max(0, line.issued - sessions.issued);
  const withNew = ([youngest = 0, ...older]: number[]): number[] => [youngest + since, ...older];
  return {
    seats: {
      total: seats.available + seats.held + seats.reserved + seats.sold,
      free: seats.available,
      held: seats.held,
      reserved: seats.reserved,
    },
    waiting: line.waiting,
    pending: line.pending,
    opened: withNew(sessions.opened),
    lookers: withNew(sessions.lookers),
    settled: sessions.settled,
    holds: sessions.holds,
    called: { due: line.due, came: line.came },
    operatorCeiling: line.rateCeiling,
  };
}

/** The last second whose numbers are all called, of those that were read; it may still be going on. */
function calledSecond({ arrivals }: ShardLine, frontier: number): number | null {
  return arrivals.findLast(({ last }) => last <= frontier)?.second ?? null;
}

function gapsAhead(gaps: readonly Gap[], frontier: number): Gap[] {
  return gaps.filter(([, last]) => last > frontier).slice(0, gapsShownMax);
}

function rateOf(entry: Led, now: number, issued: number): number {
  entry.readings.push({ at: now, issued });
  while (entry.readings.length > 2 && entry.readings[1]!.at <= now - rateWindowMs) entry.readings.shift();
  const first = entry.readings[0]!;
  return now > first.at ? ((issued - first.issued) * 1000) / (now - first.at) : 0;
}

/** A pause freezes the grace of called numbers: they could not come. */
function notePause(entry: Led, open: boolean, now: number): void {
  const { pause } = entry;
  if (!open) pause.since ??= now;
  else if (pause.since !== null) {
    entry.pause = { since: null, endedAt: now, lastedMs: now - pause.since };
  }
}

function frozenMs(entry: Led, now: number, graceMs: number): number {
  const { since, endedAt, lastedMs } = entry.pause;
  if (since !== null) return now - since;
  return now - endedAt < graceMs ? lastedMs : 0;
}
