import type { PlanProblem, PlanReport } from '../../src/core/plan-report.ts';
import type { changeOnSale, getEventControls } from '../../src/operate/events.ts';
import type { OutputOf } from '../../src/operate/operation.ts';
import type { listPlans } from '../../src/operate/plans.ts';

/** Responses of the organiser's routes, as far as this page reads them. */
export type PlanSummary = OutputOf<typeof listPlans>['plans'][number] & { known?: boolean };
export type Controls = Omit<OutputOf<typeof changeOnSale>, 'event'>;
type EventControls = OutputOf<typeof getEventControls>;
/** Without counts and status in a list. */
export type OrganiserEvent = Omit<EventControls, 'counts' | 'status'> &
  Partial<Pick<EventControls, 'counts' | 'status'>>;

export interface OrganiserRefund {
  refund: string;
  order: string;
  amount: number;
  currency: string;
  state: string;
  detail: string | null;
  createdAt: string;
}

export interface OrganiserOrder {
  order: string;
  event: string;
  state: string;
  buyer: { name: string; email: string };
  amount: number;
  currency: string;
  createdAt: string;
  /** Set for a single order only. */
  tickets?: {
    ticket: string;
    seat: number;
    place: { section: string; row: string; seat: string } | null;
    price: number;
    fee: number;
    /** Whether the gate admits the ticket. */
    valid: boolean;
    /** Not refunded yet. */
    refundable: boolean;
  }[];
  refunds?: OrganiserRefund[];
  /** Money that was taken without a sale and given back. */
  reversals?: {
    reversal: string;
    kind: 'refund' | 'dispute';
    amount: number;
    currency: string;
    state: string;
    createdAt: string;
  }[];
  returned?: { amount: number; at: string; object: string }[];
}

export interface CancellationProgress {
  state: 'running' | 'done';
  reason: string;
  perSecond: number;
  currency: string;
  /** Keyed by the refund's state. */
  refunds: Record<string, { refunds: number; amount: number }>;
  closed: number;
  left: number;
  ending: number;
  /** The orders that keep the run from ending. `waiting` is their number. */
  waitsFor: { order: string; entry: string; why: string; since: string }[];
  waiting: number;
}

/** An entry of the operator's list. */
export interface OpenPayment {
  entry: string;
  kind: string;
  title: string;
  means: string;
  charged: string;
  since: string;
  ageMs: number;
  operation: { kind: string; state: string; attempts: number } | null;
  order: string | null;
  orderState: string | null;
  event: string | null;
  seatNames: string[];
  amount: number | null;
  currency: string | null;
  captured: number | null;
  refunded: number | null;
  object: string | null;
  says: string | null;
  actions: { action: string; label: string; does: string; note: boolean }[];
}

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
