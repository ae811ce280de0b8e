import { count, listed, money, plural } from './format.ts';

const seats = (n: number) => plural(n, { one: '# seat', other: '# seats' });

/** A seat in words: `Row C, seat 12`. Rows and numbers may be missing in a plan. */
function seat(s: { row: string; number: string }): string {
  if (s.row && s.number) return `Row ${s.row}, seat ${s.number}`;
  if (s.number) return `Seat ${s.number}`;
  return s.row ? `Row ${s.row}` : 'Standing, no numbered seat';
}

/** A bare `112` or `B2` says little by itself; `North Stand` needs no addition. */
function section(name: string): string {
  return /^[\p{L}\p{N}]{1,4}$/u.test(name) ? `Section ${name}` : name;
}

/** Several seats of one row in one breath. */
function seatsInRow(row: string, numbers: string[]): string {
  if (numbers.length === 1) return seat({ row, number: numbers[0]! });
  const which = `seats ${listed(numbers)}`;
  return row ? `row ${row}, ${which}` : which;
}

export const mapTexts = {
  title: 'Choose your seats',
  changeTitle: 'Change your seats',
  changeHelp:
    'Your present seats stay yours until the new ones are held. The time that is left does not change.',
  keepOld: 'Keep the seats I have',
  seat,
  sectionName: section,
  seatsInRow,
  ways: { label: 'How to choose', best: 'Best available', map: 'Map', list: 'List' },
  best: {
    title: 'Best available',
    help: 'We pick the best free seats side by side. This is the quickest way when many people buy at once.',
    quantity: 'How many?',
    fewer: 'One fewer',
    more: 'One more',
    category: 'Price category',
    any: 'Any category',
    section: 'Section',
    anySection: 'Anywhere',
    categoryOption: (name: string, price: string, left: number) => `${name}, ${price} (${count(left)} left)`,
    sectionOption: (name: string, left: number) => `${name} (${count(left)} left)`,
    find: (n: number) => plural(n, { one: 'Find a seat', other: 'Find # seats' }),
    finding: 'Looking for seats…',
    notAsAsked:
      'These were the best that were left, but not all of them are side by side or where you asked.',
  },
  canvas: {
    label: 'Seating map',
    help: 'Arrow keys move between sections or seats, Enter chooses, plus and minus zoom, Escape goes back to the whole venue. The list shows the same seats as text.',
    zoomIn: 'Zoom in',
    zoomOut: 'Zoom out',
    whole: 'Whole venue',
    hint: 'Choose a section to see its seats',
    section: (name: string, left: number) =>
      `${section(name)}, ${left === 0 ? 'none left' : `${seats(left)} left`}`,
    entered: (name: string, left: number) => `${section(name)} opened, ${seats(left)} free.`,
    wholeShown: 'Whole venue shown.',
    left: (n: number) => (n === 0 ? 'none left' : `${count(n)} left`),
    standing: 'Standing',
  },
  state: {
    free: 'free',
    taken: 'taken',
    selected: 'chosen',
    mine: 'in your basket',
    unknown: 'not known yet',
  },
  attributes: {
    accessible: 'wheelchair space',
    companion: 'companion seat',
    'restricted-view': 'restricted view',
  },
  legend: {
    title: 'What the signs mean',
    free: 'Free (colour shows the category)',
    taken: 'Taken',
    selected: 'Chosen by you',
    accessible: 'Wheelchair space',
    companion: 'Companion seat',
    restricted: 'Restricted view',
    filter: 'Show one category only',
    all: 'All categories',
  },
  seatLine: (where: string, category: string, price: string, extra: string[]) =>
    [where, category, price, ...extra].filter(Boolean).join(', '),
  list: {
    title: 'Sections and seats as a list',
    choose: 'Open a section to see its rows. Each free seat has a box to tick.',
    section: (name: string, left: number) =>
      `${section(name)}: ${left === 0 ? 'none left' : `${seats(left)} left`}`,
    row: (label: string) => (label ? `Row ${label}` : 'Row without a label'),
    rowTaken: (taken: number) => (taken === 0 ? 'all free' : `${count(taken)} taken`),
    rowNone: 'none free',
    back: 'All sections',
    loading: 'Looking which seats are free…',
    stepsHeading: section,
  },
  ga: {
    title: (name: string) => name,
    help: (left: number) => `Standing area without numbered seats. ${count(left)} places left.`,
    quantity: 'How many places?',
    take: (n: number) => plural(n, { one: 'Take # place', other: 'Take # places' }),
  },
  unit: 'This box is sold only as a whole: choosing one seat chooses all of them.',
  selection: {
    title: 'Your choice',
    none: 'No seat chosen yet',
    count: (n: number) => plural(n, { one: '# seat chosen', other: '# seats chosen' }),
    remove: (where: string) => `Remove ${where}`,
    clear: 'Clear',
    hold: (n: number) => plural(n, { one: 'Hold this seat', other: 'Hold these # seats' }),
    holding: 'Holding…',
    note: (minutes: number) =>
      `Held seats are yours for ${plural(minutes, { one: '# minute', other: '# minutes' })} while you pay. Nothing is charged yet.`,
    max: (n: number) => `You can hold up to ${seats(n)} at once.`,
    total: (minor: number, currency: string) => money(minor, currency),
    added: (where: string, n: number) =>
      `${where} chosen. ${plural(n, { one: '# seat', other: '# seats' })} chosen.`,
    removed: (where: string, n: number) =>
      `${where} removed. ${plural(n, { one: '# seat', other: '# seats' })} chosen.`,
    lost: (where: string) =>
      `${where} has just been taken by another buyer and was removed from your choice.`,
  },
  parts: {
    title: 'Sold in separate parts',
    text: 'One order takes seats of one part of the venue. Keep one part; the others can be bought in a second order.',
    keep: (where: string, n: number) => `Keep ${seats(n)} in ${where}`,
    hold: (where: string, n: number) => `Hold ${seats(n)} in ${where}`,
    away: 'These seats are sold in another part of the venue than those you hold. They are held first, and then your present seats are released. The time to pay starts again.',
    move: 'Hold these, give mine back',
    bestHere: 'Only the part of the venue that your seats are in was searched.',
    bestAnywhere: 'Search everywhere, give mine back',
  },
  taken: {
    title: 'Somebody else was quicker',
    text: (which: string) =>
      `${which} went to another buyer a moment ago. Nothing was held and nothing was charged.`,
    textAny: 'These seats went to another buyer a moment ago. Nothing was held and nothing was charged.',
    nearest: 'The nearest seats that are still free:',
    take: 'Choose these instead',
    none: 'Choose other seats, or let us find the best that are left.',
    bestNone:
      'No such seats are free just now. Try fewer seats, another category or another section. Nothing was charged.',
  },
  exists: {
    title: 'You already hold seats',
    text: 'One set of seats can be held at a time. You can exchange it for this choice, or keep it.',
    swap: 'Exchange for the new seats',
    keep: 'Keep the seats I hold',
  },
};
