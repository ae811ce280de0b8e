import type { Db } from '../postgres/db.ts';
import { moneyStatements } from './money-operations.ts';
import { orderStatements } from './orders.ts';
import { eventStatements } from './provider-events.ts';
import type { SalesRecord } from './record.ts';

/** The record of sales in Postgres. */
export function createSalesRecord({ db }: { db: Db }): SalesRecord {
  return { ...orderStatements(db), ...moneyStatements(db), ...eventStatements(db) };
}
