import type { PlanProblem, PlanReport } from '../../src/core/plan-report.ts';
import type { getCancellation } from '../../src/operate/cancellation.ts';
import type { getEntries } from '../../src/operate/entry.ts';
import type { changeOnSale, getEventControls } from '../../src/operate/events.ts';
import type { listMails } from '../../src/operate/mails.ts';
import type { OutputOf } from '../../src/operate/operation.ts';
import type { listOpenPayments } from '../../src/operate/payments.ts';
import type { listPlans } from '../../src/operate/plans.ts';
import type { findOrders, getOrder, retryRefund } from '../../src/operate/refunds.ts';

/** Responses of the organiser's routes, as far as this page reads them. */
export type PlanSummary = OutputOf<typeof listPlans>['plans'][number];
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
/** The operator's list, and an entry of it. */
export type OpenPaymentList = OutputOf<typeof listOpenPayments>;
export type OpenPayment = OpenPaymentList['entries'][number];

export type MailList = OutputOf<typeof listMails>;
export type Mail = MailList['mails'][number];
export type EntrySums = OutputOf<typeof getEntries>;

export type { PlanProblem, PlanReport };
