import { assert } from './outcome.ts';
import { insidePolygon, median, outlineOfRows, type Point } from './plan-geometry.ts';
import type {
  AreaShape,
  Layout,
  LayoutRow,
  LayoutSection,
  PlanRow,
  PlanSeat,
  PlanSection,
  SeatAttribute,
  SeatFacts,
  SeatingPlan,
  SeatNo,
} from './seat-map.ts';
import { seatAttributes } from './seat-map.ts';

/** Identity of one unit of a general-admission area. */
export function gaSeatGuid(sectionId: string, index: number): string {
  return `${sectionId}#${index}`;
}

/** All seatGuids in plan order: sections, then rows, then seats; a GA section's units in its place. */
export function planSeatGuids(plan: SeatingPlan): string[] {
  const guids: string[] = [];
  for (const section of plan.sections) pushSectionGuids(section, guids);
  return guids;
}

function pushSectionGuids(section: PlanSection, into: string[]): void {
  for (const row of section.rows) for (const seat of row.seats) into.push(seat.seatGuid);
  if (section.kind === 'ga') for (let i = 0; i < section.capacity; i++) into.push(gaSeatGuid(section.id, i));
}

/**
 * seat_no for every seat of the plan. A number is never reassigned: seats known from `previous` keep theirs, seats that
 * the plan no longer has keep theirs too (they stay as blocked), and new ones are appended in plan order.
 */
export function assignSeatNos(
  previous: ReadonlyMap<string, SeatNo> | null,
  plan: SeatingPlan,
): Map<string, SeatNo> {
  const numbers = new Map<string, SeatNo>(previous ?? []);
  let next = 0;
  for (const no of numbers.values()) if (no >= next) next = no + 1;
  for (const guid of planSeatGuids(plan)) {
    if (!numbers.has(guid)) numbers.set(guid, next++);
  }
  return numbers;
}

/**
 * Returns the seats that a new version of a plan removes, adds and keeps, by seatGuid, in the order of the plan that has the
 * seat.
 */
export function planDiff(
  oldPlan: SeatingPlan,
  newPlan: SeatingPlan,
): { removed: string[]; added: string[]; kept: string[] } {
  const before = planSeatGuids(oldPlan);
  const after = planSeatGuids(newPlan);
  const had = new Set(before);
  const has = new Set(after);
  return {
    removed: before.filter((guid) => !has.has(guid)),
    added: after.filter((guid) => !had.has(guid)),
    kept: after.filter((guid) => had.has(guid)),
  };
}

/**
 * Facts of every seat in the plan, in plan order. Without `seatNos` (a first version) seat_no is the index in the answer.
 * A GA unit has empty row and label: there is nothing printed on it.
 */
export function planSeats(plan: SeatingPlan, seatNos?: ReadonlyMap<string, SeatNo>): SeatFacts[] {
  const facts: SeatFacts[] = [];
  const add = (
    seatGuid: string,
    section: PlanSection,
    row: string,
    label: string,
    category: string,
  ): void => {
    const seatNo = seatNos ? seatNos.get(seatGuid) : facts.length;
    assert(seatNo !== undefined, `seat ${seatGuid} has a number`);
    facts.push({ seatNo, seatGuid, sectionId: section.id, row, label, category });
  };
  for (const section of plan.sections) {
    for (const row of section.rows) {
      for (const seat of row.seats) add(seat.seatGuid, section, row.label, seat.label, seat.category);
    }
    if (section.kind !== 'ga') continue;
    for (let i = 0; i < section.capacity; i++) {
      add(gaSeatGuid(section.id, i), section, '', '', section.category);
    }
  }
  return facts;
}

/**
 * The drawing for the browser. `seatNos` as `assignSeatNos` gave them; `seatCount` is one above the highest of them, so
 * that it also is the length of the availability bitset. The drawing is moved so that it starts at (0, 0) when the plan's
 * seats reach outside the size that its file states.
 */
export function planLayout(plan: SeatingPlan, seatNos: ReadonlyMap<string, SeatNo>): Layout {
  const frame = frameOf(plan);
  const px = (x: number): number => Math.round((x - frame.left) * 10);
  const py = (y: number): number => Math.round((y - frame.top) * 10);
  const categoryIndex = new Map(plan.categories.map((category, i) => [category.name, i]));
  let seatCount = 0;
  for (const no of seatNos.values()) if (no >= seatCount) seatCount = no + 1;
  return {
    v: 1,
    name: plan.name,
    width: Math.round(frame.width * 10),
    height: Math.round(frame.height * 10),
    seatCount,
    categories: plan.categories.map(({ name, color }) => ({ name, color })),
    sections: plan.sections.map((section) => layoutSection(section, seatNos, categoryIndex, px, py)),
    decorations: plan.decorations.map(({ shape, color, borderColor, label }) => ({
      shape: scaledShape(shape, px, py),
      color,
      borderColor,
      label,
    })),
  };
}

type Scale = (value: number) => number;

function layoutSection(
  section: PlanSection,
  seatNos: ReadonlyMap<string, SeatNo>,
  categoryIndex: ReadonlyMap<string, number>,
  px: Scale,
  py: Scale,
): LayoutSection {
  const guids: string[] = [];
  pushSectionGuids(section, guids);
  const outline =
    section.kind === 'ga'
      ? section.outline
      : outlineOfRows(
          section.rows.map((row) => row.seats),
          outlineMargin(section),
        );
  const [cx, cy] = centerOf(section, outline);
  return {
    id: section.id,
    name: section.name,
    group: section.group,
    kind: section.kind,
    sellAsUnit: section.sellAsUnit,
    seats: ranges(guids, seatNos),
    outline: outline.map(([x, y]): Point => [px(x), py(y)]),
    center: [px(cx), py(cy)],
    rows: section.rows.map((row) => layoutRow(row, categoryIndex, px, py)),
    category: section.kind === 'ga' ? (categoryIndex.get(section.category) ?? -1) : -1,
  };
}

function ranges(guids: readonly string[], seatNos: ReadonlyMap<string, SeatNo>): [SeatNo, number][] {
  const out: [SeatNo, number][] = [];
  for (const guid of guids) {
    const no = seatNos.get(guid);
    assert(no !== undefined, `seat ${guid} has a number`);
    const last = out.at(-1);
    if (last && last[0] + last[1] === no) last[1] += 1;
    else out.push([no, 1]);
  }
  return out;
}

function layoutRow(
  row: PlanRow,
  categoryIndex: ReadonlyMap<string, number>,
  px: Scale,
  py: Scale,
): LayoutRow {
  const categories = row.seats.map((seat) => categoryIndex.get(seat.category) ?? -1);
  const one = categories.every((category) => category === categories[0]);
  const attributes: Partial<Record<SeatAttribute, number[]>> = {};
  for (const attribute of seatAttributes) {
    const at = indicesOf(row.seats, (seat) => seat.attributes.includes(attribute));
    if (at.length > 0) attributes[attribute] = at;
  }
  return {
    label: row.label,
    labels: row.seats.map((seat) => seat.label),
    x: deltas(row.seats.map((seat) => px(seat.x))),
    y: deltas(row.seats.map((seat) => py(seat.y))),
    category: one ? (categories[0] ?? -1) : categories,
    breaks: indicesOf(row.seats, (seat) => seat.breakAfter),
    ...(Object.keys(attributes).length > 0 ? { attributes } : {}),
  };
}

function indicesOf(seats: readonly PlanSeat[], holds: (seat: PlanSeat) => boolean): number[] {
  return seats.flatMap((seat, i) => (holds(seat) ? [i] : []));
}

function deltas(values: readonly number[]): number[] {
  return values.map((value, i) => (i === 0 ? value : value - values[i - 1]!));
}

/** One row as plain columns: positions in tenths of a plan unit, category indices, all per seat in row order. */
export interface DecodedRow {
  x: number[];
  y: number[];
  category: number[];
}

/** Undoes the delta coding of a layout row. */
export function decodeRow(row: LayoutRow): DecodedRow {
  return {
    x: sums(row.x),
    y: sums(row.y),
    category:
      typeof row.category === 'number' ? row.labels.map(() => row.category as number) : [...row.category],
  };
}

function sums(values: readonly number[]): number[] {
  let total = 0;
  return values.map((value) => {
    total += value;
    return total;
  });
}

/** Half of the usual seat distance, within reason: what an outline keeps free around the outermost seats. */
function outlineMargin(section: PlanSection): number {
  const steps: number[] = [];
  for (const row of section.rows) {
    for (let i = 1; i < row.seats.length && steps.length < 200; i++) {
      steps.push(Math.hypot(row.seats[i]!.x - row.seats[i - 1]!.x, row.seats[i]!.y - row.seats[i - 1]!.y));
    }
  }
  const usual = median(steps.filter((step) => step > 0)) || 20;
  return Math.min(usual * 0.6, 40);
}

/** The middle of the seats; where that lies outside (a horseshoe), the seat nearest to it. */
function centerOf(section: PlanSection, outline: readonly Point[]): Point {
  const seats = section.rows.flatMap((row) => row.seats);
  const points: Point[] = seats.length > 0 ? seats.map((s): Point => [s.x, s.y]) : [...outline];
  if (points.length === 0) return [0, 0];
  const x = points.reduce((a, p) => a + p[0], 0) / points.length;
  const y = points.reduce((a, p) => a + p[1], 0) / points.length;
  if (seats.length === 0 || insidePolygon(x, y, outline)) return [x, y];
  let best = points[0]!;
  for (const p of points) if (Math.hypot(p[0] - x, p[1] - y) < Math.hypot(best[0] - x, best[1] - y)) best = p;
  return best;
}

/** The stated size when every seat and GA outline lies in it; otherwise the box around them, with a margin. */
function frameOf(plan: SeatingPlan): { left: number; top: number; width: number; height: number } {
  const box = planBounds(plan);
  const fits = box && box.left >= 0 && box.top >= 0 && box.right <= plan.width && box.bottom <= plan.height;
  if (!box || fits)
    return { left: 0, top: 0, width: Math.max(plan.width, 1), height: Math.max(plan.height, 1) };
  const margin = 30;
  return {
    left: box.left - margin,
    top: box.top - margin,
    width: box.right - box.left + 2 * margin,
    height: box.bottom - box.top + 2 * margin,
  };
}

export interface PlanBounds {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

/** Box around all seats and GA outlines in plan units; null for a plan without any. */
export function planBounds(plan: SeatingPlan): PlanBounds | null {
  let box: PlanBounds | null = null;
  const take = (x: number, y: number): void => {
    if (!box) box = { left: x, top: y, right: x, bottom: y };
    if (x < box.left) box.left = x;
    if (x > box.right) box.right = x;
    if (y < box.top) box.top = y;
    if (y > box.bottom) box.bottom = y;
  };
  for (const section of plan.sections) {
    for (const row of section.rows) for (const seat of row.seats) take(seat.x, seat.y);
    for (const [x, y] of section.outline) take(x, y);
  }
  return box;
}

function scaledShape(shape: AreaShape, px: Scale, py: Scale): AreaShape {
  if (shape.kind === 'polygon') {
    return { kind: 'polygon', points: shape.points.map(([x, y]): Point => [px(x), py(y)]) };
  }
  if (shape.kind === 'ellipse') {
    const { cx, cy, rx, ry, rotation } = shape;
    return {
      kind: 'ellipse',
      cx: px(cx),
      cy: py(cy),
      rx: Math.round(rx * 10),
      ry: Math.round(ry * 10),
      rotation,
    };
  }
  return {
    kind: 'text',
    x: px(shape.x),
    y: py(shape.y),
    size: Math.round(shape.size * 10),
    text: shape.text,
  };
}
