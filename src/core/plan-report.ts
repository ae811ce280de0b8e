import { type PlanBounds, planBounds } from './plan-layout.ts';
import type { SeatingPlan } from './seat-map.ts';

/** A reason to refuse a file: what is wrong, where, and what to do about it. */
export interface PlanProblem {
  /** Stable, for programs. */
  code: string;
  /** For the person who has to fix the file. */
  sentence: string;
  /** JSON path (`$.zones[0].rows[3]`) or `line 17`. */
  place: string;
}

/** Something odd that does not stop an import. */
export interface PlanWarning {
  code: string;
  sentence: string;
  /** The first `planLimits.warningPlacesMax` places. */
  places: string[];
  count: number;
  /** True when the organiser must settle it before the seats are put on sale. */
  beforeSale: boolean;
}

/** The contents of a plan, counted. Stated capacities are not used because they are often wrong. */
export interface PlanReport {
  name: string;
  /** Everything that can be sold: numbered seats and GA units together. */
  seats: number;
  numberedSeats: number;
  gaUnits: number;
  sections: number;
  rows: number;
  categories: { name: string; seats: number }[];
  perSection: {
    id: string;
    name: string;
    group: string;
    kind: 'seated' | 'ga';
    rows: number;
    seats: number;
    sellAsUnit: boolean;
  }[];
  attributes: { accessible: number; companion: number; restrictedView: number };
  /** In plan units; null for a plan without seats. */
  bounds: PlanBounds | null;
  warnings: PlanWarning[];
}

export function reportPlan(plan: SeatingPlan, warnings: PlanWarning[]): PlanReport {
  const perCategory = new Map(plan.categories.map((category) => [category.name, 0]));
  const count = (category: string, seats: number): void => {
    perCategory.set(category, (perCategory.get(category) ?? 0) + seats);
  };
  const attributes = { accessible: 0, companion: 0, restrictedView: 0 };
  const perSection = plan.sections.map((section) => {
    let seats = 0;
    for (const row of section.rows) {
      seats += row.seats.length;
      for (const seat of row.seats) {
        count(seat.category, 1);
        if (seat.attributes.includes('accessible')) attributes.accessible += 1;
        if (seat.attributes.includes('companion')) attributes.companion += 1;
        if (seat.attributes.includes('restricted-view')) attributes.restrictedView += 1;
      }
    }
    const { id, name, group, kind, sellAsUnit } = section;
    if (kind === 'ga') {
      seats = section.capacity;
      count(section.category, seats);
    }
    return { id, name, group, kind, rows: section.rows.length, seats, sellAsUnit };
  });
  const seats = perSection.reduce((sum, section) => sum + section.seats, 0);
  const gaUnits = perSection.reduce((sum, section) => sum + (section.kind === 'ga' ? section.seats : 0), 0);
  return {
    name: plan.name,
    seats,
    numberedSeats: seats - gaUnits,
    gaUnits,
    sections: perSection.length,
    rows: perSection.reduce((sum, section) => sum + section.rows, 0),
    categories: [...perCategory].map(([name, n]) => ({ name, seats: n })),
    perSection,
    attributes,
    bounds: planBounds(plan),
    warnings,
  };
}
