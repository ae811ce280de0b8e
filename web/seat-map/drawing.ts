import { decodeRow } from '../../src/core/plan-layout.ts';
import type { Layout, LayoutSection, PlanDecoration, SeatAttribute } from '../../src/core/seat-map.ts';

/** The layout unpacked for drawing and hit tests: plain columns per section, in the order of its availability bits. */
export interface Drawing {
  width: number;
  height: number;
  seatCount: number;
  categories: { name: string; color: string }[];
  sections: DrawnSection[];
  decorations: PlanDecoration[];
  /** Shapes whose label is written: not where the plan writes it itself, not under another shape. */
  labelled: Set<PlanDecoration>;
  /** The sections' common box: what the whole venue is fitted to. */
  box: Box;
  /** Section index and place within it, by seat_no; -1 for numbers that the plan no longer has. */
  sectionOf: Int32Array;
  placeOf: Int32Array;
}

export interface DrawnSection {
  index: number;
  id: string;
  name: string;
  group: string;
  kind: 'seated' | 'ga';
  sellAsUnit: boolean;
  seatNos: Int32Array;
  x: Float32Array;
  y: Float32Array;
  category: Int16Array;
  /** Bit set of `flagOf`. */
  flags: Uint8Array;
  rowOf: Int16Array;
  labels: string[];
  rows: { label: string; first: number; count: number }[];
  outline: [number, number][];
  box: Box;
  center: [number, number];
  /** Distance from the center to the outline: what a label may fill. */
  room: number;
  /** Usual distance between neighbours. */
  pitch: number;
  mainCategory: number;
}

export interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export const flagOf: Record<SeatAttribute, number> = { accessible: 1, companion: 2, 'restricted-view': 4 };

export function attributesOf(flags: number): SeatAttribute[] {
  return (Object.keys(flagOf) as SeatAttribute[]).filter((name) => (flags & flagOf[name]) !== 0);
}

export function unpack(layout: Layout): Drawing {
  const sectionOf = new Int32Array(layout.seatCount).fill(-1);
  const placeOf = new Int32Array(layout.seatCount).fill(-1);
  const sections = layout.sections.map((section, index) => unpackSection(section, index));
  for (const section of sections) {
    section.seatNos.forEach((seat, place) => {
      sectionOf[seat] = section.index;
      placeOf[seat] = place;
    });
  }
  const { width, height, seatCount, categories, decorations } = layout;
  const box = boxOf(
    sections.flatMap(({ box: b }): [number, number][] => [
      [b.left, b.top],
      [b.right, b.bottom],
    ]),
  );
  return {
    width,
    height,
    seatCount,
    categories,
    sections,
    decorations,
    labelled: labelledOf(decorations),
    box,
    sectionOf,
    placeOf,
  };
}

function labelledOf(decorations: PlanDecoration[]): Set<PlanDecoration> {
  const written = new Set(decorations.map(({ shape }) => (shape.kind === 'text' ? shape.text : '')));
  return new Set(
    decorations.filter((one, i) => {
      if (!one.label || written.has(one.label)) return false;
      const middle = middleOf(one);
      const covers = ({ shape }: PlanDecoration) =>
        shape.kind === 'polygon' && middle !== null && insideOutline(middle[0], middle[1], shape.points);
      return middle !== null && !decorations.slice(i + 1).some(covers);
    }),
  );
}

/** Where a shape's label goes; null for texts, which have their own place. */
export function middleOf({ shape }: PlanDecoration): [number, number] | null {
  if (shape.kind === 'ellipse') return [shape.cx, shape.cy];
  if (shape.kind !== 'polygon' || shape.points.length === 0) return null;
  const n = shape.points.length;
  return [shape.points.reduce((a, p) => a + p[0], 0) / n, shape.points.reduce((a, p) => a + p[1], 0) / n];
}

function unpackSection(section: LayoutSection, index: number): DrawnSection {
  const count = section.seats.reduce((sum, [, n]) => sum + n, 0);
  const drawn: DrawnSection = {
    index,
    id: section.id,
    name: section.name || section.id,
    group: section.group,
    kind: section.kind,
    sellAsUnit: section.sellAsUnit,
    seatNos: new Int32Array(count),
    x: new Float32Array(count),
    y: new Float32Array(count),
    category: new Int16Array(count).fill(section.category),
    flags: new Uint8Array(count),
    rowOf: new Int16Array(count),
    labels: [],
    rows: [],
    outline: section.outline,
    box: boxOf(section.outline),
    center: section.center,
    room: roomAround(section.center, section.outline),
    pitch: 200,
    mainCategory: section.category,
  };
  let at = 0;
  for (const [first, n] of section.seats) for (let i = 0; i < n; i++) drawn.seatNos[at++] = first + i;
  if (section.kind === 'ga') {
    drawn.x.fill(section.center[0]);
    drawn.y.fill(section.center[1]);
    return drawn;
  }
  unpackRows(section, drawn);
  drawn.pitch = pitchOf(drawn);
  drawn.mainCategory = mostCommon(drawn.category);
  drawn.box = boxAround(drawn);
  return drawn;
}

function unpackRows(section: LayoutSection, drawn: DrawnSection): void {
  let at = 0;
  section.rows.forEach((row, rowIndex) => {
    const { x, y, category } = decodeRow(row);
    drawn.rows.push({ label: row.label, first: at, count: row.labels.length });
    for (const [name, indices] of Object.entries(row.attributes ?? {})) {
      for (const i of indices) drawn.flags[at + i]! |= flagOf[name as SeatAttribute] ?? 0;
    }
    row.labels.forEach((label, i) => {
      drawn.labels.push(label);
      drawn.x[at] = x[i] ?? 0;
      drawn.y[at] = y[i] ?? 0;
      drawn.category[at] = category[i] ?? -1;
      drawn.rowOf[at] = rowIndex;
      at++;
    });
  });
}

function pitchOf(section: DrawnSection): number {
  const steps: number[] = [];
  for (const row of section.rows) {
    for (let i = row.first + 1; i < row.first + row.count && steps.length < 100; i++) {
      const step = Math.hypot(section.x[i]! - section.x[i - 1]!, section.y[i]! - section.y[i - 1]!);
      if (step > 0) steps.push(step);
    }
  }
  steps.sort((a, b) => a - b);
  return steps[steps.length >> 1] ?? 200;
}

function mostCommon(values: Int16Array): number {
  const counts = new Map<number, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  let best = -1;
  for (const [value, n] of counts) if (best === -1 || n > counts.get(best)!) best = value;
  return best;
}

/** Shortest distance from a point to the outline's edges. */
function roomAround([x, y]: [number, number], outline: readonly [number, number][]): number {
  let room = Number.POSITIVE_INFINITY;
  outline.forEach(([bx, by], i) => {
    const [ax, ay] = outline[(i + outline.length - 1) % outline.length]!;
    const length = (bx - ax) ** 2 + (by - ay) ** 2;
    const t =
      length === 0 ? 0 : Math.min(1, Math.max(0, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length));
    room = Math.min(room, Math.hypot(ax + t * (bx - ax) - x, ay + t * (by - ay) - y));
  });
  return Number.isFinite(room) ? room : 0;
}

function boxOf(points: readonly [number, number][]): Box {
  const box: Box = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
  for (const [x, y] of points) widen(box, x, y);
  return points.length > 0 ? box : { left: 0, top: 0, right: 1, bottom: 1 };
}

function boxAround(section: DrawnSection): Box {
  const box = { ...section.box };
  for (let i = 0; i < section.x.length; i++) widen(box, section.x[i]!, section.y[i]!);
  return box;
}

function widen(box: Box, x: number, y: number): void {
  box.left = Math.min(box.left, x);
  box.right = Math.max(box.right, x);
  box.top = Math.min(box.top, y);
  box.bottom = Math.max(box.bottom, y);
}

export function insideOutline(x: number, y: number, outline: readonly [number, number][]): boolean {
  let inside = false;
  for (let i = 0, j = outline.length - 1; i < outline.length; j = i++) {
    const [ax, ay] = outline[i]!;
    const [bx, by] = outline[j]!;
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) inside = !inside;
  }
  return inside;
}

/** The section at a point. Null outside all sections. */
export function sectionAt(drawing: Drawing, x: number, y: number): DrawnSection | null {
  for (let i = drawing.sections.length - 1; i >= 0; i--) {
    const section = drawing.sections[i]!;
    const { box } = section;
    if (x < box.left || x > box.right || y < box.top || y > box.bottom) continue;
    if (insideOutline(x, y, section.outline)) return section;
  }
  return null;
}

/** Place of the seat nearest to a point, at most `reach` away; -1 when there is none. */
export function seatAt(section: DrawnSection, x: number, y: number, reach: number): number {
  let best = -1;
  let bestDistance = reach * reach;
  for (let i = 0; i < section.x.length; i++) {
    const dx = section.x[i]! - x;
    const dy = section.y[i]! - y;
    const distance = dx * dx + dy * dy;
    if (distance < bestDistance) {
      bestDistance = distance;
      best = i;
    }
  }
  return best;
}

export interface SeatWords {
  section: string;
  row: string;
  number: string;
}

export function wordsOf(drawing: Drawing, seat: number): SeatWords {
  const section = drawing.sections[drawing.sectionOf[seat] ?? -1];
  const place = drawing.placeOf[seat] ?? -1;
  if (!section || place < 0) return { section: '', row: '', number: '' };
  return {
    section: section.name,
    row: section.rows[section.rowOf[place]!]?.label ?? '',
    number: section.labels[place] ?? '',
  };
}
