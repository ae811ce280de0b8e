import { impossible } from '../core/outcome.ts';
import type { MoneyOperation, Order } from '../orders/record.ts';
import type { DeclineCode } from '../payments/provider.ts';
import type { PayOutcome } from './outcomes.ts';
import { gapOf, type Standing } from './steps.ts';

/** A page asks again after this long while a payment is under way, ms; after each look at the provider twice as long. */
const askAgainMs = 1_500;
const askAgainMaxMs = 10_000;

/** The buyer's view of an order and its payment. */
export function outcomeOf({ order, operation }: Standing): PayOutcome {
  if (order.state !== 'reserved') return outcomeOfOrder(order);
  if (isOpening(operation)) return outcomeOfOpening({ order, operation });
  switch (operation.state) {
    case 'waiting':
      return pending(order, operation.answer?.view?.action ?? null, operation);
    case 'open':
    case 'unknown':
    case 'ending':
      return pending(order, null, operation);
    case 'refused':
    case 'voided':
    case 'done':
      return { kind: 'declined', order, decline: declineOf(operation) };
    default:
      return impossible(operation.state, 'operation state');
  }
}

/** An opening alone tries no card. */
function outcomeOfOpening({ order, operation }: Standing): PayOutcome {
  switch (operation.state) {
    case 'open':
    case 'ending':
      return pending(order, null, operation);
    case 'waiting':
    case 'unknown':
    case 'refused':
      return { kind: 'unavailable', order, afterMs: gapOf(operation) };
    case 'done':
    case 'voided':
      return { kind: 'unpaid', order };
    default:
      return impossible(operation.state, 'operation state');
  }
}

export function isOpening({ kind }: MoneyOperation): boolean {
  return kind === 'open';
}

export function outcomeOfOrder(order: Order): PayOutcome {
  switch (order.state) {
    case 'confirmed':
    case 'paid':
      return { kind: 'bought', order };
    case 'voiding':
    case 'closed':
    case 'cancelled':
      return { kind: 'ended', order };
    case 'reserved':
      return { kind: 'unpaid', order };
    case 'authorised':
      return pending(order, null);
    default:
      return impossible(order.state, 'order state');
  }
}

function pending(order: Order, action: { url: string } | null, operation?: MoneyOperation): PayOutcome {
  const looks = Math.min(Math.max((operation?.attempts ?? 1) - 1, 0), 5);
  return { kind: 'pending', order, action, afterMs: Math.min(askAgainMaxMs, askAgainMs * 2 ** looks) };
}

function declineOf(operation: MoneyOperation): DeclineCode {
  return (operation.answer?.decline as DeclineCode | undefined) ?? 'processing_error';
}
