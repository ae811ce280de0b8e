/**
 * Admission control ("admission before locking"): decides how many queue numbers are called, and how fast passes leave, from
 * measurements. Pure: the loop around it measures and publishes.
 *
 * The bound: sessions that will still ask for a hold × seats per hold ≤ free seats now, so that admitted visitors find seats.
 * The rate closes that gap no faster than an event sells in the life of one hold (50,000 seats, 40 % who buy, one seat, 600 s:
 * 208 a second), and no faster than the purchase path, the payment provider and the operator allow.
 */
export interface AdmissionObserved {
  /** Milliseconds since the last decision. */
  elapsedMs: number;
  /** The phase lets passes be issued. */
  open: boolean;
  /** Seats now; `total` without blocked ones. Held and reserved ones may come back. */
  seats: { total: number; free: number; held: number; reserved: number };
  /** Numbers that are issued and not called. */
  waiting: number;
  /** Called numbers within their grace that have not come yet. */
  pending: number;
  /** Open sessions by age: [0] up to `ageClassMs`, [1] up to twice that … */
  opened: readonly number[];
  /** Sessions with neither a hold nor an order. */
  lookers: readonly number[];
  /** Sessions old enough to have paid, and how many of them did. */
  settled: { sessions: number; buyers: number };
  /** Holds counted, and their seats. */
  holds: { count: number; seats: number };
  /** Numbers whose grace ended within the window, and how many of them had come. */
  called: { due: number; came: number };
  /** The purchase path over the last seconds; null when nothing was measured. */
  path: { latencyP95Ms: number; errorShare: number } | null;
  /** The operator's maximum of passes a second, null if not set, and the maximum that the current arbiter can serve. */
  operatorCeiling: number | null;
  arbiterCeiling: number;
  /** The payment provider's limit. Null means no limit. */
  provider: ProviderLimit | null;
}

export interface ProviderLimit {
  /** Calls a second that the account may make. */
  callsPerSecond: number;
  /** It refused calls over the last seconds because they were too many. */
  isRefusing: boolean;
}

export interface AdmissionSettings {
  /** Life of a hold, ms. */
  holdMs: number;
  /** Milliseconds after its call in which a number may come without counting as a no-show. */
  graceMs: number;
  /** Mean time from pass to hold of those who hold, ms. */
  decideMs: number;
  /** Assumed before anything is measured, and the number of observations that the assumption counts as. */
  priors: { holdShare: number; conversion: number; seatsPerHold: number; noShow: number; weight: number };
  /** Beyond either the path counts as struggling. */
  latencyMaxMs: number;
  errorShareMax: number;
}

export const admissionSettingsDefault: AdmissionSettings = {
  holdMs: 10 * 60_000,
  graceMs: 60_000,
  decideMs: 60_000,
  priors: { holdShare: 0.5, conversion: 0.4, seatsPerHold: 2, noShow: 0.1, weight: 50 },
  latencyMaxMs: 1_000,
  errorShareMax: 0.05,
};

export interface AdmissionState {
  /** Fraction of a number that the last decision left over. */
  carry: number;
  /** Smoothed share of called numbers that did not come within their grace. */
  noShow: number;
  /** Passes a second that the purchase path is trusted with. Null before the first decision. */
  pathCeiling: number | null;
  /** The part of the provider's limit that sales may use: less after it refused calls, 1 at first. */
  providerShare: number;
}

/** The limit that set the rate. */
export type AdmissionReason =
  | 'not_open'
  /** Every partition was just degraded. Until grace ends only receipts are accepted, so a new visitor could not hold seats. */
  | 'grace'
  /** No seat is free, held or reserved. */
  | 'nothing_left'
  /** The last seats are in baskets: few are let in, in case some come back. */
  | 'last_seats'
  /** As many are inside as there are seats for. */
  | 'full'
  /** The line is shorter than what may be let in: everybody is called. */
  | 'everybody'
  | 'paced'
  | 'operator'
  | 'path'
  /** The payment provider takes no more purchases a second. */
  | 'provider';

export interface AdmissionDecision {
  state: AdmissionState;
  /** Passes a second, and how many may be saved up. */
  rate: number;
  burst: number;
  /** Numbers to call now. */
  advance: number;
  reason: AdmissionReason;
  /** Smoothed figures that the decision was made with. */
  estimates: { holdShare: number; conversion: number; seatsPerHold: number; noShow: number };
}

/**
 * Maximum of passes a second, by the store that arbitrates the holds. Postgres serves the holds of about 300 sessions a second
 * next to everything else that a sale asks of it. With Redis the holds cost Postgres nothing; what remains is the record's
 * part, about five calls for each session that buys, so four times as many sessions leave it the same work. Signs of strain
 * lower either limit.
 */
export const postgresArbiterCeiling = 300;
export const redisArbiterCeiling = 1_200;

/** A partition as far as admission goes; `redis`: its holds belong to a Redis. */
export interface PartitionStanding {
  redis: boolean;
  mode: 'postgres' | 'moving' | 'redis';
  /** Epoch ms by Postgres's clock; null or past: no grace. */
  graceUntil: number | null;
}

/**
 * Returns the passes a second that the arbiters of an event can serve. Admission does not know which partition a visitor will
 * choose, so one partition in Postgres sets the ceiling for all. 0 while all are in grace. `now`: epoch ms by Postgres's clock.
 */
export function arbiterCeilingOf(partitions: readonly PartitionStanding[], now: number): number {
  const inGrace = ({ graceUntil }: PartitionStanding): boolean => graceUntil !== null && graceUntil > now;
  if (partitions.length > 0 && partitions.every(inGrace)) return 0;
  const all = partitions.length > 0 && partitions.every(({ redis, mode }) => redis && mode === 'redis');
  return all ? redisArbiterCeiling : postgresArbiterCeiling;
}

/** Width of the classes of `opened` and `lookers`. */
export const ageClassMs = 30_000;

/** Below ten a second a pace protects nothing: a small venue would only wait for it. */
const paceMin = 10;
/** The gap is closed over this many seconds, so that the tick between measuring and deciding does not overshoot. */
const closeSeconds = 2;
/** Seconds' worth of passes that may be saved up or called ahead of the line's pace. */
const burstSeconds = 2;
/** Released numbers = target / (1 − no-shows), but never more than twice the target. */
const releaseMax = 2;
/**
 * Admit at least this many buyers while few seats are left. With fewer, each buyer who declines delays the last sale by a
 * minute.
 */
const fewMin = 3;
/** While the last seats are all in baskets, at most this many visitors look for seats that come back. */
const fewMax = 20;
/** Limit on called numbers that have not asked for a pass yet, in seconds of the rate. More of them would only be rejected. */
const doorSeconds = 30;
/** A late tick calls numbers for at most this many seconds, so that it causes no burst. */
const lateSecondsMax = 3;
const pathCut = 0.7;
/** Share of the arbiter's ceiling that is regained in each second of health. */
const pathRecovery = 0.02;
const pathCeilingMin = 1;
/**
 * Calls of a purchase: open, authorise, capture, and a look-up for each purchase that its bank authenticates. At Stripe's default
 * of 100 calls a second this is also what one endpoint takes, 25 (https://docs.stripe.com/rate-limits).
 */
export const callsPerPurchase = 4;
/** Never to a standstill: then nothing would show that the provider takes calls again. */
const providerShareMin = 0.05;
/** Weight of a new no-show measurement, a second. */
const noShowSmoothing = 0.1;

export function admissionStart(settings: AdmissionSettings): AdmissionState {
  return { carry: 0, noShow: settings.priors.noShow, pathCeiling: null, providerShare: 1 };
}

export function decideAdmission(
  state: AdmissionState,
  observed: AdmissionObserved,
  settings: AdmissionSettings,
): AdmissionDecision {
  const seconds = Math.max(0, observed.elapsedMs) / 1000;
  const noShow = smoothedNoShow(state.noShow, observed, settings, seconds);
  const estimates = { ...shares(observed, settings), noShow };
  const pathCeiling = nextPathCeiling(state.pathCeiling, observed, settings, seconds);
  const providerShare = nextProviderShare(state.providerShare, observed.provider, seconds);
  const next = { carry: 0, noShow, pathCeiling, providerShare };
  const nobody = (reason: AdmissionReason): AdmissionDecision => ({
    state: next,
    rate: 0,
    burst: 0,
    advance: 0,
    reason,
    estimates,
  });

  const { free, held, reserved } = observed.seats;
  if (!observed.open) return nobody('not_open');
  if (observed.arbiterCeiling <= 0) return nobody('grace');
  if (free + held + reserved <= 0) return nobody('nothing_left');
  const room = sessionsAllowed(observed, estimates, settings);
  if (room.inside <= 0) return nobody(room.few ? 'last_seats' : 'full');

  const release = Math.min(releaseMax, 1 / (1 - noShow));
  const providerCeiling = providerCeilingOf(observed.provider, providerShare, estimates.conversion);
  const ceiling = Math.min(
    observed.arbiterCeiling,
    pathCeiling ?? Infinity,
    providerCeiling,
    observed.operatorCeiling ?? Infinity,
  );
  // If more numbers were called than the bucket lets through at once, the visitors would be rejected and ask again.
  const callable = Math.min(room.callable * release, Math.max(fewMin, ceiling * burstSeconds));
  const everybody = observed.waiting <= callable;
  const pace = everybody ? Infinity : paceOf(observed, estimates, settings);
  const rate = Math.min(pace, ceiling, room.inside / closeSeconds);
  const door = Math.max(fewMin, rate * doorSeconds) - observed.pending * (1 - noShow);
  const wanted = everybody
    ? observed.waiting
    : state.carry + rate * Math.min(seconds, lateSecondsMax) * release;
  const limit = Math.max(0, Math.min(observed.waiting, room.callable * release, door * release));
  const advance = Math.floor(Math.min(wanted, limit));
  return {
    state: { ...next, carry: everybody ? 0 : Math.min(1, wanted - advance) },
    rate,
    burst: rate > 0 ? Math.min(Math.max(1, rate * burstSeconds), Math.max(1, room.inside)) : 0,
    advance,
    reason: room.few ? 'last_seats' : reasonOf({ everybody, pace, ceiling, rate, providerCeiling }, observed),
    estimates,
  };
}

/**
 * How many more sessions there are seats for: `inside` may get a pass now, `callable` may be called besides those who are
 * called and still on their way. `few`: the seats left are in baskets.
 */
function sessionsAllowed(
  observed: AdmissionObserved,
  estimates: { holdShare: number; conversion: number; seatsPerHold: number; noShow: number },
  settings: AdmissionSettings,
): { inside: number; callable: number; few: boolean } {
  const { holdShare, seatsPerHold, conversion, noShow } = estimates;
  const { free, held, reserved } = observed.seats;
  const perSession = holdShare * seatsPerHold;
  const still = observed.lookers.reduce(
    (sum, count, index) => sum + count * stillHolds(ageOf(index), holdShare, settings),
    0,
  );
  const lapsing = (1 - Math.min(1, conversion / holdShare)) * (held + reserved);
  const few = Math.min(fewMax, Math.ceil((0.25 * lapsing) / perSession));
  const target = free > 0 ? Math.max(free / perSession, fewMin) : few;
  const inside = target - still / holdShare;
  return { inside, callable: Math.max(0, inside - observed.pending * (1 - noShow)), few: free <= 0 };
}

/**
 * The chance that a session without a hold at this age will still ask for one. Those who hold do so after `decideMs` on
 * average, so that the undecided are more and more those who never will: counting them in full to the end of their
 * session would stop the sale for a quarter of an hour before the last seats.
 */
function stillHolds(ageMs: number, holdShare: number, settings: AdmissionSettings): number {
  const undecided = holdShare * Math.exp(-ageMs / settings.decideMs);
  return undecided / (undecided + 1 - holdShare);
}

function shares(
  observed: AdmissionObserved,
  { priors, decideMs }: AdmissionSettings,
): { holdShare: number; conversion: number; seatsPerHold: number } {
  const { opened, lookers, settled, holds } = observed;
  const withPrior = (prior: number, hits: number, of: number): number =>
    (prior * priors.weight + hits) / (priors.weight + of);
  // Kept away from 0 and 1: if no session holds, the whole queue must not be admitted; if every session holds, it must not
  // stop. A session counts in proportion to the time it has had to decide, so that a small event learns before it is sold out.
  const decided = opened.reduce(
    (sum, count, index) => sum + count * (1 - Math.exp(-ageOf(index) / decideMs)),
    0,
  );
  const holders = opened.reduce((sum, count, index) => sum + count - (lookers[index] ?? 0), 0);
  const holdShare = clamp(withPrior(priors.holdShare, holders, decided), 0.05, 0.95);
  const conversion = clamp(withPrior(priors.conversion, settled.buyers, settled.sessions), 0.02, holdShare);
  return {
    holdShare,
    conversion,
    seatsPerHold: Math.max(1, withPrior(priors.seatsPerHold, holds.seats, holds.count)),
  };
}

/** The whole venue in one hold's life: beyond the bound a pace for fairness and load, so of the total, not of what is left. */
function paceOf(
  observed: AdmissionObserved,
  estimates: { conversion: number; seatsPerHold: number },
  settings: AdmissionSettings,
): number {
  const buyers = observed.seats.total / (estimates.conversion * estimates.seatsPerHold);
  return Math.max(paceMin, buyers / (settings.holdMs / 1000));
}

function smoothedNoShow(
  before: number,
  observed: AdmissionObserved,
  { priors }: AdmissionSettings,
  seconds: number,
): number {
  const { due, came } = observed.called;
  if (due <= 0 || !observed.open) return before;
  const measured = (priors.noShow * priors.weight + Math.max(0, due - came)) / (priors.weight + due);
  return clamp(before + (measured - before) * Math.min(1, noShowSmoothing * seconds), 0, 0.95);
}

function nextPathCeiling(
  before: number | null,
  observed: AdmissionObserved,
  settings: AdmissionSettings,
  seconds: number,
): number | null {
  const { path, arbiterCeiling } = observed;
  // No visitor is admitted, so nothing can be concluded about the path.
  if (arbiterCeiling <= 0) return before;
  const now = Math.min(before ?? arbiterCeiling, arbiterCeiling);
  const struggling =
    path !== null && (path.latencyP95Ms > settings.latencyMaxMs || path.errorShare > settings.errorShareMax);
  // The size of a cut depends on the time that has passed, so that a late tick cuts once for all the ticks
  // that it missed, and a quick one does not cut twice.
  if (struggling) return Math.max(pathCeilingMin, now * pathCut ** Math.min(seconds, lateSecondsMax));
  return Math.min(arbiterCeiling, now + pathRecovery * arbiterCeiling * seconds);
}

/** Passes a second whose holders make as many purchases as the provider takes. */
function providerCeilingOf(limit: ProviderLimit | null, share: number, conversion: number): number {
  if (limit === null) return Infinity;
  return (limit.callsPerSecond * share) / callsPerPurchase / conversion;
}

/** Cut at once while the provider refuses calls, given back slowly: its limit may be lower than the setting, or be used by others. */
function nextProviderShare(before: number, limit: ProviderLimit | null, seconds: number): number {
  if (limit?.isRefusing)
    return Math.max(providerShareMin, before * pathCut ** Math.min(seconds, lateSecondsMax));
  return Math.min(1, before + pathRecovery * seconds);
}

function reasonOf(
  set: { everybody: boolean; pace: number; ceiling: number; rate: number; providerCeiling: number },
  observed: AdmissionObserved,
): AdmissionReason {
  const { everybody, pace, ceiling, rate, providerCeiling } = set;
  if (everybody) return 'everybody';
  if (rate >= pace) return 'paced';
  if (rate < ceiling) return 'full';
  if (observed.operatorCeiling === ceiling) return 'operator';
  return providerCeiling === ceiling ? 'provider' : 'path';
}

/** The middle of an age class, ms. */
function ageOf(index: number): number {
  return (index + 0.5) * ageClassMs;
}

function clamp(value: number, min: number, max: number): number {
  return Math.min(max, Math.max(min, value));
}
