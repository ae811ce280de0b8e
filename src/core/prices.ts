/**
 * The price of a seat for each ticket type, and which of them an access code has to unlock. Money is minor units of the event's
 * currency. Nothing is rounded here: every price, fee and total can be charged. The one place that rounds is `decideRefund`
 * (core/money-due.ts).
 */
import { decimalOf, isChargeable, maximumOf, minimumOf, orderAmount, stepOf } from './money.ts';
import { assert } from './outcome.ts';

/** Id of the default ticket type: full price, no proof required. */
export const fullKind = 'full';

/** A ticket type next to `full`, such as reduced or child. */
export interface BuyerKind {
  /** a-z, 0-9 and dashes; never `full`. */
  id: string;
  name: string;
  /** The buyers who may choose it, and the proof that is required at the entrance. Empty if none is required. */
  conditions: string;
  /** Category → minor units. A category that is missing is not sold to this kind. */
  prices: Record<string, number>;
  /** Only an access code opens it. */
  locked?: boolean;
}

/** The part of an event that prices come from. */
export interface Priced {
  /** Category → minor units, of the kind `full`. */
  prices: Record<string, number>;
  settings: {
    /** Minor units, on top of each seat's price whatever the kind. */
    seatFee: number;
    /** Minor units, once an order. */
    orderFee: number;
    kinds?: readonly BuyerKind[];
    /** Only an access code opens these. */
    lockedCategories?: readonly string[];
  };
}

export const priceLimits = { kindsMax: 10, kindNameMax: 60, conditionsMax: 300 } as const;
const kindForm = /^[a-z0-9][a-z0-9-]{0,39}$/;

/** Minor units. Null means that the category is not sold as this ticket type, or not at all. */
export function priceOf(event: Priced, category: string, kind: string): number | null {
  const prices = kind === fullKind ? event.prices : kindOf(event, kind)?.prices;
  return prices && Object.hasOwn(prices, category) ? prices[category]! : null;
}

function kindOf(event: Priced, id: string): BuyerKind | undefined {
  return event.settings.kinds?.find((kind) => kind.id === id);
}

/** The name of a ticket type for people. Null for `full`, which is not mentioned. */
export function kindName(event: Priced, kind: string): string | null {
  return kind === fullKind ? null : (kindOf(event, kind)?.name ?? kind);
}

/** The kinds that a category is sold to, `full` first. */
export function kindsIn(event: Priced, category: string): string[] {
  const all = [fullKind, ...(event.settings.kinds ?? []).map(({ id }) => id)];
  return all.filter((kind) => priceOf(event, category, kind) !== null);
}

/** The total of an order or a basket: price and fee of each seat, and the order's fee once. */
export function totalOf(event: Priced, seats: readonly { category: string; kind: string }[]): number {
  const lines = seats.map(({ category, kind }) => {
    const price = priceOf(event, category, kind);
    assert(price !== null, `${category} is sold to ${kind}`);
    return { price, fee: event.settings.seatFee };
  });
  return orderAmount(lines, event.settings.orderFee);
}

// ---- What access codes open ----

/** The categories and ticket types that an access code unlocks, or that a purchase needs unlocked. */
export interface Rights {
  categories: readonly string[];
  kinds: readonly string[];
  /** To join and to buy before the sale is open to everybody. */
  presale: boolean;
}

export const noRights: Rights = { categories: [], kinds: [], presale: false };

export function areNone({ categories, kinds, presale }: Rights): boolean {
  return categories.length === 0 && kinds.length === 0 && !presale;
}

/** Returns what has to be unlocked for these seats. `presale`: the sale is not open to every buyer yet. */
export function rightsNeeded(
  event: Priced,
  presale: boolean,
  seats: readonly { category: string; kind: string }[],
): Rights {
  const { kinds = [], lockedCategories = [] } = event.settings;
  const distinct = (names: string[]) => [...new Set(names)];
  return {
    categories: distinct(seats.map(({ category }) => category)).filter((name) =>
      lockedCategories.includes(name),
    ),
    kinds: distinct(seats.map(({ kind }) => kind)).filter((id) =>
      kinds.some((kind) => kind.id === id && kind.locked),
    ),
    presale,
  };
}

/** Returns the part of `needed` that is not in `opened`. */
export function rightsMissing(needed: Rights, opened: Rights): Rights {
  return {
    categories: needed.categories.filter((name) => !opened.categories.includes(name)),
    kinds: needed.kinds.filter((id) => !opened.kinds.includes(id)),
    presale: needed.presale && !opened.presale,
  };
}

/** Whether anything about the event is opened by codes at all. */
export function hasLocks({ settings }: Priced, presale: boolean): boolean {
  return (
    presale ||
    (settings.lockedCategories ?? []).length > 0 ||
    (settings.kinds ?? []).some(({ locked }) => locked === true)
  );
}

/** The categories in which all of these kinds may be bought with these rights, as the event lists them. */
export function categoriesFor(event: Priced, kinds: readonly string[], opened: Rights): string[] {
  const locked = event.settings.lockedCategories ?? [];
  return Object.keys(event.prices).filter(
    (category) =>
      (!locked.includes(category) || opened.categories.includes(category)) &&
      kinds.every((kind) => priceOf(event, category, kind) !== null),
  );
}

/**
 * Returns the canonical form in which codes are stored and compared: case, spaces, dashes and Unicode form do not matter. Null
 * if the text is not a code.
 */
export function canonicalCode(text: string): string | null {
  const plain = text
    .normalize('NFKC')
    .toUpperCase()
    .normalize('NFKC')
    .replace(/[\s\p{Cf}\p{Pd}_.]/gu, '');
  return /^[\p{L}\p{M}\p{N}]{4,40}$/u.test(plain) ? plain : null;
}

// ---- What an organiser may set ----

/** A fault of a price list. `place`: a path below the body that creates the event. */
export interface PriceFault {
  place: string;
  sentence: string;
  categories?: string[];
}

/** A price list and the seats that one order may have. */
export type PriceList = Priced & { currency: string; settings: { holdSeatsMax: number } };

export function priceFault(event: PriceList): PriceFault | null {
  const { prices, settings, currency } = event;
  const { seatFee, orderFee, kinds = [], lockedCategories = [] } = settings;
  for (const [place, fee] of [
    ['/seatFee', seatFee],
    ['/orderFee', orderFee],
  ] as const) {
    if (!isChargeable(fee, currency)) return { place, sentence: notChargeable(fee, currency) };
  }
  const listed = [
    { place: '/prices', prices },
    ...kinds.map((kind, i) => ({ place: `/kinds/${i}/prices`, ...kind })),
  ];
  for (const { place, prices: some } of listed) {
    const fault = sumsFault(some, event);
    if (fault) return { place, ...fault };
  }
  const unknown = lockedCategories.findIndex((name) => !Object.hasOwn(prices, name));
  if (unknown >= 0) {
    return {
      place: `/lockedCategories/${unknown}`,
      sentence: `The event has no price for ${lockedCategories[unknown]}.`,
    };
  }
  return kindsFault(event);
}

/** One seat alone is an order that can be paid, and so is the largest order: the seats of a whole hold at one price. */
function sumsFault(
  prices: Record<string, number>,
  { currency, settings }: PriceList,
): Omit<PriceFault, 'place'> | null {
  const { seatFee, orderFee, holdSeatsMax } = settings;
  const names = Object.keys(prices);
  const ofSeats = (name: string, seats: number): number => (prices[name]! + seatFee) * seats + orderFee;
  const odd = names.find((name) => !isChargeable(prices[name]!, currency));
  if (odd !== undefined) return { sentence: `${odd}: ${notChargeable(prices[odd]!, currency)}` };
  const free = names.filter((name) => ofSeats(name, 1) === 0);
  if (free.length > 0) {
    const some = free.slice(0, 20).join(', ');
    return { sentence: `Tickets that cost nothing cannot be sold: ${some}.`, categories: free };
  }
  const least = minimumOf(currency);
  const small = names.filter((name) => ofSeats(name, 1) < least);
  if (small.length > 0) {
    const some = small.slice(0, 20).join(', ');
    return {
      sentence: `Cards cannot be charged less than ${decimalOf(least, currency)} ${currency}: ${some}.`,
      categories: small,
    };
  }
  const most = maximumOf(currency);
  const large = names.filter((name) => ofSeats(name, holdSeatsMax) > most);
  if (large.length === 0) return null;
  const name = large[0]!;
  const whole = `${holdSeatsMax} ${holdSeatsMax === 1 ? 'seat' : 'seats'} in ${name}`;
  return {
    sentence: `An order of ${whole} would come to ${decimalOf(ofSeats(name, holdSeatsMax), currency)} ${currency} with fees, and cards cannot be charged more than ${decimalOf(most, currency)} ${currency}. Lower the price, or the seats that may be held at once.`,
    categories: large,
  };
}

function notChargeable(amount: number, currency: string): string {
  const step = stepOf(currency);
  return step > 1 && Number.isSafeInteger(amount) && amount >= 0 && amount <= maximumOf(currency)
    ? `${decimalOf(amount, currency)} ${currency} cannot be charged: it has to be a multiple of ${decimalOf(step, currency)}.`
    : `An amount has to be 0 to ${decimalOf(maximumOf(currency), currency)} ${currency}.`;
}

function kindsFault({ prices, settings: { kinds = [] } }: Priced): PriceFault | null {
  if (kinds.length > priceLimits.kindsMax) {
    return { place: '/kinds', sentence: `At most ${priceLimits.kindsMax} kinds of buyers beside full.` };
  }
  for (const [i, { id, name, prices: kindPrices }] of kinds.entries()) {
    const place = `/kinds/${i}`;
    if (!kindForm.test(id) || id === fullKind) {
      return { place: `${place}/id`, sentence: 'Small letters, digits and dashes; full is taken.' };
    }
    if (kinds.findIndex((kind) => kind.id === id) < i)
      return { place: `${place}/id`, sentence: `${id} is there twice.` };
    if (name.trim() === '') return { place: `${place}/name`, sentence: 'Enter a name.' };
    if (Object.keys(kindPrices).length === 0)
      return { place: `${place}/prices`, sentence: `${id} has no price.` };
    const unknown = Object.keys(kindPrices).find((category) => !Object.hasOwn(prices, category));
    if (unknown !== undefined) {
      return {
        place: `${place}/prices`,
        sentence: `${unknown} has no full price, so it has none for ${id}.`,
      };
    }
  }
  return null;
}

/** Returns a sentence about a fault of the presale's start (epoch ms, null if there is no presale), or null if it is valid. */
export function presaleFault(presaleAt: number | null, onSaleAt: number | null): string | null {
  if (presaleAt === null) return null;
  if (onSaleAt === null) return 'A presale needs the time at which the sale opens to everybody.';
  return presaleAt < onSaleAt ? null : 'A presale must start before the sale opens to everybody.';
}
