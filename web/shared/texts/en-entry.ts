import { count, plural } from './format.ts';

const at = (time: string, gate: string | null) => (gate ? `${time}, ${gate}` : time);

/** English: who came in, on the organiser's page. */
export const enEntry = {
  title: 'Entry',
  help: 'Admits a ticket by its code, once. A scanner types it like a keyboard. To take back an earlier check-in, scan its ticket again.',
  came: (entered: number, tickets: number) => `${count(entered)} of ${count(tickets)} came in.`,
  counting: 'Counting who came in…',
  gate: 'Gate',
  code: 'Code of the ticket',
  check: 'Let in',
  list: 'List for gates without a network',
  listHelp: 'The key and the revoked tickets. It is as old as the time you load it.',
  notIn: 'Do not let in',
  results: {
    valid: (place: string) => `Valid. ${place}`,
    used: (time: string, gate: string | null, place: string) =>
      place ? `Used before: ${at(time, gate)}. ${place}` : `Used before: ${at(time, gate)}.`,
    undone: 'This scan was taken back. Look at the ticket and scan it again.',
    revoked: {
      refunded: 'Not valid any more: it was refunded.',
      event_cancelled: 'The event was cancelled.',
      not_paid: 'Not valid: its order is not paid.',
      unknown: 'There is no such ticket.',
    } as Record<string, string>,
    other: (event: string) => `A ticket for another event: ${event}.`,
    forged: 'No code of ours: forged, altered or not read well.',
  },
  place: (section: string, row: string, number: string) =>
    [section, row && `row ${row}`, number && `seat ${number}`].filter(Boolean).join(', '),
  byGate: { title: 'By gate', entered: 'Came in', last: 'Last', unnamed: 'no gate named' },
  takeBack: {
    ask: 'Take this check-in back',
    why: 'Why is it taken back?',
    whyHint: 'Written down with your name. The ticket may then be used again.',
    yes: 'Take it back',
    no: 'Leave it as it is',
    free: 'It is taken back. The ticket may be used again.',
    counts: (time: string, gate: string | null) =>
      `It is taken back. Another use of the ticket counts: ${at(time, gate)}.`,
    gone: 'There is no such check-in any more: it was taken back before.',
  },
  doubles: {
    title: 'Tickets used more than once',
    none: 'None. Gates without a network cannot know of each other: what they let in is compared when they hand it over.',
    help: 'Gates without a network let these in without knowing of each other. The earliest use counts; take back one that was a mistake.',
    revoked: (n: number) =>
      plural(n, {
        one: '# person came in with a ticket that was not valid any more.',
        other: '# people came in with tickets that were not valid any more.',
      }),
    ticket: (id: string) => `Ticket ${id}`,
    use: at,
    by: (actor: string) => `told by ${actor}`,
    takeBack: 'Take back',
    of: (place: string, time: string, gate: string | null) => `${place}: ${at(time, gate)}`,
  },
};
