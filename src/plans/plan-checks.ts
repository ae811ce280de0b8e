import type { PlanSection, SeatingPlan } from '../core/seat-map.ts';
import type { Findings } from './findings.ts';
import { comparable } from './labels.ts';

/** Oddities that are the same whatever file a plan came from. Refuses a plan without anything to sell. */
export function checkPlan(plan: SeatingPlan, findings: Findings): void {
  let seats = 0;
  for (const section of plan.sections) {
    const count = section.rows.reduce((n, row) => n + row.seats.length, 0) + section.capacity;
    seats += count;
    if (count === 0) {
      findings.warn(
        'empty_section',
        'Sections without seats are kept; give them a capacity if people stand there.',
        placeOf(section),
      );
    }
    checkRows(section, findings);
  }
  if (seats === 0 && findings.problemCount() === 0) {
    findings.refuse(
      'no_seats',
      'The plan has no seat and no area with a capacity; there is nothing to sell.',
      '$',
    );
  }
  checkLabels(plan, findings);
  checkPositions(plan, findings);
  checkCategories(plan, findings);
}

function placeOf(section: PlanSection): string {
  return `section ${section.name}${section.group ? ` (${section.group})` : ''}`;
}

function checkRows(section: PlanSection, findings: Findings): void {
  let blankSeats = 0;
  let seats = 0;
  for (const row of section.rows) {
    if (row.seats.length === 0) {
      findings.warn('empty_row', 'Rows without seats are kept.', `${placeOf(section)}, row ${row.label}`);
    }
    seats += row.seats.length;
    if (row.label.trim() === '') blankSeats += row.seats.length;
  }
  if (blankSeats === 0) return;
  if (blankSeats === seats && seats >= 100) {
    findings.warn(
      'probably_ga',
      'Large sections without row labels are often standing areas drawn as seats; if so, make them an area with a capacity.',
      placeOf(section),
    );
  } else {
    findings.warn('blank_rows', 'Rows without a label are shown without one.', placeOf(section));
  }
}

/** Two seats that print the same ticket cannot be told apart at the entrance. */
function checkLabels(plan: SeatingPlan, findings: Findings): void {
  const seen = new Set<string>();
  for (const section of plan.sections) {
    const name = comparable(`${section.group}\u0000${section.name}`);
    for (const row of section.rows) {
      const rowName = comparable(row.label);
      for (const seat of row.seats) {
        const key = `${name}\u0000${rowName}\u0000${comparable(seat.label)}`;
        if (seen.has(key)) {
          findings.warn(
            'ambiguous_labels',
            'Seats with the same section, row and number cannot be told apart on a ticket; rename a section or a row before the sale.',
            `${placeOf(section)}, row ${row.label}, seat ${seat.label}`,
            true,
          );
        }
        seen.add(key);
      }
    }
  }
}

function checkPositions(plan: SeatingPlan, findings: Findings): void {
  const taken = new Set<string>();
  const xs: number[] = [];
  const ys: number[] = [];
  for (const section of plan.sections) {
    for (const row of section.rows) {
      for (const seat of row.seats) {
        const key = `${Math.round(seat.x * 10)}:${Math.round(seat.y * 10)}`;
        const place = () => `${placeOf(section)}, row ${row.label}, seat ${seat.label}`;
        if (taken.has(key))
          findings.warn(
            'overlap',
            'Seats stand on the same point; only the last is seen in the drawing.',
            place(),
          );
        taken.add(key);
        if (seat.x < 0 || seat.y < 0 || seat.x > plan.width || seat.y > plan.height) {
          findings.warn(
            'outside_size',
            'Seats lie outside the stated size; the drawing is widened to hold them.',
            place(),
          );
        }
        xs.push(seat.x);
        ys.push(seat.y);
      }
    }
  }
  if (isStretched(xs) || isStretched(ys)) {
    findings.warn(
      'far_apart',
      'Some seats lie very far from all others, so that the drawing shows little; look at their positions.',
      '',
    );
  }
}

/** True when a few values make the whole range many times wider than nine tenths of the values need. */
function isStretched(values: number[]): boolean {
  if (values.length < 20) return false;
  values.sort((a, b) => a - b);
  const bulk = values[Math.floor(values.length * 0.95)]! - values[Math.floor(values.length * 0.05)]!;
  return values.at(-1)! - values[0]! > Math.max(bulk, 100) * 10;
}

function checkCategories(plan: SeatingPlan, findings: Findings): void {
  const used = new Set<string>();
  for (const section of plan.sections) {
    if (section.kind === 'ga') used.add(section.category);
    for (const row of section.rows) for (const seat of row.seats) used.add(seat.category);
  }
  plan.categories.forEach(({ name }, i) => {
    if (!used.has(name))
      findings.warn(
        'unused_category',
        'Categories without a seat need no price.',
        `$.categories[${i}] ${name}`,
      );
  });
}
