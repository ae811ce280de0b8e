import type { Events } from '../catalogue/events.ts';
import type { EventNo } from '../core/hold.ts';
import type { Layout } from '../core/seat-map.ts';
import { sectionNames } from '../core/section-names.ts';
import { readSnapshot } from '../postgres/snapshot.ts';
import { type Column, type ExportFormat, type ExportRow, exportForm } from './export-forms.ts';
import { signTicketCode, type TicketKey } from './ticket-code.ts';

export const exportKinds = ['orders', 'tickets', 'refunds'] as const;
export type ExportKind = (typeof exportKinds)[number];

export interface ExportWish {
  what: ExportKind;
  format: ExportFormat;
  /** Null means all events. */
  event: EventNo | null;
  /** For tickets: includes the codes of the valid ones. A person who has a code can enter with it. */
  codes: boolean;
  /** CSV: begin with the mark that tells Excel that the file is UTF-8. */
  byteOrderMark: boolean;
}

export interface ExportParts {
  /** Address of the database. */
  url: string;
  events: Pick<Events, 'findByNo' | 'layoutBytes'>;
  /** Undefined if codes cannot be made. */
  ticketKey?: TicketKey;
}

const columns: Record<ExportKind, readonly Column[]> = {
  orders: [
    ['order', 'ours'],
    ['event', 'ours'],
    ['state', 'ours'],
    ['reason', 'ours'],
    ['created_at', 'time'],
    ['buyer_name', 'text'],
    ['buyer_email', 'text'],
    ['account', 'text'],
    ['tickets', 'number'],
    ['amount', 'money'],
    ['order_fee', 'money'],
    ['refunded', 'money'],
    ['refund_owed', 'money'],
    ['currency', 'ours'],
    ['payment', 'ours'],
    ['card_brand', 'text'],
    ['card_last4', 'text'],
    ['forgotten_at', 'time'],
  ],
  tickets: [
    ['ticket', 'ours'],
    ['event', 'ours'],
    ['order', 'ours'],
    ['state', 'ours'],
    ['seat_no', 'number'],
    ['section', 'text'],
    ['row', 'text'],
    ['seat', 'text'],
    ['seat_guid', 'text'],
    ['category', 'text'],
    ['kind', 'text'],
    ['price', 'money'],
    ['fee', 'money'],
    ['currency', 'ours'],
    ['buyer_name', 'text'],
    ['buyer_email', 'text'],
    ['created_at', 'time'],
    ['revoked_at', 'time'],
    ['entered_at', 'time'],
    ['entered_gate', 'text'],
  ],
  refunds: [
    ['refund', 'ours'],
    ['event', 'ours'],
    ['order', 'ours'],
    ['state', 'ours'],
    ['amount', 'money'],
    ['fees_kept', 'money'],
    ['order_fee', 'money'],
    ['goodwill', 'money'],
    ['currency', 'ours'],
    ['tickets', 'number'],
    ['event_cancelled', 'flag'],
    ['actor', 'text'],
    ['reason', 'text'],
    ['detail', 'text'],
    ['payment', 'ours'],
    ['attempts', 'number'],
    ['created_at', 'time'],
    ['updated_at', 'time'],
  ],
};

const codeColumn: Column = ['code', 'ours'];

/** An order that was given up before it was reserved never was a purchase: it is left out. */
const ordersText = (where: string): string => `
  SELECT o.order_id AS "order", e.event_id AS event, o.state, o.reason, o.created_at, o.buyer ->> 'name' AS buyer_name,
    o.buyer ->> 'email' AS buyer_email, o.account, cardinality(o.seats) AS tickets, o.amount, o.order_fee,
    coalesce(r.given, 0) AS refunded, coalesce(r.owed, 0) AS refund_owed, o.currency, o.provider_object AS payment,
    o.instrument ->> 'brand' AS card_brand, o.instrument ->> 'last4' AS card_last4, o.forgotten_at
  FROM orders o JOIN events e USING (event_no)
    LEFT JOIN LATERAL (
      SELECT sum(amount) FILTER (WHERE state IN ('done','elsewhere')) AS given,
             sum(amount) FILTER (WHERE state NOT IN ('done','elsewhere')) AS owed
      FROM refunds r WHERE r.order_id = o.order_id) r ON true
  WHERE o.seats <> '{}' AND ${where} ORDER BY o.event_no, o.created_at, o.order_id`;

/** Tickets that were sold, whatever became of them. `unpaid`: its order's capture is still under way. */
const ticketsText = (where: string): string => `
  SELECT t.ticket_id AS ticket, e.event_id AS event, o.event_no, t.order_id AS "order", t.seat_no,
    s.section_id AS section, s.row_label AS "row", s.seat_label AS seat, s.seat_guid, s.category, t.kind,
    CASE WHEN t.revoked_at IS NOT NULL OR e.phase = 'cancelled' THEN 'revoked'
         WHEN o.state = 'paid' THEN 'valid' ELSE 'unpaid' END AS state,
    t.price, t.fee, o.currency, o.buyer ->> 'name' AS buyer_name, o.buyer ->> 'email' AS buyer_email, t.created_at,
    t.revoked_at, n.at AS entered_at, n.gate AS entered_gate
  FROM tickets t JOIN orders o USING (order_id) JOIN events e ON e.event_no = t.event_no
    LEFT JOIN event_seats s ON s.event_no = t.event_no AND s.seat_no = t.seat_no
    LEFT JOIN entries n ON n.event_no = t.event_no AND n.ticket_id = t.ticket_id
  WHERE (t.status = 'sold' OR t.revoked_at IS NOT NULL) AND ${where.replace('o.', 't.')}
  ORDER BY t.event_no, t.seat_no, t.created_at, t.ticket_id`;

const refundsText = (where: string): string => `
  SELECT o.refund_id AS refund, e.event_id AS event, o.order_id AS "order", o.state, o.amount, o.fees_kept, o.order_fee,
    o.goodwill, o.currency, (SELECT count(*) FROM refund_tickets t WHERE t.refund_id = o.refund_id) AS tickets,
    o.cancellation AS event_cancelled, o.actor, o.reason, o.detail,
    (SELECT provider_object FROM orders WHERE orders.order_id = o.order_id) AS payment,
    (SELECT count(*) FROM money_operations m WHERE m.refund_id = o.refund_id) AS attempts, o.created_at, o.updated_at
  FROM refunds o JOIN events e USING (event_no)
  WHERE ${where} ORDER BY o.event_no, o.created_at, o.refund_id`;

const texts: Record<ExportKind, (where: string) => string> = {
  orders: ordersText,
  tickets: ticketsText,
  refunds: refundsText,
};

/**
 * Writes an export, batch by batch, and returns its number of rows. All rows show one moment, the start of the export. `write`
 * must not wait for people, see `readSnapshot`. It contains no secrets (of orders, of the payment provider).
 */
export async function writeExport(
  parts: ExportParts,
  wish: ExportWish,
  write: (text: string, rows: number) => Promise<void>,
  signal?: AbortSignal,
): Promise<number> {
  const { url } = parts;
  const withCodes = wish.codes && wish.what === 'tickets';
  const listed = withCodes ? [...columns.tickets, codeColumn] : columns[wish.what];
  const form = exportForm(wish.format, listed, wish);
  const [where, values] = wish.event === null ? ['true', []] : ['o.event_no = $1', [wish.event]];
  const complete = wish.what === 'tickets' ? ticketCompletion(parts, withCodes) : undefined;
  let rows = 0;
  await write(form.head, 0);
  for await (const found of readSnapshot<ExportRow>({ url, text: texts[wish.what](where), values, signal })) {
    let text = '';
    for (const row of found) {
      text += form.row(complete ? await complete(row) : row, rows === 0);
      rows += 1;
    }
    await write(text, rows);
  }
  await write(form.tail, rows);
  return rows;
}

/** Adds the columns that SQL does not have: the name of the section, and the code. Rows come event by event. */
function ticketCompletion(
  { events, ticketKey }: ExportParts,
  withCodes: boolean,
): (row: ExportRow) => Promise<ExportRow> {
  let of: EventNo | undefined;
  let names = new Map<string, string>();
  return async (row) => {
    const event = Number(row.event_no);
    if (event !== of) {
      names = await namesOf(events, event);
      of = event;
    }
    const section = names.get(String(row.section)) ?? row.section ?? null;
    if (!withCodes || !ticketKey || row.state !== 'valid') return { ...row, section };
    const code = signTicketCode(ticketKey, { ticket: String(row.ticket), event, seat: Number(row.seat_no) });
    return { ...row, section, code };
  };
}

/** Only the names stay in memory: venues are large, and an export may come by all of them. */
async function namesOf(events: ExportParts['events'], no: EventNo): Promise<Map<string, string>> {
  const hash = (await events.findByNo(no))?.layoutHash;
  const bytes = hash ? await events.layoutBytes(hash) : null;
  return bytes ? sectionNames(JSON.parse(Buffer.from(bytes).toString('utf8')) as Layout) : new Map();
}
