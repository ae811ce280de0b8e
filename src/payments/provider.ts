/**
 * The payment provider's port. Each write carries OUR idempotency key, stored in Postgres before the call (P5): a network
 * retry repeats it, a new try after a final decline gets a new one.
 *
 * Each call answers one of four things and never throws for what a provider or network can do:
 * - `done`     the provider's final word for this call, with the object as it now is
 * - `pending`  accepted, but the end lies elsewhere: the buyer (3-D Secure, `view.action`) or the provider itself
 * - `refused`  finally refused; nothing was done by this call and the same key would only repeat the refusal
 * - `unknown`  the result is not known: time-outs, dropped connections, 5xx (a replayed one too), idempotency conflicts, rate limits.
 *              Retry with the same key, or look the object up. "Not found" is no verdict.
 */
export interface PaymentProvider {
  readonly name: string;
  readonly capabilities: ProviderCapabilities;
  /** Opens a payment object for an order; moves no money. `reference` is our order id and comes back in every view. */
  open(command: OpenCommand): Promise<ProviderAnswer>;
  /** Tries to reserve the money on a card. After `refused` the object can be tried again with another card and key. */
  authorise(command: AuthoriseCommand): Promise<ProviderAnswer>;
  /** Takes the reserved money, whole. */
  capture(command: CaptureCommand): Promise<ProviderAnswer>;
  /**
   * Ends the object: releases a reservation or closes an unpaid object. `done` only when the view is `cancelled`;
   * `refused` when it can no longer be cancelled (already captured): the view tells.
   */
  void(command: VoidCommand): Promise<ProviderAnswer>;
  /** Gives captured money back, whole or in part, minor units. */
  refund(command: RefundCommand): Promise<RefundAnswer>;
  /** All refunds of a captured object as they now stand, in any order, each with the reference that it was asked with. */
  refunds(object: ProviderObjectId): Promise<RefundsAnswer>;
  /** All disputes (chargebacks, inquiries) of a captured object as they now stand, in any order. */
  disputes(object: ProviderObjectId): Promise<DisputesAnswer>;
  /** The object's present state by the provider's id: `done` with a view of any status, or `unknown`. */
  lookup(object: ProviderObjectId): Promise<ProviderAnswer>;
  /**
   * All of the account's payment objects that were opened in a window, newest first, page by page: for comparing, never for a
   * verdict about one of them. What is opened while the pages are read may be missing.
   */
  list(query: ListQuery): Promise<ListAnswer>;
  /** All of the account's refunds that were made in a window, newest first, page by page. */
  listRefunds(query: ListQuery): Promise<PageAnswer<RefundView>>;
  /** All of the account's disputes that were opened in a window, newest first, page by page. */
  listDisputes(query: ListQuery): Promise<PageAnswer<DisputeView>>;
  /** Checks the signature over the raw bytes; null when it is forged, stale or malformed. */
  parseWebhook(rawBody: Uint8Array, signature: string | undefined): ProviderEvent | null;
  /** Whether an event of this type may be about money that went back or is disputed. */
  tellsOfMoneyBack(type: string): boolean;
  /** Cheap reachability probe for `doctor` and `/readyz`. */
  ping(): Promise<{ ok: true } | { ok: false; reason: string }>;
}

export type ProviderObjectId = string;

export interface ProviderCapabilities {
  hold: boolean;
  partialCapture: boolean;
  voidIsFinal: boolean;
  /** How long a reservation usually stands, seconds (Stripe, online card: 7 days); `captureBefore` of the view decides. */
  windowSeconds: number;
}

export interface OpenCommand {
  key: string;
  /** Our order id. */
  reference: string;
  eventId: string;
  /** Minor units of `currency`. */
  amount: number;
  /** ISO 4217, upper case. */
  currency: string;
  description: string;
  email: string;
}

export interface AuthoriseCommand {
  key: string;
  object: ProviderObjectId;
  /** A payment method's id or a confirmation token's: card data itself never reaches us. */
  instrument: { paymentMethod: string } | { confirmationToken: string };
  /** Where the bank sends the buyer back to after authentication. */
  returnUrl: string;
}

export interface CaptureCommand {
  key: string;
  object: ProviderObjectId;
  amount: number;
}

export interface VoidCommand {
  key: string;
  object: ProviderObjectId;
}

export interface RefundCommand {
  key: string;
  object: ProviderObjectId;
  amount: number;
  /** Our id of the refund operation; comes back in the refund. */
  reference: string;
}

export type PaymentStatus =
  /** Open, no money reserved; a try may be made (also after a decline). */
  | 'new'
  /** Waits for the buyer's bank (3-D Secure). */
  | 'waiting'
  /** The provider is still at it. */
  | 'processing'
  /** Money reserved, not taken. */
  | 'authorised'
  | 'captured'
  | 'cancelled';

/**
 * Whose payment it is by the mark that each installation leaves in it. `unmarked`: it names an order and no installation, as ours
 * did before they were marked. `others`: another installation's, or of another program.
 */
export type MadeBy = 'us' | 'others' | 'unmarked';

export interface PaymentView {
  object: ProviderObjectId;
  status: PaymentStatus;
  /** Minor units. An answer is believed only if amount, currency and reference match ours (P6). */
  amount: number;
  currency: string;
  reference: string;
  madeBy: MadeBy;
  /** Minor units that were taken / given back so far. */
  captured: number;
  refunded: number;
  /** Where to send the buyer while `waiting`. */
  action: { url: string } | null;
  /** Epoch ms until which the reservation can be captured; null when none stands. */
  captureBefore: number | null;
  instrument: { fingerprint: string; brand: string; last4: string } | null;
  /** Why the last try failed, ours (see `DeclineCode`); null when it did not. */
  decline: DeclineCode | null;
}

/** The reason that the buyer may see. Lost, stolen and fraud reasons are all `declined`. */
export type DeclineCode =
  | 'declined'
  | 'insufficient_funds'
  | 'expired_card'
  | 'incorrect_cvc'
  | 'processing_error'
  | 'authentication_failed'
  | 'invalid_instrument'
  /** The provider refused the request itself: no card was tried. */
  | 'not_tried';

export type ProviderAnswer =
  | { kind: 'done'; view: PaymentView }
  | { kind: 'pending'; view: PaymentView }
  | { kind: 'refused'; decline: DeclineCode; detail: string; view: PaymentView | null }
  | { kind: 'unknown'; reason: UnknownReason; detail: string };

export interface ListQuery {
  /** Epoch ms, both included. */
  createdFrom: number;
  createdTo: number;
  /** The `next` of the previous page. Null for the first page. */
  cursor: string | null;
}

export interface ListedPayment {
  object: ProviderObjectId;
  /** Epoch ms by the provider's clock. */
  createdAt: number;
  /** Null for a state that this program does not know. */
  view: PaymentView | null;
}

export type ListAnswer =
  | { kind: 'page'; payments: ListedPayment[]; next: string | null }
  | { kind: 'unknown'; reason: UnknownReason; detail: string };

export type PageAnswer<View> =
  | { kind: 'page'; views: View[]; next: string | null }
  | { kind: 'unknown'; reason: UnknownReason; detail: string };

export type UnknownReason =
  | 'timeout'
  | 'connection'
  | 'server_error'
  | 'conflict'
  | 'rate_limited'
  | 'not_found';

export interface RefundView {
  refund: string;
  object: ProviderObjectId;
  reference: string;
  amount: number;
  currency: string;
  status: 'pending' | 'succeeded' | 'failed';
  /** Why it waits or failed, in the provider's words; null when it does neither. */
  reason: string | null;
  /** Epoch ms by the provider's clock. */
  createdAt: number;
}

export interface DisputeView {
  dispute: string;
  object: ProviderObjectId;
  /** Minor units; usually what was captured, sometimes a part. */
  amount: number;
  currency: string;
  /** `open`: it waits for an answer or for the bank. `won`: the money is or stays ours. */
  status: 'open' | 'won' | 'lost';
  /** Only a question of the bank: no money was withdrawn, and the payment can still be refunded. */
  inquiry: boolean;
  /** In the provider's words. */
  reason: string;
  /** Epoch ms until which it can be answered. Null if it cannot be answered any more. */
  respondBy: number | null;
  /** The provider's fee in addition to the amount, in the account's currency. Null if there is none. */
  fee: { amount: number; currency: string } | null;
  createdAt: number;
}

export type DisputesAnswer =
  | { kind: 'done'; disputes: DisputeView[] }
  | { kind: 'unknown'; reason: UnknownReason; detail: string };

export type RefundAnswer =
  | { kind: 'done' | 'pending'; refund: RefundView }
  | { kind: 'refused'; detail: string }
  | { kind: 'unknown'; reason: UnknownReason; detail: string };

export type RefundsAnswer =
  | { kind: 'done'; refunds: RefundView[] }
  | { kind: 'unknown'; reason: UnknownReason; detail: string };

export interface ProviderEvent {
  /** The provider's id of the event: deliveries repeat it. */
  id: string;
  type: string;
  /** The payment object it is about; null for events that concern no payment. */
  object: ProviderObjectId | null;
  /** Null if the event does not say. */
  madeBy: MadeBy | null;
}
