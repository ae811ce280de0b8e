/** Plane geometry of rows and sections. Points are in plan units, y grows downwards. */

export type Point = [x: number, y: number];

interface Spot {
  x: number;
  y: number;
}

/** Positions are kept to a thousandth of a unit, so that sums of a file's parts come out the same at each import. */
export function rounded(value: number): number {
  return Math.round(value * 1000) / 1000 + 0;
}

/** A step wider than this many usual steps is an aisle or a gap. */
const gapFactor = 1.6;

/**
 * After which seats of a row a gap lies, told from the distances alone: true where the step to the next seat is clearly
 * wider than the row's usual step. The last seat is never followed by a gap.
 */
export function gapsInRow(seats: readonly Spot[]): boolean[] {
  const steps = rowSteps(seats);
  const usual = median(steps.filter((step) => step > 0));
  return seats.map((_, i) => i < steps.length && usual > 0 && steps[i]! > usual * gapFactor);
}

function rowSteps(seats: readonly Spot[]): number[] {
  const steps: number[] = [];
  for (let i = 1; i < seats.length; i++) {
    steps.push(Math.hypot(seats[i]!.x - seats[i - 1]!.x, seats[i]!.y - seats[i - 1]!.y));
  }
  return steps;
}

/** The middle value; 0 of an empty list. */
export function median(values: readonly number[]): number {
  if (values.length === 0) return 0;
  return [...values].sort((a, b) => a - b)[values.length >> 1]!;
}

/**
 * Returns the order of a row's seats along the row. The order of the file is kept if walking it is about as short as walking
 * the seats along the row's long axis. Otherwise (odd numbers first, then even ones) the axis decides. Returns null if the
 * file's order is kept.
 */
export function orderAlongRow(seats: readonly Spot[]): number[] | null {
  if (seats.length < 3) return null;
  const asGiven = rowSteps(seats).reduce((a, b) => a + b, 0);
  const first = seats[0]!;
  const last = seats[seats.length - 1]!;
  const chord = Math.hypot(last.x - first.x, last.y - first.y);
  if (asGiven <= chord * 1.3) return null;
  const [ax, ay] = longAxis(seats);
  // The axis may point either way. It is turned so that the first half of the file comes first.
  const along = seats.map((seat) => seat.x * ax + seat.y * ay);
  const half = seats.length >> 1;
  const sum = (from: number, to: number) => along.slice(from, to).reduce((a, b) => a + b, 0) / (to - from);
  const sign = sum(0, half) <= sum(half, seats.length) ? 1 : -1;
  const order = seats.map((_, i) => i).sort((a, b) => sign * (along[a]! - along[b]!) || a - b);
  const sorted = rowSteps(order.map((i) => seats[i]!)).reduce((a, b) => a + b, 0);
  return sorted < asGiven * 0.8 ? order : null;
}

function longAxis(seats: readonly Spot[]): Point {
  const mx = seats.reduce((a, s) => a + s.x, 0) / seats.length;
  const my = seats.reduce((a, s) => a + s.y, 0) / seats.length;
  let xx = 0;
  let xy = 0;
  let yy = 0;
  for (const s of seats) {
    xx += (s.x - mx) ** 2;
    xy += (s.x - mx) * (s.y - my);
    yy += (s.y - my) ** 2;
  }
  const angle = 0.5 * Math.atan2(2 * xy, xx - yy);
  return [Math.cos(angle), Math.sin(angle)];
}

/** Convex hull, counted around once; fewer than three distinct points come back as they are. */
export function convexHull(points: readonly Point[]): Point[] {
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const half = (list: readonly Point[]): Point[] => {
    const chain: Point[] = [];
    for (const p of list) {
      while (chain.length >= 2 && turn(chain[chain.length - 2]!, chain[chain.length - 1]!, p) <= 0)
        chain.pop();
      chain.push(p);
    }
    chain.pop();
    return chain;
  };
  const hull = [...half(sorted), ...half([...sorted].reverse())];
  return hull.length > 0 ? hull : sorted.slice(0, 1);
}

function turn(a: Point, b: Point, c: Point): number {
  return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
}

export function insidePolygon(x: number, y: number, polygon: readonly Point[]): boolean {
  let inside = false;
  for (let i = 0, j = polygon.length - 1; i < polygon.length; j = i++) {
    const [xi, yi] = polygon[i]!;
    const [xj, yj] = polygon[j]!;
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) inside = !inside;
  }
  return inside;
}

/** A section whose edge needs more corners than this is drawn as its hull. */
const outlinePointsMax = 200;

/**
 * Outline of a section, `margin` units outside its outermost seats. It follows the rows, so that a curved block gets a
 * curved outline that does not cover the pitch; where rows are too irregular for that, it is the convex hull.
 */
export function outlineOfRows(rows: readonly (readonly Spot[])[], margin: number): Point[] {
  const filled = rows.filter((row) => row.length > 0);
  const all: Point[] = filled.flatMap((row) => row.map((s): Point => [s.x, s.y]));
  if (all.length === 0) return [];
  if (filled.length >= 2) {
    const outline = widen(thinned(rowPath(filled), margin * 0.3), margin);
    if (
      outline.length <= outlinePointsMax &&
      isSimple(outline) &&
      all.every(([x, y]) => insidePolygon(x, y, outline))
    )
      return outline;
  }
  return hullAround(all, margin);
}

/** Along the first row, down the ends of the rows, back along the last row, up their starts. */
function rowPath(rows: readonly (readonly Spot[])[]): Point[] {
  const lines = rows.map((row) => row.map((s): Point => [s.x, s.y]));
  const head = lines[0]!;
  for (let i = 1; i < lines.length; i++) {
    const line = lines[i]!;
    const before = lines[i - 1]!;
    const straight = apart(before[0]!, line[0]!) + apart(before.at(-1)!, line.at(-1)!);
    const crossed = apart(before[0]!, line.at(-1)!) + apart(before.at(-1)!, line[0]!);
    if (crossed < straight) line.reverse();
  }
  const tail = lines.at(-1)!;
  const middle = lines.slice(1, -1);
  return [
    ...head,
    ...middle.map((line) => line.at(-1)!),
    ...[...tail].reverse(),
    ...middle.map((line) => line[0]!).reverse(),
  ];
}

function apart(a: Point, b: Point): number {
  return Math.hypot(a[0] - b[0], a[1] - b[1]);
}

/** Douglas and Peucker's thinning of a closed path: no dropped point lay farther than `tolerance` from what is kept. */
function thinned(path: readonly Point[], tolerance: number): Point[] {
  if (path.length < 4) return [...path];
  let far = 0;
  for (let i = 1; i < path.length; i++) if (apart(path[0]!, path[i]!) > apart(path[0]!, path[far]!)) far = i;
  const one = thinnedLine(path.slice(0, far + 1), tolerance);
  const two = thinnedLine([...path.slice(far), path[0]!], tolerance);
  return [...one.slice(0, -1), ...two.slice(0, -1)];
}

function thinnedLine(line: readonly Point[], tolerance: number): Point[] {
  const keep = new Uint8Array(line.length);
  keep[0] = 1;
  keep[line.length - 1] = 1;
  const spans: [number, number][] = [[0, line.length - 1]];
  for (let span = spans.pop(); span; span = spans.pop()) {
    const [from, to] = span;
    let far = -1;
    let most = tolerance;
    for (let i = from + 1; i < to; i++) {
      const distance = fromSegment(line[i]!, line[from]!, line[to]!);
      if (distance > most) {
        most = distance;
        far = i;
      }
    }
    if (far < 0) continue;
    keep[far] = 1;
    spans.push([from, far], [far, to]);
  }
  return line.filter((_, i) => keep[i] === 1);
}

function fromSegment(p: Point, a: Point, b: Point): number {
  const dx = b[0] - a[0];
  const dy = b[1] - a[1];
  const length = dx * dx + dy * dy;
  const t = length === 0 ? 0 : Math.max(0, Math.min(1, ((p[0] - a[0]) * dx + (p[1] - a[1]) * dy) / length));
  return Math.hypot(p[0] - a[0] - t * dx, p[1] - a[1] - t * dy);
}

/** Moves every edge outwards by `margin`; sharp corners are cut at twice the margin. */
function widen(polygon: readonly Point[], margin: number): Point[] {
  const ring = polygon.filter((p, i) => apart(p, polygon[(i + 1) % polygon.length]!) > 1e-6);
  if (ring.length < 3) return ring;
  let area = 0;
  ring.forEach((p, i) => {
    const q = ring[(i + 1) % ring.length]!;
    area += p[0] * q[1] - q[0] * p[1];
  });
  const outwards = area > 0 ? 1 : -1;
  return ring.map((p, i) => {
    const before = unit(ring[(i + ring.length - 1) % ring.length]!, p);
    const after = unit(p, ring[(i + 1) % ring.length]!);
    const nx = (before[1] + after[1]) * outwards;
    const ny = -(before[0] + after[0]) * outwards;
    const squared = nx * nx + ny * ny;
    const scale = squared < 1e-9 ? 0 : Math.min((2 * margin) / squared, (2 * margin) / Math.sqrt(squared));
    return [p[0] + nx * scale, p[1] + ny * scale];
  });
}

function unit(a: Point, b: Point): Point {
  const length = apart(a, b) || 1;
  return [(b[0] - a[0]) / length, (b[1] - a[1]) / length];
}

function isSimple(polygon: readonly Point[]): boolean {
  const n = polygon.length;
  if (n < 3) return false;
  for (let i = 0; i < n; i++) {
    for (let j = i + 2; j < n; j++) {
      if (i === 0 && j === n - 1) continue;
      if (crosses(polygon[i]!, polygon[(i + 1) % n]!, polygon[j]!, polygon[(j + 1) % n]!)) return false;
    }
  }
  return true;
}

function crosses(a: Point, b: Point, c: Point, d: Point): boolean {
  return turn(a, b, c) * turn(a, b, d) < 0 && turn(c, d, a) * turn(c, d, b) < 0;
}

/** Hull of the four corners around each point: also a single seat or a straight row gets an area. */
function hullAround(points: readonly Point[], margin: number): Point[] {
  const m = margin;
  return convexHull(
    convexHull(points).flatMap(([x, y]): Point[] => [
      [x - m, y - m],
      [x + m, y - m],
      [x + m, y + m],
      [x - m, y + m],
    ]),
  );
}
