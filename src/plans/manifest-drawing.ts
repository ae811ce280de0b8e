import { arrangeBlocks, placePoint } from '../core/plan-arrange.ts';
import { gapsInRow, median, orderAlongRow, type Point, rounded } from '../core/plan-geometry.ts';
import type { PlanDecoration, PlanRow, PlanSeat, PlanSection } from '../core/seat-map.ts';
import type { Findings } from './findings.ts';
import type { LooseRow, LooseSeat, LooseSection } from './manifest-rows.ts';

export interface ManifestDrawing {
  sections: PlanSection[];
  decorations: PlanDecoration[];
  width: number;
  height: number;
}

/** Plan units of a drawing that we make ourselves: from seat to seat and from row to row. */
const seatPitch = 25;
const rowPitch = 34;

/**
 * Gives every section its place. Positions of the file are kept where they are positions in the venue; where they only say
 * where a seat lies within its section (every section begins at 1,1), or where there are none, the sections are laid out.
 */
export function drawManifest(
  sections: readonly LooseSection[],
  hasPositions: boolean,
  findings: Findings,
): ManifestDrawing {
  const seated = sections.flatMap((section) => {
    const rows = [...section.rows.values()].flat();
    return rows.length > 0 ? [{ section, rows }] : [];
  });
  const inSection = hasPositions && areWithinSections(seated);
  if (inSection) {
    findings.warn(
      'positions_within_sections',
      'The positions repeat from section to section, so that they count within a section; the sections were laid out side by side.',
      'line 1',
    );
  } else if (!hasPositions) {
    findings.warn(
      'no_positions',
      'The manifest has no positions; a drawing was laid out from the labels. It shows who sits beside whom and is no true map.',
      'line 1',
    );
  }
  const scale = hasPositions ? (inSection ? gridScale(seated) : venueScale(seated, findings)) : null;
  const blocks = seated.map(({ section, rows }) => seatedBlock(section, rows, scale, findings));
  const standing = sections.flatMap((section) =>
    [...section.standing].map(([category, capacity]) => standingBlock(section, category, capacity)),
  );
  return scale && !inSection && blocks.length > 0
    ? kept(blocks, standing)
    : laidOut([...blocks, ...standing]);
}

interface Seated {
  section: LooseSection;
  rows: LooseRow[];
}

interface Scale {
  x: number;
  y: number;
}

/** A section with local coordinates: u along its rows, v from the front backwards, in plan units. */
interface Block {
  section: PlanSection;
  left: number;
  right: number;
  front: number;
  back: number;
}

function areWithinSections(seated: readonly Seated[]): boolean {
  const owners = new Map<string, LooseSection | null>();
  let seats = 0;
  for (const { section, rows } of seated) {
    for (const seat of rows.flatMap((row) => row.seats)) {
      const key = `${seat.x}:${seat.y}`;
      const owner = owners.get(key);
      owners.set(key, owner === undefined || owner === section ? section : null);
      seats += 1;
    }
  }
  let shared = 0;
  for (const { rows } of seated) {
    for (const seat of rows.flatMap((row) => row.seats))
      if (owners.get(`${seat.x}:${seat.y}`) === null) shared += 1;
  }
  return shared > seats * 0.2;
}

/** From grid cells to plan units: the usual smallest step along each axis is one seat, or one row. */
function gridScale(seated: readonly Seated[]): Scale {
  const step = (read: (seat: LooseSeat) => number): number => {
    const steps = seated.flatMap(({ rows }) => {
      const values = [...new Set(rows.flatMap((row) => row.seats.map(read)))].sort((a, b) => a - b);
      return values.slice(1).map((value, i) => value - values[i]!);
    });
    return median(steps) || 1;
  };
  return { x: seatPitch / step((seat) => seat.x), y: rowPitch / step((seat) => seat.y) };
}

/** Positions in metres or in map degrees would be too coarse in tenths of a unit: seats come to lie about 25 units apart. */
function venueScale(seated: readonly Seated[], findings: Findings): Scale {
  const steps: number[] = [];
  for (const row of seated.flatMap(({ rows }) => rows)) {
    for (let i = 1; i < row.seats.length; i++) {
      steps.push(Math.hypot(row.seats[i]!.x - row.seats[i - 1]!.x, row.seats[i]!.y - row.seats[i - 1]!.y));
    }
  }
  const usual = median(steps.filter((step) => step > 0));
  if (usual === 0 || (usual >= 10 && usual <= 100)) return { x: 1, y: 1 };
  findings.warn(
    'rescaled',
    'The positions were enlarged or reduced so that seats lie about 25 units apart.',
    'line 1',
  );
  return { x: seatPitch / usual, y: seatPitch / usual };
}

function seatedBlock(
  from: LooseSection,
  rows: readonly LooseRow[],
  scale: Scale | null,
  findings: Findings,
): Block {
  const planRows = rows.map((row, i) => (scale ? positionedRow(row, scale, findings) : plainRow(row, i)));
  const seats = planRows.flatMap((row) => row.seats);
  // Reduced, not spread: a section may hold more seats than a call takes arguments.
  const least = (values: number[]): number =>
    values.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
  const most = (values: number[]): number =>
    values.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  const xs = seats.map((seat) => seat.x);
  const ys = seats.map((seat) => seat.y);
  const section = { ...emptySection(from), kind: 'seated' as const, rows: planRows };
  return {
    section,
    left: least(xs),
    right: most(xs),
    front: least(ys),
    back: most(ys),
  };
}

function emptySection({ name, group, key }: LooseSection): PlanSection {
  const id = key.includes('/') ? `${group}-${name}` : name;
  return {
    id: group === '' ? name : id,
    name,
    group,
    kind: 'seated',
    sellAsUnit: false,
    rows: [],
    capacity: 0,
    category: '',
    outline: [],
  };
}

function planSeat(seat: LooseSeat, x: number, y: number): PlanSeat {
  const { guid, label, category, attributes, breakAfter } = seat;
  return { seatGuid: guid, label, x: rounded(x), y: rounded(y), category, attributes, breakAfter };
}

/** Seats in the file's order, the row's middle above the section's middle, an aisle as wide as one and a half seats. */
function plainRow(row: LooseRow, index: number): PlanRow {
  let u = 0;
  const at = row.seats.map((seat) => {
    const here = u;
    u += seat.breakAfter ? seatPitch * 2.5 : seatPitch;
    return here;
  });
  const middle = (at.at(-1) ?? 0) / 2;
  return {
    label: row.label,
    seats: row.seats.map((seat, i) => planSeat(seat, at[i]! - middle, index * rowPitch)),
  };
}

function positionedRow(row: LooseRow, scale: Scale, findings: Findings): PlanRow {
  const seats = row.seats.map((seat) => planSeat(seat, seat.x * scale.x, seat.y * scale.y));
  const order = orderAlongRow(seats);
  if (order) {
    findings.warn(
      'row_reordered',
      'Rows whose seats do not stand in order along the row were put in order.',
      `line ${row.seats[0]!.line}`,
    );
  }
  const inOrder = order ? order.map((i) => seats[i]!) : seats;
  gapsInRow(inOrder).forEach((gap, i) => {
    inOrder[i]!.breakAfter = gap;
  });
  return { label: row.label, seats: inOrder };
}

/** About half a seat's ground for everyone who stands, twice as wide as deep. */
function standingBlock(from: LooseSection, category: string, capacity: number): Block {
  const depth = Math.max(120, Math.sqrt((capacity * seatPitch * rowPitch) / 4));
  const several = from.standing.size > 1;
  const section: PlanSection = {
    ...emptySection(from),
    kind: 'ga',
    name: several ? `${from.name} ${category}` : from.name,
    capacity,
    category,
    outline: [
      [-depth, 0],
      [depth, 0],
      [depth, depth],
      [-depth, depth],
    ],
  };
  return { section, left: -depth, right: depth, front: 0, back: depth };
}

/** The file's own positions, moved to begin at the margin; standing areas, which have none, come in a line below. */
function kept(blocks: readonly Block[], standing: readonly Block[]): ManifestDrawing {
  const margin = 30;
  const dx = margin - Math.min(...blocks.map((block) => block.left));
  const dy = margin - Math.min(...blocks.map((block) => block.front));
  for (const row of blocks.flatMap((block) => block.section.rows)) {
    for (const seat of row.seats) {
      seat.x = rounded(seat.x + dx);
      seat.y = rounded(seat.y + dy);
    }
  }
  let right = Math.max(...blocks.map((block) => block.right)) + dx;
  let bottom = Math.max(...blocks.map((block) => block.back)) + dy;
  const y = bottom + 4 * margin;
  let x = margin;
  const below = standing.map(({ section, left, right: end, back }): PlanSection => {
    const from = x - left;
    x += end - left + 2 * margin;
    right = Math.max(right, x - 2 * margin);
    bottom = Math.max(bottom, y + back);
    return {
      ...section,
      outline: section.outline.map(([u, v]): Point => [rounded(from + u), rounded(y + v)]),
    };
  });
  return {
    sections: [...blocks.map((block) => block.section), ...below],
    decorations: [],
    width: Math.ceil(right + margin),
    height: Math.ceil(bottom + margin),
  };
}

function laidOut(blocks: readonly Block[]): ManifestDrawing {
  const { places, decorations, width, height } = arrangeBlocks(
    blocks.map((block) => ({
      name: block.section.name,
      group: block.section.group,
      width: block.right - block.left + seatPitch,
      depth: block.back - block.front + rowPitch,
    })),
  );
  const sections = blocks.map((block, i): PlanSection => {
    const middle = (block.left + block.right) / 2;
    const put = (x: number, y: number): Point => {
      const [px, py] = placePoint(places[i]!, x - middle, y - block.front + rowPitch / 2);
      return [rounded(px), rounded(py)];
    };
    for (const row of block.section.rows) {
      for (const seat of row.seats) [seat.x, seat.y] = put(seat.x, seat.y);
    }
    return { ...block.section, outline: block.section.outline.map(([x, y]) => put(x, y)) };
  });
  return { sections, decorations, width, height };
}
