import type { MoneySource, PaymentSeen } from '../../src/audit/audit-sources.ts';
import type { TestDatabase } from './postgres.ts';
import { stageEvent, uuidOf } from './stage.ts';

/** An event in which one of everything has happened, written straight into the tables, with the provider's side of it. */
export interface AuditedWorld {
  event: number;
  id: string;
  epoch: number;
  /** Uuids by what they are of: `order paid`, `hold live` … */
  of(what: string): string;
  payments: PaymentSeen[];
  money: MoneySource;
}

/**
 * Seats 0 and 1 paid, 2 and 3 reserved, 4 of a closed order, 5 and 6 held, 7 of a lapsed hold, 8 of an order whose payment is
 * unknown, 19 blocked. Numbers 1 to 3 have passes, 4 and 5 wait.
 */
export async function auditedWorld(database: TestDatabase): Promise<AuditedWorld> {
  const { event, epoch } = await stageEvent(database, {
    mode: 'postgres',
    settings: { accountSeatsMax: 6, instrumentSeatsMax: 4 },
  });
  const of = (what: string): string => uuidOf(`${event} ${what}`);
  const [row] = await database.query('SELECT event_id FROM events WHERE event_no = $1', [event]);
  const run = (sql: string, values: unknown[] = []): Promise<unknown> =>
    database.query(sql, [event, ...values]);
  await run(
    `INSERT INTO event_seats SELECT $1, n, 'guid ' || n, 'A', '1', n::text, 'A' FROM generate_series(0, 19) n`,
  );

  const hold = (
    name: string,
    seats: number[],
    state: string,
    from: string,
    order: string | null,
  ): Promise<unknown> =>
    run(
      `INSERT INTO holds (event_no, hold_id, partition, visitor, holder, request, seats, granted_at, deadline, epoch, grant_no, order_id, state)
       VALUES ($1, $2, 0, $3, $3, '', $4, now() + $5::interval, now() + $5::interval + interval '10 minutes', $6, 1, $7, $8)`,
      [of(`hold ${name}`), name, seats, from, epoch, order && of(`order ${order}`), state],
    );
  const order = async (name: string, seats: number[], state: string, ticket: string): Promise<void> => {
    await hold(name, seats, state === 'reserved' ? 'ordered' : 'ended', '-1 minute', name);
    const lines = seats.map((seat) => ({ seat, category: 'A', kind: 'full', price: 5000, fee: 250 }));
    await run(
      `INSERT INTO orders (order_id, event_no, hold_id, visitor, holder, account, buyer, seats, lines, order_fee, amount, currency,
         state, payment_deadline, provider_object, instrument)
       VALUES ($2, $1, $3, $4, $4, $4 || '@example.org', '{}', $5, $6, 100, $7, 'EUR', $8, now() + interval '10 minutes', $9, $10)`,
      [
        of(`order ${name}`),
        of(`hold ${name}`),
        name,
        seats,
        JSON.stringify(lines),
        amountOf(seats),
        state,
        objectOf(name),
        state === 'paid' ? { fingerprint: `card of ${name}` } : null,
      ],
    );
    await run(
      `INSERT INTO tickets (event_no, seat_no, order_id, status, price, fee) SELECT $1, u, $2, $3, 5000, 250 FROM unnest($4::int[]) u`,
      [of(`order ${name}`), ticket, seats],
    );
    if (ticket === 'cancelled') return;
    await run(
      'UPDATE seats SET state = $2, version = 2, order_id = $3 WHERE event_no = $1 AND seat_no = ANY ($4)',
      [ticket, of(`order ${name}`), seats],
    );
  };
  const objectOf = (name: string): string => `pi_${event}_${name}`;
  const operation = (
    name: string,
    kind: string,
    state: string,
    seats: number[],
    due: string | null = null,
  ): Promise<unknown> =>
    run(
      `INSERT INTO money_operations (operation_id, order_id, kind, state, key, provider_object, amount, currency, due_at, first_sent_at)
       SELECT $2::uuid, $3::uuid, $4, $5, $2::uuid::text, $6, $7, 'EUR', now() + $8::interval, now() WHERE $1::int IS NOT NULL`,
      [of(`${kind} ${name}`), of(`order ${name}`), kind, state, objectOf(name), amountOf(seats), due],
    );

  await order('paid', [0, 1], 'paid', 'sold');
  for (const kind of ['open', 'authorise', 'capture']) await operation('paid', kind, 'done', [0, 1]);
  await order('reserved', [2, 3], 'reserved', 'reserved');
  await operation('reserved', 'open', 'done', [2, 3]);
  await order('closed', [4], 'closed', 'cancelled');
  await operation('closed', 'open', 'voided', [4]);
  await operation('closed', 'authorise', 'refused', [4]);
  await order('unknown', [8], 'reserved', 'reserved');
  await operation('unknown', 'open', 'done', [8]);
  await operation('unknown', 'authorise', 'unknown', [8], '5 seconds');

  await hold('live', [5, 6], 'live', '-1 minute', null);
  await hold('lapsed', [7], 'expired', '-11 minutes', null);
  await run(
    `UPDATE seats s SET hold_id = h.hold_id, hold_until = h.deadline, hold_epoch = h.epoch FROM holds h
     WHERE s.event_no = $1 AND h.event_no = $1 AND h.state IN ('live','expired') AND s.seat_no = ANY (h.seats)`,
  );
  await run(`UPDATE seats SET state = 'blocked', version = 2 WHERE event_no = $1 AND seat_no = 19`);
  await run(`INSERT INTO blocks (event_no, seat_no, reason, actor) VALUES ($1, 19, 'camera', 'test')`);
  await run(`INSERT INTO limit_counts (event_no, kind, subject, seats)
    VALUES ($1, 'account', 'paid@example.org', 2), ($1, 'instrument', 'card of paid', 2), ($1, 'account', 'closed@example.org', 0)`);

  await run('UPDATE queue_counters SET last_no = 5 WHERE event_no = $1');
  await run(`UPDATE admissions SET frontier = '{3}', issued = 3 WHERE event_no = $1`);
  await run(`INSERT INTO frontier_moves (event_no, shard, at, term, frontier)
    VALUES ($1, 0, now() - interval '3 minutes', 1, 2), ($1, 0, now() - interval '2 minutes', 1, 3)`);
  await run(`INSERT INTO passes (event_no, visitor, pass_id, shard, number, issued_at, expires_at)
    SELECT $1, 'visitor ' || n, gen_random_uuid(), 0, n, now() - interval '1 minute', now() + interval '14 minutes' FROM generate_series(1, 3) n`);
  await run(`INSERT INTO queue_recent (event_no, visitor, shard, number, issued_at)
    SELECT $1, 'visitor ' || n, 0, n, now() - interval '1 minute' FROM generate_series(4, 5) n`);

  const seen = (
    name: string,
    seats: number[],
    status: PaymentSeen['status'],
    tries: number,
  ): PaymentSeen => ({
    object: objectOf(name),
    reference: of(`order ${name}`),
    event: row.event_id,
    amount: amountOf(seats),
    currency: 'EUR',
    authorised: 0,
    captured: status === 'captured' ? amountOf(seats) : 0,
    refunded: 0,
    status,
    tries,
  });
  const payments = [
    seen('paid', [0, 1], 'captured', 1),
    seen('reserved', [2, 3], 'open', 0),
    seen('closed', [4], 'cancelled', 1),
    seen('unknown', [8], 'open', 1),
  ];
  const money: MoneySource = {
    kind: 'ledger',
    name: 'the ledger',
    read: async () => structuredClone(payments),
  };
  return { event, id: row.event_id, epoch, of, payments, money };
}

function amountOf(seats: readonly number[]): number {
  return seats.length * 5250 + 100;
}
