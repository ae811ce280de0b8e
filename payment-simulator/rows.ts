import type { Decline, RefundManner } from './cards.ts';

/**
 * The simulator's data. Rows are compact and never changed in place: an operation stores a new version, which the journal
 * records as a whole. Times are epoch seconds, amounts minor units, currencies lowercase, as at Stripe.
 */
export interface Rows {
  intents: IntentRow;
  charges: ChargeRow;
  refunds: RefundRow;
  disputes: DisputeRow;
  methods: MethodRow;
  tokens: TokenRow;
  events: EventRow;
}

export type IntentStatus =
  | 'requires_payment_method'
  | 'requires_confirmation'
  | 'requires_action'
  | 'processing'
  | 'requires_capture'
  | 'succeeded'
  | 'canceled';

export interface IntentRow {
  id: string;
  created: number;
  amount: number;
  currency: string;
  status: IntentStatus;
  captureMethod: 'manual' | 'automatic';
  clientSecret: string;
  description: string | null;
  receiptEmail: string | null;
  metadata: Record<string, string>;
  /** The types that the caller allowed. Null if Stripe chooses. */
  allowedTypes: string[] | null;
  method: string | null;
  latestCharge: string | null;
  captured: number;
  canceledAt: number | null;
  cancellationReason: string | null;
  lastError: IntentError | null;
  returnUrl: string | null;
  /** Where the buyer authenticates, while `requires_action`. */
  actionUrl: string | null;
  /** Confirmations so far; Stripe limits them and then cancels the intent. */
  tries: number;
  /** How long a reservation of the present try will stand, ms; as usual where it is not said. */
  holdMs?: number;
}

export interface IntentError {
  type: 'card_error' | 'invalid_request_error';
  code: string;
  declineCode: string | null;
  message: string;
  method: string;
  charge: string | null;
}

export interface ChargeRow {
  id: string;
  created: number;
  intent: string;
  amount: number;
  currency: string;
  status: 'succeeded' | 'failed';
  method: string;
  captured: boolean;
  amountCaptured: number;
  /** Includes what a cancelled reservation gave back, as Stripe shows it. */
  amountRefunded: number;
  captureBefore: number | null;
  authenticated: boolean;
  decline: Decline | null;
  metadata: Record<string, string>;
  description: string | null;
  receiptEmail: string | null;
  disputed?: boolean;
}

export interface RefundRow {
  id: string;
  created: number;
  charge: string;
  intent: string;
  amount: number;
  currency: string;
  status: 'pending' | 'succeeded' | 'failed';
  reason: string | null;
  failureReason: string | null;
  pendingReason: string | null;
  metadata: Record<string, string>;
  /** How it goes on; as the card says where it is absent. */
  manner?: RefundManner;
  /** When it goes on by itself. */
  settleAt?: number;
}

export interface DisputeRow {
  id: string;
  created: number;
  charge: string;
  intent: string;
  amount: number;
  currency: string;
  status:
    | 'warning_needs_response'
    | 'warning_under_review'
    | 'warning_closed'
    | 'needs_response'
    | 'under_review'
    | 'won'
    | 'lost';
  reason: string;
  respondBy: number;
  /** The amount that was taken from the balance for it, and the fee, which is not returned even if the dispute is won. */
  withdrawn: number;
  fee: number;
  /** The amount in `withdrawn` was returned to the balance. */
  reinstated: boolean;
}

export interface MethodRow {
  id: string;
  created: number;
  /** Name of the test card; the number itself is not kept. */
  card: string;
  expMonth: number;
  expYear: number;
  name: string | null;
  email: string | null;
}

export interface TokenRow {
  id: string;
  created: number;
  expiresAt: number;
  method: string;
  returnUrl: string | null;
  usedBy: string | null;
}

export interface EventRow {
  id: string;
  created: number;
  type: string;
  intent: string | null;
  /** The object as it was when the event happened. */
  object: unknown;
  requestId: string | null;
  key: string | null;
  /** Accepted by the receiver, or of a type that it did not subscribe to. */
  delivered: boolean;
}

/** The stored answer of a key: replayed byte for byte. */
export interface KeyRow {
  key: string;
  at: number;
  /** Digest of route and parameters; another one under the same key is a mistake of the caller. */
  fingerprint: string;
  status: number;
  body: string;
}
