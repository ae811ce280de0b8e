import { holdLimits } from '../../src/core/hold.ts';
import type { SaleEvent, SalePurchase } from '../sale-event.ts';
import { lockEvent, noteChange, type Statements } from './same-steps-statements.ts';

/** Hold, extend and reserve: arbiter_hold and arbiter_extend of functions/arbiter.sql, order_reserve of functions/orders.sql. */

interface Gate {
  phase: string;
  accountMax: number | null;
}

async function gate({ one, must }: Statements, { event, epoch }: SaleEvent): Promise<Gate> {
  const row = await one<Gate & { mode: string; epoch: number; answers: boolean }>(
    'same_gate',
    `SELECT p.mode, p.epoch, coalesce(p.grace_until <= clock_timestamp(), true) AS answers, e.phase,
            (e.settings ->> 'accountSeatsMax')::integer AS "accountMax"
     FROM event_partitions p JOIN events e USING (event_no) WHERE p.event_no = $1 AND p.partition = 0`,
    [event],
  );
  must(
    row.mode === 'postgres' && row.epoch === epoch && row.answers,
    'the partition is ours to decide about',
  );
  return row;
}

export async function hold(
  step: Statements,
  at: SaleEvent,
  { command, seats }: SalePurchase,
): Promise<{ deadline: number }> {
  const { one, none, must } = step;
  const { event, epoch } = at;
  const { hold, visitor, holder } = command;
  await lockEvent(step, event);
  const { phase } = await gate(step, at);
  must(phase === 'open', 'holds are open');
  await one(
    'same_holder_lock',
    `SELECT pg_advisory_xact_lock(hashtextextended(format('h/%s/%s/%s', $1::integer, 0, $2::text), 0))`,
    [event, holder],
  );
  await none('same_hold_past', 'SELECT hold_id FROM holds WHERE event_no = $1 AND hold_id = $2', [
    event,
    hold,
  ]);
  await none(
    'same_hold_own',
    `SELECT hold_id FROM holds WHERE event_no = $1 AND partition = 0 AND visitor = $2 AND state = 'live'`,
    [event, visitor],
  );
  const { used } = await one<{ used: number }>(
    'same_hold_quota',
    `SELECT coalesce(sum(cardinality(seats)), 0)::integer AS used FROM holds
     WHERE event_no = $1 AND partition = 0 AND holder = $2 AND state IN ('live','ordered')
       AND (state = 'ordered' OR (deadline > clock_timestamp() AND epoch = $3))`,
    [event, holder, epoch],
  );
  must(used + seats.length <= command.seatsMax, 'the holder is within the quota');
  for (const seat of seats) {
    await one(
      'same_hold_seat_lock',
      `SELECT seat_no FROM seats WHERE event_no = $1 AND seat_no = $2 AND partition = 0
         AND seat_is_free(state, hold_until, hold_epoch, $3, clock_timestamp()) FOR NO KEY UPDATE`,
      [event, seat, epoch],
    );
  }
  const made = await one<{ deadline: number }>(
    'same_hold_make',
    `INSERT INTO holds (event_no, hold_id, partition, visitor, holder, request, seats, granted_at, deadline, epoch, grant_no, state)
     SELECT $1, $2, 0, $3, $4, $5, $6, at, at + $7 * interval '1 millisecond', $8, nextval('grant_numbers'), 'live'
     FROM date_trunc('milliseconds', clock_timestamp()) at ON CONFLICT DO NOTHING RETURNING deadline`,
    [event, hold, visitor, holder, command.request, seats, command.ttlMs, epoch],
  );
  for (const seat of seats) {
    await one(
      'same_hold_seat',
      `UPDATE seats SET hold_id = $3, hold_until = to_timestamp($4::float8 / 1000), hold_epoch = $5
       WHERE event_no = $1 AND seat_no = $2 RETURNING seat_no`,
      [event, seat, hold, made.deadline, epoch],
    );
  }
  return made;
}

/** The hold becomes the order's, with time enough to pay. */
export async function extend(
  step: Statements,
  at: SaleEvent,
  { command, order, seats }: SalePurchase,
): Promise<{ deadline: number }> {
  const { one, must } = step;
  const { event, epoch } = at;
  const { hold, visitor } = command;
  await lockEvent(step, event);
  await gate(step, at);
  const known = await one<{ visitor: string; order_id: string | null }>(
    'same_hold_lock',
    'SELECT visitor, order_id FROM holds WHERE event_no = $1 AND hold_id = $2 FOR UPDATE',
    [event, hold],
  );
  must(known.visitor === visitor && known.order_id === null, 'the hold is of this visitor and not bound');
  for (const seat of seats) {
    await one(
      'same_held_seat_lock',
      `SELECT seat_no FROM seats WHERE event_no = $1 AND seat_no = $2 AND hold_id = $3 AND state = 'available' FOR NO KEY UPDATE`,
      [event, seat, hold],
    );
  }
  const extended = await one<{ deadline: number }>(
    'same_hold_extend',
    `UPDATE holds SET order_id = $3, deadline = greatest(deadline, least(
       date_trunc('milliseconds', clock_timestamp()) + $4 * interval '1 millisecond', granted_at + $5 * interval '1 millisecond'))
     WHERE event_no = $1 AND hold_id = $2 AND state = 'live' AND deadline > clock_timestamp() AND epoch = $6 RETURNING deadline`,
    [event, hold, order, holdLimits.extendToMs, holdLimits.lifeMaxMs, epoch],
  );
  for (const seat of seats) {
    await one(
      'same_held_seat_extend',
      `UPDATE seats SET hold_until = to_timestamp($4::float8 / 1000)
       WHERE event_no = $1 AND seat_no = $2 AND hold_id = $3 RETURNING seat_no`,
      [event, seat, hold, extended.deadline],
    );
  }
  return extended;
}

export async function reserve(step: Statements, at: SaleEvent, purchase: SalePurchase): Promise<void> {
  const { one, none, must } = step;
  const { order, seats, lines, orderFee } = purchase;
  const { hold, visitor, holder } = purchase.command;
  const { event, epoch } = at;
  await lockEvent(step, event);
  const known = await one<{ order_id: string; seats: number[] }>(
    'same_reserve_hold',
    `SELECT order_id, seats FROM holds
     WHERE event_no = $1 AND hold_id = $2 AND state = 'live' AND epoch = $3 AND visitor = $4 FOR UPDATE`,
    [event, hold, epoch, visitor],
  );
  must(known.order_id === order && known.seats.join() === seats.join(), 'the hold is bound to this order');
  await none('same_reserve_repeat', 'SELECT order_id FROM orders WHERE hold_id = $1 OR order_id = $2', [
    hold,
    order,
  ]);
  const { phase, accountMax } = await gate(step, at);
  must(['open', 'paused', 'sold_out', 'closed'].includes(phase), 'the event sells');
  must(accountMax === null, 'the event of this bench limits no account');
  await one(
    'same_reserve_order',
    `INSERT INTO orders (order_id, event_no, partition, hold_id, visitor, holder, account, buyer, seats, lines, order_fee,
                         amount, currency, state, payment_deadline, created_at)
     SELECT $1, $2, 0, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 'reserved', at + $13 * interval '1 millisecond', at
     FROM date_trunc('milliseconds', clock_timestamp()) at ON CONFLICT DO NOTHING RETURNING order_id`,
    [
      order,
      event,
      hold,
      visitor,
      holder,
      purchase.account,
      JSON.stringify(purchase.buyer),
      seats,
      JSON.stringify(lines),
      orderFee,
      lines.reduce((sum, { price, fee }) => sum + price + fee, orderFee),
      purchase.currency,
      holdLimits.paymentMs,
    ],
  );
  for (const seat of seats) {
    await one(
      'same_reserve_seat_lock',
      `SELECT seat_no FROM seats WHERE event_no = $1 AND seat_no = $2 AND state = 'available' AND hold_id = $3
         AND hold_until > clock_timestamp() AND hold_epoch = $4 FOR UPDATE`,
      [event, seat, hold, epoch],
    );
  }
  for (const { seat, price, fee, kind } of lines) {
    await one(
      'same_reserve_ticket',
      `INSERT INTO tickets (event_no, seat_no, order_id, status, price, fee, kind) VALUES ($1, $2, $3, 'reserved', $4, $5, $6)
       ON CONFLICT (seat_no, event_no) WHERE (status IN ('reserved','sold')) IS TRUE DO NOTHING RETURNING seat_no`,
      [event, seat, order, price, fee, kind],
    );
  }
  for (const seat of seats) {
    await one(
      'same_reserve_seat',
      `UPDATE seats SET state = 'reserved', version = version + 1, order_id = $3, hold_id = NULL, hold_until = NULL,
              hold_epoch = NULL
       WHERE event_no = $1 AND seat_no = $2 RETURNING version`,
      [event, seat, order],
    );
  }
  await one(
    'same_reserve_hold_ends',
    `UPDATE holds SET state = 'ordered'
     WHERE event_no = $1 AND hold_id = $2 AND state = 'live' AND deadline - $3 * interval '1 millisecond' > clock_timestamp()
     RETURNING hold_id`,
    [event, hold, holdLimits.reserveMarginMs],
  );
  await noteChange(step, order, { change: 'reserve', from: null, to: 'reserved', detail: null });
}
