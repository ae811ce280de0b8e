import { holdLimits } from '../core/hold.ts';
import { assert } from '../core/outcome.ts';
import type { SeatNo } from '../core/seat-map.ts';
import type { Claim, HoldCommand } from './arbiter.ts';

/** How long the partition's move between stores is expected to take: the wait that `retry` asks for. */
export const retryAfterMs = 250;

/**
 * A claim as the stores take it: candidate groups of equal size, each ascending and without repeats (named seats are one
 * group), or units. `quantity` is the seats that a grant would hold.
 */
export interface CheckedClaim {
  kind: Claim['kind'];
  groups: SeatNo[][];
  units: { first: SeatNo; count: number; quantity: number; start: number } | null;
  quantity: number;
}

/** Checks what every caller has to keep to; a breach is a bug of the caller (the routes' schemas refuse buyers before). */
export function checkedClaim(command: HoldCommand): CheckedClaim {
  const { claim, ttlMs, seatsMax } = command;
  assert(Number.isInteger(ttlMs) && ttlMs > 0 && ttlMs <= holdLimits.lifeMaxMs, `ttlMs ${ttlMs} in bounds`);
  assert(Number.isInteger(seatsMax) && seatsMax >= 0, `seatsMax ${seatsMax} in bounds`);
  const { address = null } = command;
  assert(
    address === null || (address.id !== '' && Number.isInteger(address.seatsMax) && address.seatsMax >= 0),
    'an address range with its quota',
  );
  assert(command.replaces !== command.hold, 'a hold does not replace itself');
  if (claim.kind === 'units') return checkedUnits(claim);
  const given = claim.kind === 'seats' ? [claim.seats] : claim.groups;
  assert(given.length >= 1 && given.length <= holdLimits.groupsMax, `${given.length} candidate groups`);
  const groups = given.map(ascending);
  const quantity = groups[0]!.length;
  assert(
    groups.every((group) => group.length === quantity),
    'candidate groups of equal size',
  );
  checkQuantity(quantity);
  return { kind: claim.kind, groups, units: null, quantity };
}

function checkedUnits(claim: Extract<Claim, { kind: 'units' }>): CheckedClaim {
  const { first, count, quantity, start } = claim;
  assert(isSeatNo(first) && Number.isInteger(count) && count > 0, `units from ${first}, ${count} of them`);
  assert(Number.isInteger(start) && start >= 0 && start < count, `start ${start} within the units`);
  checkQuantity(quantity);
  return { kind: 'units', groups: [], units: { first, count, quantity, start }, quantity };
}

function checkQuantity(quantity: number): void {
  assert(
    Number.isInteger(quantity) && quantity >= 1 && quantity <= holdLimits.seatsMax,
    `a claim to ${quantity} seats`,
  );
}

/** A copy in ascending order; refuses repeats. */
export function ascending(seats: readonly SeatNo[]): SeatNo[] {
  const sorted = [...seats].sort((a, b) => a - b);
  sorted.forEach((seat, i) => {
    assert(isSeatNo(seat) && seat !== sorted[i - 1], `seat ${seat} once in a claim`);
  });
  return sorted;
}

function isSeatNo(seat: number): boolean {
  return Number.isInteger(seat) && seat >= 0;
}
