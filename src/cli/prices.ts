import { decimalOf, exponentOf, minorOf } from '../core/money.ts';
import { type BuyerKind, fullKind } from '../core/prices.ts';
import type { EventRecord } from '../orders/record.ts';

export interface PriceFlags {
  price: string[];
  kind?: string[];
  kindConditions?: string[];
  lockedKind?: string[];
  locked?: string[];
}

export type PricesRead =
  | { kind: 'read'; prices: Record<string, number>; kinds: BuyerKind[]; lockedCategories: string[] }
  | { kind: 'refused'; sentence: string };

export const priceHelp =
  'price of a category, as "Category 1=149.00", or in minor units as "Category 1=14900"; repeat for each; "Category 1/reduced=99.00" is the price for a --kind';

/** Prices as the command line says them. Whether they can be charged is for `priceFault`. */
export function readPrices(flags: PriceFlags, currency: string): PricesRead {
  const refused = (sentence: string): PricesRead => ({ kind: 'refused', sentence });
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
    const amount = amountIn(sum, currency);
    if (whose === '' || amount === null) {
      return refused(`--price "${text}" is not of the form category=amount, such as "Category 1=149.00".`);
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
  return { kind: 'read', prices, kinds, lockedCategories: flags.locked ?? [] };
}

/** The seat prices of an event in the main unit, so that the organiser notices a sum typed in the wrong unit. */
export function priceListText({ currency, prices, settings }: EventRecord): string {
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
  const units = exponentOf(currency) === 0 ? '' : ` (--price without a decimal point: 100 is ${money(100)})`;
  return [`Prices${units}:`, ...lines].join('\n');
}

/** `before=after` at the last `=`, which no amount holds. */
function split(text: string): [string, string] | null {
  const at = text.lastIndexOf('=');
  return at < 1 ? null : [text.slice(0, at).trim(), text.slice(at + 1).trim()];
}

/** With a decimal point in the currency's main unit, without one in minor units. */
function amountIn(text: string, currency: string): number | null {
  if (text.includes('.')) return minorOf(text, currency);
  return /^\d{1,12}$/.test(text) ? Number(text) : null;
}
