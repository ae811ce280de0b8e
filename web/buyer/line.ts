import type { StatusObject } from '../../src/read-path/published.ts';

/** A visitor's place, as his queue ticket says it. */
export interface Place {
  ticket: string;
  number: number;
  shard: number;
}

/** What the shared status object and one ticket tell about a wait; all arithmetic is done here, in the browser (W4). */
export interface Wait {
  /** Numbers between the last one called and ours; 0 when we are next or called. */
  ahead: number;
  behind: number;
  called: boolean;
  /** Estimated wait in ms from the measured rate; null while nothing can be said. */
  waitMs: number | null;
  /** Fewer seats are left, baskets included, than people ahead are likely to want. */
  scarce: boolean;
}

export function waitOf(
  status: Pick<StatusObject, 'frontier' | 'last' | 'rate' | 'noShow' | 'seats'>,
  place: Pick<Place, 'number' | 'shard'>,
): Wait {
  const frontier = status.frontier[place.shard] ?? 0;
  const last = status.last[place.shard] ?? place.number;
  const ahead = Math.max(0, place.number - frontier - 1);
  const called = place.number <= frontier;
  // The line also moves over those who do not come when called: fewer people are ahead than numbers.
  const peopleAhead = ahead * (1 - Math.min(Math.max(status.noShow, 0), 0.95));
  const rate = status.rate.measured > 0 ? status.rate.measured : status.rate.target;
  return {
    ahead,
    behind: Math.max(0, last - place.number),
    called,
    waitMs: called ? 0 : rate > 0 ? (peopleAhead / rate) * 1000 : null,
    scarce: !called && peopleAhead > status.seats.left + status.seats.inBaskets,
  };
}

/** Exact when near, a band when far: a number that is thousands away only pretends to be exact. */
export type Band = { kind: 'exact'; n: number } | { kind: 'band'; from: number; to: number };

const exactUpTo = 100;

export function bandOf(ahead: number): Band {
  if (ahead <= exactUpTo) return { kind: 'exact', n: ahead };
  const step = 10 ** Math.floor(Math.log10(ahead)) / 2;
  const from = Math.floor(ahead / step) * step;
  return { kind: 'band', from, to: from + step };
}

/** A wait as a range of whole minutes, a fifth less to a third more than computed. */
export function minutesOf(waitMs: number): { from: number; to: number } {
  const minutes = waitMs / 60_000;
  const from = Math.max(1, Math.floor(minutes * 0.8));
  return { from, to: Math.max(from, Math.ceil(minutes * 1.3)) };
}

/**
 * Until the next look at the status: a tenth of the wait, within the served policy, spread upwards by up to 30 % so that a
 * crowd that came together does not poll together. Never below the floor, never above the policy's maximum (W5).
 */
export function pollDelay(policy: StatusObject['poll'], waitMs: number | null, random: number): number {
  const wish = (waitMs ?? 0) / 10;
  const base = Math.min(Math.max(wish, policy.minMs), policy.maxMs);
  return Math.min(base * (1 + 0.3 * random), Math.max(policy.maxMs, policy.minMs));
}
