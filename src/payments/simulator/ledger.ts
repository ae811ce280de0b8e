import { card, fingerprint } from './render.ts';
import type { IntentStatus } from './rows.ts';
import type { State } from './state.ts';

/**
 * The ledger as tests and people read it: who paid what. Amounts are minor units, currencies upper case, times epoch
 * seconds. It is the oracle of every money test, so it says what is, in our words, without Stripe's corner cases.
 */
export interface Ledger {
  intents: LedgerIntent[];
  charges: LedgerCharge[];
  refunds: LedgerRefund[];
  /** Per currency. */
  totals: Record<string, LedgerTotals>;
}

export interface LedgerIntent {
  id: string;
  created: number;
  /** Our order, from its metadata. */
  reference: string | null;
  event: string | null;
  status: IntentStatus;
  amount: number;
  currency: string;
  /** Reserved and neither taken nor released. */
  authorised: number;
  captured: number;
  refunded: number;
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

export interface LedgerTotals {
  authorised: number;
  captured: number;
  refunded: number;
  /** captured − refunded. */
  net: number;
}

export function readLedger(state: State): Ledger {
  const totals: Record<string, LedgerTotals> = {};
  const intents = [...state.tables.intents.values()].map((intent): LedgerIntent => {
    const charge = intent.latestCharge ? state.tables.charges.get(intent.latestCharge) : undefined;
    const entry: LedgerIntent = {
      id: intent.id,
      created: intent.created,
      reference: intent.metadata.order ?? null,
      event: intent.metadata.event ?? null,
      status: intent.status,
      amount: intent.amount,
      currency: intent.currency.toUpperCase(),
      authorised: intent.status === 'requires_capture' ? intent.amount : 0,
      captured: intent.captured,
      refunded: charge?.captured ? charge.amountRefunded : 0,
      confirmations: intent.tries,
      decline: intent.lastError ? (intent.lastError.declineCode ?? intent.lastError.code) : null,
      cancellationReason: intent.cancellationReason,
    };
    addTo(totals, entry);
    return entry;
  });
  return { intents, charges: charges(state), refunds: refunds(state), totals };
}

function addTo(totals: Record<string, LedgerTotals>, entry: LedgerIntent): void {
  const total = totals[entry.currency] ?? { authorised: 0, captured: 0, refunded: 0, net: 0 };
  total.authorised += entry.authorised;
  total.captured += entry.captured;
  total.refunded += entry.refunded;
  total.net = total.captured - total.refunded;
  totals[entry.currency] = total;
}

function charges(state: State): LedgerCharge[] {
  return [...state.tables.charges.values()].map((charge) => {
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
  });
}

function refunds(state: State): LedgerRefund[] {
  return [...state.tables.refunds.values()].map((refund) => ({
    id: refund.id,
    created: refund.created,
    intent: refund.intent,
    charge: refund.charge,
    reference: refund.metadata.refund ?? null,
    status: refund.status,
    amount: refund.amount,
    currency: refund.currency.toUpperCase(),
  }));
}
