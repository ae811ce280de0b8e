import { holdLimits } from './hold.ts';
import { assert } from './outcome.ts';
import type { SeatNo } from './seat-map.ts';
import { between, centreOf, type VenueIndex, type VenueSection } from './venue-index.ts';

export { createVenueIndex, type VenueIndex } from './venue-index.ts';

export interface BestAsked {
  quantity: number;
  /** Whether a seat is free, as far as the asker knows: seconds old is good enough, the arbiter decides. */
  available: (seat: SeatNo) => boolean;
  /** Name of the category; any when absent. */
  category?: string;
  /** Id of the section; any when absent. */
  section?: string;
  /** 0 to 1, drawn for each caller. Sends callers to different groups among those that are about equally good. */
  spread: number;
  /** Groups wanted at most; the claim takes the first that is still free. */
  max: number;
  /**
   * How many times as many nearly equal groups are considered; 1 by default. For an asker whose first choices
   * were all taken.
   */
  widen?: number;
}

export interface BestFound {
  /** In the order to try them; each ascending. Empty when there are none, or when `units` is the answer. */
  groups: SeatNo[][];
  /** General admission: any units of this range. */
  units: { first: SeatNo; count: number; start: number } | null;
  /** Each group sits side by side in one row. */
  contiguous: boolean;
  /** Everything is as asked for; false when the section was left for another of the category. */
  exact: boolean;
  note: null | 'split' | 'other_section' | 'none';
}

/** Share of the venue over which askers are spread, and its bounds: enough for a herd, near enough to the best. */
const poolShare = 0.05;
const poolMin = 8;
const poolMax = 512;
/** Worse than any seat: such a group comes last, but it comes. */
const orphanPenalty = 10;
/** Seats of a split group lie at most this many rows apart. */
const splitRowsMax = 3;
/** Split groups to choose from, and how many of them one section gives at most. */
const splitPool = 24;
const splitSeeds = 4;
const golden = 0.618_033_988_75;

/**
 * The best free groups: side by side, near the focus, no single seat left alone where that is avoidable, spread among near
 * equals. Where no row has room the group is split over adjoining rows and says so; where the asked section has none, others
 * of the category are offered and it says so.
 */
export function candidateGroups(venue: VenueIndex, asked: BestAsked): BestFound {
  const { quantity, spread, max } = asked;
  assert(
    Number.isInteger(quantity) && quantity >= 1 && quantity <= holdLimits.seatsMax,
    'a quantity to seat',
  );
  assert(spread >= 0 && spread <= 1 && max >= 1, 'a spread of 0 to 1 and room for a group');
  const category = asked.category === undefined ? -1 : venue.categories.indexOf(asked.category);
  const section = asked.section === undefined ? -1 : (venue.sectionIndex.get(asked.section) ?? -2);
  if ((asked.category !== undefined && category < 0) || section === -2) return found([], 'none');
  const wanted: Wanted = { quantity, available: asked.available, category, section, widen: asked.widen ?? 1 };

  const side = sideBySide(venue, wanted);
  if (side.length > 0) return found(spreadOut(side, spread, max), null);
  const units = unitsOf(venue, wanted, spread);
  if (units) return { ...found([], null), units, contiguous: false };
  const split = quantity > 1 ? splitGroups(venue, wanted) : [];
  if (split.length > 0) return found(spreadOut(split, spread, max), 'split');
  if (asked.section === undefined) return found([], 'none');
  const { section: _left, ...elsewhere } = asked;
  const other = candidateGroups(venue, elsewhere);
  return other.note === 'none' ? other : { ...other, exact: false, note: 'other_section' };
}

function found(groups: SeatNo[][], note: BestFound['note']): BestFound {
  const contiguous = groups.length > 0 && note !== 'split';
  return { groups, units: null, contiguous, exact: note !== 'none', note };
}

interface Wanted {
  quantity: number;
  available: (seat: SeatNo) => boolean;
  /** Index; -1: any. */
  category: number;
  section: number;
  widen: number;
}
interface Scored {
  seats: SeatNo[];
  score: number;
}

/** Positions [from, to) of `runSeats`: free seats side by side, of the wanted category; `least` of them or more. */
type Stretch = [from: number, to: number];
const noStretches: Stretch[] = [];

function stretchesOf(venue: VenueIndex, run: number, wanted: Wanted, least: number): Stretch[] {
  const { runSeats, runStart, category, reserved } = venue;
  let stretches = noStretches;
  let from = -1;
  const end = runStart[run + 1]!;
  for (let i = runStart[run]!; i <= end; i++) {
    const seat = i < end ? runSeats[i]! : -1;
    const free =
      seat >= 0 &&
      wanted.available(seat) &&
      reserved[seat] === 0 &&
      (wanted.category < 0 || category[seat] === wanted.category);
    if (free && from < 0) from = i;
    if (!free && from >= 0 && i - from < least) from = -1;
    if (!free && from >= 0) {
      if (stretches === noStretches) stretches = [];
      stretches.push([from, i]);
      from = -1;
    }
  }
  return stretches;
}

/**
 * Groups in one row, best first: as many as the pool takes. Runs are looked at in the order of their best seat, so that the
 * search ends as soon as no later one can be better than what is there.
 */
function sideBySide(venue: VenueIndex, wanted: Wanted): Scored[] {
  const pool = poolSize(venue, wanted);
  let groups: Scored[] = [];
  let worst = Number.POSITIVE_INFINITY;
  for (const run of venue.runOrder) {
    if (venue.runBest[run]! > worst) break;
    const section = venue.sections[venue.runSection[run]!]!;
    if (section.sellAsUnit || (wanted.section >= 0 && venue.runSection[run] !== wanted.section)) continue;
    for (const stretch of stretchesOf(venue, run, wanted, wanted.quantity))
      pushTiles(venue, stretch, wanted.quantity, groups);
    if (groups.length >= pool * 2) {
      groups = groups.sort(byScore).slice(0, pool);
      worst = groups.at(-1)!.score;
    }
  }
  for (const group of wholeSections(venue, wanted)) groups.push(group);
  return groups.sort(byScore).slice(0, pool);
}

function poolSize(venue: VenueIndex, wanted: Wanted): number {
  const share = Math.ceil((poolShare * venue.seatCount) / wanted.quantity);
  return Math.max(poolMin, Math.min(poolMax, share)) * wanted.widen;
}

function byScore(a: Scored, b: Scored): number {
  return a.score - b.score;
}

/**
 * Cuts a stretch into groups from both its ends towards the middle, so that they do not overlap. A group that would leave a
 * single seat alone is left out, unless the stretch has none better.
 */
function pushTiles(venue: VenueIndex, [from, to]: Stretch, quantity: number, into: Scored[]): void {
  const length = to - from;
  const before = into.length;
  const half = Math.ceil((length - quantity + 1) / 2);
  for (let at = 0; at < half; at += quantity) {
    if (!leavesOrphan(at, quantity, length)) into.push(tile(venue, from + at, quantity, 0));
    const mirrored = length - quantity - at;
    if (mirrored >= at + quantity && !leavesOrphan(mirrored, quantity, length)) {
      into.push(tile(venue, from + mirrored, quantity, 0));
    }
  }
  if (into.length === before) into.push(tile(venue, from, quantity, orphanPenalty));
}

function leavesOrphan(at: number, quantity: number, length: number): boolean {
  return at === 1 || length - quantity - at === 1;
}

function tile(venue: VenueIndex, at: number, quantity: number, penalty: number): Scored {
  const seats = Array.from(venue.runSeats.subarray(at, at + quantity));
  return scored(venue, seats, penalty);
}

function scored(venue: VenueIndex, seats: SeatNo[], penalty: number): Scored {
  let sum = 0;
  for (const seat of seats) sum += venue.quality[seat]!;
  seats.sort((a, b) => a - b);
  return { seats, score: sum / seats.length + penalty };
}

/** Boxes and the like: all of it or none. */
function wholeSections(venue: VenueIndex, wanted: Wanted): Scored[] {
  return venue.sections.flatMap((section, index) => {
    if (!section.sellAsUnit || section.seats.length !== wanted.quantity) return [];
    if (wanted.section >= 0 && index !== wanted.section) return [];
    const fits = section.seats.every(
      (seat) => (wanted.category < 0 || venue.category[seat] === wanted.category) && wanted.available(seat),
    );
    return fits ? [scored(venue, [...section.seats], 0)] : [];
  });
}

/**
 * Sends callers apart: each starts at a different place of the pool and goes on in long steps, so that two callers who start
 * next to each other do not meet again at once. Groups that leave an orphan stay behind the others.
 */
function spreadOut(pool: Scored[], spread: number, max: number): SeatNo[][] {
  const good = pool.filter(({ score }) => score < orphanPenalty);
  const near = good.length > 0 ? good : pool;
  const start = Math.min(near.length - 1, Math.floor(spread * near.length));
  const step = coprimeTo(near.length);
  const groups: SeatNo[][] = [];
  for (let i = 0; i < near.length && groups.length < max; i++) {
    groups.push(near[(start + i * step) % near.length]!.seats);
  }
  for (const { seats, score } of pool) {
    if (groups.length >= max) break;
    if (near === good && score >= orphanPenalty) groups.push(seats);
  }
  return groups;
}

/** About the golden section of `length`, and visiting each place once. */
function coprimeTo(length: number): number {
  let step = Math.max(1, Math.round(length * golden));
  while (gcd(step, length) !== 1) step += 1;
  return step;
}

function gcd(a: number, b: number): number {
  return b === 0 ? a : gcd(b, a % b);
}

/** A GA range of the wanted section or category with enough free units; the fuller ones are found by luck of the spread. */
function unitsOf(venue: VenueIndex, wanted: Wanted, spread: number): BestFound['units'] {
  const ranges = venue.sections.flatMap((section, index) => {
    if (section.kind !== 'ga' || section.sellAsUnit) return [];
    if (wanted.section >= 0 ? index !== wanted.section : false) return [];
    if (wanted.category >= 0 && section.category !== wanted.category) return [];
    return section.units.filter(([first, count]) => hasFree(first, count, wanted));
  });
  if (ranges.length === 0) return null;
  const [first, count] = ranges[Math.min(ranges.length - 1, Math.floor(spread * ranges.length))]!;
  // Uses the remaining digits of the same random number, so that the place within the range does not depend
  // on which range was chosen.
  const within = (spread * ranges.length) % 1;
  return { first, count, start: Math.min(count - 1, Math.floor(within * count)) };
}

function hasFree(first: SeatNo, count: number, wanted: Wanted): boolean {
  let free = 0;
  for (let seat = first; seat < first + count && free < wanted.quantity; seat++) {
    if (wanted.available(seat)) free += 1;
  }
  return free === wanted.quantity;
}

/**
 * Groups over rows near each other in one section, in as few pieces as possible and without a single seat where that can be
 * avoided. The best sections come first, until there are enough groups to choose from.
 */
function splitGroups(venue: VenueIndex, wanted: Wanted): Scored[] {
  const groups = new Map<string, Scored>();
  for (const index of venue.sectionOrder) {
    if (groups.size >= splitPool) break;
    const section = venue.sections[index]!;
    if (section.sellAsUnit || section.kind === 'ga' || (wanted.section >= 0 && index !== wanted.section))
      continue;
    const pieces = piecesOf(venue, section, wanted);
    const seeds = [...pieces].sort((a, b) => b.seats.length - a.seats.length);
    for (const seed of seeds.slice(0, wanted.section >= 0 ? splitPool : splitSeeds)) {
      const group = gather(venue, seed, pieces, wanted.quantity);
      if (group) groups.set(group.seats.join(), group);
    }
  }
  return [...groups.values()].sort(byScore);
}

interface Piece {
  seats: SeatNo[];
  row: number;
  centre: [number, number];
}

function piecesOf(venue: VenueIndex, section: VenueSection, wanted: Wanted): Piece[] {
  const pieces: Piece[] = [];
  for (let run = section.runFirst; run < section.runEnd; run++) {
    for (const [from, to] of stretchesOf(venue, run, wanted, 1)) {
      const seats = Array.from(venue.runSeats.subarray(from, to));
      pieces.push({ seats, row: venue.runRow[run]!, centre: centreOf(venue, seats) });
    }
  }
  return pieces;
}

function gather(
  venue: VenueIndex,
  seed: Piece,
  pieces: readonly Piece[],
  quantity: number,
): Scored | undefined {
  const near: { away: number; piece: Piece }[] = [];
  for (const piece of pieces) {
    if (Math.abs(piece.row - seed.row) > splitRowsMax) continue;
    const away = Math.hypot(piece.centre[0] - seed.centre[0], piece.centre[1] - seed.centre[1]);
    near.push({ away: piece === seed ? -1 : away, piece });
  }
  near.sort((a, b) => a.away - b.away);
  const seats: SeatNo[] = [];
  let parts = 0;
  let alone = 0;
  for (const { piece } of near) {
    const missing = quantity - seats.length;
    if (missing === 0) break;
    let take = Math.min(missing, piece.seats.length);
    // Better two and two than three and one.
    if (missing - take === 1 && take > 2) take -= 1;
    if (take === 1) alone += 1;
    seats.push(...nearestIn(venue, piece, seed.centre, take));
    parts += 1;
  }
  if (seats.length < quantity) return undefined;
  const group = scored(venue, seats, 0);
  // Fewer pieces, and no person alone, count for more than a better view. All of it stays below the penalty of an orphan.
  return { seats: group.seats, score: group.score + Math.min(4, parts * 0.5) + Math.min(4, alone) };
}

/** `take` seats side by side out of a piece, at the end that is nearer. */
function nearestIn(venue: VenueIndex, piece: Piece, to: [number, number], take: number): SeatNo[] {
  const away = (seat: SeatNo) => Math.hypot(venue.x[seat]! - to[0], venue.y[seat]! - to[1]);
  const { seats } = piece;
  return away(seats[0]!) <= away(seats.at(-1)!) ? seats.slice(0, take) : seats.slice(-take);
}

/**
 * After `taken`: the free seats nearest to the ones asked for, side by side, first in the same category and then in any.
 * Null when no row has room for them.
 */
export function nearestFree(
  venue: VenueIndex,
  seats: readonly SeatNo[],
  available: (seat: SeatNo) => boolean,
  quantity: number,
): SeatNo[] | null {
  const known = seats.filter((seat) => venue.section[seat] !== undefined && venue.section[seat] !== -1);
  if (known.length === 0) return null;
  const from = centreOf(venue, known);
  const same = { quantity, available, category: venue.category[known[0]!]!, section: -1, widen: 1 };
  const found = nearestRun(venue, same, from);
  if (found || venue.categories.length === 1) return found;
  return nearestRun(venue, { ...same, category: -1 }, from);
}

function nearestRun(venue: VenueIndex, wanted: Wanted, [x, y]: [number, number]): SeatNo[] | null {
  const { runSeats } = venue;
  const { quantity } = wanted;
  let best: Stretch | null = null;
  let bestScore = Number.POSITIVE_INFINITY;
  for (const [run] of runsByDistance(venue, x, y, () => bestScore)) {
    for (const [start, end] of stretchesOf(venue, run, wanted, quantity)) {
      const width = between(venue, runSeats[start]!, runSeats[end - 1]!);
      const pitch = width / Math.max(1, end - start - 1);
      for (let at = start; at + quantity <= end; at++) {
        const left = runSeats[at]!;
        const right = runSeats[at + quantity - 1]!;
        const away = distance(
          (venue.x[left]! + venue.x[right]!) / 2 - x,
          (venue.y[left]! + venue.y[right]!) / 2 - y,
        );
        // An orphan is worth going one seat further, not more.
        const score = away + (leavesOrphan(at - start, quantity, end - start) ? pitch : 0);
        if (score < bestScore) {
          bestScore = score;
          best = [at, at + quantity];
        }
      }
    }
  }
  return best && Array.from(runSeats.subarray(...best)).sort((a, b) => a - b);
}

/**
 * Run numbers with the least distance that any of their seats can have to (x, y). Section by section, the nearest first, and
 * within one the nearest run first; of a section that is as far away as `enough()` or farther none is given.
 */
function* runsByDistance(
  venue: VenueIndex,
  x: number,
  y: number,
  enough: () => number,
): Generator<[run: number, atLeast: number]> {
  const sections: [section: VenueSection, atLeast: number][] = [];
  for (const section of venue.sections) {
    if (section.runFirst === section.runEnd || section.sellAsUnit) continue;
    sections.push([section, distance(section.x - x, section.y - y) - section.span]);
  }
  sections.sort((a, b) => a[1] - b[1]);
  for (const [section, farAway] of sections) {
    if (farAway > enough()) return;
    const runs: [run: number, atLeast: number][] = [];
    for (let run = section.runFirst; run < section.runEnd; run++) {
      const first = venue.runSeats[venue.runStart[run]!]!;
      const atLeast = distance(venue.x[first]! - x, venue.y[first]! - y) - venue.runSpan[run]!;
      if (atLeast <= enough()) runs.push([run, atLeast]);
    }
    runs.sort((a, b) => a[1] - b[1]);
    for (const found of runs) {
      if (found[1] > enough()) break;
      yield found;
    }
  }
}

/** Math.hypot is many times slower, and nothing here overflows. */
function distance(dx: number, dy: number): number {
  return Math.sqrt(dx * dx + dy * dy);
}

/** The seats that a claim has to take as well, because their section is only sold whole. */
export function missingOfUnits(venue: VenueIndex, seats: readonly SeatNo[]): SeatNo[] {
  const asked = new Set(seats);
  const sections = new Set(seats.map((seat) => venue.section[seat] ?? -1));
  return [...sections].flatMap(
    (index) => venue.sections[index]?.seats.filter((seat) => !asked.has(seat)) ?? [],
  );
}
