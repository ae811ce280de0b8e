import type { OrderId } from '../core/hold.ts';
import type { OrderEnd } from '../core/order.ts';
import type { PaymentView } from '../payments/provider.ts';
import type { Db } from '../postgres/db.ts';
import type {
  BeginCommand,
  BeginOutcome,
  CaptureWindow,
  Claim,
  LateSeats,
  MoneyOperation,
  OperationAnswer,
  OperationId,
  OperationStep,
  ParkCommand,
  StrayCommand,
  StrayOutcome,
} from './record.ts';

/** The statements of money operations; the steps are in functions/money.sql. */

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

export async function askForOperation(
  db: Db,
  claim: Claim & { operation: OperationId; by: 'buyer' | 'provider' },
): Promise<MoneyOperation | null> {
  const rows = await db.query<Answer<MoneyOperation>>(
    'money_ask',
    'SELECT money_ask($1, $2, $3, $4) AS result',
    [claim.owner, claim.leaseMs, claim.operation, claim.by],
  );
  return rows[0]?.result ?? null;
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
  late: LateSeats | undefined,
): Promise<OperationStep<'authorised' | 'ending' | 'late'>> {
  return step(db, 'money_authorised', 'SELECT money_authorised($1, $2, $3, $4, $5, $6, $7) AS result', [
    operation,
    JSON.stringify({ view }),
    view.instrument && JSON.stringify(view.instrument),
    endKey,
    claim.owner,
    claim.leaseMs,
    late ? JSON.stringify(late) : null,
  ]);
}

export async function lateSeatsMax(db: Db, order: OrderId): Promise<number> {
  const rows = await db.query<{ seatsMax: number }>(
    'order_late_seats_max',
    `SELECT (e.settings ->> 'holdSeatsMax')::integer AS "seatsMax"
     FROM orders o JOIN events e USING (event_no) WHERE o.order_id = $1`,
    [order],
  );
  return rows[0]!.seatsMax;
}

/** From here to its end a reservation whose money is not taken is on the operator's list. */
const windowEnding = '1 day';

export async function captureWindow(db: Db, order: OrderId): Promise<CaptureWindow> {
  const rows = await db.query<Answer<CaptureWindow | null>>(
    'money_capture_window',
    'SELECT order_capture_window($1, $2) AS result',
    [order, windowEnding],
  );
  return rows[0]?.result ?? 'open';
}

export async function strayObject(db: Db, command: StrayCommand, claim: Claim): Promise<StrayOutcome> {
  const rows = await db.query<Answer<StrayOutcome>>(
    'money_stray',
    'SELECT money_stray($1, $2, $3, $4, $5, $6, $7, $8) AS result',
    [
      command.order,
      command.object,
      command.fits,
      command.operation,
      command.key,
      command.endKey,
      claim.owner,
      claim.leaseMs,
    ],
  );
  return rows[0]!.result;
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
