import type { Events } from '../catalogue/events.ts';
import type { EventNo, OrderId } from '../core/hold.ts';
import type { OrderState } from '../core/order.ts';
import { assert } from '../core/outcome.ts';
import type { SeatNo } from '../core/seat-map.ts';
import { sectionNames } from '../core/section-names.ts';
import type { Order } from '../orders/record.ts';
import { ticketsOfOrder } from '../orders/tickets.ts';
import type { Db } from '../postgres/db.ts';
import { signTicketCode, type TicketKey } from './ticket-code.ts';

/** All that mails and ticket documents say of an order. Texts are the buyer's and the organiser's: never trusted. */
export interface IssuedOrder {
  order: OrderId;
  state: OrderState;
  reason: string | null;
  buyer: { name: string; email: string };
  eventName: string;
  /** The seating plan's name: of the venue, as a rule. */
  venue: string;
  /** Epoch ms. Null if it is not fixed yet. */
  performanceAt: number | null;
  currency: string;
  /** Minor units: what the order cost when it was bought, and the fee of the order in it. */
  amount: number;
  orderFee: number;
  /** Every seat that was bought, by number. */
  seats: IssuedSeat[];
}

export interface IssuedSeat {
  seat: SeatNo;
  section: string;
  row: string;
  number: string;
  category: string;
  kind: string;
  price: number;
  fee: number;
  /** Null if its ticket is not valid yet, or no longer valid. */
  ticket: { id: string; code: string } | null;
}

export interface IssuedOrderParts {
  db: Db;
  events: Pick<Events, 'findByNo' | 'venue'>;
  ticketKey: TicketKey;
}

/** The order as its papers show it. Codes are there only when it is paid and its event takes place: else nothing lets anybody in. */
export async function readIssuedOrder(parts: IssuedOrderParts, order: Order): Promise<IssuedOrder> {
  const event = await parts.events.findByNo(order.eventNo);
  assert(event, `the event of order ${order.order} exists`);
  const venue = await parts.events.venue(event);
  const names = sectionNames(venue.layout);
  const isValid = order.state === 'paid' && event.phase !== 'cancelled';
  const codes = isValid ? await validCodes(parts, order.eventNo, order.order) : new Map();
  return {
    order: order.order,
    state: order.state,
    reason: order.reason,
    buyer: order.buyer,
    eventName: event.name,
    venue: venue.layout.name,
    performanceAt: event.performanceAt,
    currency: order.currency,
    amount: order.amount,
    orderFee: order.orderFee,
    seats: order.lines.map(({ seat, category, kind, kindName, price, fee }) => {
      const facts = venue.seats[seat];
      assert(facts, `seat ${seat} belongs to the event`);
      const section = names.get(facts.sectionId) ?? facts.sectionId;
      const label = { section, row: facts.row, number: facts.label };
      return {
        seat,
        ...label,
        category,
        kind: kindName ?? kind,
        price,
        fee,
        ticket: codes.get(seat) ?? null,
      };
    }),
  };
}

async function validCodes(
  { db, ticketKey }: IssuedOrderParts,
  event: EventNo,
  order: OrderId,
): Promise<Map<SeatNo, NonNullable<IssuedSeat['ticket']>>> {
  const tickets = await ticketsOfOrder(db, event, order);
  return new Map(
    tickets
      .filter(({ status }) => status === 'sold')
      .map(({ ticket, seat }) => [
        seat,
        { id: ticket, code: signTicketCode(ticketKey, { ticket, event, seat }) },
      ]),
  );
}

/** The seats of these tickets of the event, whatever the state of each ticket. */
export async function seatsOfTickets(db: Db, event: EventNo, tickets: readonly string[]): Promise<SeatNo[]> {
  const rows = await db.query<{ seat: SeatNo }>(
    'tickets_seats',
    'SELECT seat_no AS seat FROM tickets WHERE event_no = $1 AND ticket_id = ANY ($2::uuid[]) ORDER BY seat_no',
    [event, tickets],
  );
  return rows.map(({ seat }) => seat);
}
