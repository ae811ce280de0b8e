import type { PlanProblem, PlanWarning } from '../core/plan-report.ts';
import { planLimits } from '../core/seat-map.ts';

/** Gathers what is found while a file is read; lists are capped, counts are not. */
export interface Findings {
  refuse(code: string, sentence: string, place: string): void;
  warn(code: string, sentence: string, place: string, beforeSale?: boolean): void;
  readonly problems: PlanProblem[];
  /** All problems, also those beyond the list's cap. */
  problemCount(): number;
  warnings(): PlanWarning[];
}

export function createFindings(): Findings {
  const problems: PlanProblem[] = [];
  const warnings = new Map<string, PlanWarning>();
  let count = 0;
  return {
    problems,
    problemCount: () => count,
    warnings: () => [...warnings.values()],
    refuse(code, sentence, place) {
      count += 1;
      if (problems.length < planLimits.problemsListedMax) problems.push({ code, sentence, place });
    },
    warn(code, sentence, place, beforeSale = false) {
      let entry = warnings.get(code);
      if (!entry) {
        entry = { code, sentence, places: [], count: 0, beforeSale };
        warnings.set(code, entry);
      }
      entry.count += 1;
      if (place && entry.places.length < planLimits.warningPlacesMax) entry.places.push(place);
    },
  };
}

/** Shows a foreign text in a sentence without letting it break the line or flood the page. */
export function quoted(text: string): string {
  const plain = text.replace(/[\p{Cc}\p{Surrogate}]/gu, '\uFFFD');
  return `"${plain.length > 60 ? `${plain.slice(0, 60)}…` : plain}"`;
}
