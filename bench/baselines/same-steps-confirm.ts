import type { SaleEvent, SalePurchase } from '../sale-event.ts';
import { lockEvent, lockOrder, noteChange, type Statements } from './same-steps-statements.ts';

/** The data of the order that confirm has from the step before it. */
export interface AuthorisedPurchase {
  purchase: SalePurchase;
  fingerprint: string;
  /** Id of the authorisation. */
  operation: string;
  capture: { operation: string; key: string };
  owner: string;
  leaseMs: number;
}

type Limit = readonly [kind: string, subject: string];

/** The seats are sold and the capture is due: order_confirm of functions/orders.sql. */
export async function confirm(
  step: Statements,
  { event }: SaleEvent,
  known: AuthorisedPurchase,
): Promise<void> {
  const { one, must } = step;
  const { order, account, command } = known.purchase;
  const limits: Limit[] = [
    ['account', account],
    ['instrument', known.fingerprint],
  ];
  await lockEvent(step, event);
  const counted = await lockLimits(step, event, limits);
  const { state, ...money } = await lockOrder(step, order);
  must(state === 'authorised', 'the order is authorised');
  await one(
    'same_authorised_lock',
    `SELECT operation_id FROM money_operations WHERE order_id = $1 AND kind = 'authorise' AND state = 'done' FOR UPDATE`,
    [order],
  );
  await checkLimits(step, event, { counted, seats: known.purchase.seats.length });
  await sell(step, event, known.purchase);
  for (const [kind, subject] of limits) {
    await one(
      'same_limit_count',
      'UPDATE limit_counts SET seats = seats + $4 WHERE event_no = $1 AND kind = $2 AND subject = $3 RETURNING seats',
      [event, kind, subject, known.purchase.seats.length],
    );
  }
  await one(
    'same_confirm_hold',
    `UPDATE holds SET state = 'ended' WHERE event_no = $1 AND hold_id = $2 AND state IN ('live','ordered') RETURNING hold_id`,
    [event, command.hold],
  );
  await one(
    'same_confirm_authorised',
    'UPDATE money_operations SET due_at = NULL, claimed_until = NULL WHERE operation_id = $1 RETURNING operation_id',
    [known.operation],
  );
  await one(
    'same_confirm_order',
    `UPDATE orders SET state = 'confirmed', updated_at = clock_timestamp() WHERE order_id = $1 RETURNING order_id`,
    [order],
  );
  const { operation, key } = known.capture;
  await one(
    'same_confirm_capture',
    `INSERT INTO money_operations (operation_id, order_id, kind, state, key, provider_object, amount, currency, attempts,
                                   first_sent_at, due_at, claimed_by, claimed_until, created_at)
     VALUES ($1, $2, 'capture', 'open', $3, $4, $5, $6, 1, clock_timestamp(), clock_timestamp() + $8 * interval '1 millisecond',
             $7, clock_timestamp() + $8 * interval '1 millisecond', clock_timestamp())
     RETURNING operation_id`,
    [operation, order, key, money.provider_object, money.amount, money.currency, known.owner, known.leaseMs],
  );
  await noteChange(step, order, { change: 'confirm', from: 'authorised', to: 'confirmed', detail: null });
}

/** P7: the counts of account and card, locked in one order everywhere; how many seats each has. */
async function lockLimits(
  { ask, one }: Statements,
  event: number,
  limits: readonly Limit[],
): Promise<number[]> {
  for (const [kind, subject] of limits) {
    await ask(
      'same_limit_make',
      'INSERT INTO limit_counts (event_no, kind, subject, seats) VALUES ($1, $2, $3, 0) ON CONFLICT DO NOTHING',
      [event, kind, subject],
    );
  }
  const counted: number[] = [];
  for (const [kind, subject] of limits) {
    const { seats } = await one<{ seats: number }>(
      'same_limit_lock',
      'SELECT seats FROM limit_counts WHERE event_no = $1 AND kind = $2 AND subject = $3 FOR UPDATE',
      [event, kind, subject],
    );
    counted.push(seats);
  }
  return counted;
}

async function checkLimits(
  { one, must }: Statements,
  event: number,
  { counted, seats }: { counted: readonly number[]; seats: number },
): Promise<void> {
  const { phase, most } = await one<{ phase: string; most: (number | null)[] }>(
    'same_confirm_event',
    `SELECT phase, ARRAY[(settings ->> 'accountSeatsMax')::integer, (settings ->> 'instrumentSeatsMax')::integer] AS most
     FROM events WHERE event_no = $1`,
    [event],
  );
  must(phase !== 'cancelled', 'the event is not cancelled');
  must(
    counted.every((before, index) => before + seats <= (most[index] ?? Number.MAX_SAFE_INTEGER)),
    'account and card are within their limits',
  );
}

async function sell({ one }: Statements, event: number, { order, seats }: SalePurchase): Promise<void> {
  for (const seat of seats) {
    await one(
      'same_reserved_seat_lock',
      `SELECT seat_no FROM seats WHERE event_no = $1 AND seat_no = $2 AND state = 'reserved' AND order_id = $3 FOR UPDATE`,
      [event, seat, order],
    );
  }
  for (const seat of seats) {
    await one(
      'same_sell_ticket',
      `UPDATE tickets SET status = 'sold', changed_at = clock_timestamp()
       WHERE event_no = $1 AND seat_no = $2 AND (status IN ('reserved','sold')) IS TRUE
         AND order_id = $3 AND status = 'reserved'
       RETURNING seat_no`,
      [event, seat, order],
    );
  }
  for (const seat of seats) {
    await one(
      'same_sell_seat',
      `UPDATE seats SET state = 'sold', version = version + 1 WHERE event_no = $1 AND seat_no = $2 AND order_id = $3
       RETURNING version`,
      [event, seat, order],
    );
  }
}
