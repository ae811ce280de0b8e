import { knownNumbers } from '../../src/core/watermark.ts';
import type { StatusObject } from '../../src/read-path/published.ts';

/** A visitor's place, from their queue ticket. */
export interface Place {
  ticket: string;
  number: number;
  shard: number;
}

/** The state of a wait, computed in the browser from the shared status object and one ticket (W4). */
export interface Wait {
  /** People between the last one called and ours; 0 when we are next or called. */
  ahead: number;
  behind: number;
  /** The line has several counters: `ahead` and `behind` are estimates. */
  approximate: boolean;
  called: boolean;
  /** Estimated wait in ms from the measured rate; null while nothing can be said. */
  waitMs: number | null;
  /** Fewer seats are left, baskets included, than people ahead are likely to want. */
  scarce: boolean;
}

/** A status that an older program published has no gaps. */
type Line = Pick<StatusObject, 'frontier' | 'last'> & Partial<Pick<StatusObject, 'gaps'>>;

export function waitOf(
  status: Line & Pick<StatusObject, 'rate' | 'noShow' | 'seats'>,
  place: Pick<Place, 'number' | 'shard'>,
): Wait {
  const { ahead, behind } = aroundOf(status, place);
  const called = place.number <= (status.frontier[place.shard] ?? 0);
  // The line also moves over those who do not come when called: fewer people are ahead than numbers.
  const peopleAhead = ahead * (1 - Math.min(Math.max(status.noShow, 0), 0.95));
  const rate = status.rate.measured > 0 ? status.rate.measured : status.rate.target;
  return {
    ahead,
    behind,
    approximate: status.frontier.length > 1,
    called,
    waitMs: called ? 0 : rate > 0 ? (peopleAhead / rate) * 1000 : null,
    scarce: !called && peopleAhead > status.seats.left + status.seats.inBaskets,
  };
}

/** Numbers that are issued and not called, over all shards. */
export function waitingIn(status: Line): number {
  return status.frontier.reduce((sum, _, shard) => sum + waitingInShard(status, shard), 0);
}

function waitingInShard({ frontier, last, gaps }: Line, shard: number): number {
  const from = frontier[shard] ?? 0;
  return knownNumbers(from, Math.max(from, last[shard] ?? 0), gaps?.[shard] ?? []);
}

/**
 * People before and behind a place. Each shard is called up to the same instant of arrival, and visitors are
 * assigned to shards by chance, so the share that is ahead is the same in each shard's line.
 */
function aroundOf(
  status: Line,
  { number, shard }: Pick<Place, 'number' | 'shard'>,
): { ahead: number; behind: number } {
  const from = status.frontier[shard] ?? 0;
  const last = Math.max(number, status.last[shard] ?? 0);
  const gaps = status.gaps?.[shard] ?? [];
  const ahead = knownNumbers(from, Math.max(from, number - 1), gaps);
  const behind = knownNumbers(number, last, gaps);
  if (status.frontier.length <= 1) return { ahead, behind };
  const waiting = ahead + behind + 1;
  const others = waitingIn(status) - waitingInShard(status, shard);
  const share = ahead / waiting;
  return {
    ahead: Math.round(ahead + others * share),
    behind: Math.round(behind + others * (1 - share)),
  };
}

/** Exact when near, a range when far: a number of several thousand would look more exact than it is. */
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
