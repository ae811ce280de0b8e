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
  SalesRecord,
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

/** The part of the record (record.ts: SalesRecord) that this file holds. */
export function moneyStatements(db: Db) {
  return {
    async begin(command: BeginCommand, claim: Claim): Promise<BeginOutcome> {
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
    },
    async operationsOf(order: OrderId): Promise<MoneyOperation[]> {
      const rows = await db.query<Answer<MoneyOperation>>(
        'money_of_order',
        'SELECT operation_json(m) AS result FROM money_operations m WHERE order_id = $1 ORDER BY created_at, operation_id',
        [order],
      );
      return rows.map((row) => row.result);
    },
    async claim(claim: Claim & { limit: number; operation?: OperationId }): Promise<MoneyOperation[]> {
      const rows = await db.query<Answer<MoneyOperation>>(
        'money_claim',
        'SELECT money_claim($1, $2, $3, $4) AS result',
        [claim.owner, claim.limit, claim.leaseMs, claim.operation ?? null],
      );
      return rows.map((row) => row.result);
    },
    async ask(
      claim: Claim & { operation: OperationId; by: 'buyer' | 'provider' },
    ): Promise<MoneyOperation | null> {
      const rows = await db.query<Answer<MoneyOperation>>(
        'money_ask',
        'SELECT money_ask($1, $2, $3, $4) AS result',
        [claim.owner, claim.leaseMs, claim.operation, claim.by],
      );
      return rows[0]?.result ?? null;
    },
    async releaseClaims(owner: string): Promise<number> {
      const rows = await db.query<Answer<number>>(
        'money_release_claims',
        'SELECT money_release_claims($1) AS result',
        [owner],
      );
      return rows[0]!.result;
    },
    opened(
      operation: OperationId,
      object: string,
      answer: OperationAnswer,
    ): Promise<OperationStep<'opened'>> {
      return step(db, 'money_opened', 'SELECT money_opened($1, $2, $3) AS result', [
        operation,
        object,
        JSON.stringify(answer),
      ]);
    },
    park(command: ParkCommand): Promise<OperationStep<'parked'>> {
      return step(db, 'money_park', 'SELECT money_park($1, $2, $3, $4, $5, $6) AS result', [
        command.operation,
        command.state,
        command.dueMs,
        command.answer ? JSON.stringify(command.answer) : null,
        command.attention ?? null,
        command.newKey ?? null,
      ]);
    },
    authorised(
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
    },
    async lateSeatsMax(order: OrderId): Promise<number> {
      const rows = await db.query<{ seatsMax: number }>(
        'order_late_seats_max',
        `SELECT (e.settings ->> 'holdSeatsMax')::integer AS "seatsMax"
     FROM orders o JOIN events e USING (event_no) WHERE o.order_id = $1`,
        [order],
      );
      return rows[0]!.seatsMax;
    },
    async captureWindow(order: OrderId): Promise<CaptureWindow> {
      const rows = await db.query<Answer<CaptureWindow | null>>(
        'money_capture_window',
        'SELECT order_capture_window($1, $2) AS result',
        [order, windowEnding],
      );
      return rows[0]?.result ?? 'open';
    },
    async stray(command: StrayCommand, claim: Claim): Promise<StrayOutcome> {
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
    },
    refused(operation: OperationId, answer: OperationAnswer): Promise<OperationStep<'refused'>> {
      return step(db, 'money_refused', 'SELECT money_refused($1, $2) AS result', [
        operation,
        JSON.stringify(answer),
      ]);
    },
    end(
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
    },
    voided(operation: OperationId, answer: OperationAnswer): Promise<OperationStep<'voided'>> {
      return step(db, 'money_voided', 'SELECT money_voided($1, $2) AS result', [
        operation,
        JSON.stringify(answer),
      ]);
    },
    captured(operation: OperationId, view: PaymentView): Promise<OperationStep<'captured'>> {
      return step(db, 'money_captured', 'SELECT money_captured($1, $2) AS result', [
        operation,
        JSON.stringify({ view }),
      ]);
    },
  } satisfies Partial<SalesRecord>;
}

/** From here to its end a reservation whose money is not taken is on the operator's list. */
const windowEnding = '1 day';
