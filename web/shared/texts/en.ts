import { accessTexts } from './en-access.ts';
import { basketTexts, paymentTexts } from './en-basket.ts';
import { mapTexts } from './en-map.ts';
import { orderTexts } from './en-order.ts';
import { problemTexts } from './en-problems.ts';
import { count, money, plural, timeOfDay } from './format.ts';

const people = (n: number) => plural(n, { one: '# person', other: '# people' });
const seats = (n: number) => plural(n, { one: '# seat', other: '# seats' });

/** English: every sentence of the buyer's pages. Each state says what happened, what comes next, and what was not charged. */
export const en = {
  brand: 'Onsale',
  skip: 'Skip to the content',
  loading: 'Loading…',
  close: 'Close',
  keepTrying:
    'The connection is lost. We keep trying; nothing is lost here, and you will not be charged twice.',
  testMode: 'Test mode: no real money moves here.',
  nothingCharged: 'Nothing was charged.',
  steps: {
    label: 'Your way to the tickets',
    line: 'Line',
    seats: 'Seats',
    basket: 'Basket',
    payment: 'Payment',
  },
  events: {
    title: 'Events',
    none: 'No event is on sale at the moment.',
    /** The link to an event, by what can be done there. */
    links: {
      buy: (name: string) => `Get tickets for ${name}`,
      wait: (name: string) => `See when tickets for ${name} are sold`,
      soldOut: (name: string) => `See whether tickets for ${name} come back`,
      over: (name: string) => `Look at ${name}`,
      cancelled: (name: string) => `See what happened to ${name}`,
    },
    all: 'All events',
  },
  phases: {
    draft: 'Not announced yet',
    scheduled: 'Not open yet',
    pre_queue: 'The line is forming',
    open: 'On sale now',
    paused: 'Paused for the moment',
    sold_out: 'Sold out',
    closed: 'The sale has ended',
    cancelled: 'Cancelled',
  },
  event: {
    days: (n: number) => plural(n, { one: '# day', other: '# days' }),
    opens: 'Sale opens',
    closes: 'Sale ends',
    prices: 'Prices',
    left: 'Seats left',
    state: 'Sale',
    limit: 'Per person',
    range: (min: number, max: number, currency: string) =>
      min === max ? money(min, currency) : `${money(min, currency)} to ${money(max, currency)}`,
    noPrice: 'None left just now',
    leftOf: (left: number, total: number) =>
      `${left < 100 || left === total ? count(left) : `at least ${count(left)}`} of ${count(total)}`,
    upTo: (n: number) => `Up to ${seats(n)}`,
    upToCard: (n: number) => `Up to ${seats(n)} with one card`,
    fee: (fee: string) => `plus ${fee} fee each`,
    feeOne: (fee: string) => `plus ${fee} fee`,
    orderFee: (fee: string) => `One fee of ${fee} is added to each order.`,
    category: 'Category',
    price: 'Price',
    priceTable: 'Prices by category',
    opensIn: 'The sale opens in',
    opensSoon: 'The sale is about to open.',
    opensAtUnknown: 'The opening time is not set yet. This page will show it.',
    keepOpen:
      'You can join the line from this page the moment it opens. There is no need to reload: the countdown runs by our clock, not by that of your device.',
    preQueue: 'The line is forming already. Your number is drawn when you join.',
    join: 'Join the line',
    joining: 'Joining…',
    joinHelp: 'Everyone gets a number in order of arrival. Joining costs nothing and binds you to nothing.',
    cookies: 'Your place is kept in this browser. Cookies have to be allowed for this page.',
    look: 'Look at the seats first',
    lookMeanwhile: 'Look at the seats meanwhile',
    backFromLook: 'Back to the event',
    lookOnly: 'You are looking at the seats. They can be taken once it is your turn.',
    message: 'From the organiser',
  },
  waiting: {
    title: 'You are in the line',
    ahead: 'People ahead of you',
    exactly: (n: number) => (n === 0 ? 'You are next' : people(n)),
    about: (n: number) => `About ${people(n)}`,
    between: (from: number, to: number) => `${count(from)} to ${count(to)}`,
    wait: 'Estimated wait',
    unknownWait: 'Not known yet',
    soon: 'Less than a minute',
    minutes: (from: number, to: number) =>
      from === to
        ? plural(to, { one: 'About # minute', other: 'About # minutes' })
        : `About ${count(from)} to ${plural(to, { one: '# minute', other: '# minutes' })}`,
    hours: (from: number, to: number) => `About ${count(from)} to ${count(to)} hours`,
    number: 'Your number',
    behind: 'In line behind you',
    announceAhead: (ahead: string, wait: string) => `Ahead of you: ${ahead}. Estimated wait: ${wait}.`,
    scarce:
      'There are more people ahead of you than seats left. You may not get one; seats that come back go on in the same order.',
    inBaskets: (n: number) => `${seats(n)} in other people’s baskets may come back.`,
    called: 'It is your turn',
    calledWait: 'It is your turn. The doors open for a few people each second; you are through in a moment.',
    paused: 'The organiser has paused the sale. The queue does not move and you keep your number.',
    preQueue: 'The sale has not opened yet. Your number is kept; the line starts moving when it opens.',
    updated: (at: number) => `As of ${timeOfDay(at)}`,
    stale: 'We cannot reach the sale just now and keep trying. Your number is kept.',
    howTitle: 'Good to know while you wait',
    how: [
      'This page moves on by itself. You need not reload it, and reloading does no harm.',
      'Your number is kept in this browser. A second tab shows the same number and gives no advantage.',
      'Your phone may sleep. When you come back, the page looks at once where the line is.',
      'When your number is called you go straight to the seats and have 15 minutes to choose.',
    ],
  },
  soldOut: {
    title: 'Sold out',
    text: 'Every seat is sold. Nothing was charged.',
    mayReturn:
      'Seats can still come back when a payment fails. If that happens the line goes on in the same order.',
    numberKept: (n: number) =>
      `Your number ${count(n)} is kept while this page is open; you need not do anything.`,
  },
  over: {
    closedTitle: 'The sale has ended',
    closed: 'Tickets are no longer sold here. Nothing was charged. Orders that were made keep their tickets.',
    cancelledTitle: 'This event is cancelled',
    cancelled:
      'No tickets are sold any more. Buyers who have paid get the money back the same way they paid.',
    notFoundTitle: 'There is no such event',
    notFound: 'The address may be mistyped, or the event is no longer listed.',
    failedTitle: 'This page could not be loaded',
    failed: 'We cannot reach the sale just now and keep trying.',
  },
  session: {
    ends: (at: string) => `Choose until ${at}:`,
    left: (clock: string) => `${clock} left`,
    endedTitle: 'Your time for choosing is over',
    ended:
      'Your 15 minutes for choosing seats have ended so that others get their turn. Nothing was charged.',
    again: 'Join the line again',
    warn: (minutes: number) =>
      plural(minutes, { one: '# minute left to choose seats.', other: '# minutes left to choose seats.' }),
  },
  map: mapTexts,
  access: accessTexts,
  basket: basketTexts,
  payment: paymentTexts,
  order: orderTexts,
  problems: problemTexts,
  words: { people, seats },
};
