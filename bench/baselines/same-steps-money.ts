import { lockEvent, lockOrder, noteChange, type OrderRow, type Statements } from './same-steps-statements.ts';

/** The money steps of functions/money.sql, jobs.sql and webhooks.sql, as a client sends them row by row. */

export interface Operation {
  operation: string;
  order: string;
}

export interface BeginCommand extends Operation {
  kind: 'open' | 'authorise';
  key: string;
  clientKey: string;
  request: string;
  instrument: object | null;
  owner: string;
  leaseMs: number;
}

const lockOperation = ({ one }: Statements, operation: string): Promise<{ kind: string; state: string }> =>
  one('same_operation_lock', 'SELECT kind, state FROM money_operations WHERE operation_id = $1 FOR UPDATE', [
    operation,
  ]);

/** P5: the intent and its key are written before the provider is called. */
export async function begin(step: Statements, command: BeginCommand): Promise<OrderRow> {
  const { one, none, must } = step;
  const { operation, order, kind } = command;
  const known = await lockOrder(step, order);
  await none(
    'same_begin_repeat',
    'SELECT operation_id FROM money_operations WHERE order_id = $1 AND client_key = $2',
    [order, command.clientKey],
  );
  must(known.state === 'reserved', 'the order waits for its money');
  await none(
    'same_begin_under_way',
    `SELECT operation_id FROM money_operations WHERE order_id = $1 AND state IN ('open','waiting','unknown','ending')`,
    [order],
  );
  const { phase, inTime } = await one<{ phase: string; inTime: boolean }>(
    'same_begin_event',
    `SELECT phase, clock_timestamp() < to_timestamp($2::float8 / 1000) AS "inTime" FROM events WHERE event_no = $1`,
    [known.event_no, known.payment_deadline],
  );
  must(phase !== 'cancelled' && inTime, 'the order is in time');
  must((kind === 'open') === (known.provider_object === null), 'one object an order');
  await one(
    'same_begin',
    `INSERT INTO money_operations (operation_id, order_id, kind, state, key, client_key, request, instrument, provider_object,
                                   amount, currency, attempts, first_sent_at, due_at, claimed_by, claimed_until, created_at)
     SELECT $1, $2, $3, 'open', $4, $5, $6, $7, $8, $9, $10, 1, at, at + $12 * interval '1 millisecond', $11,
            at + $12 * interval '1 millisecond', at
     FROM clock_timestamp() at RETURNING operation_id`,
    [
      operation,
      order,
      kind,
      command.key,
      command.clientKey,
      command.request,
      command.instrument && JSON.stringify(command.instrument),
      known.provider_object,
      known.amount,
      known.currency,
      command.owner,
      command.leaseMs,
    ],
  );
  await noteChange(step, order, {
    change: `begin_${kind}`,
    from: 'reserved',
    to: 'reserved',
    detail: { operation },
  });
  return known;
}

export async function opened(
  step: Statements,
  { operation, order }: Operation,
  { object, answer }: { object: string; answer: object },
): Promise<void> {
  const { one, must } = step;
  await lockOrder(step, order);
  const { kind, state } = await lockOperation(step, operation);
  must(kind === 'open' && state === 'open', 'an object is being opened');
  await one(
    'same_opened',
    `UPDATE money_operations SET provider_object = $2, answer = $3, claimed_until = NULL, updated_at = clock_timestamp(),
            state = 'done', due_at = NULL
     WHERE operation_id = $1 RETURNING operation_id`,
    [operation, object, JSON.stringify(answer)],
  );
  await one(
    'same_opened_order',
    'UPDATE orders SET provider_object = $2, updated_at = clock_timestamp() WHERE order_id = $1 RETURNING order_id',
    [order, object],
  );
  await noteChange(step, order, { change: 'opened', from: 'reserved', to: 'reserved', detail: { object } });
}

export interface AuthorisedAnswer {
  answer: object;
  instrument: object | null;
  captureBefore: number | null;
  owner: string;
  leaseMs: number;
}

export async function authorised(
  step: Statements,
  { operation, order }: Operation,
  { event, ...seen }: AuthorisedAnswer & { event: number },
): Promise<void> {
  const { one, none, must } = step;
  await lockEvent(step, event);
  const known = await lockOrder(step, order);
  const { kind, state } = await lockOperation(step, operation);
  must(kind === 'authorise' && state === 'open' && known.state === 'reserved', 'money is being reserved');
  await none(
    'same_authorised_other',
    `SELECT operation_id FROM money_operations
     WHERE order_id = $1 AND operation_id <> $2
       AND CASE WHEN kind = 'authorise' THEN state NOT IN ('refused','voided')
                ELSE state IN ('open','waiting','unknown','ending') END`,
    [order, operation],
  );
  await one(
    'same_authorised',
    `UPDATE money_operations
     SET state = 'done', answer = $2, due_at = clock_timestamp() + $4 * interval '1 millisecond', claimed_by = $3,
         claimed_until = clock_timestamp() + $4 * interval '1 millisecond', end_key = NULL, end_reason = NULL,
         attention = NULL, updated_at = clock_timestamp()
     WHERE operation_id = $1 RETURNING operation_id`,
    [operation, JSON.stringify(seen.answer), seen.owner, seen.leaseMs],
  );
  await one(
    'same_authorised_order',
    `UPDATE orders SET state = 'authorised', reason = NULL, instrument = $2, updated_at = clock_timestamp(),
            capture_before = to_timestamp($3::float8 / 1000)
     WHERE order_id = $1 RETURNING order_id`,
    [order, seen.instrument && JSON.stringify(seen.instrument), seen.captureBefore],
  );
  await noteChange(step, order, {
    change: 'authorise',
    from: 'reserved',
    to: 'authorised',
    detail: { operation },
  });
}

/** The capture is recorded together with what is owed for it: the mail, its job, the figures' job, webhooks if any are wanted. */
export async function captured(
  step: Statements,
  { operation, order }: Operation,
  { event, answer }: { event: number; answer: object },
): Promise<void> {
  const { one, none, must } = step;
  await lockOrder(step, order);
  const { kind, state } = await lockOperation(step, operation);
  must(kind === 'capture' && state === 'open', 'money is being taken');
  await one(
    'same_captured',
    `UPDATE money_operations SET state = 'done', answer = $2, due_at = NULL, claimed_until = NULL, attention = NULL,
            updated_at = clock_timestamp()
     WHERE operation_id = $1 RETURNING operation_id`,
    [operation, JSON.stringify(answer)],
  );
  await one(
    'same_paid',
    `UPDATE orders SET state = 'paid', updated_at = clock_timestamp() WHERE order_id = $1 AND state = 'confirmed' RETURNING order_id`,
    [order],
  );
  const { mail } = await one<{ mail: string }>(
    'same_mail',
    `INSERT INTO mails (mail_id, order_id, what, detail)
     VALUES (md5(concat_ws('/', $1::uuid, $2::text, $3::text))::uuid, $1, $2, $4) ON CONFLICT DO NOTHING RETURNING mail_id AS mail`,
    [order, 'order.confirmed', operation, JSON.stringify({ operation })],
  );
  await enqueue(step, { task: 'mail', payload: { mail }, key: `mail/${mail}`, afterMs: 0 });
  await none(
    'same_webhooks',
    `SELECT endpoint_id FROM webhook_endpoints
     WHERE state <> 'removed' AND (event_no IS NULL OR event_no = $1) AND $2 = ANY (happenings)`,
    [event, 'order.confirmed'],
  );
  await enqueue(step, { task: 'figures', payload: { event }, key: `figures/${event}`, afterMs: 5_000 });
  await noteChange(step, order, { change: 'capture', from: 'confirmed', to: 'paid', detail: { operation } });
}

async function enqueue(
  { ask }: Statements,
  job: { task: string; payload: object; key: string; afterMs: number },
): Promise<void> {
  await ask('same_job', 'INSERT INTO job_outbox (task, payload, key, after_ms) VALUES ($1, $2, $3, $4)', [
    job.task,
    JSON.stringify(job.payload),
    job.key,
    job.afterMs,
  ]);
}
