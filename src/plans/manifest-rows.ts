import type { SeatAttribute } from '../core/seat-map.ts';
import { type Findings, quoted } from './findings.ts';
import { comparable } from './labels.ts';
import { createGuids } from './manifest-guids.ts';
import { jumpsInRow } from './seat-ranges.ts';

/** A seat of a manifest before it has a place in a drawing. */
export interface LooseSeat {
  label: string;
  line: number;
  guid: string;
  category: string;
  attributes: SeatAttribute[];
  breakAfter: boolean;
  x: number;
  y: number;
}

export interface LooseRow {
  label: string;
  /** Set from the second row on if several rows of one section have the same label. */
  repeat: number;
  seats: LooseSeat[];
  firstRecord: number;
  lastRecord: number;
}

export interface LooseSection {
  name: string;
  group: string;
  /** The section's own part of a derived seatGuid. */
  key: string;
  rows: Map<string, LooseRow[]>;
  /** How often a row and seat label came already. */
  taken: Map<string, number>;
  /** Category → units, for lines with a capacity and no seat. */
  standing: Map<string, number>;
}

/** A label as a part of a derived seatGuid. */
export function escaped(text: string): string {
  return comparable(text).replace(/[%/~#]/g, (c) => `%${c.charCodeAt(0).toString(16)}`);
}

/** A label that the row already has belongs to another row of the same name: `settleRepeats` judges whether that is so. */
export function addSeat(section: LooseSection, label: string, record: number, seat: LooseSeat): void {
  const key = comparable(label);
  let instances = section.rows.get(key);
  if (!instances) {
    instances = [];
    section.rows.set(key, instances);
  }
  const seatKey = `${key}\u0000${comparable(seat.label)}`;
  const times = section.taken.get(seatKey) ?? 0;
  section.taken.set(seatKey, times + 1);
  // The second time goes to the second row of that label, and so on.
  let row = instances[times];
  if (!row) {
    row = { label, repeat: times + 1, seats: [], firstRecord: record, lastRecord: record };
    instances.push(row);
  }
  row.seats.push(seat);
  row.lastRecord = record;
}

/**
 * Without ids, a repeated label is either another row of the same name (a whole block of at least two seats,
 * listed together) or a repeated line, which would sell one chair twice.
 */
export function settleRepeats(section: LooseSection, findings: Findings): void {
  for (const instances of section.rows.values()) {
    for (const row of instances.slice(1)) {
      const together = row.lastRecord - row.firstRecord < row.seats.length;
      if (row.seats.length >= 2 && together) {
        findings.warn(
          'repeated_row',
          'A row label stands for several rows of one section; they were told apart by their order. Name them apart before the sale.',
          `lines ${row.seats[0]!.line} to ${row.seats.at(-1)!.line}`,
          true,
        );
        continue;
      }
      for (const seat of row.seats) {
        findings.refuse(
          'duplicate_seat',
          `Section ${quoted(section.name)}, row ${quoted(row.label)}, seat ${quoted(seat.label)} stands on an earlier line already; remove one, or add an id column.`,
          `line ${seat.line}`,
        );
      }
    }
  }
}

/** Identity from the labels alone where the file has no ids, so that the same labels give the same seats at each import. */
export function giveGuids(sections: readonly LooseSection[], findings: Findings): void {
  const guids = createGuids(findings);
  for (const section of sections) {
    for (const [rowKey, instances] of section.rows) {
      for (const row of instances) {
        const rowPart = escaped(rowKey) + (row.repeat > 1 ? `~${row.repeat}` : '');
        for (const seat of row.seats) {
          seat.guid = guids.take(seat.guid || `${section.key}/${rowPart}/${escaped(seat.label)}`, seat.line);
        }
      }
    }
  }
}

export function assumeGaps(section: LooseSection, findings: Findings): void {
  for (const row of [...section.rows.values()].flat()) {
    jumpsInRow(row.seats.map((seat) => seat.label)).forEach((jump, i) => {
      const seat = row.seats[i]!;
      if (!jump || seat.breakAfter) return;
      seat.breakAfter = true;
      findings.warn(
        'assumed_gap',
        'Where numbers jump inside a row an aisle or gap is assumed; seats on both sides are no neighbours.',
        `line ${seat.line}`,
      );
    });
  }
}

/** A column that counts seats instead of naming them gives one seat a row. */
export function warnOfCounts(sections: readonly LooseSection[], findings: Findings): void {
  const rows = sections.flatMap((section) => [...section.rows.values()].flat());
  const single = rows.filter((row) => row.seats.length === 1 && /^\d+$/.test(row.seats[0]!.label)).length;
  if (rows.length >= 10 && single > rows.length * 0.9) {
    findings.warn(
      'probably_counts',
      'Nearly every row has a single seat: does the seat column count seats instead of naming them?',
      'line 2',
      true,
    );
  }
}
