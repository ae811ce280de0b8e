import { type Hold, holdLimits } from '../core/hold.ts';
import { assert } from '../core/outcome.ts';
import { createFieldReader, uuidBytes, uuidText, visitorBytes, wholeNumber } from './token-fields.ts';

/** A hold as the fields of its receipt: everything that a store which lost it needs to know (D1). */
export function encodeReceipt(hold: Hold): Uint8Array[] {
  assert(hold.seats.length > 0 && hold.seats.length <= holdLimits.seatsMax, 'a hold has 1 to 50 seats');
  const seats = Buffer.alloc(hold.seats.length * 4);
  hold.seats.forEach((seat, index) => {
    assert(index === 0 || seat > hold.seats[index - 1]!, 'seats ascend');
    seats.writeUInt32BE(seat, index * 4);
  });
  return [
    uuidBytes(hold.hold),
    wholeNumber(hold.event),
    wholeNumber(hold.partition),
    visitorBytes(hold.visitor),
    Buffer.from(hold.holder, 'utf8'),
    seats,
    wholeNumber(hold.grantedAt),
    wholeNumber(hold.deadline),
    wholeNumber(hold.epoch),
    wholeNumber(hold.grant),
    hold.order === null ? new Uint8Array() : uuidBytes(hold.order),
  ];
}

export function decodeReceipt(body: Buffer): Hold {
  const reader = createFieldReader(body);
  const hold = uuidText(reader.bytes());
  const event = reader.number();
  const partition = reader.number();
  const visitor = reader.bytes().toString('base64url');
  const holder = reader.bytes().toString('utf8');
  const seatBytes = reader.bytes();
  const seats = Array.from({ length: seatBytes.length / 4 }, (_, index) => seatBytes.readUInt32BE(index * 4));
  const grantedAt = reader.number();
  const deadline = reader.number();
  const epoch = reader.number();
  const grant = reader.number();
  const orderBytes = reader.bytes();
  reader.end();
  const order = orderBytes.length === 0 ? null : uuidText(orderBytes);
  return { hold, event, partition, visitor, holder, seats, grantedAt, deadline, epoch, grant, order };
}
