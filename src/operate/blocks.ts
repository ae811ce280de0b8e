import { Type } from 'typebox';
import { blockSeats, unblockSeats } from '../catalogue/blocks.ts';
import { seatStates } from '../core/hold.ts';
import { problem } from '../core/problems.ts';
import { planLimits, type SeatNo } from '../core/seat-map.ts';
import type { OperateDeps } from './deps.ts';
import { eventOf } from './event-of.ts';
import { EventParams, oneLine, operation } from './operation.ts';

// Seats that the organiser takes out of the sale, and gives back to it.

const bodyLimit = 4 * 1024 * 1024;
const SeatNos = (description: string) => Type.Array(Type.Integer(), { description });
const Seats = Type.Array(
  Type.Union([Type.Integer({ minimum: 0 }), Type.String({ minLength: 1, maxLength: 200 })]),
  { minItems: 1, maxItems: planLimits.seatsMax, description: 'seat_no, or seat_guid as text.' },
);

export const block = operation({
  id: 'blockSeats',
  method: 'POST',
  path: '/events/:event/blocks',
  summary: 'Block seats; those that a buyer has are listed',
  params: EventParams,
  body: Type.Object({ seats: Seats, reason: Type.Optional(oneLine(200)) }),
  bodyLimit,
  output: Type.Object({
    blocked: SeatNos('Blocked now.'),
    refused: Type.Array(Type.Object({ seat: Type.Integer(), state: Type.Enum([...seatStates]) }), {
      description: 'Held, reserved, sold or blocked before: left as they are.',
    }),
    unanswered: SeatNos('Their store does not answer just now: nothing was done about them.'),
  }),
  problems: ['unknown_event', 'phase_impossible', 'unknown_seat', 'invalid_field'],
  async run(deps: OperateDeps, { event: id, reason, seats: named }, { actor }) {
    if (!reason)
      throw problem('invalid_field', { field: '/reason', detail: 'Say why the seats are blocked.' });
    const { event, seats } = await seatsOf(deps, id, named);
    const arbiter = await deps.openArbiter();
    const outcome = await blockSeats({ ...deps, arbiter }, { event, actor, reason, seats });
    return { ...outcome, blocked: outcome.blocked.map(({ seat }) => seat) };
  },
});

export const unblock = operation({
  id: 'unblockSeats',
  method: 'DELETE',
  path: '/events/:event/blocks',
  summary: 'Give blocked seats back to the sale',
  params: EventParams,
  body: Type.Object({ seats: Seats, reason: Type.Optional(oneLine(200)) }),
  bodyLimit,
  output: Type.Object({ unblocked: SeatNos('Those that were blocked.') }),
  problems: ['unknown_event', 'phase_impossible', 'unknown_seat'],
  async run(deps: OperateDeps, { event: id, seats: named }, { actor }) {
    const { event, seats } = await seatsOf(deps, id, named);
    const arbiter = await deps.openArbiter();
    const freed = await unblockSeats({ ...deps, arbiter }, { event, actor, seats });
    return { unblocked: freed.map(({ seat }) => seat) };
  },
});

async function seatsOf({ events }: OperateDeps, id: string, named: readonly (number | string)[]) {
  const event = await eventOf(events, id);
  if (!event.layoutHash) throw problem('phase_impossible', { detail: 'Publish the event first.' });
  const venue = await events.venue(event);
  const seats = named.map((seat, index): SeatNo => {
    const no = typeof seat === 'number' ? seat : venue.byGuid.get(seat);
    if (no === undefined || !venue.seats[no]) throw problem('unknown_seat', { field: `/seats/${index}` });
    return no;
  });
  return { event: event.eventNo, seats };
}

export const blockOperations = [block, unblock];
