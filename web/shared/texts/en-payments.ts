import { count, plural } from './format.ts';

/** English texts for payments that need a decision, on the organiser's page. */
export const enPayments = {
  title: 'Payments that need a decision',
  help: 'Each entry says what happened, what was charged and what you can do. Every action is written to the log of actions.',
  ofEvent: 'Event',
  all: 'All events',
  reload: 'Load again',
  none: 'Nothing is on the list.',
  total: (n: number, listed: number) =>
    n === listed
      ? plural(n, { one: '# entry, oldest first.', other: '# entries, oldest first.' })
      : `${plural(n, { one: '# entry', other: '# entries' })}, oldest first; ${count(listed)} are shown.`,
  more: 'Show more',
  age: (ms: number) => {
    const minutes = Math.floor(ms / 60_000);
    if (minutes < 1) return 'less than a minute old';
    if (minutes < 60) return plural(minutes, { one: '# minute old', other: '# minutes old' });
    const hours = Math.floor(minutes / 60);
    if (hours < 48) return plural(hours, { one: '# hour old', other: '# hours old' });
    return plural(Math.floor(hours / 24), { one: '# day old', other: '# days old' });
  },
  since: 'Since',
  operation: 'Operation',
  kinds: { open: 'Open payment', authorise: 'Reserve money', capture: 'Capture', refund: 'Refund' } as Record<
    string,
    string
  >,
  states: {
    open: 'sent, no answer yet',
    waiting: 'waiting',
    unknown: 'outcome unknown',
    ending: 'being ended',
    done: 'done',
    refused: 'refused',
    voided: 'ended',
  } as Record<string, string>,
  order: 'Order',
  toOrder: 'Open the order',
  seats: 'Seats',
  amount: 'Amount',
  captured: 'Captured',
  refunded: 'Refunded',
  notKnown: 'not known',
  object: 'Payment at the provider',
  reported: 'Reported',
  charged: 'What was charged',
  note: 'Note',
  noteHint: 'Say what you decided and why. The note is kept in the log of actions.',
  noteMissing: 'Write a note first.',
  cancel: 'Do nothing',
  of: (label: string, title: string) => `${label}: ${title}`,
  looked: 'The worker is checking it now. The list reloads in a few seconds.',
  done: (label: string) => `Done: ${label}.`,
  repeated: 'This was done before. Nothing changed.',
};
