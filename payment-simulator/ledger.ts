import { card, fingerprint } from './render.ts';
import type { ChargeRow, DisputeRow, IntentRow, IntentStatus, RefundRow } from './rows.ts';
import type { State } from './state.ts';

/**
 * The ledger as tests and people read it: who paid what. Amounts are minor units, currencies upper case, times epoch
 * seconds. It is the oracle of every money test, so it says what is, in our words, without Stripe's corner cases.
 */
export interface Ledger {
  intents: LedgerIntent[];
  charges: LedgerCharge[];
  refunds: LedgerRefund[];
  disputes: LedgerDispute[];
  /** Per currency. */
  totals: Record<string, LedgerTotals>;
}

export interface LedgerIntent {
  id: string;
  created: number;
  /** Our order, from its metadata. */
  reference: string | null;
  event: string | null;
  /** The installation that made it, from its metadata. */
  installation: string | null;
  status: IntentStatus;
  amount: number;
  currency: string;
  /** Reserved and neither taken nor released. */
  authorised: number;
  captured: number;
  /** Given back of what was captured, refunds that are still pending included. */
  refunded: number;
  /** The part of `refunded` that is pending. */
  refundPending: number;
  /** Reserved once and released without being taken. */
  voided: number;
  confirmations: number;
  decline: string | null;
  cancellationReason: string | null;
}

export interface LedgerCharge {
  id: string;
  created: number;
  intent: string;
  reference: string | null;
  status: 'succeeded' | 'failed';
  amount: number;
  currency: string;
  captured: number;
  refunded: number;
  card: string;
  last4: string;
  fingerprint: string;
}

export interface LedgerRefund {
  id: string;
  created: number;
  intent: string;
  charge: string;
  reference: string | null;
  status: 'pending' | 'succeeded' | 'failed';
  amount: number;
  currency: string;
}

export interface LedgerDispute {
  id: string;
  created: number;
  intent: string;
  charge: string;
  status: DisputeRow['status'];
  amount: number;
  currency: string;
  /** The amount that was taken from the balance for it, without the fee. */
  withdrawn: number;
  fee: number;
}

export interface LedgerTotals {
  authorised: number;
  captured: number;
  refunded: number;
  /** captured − refunded. */
  net: number;
}

/** One payment, or all of one order, with what was charged and given back for it. */
export interface LedgerOf {
  intents: LedgerIntent[];
  charges: LedgerCharge[];
  refunds: LedgerRefund[];
  disputes: LedgerDispute[];
}

/** `of` is an intent's id or our reference. */
export function readLedgerOf(state: State, of: string): LedgerOf {
  const one = state.tables.intents.get(of);
  const rows = one ? [one] : [...state.tables.intents.values()].filter((row) => row.metadata.order === of);
  const ids = new Set(rows.map((row) => row.id));
  const refundRows = [...state.tables.refunds.values()].filter((row) => ids.has(row.intent));
  const pending = pendingByIntent(refundRows);
  return {
    intents: rows.map((row) => intentEntry(state, row, pending)),
    charges: [...state.tables.charges.values()]
      .filter((row) => ids.has(row.intent))
      .map((row) => chargeEntry(state, row)),
    refunds: refundRows.map(refundEntry),
    disputes: [...state.tables.disputes.values()].filter((row) => ids.has(row.intent)).map(disputeEntry),
  };
}

export function readLedger(state: State): Ledger {
  const totals: Record<string, LedgerTotals> = {};
  const pending = pendingByIntent(state.tables.refunds.values());
  const intents = [...state.tables.intents.values()].map((row) => intentEntry(state, row, pending));
  for (const entry of intents) addTo(totals, entry);
  return {
    intents,
    charges: [...state.tables.charges.values()].map((row) => chargeEntry(state, row)),
    refunds: [...state.tables.refunds.values()].map(refundEntry),
    disputes: [...state.tables.disputes.values()].map(disputeEntry),
    totals,
  };
}

function pendingByIntent(refunds: Iterable<RefundRow>): Map<string, number> {
  const sums = new Map<string, number>();
  for (const refund of refunds) {
    if (refund.status !== 'pending') continue;
    sums.set(refund.intent, (sums.get(refund.intent) ?? 0) + refund.amount);
  }
  return sums;
}

function intentEntry(state: State, intent: IntentRow, pending: Map<string, number>): LedgerIntent {
  const charge = intent.latestCharge ? state.tables.charges.get(intent.latestCharge) : undefined;
  return {
    id: intent.id,
    created: intent.created,
    reference: intent.metadata.order ?? null,
    event: intent.metadata.event ?? null,
    installation: intent.metadata.installation ?? null,
    status: intent.status,
    amount: intent.amount,
    currency: intent.currency.toUpperCase(),
    authorised: intent.status === 'requires_capture' ? intent.amount : 0,
    captured: intent.captured,
    refunded: charge?.captured ? charge.amountRefunded : 0,
    refundPending: pending.get(intent.id) ?? 0,
    voided: voided(intent, charge),
    confirmations: intent.tries,
    decline: intent.lastError ? (intent.lastError.declineCode ?? intent.lastError.code) : null,
    cancellationReason: intent.cancellationReason,
  };
}

/** A capture of less than was reserved releases the rest. */
function voided(intent: IntentRow, charge: ChargeRow | undefined): number {
  if (charge?.status !== 'succeeded') return 0;
  if (intent.status === 'canceled') return charge.amountRefunded;
  return charge.captured ? charge.amount - charge.amountCaptured : 0;
}

function addTo(totals: Record<string, LedgerTotals>, entry: LedgerIntent): void {
  const total = totals[entry.currency] ?? { authorised: 0, captured: 0, refunded: 0, net: 0 };
  total.authorised += entry.authorised;
  total.captured += entry.captured;
  total.refunded += entry.refunded;
  total.net = total.captured - total.refunded;
  totals[entry.currency] = total;
}

function chargeEntry(state: State, charge: ChargeRow): LedgerCharge {
  const test = card(state.tables.methods.get(charge.method)?.card ?? '');
  return {
    id: charge.id,
    created: charge.created,
    intent: charge.intent,
    reference: charge.metadata.order ?? null,
    status: charge.status,
    amount: charge.amount,
    currency: charge.currency.toUpperCase(),
    captured: charge.amountCaptured,
    refunded: charge.captured ? charge.amountRefunded : 0,
    card: test.name,
    last4: test.number.slice(-4),
    fingerprint: fingerprint(test),
  };
}

function disputeEntry(dispute: DisputeRow): LedgerDispute {
  const { id, created, intent, charge, status, amount, fee } = dispute;
  const withdrawn = dispute.reinstated ? 0 : dispute.withdrawn;
  return {
    id,
    created,
    intent,
    charge,
    status,
    amount,
    currency: dispute.currency.toUpperCase(),
    withdrawn,
    fee,
  };
}

function refundEntry(refund: RefundRow): LedgerRefund {
  return {
    id: refund.id,
    created: refund.created,
    intent: refund.intent,
    charge: refund.charge,
    reference: refund.metadata.refund ?? null,
    status: refund.status,
    amount: refund.amount,
    currency: refund.currency.toUpperCase(),
  };
}
