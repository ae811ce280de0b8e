import type { PaymentSeen } from '../../src/audit/audit-sources.ts';
import type { AuditedWorld } from './audited-event.ts';

/** One thing that must not be, and what the audit says of it. */
export interface Contradiction {
  promises: string[];
  title: string;
  says: RegExp;
  /** With the event as $1 and uuids as their names. */
  sql?: (world: AuditedWorld) => string;
  payments?: (payments: PaymentSeen[], world: AuditedWorld) => void;
  snapshot?: (codes: Uint8Array) => void;
}

const payment = (payments: PaymentSeen[], index: number): PaymentSeen => payments[index]!;

const refund = ({ of }: AuditedWorld, amount: number, goodwill: number, state: string): string =>
  `INSERT INTO refunds (refund_id, order_id, event_no, actor, reason, fees_kept, order_fee, goodwill, amount, currency, state)
   VALUES (gen_random_uuid(), '${of('order paid')}', $1, 'test', 'test', 0, 0, ${goodwill}, ${amount}, 'EUR', '${state}')`;

export const contradictions: Contradiction[] = [
  {
    promises: ['S1', 'S8'],
    title: 'a seat with two tickets',
    says: /S1 .*2 tickets/,
    sql: ({ of }) =>
      `INSERT INTO tickets (event_no, seat_no, order_id, status, price) VALUES ($1, 0, '${of('order closed')}', 'sold', 1)`,
  },
  {
    promises: ['S2', 'S8'],
    title: 'an unpaid order short of a ticket',
    says: /S2 .*2 seats, it has 1 reserved/,
    sql: ({ of }) =>
      `DELETE FROM tickets WHERE event_no = $1 AND order_id = '${of('order reserved')}' AND seat_no = 3`,
  },
  {
    promises: ['S2'],
    title: 'a live hold short of a seat',
    says: /S2 holds seats/,
    sql: () => 'UPDATE seats SET hold_id = NULL, hold_until = NULL WHERE event_no = $1 AND seat_no = 5',
  },
  {
    promises: ['S2', 'S3'],
    title: 'a seat under two live holds',
    says: /S3 .*under live holds/,
    sql: ({
      of,
    }) => `INSERT INTO holds (event_no, hold_id, partition, visitor, holder, request, seats, granted_at, deadline, epoch, grant_no, state)
      SELECT event_no, '${of('hold second')}', partition, 'b', 'b', '', '{5}', granted_at, deadline, epoch, 2, 'live'
      FROM holds WHERE event_no = $1 AND hold_id = '${of('hold live')}'`,
  },
  {
    promises: ['S4'],
    title: 'a seat kept by a hold that was released',
    says: /S4 .*is released/,
    sql: ({ of }) =>
      `UPDATE holds SET state = 'released', deadline = now() WHERE event_no = $1 AND hold_id = '${of('hold live')}'`,
  },
  {
    promises: ['S5'],
    title: 'an order that came of a released hold',
    says: /S5 the hold was released/,
    sql: ({ of }) =>
      `UPDATE holds SET state = 'released' WHERE event_no = $1 AND hold_id = '${of('hold paid')}'`,
  },
  {
    promises: ['S5'],
    title: 'an order that came of a lapsed hold',
    says: /S5 the hold was lapsed/,
    sql: ({ of }) =>
      `UPDATE holds SET deadline = now() - interval '1 second' WHERE event_no = $1 AND hold_id = '${of('hold reserved')}'`,
  },
  {
    promises: ['S5'],
    title: "an order of another visitor's hold",
    says: /S5 the order is of visitor/,
    sql: ({ of }) =>
      `UPDATE holds SET visitor = 'somebody' WHERE event_no = $1 AND hold_id = '${of('hold paid')}'`,
  },
  {
    promises: ['S6'],
    title: 'a payment deadline that was moved',
    says: /S6 made at/,
    sql: ({ of }) =>
      `UPDATE orders SET payment_deadline = now() + interval '20 minutes' WHERE event_no = $1 AND order_id = '${of('order reserved')}'`,
  },
  {
    promises: ['S6'],
    title: 'a hold that lives for twenty minutes',
    says: /S6 granted at/,
    sql: ({ of }) =>
      `UPDATE holds SET granted_at = deadline - interval '20 minutes' WHERE event_no = $1 AND hold_id = '${of('hold live')}'`,
  },
  {
    promises: ['S7'],
    title: 'a holder above the quota',
    says: /S7 holder live has 8 seats/,
    sql: ({
      of,
    }) => `UPDATE holds SET holder = 'live', seats = '{9,10,11,12,13,14}', state = 'live' WHERE event_no = $1 AND hold_id = '${of('hold lapsed')}';
      UPDATE holds SET deadline = now() + interval '1 minute', granted_at = now() WHERE event_no = $1 AND hold_id = '${of('hold lapsed')}';
      UPDATE seats SET hold_id = '${of('hold lapsed')}', hold_until = (SELECT min(deadline) FROM holds WHERE event_no = $1 AND holder = 'live' AND cardinality(seats) = 6), hold_epoch = (SELECT epoch FROM event_partitions WHERE event_no = $1)
      WHERE event_no = $1 AND seat_no BETWEEN 9 AND 14`,
  },
  {
    promises: ['S8'],
    title: 'a seat without a row',
    says: /S8 .*no row says/,
    sql: () => 'DELETE FROM seats WHERE event_no = $1 AND seat_no = 12',
  },
  {
    promises: ['S8'],
    title: 'a seat in a partition that is not there',
    says: /S8 .*partition 3 is not there/,
    sql: () => 'UPDATE seats SET partition = 3 WHERE event_no = $1 AND seat_no = 12',
  },
  {
    promises: ['S8'],
    title: 'a sold seat that is shown as free',
    says: /S8 .*the seat is available.*sold for order/,
    sql: () => `UPDATE seats SET state = 'available' WHERE event_no = $1 AND seat_no = 0`,
  },
  {
    promises: ['P2', 'P3', 'P7', 'P8', 'S8'],
    title: 'a sold ticket of a closed order',
    says: /S8 .*the ticket is sold, its order is closed/,
    sql: ({ of }) =>
      `UPDATE orders SET state = 'closed' WHERE event_no = $1 AND order_id = '${of('order paid')}'`,
  },
  {
    promises: ['S8'],
    title: 'a blocked seat that nobody blocked',
    says: /S8 .*nobody blocked it/,
    sql: () => 'DELETE FROM blocks WHERE event_no = $1',
  },
  {
    promises: ['S8'],
    title: 'a seat that the arbiter calls free and the record sold',
    says: /S8 .*the record says sold, the arbiter available/,
    snapshot: (codes) => codes.fill(0, 0, 1),
  },
  {
    promises: ['S8'],
    title: 'a seat that the arbiter holds and the record has reserved',
    says: /S8 .*the record says reserved, the arbiter held/,
    snapshot: (codes) => codes.fill(1, 2, 3),
  },
  {
    promises: ['P1', 'P5'],
    title: 'two authorisations of an order',
    says: /P1 2 authorisations/,
    sql: ({
      of,
    }) => `INSERT INTO money_operations (operation_id, order_id, kind, state, key, provider_object, amount, currency)
      SELECT gen_random_uuid(), order_id, kind, state, key, provider_object, amount, currency FROM money_operations
      WHERE operation_id = '${of('authorise paid')}' AND $1::int > 0`,
  },
  {
    promises: ['P1', 'S5'],
    title: 'two orders of a hold',
    says: /P1 2 orders of one hold/,
    sql: ({ of }) =>
      `UPDATE orders SET hold_id = '${of('hold paid')}' WHERE event_no = $1 AND order_id = '${of('order closed')}'`,
  },
  {
    promises: ['P1', 'P6', 'P8'],
    title: 'two payments that stand for an order',
    says: /P1 2 payments stand/,
    payments: (payments) => payments.push({ ...payment(payments, 0), object: 'pi_second', tries: 0 }),
  },
  {
    promises: ['P2', 'P7', 'S2', 'S8'],
    title: 'a capture before the seats are sold',
    says: /P2 a capture is done, the order reserved/,
    sql: ({ of }) =>
      `UPDATE orders SET state = 'reserved' WHERE event_no = $1 AND order_id = '${of('order paid')}'`,
  },
  {
    promises: ['P2'],
    title: 'a paid order without a capture',
    says: /P2 the order is paid, its capture is not there/,
    sql: ({ of }) =>
      `DELETE FROM money_operations WHERE operation_id = '${of('capture paid')}' AND $1::int > 0`,
  },
  {
    promises: ['P2'],
    title: 'money taken for a reserved order',
    says: /P2 the order is reserved with 0 tickets sold/,
    payments: (payments) => Object.assign(payment(payments, 1), { captured: 10_600, status: 'captured' }),
  },
  {
    promises: ['P3'],
    title: 'an authorisation that stands after its order was closed',
    says: /P3 the order is closed, its authorisation done/,
    sql: ({ of }) =>
      `UPDATE money_operations SET state = 'done' WHERE operation_id = '${of('authorise closed')}' AND $1::int > 0`,
  },
  {
    promises: ['P3'],
    title: 'money reserved for a closed order',
    says: /P3 the order is closed, yet an authorisation stands/,
    payments: (payments) => Object.assign(payment(payments, 2), { authorised: 5_350, status: 'authorised' }),
  },
  {
    promises: ['P3', 'P8'],
    title: 'money taken for a closed order',
    says: /P3 the order is closed, yet 5350 were taken/,
    payments: (payments) => Object.assign(payment(payments, 2), { captured: 5_350, status: 'captured' }),
  },
  {
    promises: ['P4'],
    title: 'an unknown payment at which nobody looks again',
    says: /P4 authorise operation .* due never/,
    sql: ({ of }) =>
      `UPDATE money_operations SET due_at = NULL WHERE operation_id = '${of('authorise unknown')}' AND $1::int > 0`,
  },
  {
    promises: ['P4'],
    title: 'seats given away while a payment is unknown',
    says: /P4 the authorisation is unknown, yet the order is closed/,
    sql: ({
      of,
    }) => `UPDATE orders SET state = 'closed' WHERE event_no = $1 AND order_id = '${of('order unknown')}';
      UPDATE tickets SET status = 'cancelled' WHERE event_no = $1 AND order_id = '${of('order unknown')}';
      UPDATE seats SET state = 'available', order_id = NULL WHERE event_no = $1 AND seat_no = 8`,
  },
  {
    promises: ['P4'],
    title: 'an answer of the provider that nobody took in',
    says: /P4 authorise is under way in the record, the provider has long answered/,
    sql: ({ of }) =>
      `UPDATE money_operations SET first_sent_at = now() - interval '3 minutes' WHERE operation_id = '${of('authorise unknown')}' AND $1::int > 0`,
    payments: (payments) => Object.assign(payment(payments, 3), { authorised: 5_350, status: 'authorised' }),
  },
  {
    promises: ['P5'],
    title: 'a call about no object',
    says: /P5 capture operation .* names no object/,
    sql: ({ of }) =>
      `UPDATE money_operations SET provider_object = NULL WHERE operation_id = '${of('capture paid')}' AND $1::int > 0`,
  },
  {
    promises: ['P5'],
    title: 'a payment of an order that the record does not have',
    says: /P5 pi_stranger .* which the record does not have/,
    payments: (payments) =>
      payments.push({
        ...payment(payments, 1),
        object: 'pi_stranger',
        reference: '00000000-0000-4000-8000-000000000000',
      }),
  },
  {
    promises: ['P5'],
    title: 'a card that was tried once more than was written down',
    says: /P5 a card was tried 2 times, the record knows of 1/,
    payments: (payments) => Object.assign(payment(payments, 0), { tries: 2 }),
  },
  {
    promises: ['P6'],
    title: 'an operation over another amount',
    says: /P6 capture operation over 1 EUR/,
    sql: ({ of }) =>
      `UPDATE money_operations SET amount = 1 WHERE operation_id = '${of('capture paid')}' AND $1::int > 0`,
  },
  {
    promises: ['P6'],
    title: 'a payment in another currency',
    says: /P6 .* over 10600 SEK was accepted/,
    payments: (payments) => Object.assign(payment(payments, 0), { currency: 'SEK' }),
  },
  {
    promises: ['P7'],
    title: 'an account above the limit',
    says: /P7 account paid@example.org has 2 seats, the limit is 1/,
    sql: () => `UPDATE events SET settings = settings || '{"accountSeatsMax":1}' WHERE event_no = $1`,
  },
  {
    promises: ['P7'],
    title: 'a count that is not that of the orders',
    says: /P7 instrument card of paid: counted 5 seats, its orders have 2/,
    sql: () => `UPDATE limit_counts SET seats = 5 WHERE event_no = $1 AND kind = 'instrument'`,
  },
  {
    promises: ['P7'],
    title: 'a use of an access code that no order has',
    says: /P7 access code of batch 0{8}-.*: 1 uses counted, 0 orders use it/,
    sql: () => `INSERT INTO access_codes (event_no, code, batch, label, categories, kinds, presale, uses_max, used)
      VALUES ($1, 'FANCLUB', '00000000-0000-4000-8000-000000000000', 'fans', '{}', '{}', true, 3, 1)`,
  },
  {
    promises: ['P8'],
    title: 'an order over more than its tickets',
    says: /P8 the order is over 10600, its lines sum to 10600, its tickets to 10499/,
    sql: () => 'UPDATE tickets SET price = price - 1 WHERE event_no = $1 AND seat_no = 0',
  },
  {
    promises: ['P8'],
    title: 'a paid order whose money was given back',
    says: /P8 the order is paid: 10600 are due, captured − refunded is 600/,
    payments: (payments) => Object.assign(payment(payments, 0), { refunded: 10_000 }),
  },
  {
    promises: ['P7', 'P8'],
    title: 'a ticket that was revoked without a refund',
    says: /P8 .*ticket .* is sold and revoked, its refund is not there/,
    sql: () => 'UPDATE tickets SET revoked_at = now() WHERE event_no = $1 AND seat_no = 0',
  },
  {
    promises: ['P5', 'P8'],
    title: 'a refund over more than its tickets, which nobody sent',
    says: /P8 refund .* is over 5250, its tickets and fees sum to 0/,
    sql: (world) => refund(world, 5_250, 0, 'done'),
  },
  {
    promises: ['P5', 'P8'],
    title: 'a refund that says done although its attempt was refused',
    says: /P5 refund .* over 500 is done, its attempts: refused/,
    sql: (world) => `${refund(world, 500, 500, 'done')};
      INSERT INTO money_operations (operation_id, order_id, kind, state, key, provider_object, amount, currency, refund_id)
      SELECT gen_random_uuid(), order_id, 'refund', 'refused', 'k', 'pi', amount, currency, refund_id FROM refunds WHERE event_no = $1`,
  },
  {
    promises: ['P8'],
    title: 'money that was kept although no ticket is valid',
    says: /P8 600 are kept and no ticket is valid, the fees that may be kept are 0/,
    sql: ({ of }) => `
      INSERT INTO refunds (refund_id, order_id, event_no, actor, reason, fees_kept, order_fee, goodwill, amount, currency, state)
      VALUES ('${of('refund')}', '${of('order paid')}', $1, 'test', 'test', 0, 100, -600, 10000, 'EUR', 'done');
      INSERT INTO refund_tickets (event_no, ticket_id, refund_id)
      SELECT event_no, ticket_id, '${of('refund')}' FROM tickets WHERE event_no = $1 AND order_id = '${of('order paid')}';
      INSERT INTO money_operations (operation_id, order_id, kind, state, key, provider_object, amount, currency, refund_id)
      SELECT gen_random_uuid(), order_id, 'refund', 'done', gen_random_uuid()::text, 'pi_' || $1::int || '_paid', amount, currency, refund_id
      FROM refunds WHERE event_no = $1;
      UPDATE tickets SET status = 'cancelled', revoked_at = now() WHERE event_no = $1 AND order_id = '${of('order paid')}';
      UPDATE orders SET state = 'cancelled', reason = 'refunded' WHERE event_no = $1 AND order_id = '${of('order paid')}';
      UPDATE seats SET state = 'available', order_id = NULL WHERE event_no = $1 AND order_id = '${of('order paid')}';
      UPDATE limit_counts SET seats = 0 WHERE event_no = $1`,
    payments: (payments) => Object.assign(payment(payments, 0), { refunded: 10_000 }),
  },
  {
    promises: ['P8'],
    title: 'an ended payment whose money did not go back',
    says: /P8 open operation .* has ended, 5350 were captured and 0 given back/,
    sql: ({ of }) => `UPDATE money_operations SET answer = '{"view":{"captured":5350,"refunded":0}}'
      WHERE operation_id = '${of('open closed')}' AND $1::int > 0`,
  },
  {
    promises: ['P8'],
    title: 'a refund made at the provider that no operator saw',
    says: /P8 refund re_\d+ is done and took 600, and no operator saw it/,
    sql: ({
      of,
    }) => `INSERT INTO reversals (reversal_id, kind, order_id, object, amount, currency, state, taken, created_at)
      VALUES ('re_' || $1::int, 'refund', '${of('order paid')}', 'pi_' || $1::int || '_paid', 600, 'EUR', 'done', 600, now())`,
    payments: (payments) => Object.assign(payment(payments, 0), { refunded: 600 }),
  },
  {
    promises: ['P8'],
    title: 'a lost dispute of which an operator saw only the opening',
    says: /P8 dispute dp_\d+ is lost and took 10600, and no operator saw it/,
    sql: ({
      of,
    }) => `INSERT INTO reversals (reversal_id, kind, order_id, object, amount, currency, state, taken, created_at)
      VALUES ('dp_' || $1::int, 'dispute', '${of('order paid')}', 'pi_' || $1::int || '_paid', 10600, 'EUR', 'lost', 10600, now());
      INSERT INTO reconcile_findings (kind, subject, order_id, says, detail)
      SELECT 'dispute_opened', reversal_id, order_id, '', '{"state":"open","taken":10600}' FROM reversals
      WHERE reversal_id = 'dp_' || $1::int`,
  },
  {
    promises: ['W1'],
    title: 'a number that two visitors have',
    says: /W1 number 3 of shard 0/,
    sql: () => `INSERT INTO queue_recent VALUES ($1, 'somebody', 0, 3, now() - interval '90 seconds')`,
  },
  {
    promises: ['W1'],
    title: 'a number above the last issued',
    says: /W1 number 6 of shard 0 was drawn; the last issued is 5/,
    sql: () => `INSERT INTO queue_recent VALUES ($1, 'somebody', 0, 6, now())`,
  },
  {
    promises: ['W1'],
    title: 'a number on the ceiling',
    says: /W1 number 5 .*the ceiling 5/,
    sql: () => 'UPDATE queue_counters SET ceiling = 5 WHERE event_no = $1',
  },
  {
    promises: ['W1'],
    title: 'a number drawn out of a range that a lost store had',
    says: /W1 number 4 of shard 0 was drawn at .* 4 to 4 had been left to a lost store/,
    sql: () =>
      `INSERT INTO queue_gaps (event_no, shard, first, last, epoch, at) VALUES ($1, 0, 4, 4, 1, now() - interval '2 minutes')`,
  },
  {
    promises: ['W1'],
    title: 'numbers that fell in the order of arrival',
    says: /W1 number 5 .* was drawn at/,
    sql: () =>
      `UPDATE queue_recent SET issued_at = issued_at - interval '1 second' WHERE event_no = $1 AND number = 5`,
  },
  {
    promises: ['W3'],
    title: 'a pass ahead of the frontier',
    says: /W3 pass of number 3.* the frontier is 2/,
    sql: () => `UPDATE admissions SET frontier = '{2}' WHERE event_no = $1`,
  },
  {
    promises: ['W3'],
    title: 'a pass from before the frontier came',
    says: /W3 pass of number 3/,
    sql: () => `UPDATE frontier_moves SET at = now() WHERE event_no = $1 AND frontier = 3`,
  },
  {
    promises: ['W3'],
    title: 'two passes of a visitor',
    says: /W3 visitor visitor 1 has 2 passes/,
    sql: () => `UPDATE passes SET visitor = 'visitor 1' WHERE event_no = $1 AND number = 2`,
  },
  {
    promises: ['W3'],
    title: 'a pass that was not counted',
    says: /W3 3 passes, of which only 2 were counted/,
    sql: () => 'UPDATE admissions SET issued = 2 WHERE event_no = $1',
  },
];
