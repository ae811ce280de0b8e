import type pg from 'pg';
import { type Ask, transaction } from './seat-table.ts';

/** Single statements of one transaction. A purchase of this baseline goes well: whatever else comes out ends the bench. */
export interface Statements {
  ask: Ask;
  /** The statement's one row: a row that is not there, or was not changed, is thrown. */
  one<Row>(name: string, text: string, values: unknown[]): Promise<Row>;
  /** Throws when there is a row. */
  none(name: string, text: string, values: unknown[]): Promise<void>;
  must(holds: boolean, what: string): void;
}

export function statementsOf(ask: Ask): Statements {
  return {
    ask,
    one: async <Row>(name: string, text: string, values: unknown[]) => {
      const { rows } = await ask(name, text, values);
      must(rows.length === 1, `${name}: one row, not ${rows.length}`);
      return rows[0] as Row;
    },
    none: async (name, text, values) => {
      const { rows } = await ask(name, text, values);
      must(rows.length === 0, `${name}: no row, not ${rows.length}`);
    },
    must,
  };
}

/** One step of a purchase: a transaction of its own, as one call of a function of ours is. */
export function inStep<Result>(pool: pg.Pool, work: (step: Statements) => Promise<Result>): Promise<Result> {
  return transaction(pool, async (ask) => ({ commit: true, result: await work(statementsOf(ask)) }));
}

export function must(holds: boolean, what: string): void {
  if (!holds) throw new Error(`not so: ${what}`);
}

export async function noteChange(
  { ask }: Statements,
  order: string,
  note: { change: string; from: string | null; to: string; detail: object | null },
): Promise<void> {
  const { change, from, to, detail } = note;
  await ask(
    'same_note',
    'INSERT INTO order_history (order_id, change, from_state, to_state, detail) VALUES ($1, $2, $3, $4, $5)',
    [order, change, from, to, detail && JSON.stringify(detail)],
  );
}

/** A change of phase, or of the arbiter, waits for the steps under way. */
export async function lockEvent({ one }: Statements, event: number): Promise<void> {
  await one('same_event_lock', 'SELECT pg_advisory_xact_lock_shared(20260, $1)', [event]);
}

export interface OrderRow {
  event_no: number;
  state: string;
  amount: number;
  currency: string;
  payment_deadline: number;
  provider_object: string | null;
}

export function lockOrder({ one }: Statements, order: string): Promise<OrderRow> {
  return one(
    'same_order_lock',
    `SELECT event_no, state, amount, currency, payment_deadline, provider_object FROM orders WHERE order_id = $1 FOR UPDATE`,
    [order],
  );
}
