/** From the `afterUnpaid`-th unpaid hold in a row on, each brings a cooldown of twice the length before. Milliseconds. */
export interface CooldownRule {
  afterUnpaid: number;
  firstMs: number;
  maxMs: number;
  /** After so long without another one they are forgotten. */
  forgetMs: number;
}

/** What an event limits, as `EventSettings` in sales/record.ts describes it; null: not at all. */
export interface EventLimits {
  accountSeatsMax: number | null;
  instrumentSeatsMax: number | null;
  visitorSeatsMax: number | null;
  addressSeatsMax: number | null;
  joinsPerMinute: number | null;
  claimsPerMinute: number | null;
  cooldown: CooldownRule | null;
}

/** The limits that are a number. */
export const countedLimits = [
  'accountSeatsMax',
  'instrumentSeatsMax',
  'visitorSeatsMax',
  'addressSeatsMax',
  'joinsPerMinute',
  'claimsPerMinute',
] as const satisfies readonly (keyof EventLimits)[];
export type CountedLimit = (typeof countedLimits)[number];

export const noLimits: EventLimits = {
  accountSeatsMax: null,
  instrumentSeatsMax: null,
  visitorSeatsMax: null,
  addressSeatsMax: null,
  joinsPerMinute: null,
  claimsPerMinute: null,
  cooldown: null,
};

export function limitsOf(settings: Partial<EventLimits>): EventLimits {
  const limits = { ...noLimits, cooldown: settings.cooldown ?? null };
  for (const name of countedLimits) limits[name] = settings[name] ?? null;
  return limits;
}

/** Two full holds: who bought for the family buys for the friends once. */
const holdsPerBuyer = 2;
/** Eight full holds at once: an office, a student hall, some phones of one carrier. */
const holdsPerAddress = 8;
const perMinute = 30;

/** What an event that is made from now on limits unless its organiser says otherwise: the one home of these defaults. */
export function newEventLimits(holdSeatsMax: number): EventLimits {
  const seats = holdsPerBuyer * holdSeatsMax;
  return {
    accountSeatsMax: seats,
    instrumentSeatsMax: seats,
    visitorSeatsMax: seats,
    addressSeatsMax: holdsPerAddress * holdSeatsMax,
    joinsPerMinute: perMinute,
    claimsPerMinute: perMinute,
    cooldown: cooldownDefault,
  };
}

/** Holds of an address range that end unpaid without a purchase in between, before its seats at once are halved, and again. */
export const addressUnpaidStep = 6;

/**
 * Seats that an address range may have at once after `unpaid` holds that ended unpaid. New cookies do not reset it, a purchase
 * halves the count. One hold is always possible: an address is never locked.
 */
export function addressSeatsNow(
  { addressSeatsMax, holdSeatsMax }: { addressSeatsMax?: number | null; holdSeatsMax: number },
  unpaid: number,
): number {
  const most = addressSeatsMax ?? 0;
  const left = Math.floor(most / 2 ** Math.min(20, Math.floor(unpaid / addressUnpaidStep)));
  return Math.max(left, Math.min(most, holdSeatsMax));
}

export const limitBounds = {
  seatsMax: 1_000,
  perMinuteMax: 10_000,
  /** Holds that end unpaid one after the other before the first cooldown. */
  afterUnpaid: { min: 1, max: 100 },
  /** A cooldown outlives no buying session by much: longer ones would be a ban. */
  cooldownMs: { min: 10_000, max: 60 * 60_000 },
  forgetMs: { min: 60_000, max: 24 * 60 * 60_000 },
  reasonLengthMax: 500,
} as const;

/** The highest value that an organiser may set. */
export const limitMost = (name: CountedLimit): number =>
  name.endsWith('PerMinute') ? limitBounds.perMinuteMax : limitBounds.seatsMax;

/** The rule of new events, and where an organiser asks for a cooldown without saying more. */
export const cooldownDefault: CooldownRule = {
  afterUnpaid: 3,
  firstMs: 60_000,
  maxMs: 15 * 60_000,
  forgetMs: 60 * 60_000,
};

/** A sentence about what is wrong with the rule; null: nothing is. */
export function cooldownFault(rule: CooldownRule): string | null {
  const { afterUnpaid, cooldownMs, forgetMs } = limitBounds;
  const within = (value: number, { min, max }: { min: number; max: number }) =>
    Number.isInteger(value) && value >= min && value <= max;
  if (!within(rule.afterUnpaid, afterUnpaid)) return 'The number of unpaid holds has to be 1 to 100.';
  if (!within(rule.firstMs, cooldownMs)) return 'The first cooldown has to be 10 seconds to an hour.';
  if (!within(rule.maxMs, cooldownMs)) return 'The longest cooldown has to be 10 seconds to an hour.';
  if (rule.maxMs < rule.firstMs) return 'The longest cooldown cannot be shorter than the first.';
  if (!within(rule.forgetMs, forgetMs)) return 'Unpaid holds are forgotten after a minute to a day.';
  return null;
}
