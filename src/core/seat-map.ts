/**
 * The venue's plan after import, as all other parts understand it, whatever file it came from.
 * Labels are text and never identity: `01` and `1` may be in one row. The identity is `seatGuid`, opaque.
 */

/** Index of a seat within its event, 0..n-1: the bit in the overlay, the key in Postgres, the field in Redis. */
export type SeatNo = number;

export type SeatAttribute = 'accessible' | 'companion' | 'restricted-view';

export const seatAttributes: readonly SeatAttribute[] = ['accessible', 'companion', 'restricted-view'];

/**
 * Contents of the file that we do not understand (the editor's uuids, a seat's radius, foreign keys). They are never read, and
 * are kept so that an exported plan returns everything that was imported. At most `planLimits.extrasDepthMax` levels deep.
 */
export type PlanExtras = Record<string, unknown>;

export interface Category {
  /** The name is the key: seats refer to it and an event maps it to a price. */
  name: string;
  /** `#rrggbb` */
  color: string;
  extras?: PlanExtras;
}

export interface PlanSeat {
  seatGuid: string;
  /** Printed number, exactly as the file has it. */
  label: string;
  /** Absolute position in plan units (y grows downwards), all transforms applied. */
  x: number;
  y: number;
  category: string;
  attributes: SeatAttribute[];
  /** True when an aisle or gap lies between this seat and the next in row order: they are no neighbours. */
  breakAfter: boolean;
  extras?: PlanExtras;
}

export interface PlanRow {
  /** May be empty: some venues have no row labels. */
  label: string;
  /** In physical order along the row, which decides who is whose neighbour; never inferred from numbers. */
  seats: PlanSeat[];
  extras?: PlanExtras;
}

export type AreaShape =
  | { kind: 'polygon'; points: [number, number][] }
  | { kind: 'ellipse'; cx: number; cy: number; rx: number; ry: number; rotation: number }
  | { kind: 'text'; x: number; y: number; size: number; text: string };

/** A decoration (stage, pitch, stairs): drawn, never sold. */
export interface PlanDecoration {
  shape: AreaShape;
  color: string;
  borderColor: string;
  label: string;
  extras?: PlanExtras;
}

/**
 * A section is seated (rows of seats) or general admission (an area of n interchangeable units, each one a seat with a
 * seatGuid `<sectionId>#<index>` and the section's position).
 */
export interface PlanSection {
  /** Stable, url-safe (`[A-Za-z0-9._-]{1,64}`), unique in the plan; made from the file's own id or its name. */
  id: string;
  name: string;
  /** The stand, tier or level that the section belongs to; empty when the file has none. */
  group: string;
  kind: 'seated' | 'ga';
  /** Sold whole (boxes, suites): a hold has to take all of its seats. */
  sellAsUnit: boolean;
  rows: PlanRow[];
  /** GA only: units, their category and the outline to draw. */
  capacity: number;
  category: string;
  outline: [number, number][];
  extras?: PlanExtras;
}

export interface SeatingPlan {
  name: string;
  width: number;
  height: number;
  categories: Category[];
  sections: PlanSection[];
  decorations: PlanDecoration[];
  extras?: PlanExtras;
}

/** Limits of a plan; larger ones are refused with the place. */
export const planLimits = {
  seatsMax: 200_000,
  sectionsMax: 2_000,
  rowsPerSectionMax: 1_000,
  seatsPerRowMax: 1_000,
  categoriesMax: 100,
  labelLengthMax: 190,
  fileBytesMax: 64 * 1024 * 1024,
  problemsListedMax: 100,
  warningPlacesMax: 20,
  /** Absolute coordinates in plan units; a real file had -1,995,039, which is kept and warned about. */
  coordinateMax: 100_000_000,
  decorationsMax: 5_000,
  pointsPerShapeMax: 2_000,
  jsonDepthMax: 32,
  extrasDepthMax: 8,
} as const;

/** Everything about one seat that does not change during a sale, by seat_no. */
export interface SeatFacts {
  seatNo: SeatNo;
  seatGuid: string;
  sectionId: string;
  row: string;
  label: string;
  category: string;
}

/**
 * The drawing that the browser loads. It is made once for each event from the plan, served by the hash of its bytes and never
 * changed. Coordinates are integers in tenths of a plan unit. Within a section, seats are in row order; `seats` gives their
 * seat_no as ranges `[first, count]`, and the bits of a section's bitset are in exactly that order.
 */
export interface Layout {
  v: 1;
  name: string;
  /** Tenths of a plan unit. */
  width: number;
  height: number;
  seatCount: number;
  categories: Category[];
  sections: LayoutSection[];
  decorations: PlanDecoration[];
}

export interface LayoutSection {
  id: string;
  name: string;
  group: string;
  kind: 'seated' | 'ga';
  sellAsUnit: boolean;
  seats: [first: SeatNo, count: number][];
  /** Hull of the seats or the GA outline: what is drawn while zoomed out. */
  outline: [number, number][];
  /** Where the section's name goes. */
  center: [number, number];
  rows: LayoutRow[];
  /** GA: the category of its units; seated: -1. Index into `categories`. */
  category: number;
}

export interface LayoutRow {
  label: string;
  labels: string[];
  /** Delta-encoded: the first value is absolute, each later one the difference to its neighbour before. */
  x: number[];
  y: number[];
  /** Index into `categories` per seat, or one number when all are equal. */
  category: number | number[];
  /** Indices within the row after which there is an aisle. */
  breaks: number[];
  /** Indices within the row by attribute; absent when none. */
  attributes?: Partial<Record<SeatAttribute, number[]>>;
}
