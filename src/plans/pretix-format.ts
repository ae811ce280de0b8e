/** The pretix seating-plan format as we write it: the current form, with our extra keys marked as ours. */

export interface PretixPosition {
  x: number;
  y: number;
}

export interface PretixSeat {
  seat_guid: string;
  seat_number: string;
  position: PretixPosition;
  category: string;
  /** Ours: accessible, companion, restricted-view. */
  attributes?: string[];
  /** Ours: an aisle or gap lies between this seat and the next of the row. */
  break_after?: boolean;
}

export interface PretixRow {
  row_number: string;
  row_number_position?: 'start' | 'end' | 'both' | null;
  position: PretixPosition;
  seats: PretixSeat[];
}

export interface PretixArea {
  shape: 'polygon' | 'rectangle' | 'ellipse' | 'circle' | 'text';
  color?: string;
  border_color?: string;
  rotation: number;
  position: PretixPosition;
  polygon?: { points: PretixPosition[] };
  rectangle?: { width: number; height: number };
  ellipse?: { radius: PretixPosition };
  circle?: { radius: number };
  text?: { text: string; position: PretixPosition; color?: string; size?: number };
  /** Ours: general admission, this many units of `category`. */
  capacity?: number;
  category?: string;
  /** Ours: the area's name for people who cannot see the drawing. */
  label?: string;
}

export interface PretixZone {
  name: string;
  zone_id?: string;
  position: PretixPosition;
  rows: PretixRow[];
  areas: PretixArea[];
  /** Ours: the stand, tier or level. */
  group?: string;
  /** Ours: a hold has to take all of the zone's seats. */
  sell_as_unit?: boolean;
  /** Ours: nothing in this zone is a section. */
  drawing_only?: boolean;
}

export interface PretixPlan {
  name: string;
  size: { width: number; height: number };
  categories: { name: string; color: string }[];
  zones: PretixZone[];
}
