import type { Decline, RefundManner } from './cards.ts';

/** The treatment of a request at a point that it passes. The name of an error is a key of `FAULT_ERRORS`. */
export type Verdict =
  | 'wait'
  | 'drop'
  | 'cut'
  | 'abandon'
  | 'after_webhooks'
  | 'server_error'
  | 'unavailable'
  | 'rate_limit'
  | 'lock_timeout'
  | 'key_in_use'
  | 'key_mismatch';

/** How the bank, or Stripe on its behalf, treats one operation. If nothing is set, the card decides. */
export interface Manner {
  authenticate?: true;
  decline?: Decline;
  /** The reservation stands so long, ms. */
  holdMs?: number;
  capture?: 'refused' | 'hold_lost';
  cancel?: 'refused';
  refund?: RefundManner | 'balance_insufficient';
  /** A refund ends after this long, ms. 0: it ends when `/_sim/refunds/settle` is called for it. */
  settleMs?: number;
}

export type Delivery = 'hold' | 'duplicate' | 'delay' | 'overtake' | 'never' | 'until_over';

export interface Kind {
  about: 'request' | 'page' | 'webhook' | 'all';
  /** One sentence, for the page and the reference. */
  says: string;
  /** The only routes that it can strike; all when absent. */
  routes?: readonly string[];
  /** Before anything is done, and before the key is looked at. */
  arrive?: Verdict;
  /** Decides how the work is done. What it refuses is an answer like any other: the key remembers it. */
  manner?: (delayMs: number) => Manner;
  /** A 500 in place of the answer that was worked out, or of the work itself; the key remembers it. */
  replace?: 'answer' | 'work';
  /** After everything is done and stored, on the way back to the caller. */
  leave?: Verdict;
  /** Added to the answer, whatever it is. */
  headers?: Readonly<Record<string, string>>;
  deliver?: Delivery;
  /** Set if the default of 1000 makes no sense. */
  delayMs?: number;
  /** How long a switch of this kind stays on by default. */
  forMs?: number;
}

const CONFIRM = ['payment_intents.confirm'] as const;
const CAPTURE = ['payment_intents.capture'] as const;
const CANCEL = ['payment_intents.cancel'] as const;
const REFUND = ['refunds.create'] as const;

const NO_FUNDS: Decline = {
  code: 'card_declined',
  declineCode: 'insufficient_funds',
  message: 'Your card has insufficient funds.',
};

/** The one table of faults: what each kind does at the points that a request, a page or a webhook passes. */
export const FAULT_KINDS = {
  delay: {
    about: 'request',
    says: 'Does the work, answers after `delayMs`; the key stays in use until then.',
    leave: 'wait',
  },
  delay_before: { about: 'request', says: 'Does the work after `delayMs`.', arrive: 'wait' },
  drop_after: {
    about: 'request',
    says: 'Does the work and resets the connection without an answer.',
    leave: 'drop',
  },
  drop_before: {
    about: 'request',
    says: 'Resets the connection without doing anything.',
    arrive: 'drop',
  },
  cut_after: {
    about: 'request',
    says: 'Does the work and closes the connection in the middle of the answer.',
    leave: 'cut',
  },
  error_500_after: {
    about: 'request',
    says: 'Does the work, answers 500, and replays the 500 under the same key for ever.',
    replace: 'answer',
  },
  error_500_before: {
    about: 'request',
    says: 'Answers 500 without doing or remembering anything.',
    arrive: 'server_error',
  },
  error_500_stored: {
    about: 'request',
    says: 'Does nothing, answers 500, and replays the 500 under the same key for ever: only a new key does the work.',
    replace: 'work',
  },
  unavailable: {
    about: 'request',
    says: 'Answers 503 without doing or remembering anything.',
    arrive: 'unavailable',
  },
  rate_limit: {
    about: 'request',
    says: 'Answers 429 without doing or remembering anything.',
    arrive: 'rate_limit',
  },
  lock_timeout: {
    about: 'request',
    says: 'Answers 429 `lock_timeout`: another request has the object. Nothing done, nothing remembered.',
    arrive: 'lock_timeout',
  },
  key_in_use: {
    about: 'request',
    says: 'Answers 409, as if another request with the key were under way. Nothing done.',
    arrive: 'key_in_use',
  },
  key_mismatch: {
    about: 'request',
    says: 'Answers 400 `idempotency_error`, as if the key had come with other parameters. Nothing done.',
    arrive: 'key_mismatch',
  },
  retry_advised: {
    about: 'request',
    says: 'Adds `Stripe-Should-Retry: true` to the answer, whatever it is.',
    headers: { 'stripe-should-retry': 'true' },
  },
  retry_refused: {
    about: 'request',
    says: 'Adds `Stripe-Should-Retry: false` to the answer, whatever it is.',
    headers: { 'stripe-should-retry': 'false' },
  },
  closed: {
    about: 'all',
    says: 'The provider is away for `forMs` (a minute): connections are reset, the bank’s page too, and webhooks wait until it is over.',
    arrive: 'drop',
    deliver: 'until_over',
    forMs: 60_000,
  },
  authentication_required: {
    about: 'request',
    says: 'The bank of any card asks the buyer to authenticate.',
    routes: CONFIRM,
    manner: () => ({ authenticate: true }),
  },
  authentication_abandoned: {
    about: 'page',
    says: 'The buyer’s answer on the bank’s page is lost, as if the window had been closed: the payment goes on waiting.',
    routes: ['authenticate'],
    arrive: 'abandon',
  },
  declined: {
    about: 'request',
    says: 'Any card is declined for insufficient funds.',
    routes: CONFIRM,
    manner: () => ({ decline: NO_FUNDS }),
  },
  hold_short: {
    about: 'request',
    says: 'The reservation says that it ends after `delayMs`, and then does so by itself.',
    routes: CONFIRM,
    manner: (delayMs) => ({ holdMs: delayMs }),
  },
  hold_lost: {
    about: 'request',
    says: 'The capture finds the reservation ended before its time: refused, and the payment is cancelled.',
    routes: CAPTURE,
    manner: () => ({ capture: 'hold_lost' }),
  },
  capture_refused: {
    about: 'request',
    says: 'The capture is declined, and the key remembers it; the reservation stands.',
    routes: CAPTURE,
    manner: () => ({ capture: 'refused' }),
  },
  void_refused: {
    about: 'request',
    says: 'The cancellation is refused as not possible at present, and the key remembers it; the payment stays as it is.',
    routes: CANCEL,
    manner: () => ({ cancel: 'refused' }),
  },
  refund_pending: {
    about: 'request',
    says: 'The refund is pending and succeeds later: after `delayMs`, or when told to settle.',
    routes: REFUND,
    manner: (delayMs) => ({ refund: 'pending', settleMs: delayMs }),
    delayMs: 0,
  },
  refund_waits_for_balance: {
    about: 'request',
    says: 'The refund is pending for lack of balance and succeeds later: after `delayMs`, or when told to settle.',
    routes: REFUND,
    manner: (delayMs) => ({ refund: 'waits_for_balance', settleMs: delayMs }),
    delayMs: 0,
  },
  refund_pending_fails: {
    about: 'request',
    says: 'The refund is pending and fails later: after `delayMs`, or when told to settle.',
    routes: REFUND,
    manner: (delayMs) => ({ refund: 'pending_fails', settleMs: delayMs }),
    delayMs: 0,
  },
  refund_fails_later: {
    about: 'request',
    says: 'The refund succeeds and comes back as failed later: after `delayMs`, or when told to settle.',
    routes: REFUND,
    manner: (delayMs) => ({ refund: 'fails_later', settleMs: delayMs }),
    delayMs: 0,
  },
  refund_fails: {
    about: 'request',
    says: 'The refund is answered as failed; no money goes back.',
    routes: REFUND,
    manner: () => ({ refund: 'fails' }),
  },
  refund_insufficient_balance: {
    about: 'request',
    says: 'The refund is refused with 400 `balance_insufficient`, and the key remembers it; none is made.',
    routes: REFUND,
    manner: () => ({ refund: 'balance_insufficient' }),
  },
  webhook_first: {
    about: 'request',
    says: 'Answers only once the webhooks of the request have been tried (5 s at most).',
    leave: 'after_webhooks',
  },
  webhook_duplicate: {
    about: 'webhook',
    says: 'Delivers each webhook `copies` times.',
    deliver: 'duplicate',
  },
  webhook_delay: {
    about: 'webhook',
    says: 'Delivers after `delayMs`, so that later ones overtake it.',
    deliver: 'delay',
  },
  webhook_reorder: {
    about: 'webhook',
    says: 'Keeps a webhook until the next one about the same payment was delivered, or `delayMs` (a minute) passed.',
    deliver: 'overtake',
    delayMs: 60_000,
  },
  webhook_hold: {
    about: 'webhook',
    says: 'Keeps webhooks until they are released, or the simulator starts again.',
    deliver: 'hold',
  },
  webhook_never: {
    about: 'webhook',
    says: 'Never delivers; the event stays readable under `/v1/events`.',
    deliver: 'never',
  },
} as const satisfies Record<string, Kind>;
