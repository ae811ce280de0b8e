/** From the `afterUnpaid`-th unpaid hold in a row, each starts a cooldown twice as long as the last. Milliseconds. */
export interface CooldownRule {
  afterUnpaid: number;
  firstMs: number;
  maxMs: number;
  /** Unpaid holds are forgotten after this time without another one. */
  forgetMs: number;
}

/** Limits of an event; `EventSettings` in orders/record.ts describes each. Null means no limit. */
export interface EventLimits {
  accountSeatsMax: number | null;
  instrumentSeatsMax: number | null;
  visitorSeatsMax: number | null;
  addressSeatsMax: number | null;
  joinsPerMinute: number | null;
  claimsPerMinute: number | null;
  cooldown: CooldownRule | null;
}

/** Limits whose value is a number. */
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

/** Two full holds: a buyer may buy for the family first and for friends later. */
const holdsPerBuyer = 2;
/** Eight full holds at once: enough for an office, a student residence or some phones of one carrier. */
const holdsPerAddress = 8;
const perMinute = 30;

/** Limits of a new event unless its organiser sets others. These defaults are defined only here. */
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

/** Each time this many holds of an address range end unpaid without a purchase in between, its seats at once are halved. */
export const addressUnpaidStep = 6;

/**
 * Seats that an address range may hold at once after `unpaid` holds that ended unpaid. New cookies do not reset the count, a
 * purchase halves it. The seats of one hold are always left to the address.
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
  /** A cooldown is at most a little longer than a buying session: a longer one would be a ban. */
  cooldownMs: { min: 10_000, max: 60 * 60_000 },
  forgetMs: { min: 60_000, max: 24 * 60 * 60_000 },
  reasonLengthMax: 500,
} as const;

/** The highest value that an organiser may set. */
export const limitMost = (name: CountedLimit): number =>
  name.endsWith('PerMinute') ? limitBounds.perMinuteMax : limitBounds.seatsMax;

/** Rule of new events, and of cooldowns that an organiser enables without giving values. */
export const cooldownDefault: CooldownRule = {
  afterUnpaid: 3,
  firstMs: 60_000,
  maxMs: 15 * 60_000,
  forgetMs: 60 * 60_000,
};

/** Returns a sentence that says what is wrong with the rule, or null if it is valid. */
export function cooldownFault(rule: CooldownRule): string | null {
  const { afterUnpaid, cooldownMs, forgetMs } = limitBounds;
  const within = (value: number, { min, max }: { min: number; max: number }) =>
    Number.isInteger(value) && value >= min && value <= max;
  if (!within(rule.afterUnpaid, afterUnpaid)) return 'The number of unpaid holds must be between 1 and 100.';
  if (!within(rule.firstMs, cooldownMs)) return 'The first cooldown must be between 10 seconds and an hour.';
  if (!within(rule.maxMs, cooldownMs)) return 'The longest cooldown must be between 10 seconds and an hour.';
  if (rule.maxMs < rule.firstMs) return 'The longest cooldown cannot be shorter than the first.';
  if (!within(rule.forgetMs, forgetMs))
    return 'The time after which unpaid holds are forgotten must be between a minute and a day.';
  return null;
}
