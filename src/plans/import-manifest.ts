import type { PlanSection, SeatAttribute, SeatingPlan } from '../core/seat-map.ts';
import { planLimits, seatAttributes } from '../core/seat-map.ts';
import { paletteColor } from './colors.ts';
import { type Findings, quoted } from './findings.ts';
import { createSectionIds, labelIsFine } from './labels.ts';
import { chooseColumns, type ManifestColumns, type ManifestMapping } from './manifest-columns.ts';
import { drawManifest } from './manifest-drawing.ts';
import { type ManifestLine, readTable } from './manifest-lines.ts';
import {
  addSeat,
  assumeGaps,
  escaped,
  giveGuids,
  type LooseSection,
  settleRepeats,
  warnOfCounts,
} from './manifest-rows.ts';
import { readSeatCell } from './seat-ranges.ts';

export type { ManifestMapping } from './manifest-columns.ts';

const defaultCategory = 'Standard';

/**
 * Reads a CSV manifest with one line for each seat (or a row, if the seat column has ranges; or a standing area, if there is
 * only a capacity). Labels are kept exactly as written. Without an id column seatGuids are made from the labels, so that the
 * same file gives the same seats. Returns null if it is no manifest; problems go to `findings`.
 */
export function readManifest(
  text: string,
  findings: Findings,
  options: { mapping?: ManifestMapping; name?: string },
): SeatingPlan | null {
  const table = readTable(text, findings);
  if (!table) return null;
  const columns = chooseColumns(table.headers, options.mapping ?? {}, findings);
  if (!columns) return null;
  const decimalComma = table.delimiter !== ',';
  const sections = new Map<string, LooseSection>();
  const reading: Reading = {
    columns,
    findings,
    sections,
    decimalComma,
    width: table.headers.length,
    seats: 0,
    categories: new Set(),
  };
  table.lines.forEach((line, record) => {
    if (reading.seats <= planLimits.seatsMax) readLine(line, record, reading);
  });
  if (reading.seats > planLimits.seatsMax) {
    findings.refuse(
      'too_many',
      `The manifest has more than ${planLimits.seatsMax} seats; split it into several.`,
      'line 1',
    );
  }
  const loose = [...sections.values()];
  checkSize(loose, reading);
  if (columns.id.length === 0) for (const section of loose) settleRepeats(section, findings);
  if (findings.problemCount() > 0) return null;
  giveGuids(loose, findings);
  if (columns.x.length === 0) for (const section of loose) assumeGaps(section, findings);
  if (columns.category.length === 0) {
    findings.warn(
      'no_categories',
      `There is no category column: every seat is in the category ${defaultCategory}.`,
      'line 1',
    );
  }
  warnOfCounts(loose, findings);
  const drawing = drawManifest(loose, columns.x.length > 0, findings);
  const ids = createSectionIds();
  return {
    name: options.name ?? 'Seating plan',
    width: drawing.width,
    height: drawing.height,
    categories: [...reading.categories].map((name, i) => ({ name, color: paletteColor(i) })),
    sections: drawing.sections.map((section): PlanSection => ({ ...section, id: ids(section.id) })),
    decorations: drawing.decorations,
  };
}

interface Reading {
  columns: ManifestColumns;
  findings: Findings;
  sections: Map<string, LooseSection>;
  decimalComma: boolean;
  width: number;
  seats: number;
  categories: Set<string>;
}

function readLine({ line, cells }: ManifestLine, record: number, reading: Reading): void {
  const { columns, findings } = reading;
  const place = `line ${line}`;
  if (cells.every((cell) => cell.trim() === '')) {
    if (cells.length > 1) findings.warn('blank_lines', 'Lines of separators alone were skipped.', place);
    return;
  }
  if (cells.length !== reading.width && !isPadded(cells, reading.width)) {
    findings.refuse(
      'wrong_column_count',
      `The line has ${cells.length} columns and the header ${reading.width}; mend or remove the line.`,
      place,
    );
    return;
  }
  const cell = (indices: readonly number[]): string =>
    indices.map((i) => oneLine(cells[i] ?? '', place, findings)).join(' ');
  const name = cell(columns.section);
  const group = cell(columns.group);
  const seat = cell(columns.seat);
  if (name.trim() === '') {
    findings.refuse('empty_section', 'The line has no section; every seat needs one.', place);
    return;
  }
  const category = columns.category.length > 0 ? cell(columns.category) : defaultCategory;
  if (category.trim() === '') {
    findings.refuse('empty_category', 'The line has no category; every seat needs one.', place);
    return;
  }
  if (![name, group, seat, category].every((text) => labelIsFine(text, place, findings))) return;
  reading.categories.add(category);
  if (reading.categories.size > planLimits.categoriesMax) {
    findings.refuse(
      'too_many',
      `More than ${planLimits.categoriesMax} categories; is the category column the right one?`,
      place,
    );
    reading.categories.delete(category);
    return;
  }
  const section = sectionOf(reading, columns, cells, name, group);
  if (seat.trim() === '') {
    readCapacity(cell(columns.capacity), section, category, place, reading);
    return;
  }
  readSeats(seat, cell(columns.row), { section, category, line, record, cells }, reading);
}

/** Spreadsheets leave empty cells at the end of a line out, or add some. */
function isPadded(cells: readonly string[], width: number): boolean {
  return cells.length > width && cells.slice(width).every((cell) => cell.trim() === '');
}

function oneLine(text: string, place: string, findings: Findings): string {
  if (!/[\r\n]/.test(text)) return text;
  findings.warn('line_breaks', 'Line breaks inside a label were turned into spaces.', place);
  return text.replace(/\s*[\r\n]+\s*/g, ' ');
}

function sectionOf(
  reading: Reading,
  columns: ManifestColumns,
  cells: readonly string[],
  name: string,
  group: string,
): LooseSection {
  const key = [...columns.group, ...columns.section].map((i) => escaped(cells[i] ?? '')).join('/');
  let section = reading.sections.get(key);
  if (!section) {
    section = { name, group, key, rows: new Map(), taken: new Map(), standing: new Map() };
    reading.sections.set(key, section);
  }
  return section;
}

function readCapacity(
  text: string,
  section: LooseSection,
  category: string,
  place: string,
  reading: Reading,
): void {
  const { findings } = reading;
  if (text.trim() === '') {
    findings.refuse(
      'empty_seat',
      'The line has no seat; give it one, or a capacity if people stand there.',
      place,
    );
    return;
  }
  const capacity = /^\s*\d{1,6}\s*$/.test(text) ? Number(text) : 0;
  if (capacity < 1 || capacity > planLimits.seatsMax) {
    findings.refuse(
      'bad_capacity',
      `The capacity ${quoted(text)} is no whole number from 1 to ${planLimits.seatsMax}.`,
      place,
    );
    return;
  }
  reading.seats += capacity;
  section.standing.set(category, (section.standing.get(category) ?? 0) + capacity);
}

function readSeats(
  seatText: string,
  row: string,
  from: { section: LooseSection; category: string; line: number; record: number; cells: readonly string[] },
  reading: Reading,
): void {
  const { columns, findings } = reading;
  const { section, category, line, record, cells } = from;
  const place = `line ${line}`;
  if (!labelIsFine(row, place, findings)) return;
  const cell = readSeatCell(seatText);
  if (!cell) {
    findings.refuse(
      'too_many',
      `The seats ${quoted(seatText)} are more than ${planLimits.seatsPerRowMax}; split the row.`,
      place,
    );
    return;
  }
  if (cell.expanded) {
    findings.warn(
      'ranges_expanded',
      'Seat cells that hold a range or a list ("1-10,12-16") were taken as that many seats.',
      place,
    );
  }
  const x = coordinate(columns.x, cells, place, reading);
  const y = coordinate(columns.y, cells, place, reading);
  const id = columns.id.map((i) => cells[i] ?? '').join(' ');
  if (columns.id.length > 0 && id.trim() === '') {
    findings.refuse('empty_id', 'The line has no id; give every seat its own.', place);
    return;
  }
  if (!labelIsFine(id, place, findings)) return;
  const attributes = readAttributes(columns.attributes.map((i) => cells[i] ?? '').join(','), place, findings);
  cell.labels.forEach((label, i) => {
    const guid = id === '' ? '' : cell.labels.length > 1 ? `${id}/${label}` : id;
    const breakAfter = cell.breaks.has(i);
    addSeat(section, row, record, { label, line, guid, category, attributes, breakAfter, x, y });
  });
  if (cell.labels.length > 1 && columns.x.length > 0) {
    findings.refuse(
      'range_with_position',
      'A range of seats cannot share one position; leave x and y out or list the seats.',
      place,
    );
  }
  reading.seats += cell.labels.length;
}

function coordinate(
  column: readonly number[],
  cells: readonly string[],
  place: string,
  reading: Reading,
): number {
  if (column.length === 0) return 0;
  const text = (cells[column[0]!] ?? '').trim();
  const number = reading.decimalComma ? text.replace(',', '.') : text;
  const value = /^[-+]?\d{1,12}(\.\d{1,12})?$/.test(number) ? Number(number) : Number.NaN;
  if (Number.isNaN(value) || Math.abs(value) > planLimits.coordinateMax) {
    reading.findings.refuse(
      'bad_number',
      `The position ${quoted(text)} is no plain number within ±${planLimits.coordinateMax}.`,
      place,
    );
    return 0;
  }
  return value;
}

const attributeWords: Record<string, SeatAttribute> = {
  accessible: 'accessible',
  wheelchair: 'accessible',
  rollstuhl: 'accessible',
  companion: 'companion',
  begleitung: 'companion',
  'restricted-view': 'restricted-view',
  'restricted view': 'restricted-view',
  restricted_view: 'restricted-view',
  restricted: 'restricted-view',
  sichtbehinderung: 'restricted-view',
};

function readAttributes(text: string, place: string, findings: Findings): SeatAttribute[] {
  const found = new Set<SeatAttribute>();
  for (const word of text.split(/[,;|+]/).map((part) => part.trim().toLowerCase())) {
    const attribute = Object.hasOwn(attributeWords, word) ? attributeWords[word] : undefined;
    if (attribute) found.add(attribute);
    else if (word !== '' && word !== 'standard' && word !== 'normal' && word !== 'seat') {
      findings.warn(
        'unknown_attribute',
        'Attributes other than accessible, companion and restricted-view were left out.',
        place,
      );
    }
  }
  return seatAttributes.filter((attribute) => found.has(attribute));
}

function checkSize(sections: readonly LooseSection[], { findings }: Reading): void {
  const units = sections.reduce((sum, s) => sum + (s.rows.size > 0 ? 1 : 0) + s.standing.size, 0);
  if (units > planLimits.sectionsMax) {
    findings.refuse(
      'too_many',
      `The manifest has ${units} sections; at most ${planLimits.sectionsMax} are allowed. Is the section column the right one?`,
      'line 1',
    );
  }
  for (const section of sections) {
    const rows = [...section.rows.values()].flat();
    const place = `section ${section.name}`;
    if (rows.length > planLimits.rowsPerSectionMax) {
      findings.refuse(
        'too_many',
        `The section has ${rows.length} rows; at most ${planLimits.rowsPerSectionMax} are allowed.`,
        place,
      );
    }
    for (const row of rows) {
      if (row.seats.length <= planLimits.seatsPerRowMax) continue;
      findings.refuse(
        'too_many',
        `Row ${quoted(row.label)} has ${row.seats.length} seats; at most ${planLimits.seatsPerRowMax} are allowed.`,
        place,
      );
    }
  }
}
