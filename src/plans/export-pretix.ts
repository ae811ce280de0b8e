import { gapsInRow, orderAlongRow, rounded } from '../core/plan-geometry.ts';
import type {
  PlanDecoration,
  PlanExtras,
  PlanRow,
  PlanSeat,
  PlanSection,
  SeatingPlan,
} from '../core/seat-map.ts';
import type { PretixArea, PretixPlan, PretixRow, PretixSeat, PretixZone } from './pretix-format.ts';

/**
 * Returns the plan in the pretix format, with our documented extra keys and every foreign key that was imported. Importing it
 * again gives an equal plan. Transforms stay applied: zones are at 0,0 and rotated shapes are written with their final corners.
 */
export function exportPretix(plan: SeatingPlan): PretixPlan {
  const drawing: PretixZone[] =
    plan.decorations.length === 0
      ? []
      : [
          {
            name: '',
            zone_id: 'drawing',
            drawing_only: true,
            position: origin(),
            rows: [],
            areas: plan.decorations.map(areaOfDecoration),
          },
        ];
  return {
    ...plan.extras,
    name: plan.name,
    size: { width: plan.width, height: plan.height },
    categories: plan.categories.map(({ name, color, extras }) => ({ ...extras, name, color })),
    zones: [...drawing, ...plan.sections.map(zoneOf)],
  };
}

function origin(): { x: number; y: number } {
  return { x: 0, y: 0 };
}

function zoneOf(section: PlanSection): PretixZone {
  const { area, ...zoneExtras } = section.extras ?? {};
  // Only a GA section keeps its area's foreign keys under `area`; a seated one may have a foreign key of that name.
  const own = section.kind === 'ga' ? zoneExtras : section.extras;
  return {
    ...own,
    name: section.name,
    zone_id: section.id,
    ...(section.group === '' ? {} : { group: section.group }),
    ...(section.sellAsUnit ? { sell_as_unit: true } : {}),
    position: origin(),
    rows: section.rows.map(rowOf),
    areas: section.kind === 'ga' ? [areaOfStanding(section, area as PlanExtras | undefined)] : [],
  };
}

function rowOf(row: PlanRow): PretixRow {
  const first = row.seats[0];
  const base = { x: first?.x ?? 0, y: first?.y ?? 0 };
  const gaps = gapsInRow(row.seats);
  // A row that the import would reorder is written in the order of its file; stated breaks express that.
  const stateAll = orderAlongRow(row.seats) !== null;
  return {
    ...row.extras,
    row_number: row.label,
    position: base,
    seats: row.seats.map((seat, i) => seatOf(seat, base, stateAll || seat.breakAfter || gaps[i] === true)),
  };
}

function seatOf(seat: PlanSeat, base: { x: number; y: number }, stateBreak: boolean): PretixSeat {
  return {
    ...seat.extras,
    seat_guid: seat.seatGuid,
    seat_number: seat.label,
    position: { x: rounded(seat.x - base.x), y: rounded(seat.y - base.y) },
    category: seat.category,
    ...(seat.attributes.length > 0 ? { attributes: [...seat.attributes] } : {}),
    ...(stateBreak ? { break_after: seat.breakAfter } : {}),
  };
}

function areaOfStanding(section: PlanSection, extras: PlanExtras | undefined): PretixArea {
  return {
    ...extras,
    shape: 'polygon',
    rotation: 0,
    position: origin(),
    polygon: { points: section.outline.map(([x, y]) => ({ x, y })) },
    capacity: section.capacity,
    category: section.category,
  };
}

function areaOfDecoration({ shape, color, borderColor, label, extras }: PlanDecoration): PretixArea {
  if (shape.kind === 'text') {
    return {
      ...extras,
      shape: 'text',
      rotation: 0,
      position: { x: shape.x, y: shape.y },
      text: { text: shape.text, size: shape.size, color, position: origin() },
    };
  }
  const common = { ...extras, color, border_color: borderColor, ...(label === '' ? {} : { label }) };
  if (shape.kind === 'ellipse') {
    const { cx, cy, rx, ry, rotation } = shape;
    return {
      ...common,
      shape: 'ellipse',
      rotation,
      position: { x: cx, y: cy },
      ellipse: { radius: { x: rx, y: ry } },
    };
  }
  const points = shape.points.map(([x, y]) => ({ x, y }));
  return { ...common, shape: 'polygon', rotation: 0, position: origin(), polygon: { points } };
}
