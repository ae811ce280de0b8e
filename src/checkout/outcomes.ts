import type { EventNo, Hold, OrderId, Visitor } from '../core/hold.ts';
import type { Phase } from '../core/phase.ts';
import type { CodeRefusal, Order, OrderLine, ReachedLimit, StoredEvent } from '../orders/record.ts';
import type { DeclineCode } from '../payments/provider.ts';

/** The purchase from a hold on, as the HTTP layer calls it; `createCheckout` in checkout.ts implements it. */
export interface Checkout {
  /**
   * Extends the hold at the arbiter, then reserves in Postgres. The hold identifies the order, so every repeat returns the same
   * one (P1).
   */
  reserve(command: {
    hold: Hold;
    /** Prices as the hold's answer showed them, one line a seat. */
    lines: OrderLine[];
    orderFee: number;
    currency: string;
    account: string;
    buyer: { name: string; email: string };
    /** Id of the access code that these seats need. */
    accessCode?: string | null;
  }): Promise<CheckoutReserveOutcome>;
  /** authorise → confirm → capture, as far as it gets now; the reconciler finishes what is left. */
  pay(command: PayCommand): Promise<PayOutcome>;
  /**
   * Looks the payment up and continues it, after the bank's page or a timeout. Repeatable: the provider is asked at most once per
   * back-off. In between the stored state is returned.
   */
  refresh(order: OrderId): Promise<PayOutcome>;
  /** Closes an unpaid order and frees its seats; a payment that waits for the bank is ended with it. */
  close(order: OrderId): Promise<CloseOutcome>;
  /**
   * Gives back a hold that is bound to an order which may never have been reserved: the order is written as closed first, so
   * that a reserve on its way loses. `ordered`: it exists, and is `close`'s to end.
   */
  abandon(hold: Hold): Promise<{ kind: 'released' } | { kind: 'ordered'; order: Order }>;
  find(order: OrderId): Promise<Order | null>;
  /** The visitor's unpaid order in the event, for a page that was reloaded. */
  findOpen(event: EventNo, visitor: Visitor): Promise<Order | null>;
  /** Stores a provider's event (twice is once), to be looked at by the inbox (P6). */
  providerEvent(event: StoredEvent): Promise<void>;
}

export type CheckoutReserveOutcome =
  | { kind: 'order'; order: Order; repeated: boolean }
  | { kind: 'hold_gone' }
  | { kind: 'open_order'; order: OrderId }
  | { kind: 'limit'; limit: ReachedLimit; max: number; used: number }
  | { kind: 'code'; why: CodeRefusal; seatsMax: number | null }
  | { kind: 'not_open'; phase: Phase }
  | { kind: 'retry'; afterMs: number };

export interface PayCommand {
  order: OrderId;
  /** The buyer's Idempotency-Key and a hash of what came with it. */
  clientKey: string;
  request: string;
  instrument: { paymentMethod: string } | { confirmationToken: string };
  returnUrl: string;
}

export type PayOutcome =
  /** Captured, or sold with the capture on its way (`order.state` says which). */
  | { kind: 'bought'; order: Order }
  /** The bank needs the buyer (`action`), or the result is not known yet. Call `refresh` again. */
  | { kind: 'pending'; order: Order; action: { url: string } | null; afterMs: number }
  /** Reserved, and nothing under way: the buyer may pay. */
  | { kind: 'unpaid'; order: Order }
  /** The payment could not even be opened: no card was tried. It goes on being opened; ask again. */
  | { kind: 'unavailable'; order: Order; afterMs: number }
  /** Finally refused; another card may be tried until the deadline. */
  | { kind: 'declined'; order: Order; decline: DeclineCode }
  /** The order has ended without a sale; nothing was charged. */
  | { kind: 'ended'; order: Order }
  /** The same key came with another body. */
  | { kind: 'mismatch' }
  /** Another payment of this order is under way. */
  | { kind: 'under_way'; order: Order }
  | { kind: 'unknown_order' };

export type CloseOutcome =
  | { kind: 'closed'; order: Order }
  /** It has ended and its seats are free; the reservation of its money is still being lifted. Nothing will be charged. */
  | { kind: 'closing'; order: Order }
  | { kind: 'under_way'; order: Order }
  /** Paid or confirmed: a refund is the organiser's act. */
  | { kind: 'bought'; order: Order }
  | { kind: 'unknown_order' };
