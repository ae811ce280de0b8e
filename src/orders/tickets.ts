import type { EventNo, OrderId } from '../core/hold.ts';
import type { SeatNo } from '../core/seat-map.ts';
import type { Db } from '../postgres/db.ts';

export interface TicketRecord {
  ticket: string;
  event: EventNo;
  seat: SeatNo;
  order: OrderId;
  status: 'reserved' | 'sold' | 'cancelled';
  /** Minor units of the order's currency. */
  price: number;
  fee: number;
  kind: string;
}

const columns = `ticket_id AS ticket, event_no AS event, seat_no AS seat, order_id AS "order", status, price, fee, kind`;

/** The tickets that an order has now (cancelled ones are not among them), by seat. */
export function ticketsOfOrder(db: Db, event: EventNo, order: OrderId): Promise<TicketRecord[]> {
  return db.query<TicketRecord>(
    'tickets_of_order',
    `SELECT ${columns} FROM tickets
     WHERE event_no = $1 AND order_id = $2 AND status IN ('reserved','sold') ORDER BY seat_no`,
    [event, order],
  );
}

export async function findTicket(db: Db, event: EventNo, ticket: string): Promise<TicketRecord | null> {
  const rows = await db.query<TicketRecord>(
    'ticket_find',
    `SELECT ${columns} FROM tickets WHERE event_no = $1 AND ticket_id = $2`,
    [event, ticket],
  );
  return rows[0] ?? null;
}
