/**
 * The bowl's ground plan. The front row stands on a superellipse around the pitch (exponent 3: flat sides, round
 * corners); every further row is the curve parallel to it, `depth` metres outwards, so that rows are evenly apart
 * everywhere. y grows downwards; the walk begins at the middle of the south side and runs by way of the west.
 */
export interface StadiumCurve {
  /** Points at equal distances along the part of the row between two fractions of the way round. */
  row(
    depth: number,
    from: number,
    to: number,
    seatPitch: number,
    margins: [start: number, end: number],
  ): [number, number][];
  /** Any line along the row, for outlines: `count` + 1 points. */
  line(depth: number, from: number, to: number, count: number): [number, number][];
}

const exponent = 3;
const samples = 2880;

/** `halfLength` and `halfWidth` in metres, measured from the centre of the pitch to the front row. */
export function createStadiumCurve(halfLength: number, halfWidth: number): StadiumCurve {
  const base = evenlySpaced(halfLength, halfWidth);
  const normals = base.map(([x, y]): [number, number] => {
    const nx = (Math.sign(x) * Math.abs(x) ** (exponent - 1)) / halfLength ** exponent;
    const ny = (Math.sign(y) * Math.abs(y) ** (exponent - 1)) / halfWidth ** exponent;
    const length = Math.hypot(nx, ny);
    return [nx / length, ny / length];
  });
  const rings = new Map<number, { points: [number, number][]; way: number[] }>();

  const ring = (depth: number) => {
    const known = rings.get(depth);
    if (known) return known;
    const points = Array.from({ length: samples + 1 }, (_, i): [number, number] => {
      const at = i % samples;
      return [base[at]![0] + depth * normals[at]![0], base[at]![1] + depth * normals[at]![1]];
    });
    const way = [0];
    for (let i = 1; i <= samples; i++) {
      way.push(
        way[i - 1]! + Math.hypot(points[i]![0] - points[i - 1]![0], points[i]![1] - points[i - 1]![1]),
      );
    }
    const created = { points, way };
    rings.set(depth, created);
    return created;
  };

  const pointAt = (depth: number, distance: number): [number, number] => {
    const { points, way } = ring(depth);
    const total = way[samples]!;
    const d = ((distance % total) + total) % total;
    let low = 0;
    let high = samples;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (way[middle]! <= d) low = middle;
      else high = middle;
    }
    const t = (d - way[low]!) / (way[high]! - way[low]! || 1);
    const [ax, ay] = points[low]!;
    const [bx, by] = points[high]!;
    return [ax + (bx - ax) * t, ay + (by - ay) * t];
  };

  /** Distance along the ring of a fraction of the base curve, so that aisles run straight outwards. */
  const distanceAt = (depth: number, fraction: number): number => {
    const { way } = ring(depth);
    const turns = Math.floor(fraction);
    const at = (fraction - turns) * samples;
    const low = Math.floor(at);
    const part = way[low]! + ((way[low + 1] ?? way[samples]!) - way[low]!) * (at - low);
    return turns * way[samples]! + part;
  };

  return {
    row(depth, from, to, seatPitch, [start, end]) {
      const a = distanceAt(depth, from) + start;
      const b = distanceAt(depth, to) - end;
      const count = Math.max(0, Math.floor((b - a) / seatPitch));
      const first = (a + b) / 2 - ((count - 1) * seatPitch) / 2;
      return Array.from({ length: count }, (_, i) => pointAt(depth, first + i * seatPitch));
    },
    line(depth, from, to, count) {
      const a = distanceAt(depth, from);
      const b = distanceAt(depth, to);
      return Array.from({ length: count + 1 }, (_, i) => pointAt(depth, a + ((b - a) * i) / count));
    },
  };
}

function evenlySpaced(halfLength: number, halfWidth: number): [number, number][] {
  const fine = 40_000;
  const at = (i: number): [number, number] => {
    // From the middle of the south side (x = 0, y > 0) westwards.
    const angle = Math.PI / 2 + (i / fine) * 2 * Math.PI;
    const c = Math.cos(angle);
    const s = Math.sin(angle);
    return [
      halfLength * Math.sign(c) * Math.abs(c) ** (2 / exponent),
      halfWidth * Math.sign(s) * Math.abs(s) ** (2 / exponent),
    ];
  };
  const way = [0];
  let before = at(0);
  for (let i = 1; i <= fine; i++) {
    const here = at(i);
    way.push(way[i - 1]! + Math.hypot(here[0] - before[0], here[1] - before[1]));
    before = here;
  }
  const points: [number, number][] = [];
  let j = 0;
  for (let i = 0; i < samples; i++) {
    const target = (way[fine]! * i) / samples;
    while (way[j + 1]! < target) j += 1;
    const t = (target - way[j]!) / (way[j + 1]! - way[j]! || 1);
    const [ax, ay] = at(j);
    const [bx, by] = at(j + 1);
    points.push([ax + (bx - ax) * t, ay + (by - ay) * t]);
  }
  return points;
}
