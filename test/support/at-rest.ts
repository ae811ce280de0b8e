import { type TestApp, until } from './app.ts';

/** Lets the deadline of all unpaid orders pass, and waits until the app's own reconciler has settled everything. */
export async function closeUnpaid(app: Pick<TestApp, 'database' | 'eventNo'>): Promise<void> {
  await app.database.query(
    `UPDATE orders SET payment_deadline = now() - interval '1 second' WHERE event_no = $1 AND state = 'reserved'`,
    [app.eventNo],
  );
  await until(async () => (await unsettled(app)) === 0, 'all orders and operations to be settled', 60_000);
}

export async function unsettled(app: Pick<TestApp, 'database' | 'eventNo'>): Promise<number> {
  const [row] = await app.database.query(
    `SELECT (SELECT count(*) FROM orders WHERE event_no = $1 AND state NOT IN ('paid','closed','cancelled'))::int
          + (SELECT count(*) FROM money_operations JOIN orders USING (order_id) WHERE event_no = $1
              AND (due_at IS NOT NULL OR money_operations.state NOT IN ('done','refused','voided')))::int AS n`,
    [app.eventNo],
  );
  return row.n;
}
