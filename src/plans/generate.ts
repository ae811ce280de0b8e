import { assert } from '../core/outcome.ts';
import { planLimits } from '../core/seat-map.ts';
import type { PretixPlan, PretixRow, PretixSeat, PretixZone } from './pretix-format.ts';
import { createStadiumCurve, type StadiumCurve } from './stadium-curve.ts';
import { stadiumDrawing, stadiumMargin } from './stadium-drawing.ts';

/** Metres; one plan unit is 2 cm, so that a seat is 25 units wide as in the pretix editor. */
export const stadiumMetres = {
  unitsPerMetre: 50,
  seatPitch: 0.5,
  rowPitch: 0.8,
  accessiblePitch: 1,
  aisle: 1.2,
  tierGap: 3,
  boxDepth: 4.2,
} as const;

const sectorCount = 32;
const stands = ['South', 'West', 'North', 'East'] as const;
const categories = [
  { name: 'Premium', color: '#7b3294' },
  { name: 'Category 1', color: '#0072b2' },
  { name: 'Category 2', color: '#009e73' },
  { name: 'Category 3', color: '#e69f00' },
  { name: 'Standing', color: '#d55e00' },
];

interface Tier {
  /** 1, 2 or 3: the hundred of its block numbers. */
  no: number;
  rows: number;
  /** Metres from the front row to the tier's first row. */
  depth: number;
}

interface Bowl {
  curve: StadiumCurve;
  tiers: Tier[];
  /** Sectors that are built, 0 being the middle of the south side. */
  sectors: number[];
  standing: ReadonlySet<number>;
  boxesDepth: number | null;
  depth: number;
}

/**
 * Our demo stadium, in the pretix format and with exactly `seats` sellable places (100 to 200,000): a bowl with one to
 * three tiers, blocks with radial aisles, boxes sold whole, a standing area, accessible places with companions, and the
 * oddities that real venues have (no rows I and O, rows that begin at D above an entrance, odd and even sides, centre
 * blocks numbered from 101, numbers that run right to left). The same input gives the same plan.
 */
export function generateStadium(options: { seats: number; name?: string }): PretixPlan {
  const { seats, name = 'Demo stadium' } = options;
  assert(Number.isInteger(seats) && seats >= 100 && seats <= planLimits.seatsMax, '100 to 200,000 seats');
  const standingMin = Math.max(10, Math.round(seats * 0.06));
  const curveScale = Math.max(1, Math.sqrt(seats / 60_000));
  const curve = createStadiumCurve(68 * curveScale, 50 * curveScale);

  // The most rows whose seats still leave room for the standing area, which takes up what is left to the exact count.
  let low = 1;
  let high = Math.ceil(seats / (bowlOf(curve, 1, seats).sectors.length * 16)) + 4;
  let zones = buildZones(bowlOf(curve, low, seats));
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    const tried = buildZones(bowlOf(curve, middle, seats));
    if (countSeats(tried) <= seats - standingMin) {
      low = middle;
      zones = tried;
    } else high = middle - 1;
  }
  const standing = seats - countSeats(zones);
  assert(standing > 0, 'the standing area takes the rest');
  const bowl = bowlOf(curve, low, seats);
  return placed(name, [...zones, standingZone(bowl, standing)], bowl, curveScale);
}

function countSeats(zones: readonly PretixZone[]): number {
  return zones.reduce((sum, zone) => sum + zone.rows.reduce((n, row) => n + row.seats.length, 0), 0);
}

function bowlOf(curve: StadiumCurve, rows: number, seats: number): Bowl {
  const m = stadiumMetres;
  const wholeRing = seats >= 9000;
  const count = wholeRing ? sectorCount : Math.max(1, Math.min(sectorCount - 1, Math.round(seats / 260)));
  const sectors = Array.from(
    { length: count },
    (_, i) => (i % 2 === 1 ? (i + 1) / 2 : sectorCount - i / 2) % sectorCount,
  );
  const shares = rows >= 40 ? [0.45, 0.2, 0.35] : rows >= 18 ? [0.6, 0.4] : [1];
  const boxes = shares.length > 1;
  const tiers: Tier[] = [];
  let depth = 0;
  let left = rows;
  let boxesDepth: number | null = null;
  shares.forEach((share, i) => {
    const tierRows = i === shares.length - 1 ? left : Math.round(rows * share);
    left -= tierRows;
    tiers.push({ no: i + 1, rows: tierRows, depth });
    depth += tierRows * m.rowPitch + m.tierGap;
    if (i === 0 && boxes) {
      boxesDepth = depth;
      depth += m.boxDepth;
    }
  });
  return {
    curve,
    tiers,
    sectors: sectors.sort((a, b) => a - b),
    standing: new Set(wholeRing ? [7, 8, 9] : []),
    boxesDepth,
    depth,
  };
}

function buildZones(bowl: Bowl): PretixZone[] {
  const zones: PretixZone[] = [];
  for (const tier of bowl.tiers) {
    for (const sector of bowl.sectors) {
      if (tier.no === 1 && bowl.standing.has(sector)) continue;
      zones.push(block(bowl, tier, sector));
    }
    if (tier.no === 1 && bowl.boxesDepth !== null) zones.push(...boxes(bowl, bowl.boxesDepth));
  }
  return zones;
}

/** Steps from the middle of the nearer long side (0) to behind the goals (8). */
function awayFromMiddle(sector: number): number {
  const s = sector % (sectorCount / 2);
  return Math.min(s, sectorCount / 2 - s);
}

function standOf(sector: number): string {
  const quarter = sectorCount / 4;
  return `${stands[Math.floor((sector + quarter / 2) / quarter) % 4]} Stand`;
}

function categoryOf(tier: Tier, sector: number, tiers: number): string {
  const away = awayFromMiddle(sector);
  if (tier.no === 2 && tiers === 3 && away <= 2) return 'Premium';
  if (tier.no === tiers && tiers > 1) return away <= 3 ? 'Category 2' : 'Category 3';
  return away <= 4 ? 'Category 1' : 'Category 2';
}

function block(bowl: Bowl, tier: Tier, sector: number): PretixZone {
  const m = stadiumMetres;
  const name = String(tier.no * 100 + sector + 1);
  const from = (sector - 0.5) / sectorCount;
  const to = (sector + 0.5) / sectorCount;
  const category = categoryOf(tier, sector, bowl.tiers.length);
  // An entrance lies below every fourth block: its rows begin at the fourth letter.
  const entrance = sector % 4 === 2 && tier.rows > 8 ? 3 : 0;
  const rows: PretixRow[] = [];
  for (let r = entrance; r < tier.rows; r++) {
    const depth = tier.depth + r * m.rowPitch;
    const spots = bowl.curve.row(depth, from, to, m.seatPitch, [m.aisle / 2, m.aisle / 2]);
    // Every other wide block has an aisle of its own: two seats are left out in the middle.
    const middle = sector % 2 === 1 && spots.length >= 24 ? spots.length >> 1 : 0;
    const kept = middle ? spots.filter((_, i) => i !== middle && i !== middle - 1) : spots;
    const label = tier.no === 3 ? String(r + 1) : rowLetters(r);
    const restricted = tier.no === 3 && r === 0 && sector % 4 === 0;
    const seats = kept.map(
      (spot, i): PretixSeat => ({
        ...seatAt(spot, name, label, seatNumber(tier, sector, i, kept.length), category),
        ...(restricted ? { attributes: ['restricted-view'] } : {}),
        ...(middle > 0 && i === middle - 2 ? { break_after: true } : {}),
      }),
    );
    if (seats.length > 0) rows.push(rowOf(label, seats));
  }
  if (tier.no === 1 && sector % 2 === 0) {
    const accessible = accessibleRow(bowl, tier, { name, from, to, category });
    if (accessible) rows.push(accessible);
  }
  return { name, zone_id: name, group: standOf(sector), position: { x: 0, y: 0 }, rows, areas: [] };
}

/** Places for wheelchairs behind the lower tier, on the level of the entrances, each next to a seat for a companion. */
function accessibleRow(
  bowl: Bowl,
  tier: Tier,
  block: { name: string; from: number; to: number; category: string },
): PretixRow | null {
  const m = stadiumMetres;
  const depth = tier.depth + tier.rows * m.rowPitch + 0.4;
  const spots = bowl.curve.row(depth, block.from, block.to, m.accessiblePitch, [m.aisle, m.aisle]);
  const pairs = Math.min(4, spots.length >> 1);
  if (pairs === 0 || tier.rows < 4) return null;
  const first = (spots.length - pairs * 2) >> 1;
  const seats = spots.slice(first, first + pairs * 2).map(
    (spot, i): PretixSeat => ({
      ...seatAt(spot, block.name, 'W', i % 2 === 0 ? `W${i / 2 + 1}` : `C${(i + 1) / 2}`, block.category),
      attributes: [i % 2 === 0 ? 'accessible' : 'companion'],
      ...(i % 2 === 1 && i < pairs * 2 - 1 ? { break_after: true } : {}),
    }),
  );
  return rowOf('W', seats);
}

function boxes(bowl: Bowl, depth: number): PretixZone[] {
  const zones: PretixZone[] = [];
  for (const sector of bowl.sectors) {
    if (awayFromMiddle(sector) > 2) continue;
    for (const half of [0, 1]) {
      const from = (sector - 0.5 + half / 2) / sectorCount;
      const name = `Box ${zones.length + 1}`;
      const id = `box-${zones.length + 1}`;
      const rows = [0, 1].flatMap((r): PretixRow[] => {
        const spots = bowl.curve
          .row(depth + r * 1.1, from, from + 0.5 / sectorCount, 0.7, [0.9, 0.9])
          .slice(0, 6);
        const seats = spots.map((spot, i) =>
          seatAt(spot, id, String(r + 1), String(r * spots.length + i + 1), 'Premium'),
        );
        return seats.length > 0 ? [rowOf(String(r + 1), seats)] : [];
      });
      if (rows.length === 0) continue;
      const group = standOf(sector);
      zones.push({ name, zone_id: id, group, sell_as_unit: true, position: { x: 0, y: 0 }, rows, areas: [] });
    }
  }
  return zones;
}

function seatAt(
  [x, y]: [number, number],
  block: string,
  row: string,
  number: string,
  category: string,
): PretixSeat {
  return { seat_guid: `${block}-${row}-${number}`, seat_number: number, position: { x, y }, category };
}

function rowOf(label: string, seats: PretixSeat[]): PretixRow {
  return { row_number: label, row_number_position: 'both', position: { x: 0, y: 0 }, seats };
}

/** Row letters as venues write them: no I and no O, which look like 1 and 0. */
function rowLetters(index: number): string {
  const letters = 'ABCDEFGHJKLMNPQRSTUVWXYZ';
  const tail = letters[index % letters.length]!;
  return index < letters.length ? tail : rowLetters(Math.floor(index / letters.length) - 1) + tail;
}

function seatNumber(tier: Tier, sector: number, index: number, count: number): string {
  const mirrored = sector > sectorCount / 4 && sector < (sectorCount * 3) / 4;
  const i = mirrored ? count - 1 - index : index;
  if (tier.no !== 2) return String(i + 1);
  // The club tier counts outwards from the middle of each side, as theatres do: centre 101.., odd left, even right.
  const side = sector % (sectorCount / 2);
  if (side === 0) return String(101 + i);
  return side <= sectorCount / 4 ? String(2 * i + 1) : String(2 * (count - i));
}

function standingZone(bowl: Bowl, capacity: number): PretixZone {
  const lower = bowl.tiers[0]!;
  const back = lower.depth + lower.rows * stadiumMetres.rowPitch;
  const sectors = [...bowl.standing];
  // Small venues have their standing room on the grass in front of the stand, about half a square metre a person.
  const half = Math.min(30, Math.max(5, Math.sqrt(capacity) * 0.6));
  let points: [number, number][] = [
    [-half, 38 - half * 0.7],
    [half, 38 - half * 0.7],
    [half, 38],
    [-half, 38],
  ];
  if (sectors.length > 0) {
    const from = (Math.min(...sectors) - 0.46) / sectorCount;
    const to = (Math.max(...sectors) + 0.46) / sectorCount;
    points = [...bowl.curve.line(0, from, to, 24), ...bowl.curve.line(back, from, to, 24).reverse()];
  }
  return {
    name: 'Standing',
    zone_id: 'standing',
    group: sectors.length > 0 ? standOf(sectors[0]!) : 'Pitch',
    position: { x: 0, y: 0 },
    rows: [],
    areas: [
      {
        shape: 'polygon',
        color: '#d55e00',
        border_color: '#8a3c00',
        rotation: 0,
        position: { x: 0, y: 0 },
        polygon: { points: points.map(([x, y]) => ({ x, y })) },
        label: 'Standing',
        capacity,
        category: 'Standing',
      },
    ],
  };
}

/** From metres about the centre to plan units with the origin at the upper left, seats relative to row and zone. */
function placed(name: string, zones: PretixZone[], bowl: Bowl, scale: number): PretixPlan {
  const m = stadiumMetres;
  const halfWidth = 68 * scale + bowl.depth + stadiumMargin;
  const halfHeight = 50 * scale + bowl.depth + stadiumMargin;
  const tenth = (value: number): number => Math.round(value * 10) / 10 + 0;
  const unitsX = (x: number): number => tenth((x + halfWidth) * m.unitsPerMetre);
  const unitsY = (y: number): number => tenth((y + halfHeight) * m.unitsPerMetre);
  for (const zone of zones) {
    const corner = zone.rows[0]?.seats[0]?.position;
    const zx = corner ? Math.round(unitsX(corner.x)) : 0;
    const zy = corner ? Math.round(unitsY(corner.y)) : 0;
    zone.position = { x: zx, y: zy };
    for (const row of zone.rows) {
      const first = row.seats[0]!.position;
      const rx = unitsX(first.x);
      const ry = unitsY(first.y);
      row.position = { x: tenth(rx - zx), y: tenth(ry - zy) };
      for (const seat of row.seats) {
        seat.position = { x: tenth(unitsX(seat.position.x) - rx), y: tenth(unitsY(seat.position.y) - ry) };
      }
    }
    for (const area of zone.areas) {
      if (area.polygon)
        area.polygon.points = area.polygon.points.map((p) => ({ x: unitsX(p.x), y: unitsY(p.y) }));
    }
  }
  const used = new Set(
    zones.flatMap((z) => [...z.rows.flatMap((r) => r.seats), ...z.areas].map((s) => s.category)),
  );
  const drawing = stadiumDrawing(bowl.curve, bowl.depth, scale, unitsX, unitsY);
  return {
    name,
    size: {
      width: Math.ceil(halfWidth * 2 * m.unitsPerMetre),
      height: Math.ceil(halfHeight * 2 * m.unitsPerMetre),
    },
    categories: categories.filter(({ name: category }) => used.has(category)),
    zones: [drawing, ...zones],
  };
}
