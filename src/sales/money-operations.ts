import type { OrderId } from '../core/hold.ts';
import type { OrderEnd } from '../core/order.ts';
import type { PaymentView } from '../payments/provider.ts';
import type { Db } from './db.ts';
import type {
  BeginCommand,
  BeginOutcome,
  Claim,
  MoneyOperation,
  OperationAnswer,
  OperationId,
  OperationStep,
  ParkCommand,
  ProviderEventRecord,
} from './record.ts';

/** The statements of money operations and provider events; the steps are functions of migrations/0005_money.sql. */

interface Answer<Result> {
  result: Result;
}

async function step<Kind extends string>(
  db: Db,
  name: string,
  text: string,
  values: unknown[],
): Promise<OperationStep<Kind>> {
  const rows = await db.query<Answer<OperationStep<Kind>>>(name, text, values);
  return rows[0]!.result;
}

export async function beginOperation(db: Db, command: BeginCommand, claim: Claim): Promise<BeginOutcome> {
  const rows = await db.query<Answer<BeginOutcome>>(
    'money_begin',
    'SELECT money_begin($1, $2, $3, $4, $5, $6, $7, $8, $9) AS result',
    [
      command.operation,
      command.order,
      command.kind,
      command.key,
      command.clientKey,
      command.request,
      command.instrument && JSON.stringify(command.instrument),
      claim.owner,
      claim.leaseMs,
    ],
  );
  return rows[0]!.result;
}

export async function operationsOf(db: Db, order: OrderId): Promise<MoneyOperation[]> {
  const rows = await db.query<Answer<MoneyOperation>>(
    'money_of_order',
    'SELECT operation_json(m) AS result FROM money_operations m WHERE order_id = $1 ORDER BY created_at, operation_id',
    [order],
  );
  return rows.map((row) => row.result);
}

export async function claimOperations(
  db: Db,
  claim: Claim & { limit: number; operation?: OperationId },
): Promise<MoneyOperation[]> {
  const rows = await db.query<Answer<MoneyOperation>>(
    'money_claim',
    'SELECT money_claim($1, $2, $3, $4) AS result',
    [claim.owner, claim.limit, claim.leaseMs, claim.operation ?? null],
  );
  return rows.map((row) => row.result);
}

export async function releaseClaims(db: Db, owner: string): Promise<number> {
  const rows = await db.query<Answer<number>>(
    'money_release_claims',
    'SELECT money_release_claims($1) AS result',
    [owner],
  );
  return rows[0]!.result;
}

export function openedOperation(
  db: Db,
  operation: OperationId,
  object: string,
  answer: OperationAnswer,
): Promise<OperationStep<'opened'>> {
  return step(db, 'money_opened', 'SELECT money_opened($1, $2, $3) AS result', [
    operation,
    object,
    JSON.stringify(answer),
  ]);
}

export function parkOperation(db: Db, command: ParkCommand): Promise<OperationStep<'parked'>> {
  return step(db, 'money_park', 'SELECT money_park($1, $2, $3, $4, $5, $6) AS result', [
    command.operation,
    command.state,
    command.dueMs,
    command.answer ? JSON.stringify(command.answer) : null,
    command.attention ?? null,
    command.newKey ?? null,
  ]);
}

export function authorisedOperation(
  db: Db,
  operation: OperationId,
  view: PaymentView,
  endKey: string,
  claim: Claim,
): Promise<OperationStep<'authorised' | 'ending'>> {
  return step(db, 'money_authorised', 'SELECT money_authorised($1, $2, $3, $4, $5, $6) AS result', [
    operation,
    JSON.stringify({ view }),
    view.instrument && JSON.stringify(view.instrument),
    endKey,
    claim.owner,
    claim.leaseMs,
  ]);
}

export function refusedOperation(
  db: Db,
  operation: OperationId,
  answer: OperationAnswer,
): Promise<OperationStep<'refused'>> {
  return step(db, 'money_refused', 'SELECT money_refused($1, $2) AS result', [
    operation,
    JSON.stringify(answer),
  ]);
}

export function endOperation(
  db: Db,
  operation: OperationId,
  reason: OrderEnd,
  endKey: string,
  claim: Claim,
): Promise<OperationStep<'ending'>> {
  return step(db, 'money_end', 'SELECT money_end($1, $2, $3, $4, $5) AS result', [
    operation,
    reason,
    endKey,
    claim.owner,
    claim.leaseMs,
  ]);
}

export function voidedOperation(
  db: Db,
  operation: OperationId,
  answer: OperationAnswer,
): Promise<OperationStep<'voided'>> {
  return step(db, 'money_voided', 'SELECT money_voided($1, $2) AS result', [
    operation,
    JSON.stringify(answer),
  ]);
}

export function capturedOperation(
  db: Db,
  operation: OperationId,
  view: PaymentView,
): Promise<OperationStep<'captured'>> {
  return step(db, 'money_captured', 'SELECT money_captured($1, $2) AS result', [
    operation,
    JSON.stringify({ view }),
  ]);
}

/** The operator's list: what nobody knows the end of, and what does not fit. Oldest first. */
export async function operationsForAttention(db: Db, limit: number): Promise<MoneyOperation[]> {
  const rows = await db.query<Answer<MoneyOperation>>(
    'money_attention',
    `SELECT operation_json(m) AS result FROM money_operations m
     WHERE attention IS NOT NULL OR state = 'unknown' ORDER BY updated_at LIMIT $1`,
    [limit],
  );
  return rows.map((row) => row.result);
}

const eventColumns = `e.provider_event_id AS id, e.processed_at IS NOT NULL AS processed, o.order_id AS "order"`;

/** Stores the event once and answers it with its order; the second statement of the CTE does not see the first's row. */
export async function storeProviderEvent(
  db: Db,
  event: { id: string; type: string; object: string | null },
): Promise<ProviderEventRecord> {
  const rows = await db.query<ProviderEventRecord>(
    'provider_event_store',
    `WITH stored AS (
       INSERT INTO provider_events (provider_event_id, type, object) VALUES ($1, $2, $3)
       ON CONFLICT (provider_event_id) DO UPDATE SET type = excluded.type
       RETURNING *)
     SELECT ${eventColumns} FROM stored e LEFT JOIN orders o ON o.provider_object = e.object`,
    [event.id, event.type, event.object],
  );
  return rows[0]!;
}

/** Events whose object is an order's by now and that nobody has processed: ours came later than the provider's. */
export async function openProviderEvents(db: Db, limit: number): Promise<ProviderEventRecord[]> {
  return db.query<ProviderEventRecord>(
    'provider_event_open',
    `SELECT ${eventColumns} FROM provider_events e JOIN orders o ON o.provider_object = e.object
     WHERE e.processed_at IS NULL ORDER BY e.received_at LIMIT $1`,
    [limit],
  );
}

export async function providerEventProcessed(db: Db, id: string): Promise<void> {
  await db.query(
    'provider_event_processed',
    'UPDATE provider_events SET processed_at = clock_timestamp() WHERE provider_event_id = $1 AND processed_at IS NULL',
    [id],
  );
}
