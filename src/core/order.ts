/**
 * An order's life as a table. Every step of the saga is one of these transitions, conditional in Postgres on `from`;
 * anything else is an assertion.
 */
export const orderStates = [
  /** Seats reserved to it, not yet authorised: the buyer may try cards until the payment deadline. */
  'reserved',
  /** The provider holds the money; its seats are still reserved. */
  'authorised',
  /** Its seats are sold to it; the capture is due. */
  'confirmed',
  /** Captured: done. Tickets' codes are shown. */
  'paid',
  /** Confirming was impossible or the buyer cancelled; seats are free; the authorisation is being voided. */
  'voiding',
  /** Ended without a sale; nothing was charged. */
  'closed',
  /** Was confirmed or paid, then cancelled; its tickets are cancelled and its seats free. */
  'cancelled',
] as const;
export type OrderState = (typeof orderStates)[number];

export type OrderChange =
  | 'authorise'
  | 'confirm'
  | 'capture'
  | 'confirm_impossible'
  | 'voided'
  | 'close'
  | 'close_pending'
  | 'capture_refused'
  | 'late_success'
  | 'cancel';

interface Transition {
  from: readonly OrderState[];
  to: OrderState;
  /** The change of the order's tickets in the same step. */
  tickets: 'reserve' | 'sell' | 'free' | 'keep';
}

export const orderTransitions: Record<OrderChange, Transition> = {
  authorise: { from: ['reserved'], to: 'authorised', tickets: 'keep' },
  confirm: { from: ['authorised'], to: 'confirmed', tickets: 'sell' },
  capture: { from: ['confirmed'], to: 'paid', tickets: 'keep' },
  confirm_impossible: { from: ['authorised'], to: 'voiding', tickets: 'free' },
  voided: { from: ['voiding'], to: 'closed', tickets: 'keep' },
  close: { from: ['reserved'], to: 'closed', tickets: 'free' },
  /** Its buyer cancelled while the bank was asked: the reservation is still being lifted. */
  close_pending: { from: ['reserved'], to: 'voiding', tickets: 'free' },
  capture_refused: { from: ['confirmed'], to: 'cancelled', tickets: 'free' },
  /** Money arrived for an order that was not paid in time: the same seats are tried again. */
  late_success: { from: ['closed'], to: 'authorised', tickets: 'reserve' },
  cancel: { from: ['paid'], to: 'cancelled', tickets: 'free' },
};

/** Why an order ended; shown to the buyer through the page's catalogue of texts. */
export type OrderEnd =
  | 'not_paid_in_time'
  /** Its money came after it had been closed, and its seats could not be had again. */
  | 'late_payment'
  | 'closed_by_buyer'
  | 'seats_lost'
  /** The account had its seats of this event already. */
  | 'limit'
  /** The card reached its limit. The card is known only after it was tried. */
  | 'card_limit'
  | 'event_cancelled'
  | 'capture_refused'
  /** All of its tickets were. */
  | 'refunded'
  | 'payment_mismatch';

/** States in which nothing more will happen by itself. */
export const settledStates: readonly OrderState[] = ['paid', 'closed', 'cancelled'];

/** The state in Postgres of the seats of an order in this state. */
export const seatStateOfOrder: Record<OrderState, 'reserved' | 'sold' | 'free'> = {
  reserved: 'reserved',
  authorised: 'reserved',
  confirmed: 'sold',
  paid: 'sold',
  voiding: 'free',
  closed: 'free',
  cancelled: 'free',
};

/** States of a money operation (one provider call with its key). */
export const operationStates = ['open', 'waiting', 'unknown', 'ending', 'done', 'refused', 'voided'] as const;
export type OperationState = (typeof operationStates)[number];
export const operationsUnderWay: readonly OperationState[] = ['open', 'waiting', 'unknown', 'ending'];
