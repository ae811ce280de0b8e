import { count, plural } from './format.ts';

const mails = (n: number) => plural(n, { one: '# mail', other: '# mails' });

/** English: mails to buyers, on the organiser's page. */
export const enMails = {
  title: 'Mails that need attention',
  help: 'Refused by the mail server, or not taken yet. Refused mails are not retried automatically: fix the cause, then send them again. Sent mails are listed with their order.',
  count: (n: number, listed: number) =>
    n === 0
      ? 'None. Every mail was accepted, or waits for its first attempt.'
      : listed < n
        ? `${mails(n)}, of which the newest ${count(listed)} are listed.`
        : `${mails(n)}.`,
  reload: 'Load again',
  reloaded: 'Loaded.',
  sendAll: (n: number) => `Send all ${count(n)} refused again`,
  going: (done: number, of: number) => `${count(done)} of ${count(of)}…`,
  allAgain: (n: number, of: number) =>
    n === of
      ? `${mails(n)} are being sent again. Those that are refused again come back to this list.`
      : `${count(n)} of ${mails(of)} are being sent again. The others are not needed any more, or their buyer was forgotten.`,
  toOrder: 'Order',
  ofOrder: 'Mails of this order',
  to: (address: string) => `To ${address}`,
  none: 'No mail is owed for this order.',
  whats: {
    'order.confirmed': 'Tickets',
    'order.closed_late': 'Late payment given back',
    'order.failed': 'Order not completed',
    'order.cancelled': 'Order cancelled',
    'order.money_returned': 'Money given back',
    'refund.created': 'Refund begun',
    'refund.succeeded': 'Refund done',
    'refund.failed': 'Refund failed',
  } as Record<string, string>,
  states: { due: 'waits to be sent', sent: 'sent', refused: 'refused', not_needed: 'not needed any more' },
  inVain: 'not taken yet',
  aCopy: 'a copy',
  attempts: (n: number) => plural(n, { one: 'Tried once.', other: 'Tried # times.' }),
  said: (error: string) => (error === '' ? '' : `Last answer: ${error}.`),
  next: (time: string) => `Tried again ${time}.`,
  notByItself: 'Not tried again by itself.',
  send: 'Send again',
  sendCopy: 'Send a copy',
  of: (what: string, time: string) => `${what}, ${time}`,
  again: 'It is being sent again. If it fails again, it is listed here again.',
  copied: 'A copy is on its way, as a mail of its own.',
  gone: 'It was not sent: it is not needed any more, or its buyer was forgotten.',
};

/** Shown first in an event's overview. */
export const enAttention = {
  title: 'Needs attention',
  none: 'Nothing: no payment needs a decision, every mail was taken, no ticket was used twice.',
  failed: 'It could not be looked up just now; it is tried again in half a minute.',
  cancelled: 'This event is cancelled.',
  toCancel: 'How far its refunds are',
  payments: (n: number) =>
    plural(n, { one: '# payment needs a decision.', other: '# payments need a decision.' }),
  toPayments: 'See the payments',
  mails: (n: number) => plural(n, { one: '# mail was not taken.', other: '# mails were not taken.' }),
  toMails: 'See the mails',
  doubles: (n: number) =>
    plural(n, { one: '# ticket was used more than once.', other: '# tickets were used more than once.' }),
  toDoubles: 'See the uses',
};
