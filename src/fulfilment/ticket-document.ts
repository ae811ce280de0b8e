import PDFDocument from 'pdfkit';
import { createDocumentFonts } from './document-fonts.ts';
import { createPainter, type Painter } from './document-painter.ts';
import type { IssuedOrder, IssuedSeat } from './issued-order.ts';
import { kindWords, plain, priceWords, timeWords } from './words.ts';

export type DocumentSize = 'a4' | 'phone';

export interface TicketDocuments {
  /** PDF, one page a valid ticket, by seat. */
  render(issued: IssuedOrder, size: DocumentSize): Promise<Uint8Array>;
}

type Ticket = IssuedSeat & { ticket: NonNullable<IssuedSeat['ticket']> };

/** Points, 72 an inch. A phone's page is as wide as its screen and has room for all without scrolling. */
const pages: Record<DocumentSize, [width: number, height: number]> = {
  a4: [595.28, 841.89],
  phone: [360, 760],
};
const grey = '#4a5160';
const black = '#14171f';

export function createTicketDocuments(options: { timeZone: string }): TicketDocuments {
  // Read once: each document embeds only the letters that it shows.
  const fonts = createDocumentFonts();
  return {
    async render(issued, size) {
      const tickets = issued.seats.filter((seat): seat is Ticket => seat.ticket !== null);
      const choice = await fonts.ready(textsOf(issued, tickets));
      const doc = new PDFDocument({
        size: pages[size],
        margin: 0,
        autoFirstPage: false,
        // None but those that are painted with.
        font: null as unknown as string,
        lang: 'en',
        displayTitle: true,
        info: { Title: plain(`Tickets: ${issued.eventName}`), Creator: 'Onsale', Producer: 'Onsale' },
      });
      const bytes = bytesOf(doc);
      const painter = createPainter(doc, choice);
      tickets.forEach((ticket, index) => {
        doc.addPage();
        const page = { painter, issued, ticket, number: index + 1, of: tickets.length, ...options };
        if (size === 'a4') paintA4(page);
        else paintPhone(page);
      });
      doc.end();
      return await bytes;
    },
  };
}

const ownLetters = String.fromCharCode(...Array.from({ length: 95 }, (_, i) => 32 + i), 0x2026);

/** All texts that will be painted, so that the fonts for their letters are there. */
function textsOf(issued: IssuedOrder, tickets: Ticket[]): string[] {
  const places = tickets.flatMap(({ section, row, number, category, kind, price, fee }) => [
    section,
    row,
    number,
    category,
    kind,
    priceWords({ price, fee }, issued.currency),
  ]);
  return [ownLetters, issued.eventName, issued.venue, issued.buyer.name, ...places];
}

function bytesOf(doc: PDFKit.PDFDocument): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    doc.on('data', (part: Buffer) => parts.push(part));
    doc.on('end', () => resolve(Buffer.concat(parts)));
    doc.on('error', reject);
  });
}

interface Page {
  painter: Painter;
  issued: IssuedOrder;
  ticket: Ticket;
  number: number;
  of: number;
  timeZone: string;
}

function paintA4(page: Page): void {
  const { painter, ticket } = page;
  const [width] = pages.a4;
  const margin = 56;
  const column = width - 2 * margin;
  painter.frame({ x: margin - 20, y: margin - 20, width: column + 40, height: 590 });
  let y = paintHead(page, { x: margin, y: margin, width: column }, 26);
  y = paintPlace(page, { x: margin, y: y + 18, width: column });
  const qr = 232;
  const left = column - qr - 28;
  const top = y + 22;
  paintFacts(page, { x: margin, y: top + 6, width: left });
  painter.qr(ticket.ticket.code, { x: margin + column - qr, y: top, size: qr });
  painter.text('Show this code at the entrance, on paper or on a screen. It lets one person in, once.', {
    x: margin,
    y: top + qr + 18,
    width: column,
    size: 11,
  });
  paintCode(page, { x: margin, y: 600 + margin, width: column });
}

function paintPhone(page: Page): void {
  const { painter, ticket } = page;
  const [width] = pages.phone;
  const margin = 24;
  const column = width - 2 * margin;
  let y = paintHead(page, { x: margin, y: 26, width: column }, 20);
  const qr = 256;
  painter.qr(ticket.ticket.code, { x: (width - qr) / 2, y: y + 10, size: qr });
  y = paintPlace(page, { x: margin, y: y + qr + 24, width: column });
  y = paintFacts(page, { x: margin, y: y + 14, width: column });
  paintCode(page, { x: margin, y: y + 12, width: column });
}

interface Box {
  x: number;
  y: number;
  width: number;
}

/** Each answers where the next may begin. */
function paintHead({ painter, issued, timeZone }: Page, box: Box, size: number): number {
  let y = painter.text(plain(issued.eventName), {
    ...box,
    size,
    least: size * 0.65,
    weight: 'bold',
    linesMax: 3,
  });
  const facts = { ...box, size: size * 0.5, linesMax: 2 };
  if (issued.performanceAt !== null) {
    y = painter.text(timeWords(issued.performanceAt, timeZone), { ...facts, y: y + 4, weight: 'bold' });
  }
  return issued.venue ? painter.text(plain(issued.venue), { ...facts, y: y + 2, color: grey }) : y;
}

/** Section, row and seat next to each other: gate staff and the person who looks for the seat both read them. */
function paintPlace({ painter, ticket }: Page, box: Box): number {
  const parts: [label: string, value: string, share: number][] = [
    ['Section', plain(ticket.section), 2],
    ...(ticket.row ? [['Row', plain(ticket.row), 1] as [string, string, number]] : []),
    ticket.number
      ? ['Seat', plain(ticket.number), 1]
      : ['Place', ticket.row ? 'any in this row' : 'standing, no numbered seat', 2],
  ];
  const unit = box.width / parts.reduce((sum, [, , share]) => sum + share, 0);
  let x = box.x;
  let bottom = box.y;
  for (const [label, value, share] of parts) {
    const width = unit * share - 10;
    const y = painter.text(label, { x, y: box.y, width, size: 10, color: grey });
    const end = painter.text(value, { x, y, width, size: 24, least: 10, weight: 'bold', linesMax: 3 });
    bottom = Math.max(bottom, end);
    x += unit * share;
  }
  return bottom;
}

function paintFacts({ painter, issued, ticket, number, of }: Page, box: Box): number {
  const facts: [label: string, value: string][] = [
    ['Name', plain(issued.buyer.name)],
    ['Category', kindWords(ticket)],
    ['Price', priceWords(ticket, issued.currency)],
    ['Ticket', `${number} of ${of}`],
  ];
  let { y } = box;
  for (const [label, value] of facts) {
    y = painter.text(label, { ...box, y, size: 9, color: grey });
    y = painter.text(value, { ...box, y, size: 13, least: 9, linesMax: 3 }) + 6;
  }
  return y;
}

function paintCode({ painter, issued, ticket }: Page, box: Box): void {
  const small = { ...box, size: 7, color: grey };
  let y = painter.text(`The code as text, for when it cannot be scanned (order ${issued.order}):`, {
    ...small,
    linesMax: 2,
  });
  const perLine = Math.max(32, Math.floor(box.width / 5.4 / 8) * 8);
  const { code } = ticket.ticket;
  for (let at = 0; at < code.length; at += perLine) {
    y = painter.text(code.slice(at, at + perLine), { ...small, y: y + 1, color: black });
  }
}
