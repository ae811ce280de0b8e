import type { EventNo, OrderId } from '../src/core/hold.ts';
import { assert } from '../src/core/outcome.ts';
import type { SeatNo } from '../src/core/seat-map.ts';
import type { DecidedSeat, Order } from '../src/orders/record.ts';

/** The model's seats: what Postgres keeps in `seats` and, by its unique index, in `tickets` (S1). */
export function createInProcessSeats(seatCountOf: (event: EventNo) => number) {
  interface Seat {
    state: 'available' | 'reserved' | 'sold';
    version: number;
    order: OrderId | null;
  }
  const byEvent = new Map<EventNo, Seat[]>();

  function seatsOf(event: EventNo): Seat[] {
    let seats = byEvent.get(event);
    if (!seats) {
      seats = Array.from({ length: seatCountOf(event) }, () => ({
        state: 'available',
        version: 1,
        order: null,
      }));
      byEvent.set(event, seats);
    }
    return seats;
  }

  function decide(order: Order, from: Seat['state'][], to: Seat['state']): DecidedSeat[] {
    const wanted = order.lines.map((line) => line.seat).sort((a, b) => a - b);
    return wanted.map((no) => {
      const seat = seatsOf(order.eventNo)[no];
      assert(seat && from.includes(seat.state), `seat ${no} is ${seat?.state}`);
      assert(
        seat.order === (seat.state === 'available' ? null : order.order),
        `seat ${no} is another order's`,
      );
      seat.state = to;
      seat.version += 1;
      seat.order = to === 'available' ? null : order.order;
      return { seat: no, version: seat.version, state: to };
    });
  }

  return {
    areFree: (event: EventNo, wanted: readonly SeatNo[]): boolean =>
      wanted.length > 0 &&
      new Set(wanted).size === wanted.length &&
      wanted.every((no) => seatsOf(event)[no]?.state === 'available'),
    reserve: (order: Order) => decide(order, ['available'], 'reserved'),
    sell: (order: Order) => decide(order, ['reserved'], 'sold'),
    free: (order: Order) => decide(order, ['reserved', 'sold'], 'available'),
  };
}
