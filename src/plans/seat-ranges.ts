import { planLimits } from '../core/seat-map.ts';

/** A seat cell taken apart: one label, or the labels of a list of ranges with the places after which a number is left out. */
export interface SeatCell {
  labels: string[];
  breaks: Set<number>;
  /** True when the cell was a list or a range and not one label. */
  expanded: boolean;
}

const part = /^\s*(\d{1,6})\s*(?:[-–—]\s*(\d{1,6})\s*)?$/;

/**
 * "1-10,12-16" names 15 seats with a gap after the tenth; "7" and "1_DA" are one label each, exactly as written. A range may
 * run downwards. "01-10" keeps its zeros. Returns null if the cell names more seats than a row may have.
 */
export function readSeatCell(cell: string): SeatCell | null {
  const parts = cell.split(/[,;]/).map((text) => part.exec(text));
  const isList = parts.every((match) => match !== null) && (parts.length > 1 || parts[0]![2] !== undefined);
  if (!isList) return { labels: [cell], breaks: new Set(), expanded: false };
  const labels: string[] = [];
  const breaks = new Set<number>();
  let wasRange = false;
  let before = Number.NaN;
  for (const match of parts) {
    const from = match![1]!;
    const to = match![2] ?? from;
    const isRange = match![2] !== undefined;
    // Odd and even numbers listed one by one are neighbours; what lies between two ranges is a gap.
    if (labels.length > 0 && (isRange || wasRange) && Math.abs(Number(from) - before) > 1)
      breaks.add(labels.length - 1);
    const step = Number(from) <= Number(to) ? 1 : -1;
    const count = Math.abs(Number(to) - Number(from)) + 1;
    if (labels.length + count > planLimits.seatsPerRowMax) return null;
    const width = from.startsWith('0') && from.length === to.length ? from.length : 0;
    for (let i = 0; i < count; i++) labels.push(String(Number(from) + i * step).padStart(width, '0'));
    wasRange = isRange;
    before = Number(to);
  }
  if (labels.length === 1 && parts.length === 1) return { labels: [parts[0]![1]!], breaks, expanded: true };
  return { labels, breaks, expanded: true };
}

/**
 * After which seats of a row without positions a gap must be assumed: where the number jumps farther than the
 * row's usual step. Odd and even sides step by two. A turn in the middle (5 3 1 2 4 6) is not a jump. Labels
 * that are not numbers say nothing about gaps.
 */
export function jumpsInRow(labels: readonly string[]): boolean[] {
  if (labels.length < 3) return labels.map(() => false);
  const numbers = labels.map((label) => (/^\d{1,6}$/.test(label) ? Number(label) : Number.NaN));
  const counts = new Map<number, number>();
  for (let i = 1; i < numbers.length; i++) {
    const step = Math.abs(numbers[i]! - numbers[i - 1]!);
    if (!Number.isNaN(step)) counts.set(step, (counts.get(step) ?? 0) + 1);
  }
  const usual = [...counts].reduce(
    (best, entry) => (entry[1] > best[1] ? entry : best),
    [Number.POSITIVE_INFINITY, 0],
  )[0];
  return numbers.map((number, i) => {
    const step = Math.abs((numbers[i + 1] ?? Number.NaN) - number);
    return !Number.isNaN(step) && step > usual;
  });
}
