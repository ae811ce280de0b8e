import { type Static, type TSchema, Type } from 'typebox';
import { Check, Errors } from 'typebox/value';
import { operationStates, orderStates } from '../../src/core/order.ts';
import { phases } from '../../src/core/phase.ts';
import type { DecidedSeat, MoneyOperation, Order } from '../../src/orders/record.ts';
import type { Db } from '../../src/postgres/db.ts';

/**
 * The rows of named statements, checked in tests: a function of Postgres and the TypeScript type of its rows are two texts, and
 * the compiler sees only one. `like<T>()` makes the compiler compare the schema with the type; `checkedRows` compares each row with
 * the schema. Here are the statements of orders, of money operations and of the Postgres arbiter; the others are not checked yet.
 */

type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? unknown : never) : never;
const like =
  <T>() =>
  <Schema extends TSchema>(schema: Schema & Same<Static<Schema>, T>): Schema =>
    schema;

const oneOf = <Text extends string>(...texts: readonly Text[]) =>
  Type.Union(texts.map((text) => Type.Literal(text)));
const orNull = <Schema extends TSchema>(schema: Schema) => Type.Union([schema, Type.Null()]);
const exact = { additionalProperties: false };
const text = Type.String();
const whole = Type.Integer();
/** Epoch ms. */
const instant = Type.Number();

const line = Type.Object(
  { seat: whole, category: text, kind: text, kindName: Type.Optional(text), price: whole, fee: whole },
  exact,
);
const card = Type.Object({ fingerprint: text, brand: text, last4: text }, exact);

const order = Type.Object(
  {
    order: text,
    eventNo: whole,
    event: text,
    partition: whole,
    hold: text,
    visitor: text,
    holder: text,
    account: text,
    buyer: Type.Object({ name: text, email: text }, exact),
    lines: Type.Array(line),
    orderFee: whole,
    amount: whole,
    currency: text,
    state: Type.Unsafe<Order['state']>(oneOf(...orderStates)),
    reason: orNull(text),
    paymentDeadline: instant,
    captureBefore: orNull(instant),
    providerObject: orNull(text),
    instrument: orNull(card),
    createdAt: instant,
  },
  exact,
);
like<Order>()(order);

const operation = Type.Object(
  {
    operation: text,
    order: text,
    kind: Type.Unsafe<MoneyOperation['kind']>(oneOf('open', 'authorise', 'capture', 'refund')),
    state: Type.Unsafe<MoneyOperation['state']>(oneOf(...operationStates)),
    key: text,
    endKey: orNull(text),
    endReason: Type.Unsafe<MoneyOperation['endReason']>(orNull(text)),
    clientKey: orNull(text),
    request: orNull(text),
    instrument: Type.Unsafe<MoneyOperation['instrument']>(
      orNull(
        Type.Union([
          Type.Object({ paymentMethod: text, returnUrl: text }, exact),
          Type.Object({ confirmationToken: text, returnUrl: text }, exact),
        ]),
      ),
    ),
    providerObject: orNull(text),
    amount: whole,
    currency: text,
    attempts: whole,
    firstSentAt: orNull(instant),
    dueAt: orNull(instant),
    answer: Type.Unsafe<MoneyOperation['answer']>(orNull(Type.Object({}))),
    attention: Type.Unsafe<MoneyOperation['attention']>(orNull(text)),
    decision: Type.Unsafe<MoneyOperation['decision']>(
      orNull(Type.Object({ action: text, actor: text, at: instant })),
    ),
  },
  exact,
);
like<MoneyOperation>()(operation);

const seat = Type.Object(
  {
    seat: whole,
    version: whole,
    state: Type.Unsafe<DecidedSeat['state']>(oneOf('available', 'reserved', 'sold', 'blocked')),
  },
  exact,
);
like<DecidedSeat>()(seat);

type Fields = Record<string, TSchema>;
/** `{ result: … }`: one of these kinds, each with just its own fields. */
const kinds = (all: Record<string, Fields>): TSchema =>
  Type.Object({
    result: Type.Union(
      Object.entries(all).map(([kind, fields]) =>
        Type.Object({ kind: Type.Literal(kind), ...fields }, exact),
      ),
    ),
  });
const result = (schema: TSchema): TSchema => Type.Object({ result: schema });
const changed = { order, seats: Type.Array(seat) };
const step = (...names: string[]): TSchema =>
  kinds(Object.fromEntries([...names, 'settled'].map((name) => [name, { ...changed, operation }])));

const reserve = kinds({
  reserved: { repeated: Type.Boolean(), ...changed },
  hold_gone: {},
  open_order: { order: text },
  limit: { limit: text, max: whole, used: whole },
  code: { why: text, seatsMax: orNull(whole) },
  not_open: { phase: oneOf(...phases) },
  stale: {},
  retry: {},
});

/** What every function of the arbiter answers; what a kind does not need is null. */
const arbiterFields = {
  kind: orNull(text),
  hold_id: orNull(text),
  visitor: orNull(text),
  holder: orNull(text),
  seats: orNull(Type.Array(whole)),
  granted_at: orNull(instant),
  deadline: orNull(instant),
  epoch: orNull(whole),
  grant_no: orNull(whole),
  order_id: orNull(text),
  repeated: orNull(Type.Boolean()),
  used: orNull(whole),
  phase: orNull(oneOf(...phases)),
  after_ms: orNull(whole),
};
const ofArbiter = Type.Object(arbiterFields, exact);

const rowSchemas: Record<string, TSchema> = {
  order_reserve: reserve,
  order_reserve_with_code: reserve,
  order_abandon: kinds({ abandoned: {}, ordered: { order } }),
  order_find: result(order),
  order_find_open: result(order),
  order_confirm: kinds({
    confirmed: { operation, ...changed },
    impossible: { operation, ...changed },
    decided: { order },
    unknown_order: {},
  }),
  order_close: kinds({
    closed: changed,
    voiding: { operation: orNull(operation), ...changed },
    under_way: { order },
    decided: { order },
    unknown_order: {},
  }),
  money_begin: kinds({
    begun: { order, operation },
    repeated: { order, operation },
    mismatch: {},
    under_way: { order, operation },
    opened: { order },
    decided: { order },
    too_late: { order, reason: text },
    unknown_order: {},
  }),
  money_of_order: result(operation),
  money_claim: result(operation),
  money_ask: result(operation),
  money_release_claims: result(whole),
  money_opened: step('opened'),
  money_park: step('parked'),
  money_authorised: step('authorised', 'ending', 'late'),
  money_refused: step('refused'),
  money_end: step('ending'),
  money_voided: step('voided'),
  money_captured: step('captured'),
  money_stray: kinds({
    known: {},
    adopted: { operation, ...changed },
    ending: { operation, ...changed },
    under_way: {},
    unknown_order: {},
  }),
  arbiter_load: ofArbiter,
  arbiter_hold: ofArbiter,
  arbiter_hold_many: Type.Object({ claim: whole, ...arbiterFields }, exact),
  arbiter_refusal: Type.Object({ seats: orNull(Type.Array(whole)) }, exact),
  arbiter_recover: ofArbiter,
  arbiter_find: ofArbiter,
  arbiter_extend: ofArbiter,
  arbiter_release: ofArbiter,
  arbiter_sweep: Type.Object({ swept: whole }, exact),
};

/** Throws for a row that is not as its statement's schema says. */
export function checkedRows(db: Db): Db {
  return {
    ...db,
    async query<Row>(...asked: Parameters<Db['query']>): Promise<Row[]> {
      const rows = await db.query<Row>(...asked);
      const [name] = asked;
      const schema = rowSchemas[name];
      for (const row of schema ? rows : []) {
        if (Check(schema!, row)) continue;
        const found = [...Errors(schema!, row)].map(
          ({ instancePath, message }) => `${instancePath} ${message}`,
        );
        throw new Error(
          `a row of ${name} is not as its schema says: ${found.join('; ')}: ${JSON.stringify(row)}`,
        );
      }
      return rows;
    },
  };
}
