import type { IssuedOrder, IssuedSeat } from './issued-order.ts';
import { isolated, kindWords, moneyWords, placeOf, plain, priceWords, timeWords } from './words.ts';

/** The event types of an order that its buyer gets a mail about: the names that SQL's `order_happened` uses. */
export type Happening =
  | 'order.confirmed'
  | 'order.closed_late'
  | 'order.failed'
  | 'order.cancelled'
  | 'order.money_returned'
  | 'refund.created'
  | 'refund.succeeded'
  | 'refund.failed';

export interface HappeningDetail {
  /** Minor units that go back to the buyer. */
  amount?: number;
  /** Seats that the buyer no longer has. */
  seats?: number[];
}

export interface Letter {
  subject: string;
  text: string;
  html: string;
  /** The ticket document goes with it. */
  withTickets: boolean;
}

export interface LetterParts {
  issued: IssuedOrder;
  detail: HappeningDetail;
  /** Opens the order page, with its secret behind the #. */
  orderUrl: string;
  timeZone: string;
}

/** A letter as it is said: its layout, as text and as HTML, is the same for all. */
interface Content {
  subject: string;
  title: string;
  /** Foreign text in them is `isolated`. */
  paragraphs: string[];
  seats: IssuedSeat[];
  /** Shows the prices of the seats, only in letters about a payment. */
  withPrices: boolean;
  /** The sum below the seats. */
  total: { words: string; amount: number } | null;
  link: string;
  note: string;
  withTickets: boolean;
}

/** Returns null if there is nothing to report (any more). Pure: the same parts make the same letter. */
export function composeLetter(happening: Happening, parts: LetterParts): Letter | null {
  const letter = letters[happening](parts);
  if (!letter) return null;
  return {
    subject: plain(letter.subject),
    text: asText(letter, parts),
    html: asHtml(letter, parts),
    withTickets: letter.withTickets,
  };
}

const openOrder = 'See your order';
const overWords = 'These tickets are not valid any more:';
const keepNote = 'Whoever has this link can see the order and its tickets: do not pass it on.';

const letters: Record<Happening, (parts: LetterParts) => Content | null> = {
  'order.confirmed': ({ issued }) => {
    const seats = issued.seats.filter(({ ticket }) => ticket !== null);
    if (seats.length === 0) return null;
    const all = seats.length === issued.seats.length;
    return {
      subject: `Your tickets: ${issued.eventName}`,
      title: 'Your tickets',
      paragraphs: [
        `Thank you, ${isolated(issued.buyer.name)}. Your order is paid.`,
        'Your tickets are in the attached document, one page each. Show the code at the entrance, on paper or on a screen.',
      ],
      seats,
      withPrices: true,
      total: all ? { words: 'Total', amount: issued.amount } : null,
      link: 'See your order and your tickets',
      note: keepNote,
      withTickets: true,
    };
  },
  'order.closed_late': ({ issued, detail }) => ({
    subject: `Your seats were released: ${issued.eventName}`,
    title: 'Your seats were released',
    paragraphs: [
      'Your payment came through after the time for paying had ended. By then your seats had been released and could not be taken again.',
      detail.amount
        ? moneyBack(issued, detail)
        : 'You have not been charged. What your bank had set aside is given back; it may show the reservation for some days.',
      'You can choose seats again while there are any. The page of your order shows what is free near yours. These were your seats:',
    ],
    seats: issued.seats,
    withPrices: false,
    total: null,
    link: openOrder,
    note: '',
    withTickets: false,
  }),
  'order.failed': ({ issued, detail }) => {
    const again =
      issued.reason === 'event_cancelled' ? '' : 'You can choose seats again while there are any. ';
    return {
      subject: `Your order was not completed: ${issued.eventName}`,
      title: 'Your order was not completed',
      paragraphs: [
        failedWhy(issued),
        detail.amount
          ? moneyBack(issued, detail)
          : 'You have not been charged. If your bank shows a reservation, it ends without your doing anything; this may take some days.',
        `${again}These were your seats:`,
      ],
      seats: issued.seats,
      withPrices: false,
      total: null,
      link: openOrder,
      note: '',
      withTickets: false,
    };
  },
  'order.cancelled': ({ issued, detail }) => ({
    subject: `Cancelled: your order for ${issued.eventName}`,
    title: issued.reason === 'event_cancelled' ? 'The event is cancelled' : 'Your order is cancelled',
    paragraphs: [
      issued.reason === 'event_cancelled' ? `${isolated(issued.eventName)} will not take place.` : '',
      moneyBack(issued, detail),
      issued.reason === 'capture_refused' ? 'Your seats went back on sale:' : overWords,
    ],
    seats: issued.seats,
    withPrices: false,
    total: null,
    link: openOrder,
    note: '',
    withTickets: false,
  }),
  'order.money_returned': ({ issued, detail }) => ({
    subject: `Your money was given back: ${issued.eventName}`,
    title: 'Your money was given back',
    paragraphs: [
      issued.state === 'paid'
        ? 'A further payment was taken for your order. It did not belong to your tickets, which stay valid.'
        : 'A payment was taken for your order, which has ended. It buys no tickets.',
      detail.amount === undefined
        ? 'All of it was given back to the card it was taken from.'
        : `${moneyWords(detail.amount, issued.currency)} was given back to the card it was taken from.`,
      'It may take your bank some days to show it.',
    ],
    seats: [],
    withPrices: false,
    total: null,
    link: openOrder,
    note: '',
    withTickets: false,
  }),
  'refund.created': ({ issued, detail }) => {
    // A cancellation of the whole order has a letter of its own.
    if (issued.state === 'cancelled') return null;
    const gone = issued.seats.filter(({ seat }) => detail.seats?.includes(seat));
    const words = detail.amount === 0 ? 'Tickets were cancelled' : 'A refund is on its way';
    return {
      subject: `${words}: ${issued.eventName}`,
      title: words,
      paragraphs: [
        moneyBack(issued, detail),
        gone.length < issued.seats.length ? 'Your other tickets stay valid.' : '',
        gone.length > 0 ? overWords : '',
      ],
      seats: gone,
      withPrices: false,
      total: null,
      link: openOrder,
      note: keepNote,
      withTickets: false,
    };
  },
  'refund.succeeded': ({ issued, detail }) => {
    // Tickets that cost nothing any more: there is no money to tell about.
    if (detail.amount === 0) return null;
    return {
      subject: `Refunded: ${issued.eventName}`,
      title: 'Your refund',
      paragraphs: [
        detail.amount === undefined
          ? 'What you paid was given back to the card you paid with.'
          : `${moneyWords(detail.amount, issued.currency)} was given back to the card you paid with.`,
        'It may take your bank some days to show it.',
      ],
      seats: [],
      withPrices: false,
      total: null,
      link: openOrder,
      note: '',
      withTickets: false,
    };
  },
  'refund.failed': ({ issued, detail }) => {
    const sum = detail.amount === undefined ? 'what you paid' : moneyWords(detail.amount, issued.currency);
    return {
      subject: `Your refund did not arrive: ${issued.eventName}`,
      title: 'Your refund did not arrive',
      paragraphs: [
        `We wrote to you that ${sum} was given back to the card you paid with. Your bank has sent it back to us.`,
        'You are still owed this sum. The organiser sees that the refund failed, and sends it again or pays you in another way. You need not do anything.',
      ],
      seats: [],
      withPrices: false,
      total: null,
      link: openOrder,
      note: '',
      withTickets: false,
    };
  },
};

function failedWhy({ reason, eventName }: IssuedOrder): string {
  switch (reason) {
    case 'event_cancelled':
      return `${isolated(eventName)} will not take place.`;
    case 'limit':
      return 'No more tickets for this event can be bought with your e-mail address.';
    case 'card_limit':
      return 'No more tickets for this event can be bought with the card that you used.';
    case 'payment_mismatch':
      return 'The payment did not match your order, so it was not accepted.';
    case null:
    default:
      return 'Your seats could not be kept for you. We are sorry.';
  }
}

function moneyBack(issued: IssuedOrder, { amount }: HappeningDetail): string {
  // Money that went back before counts: by goodwill, at the provider, or by the buyer's own bank.
  if (amount === 0) return 'No further money goes back for them.';
  if (issued.reason === 'capture_refused' && amount === undefined)
    return 'Your payment could not be taken. You have not been charged.';
  const days = 'It may take your bank some days to show it.';
  return amount === undefined
    ? `What you paid goes back to the card you paid with. ${days}`
    : `${moneyWords(amount, issued.currency)} goes back to the card you paid with. ${days}`;
}

/** A note about the event, for all letters. */
function eventLines({ issued, timeZone }: LetterParts): string[] {
  const { eventName, venue, performanceAt } = issued;
  return [
    plain(eventName),
    plain(venue),
    performanceAt === null ? '' : timeWords(performanceAt, timeZone),
  ].filter(Boolean);
}

function seatPrice(seat: IssuedSeat, { issued }: LetterParts): string {
  return priceWords(seat, issued.currency);
}

function asText(letter: Content, parts: LetterParts): string {
  const { issued, orderUrl } = parts;
  const seats = letter.seats.map(
    (seat) =>
      `- ${placeOf(seat)} (${kindWords(seat)})${letter.withPrices ? `: ${seatPrice(seat, parts)}` : ''}`,
  );
  const sums = letter.total
    ? [
        issued.orderFee > 0 ? `Order fee: ${moneyWords(issued.orderFee, issued.currency)}` : '',
        `${letter.total.words}: ${moneyWords(letter.total.amount, issued.currency)}`,
      ]
    : [];
  const blocks = [
    letter.title,
    eventLines(parts).join('\n'),
    ...letter.paragraphs,
    [...seats, ...sums].filter(Boolean).join('\n'),
    `${letter.link}:\n${orderUrl}`,
    letter.note,
    `Order ${issued.order}`,
  ];
  return `${blocks.filter(Boolean).join('\n\n')}\n`;
}

const styles = {
  body: 'margin:0;padding:24px 12px;background:#f4f5f7;font:16px/1.5 system-ui,-apple-system,Segoe UI,Roboto,Arial,sans-serif;color:#1a1d24',
  card: 'max-width:560px;margin:0 auto;background:#fff;border-radius:12px;padding:28px 24px',
  title: 'margin:0 0 4px;font-size:24px;line-height:1.25',
  event: 'margin:0 0 20px;color:#4a5160',
  table: 'width:100%;border-collapse:collapse;margin:16px 0',
  cell: 'padding:8px 0;border-top:1px solid #e3e6eb;vertical-align:top',
  price:
    'padding:8px 0 8px 12px;border-top:1px solid #e3e6eb;vertical-align:top;text-align:right;white-space:nowrap',
  button:
    'display:inline-block;background:#1f4bd8;color:#fff;text-decoration:none;padding:12px 20px;border-radius:8px;font-weight:600',
  small: 'margin:20px 0 0;font-size:13px;color:#4a5160',
};

/** One column, inline styles, no picture from elsewhere: that is what mail programs show alike. */
function asHtml(letter: Content, parts: LetterParts): string {
  const { issued, orderUrl } = parts;
  const rows = letter.seats.map((seat) =>
    tableRow(
      `${escapeHtml(placeOf(seat))}<br><span style="color:#4a5160">${escapeHtml(kindWords(seat))}</span>`,
      letter.withPrices ? escapeHtml(seatPrice(seat, parts)) : '',
    ),
  );
  if (letter.total && issued.orderFee > 0) {
    rows.push(tableRow('Order fee', escapeHtml(moneyWords(issued.orderFee, issued.currency))));
  }
  if (letter.total) {
    const { words, amount } = letter.total;
    const sum = escapeHtml(moneyWords(amount, issued.currency));
    rows.push(tableRow(`<strong>${escapeHtml(words)}</strong>`, `<strong>${sum}</strong>`));
  }
  return [
    '<!doctype html><html lang="en"><head><meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light">',
    `<title>${escapeHtml(plain(letter.subject))}</title></head>`,
    `<body style="${styles.body}"><div style="${styles.card}">`,
    `<h1 style="${styles.title}">${escapeHtml(letter.title)}</h1>`,
    `<p style="${styles.event}">${eventLines(parts).map(foreign).join('<br>')}</p>`,
    ...letter.paragraphs.filter(Boolean).map((words) => `<p>${escapeHtml(words)}</p>`),
    rows.length > 0 ? `<table role="presentation" style="${styles.table}">${rows.join('')}</table>` : '',
    `<p><a href="${escapeHtml(orderUrl)}" style="${styles.button}">${escapeHtml(letter.link)}</a></p>`,
    letter.note ? `<p style="${styles.small}">${escapeHtml(letter.note)}</p>` : '',
    `<p style="${styles.small}">Order ${escapeHtml(issued.order)}</p>`,
    '</div></body></html>',
  ].join('\n');
}

function tableRow(what: string, price: string): string {
  return `<tr><td style="${styles.cell}">${what}</td><td style="${styles.price}">${price}</td></tr>`;
}

/** A line of foreign text keeps its own direction. */
function foreign(text: string): string {
  return `<bdi>${escapeHtml(text)}</bdi>`;
}

const entities: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character]!);
}
