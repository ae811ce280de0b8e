import type { Phase } from '../../src/core/phase.ts';
import type { PlanProblem, PlanReport } from '../../src/core/plan-report.ts';
import type { CountsObject, StatusObject } from '../../src/http/api-types.ts';

/** What the organiser's routes answer, as far as this page reads it. */
export interface PlanSummary {
  plan: string;
  name: string;
  version: number;
  report: PlanReport;
  createdAt: string;
  known?: boolean;
}

export interface Controls {
  phase: Phase;
  version: number;
  message: string | null;
  rateCeiling: number | null;
}

export interface OrganiserEvent extends Controls {
  id: string;
  name: string;
  plan: string;
  currency: string;
  onSaleAt: string | null;
  layoutHash: string | null;
  seatCount: number;
  prices: Record<string, number>;
  counts?: CountsObject | null;
  status?: StatusObject | null;
}

export type { PlanProblem, PlanReport };
