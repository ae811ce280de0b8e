import { count, plural } from './format.ts';

const tickets = (n: number) => plural(n, { one: '# ticket', other: '# tickets' });
const orders = (n: number) => plural(n, { one: '# order', other: '# orders' });

/** English: refunds and the cancelling of an event, on the organiser's page. */
export const enRefunds = {
  title: 'Refunds',
  help: 'Find a buyer’s orders by e-mail address, or one order by its id. Refunded tickets are not valid any more.',
  find: 'E-mail address or order id',
  go: 'Find',
  none: 'No order was found.',
  orderOf: (name: string) => `Order of ${name}`,
  states: {
    reserved: 'not paid yet',
    authorised: 'being confirmed',
    confirmed: 'being paid',
    paid: 'paid',
    voiding: 'being ended',
    closed: 'ended unpaid',
    cancelled: 'cancelled',
  } as Record<string, string>,
  open: 'Show',
  tickets: 'Tickets to refund',
  seat: (place: { section: string; row: string; seat: string } | null, seat: number) =>
    place ? [place.section, place.row, place.seat].filter(Boolean).join(' · ') : `seat ${count(seat)}`,
  refunded: 'refunded',
  fees: 'Give back the fees too',
  block: 'Keep the seats back from the sale',
  goodwill: 'Goodwill on top',
  goodwillHint: 'A sum of your own choice. Empty: none.',
  reason: 'Reason',
  reasonMissing: 'Say why.',
  amountWrong: 'Enter an amount, for example 5.00.',
  preview: 'What would it come to?',
  sure: (n: number, amount: string) => `Refund ${tickets(n)}: ${amount}? This cannot be undone.`,
  yes: 'Yes, refund',
  no: 'No',
  made: (amount: string) => `${amount} is being given back.`,
  list: 'Refunds of this order',
  failedTitle: 'Refunds that failed',
  failedHelp: 'The money is still owed. Try again, or note how you gave it back by other means.',
  refundStates: {
    open: 'under way',
    unknown: 'outcome unknown, being asked for',
    pending: 'accepted, on its way',
    done: 'given back',
    failed: 'failed',
    elsewhere: 'given back by other means',
  } as Record<string, string>,
  retry: 'Try again',
  retried: 'It is being tried again.',
  elsewhere: 'Given back otherwise',
  elsewhereNote: 'How was it given back?',
  settled: 'It is settled.',
  cancel: {
    title: 'Cancel the event',
    help: 'Closes the sale for good, ends holds and unpaid orders, and refunds all paid ones.',
    ask: 'What would happen?',
    would: (n: number, of: number, amount: string) =>
      `${orders(n)} with ${tickets(of)} would be refunded, ${amount} in all.`,
    unpaid: (n: number) => `${orders(n)} not paid yet would be ended.`,
    type: (code: string) => `To cancel the event for good, type ${code}`,
    mistyped:
      'That is not the code, or it is older than ten minutes. Nothing was cancelled. Type it again, or leave it as it is and ask anew.',
    yes: 'Cancel the event for good',
    no: 'Leave it as it is',
    running: 'The event is being cancelled',
    done: 'The event is cancelled',
    left: (n: number) => `${orders(n)} still to come`,
    ending: (n: number) => `${plural(n, { one: '# payment', other: '# payments' })} being ended`,
    closed: (n: number) => `${orders(n)} ended unpaid`,
    refunds: (n: number, amount: string) =>
      `${plural(n, { one: '# refund', other: '# refunds' })}, ${amount}`,
    retry: (n: number) => `Try ${plural(n, { one: '# failed refund', other: '# failed refunds' })} again`,
    progress: 'Orders done',
  },
};
