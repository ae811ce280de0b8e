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
  wait: (seconds: number) =>
    plural(seconds, {
      one: 'Many wrong codes were entered from your network. Your code is checked again automatically in about # second.',
      other:
        'Many wrong codes were entered from your network. Your code is checked again automatically in about # seconds.',
    }),
  /** By the API's code: the reason why this browser's access code opens nothing any more. */
  over: {
    code_used_up: (code: string) => `${code} has been used as often as it may be.`,
    code_ended: (code: string) => `${code} is not valid any more.`,
    code_unknown: (code: string) => `${code} is not a code of this event any more.`,
  } as Record<string, (code: string) => string>,
  opened: (what: string[]) => `Your code opens: ${listed(what)}.`,
  opensPresale: 'the presale',
  seatsMax: (n: number) =>
    plural(n, {
      one: 'With it an order may have # seat.',
      other: 'With it an order may have up to # seats.',
    }),
  other: 'Use another code',
  locked: 'with an access code',
  unlocked: 'your code opens this',
  kinds: {
    label: (where: string) => `Ticket for ${where}`,
    full: 'Full price',
    option: (name: string, price: string) => `${name}, ${price}`,
    total: (sum: string) => `The total is now ${sum}.`,
    conditions: (name: string, text: string) => `${name}: ${text}`,
    title: 'Other kinds of tickets',
  },
};
