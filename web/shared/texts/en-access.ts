import { listed, plural } from './format.ts';

/** Access codes and kinds of tickets, on the buyer's pages. */
export const accessTexts = {
  title: 'Access code',
  presaleTitle: 'Presale: with an access code',
  presaleHelp:
    'Until the sale opens, the line is for those with an access code. Enter yours to join now, or come back when the sale opens to everybody.',
  presaleUnlocked: 'Your code opens the presale. You can join the line now.',
  publicIn: 'Open to everybody in',
  presaleFrom: 'Presale from',
  phase: 'Presale',
  help: 'Some tickets of this event are only for those who were given a code.',
  have: 'I have an access code',
  code: 'Your access code',
  hint: 'Capitals, spaces and dashes do not matter.',
  use: 'Use the code',
  checking: 'Checking…',
  missing: 'Enter your code.',
  opened: (what: string[]) => `Your code opens: ${listed(what)}.`,
  opensPresale: 'the presale',
  seatsMax: (n: number) =>
    plural(n, {
      one: 'With it an order may have # seat.',
      other: 'With it an order may have up to # seats.',
    }),
  other: 'Use another code',
  locked: 'with an access code',
  kinds: {
    label: (where: string) => `Ticket for ${where}`,
    full: 'Full price',
    option: (name: string, price: string) => `${name}, ${price}`,
    total: (sum: string) => `The total is now ${sum}.`,
    conditions: (name: string, text: string) => `${name}: ${text}`,
    title: 'Other kinds of tickets',
  },
};
