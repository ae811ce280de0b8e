import { Type } from 'typebox';
import { holdLimits } from '../core/hold.ts';
import { orderStates } from '../core/order.ts';
import { nullable, uuidPattern } from '../operate/operation.ts';

/** Schemas of what the buyers' routes take and give: validation, documentation and serialisation from one source. */

const time = () => Type.String({ format: 'date-time' });
const minorUnits = () => Type.Integer({ description: 'Minor units of the currency.' });

export const ProblemSchema = Type.Object(
  {
    type: Type.String(),
    title: Type.String(),
    status: Type.Integer(),
    code: Type.String({ description: 'Stable; see docs/reference/errors.md.' }),
    detail: Type.String({ description: 'A sentence that a person can act on.' }),
    field: Type.Optional(Type.String({ description: 'The field at fault, as a path (`/buyer/email`).' })),
    retryAfterMs: Type.Optional(Type.Integer()),
  },
  { title: 'Problem', additionalProperties: true, description: 'application/problem+json (RFC 9457)' },
);
const problemOf = (description: string) => ({
  description,
  content: { 'application/problem+json': { schema: ProblemSchema } },
});
/** Spread into a route's `response`. */
export const problemResponses = {
  '4xx': problemOf('A refused request; `code` says why.'),
  '5xx': problemOf('Not possible now, or a fault of the server.'),
} as const;

const credentialMax = 2_000;

export const EventParams = Type.Object({ event: Type.String({ maxLength: 200 }) });
export const SectionParams = Type.Object({
  event: Type.String({ maxLength: 200 }),
  section: Type.String({ maxLength: 200 }),
});
export const HoldParams = Type.Object({ hold: Type.String({ maxLength: 200 }) });
export const OrderParams = Type.Object({ order: Type.String({ maxLength: 200 }) });

export const IdempotencyHeaders = Type.Object({
  'idempotency-key': Type.String({
    description:
      'Makes a repeat safe: the same key and body get the same answer. 1 to 200 printable ASCII characters, without spaces at its ends.',
  }),
});

export const QueueTicketSchema = Type.Object(
  {
    ticket: Type.String(),
    number: Type.Integer(),
    shard: Type.Integer(),
    issuedAt: time(),
    repeated: Type.Boolean(),
  },
  { title: 'QueueTicket' },
);

export const PassBody = Type.Object({
  ticket: Type.Optional(Type.String({ maxLength: credentialMax })),
});
export const PassSchema = Type.Object({ pass: Type.String(), expiresAt: time() }, { title: 'Pass' });

const kind = () => Type.String({ minLength: 1, maxLength: 40 });
const quantityMax = holdLimits.seatsMax;
export const HoldBody = Type.Object(
  {
    pass: Type.String({ maxLength: credentialMax }),
    account: Type.Optional(
      Type.String({
        maxLength: credentialMax,
        description: 'Where the event asks for an account first: the token by which your platform names it.',
      }),
    ),
    replaces: Type.Optional(Type.String({ pattern: uuidPattern })),
    seats: Type.Optional(
      Type.Array(
        Type.Object({
          seat: Type.Union([Type.Integer({ minimum: 0 }), Type.String({ minLength: 1, maxLength: 200 })], {
            description: 'seat_no, or seat_guid as text.',
          }),
          kind: Type.Optional(kind()),
        }),
        { minItems: 1, maxItems: quantityMax },
      ),
    ),
    best: Type.Optional(
      Type.Object({
        quantity: Type.Integer({ minimum: 1, maximum: quantityMax }),
        category: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
        section: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
        kinds: Type.Optional(Type.Array(kind(), { maxItems: quantityMax })),
      }),
    ),
  },
  { title: 'HoldRequest' },
);

const point = () => Type.Tuple([Type.Integer(), Type.Integer()]);
const integers = (description?: string) => Type.Array(Type.Integer(), description ? { description } : {});
/** As core/seat-map.ts: Layout, which explains the units. */
export const LayoutSchema = Type.Object(
  {
    v: Type.Literal(1),
    name: Type.String(),
    width: Type.Number({ description: 'Tenths of a plan unit, like all coordinates.' }),
    height: Type.Number(),
    seatCount: Type.Integer(),
    categories: Type.Array(Type.Object({ name: Type.String(), color: Type.String() })),
    sections: Type.Array(
      Type.Object({
        id: Type.String(),
        name: Type.String(),
        group: Type.String(),
        kind: Type.Enum(['seated', 'ga']),
        sellAsUnit: Type.Boolean(),
        seats: Type.Array(point(), { description: 'Ranges of seat_no: [first, count], in row order.' }),
        outline: Type.Array(point()),
        center: point(),
        rows: Type.Array(
          Type.Object({
            label: Type.String(),
            labels: Type.Array(Type.String()),
            x: integers('The first value is absolute, each later one the difference to the one before.'),
            y: integers('As `x`.'),
            category: Type.Union([Type.Integer(), integers()], {
              description: 'Index into `categories` by seat, or one for all.',
            }),
            breaks: integers('Indices within the row after which there is an aisle.'),
            attributes: Type.Optional(
              Type.Record(Type.String(), integers(), { description: 'Indices within the row by attribute.' }),
            ),
          }),
        ),
        category: Type.Integer({ description: 'General admission: index into `categories`; seated: -1.' }),
      }),
    ),
    decorations: Type.Array(
      Type.Object({}, { additionalProperties: true, description: 'Shapes and texts.' }),
    ),
  },
  { title: 'Layout' },
);

export const SeatInfoSchema = Type.Object(
  {
    seat: Type.Integer(),
    guid: Type.String(),
    section: Type.String(),
    sectionName: Type.String(),
    row: Type.String(),
    number: Type.String(),
    category: Type.String(),
    kind: Type.String(),
    kindName: Type.Optional(Type.String({ description: 'For people; absent for full.' })),
    price: minorUnits(),
    fee: minorUnits(),
  },
  { title: 'Seat' },
);

export const HoldSchema = Type.Object(
  {
    hold: Type.String(),
    event: Type.String(),
    seats: Type.Array(SeatInfoSchema),
    total: minorUnits(),
    orderFee: minorUnits(),
    currency: Type.String(),
    expiresAt: time(),
    serverTime: time(),
    receipt: Type.String(),
    asAsked: Type.Optional(
      Type.Boolean({
        description:
          'Best available only: false when the seats are not all side by side, or not where they were asked for.',
      }),
    ),
    note: Type.Optional(Type.String()),
    order: nullable(Type.String({ description: 'The order that this hold became; the page goes on there.' })),
  },
  { title: 'Hold' },
);

export const RecoverBody = Type.Object({ receipt: Type.String({ maxLength: 8_000 }) });
export const RecoveringSchema = Type.Object(
  {
    code: Type.Literal('recovering'),
    hold: Type.String(),
    until: time(),
    retryAfterMs: Type.Integer(),
  },
  { title: 'Recovering' },
);

export const OrderBody = Type.Object({
  buyer: Type.Object({
    name: Type.String({ maxLength: 1_000, description: '1 to 200 characters.' }),
    email: Type.String({ maxLength: 1_000, description: 'At most 254 characters.' }),
  }),
  seats: Type.Optional(
    Type.Array(
      Type.Object({
        seat: Type.Union([Type.Integer({ minimum: 0 }), Type.String({ minLength: 1, maxLength: 200 })], {
          description: 'seat_no, or seat_guid as text.',
        }),
        kind: kind(),
      }),
      { maxItems: quantityMax },
    ),
  ),
  total: Type.Optional(
    Type.Integer({
      minimum: 0,
      description: 'What the buyer agreed to pay: another sum is refused. Minor units.',
    }),
  ),
});
export const CodeBody = Type.Object({ code: Type.String({ minLength: 1, maxLength: 100 }) });
export const CodeSchema = Type.Object(
  {
    code: Type.String({ description: 'In its one form.' }),
    categories: Type.Array(Type.String()),
    kinds: Type.Array(Type.String()),
    presale: Type.Boolean(),
    seatsMax: nullable(Type.Integer({ description: 'Seats of one order; null: no limit of its own.' })),
  },
  { title: 'AccessCode' },
);
export const PaymentBody = Type.Object({
  paymentMethod: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9_-]{1,200}$' })),
  confirmationToken: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9_-]{1,200}$' })),
});

export const paymentStates = [
  'none',
  'waiting',
  'under_way',
  'declined',
  'authorised',
  'captured',
  'voided',
] as const;
const actionOrNull = nullable(Type.Object({ url: Type.String() }));

export const OrderSchema = Type.Object(
  {
    order: Type.String(),
    event: Type.String(),
    eventName: Type.String(),
    performanceAt: nullable(
      Type.String({ format: 'date-time', description: 'Start of the performance. Null if not fixed yet.' }),
    ),
    timeZone: Type.String({
      description: 'IANA name of the time zone of the venue. Pages show these times in it.',
    }),
    venue: Type.String({ description: 'The seating plan’s name: of the venue, as a rule.' }),
    state: Type.Enum([...orderStates]),
    reason: nullable(Type.String()),
    eventCancelled: Type.Optional(
      Type.Boolean({
        description:
          'The event does not take place: no ticket of it is valid, also while the order is still paid.',
      }),
    ),
    seats: Type.Array(SeatInfoSchema),
    amount: minorUnits(),
    orderFee: minorUnits(),
    currency: Type.String(),
    buyer: Type.Object({ name: Type.String(), email: Type.String() }),
    paymentDeadline: time(),
    serverTime: time(),
    near: Type.Optional(
      Type.Array(SeatInfoSchema, {
        description:
          'Set if the money came too late for the seats: free seats near them, as many, not reserved.',
      }),
    ),
    refunds: Type.Optional(
      Type.Array(
        Type.Object({
          amount: minorUnits(),
          state: Type.Union([Type.Literal('under_way'), Type.Literal('done'), Type.Literal('failed')]),
          createdAt: time(),
        }),
        { description: 'Refunds of a paid or cancelled order with their state, oldest first.' },
      ),
    ),
    returned: Type.Optional(
      Type.Array(Type.Object({ amount: minorUnits(), at: time() }), {
        description: 'Money that was taken without a sale and given back, oldest first.',
      }),
    ),
    secret: Type.Optional(
      Type.String({
        description:
          'Opens the order from elsewhere: `/orders/{order}#{secret}`. Only in answers to the visitor himself.',
      }),
    ),
    payment: Type.Object({
      state: Type.Enum([...paymentStates]),
      decline: nullable(Type.String()),
      action: actionOrNull,
      instrument: nullable(Type.Object({ brand: Type.String(), last4: Type.String() })),
    }),
  },
  { title: 'Order' },
);
/** 202: the order, and what to wait for. */
export const PendingSchema = Type.Object(
  {
    ...OrderSchema.properties,
    code: Type.Literal('pending'),
    action: actionOrNull,
    retryAfterMs: Type.Integer(),
  },
  { title: 'PendingOrder' },
);

export const TicketsSchema = Type.Object(
  {
    tickets: Type.Array(
      Type.Object({
        ticket: Type.String(),
        seat: SeatInfoSchema,
        code: Type.String({ description: 'Signed; what the QR code shows.' }),
        qr: Type.String({ description: 'SVG of the QR code, as markup.' }),
      }),
    ),
  },
  { title: 'Tickets' },
);
