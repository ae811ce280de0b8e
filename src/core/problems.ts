export interface Code {
  /** HTTP status. */
  status: number;
  title: string;
  /** The action for the client or the person; the default `detail`. */
  advice: string;
}

/**
 * The codes of everything that can be refused, with the sentence that says what to do. The API answers them as problem documents
 * (RFC 9457), and the command line prints the same sentences. docs/reference/errors.md is made from this table.
 */
export const problemCodes = {
  // The request itself.
  invalid_json: { status: 400, title: 'Not JSON', advice: 'Send a well-formed JSON body.' },
  invalid_request: { status: 400, title: 'Bad request', advice: 'Correct the request and send it again.' },
  invalid_field: { status: 400, title: 'Invalid value', advice: 'Correct the named field and send again.' },
  idempotency_key_required: {
    status: 400,
    title: 'Idempotency-Key missing',
    advice: 'Send an Idempotency-Key header: a new one for each new request, the same one for a repeat.',
  },
  idempotency_mismatch: {
    status: 422,
    title: 'Key used for another request',
    advice: 'This Idempotency-Key came with another body before. Use a new key for a new wish.',
  },
  signature_invalid: {
    status: 400,
    title: 'Signature refused',
    advice: 'Sign the exact bytes of the body with the webhook secret of this endpoint.',
  },
  sign_in_required: { status: 401, title: 'Sign in first', advice: 'Sign in and send the request again.' },
  sign_in_refused: {
    status: 401,
    title: 'Sign-in refused',
    advice: 'E-mail or password is wrong. Check both and try again.',
  },
  origin_refused: {
    status: 403,
    title: 'Other site',
    advice: 'This request came from the page of another site. Open our own page and try there.',
  },
  not_found: { status: 404, title: 'Not found', advice: 'There is nothing under this address.' },
  method_not_allowed: {
    status: 405,
    title: 'Method not allowed',
    advice: 'Use one of the methods that the Allow header lists.',
  },
  request_timeout: { status: 408, title: 'Too slow', advice: 'Send the request again, without pauses.' },
  body_too_large: { status: 413, title: 'Body too large', advice: 'Send a smaller body.' },
  uri_too_long: { status: 414, title: 'Address too long', advice: 'Shorten the address.' },
  unsupported_media_type: {
    status: 415,
    title: 'Unsupported media type',
    advice: 'Send the body as application/json.',
  },
  too_many_requests: { status: 429, title: 'Too many requests', advice: 'Wait a moment and try again.' },
  headers_too_large: { status: 431, title: 'Headers too large', advice: 'Send fewer or shorter headers.' },
  // The waiting room.
  unknown_event: { status: 404, title: 'No such event', advice: 'Check the address of the event.' },
  not_published: {
    status: 404,
    title: 'Not published yet',
    advice: 'The event has nothing to show yet. Try again in a moment.',
  },
  cookie_required: {
    status: 428,
    title: 'Cookie needed',
    advice: 'A cookie has just been set. Send the same request again with it.',
  },
  not_open: {
    status: 409,
    title: 'Not open',
    advice: 'The sale is not open yet. Keep the page open until it starts.',
  },
  paused: {
    status: 409,
    title: 'Paused',
    advice: 'The sale is paused. Your place is kept; wait until it goes on.',
  },
  sold_out: {
    status: 410,
    title: 'Sold out',
    advice: 'Everything is sold. Seats may come back; your place in the line is kept.',
  },
  sale_closed: { status: 410, title: 'Sale closed', advice: 'The sale has ended.' },
  event_cancelled: { status: 410, title: 'Event cancelled', advice: 'The event was cancelled.' },
  not_yet: {
    status: 409,
    title: 'Not your turn yet',
    advice: 'Your number has not been called. Watch the status and try again when it is.',
  },
  ticket_refused: {
    status: 403,
    title: 'Queue ticket refused',
    advice: 'This queue ticket is not valid in this browser. Join the line again.',
  },
  pass_refused: {
    status: 403,
    title: 'Pass refused',
    advice: 'This admission pass is not valid in this browser. Ask for a pass with your queue ticket.',
  },
  account_required: {
    status: 403,
    title: 'Account needed',
    advice: 'Seats of this event are held by account. Sign in where you came from, then try again.',
  },
  pass_expired: {
    status: 403,
    title: 'Buying session over',
    advice:
      'Your buying session has ended. A live hold can still be paid; for new seats join the line again.',
  },
  // Holds.
  unknown_hold: { status: 404, title: 'No such hold', advice: 'You have no hold under this address.' },
  hold_gone: {
    status: 410,
    title: 'Hold gone',
    advice: 'The hold has lapsed or was released, and its seats went back on sale. Choose seats again.',
  },
  taken: {
    status: 409,
    title: 'Seats taken',
    advice: 'Another buyer was quicker. Nothing was held for you; choose other seats.',
  },
  hold_exists: {
    status: 409,
    title: 'You already hold seats',
    advice:
      'Pay for the seats that you hold, release them, or send `replaces` with that hold to change them.',
  },
  hold_quota: {
    status: 409,
    title: 'Too many seats',
    advice: 'You may hold no more seats at once. Choose fewer, or pay for or release those that you hold.',
  },
  cooldown: {
    status: 409,
    title: 'A short wait before the next hold',
    advice:
      'Holds of yours ended without payment. Nothing is lost: wait until the time named, then hold seats again.',
  },
  address_limit: {
    status: 429,
    title: 'Many seats are held at this internet address',
    advice:
      'Buyers at your internet address hold as many seats as one address may hold at once. Nothing was held for you and nothing was charged. Wait until they have paid or given seats back, or use another internet connection.',
  },
  too_many_claims: {
    status: 429,
    title: 'Too many requests for seats',
    advice:
      'This browser asked for seats, or tried to pay, too often within a minute. Wait for the time given, then try again. Seats that you hold stay yours.',
  },
  too_many_joins: {
    status: 429,
    title: 'Too many joins from this internet address',
    advice:
      'Many browsers at your internet address joined the line within a minute. Wait for the time given, then join again.',
  },
  hold_ordered: {
    status: 409,
    title: 'Hold is in an order',
    advice: 'Payment has started for these seats. Close the order instead.',
  },
  across_partitions: {
    status: 422,
    title: 'Sold in separate parts',
    advice: 'These seats are sold in separate parts of the venue; choose within one. Nothing was held.',
  },
  sold_as_unit: {
    status: 409,
    title: 'Sold whole',
    advice: 'This box is sold only as a whole. Take all of its seats.',
  },
  unknown_seat: {
    status: 400,
    title: 'No such seat',
    advice: 'Take the seats from the layout of this event.',
  },
  receipt_refused: {
    status: 403,
    title: 'Receipt refused',
    advice: 'This receipt is not valid for this hold in this browser.',
  },
  // Access codes.
  code_required: {
    status: 403,
    title: 'Access code needed',
    advice:
      'These tickets, or the time before the sale opens, are for those with an access code. Enter it first.',
  },
  code_unknown: {
    status: 403,
    title: 'No such access code',
    advice: 'This event has no such access code. Check it; capitals, spaces and dashes do not matter.',
  },
  code_ended: {
    status: 410,
    title: 'Access code over',
    advice: 'This access code is not valid any more. Ask the person who gave it to you.',
  },
  code_used_up: {
    status: 409,
    title: 'Access code used up',
    advice:
      'This access code was used as often as it may be. An order that ends unpaid gives its use back: try again later, or use another code.',
  },
  code_not_for_this: {
    status: 403,
    title: 'Access code for something else',
    advice: 'Your access code does not open this. Choose what it opens, or enter another code.',
  },
  code_seats: {
    status: 409,
    title: 'Too many seats for this access code',
    advice: 'With this access code an order may have fewer seats. Choose fewer.',
  },
  // Orders and payment.
  unknown_order: { status: 404, title: 'No such order', advice: 'You have no order under this address.' },
  order_open: {
    status: 409,
    title: 'An order is open',
    advice: 'You have an unpaid order for this event. Pay for it or close it first.',
  },
  account_limit: {
    status: 409,
    title: 'Limit reached',
    advice: 'No more seats of this event may be bought with this e-mail address.',
  },
  visitor_limit: {
    status: 409,
    title: 'Limit reached',
    advice: 'No more seats of this event may be bought with this browser. Nothing was charged.',
  },
  price_differs: {
    status: 409,
    title: 'Another price',
    advice: 'The order would cost something else than was agreed to. Nothing was reserved; look at it again.',
  },
  declined: {
    status: 402,
    title: 'Payment declined',
    advice: 'The payment was declined and nothing was charged. Try another card.',
  },
  payment_under_way: {
    status: 409,
    title: 'Payment under way',
    advice: 'A payment of this order is already under way. Wait for its end.',
  },
  payment_unavailable: {
    status: 503,
    title: 'Paying is not possible now',
    advice:
      'The payment service does not answer. No card was tried and nothing was charged; your seats stay reserved until the payment deadline. Try again in a moment.',
  },
  order_ended: {
    status: 410,
    title: 'Order ended',
    advice: 'This order has ended and nothing was charged. Choose seats again.',
  },
  order_bought: {
    status: 409,
    title: 'Already bought',
    advice: 'This order is bought. For a refund ask the organiser.',
  },
  not_paid: {
    status: 409,
    title: 'No tickets yet',
    advice: 'Tickets are shown once the payment is complete.',
  },
  // The organiser.
  version_conflict: {
    status: 409,
    title: 'Changed meanwhile',
    advice: 'This was changed in the meantime. Load it again and repeat your change.',
  },
  phase_impossible: {
    status: 409,
    title: 'Not possible in this phase',
    advice: 'The sale cannot go from its present phase to that one.',
  },
  plan_refused: {
    status: 422,
    title: 'Plan refused',
    advice: 'The seating plan has the problems listed; nothing was stored.',
  },
  plan_unsettled: {
    status: 409,
    title: 'Plan has open questions',
    advice:
      'Settle the warnings listed (fix the plan and import it again), or publish with acceptWarnings=true. Nothing was published.',
  },
  unknown_plan: { status: 404, title: 'No such plan', advice: 'Import the plan first.' },
  event_exists: { status: 409, title: 'Event exists', advice: 'Choose another address for the event.' },
  seats_in_use: {
    status: 409,
    title: 'Seats in use',
    advice: 'Seats that are held, reserved or sold were left as they are.',
  },
  seats_would_move: {
    status: 409,
    title: 'Seats would change their part',
    advice:
      'The new plan puts seats into sections that are sold in another part of the venue (partition). Nothing was changed.',
  },
  unknown_allowance: {
    status: 404,
    title: 'No such exception',
    advice: 'This event has no exception of that id.',
  },
  unknown_code: {
    status: 404,
    title: 'No such access code',
    advice: 'This event has no such code or batch.',
  },
  code_exists: {
    status: 409,
    title: 'Access codes exist',
    advice: 'The event has the codes listed already. Nothing was made.',
  },
  // Entry, mails, webhooks.
  unknown_ticket: {
    status: 404,
    title: 'No such ticket',
    advice: 'This is no ticket of this event. Check the code, or the ticket and its event.',
  },
  not_entered: {
    status: 404,
    title: 'Not checked in',
    advice:
      'This ticket was not checked in, or the check-in was taken back before. There is nothing to take back.',
  },
  unknown_mail: { status: 404, title: 'No such mail', advice: 'There is no mail of that id.' },
  mail_sent: {
    status: 409,
    title: 'Mail was sent',
    advice: 'The mail was sent. With `copy` it is sent again, as a separate mail.',
  },
  mail_not_needed: {
    status: 409,
    title: 'Mail not needed',
    advice:
      'The mail was not needed any more when it was to be sent, or its buyer was forgotten. Nothing is sent.',
  },
  unknown_endpoint: {
    status: 404,
    title: 'No such endpoint',
    advice: 'There is no webhook endpoint of that id, or it was removed.',
  },
  endpoint_disabled: {
    status: 409,
    title: 'Endpoint switched off',
    advice: 'This webhook endpoint is disabled. Enable it first, then send the trial.',
  },
  unknown_delivery: {
    status: 404,
    title: 'No such delivery',
    advice: 'There is no webhook delivery of that id.',
  },
  unknown_entry: {
    status: 404,
    title: 'No such entry',
    advice: 'The list of payments that need a decision has no entry with this id.',
  },
  action_not_possible: {
    status: 409,
    title: 'Not possible now',
    advice:
      'This entry has changed or does not allow this action. Load the list again; `actions` names what is possible.',
  },
  payment_busy: {
    status: 409,
    title: 'Payment under way',
    advice: 'A call to the payment provider is in progress for this payment. Try again in a few seconds.',
  },
  unknown_finding: { status: 404, title: 'No such finding', advice: 'There is no finding of that number.' },
  unknown_refund: { status: 404, title: 'No such refund', advice: 'There is no refund under this address.' },
  not_refundable: {
    status: 409,
    title: 'Not refundable',
    advice: 'Only a paid order can be refunded; for this one nothing was taken, or not yet.',
  },
  tickets_not_valid: {
    status: 409,
    title: 'Tickets not valid',
    advice: 'The tickets listed are not of this order, or were refunded before. Nothing was refunded.',
  },
  refund_too_much: {
    status: 409,
    title: 'More than was paid',
    advice: 'No more can be given back than what is left of what was paid. Nothing was refunded.',
  },
  refund_decided: {
    status: 409,
    title: 'Refund not failed',
    advice: 'Only a failed refund can be tried again or settled by other means.',
  },
  not_cancelled: {
    status: 404,
    title: 'Not cancelled',
    advice: 'The event is not being cancelled with refunds.',
  },
  not_confirmed: {
    status: 409,
    title: 'Not confirmed',
    advice:
      'The confirmation is wrong, used, older than ten minutes, or was for another request. Ask again without it; nothing was cancelled.',
  },
  unknown_buyer: {
    status: 404,
    title: 'No such buyer',
    advice: 'Nothing is known, or left, of a buyer of this name.',
  },
  buyer_needed: {
    status: 409,
    title: 'Cannot be forgotten yet',
    advice:
      'The orders listed are not settled, or their event is not over (`why`). Nothing was changed; settle them, then ask again.',
  },
  // Ours.
  internal: {
    status: 500,
    title: 'Our mistake',
    advice: 'Something went wrong on our side. Nothing is lost: look at your hold or order and try again.',
  },
  unavailable: {
    status: 503,
    title: 'Not available now',
    advice: 'The service cannot do this just now. Try again in a moment; your place and seats are kept.',
  },
  busy: { status: 503, title: 'Busy', advice: 'Very many people are at it just now. Try again in a moment.' },
  outcome_unknown: {
    status: 503,
    title: 'Outcome unknown',
    advice:
      'The answer was lost. Repeat the same request, with the same Idempotency-Key, to learn what became of it.',
  },
  not_ready: { status: 503, title: 'Not ready', advice: 'A part that selling needs does not answer.' },
} as const satisfies Record<string, Code>;

export type ProblemCode = keyof typeof problemCodes;

export interface ProblemOptions {
  /** Replaces the code's general advice. */
  detail?: string;
  /** JSON pointer into the body, a parameter's or a header's name. */
  field?: string;
  /** Milliseconds; a fraction is rounded up in the response. */
  retryAfterMs?: number;
  /** Code-specific members. */
  extra?: Record<string, unknown>;
}

/** A refusal with a stable code, thrown to the caller. */
export class Problem extends Error {
  override readonly name = 'Problem';
  readonly code: ProblemCode;
  readonly options: ProblemOptions;

  constructor(code: ProblemCode, options: ProblemOptions = {}) {
    // It reports no fault of ours, so nothing reads its stack, and making one costs more than the rest of the refusal.
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(options.detail ?? problemCodes[code].advice);
    Error.stackTraceLimit = stackTraceLimit;
    this.code = code;
    this.options = options;
  }
}

export function problem(code: ProblemCode, options: ProblemOptions = {}): Problem {
  return new Problem(code, options);
}
