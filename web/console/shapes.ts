import type { PlanProblem, PlanReport } from '../../src/core/plan-report.ts';
import type { getCancellation } from '../../src/operate/cancellation.ts';
import type { checkIn, getEntries } from '../../src/operate/entry.ts';
import type { changeOnSale, getEventControls } from '../../src/operate/events.ts';
import type { getMail } from '../../src/operate/mails.ts';
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

export type Mail = OutputOf<typeof getMail>;
export type EntrySums = OutputOf<typeof getEntries>;
export type EntryPlace = Omit<NonNullable<OutputOf<typeof checkIn>['seat']>, 'seat'>;

export type { PlanProblem, PlanReport };
