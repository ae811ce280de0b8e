import { decimalOf, isSellable, minorOf } from '../core/money.ts';
import { type BuyerKind, fullKind } from '../core/prices.ts';

export interface PriceFlags {
  price: string[];
  kind?: string[];
  kindConditions?: string[];
  lockedKind?: string[];
  locked?: string[];
  seatFee?: string;
  orderFee?: string;
}

export type PricesRead =
  | {
      kind: 'read';
      prices: Record<string, number>;
      kinds: BuyerKind[];
      lockedCategories: string[];
      seatFee?: number;
      orderFee?: number;
    }
  | { kind: 'refused'; sentence: string };

/** Amounts of money on the command line are decimal, in the main unit of the currency. */
export const moneyHelp = 'in the main unit of the currency, as 1.50';
export const priceHelp =
  'price of a category, as "Category 1=149.00"; repeat for each; "Category 1/reduced=99.00" is the price for a --kind';

/** Reads prices and fees. Whether they can be charged is for the operation to decide. */
export function readPrices(flags: PriceFlags, currency: string): PricesRead {
  const refused = (sentence: string): PricesRead => ({ kind: 'refused', sentence });
  // The operation refuses the currency.
  if (!isSellable(currency)) return { kind: 'read', prices: {}, kinds: [], lockedCategories: [] };
  const kinds: BuyerKind[] = [];
  for (const text of flags.kind ?? []) {
    const [id, name] = split(text) ?? [text.trim(), text.trim()];
    kinds.push({ id, name, conditions: '', prices: {} });
  }
  const named = (id: string) => kinds.find((kind) => kind.id === id);
  for (const text of flags.kindConditions ?? []) {
    const [id, conditions] = split(text) ?? ['', ''];
    const kind = named(id);
    if (!kind)
      return refused(`--kind-conditions "${text}" is not of the form kind=text, with a --kind of that id.`);
    kind.conditions = conditions;
  }
  for (const id of flags.lockedKind ?? []) {
    const kind = named(id);
    if (!kind) return refused(`--locked-kind "${id}": there is no --kind of that id.`);
    kind.locked = true;
  }
  const prices: Record<string, number> = Object.create(null);
  for (const text of flags.price) {
    const [whose, sum] = split(text) ?? ['', ''];
    const amount = minorOf(sum, currency);
    if (whose === '' || amount === null || amount < 0) {
      return refused(`--price "${text}" is not of the form category=amount, as "Category 1=149.00".`);
    }
    const slash = whose.lastIndexOf('/');
    const kind = slash > 0 ? named(whose.slice(slash + 1).trim()) : undefined;
    // A slash may be part of a category's name: only a kind that was named makes it a price of that kind.
    if (kind) kind.prices[whose.slice(0, slash).trim()] = amount;
    else if (slash > 0 && whose.slice(slash + 1).trim() === fullKind)
      prices[whose.slice(0, slash).trim()] = amount;
    else prices[whose] = amount;
  }
  const stray = Object.keys(prices).find((name) => {
    const slash = name.lastIndexOf('/');
    return slash > 0 && Object.hasOwn(prices, name.slice(0, slash));
  });
  if (stray !== undefined) {
    return refused(
      `--price "${stray}": name its kind too, as --kind "${stray.slice(stray.lastIndexOf('/') + 1)}=Name".`,
    );
  }
  const fees = { seatFee: feeIn(flags.seatFee, currency), orderFee: feeIn(flags.orderFee, currency) };
  if (fees.seatFee === null) return refused(`--seat-fee "${flags.seatFee}" is no amount ${moneyHelp}.`);
  if (fees.orderFee === null) return refused(`--order-fee "${flags.orderFee}" is no amount ${moneyHelp}.`);
  const { seatFee, orderFee } = fees;
  return { kind: 'read', prices, kinds, lockedCategories: flags.locked ?? [], seatFee, orderFee };
}

/** Minor units; null if the text is no amount of the currency. */
function feeIn(text: string | undefined, currency: string): number | null | undefined {
  if (text === undefined) return undefined;
  const amount = minorOf(text, currency);
  return amount === null || amount < 0 ? null : amount;
}

interface PriceList {
  currency: string;
  prices: Record<string, number>;
  settings: {
    kinds?: BuyerKind[];
    lockedCategories?: string[];
    seatFee: number;
    orderFee: number;
  };
}

/** The seat prices of an event in the main unit, so that the organiser notices a sum typed in the wrong unit. */
export function priceListText({ currency, prices, settings }: PriceList): string {
  const money = (minor: number) => `${decimalOf(minor, currency)} ${currency}`;
  const { kinds = [], lockedCategories = [], seatFee, orderFee } = settings;
  const lines = Object.keys(prices).flatMap((category) => {
    const lock = lockedCategories.includes(category) ? ', with an access code' : '';
    const others = kinds.filter((kind) => Object.hasOwn(kind.prices, category));
    return [
      `  ${category}: ${money(prices[category]!)}${lock}`,
      ...others.map((kind) => `  ${category}/${kind.id}: ${money(kind.prices[category]!)}`),
    ];
  });
  if (seatFee > 0) lines.push(`  Fee of each seat: ${money(seatFee)}`);
  if (orderFee > 0) lines.push(`  Fee of each order: ${money(orderFee)}`);
  return ['Prices:', ...lines].join('\n');
}

/** `before=after` at the last `=`, which no amount holds. */
function split(text: string): [string, string] | null {
  const at = text.lastIndexOf('=');
  return at < 1 ? null : [text.slice(0, at).trim(), text.slice(at + 1).trim()];
}
