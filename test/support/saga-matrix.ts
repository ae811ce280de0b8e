import { FAULT_KINDS } from '../../payment-simulator/fault-kinds.ts';
import type { FaultKind } from '../../payment-simulator/faults.ts';
import type { OrderState } from '../../src/core/order.ts';
import type { Happening } from '../../src/fulfilment/letters.ts';

/**
 * The one table of what can go wrong with a purchase and how it ends: step × fault × kill. test/services/saga-matrix.test.ts
 * plays each cell, docs/reference/failure-modes.md is written from it.
 */
export interface End {
  order: OrderState;
  seats: 'sold' | 'free';
  /** Money state over all of the order's objects in the provider's ledger. */
  payment: 'taken' | 'nothing taken' | 'given back' | 'taken, to be given back';
  /** Mails to the buyer. A mail may be missing if its order changed again before it was sent. */
  mails: readonly Happening[];
  /** Receivers drop a second copy: it has the same Message-ID. */
  copies?: 1 | 2;
  mail?: 'sent' | 'refused';
}

export const ENDS = {
  sold: { order: 'paid', seats: 'sold', payment: 'taken', mails: ['order.confirmed'] },
  'sold, mail twice': {
    order: 'paid',
    seats: 'sold',
    payment: 'taken',
    mails: ['order.confirmed'],
    copies: 2,
  },
  'sold, mail refused': {
    order: 'paid',
    seats: 'sold',
    payment: 'taken',
    mails: ['order.confirmed'],
    mail: 'refused',
  },
  closed: { order: 'closed', seats: 'free', payment: 'nothing taken', mails: [] },
  lost: { order: 'closed', seats: 'free', payment: 'nothing taken', mails: ['order.failed'] },
  undone: { order: 'cancelled', seats: 'free', payment: 'nothing taken', mails: ['order.cancelled'] },
  refunded: {
    order: 'cancelled',
    seats: 'free',
    payment: 'given back',
    mails: ['order.cancelled', 'order.confirmed', 'refund.created', 'refund.succeeded'],
  },
  'refund failed': {
    order: 'cancelled',
    seats: 'free',
    payment: 'taken, to be given back',
    mails: ['order.cancelled', 'order.confirmed', 'refund.created'],
  },
  'refund came back': {
    order: 'cancelled',
    seats: 'free',
    payment: 'taken, to be given back',
    mails: ['order.cancelled', 'order.confirmed', 'refund.created', 'refund.failed', 'refund.succeeded'],
  },
} as const satisfies Record<string, End>;
export type EndName = keyof typeof ENDS;

/** The meaning of each end, for the document. */
export const END_WORDS: Record<EndName, string> = {
  sold: 'paid, seats sold, the money taken once, one mail with the tickets',
  'sold, mail twice': 'as sold; the mail is sent twice under one Message-ID, so that receivers show it once',
  'sold, mail refused': 'as sold; the mail is on the operator’s list, the order untouched',
  closed: 'closed, seats free, nothing taken and nothing reserved; no mail, the page tells',
  lost: 'as closed; the buyer had paid, so a mail says that the order was not completed and nothing was charged',
  undone:
    'cancelled, seats free and limits given back, nothing taken and nothing reserved, one mail that says so',
  refunded:
    'cancelled, seats free, all of the money given back once; mails of the cancelling and of the refund',
  'refund failed':
    'cancelled, seats free; the refund is on the operator’s list, and an organiser’s second attempt gives the money back once',
  'refund came back':
    'as refund failed; the buyer had a mail that the refund had succeeded, and gets one that it failed',
};

/** Faults of the mail server, at the mail's own port. */
export const MAIL_FAULTS = {
  not_now: 'The mail server does not take the mail now (busy, away, a 4xx).',
  refused: 'The mail server refuses the mail or its address for good (a 5xx).',
  answer_lost: 'The mail server takes the mail and its answer is lost.',
} as const;
export type MailFault = keyof typeof MAIL_FAULTS;
export type FaultName = 'none' | FaultKind | MailFault;

/** One fault at one step: how the order ends, however the process lives. */
export interface Entry {
  end: EndName;
  /** Where a kill makes another end. */
  killedBefore?: EndName;
  killedAfter?: EndName;
  /** The buyer's behaviour when an order still waits for them. By default they pay again, with another card if needed. */
  buyer?: 'stays away';
  delayMs?: number;
}

export type StepName =
  | 'reserve'
  | 'open'
  | 'authorise'
  | 'bank'
  | 'confirm'
  | 'capture'
  | 'void'
  | 'refund'
  | 'webhook'
  | 'mail';

export interface Step {
  name: StepName;
  title: string;
  /** The story of the row, in a sentence or two. */
  story: string;
  /** The call that the process is killed before and after. */
  killedAt: string;
  /** The simulator's route that the faults strike. */
  route: string | null;
  entries: Partial<Record<FaultName, EndName | Entry>>;
  /** Why the other faults do not apply to this step. */
  elsewhere: string;
}

const kinds = Object.keys(FAULT_KINDS) as FaultKind[];
const about = (what: 'request' | 'page' | 'webhook' | 'all'): FaultKind[] =>
  kinds.filter((kind) => FAULT_KINDS[kind].about === what);
/** Faults that can strike any request. */
const anyRequest = [...about('request').filter((kind) => !('routes' in FAULT_KINDS[kind])), ...about('all')];
const each = (names: readonly FaultKind[], entry: EndName | Entry): Step['entries'] =>
  Object.fromEntries(names.map((name) => [name, entry]));
const noCall = 'No call to the provider is made in this step, so none of its faults can strike it.';
const otherRoutes = 'The other kinds of faults strike other calls, pages or webhooks only.';

export const STEPS: readonly Step[] = [
  {
    name: 'reserve',
    title: 'Reserve',
    story: 'A hold becomes an order. The buyer’s page repeats its request until it is answered, then pays.',
    killedAt: 'record.reserve',
    route: null,
    entries: { none: 'sold' },
    elsewhere: noCall,
  },
  {
    name: 'open',
    title: 'Open the payment object',
    story:
      'The provider’s object is opened, no money moves. The buyer pays (again) when their page allows it.',
    killedAt: 'provider.open',
    route: 'payment_intents.create',
    entries: { none: 'sold', ...each(anyRequest, 'sold') },
    elsewhere: otherRoutes,
  },
  {
    name: 'authorise',
    title: 'Authorise',
    story: 'The card is tried. While the result is unknown, the order keeps its seats.',
    killedAt: 'provider.authorise',
    route: 'payment_intents.confirm',
    entries: {
      none: 'sold',
      ...each(anyRequest, 'sold'),
      declined: { end: 'closed', buyer: 'stays away' },
      authentication_required: { end: 'closed', buyer: 'stays away' },
      // A reservation that is gone before the sale lets the buyer pay again. After the sale, the sale is undone.
      hold_short: { end: 'undone', killedAfter: 'sold', delayMs: 0 },
    },
    elsewhere: otherRoutes,
  },
  {
    name: 'bank',
    title: '3-D Secure',
    story:
      'The bank wants the buyer, who authorises on its page and comes back; the return looks the payment up. The process is ' +
      'killed at that look, and the faults strike it.',
    killedAt: 'provider.lookup',
    route: 'payment_intents.retrieve',
    entries: {
      none: 'sold',
      ...each(anyRequest, 'sold'),
      authentication_abandoned: { end: 'closed', buyer: 'stays away' },
    },
    elsewhere: otherRoutes,
  },
  {
    name: 'confirm',
    title: 'Confirm',
    story: 'The order’s seats are sold to it, in one call to Postgres that also writes the capture down.',
    killedAt: 'record.confirm',
    route: null,
    entries: { none: 'sold' },
    elsewhere: noCall,
  },
  {
    name: 'capture',
    title: 'Capture',
    story: 'The reserved money is taken. The seats are the buyer’s by then.',
    killedAt: 'provider.capture',
    route: 'payment_intents.capture',
    entries: { none: 'sold', ...each(anyRequest, 'sold'), hold_lost: 'undone', capture_refused: 'undone' },
    elsewhere: otherRoutes,
  },
  {
    name: 'void',
    title: 'Void',
    story: 'The order’s seats were lost while its card was tried: the reservation of the money is ended.',
    killedAt: 'provider.void',
    route: 'payment_intents.cancel',
    entries: { none: 'lost', ...each(anyRequest, 'lost'), void_refused: 'lost' },
    elsewhere: otherRoutes,
  },
  {
    name: 'refund',
    title: 'Refund',
    story: 'An organiser refunds the whole of a paid order and releases its seats.',
    killedAt: 'provider.refund',
    route: 'refunds.create',
    entries: {
      none: 'refunded',
      ...each(anyRequest, 'refunded'),
      refund_pending: 'refunded',
      refund_waits_for_balance: 'refunded',
      refund_pending_fails: 'refund failed',
      refund_fails_later: 'refund came back',
      refund_fails: 'refund failed',
      refund_insufficient_balance: 'refund failed',
    },
    elsewhere: otherRoutes,
  },
  {
    name: 'webhook',
    title: 'Webhook in',
    story:
      'The buyer authorises at their bank and never comes back: the provider’s event is stored, then the payment is looked up. The ' +
      'process is killed around the storing; faults of requests strike the look.',
    killedAt: 'record.providerEvent',
    route: 'payment_intents.retrieve',
    entries: { none: 'sold', ...each(anyRequest, 'sold'), ...each(about('webhook'), 'sold') },
    elsewhere: otherRoutes,
  },
  {
    name: 'mail',
    title: 'Mail',
    story: 'The mail that is owed since the capture is sent by the job queue.',
    killedAt: 'mail.send',
    route: null,
    entries: {
      none: { end: 'sold', killedAfter: 'sold, mail twice' },
      not_now: 'sold',
      refused: 'sold, mail refused',
      answer_lost: 'sold, mail twice',
    },
    elsewhere: noCall,
  },
];

export type Life = 'lives' | 'killed before' | 'killed after';
export const LIVES: readonly Life[] = ['lives', 'killed before', 'killed after'];

/** One cell of the matrix; `seat` is its own. */
export interface Cell {
  step: Step;
  fault: FaultName;
  entry: Entry;
  seat: number;
}

/** For looking closer at some: a part of "step fault". */
const only = process.env.ONSALE_SAGA_ONLY ?? '';

const all: readonly Cell[] = STEPS.flatMap((step) =>
  Object.entries(step.entries).map(([fault, entry]) => ({
    step,
    fault: fault as FaultName,
    entry: typeof entry === 'string' ? { end: entry } : entry,
  })),
).map((cell, seat) => ({ ...cell, seat }));

export const CELLS = all.filter(({ step, fault }) => new RegExp(only).test(`${step.name} ${fault}`));
/** Each cell has one of its own. */
export const seatsOfAll = all.length;

export function endOf({ entry }: Cell, life: Life): EndName {
  if (life === 'killed before') return entry.killedBefore ?? entry.end;
  return life === 'killed after' ? (entry.killedAfter ?? entry.end) : entry.end;
}
