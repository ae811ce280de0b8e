import { gapsInRow, orderAlongRow, rounded } from '../core/plan-geometry.ts';
import { gaSeatGuid, planBounds } from '../core/plan-layout.ts';
import type {
  Category,
  PlanDecoration,
  PlanRow,
  PlanSeat,
  PlanSection,
  SeatAttribute,
  SeatingPlan,
} from '../core/seat-map.ts';
import { planLimits, seatAttributes } from '../core/seat-map.ts';
import { categoryColor } from './colors.ts';
import { type Findings, quoted } from './findings.ts';
import { lineOfJsonFault } from './json-fault.ts';
import { createJsonReader, type JsonObject, type JsonReader, structureIsFine } from './json-reader.ts';
import { createSectionIds, labelIsFine } from './labels.ts';
import { type GaArea, readArea } from './pretix-areas.ts';

/*
 * The pretix seating-plan format (JSON schema 0.0.1, current and older form) with these keys of ours: seat `attributes` (list)
 * or `accessible`, `companion`, `restricted_view` (true/false), seat `break_after` or `aisle_after`; zone `group`,
 * `sell_as_unit`, `drawing_only`; area `capacity`, `category`, `label`. Any other key causes a warning and is kept for export.
 * Absolute position = zone + row + seat.
 */

const keys = {
  plan: new Set(['name', 'categories', 'zones', 'size']),
  category: new Set(['name', 'color']),
  zone: new Set(['name', 'position', 'rows', 'areas', 'zone_id', 'group', 'sell_as_unit', 'drawing_only']),
  zoneKnown: new Set(['uuid', 'displayed']),
  row: new Set(['position', 'row_number', 'seats']),
  rowKnown: new Set([
    'uuid',
    'row_label',
    'seat_label',
    'row_number_position',
    'number_of_seats',
    'seats_spacing',
  ]),
  seat: new Set([
    'seat_guid',
    'seat_number',
    'position',
    'category',
    'attributes',
    'accessible',
    'companion',
    'restricted_view',
    'break_after',
    'aisle_after',
  ]),
  seatKnown: new Set(['uuid', 'radius', 'start_direction']),
  none: new Set<string>(),
};

interface Reading {
  reader: JsonReader;
  findings: Findings;
  sectionId: (wanted: string) => string;
  categories: ReadonlySet<string>;
  /** seatGuid → where it stood first. */
  guids: Map<string, string>;
  decorations: PlanDecoration[];
  sections: PlanSection[];
  seats: number;
}

/** Reads a plan from JSON text. Returns null if it is no plan at all. Problems and warnings go to `findings`. */
export function readPretix(text: string, findings: Findings, name?: string): SeatingPlan | null {
  if (!structureIsFine(text, findings)) return null;
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    const line = lineOfJsonFault(text);
    findings.refuse(
      'broken_json',
      `The file is not valid JSON from line ${line} on; look at the commas, quotes and brackets there.`,
      `line ${line}`,
    );
    return null;
  }
  const reader = createJsonReader(findings);
  const top = reader.object(parsed, '$');
  if (!top) return null;
  const categories = readCategories(top, reader, findings);
  const reading: Reading = {
    reader,
    findings,
    sectionId: createSectionIds(),
    categories: new Set(categories.map((category) => category.name)),
    guids: new Map(),
    decorations: [],
    sections: [],
    seats: 0,
  };
  reader.list(top.zones, '$.zones', planLimits.sectionsMax + 1).forEach((value, i) => {
    if (reading.seats <= planLimits.seatsMax) readZone(value, i, reading);
  });
  checkTotals(reading);
  const extras = reader.extras(top, keys.plan, keys.none, '$');
  const ownName = top.name === undefined ? '' : reader.text(top, 'name', '$');
  const plan: SeatingPlan = {
    name: name ?? (ownName || 'Seating plan'),
    width: 0,
    height: 0,
    categories,
    sections: reading.sections,
    decorations: reading.decorations,
    ...(extras ? { extras } : {}),
  };
  return sized(plan, top, reader, findings);
}

function readCategories(top: JsonObject, reader: JsonReader, findings: Findings): Category[] {
  const names = new Set<string>();
  return reader
    .list(top.categories, '$.categories', planLimits.categoriesMax)
    .flatMap((value, i): Category[] => {
      const path = `$.categories[${i}]`;
      const category = reader.object(value, path);
      if (!category) return [];
      const name = reader.text(category, 'name', path);
      if (names.has(name)) {
        findings.refuse(
          'duplicate_category',
          `The category ${quoted(name)} stands twice; give each its own name.`,
          path,
        );
      }
      names.add(name);
      const color = categoryColor(reader.optionalText(category, 'color', path), i, `${path}.color`, findings);
      const extras = reader.extras(category, keys.category, keys.none, path);
      return [{ name, color, ...(extras ? { extras } : {}) }];
    });
}

function readZone(value: unknown, index: number, reading: Reading): void {
  const { reader, findings } = reading;
  const path = `$.zones[${index}]`;
  const zone = reader.object(value, path);
  if (!zone) return;
  const origin = reader.position(zone.position, `${path}.position`) ?? { x: 0, y: 0 };
  const zoneId = reader.optionalText(zone, 'zone_id', path) ?? '';
  let name = reader.optionalText(zone, 'name', path) ?? '';
  const drawingOnly = reader.flag(zone, 'drawing_only', path) === true;
  if (name === '' && !drawingOnly) {
    name = zoneId || `Zone ${index + 1}`;
    findings.warn(
      'unnamed_zone',
      'Zones without a name are named after their id or their place in the file.',
      path,
      true,
    );
  }
  const section: PlanSection = {
    id: '',
    name,
    group: reader.optionalText(zone, 'group', path) ?? '',
    kind: 'seated',
    sellAsUnit: reader.flag(zone, 'sell_as_unit', path) === true,
    rows: [],
    capacity: 0,
    category: '',
    outline: [],
  };
  const extras = reader.extras(zone, keys.zone, keys.zoneKnown, path);
  if (extras) section.extras = extras;

  const rows = reader.list(zone.rows, `${path}.rows`, planLimits.rowsPerSectionMax);
  rows.forEach((row, i) => {
    const read = readRow(row, origin, `${path}.rows[${i}]`, reading);
    if (read) section.rows.push(read);
  });
  const areas = readAreas(zone, origin, path, reading);

  const wantedId = zoneId || name;
  if (drawingOnly && rows.length === 0 && areas.length === 0) {
    if (extras)
      findings.warn('drawing_extras_lost', 'Foreign keys of a zone that only draws are not kept.', path);
    return;
  }
  if (rows.length > 0 || areas.length === 0)
    reading.sections.push({ ...section, id: reading.sectionId(wantedId) });
  areas.forEach((area, i) => {
    reading.sections.push(
      gaSection(area, section, rows.length === 0 && areas.length === 1, wantedId, i, reading),
    );
  });
}

function readAreas(
  zone: JsonObject,
  origin: { x: number; y: number },
  path: string,
  reading: Reading,
): (GaArea & { path: string })[] {
  const { reader, findings } = reading;
  if (zone.areas === undefined || zone.areas === null) return [];
  const found: (GaArea & { path: string })[] = [];
  reader.list(zone.areas, `${path}.areas`, planLimits.decorationsMax).forEach((value, i) => {
    const at = `${path}.areas[${i}]`;
    const area = reader.object(value, at);
    if (!area) return;
    const { decorations, ga } = readArea(area, origin, at, reader, findings);
    for (const decoration of decorations) reading.decorations.push(decoration);
    if (ga) found.push({ ...ga, path: at });
  });
  return found;
}

/** A zone that is nothing but one GA area is that section; otherwise each area is one of its own, named after its label. */
function gaSection(
  area: GaArea & { path: string },
  zone: PlanSection,
  whole: boolean,
  zoneId: string,
  index: number,
  reading: Reading,
): PlanSection {
  const { findings } = reading;
  if (!reading.categories.has(area.category))
    unknownCategory(area.category, `${area.path}.category`, findings);
  const name = whole ? zone.name : area.label || `${zone.name} ${index + 1}`;
  const id = reading.sectionId(whole ? zoneId : `${zoneId}-${area.label || `ga-${index + 1}`}`);
  const extras = { ...(whole ? zone.extras : {}), ...(area.extras ? { area: area.extras } : {}) };
  for (let i = 0; i < area.capacity && reading.seats <= planLimits.seatsMax; i++) {
    takeGuid(gaSeatGuid(id, i), area.path, reading);
  }
  return {
    id,
    name,
    group: zone.group,
    kind: 'ga',
    sellAsUnit: zone.sellAsUnit && whole,
    rows: [],
    capacity: area.capacity,
    category: area.category,
    outline: area.outline,
    ...(Object.keys(extras).length > 0 ? { extras } : {}),
  };
}

function readRow(
  value: unknown,
  origin: { x: number; y: number },
  path: string,
  reading: Reading,
): PlanRow | null {
  const { reader, findings } = reading;
  const row = reader.object(value, path);
  if (!row) return null;
  const at = row.position === undefined ? { x: 0, y: 0 } : reader.position(row.position, `${path}.position`);
  const list = reader.list(row.seats, `${path}.seats`, planLimits.seatsPerRowMax);
  const base = { x: origin.x + (at?.x ?? 0), y: origin.y + (at?.y ?? 0) };
  const stated: (boolean | undefined)[] = [];
  const seats: PlanSeat[] = [];
  list.forEach((seat, i) => {
    const read = readSeat(seat, base, `${path}.seats[${i}]`, reading);
    if (!read) return;
    seats.push(read.seat);
    stated.push(read.breakAfter);
  });
  const label = reader.text(row, 'row_number', path);
  const extras = reader.extras(row, keys.row, keys.rowKnown, path);
  // If the file states breaks, they refer to the order of the seats in the file, so the row keeps this order.
  const order = stated.some((at) => at !== undefined) ? null : orderAlongRow(seats);
  if (order) {
    findings.warn(
      'row_reordered',
      'Rows whose seats do not stand in order along the row were put in order.',
      path,
    );
  }
  const inOrder = order ? order.map((i) => seats[i]!) : seats;
  const gaps = gapsInRow(inOrder);
  inOrder.forEach((seat, i) => {
    seat.breakAfter = (order ? undefined : stated[i]) ?? gaps[i]!;
  });
  return { label, seats: inOrder, ...(extras ? { extras } : {}) };
}

function readSeat(
  value: unknown,
  base: { x: number; y: number },
  path: string,
  reading: Reading,
): { seat: PlanSeat; breakAfter: boolean | undefined } | null {
  const { reader, findings } = reading;
  const seat = reader.object(value, path);
  if (!seat) return null;
  const seatGuid = reader.text(seat, 'seat_guid', path);
  const position = reader.position(seat.position, `${path}.position`);
  const category = reader.text(seat, 'category', path);
  if (seat.category !== undefined && !reading.categories.has(category)) {
    unknownCategory(category, `${path}.category`, findings);
  }
  if (seatGuid !== '') takeGuid(seatGuid, path, reading);
  else if (seat.seat_guid === '')
    findings.refuse('empty_guid', 'Give the seat a seat_guid of its own.', `${path}.seat_guid`);
  const extras = reader.extras(seat, keys.seat, keys.seatKnown, path);
  return {
    breakAfter: reader.flag(seat, 'break_after', path) ?? reader.flag(seat, 'aisle_after', path),
    seat: {
      seatGuid,
      label: reader.text(seat, 'seat_number', path),
      x: rounded(base.x + (position?.x ?? 0)),
      y: rounded(base.y + (position?.y ?? 0)),
      category,
      attributes: readAttributes(seat, path, reading),
      breakAfter: false,
      ...(extras ? { extras } : {}),
    },
  };
}

const flagKeys: [key: string, attribute: SeatAttribute][] = [
  ['accessible', 'accessible'],
  ['companion', 'companion'],
  ['restricted_view', 'restricted-view'],
];

function readAttributes(seat: JsonObject, path: string, { reader, findings }: Reading): SeatAttribute[] {
  const found = new Set<SeatAttribute>();
  for (const [key, attribute] of flagKeys) if (reader.flag(seat, key, path)) found.add(attribute);
  if (seat.attributes !== undefined && seat.attributes !== null) {
    reader.list(seat.attributes, `${path}.attributes`, 20).forEach((value, i) => {
      if (seatAttributes.includes(value as SeatAttribute)) found.add(value as SeatAttribute);
      else
        findings.refuse(
          'unknown_attribute',
          `An attribute is one of ${seatAttributes.join(', ')}.`,
          `${path}.attributes[${i}]`,
        );
    });
  }
  return found.size === 0 ? [] : seatAttributes.filter((attribute) => found.has(attribute));
}

function takeGuid(guid: string, path: string, reading: Reading): void {
  const first = reading.guids.get(guid);
  if (first !== undefined) {
    reading.findings.refuse(
      'duplicate_guid',
      `The seat_guid ${quoted(guid)} already stands at ${first}; give every seat its own.`,
      path,
    );
    return;
  }
  labelIsFine(guid, path, reading.findings);
  reading.guids.set(guid, path);
  reading.seats += 1;
}

function unknownCategory(name: string, path: string, findings: Findings): void {
  findings.refuse(
    'unknown_category',
    `The category ${quoted(name)} is not in the list of categories; add it or correct the name.`,
    path,
  );
}

function checkTotals({ findings, seats, sections, decorations }: Reading): void {
  if (seats > planLimits.seatsMax) {
    findings.refuse(
      'too_many',
      `The plan has more than ${planLimits.seatsMax} seats; split it into several.`,
      '$.zones',
    );
  }
  if (sections.length > planLimits.sectionsMax) {
    findings.refuse(
      'too_many',
      `The plan has ${sections.length} sections; at most ${planLimits.sectionsMax} are allowed.`,
      '$.zones',
    );
  }
  if (decorations.length > planLimits.decorationsMax) {
    findings.refuse(
      'too_many',
      `The plan has ${decorations.length} drawings; at most ${planLimits.decorationsMax} are allowed.`,
      '$.zones',
    );
  }
}

/** The older form states no size: then it is the box around the seats. */
function sized(plan: SeatingPlan, top: JsonObject, reader: JsonReader, findings: Findings): SeatingPlan {
  const size = top.size === undefined || top.size === null ? null : reader.object(top.size, '$.size');
  const width = size ? reader.number(size, 'width', '$.size') : 0;
  const height = size ? reader.number(size, 'height', '$.size') : 0;
  if (width > 0 && height > 0) return { ...plan, width, height };
  findings.warn(
    'no_size',
    'The file states no size; it was taken from the positions of the seats.',
    '$.size',
  );
  const box = planBounds(plan);
  return {
    ...plan,
    width: Math.ceil(Math.max(1, (box?.right ?? 0) + 30)),
    height: Math.ceil(Math.max(1, (box?.bottom ?? 0) + 30)),
  };
}
