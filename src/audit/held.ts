import { counted } from '../core/counted.ts';
import { holdLimits, type PartitionNo, seatStates } from '../core/hold.ts';
import type { Snapshot } from '../inventory/arbiter.ts';
import type { StoredHold } from '../inventory/modes.ts';
import type { PartitionMode } from '../orders/record.ts';
import type {
  AuditedEvent,
  AuditedPromise,
  AuditSources,
  Comparison,
  Looked,
  Violation,
} from './audit-sources.ts';
import {
  decidedSeats,
  type OpenOrderSeats,
  ordersOfPartition,
  rememberedOrders,
  unpaidSeats,
} from './facts.ts';
import { judgeOrders, remembrance } from './held-orders.ts';

/**
 * Compares the arbiter with the decisions of the record (S8), and checks the holds of partitions that Redis arbitrates (S2 to
 * S7). A partition that cannot be read is `unread`, whatever its other findings.
 */
export async function compareHeld(sources: AuditSources, event: AuditedEvent): Promise<Comparison> {
  const looked: Looked[] = [];
  const violations: Violation[] = [];
  const unread: string[] = [];
  const unpaid = await unpaidSeats(sources.db, event.event);
  for (const mode of await sources.modes(event.event)) {
    const { partition } = mode;
    let snapshot: Snapshot;
    let holds: StoredHold[] | null = null;
    try {
      if (mode.mode === 'redis') holds = (await sources.redisHolds?.(event.event, mode)) ?? null;
      snapshot = await sources.arbiter.snapshot(event.event, partition);
    } catch (error) {
      const why = `partition ${partition} could not be read: ${(error as Error).message}`;
      unread.push(why);
      looked.push({ promise: 'S8', unchecked: why });
      if (mode.mode === 'redis') for (const promise of heldPromises) looked.push({ promise, unchecked: why });
      continue;
    }
    const decided = await decidedSeats(sources.db, event.event, partition);
    violations.push(...compareStates(partition, snapshot, decided));
    const held = snapshot.codes.reduce((sum, code) => sum + (code === heldCode ? 1 : 0), 0);
    const store = mode.mode === 'redis' ? `Redis${mode.store ? ` "${mode.store}"` : ''}` : 'Postgres';
    looked.push({
      promise: 'S8',
      evidence: `partition ${partition}: ${counted(decided.seats.length, 'seat')} in ${store} as the record says, ${held} of them held`,
    });
    if (mode.mode !== 'redis') {
      const orders = await rememberedOrders(sources.db, event.event, partition);
      looked.push(...remembrance({ partition, store, ...orders }));
      continue;
    }
    const judged = holds && judgeHolds({ mode, holds, snapshot, decided, unpaid, most: event.holdSeatsMax });
    if (!holds || !judged) {
      const why = `partition ${partition}: there is no way to the holds in Redis from here`;
      unread.push(why);
      for (const promise of heldPromises) looked.push({ promise, unchecked: why });
      continue;
    }
    const evidence = `partition ${partition} in ${store}: ${counted(judged.live, 'live hold')}, ${judged.overridden} overridden by a decision`;
    // Orders are what S5 is about.
    for (const promise of heldPromises) if (promise !== 'S5') looked.push({ promise, evidence });
    // After the holds, which were read first: a hold that has become an order meanwhile is looked at again.
    const orders = await ordersOfPartition(sources.db, event.event, partition);
    const beside = judgeOrders({ partition, store, holds, orders });
    looked.push(...beside.looked);
    violations.push(...judged.violations, ...beside.violations);
  }
  return { looked, violations, unread };
}

const heldPromises: readonly AuditedPromise[] = ['S2', 'S3', 'S4', 'S5', 'S6', 'S7'];
const heldCode = seatStates.indexOf('held');
const foreignCode = 255;

interface Decided {
  seats: number[];
  states: string[];
  orders: (string | null)[];
}

/** S8, seat by seat: decided states are the same here and there; only what is available there may be held here. */
function compareStates(partition: PartitionNo, snapshot: Snapshot, decided: Decided): Violation[] {
  const violations: Violation[] = [];
  const violate = (seat: number, order: string | null, says: string): void => {
    const remedy =
      'The record is the truth: project the seat again (a restart of the controller does). Report the fault.';
    violations.push({ promise: 'S8', key: `seat ${seat}`, seat, order, hold: null, says, remedy });
  };
  const decidedNow = new Set(decided.seats);
  decided.seats.forEach((seat, index) => {
    const code = snapshot.codes[seat] ?? foreignCode;
    const state = decided.states[index]!;
    const order = decided.orders[index] ?? null;
    if (code === foreignCode) {
      violate(
        seat,
        order,
        `the record says ${state}; the arbiter of partition ${partition} does not know it`,
      );
      return;
    }
    const says = seatStates[code]!;
    if (says !== state && !(says === 'held' && state === 'available')) {
      violate(seat, order, `the record says ${state}, the arbiter ${says}`);
    }
  });
  snapshot.codes.forEach((code, seat) => {
    if (code !== foreignCode && !decidedNow.has(seat)) {
      violate(
        seat,
        null,
        `the arbiter of partition ${partition} says ${seatStates[code]}, the record has it elsewhere`,
      );
    }
  });
  return violations;
}

interface Judged {
  live: number;
  overridden: number;
  violations: Violation[];
}

function judgeHolds(given: {
  mode: PartitionMode;
  holds: StoredHold[];
  snapshot: Snapshot;
  decided: Decided;
  unpaid: OpenOrderSeats[];
  most: number;
}): Judged {
  const { mode, snapshot, decided, unpaid, most } = given;
  const live = given.holds.filter(({ state, deadline }) => state === 'live' && deadline > snapshot.at);
  const stateOf = new Map(decided.seats.map((seat, index) => [seat, decided.states[index]!]));
  const violations: Violation[] = [];
  const report = 'Release the hold (its buyer is asked to choose again) and report the fault.';
  const violate = (
    promise: AuditedPromise,
    at: { seat?: number; hold?: string; key: string },
    says: string,
  ): void => {
    const { seat = null, hold = null, key } = at;
    violations.push({ promise, key, seat, order: null, hold, says, remedy: report });
  };
  const owners = new Map<number, string[]>();
  let overridden = 0;
  // The lease of a hold that has become an order may still exist until it lapses, in addition to the decision of the record.
  const leased = new Set(given.holds.flatMap(({ state, seats }) => (state === 'ordered' ? seats : [])));
  for (const { hold, seats, grantedAt, deadline } of live) {
    for (const seat of seats) owners.set(seat, [...(owners.get(seat) ?? []), hold]);
    const missing = seats.filter((seat) => snapshot.codes[seat] !== heldCode);
    // A decision may override a hold: what is left of it lapses by itself.
    const free = missing.filter((seat) => stateOf.get(seat) === 'available');
    if (free.length < missing.length) overridden += 1;
    else if (free.length > 0) violate('S2', { hold, key: hold }, `holds ${seats}, but ${free} are free`);
    if (deadline > grantedAt + holdLimits.lifeMaxMs) {
      violate('S6', { hold, key: hold }, `granted at ${grantedAt}, lives until ${deadline}`);
    }
  }
  for (const [seat, holds] of owners) {
    if (holds.length > 1)
      violate('S3', { seat, hold: holds[0], key: `${seat}` }, `under live holds ${holds}`);
  }
  snapshot.codes.forEach((code, seat) => {
    if (code === heldCode && !owners.has(seat) && !leased.has(seat))
      violate('S4', { seat, key: `${seat}` }, 'held by no live hold');
  });
  for (const [holder, used] of quotas(mode.partition, live, unpaid)) {
    if (used > most)
      violate('S7', { key: holder }, `holder ${holder} has ${used} seats, the quota is ${most}`);
  }
  return { live: live.length, overridden, violations };
}

function quotas(
  partition: PartitionNo,
  live: readonly StoredHold[],
  unpaid: readonly OpenOrderSeats[],
): Map<string, number> {
  const byHold = new Map<string, { holder: string; seats: number }>();
  for (const { hold, holder, seats } of live) byHold.set(hold, { holder, seats: seats.length });
  // A hold that has become an order meanwhile counts once.
  for (const { hold, holder, seats, partition: of } of unpaid)
    if (of === partition) byHold.set(hold, { holder, seats });
  const used = new Map<string, number>();
  for (const { holder, seats } of byHold.values()) used.set(holder, (used.get(holder) ?? 0) + seats);
  return used;
}
