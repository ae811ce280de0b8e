import { holdLimits, seatStates } from '../../core/hold.ts';
import { allows, phases } from '../../core/phase.ts';
import type { Claim } from '../arbiter.ts';
import type { StoredHold } from '../modes.ts';

/** Result codes of the scripts, as numbers. TypeScript and Lua share this table. */
export const codes = {
  done: 0,
  stale: 1,
  granted: 2,
  /** As `granted`: the hold was there before. */
  repeated: 3,
  taken: 4,
  hold_exists: 5,
  quota: 6,
  mismatch: 7,
  hold_gone: 8,
  too_late: 9,
  not_open: 10,
  found: 11,
  recovered: 12,
  extended: 13,
  bound: 14,
  released: 15,
  address_quota: 16,
} as const;
export type Code = keyof typeof codes;

const names = Object.keys(codes) as Code[];
export const codeOf = (value: unknown): Code | undefined => names.find((name) => codes[name] === value);

/** The states that a record keeps; the place in this list, from 1, is its number in a record. */
export const heldStates = [
  'live',
  'ordered',
  'ended',
  'released',
  'replaced',
  'expired',
  'tombstone',
] as const satisfies readonly StoredHold['state'][];
/** Likewise the kinds of a claim. */
export const claimKinds = ['seats', 'groups', 'units'] as const satisfies readonly Claim['kind'][];

const numbered = (list: readonly string[]): string =>
  table(list.map((name, index) => [name, String(index + 1)]));

/** The tables as the scripts have them, in Lua. Seats' states and phases are numbers from 0: places in the lists of core. */
export function luaTables(): string {
  return [
    '-- The tables of redis/codes.ts.',
    `local CODE = ${table(Object.entries(codes).map(([name, value]) => [name, String(value)]))}`,
    `local HELD = ${numbered(heldStates)}`,
    `local KIND_OF = ${numbered(claimKinds)}`,
    `local MAY_HOLD = ${table(phases.map((phase, index) => [`[${index}]`, String(allows(phase, 'hold'))]))}`,
    `local LIFE_MAX_MS, EXTEND_TO_MS = ${holdLimits.lifeMaxMs}, ${holdLimits.extendToMs}`,
    '',
  ].join('\n');
}

function table(entries: readonly (readonly [string, string])[]): string {
  return `{ ${entries.map(([name, value]) => `${name} = ${value}`).join(', ')} }`;
}

export const phaseNo = (phase: (typeof phases)[number]): number => phases.indexOf(phase);
export const stateNo = (state: (typeof seatStates)[number]): number => seatStates.indexOf(state);
