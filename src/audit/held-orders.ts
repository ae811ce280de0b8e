import { counted } from '../core/counted.ts';
import type { PartitionNo } from '../core/hold.ts';
import type { StoredHold } from '../inventory/modes.ts';
import type { Looked, Violation } from './audit-sources.ts';
import type { OrderOfHold } from './facts.ts';

/**
 * Difference that Redis's clock and Postgres's may have before an order that was made after a deadline is reported as late.
 * Milliseconds.
 */
const skewMs = 1_000;

const isOpen = (state: string): boolean => state === 'reserved' || state === 'authorised';
const isSold = (state: string): boolean => state === 'confirmed' || state === 'paid';

/**
 * S5 and S7 of a partition that Redis arbitrates: compares its orders with the records of their holds. A record is forgotten 15
 * min after its hold, so older orders cannot be compared; the record of an unpaid order stays.
 */
export function judgeOrders(given: {
  partition: PartitionNo;
  /** For people: `Redis "second"`. */
  store: string;
  holds: readonly StoredHold[];
  orders: readonly OrderOfHold[];
}): { looked: Looked[]; violations: Violation[] } {
  const { partition, store, holds, orders } = given;
  const violations: Violation[] = [];
  const records = new Map(holds.map((record) => [record.hold, record]));
  const bought = orders.filter(({ seats }) => seats.length > 0);
  let remembered = 0;
  for (const order of bought) {
    const record = records.get(order.hold);
    if (!record) continue;
    remembered += 1;
    violations.push(...judgeOrder(order, record));
  }
  const states = new Map(orders.map(({ hold, state }) => [hold, state]));
  const ordered = holds.filter(({ state }) => state === 'ordered');
  for (const { hold, holder, seats } of ordered) {
    const state = states.get(hold);
    if (state !== undefined && isOpen(state)) continue;
    violations.push({
      promise: 'S7',
      key: `ordered ${hold}`,
      seat: null,
      order: null,
      hold,
      says: `Redis counts ${seats.length} seats of holder ${holder} as an unpaid order's, the order is ${state ?? 'not there'}`,
      remedy: 'Rebuild the partition from Postgres (a restart of its Redis does), and report the fault.',
    });
  }
  const looked = [
    remembrance({ partition, store, orders: bought.length, remembered }),
    {
      promise: 'S7' as const,
      evidence: `partition ${partition} in ${store}: ${counted(ordered.length, 'quota entry', 'quota entries')} of unpaid orders beside the orders`,
    },
  ];
  return { looked: looked.flat(), violations };
}

/** How far S5 could be checked. For orders whose holds are forgotten, it could not. */
export function remembrance(of: {
  partition: PartitionNo;
  store: string;
  orders: number;
  remembered: number;
}): Looked[] {
  const { partition, store, orders, remembered } = of;
  const looked: Looked[] = [
    {
      promise: 'S5',
      evidence: `partition ${partition} in ${store}: ${remembered} of ${counted(orders, 'order')} beside the records of their holds`,
    },
  ];
  if (remembered < orders) {
    const unchecked = `partition ${partition}: the holds of ${orders - remembered} of ${counted(orders, 'order')} are not remembered any more`;
    looked.push({ promise: 'S5', unchecked });
  }
  return looked;
}

function judgeOrder(order: OrderOfHold, record: StoredHold): Violation[] {
  const violations: Violation[] = [];
  const violate = (promise: 'S5' | 'S7', name: string, says: string, remedy: string): void => {
    const key = `${name} ${order.order}`;
    violations.push({ promise, key, seat: null, order: order.order, hold: order.hold, says, remedy });
  };
  const history = 'Look at the order history: if it is paid, the buyer keeps the seats. Report the fault.';
  const ended = endBefore(order, record);
  if (ended) {
    const says = `the hold ${ended} at ${iso(record.deadline)}, the order was made at ${iso(order.createdAt)} and is ${order.state}`;
    violate('S5', 'ended', says, history);
  } else if (isOpen(order.state) && (record.state === 'expired' || record.state === 'ended')) {
    const says = `the order is ${order.state}, yet its ${order.seats.length} seats do not count in the quota of holder ${record.holder}: Redis says that the hold is ${record.state}`;
    violate('S7', 'uncounted', says, 'Nothing is to be undone: it ends with the order. Report the fault.');
  }
  const seats = record.seats.toSorted((a, b) => a - b);
  const isOther = record.visitor !== order.visitor || `${seats}` !== `${order.seats}`;
  if (isOther && record.seats.length > 0) {
    const says = `the order is of visitor ${order.visitor} and seats ${order.seats}, its hold of ${record.visitor} and ${seats}`;
    violate('S5', 'unlike', says, 'Close or refund the order and report the fault.');
  }
  return violations;
}

/** Returns how the hold ended before the order was made. Null means that it had not, as far as is known. */
function endBefore(order: OrderOfHold, { state, deadline }: StoredHold): string | null {
  const wasBefore = deadline + skewMs < order.createdAt;
  switch (state) {
    // For these two, the deadline is when they happened. A hold that became an order in time can never be given back.
    case 'released':
    case 'replaced':
      return isOpen(order.state) || isSold(order.state) || wasBefore ? `was ${state}` : null;
    // A tombstone is also left when a forgotten hold is given back long after its order. The hold of an
    // unpaid order is never forgotten.
    case 'tombstone':
      return isOpen(order.state) || wasBefore ? 'was given back' : null;
    case 'live':
    case 'ordered':
    case 'ended':
    case 'expired':
      return wasBefore ? 'lapsed' : null;
  }
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
