import { assert } from './outcome.ts';
import type { AreaShape, Layout, LayoutRow, LayoutSection, SeatNo } from './seat-map.ts';

/** A section as best available sees it. */
export interface VenueSection {
  id: string;
  name: string;
  kind: 'seated' | 'ga';
  sellAsUnit: boolean;
  /** GA: the ranges of its units. */
  units: [first: SeatNo, count: number][];
  /** GA: the category of its units. */
  category: number;
  /** All seats, for a section that is sold whole. */
  seats: SeatNo[];
  /** Its runs are [runFirst, runEnd) of the venue's runs. */
  runFirst: number;
  runEnd: number;
  /** The middle of its rows' seats, and how far from there any of them is at most. */
  x: number;
  y: number;
  span: number;
}

/**
 * The venue made ready for asking again and again which seats are best: about 25 bytes a seat. A run is a stretch of seats
 * that are each other's neighbours, in row order: no aisle and no gap in it.
 */
export interface VenueIndex {
  seatCount: number;
  categories: string[];
  sections: VenueSection[];
  sectionIndex: ReadonlyMap<string, number>;
  /** Indexed by seat_no, in tenths of a plan unit. Section and category are -1 if the layout does not have the seat. */
  x: Float32Array;
  y: Float32Array;
  section: Int16Array;
  category: Int16Array;
  /**
   * Indexed by seat_no, from 0 (best) to about 1: distance to the focus, plus a little for the distance from the middle of the
   * row and much for a restricted view.
   */
  quality: Float32Array;
  /** Indexed by seat_no: 1 if the seat is only granted to a visitor who names it (places for wheelchairs and companions). */
  reserved: Uint8Array;
  /** Run i is seats runSeats[runStart[i] .. runStart[i + 1]). */
  runSeats: Int32Array;
  runStart: Int32Array;
  runSection: Int16Array;
  /** The row that a run is part of: numbered through the venue, ascending within a section. */
  runRow: Int32Array;
  /** Run numbers by their best seat's quality. */
  runOrder: Int32Array;
  runBest: Float32Array;
  /** No seat of the run is farther than this from its first one. */
  runSpan: Float32Array;
  /** Section numbers by their best seat's quality. */
  sectionOrder: number[];
}

/** A gap this many times the row's usual one is an aisle, also where the plan does not say so. */
const gapFactor = 2;
const rowMiddleWeight = 0.05;
const restrictedViewPenalty = 0.5;
const focusLabels =
  /stage|pitch|field|court|rink|\bice\b|arena floor|b[uü]hne|spielfeld|sc[eè]ne|escenario|podium/i;

/** Decodes a layout once. Throws an assertion when its seat numbers do not fit its rows. */
export function createVenueIndex(layout: Layout): VenueIndex {
  const n = layout.seatCount;
  const venue = {
    seatCount: n,
    categories: layout.categories.map((category) => category.name),
    sections: [] as VenueSection[],
    sectionIndex: new Map(layout.sections.map((section, i) => [section.id, i])),
    x: new Float32Array(n),
    y: new Float32Array(n),
    section: new Int16Array(n).fill(-1),
    category: new Int16Array(n).fill(-1),
    quality: new Float32Array(n),
    reserved: new Uint8Array(n),
  };
  const runs: RunList = { seats: [], start: [0], section: [], row: [] };
  const firstRows: [number, number][] = [];
  let rowNo = 0;
  layout.sections.forEach((section, index) => {
    const numbers = seatNumbers(section);
    const runFirst = runs.section.length;
    let at = 0;
    for (const row of section.rows) {
      const seats = numbers.slice(at, at + row.labels.length);
      at += row.labels.length;
      placeRow(venue, row, seats, index);
      pushRuns(runs, venue, row, seats, index, rowNo++);
      if (row === section.rows[0] && seats.length > 0) firstRows.push(centreOf(venue, seats));
    }
    assert(
      section.kind === 'ga' || at === numbers.length,
      `section ${section.id} has a number for each seat`,
    );
    if (section.kind === 'ga') for (const seat of numbers) placeUnit(venue, section, seat, index);
    venue.sections.push({
      id: section.id,
      name: section.name,
      kind: section.kind,
      sellAsUnit: section.sellAsUnit,
      units: section.kind === 'ga' ? section.seats : [],
      category: section.category,
      seats: section.sellAsUnit ? numbers : [],
      runFirst,
      runEnd: runs.section.length,
      ...extentOf(venue, section.kind === 'ga' ? [] : numbers),
    });
  });
  rate(venue, layout, runs, focusOf(layout, firstRows));
  const ordered = orderRuns(venue, runs);
  const bestOf = ({ runFirst, runEnd }: VenueSection) =>
    Math.min(...ordered.runBest.subarray(runFirst, runEnd));
  const sectionOrder = [...venue.sections.keys()].sort(
    (a, b) => bestOf(venue.sections[a]!) - bestOf(venue.sections[b]!) || a - b,
  );
  return { ...venue, ...ordered, sectionOrder };
}

function extentOf(venue: Placed, seats: readonly SeatNo[]): Pick<VenueSection, 'x' | 'y' | 'span'> {
  if (seats.length === 0) return { x: 0, y: 0, span: 0 };
  const [x, y] = centreOf(venue, seats);
  let span = 0;
  for (const seat of seats) span = Math.max(span, Math.hypot(venue.x[seat]! - x, venue.y[seat]! - y));
  return { x, y, span };
}

type Placed = Pick<VenueIndex, 'x' | 'y' | 'section' | 'category' | 'quality' | 'reserved'>;
interface RunList {
  seats: SeatNo[];
  start: number[];
  section: number[];
  row: number[];
}

function seatNumbers(section: LayoutSection): SeatNo[] {
  return section.seats.flatMap(([first, count]) => Array.from({ length: count }, (_, i) => first + i));
}

function placeRow(venue: Placed, row: LayoutRow, seats: SeatNo[], section: number): void {
  let x = 0;
  let y = 0;
  seats.forEach((seat, i) => {
    x += row.x[i]!;
    y += row.y[i]!;
    venue.x[seat] = x;
    venue.y[seat] = y;
    venue.section[seat] = section;
    venue.category[seat] = typeof row.category === 'number' ? row.category : row.category[i]!;
  });
  const { accessible = [], companion = [], 'restricted-view': restricted = [] } = row.attributes ?? {};
  for (const i of [...accessible, ...companion]) venue.reserved[seats[i]!] = 1;
  for (const i of restricted) venue.quality[seats[i]!] = restrictedViewPenalty;
}

function placeUnit(venue: Placed, section: LayoutSection, seat: SeatNo, index: number): void {
  venue.x[seat] = section.center[0];
  venue.y[seat] = section.center[1];
  venue.section[seat] = index;
  venue.category[seat] = section.category;
}

function pushRuns(
  runs: RunList,
  venue: Placed,
  row: LayoutRow,
  seats: SeatNo[],
  section: number,
  rowNo: number,
): void {
  const gaps = seats.slice(1).map((seat, i) => between(venue, seats[i]!, seat));
  const usual = [...gaps].sort((a, b) => a - b)[Math.floor(gaps.length / 2)] ?? 0;
  const breaks = new Set(row.breaks);
  seats.forEach((seat, i) => {
    runs.seats.push(seat);
    const last = i === seats.length - 1;
    if (last || breaks.has(i) || (usual > 0 && gaps[i]! > usual * gapFactor)) {
      runs.start.push(runs.seats.length);
      runs.section.push(section);
      runs.row.push(rowNo);
    }
  });
}

/**
 * The point that the seats look at: decorations that say so. Without one it is the middle of all first rows, which is the pitch
 * where the stands surround it, and the front where they do not.
 */
function focusOf(layout: Layout, firstRows: [number, number][]): [number, number] {
  const stages = layout.decorations.filter(({ label, shape }) =>
    focusLabels.test(`${label} ${shape.kind === 'text' ? shape.text : ''}`),
  );
  const points = stages.length > 0 ? stages.map(({ shape }) => shapeCentre(shape)) : firstRows;
  if (points.length === 0) return [layout.width / 2, layout.height / 2];
  return [mean(points.map((p) => p[0])), mean(points.map((p) => p[1]))];
}

function shapeCentre(shape: AreaShape): [number, number] {
  if (shape.kind === 'ellipse') return [shape.cx, shape.cy];
  if (shape.kind === 'text') return [shape.x, shape.y];
  return [mean(shape.points.map((p) => p[0])), mean(shape.points.map((p) => p[1]))];
}

function rate(venue: Placed, layout: Layout, runs: RunList, focus: [number, number]): void {
  const away = (seat: SeatNo) => Math.hypot(venue.x[seat]! - focus[0], venue.y[seat]! - focus[1]);
  let farthest = 1;
  for (const seat of runs.seats) farthest = Math.max(farthest, away(seat));
  for (const seat of runs.seats) venue.quality[seat]! += away(seat) / farthest;
  for (const section of layout.sections) {
    let at = 0;
    const numbers = seatNumbers(section);
    for (const { labels } of section.rows) {
      const middle = (labels.length - 1) / 2;
      for (let i = 0; i < labels.length; i++) {
        const off = middle === 0 ? 0 : Math.abs(i - middle) / middle;
        venue.quality[numbers[at + i]!]! += rowMiddleWeight * off;
      }
      at += labels.length;
    }
  }
}

function orderRuns(venue: Placed, runs: RunList) {
  const count = runs.section.length;
  const runBest = new Float32Array(count).fill(Number.POSITIVE_INFINITY);
  const runSpan = new Float32Array(count);
  for (let run = 0; run < count; run++) {
    const first = runs.seats[runs.start[run]!]!;
    for (let i = runs.start[run]!; i < runs.start[run + 1]!; i++) {
      const seat = runs.seats[i]!;
      runBest[run] = Math.min(runBest[run]!, venue.quality[seat]!);
      runSpan[run] = Math.max(runSpan[run]!, between(venue, first, seat));
    }
  }
  return {
    runSeats: Int32Array.from(runs.seats),
    runStart: Int32Array.from(runs.start),
    runSection: Int16Array.from(runs.section),
    runRow: Int32Array.from(runs.row),
    runOrder: Int32Array.from(runBest.keys()).sort((a, b) => runBest[a]! - runBest[b]!),
    runBest,
    runSpan,
  };
}

export function centreOf(venue: Pick<VenueIndex, 'x' | 'y'>, seats: readonly SeatNo[]): [number, number] {
  return [mean(seats.map((seat) => venue.x[seat]!)), mean(seats.map((seat) => venue.y[seat]!))];
}

export function between(venue: Pick<VenueIndex, 'x' | 'y'>, a: SeatNo, b: SeatNo): number {
  return Math.hypot(venue.x[a]! - venue.x[b]!, venue.y[a]! - venue.y[b]!);
}

function mean(values: number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
