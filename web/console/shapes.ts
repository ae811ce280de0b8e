import type { PlanProblem, PlanReport } from '../../src/core/plan-report.ts';
import type { getCancellation } from '../../src/operate/cancellation.ts';
import type { changeOnSale, getEventControls } from '../../src/operate/events.ts';
import type { OutputOf } from '../../src/operate/operation.ts';
import type { listOpenPayments } from '../../src/operate/payments.ts';
import type { listPlans } from '../../src/operate/plans.ts';
import type { findOrders, getOrder, retryRefund } from '../../src/operate/refunds.ts';

/** Responses of the organiser's routes, as far as this page reads them. */
export type PlanSummary = OutputOf<typeof listPlans>['plans'][number] & { known?: boolean };
export type Controls = Omit<OutputOf<typeof changeOnSale>, 'event'>;
type EventControls = OutputOf<typeof getEventControls>;
/** Without counts and status in a list. */
export type OrganiserEvent = Omit<EventControls, 'counts' | 'status'> &
  Partial<Pick<EventControls, 'counts' | 'status'>>;

export type OrganiserRefund = OutputOf<typeof retryRefund>;
/** Without tickets, refunds and what left its payment in a list. */
export type OrganiserOrder = OutputOf<typeof findOrders>['orders'][number] &
  Partial<OutputOf<typeof getOrder>>;
export type CancellationProgress = OutputOf<typeof getCancellation>;
/** An entry of the operator's list. */
export type OpenPayment = OutputOf<typeof listOpenPayments>['entries'][number];

export interface MailSheet {
  mail: string;
  order: string;
  event: string;
  what: string;
  state: 'due' | 'sent' | 'refused' | 'not_needed';
  attempts: number;
  error: string | null;
  createdAt: string;
  copyOf: string | null;
  /** Time of the next attempt. Null if there is no automatic one. */
  nextAt: string | null;
}

export interface EntryPlace {
  section: string;
  row: string;
  number: string;
}

export interface EntrySums {
  entered: number;
  tickets: number;
  /** Came in with a ticket that was valid no more. */
  revoked: number;
  gates: { gate: string | null; entered: number; lastAt: string }[];
  doubleUses: {
    ticket: string;
    seat: EntryPlace | null;
    uses: { at: string; gate: string | null; actor: string }[];
  }[];
}

export type { PlanProblem, PlanReport };
