import assert from 'node:assert/strict';
import { type AuditReport, auditEvent, eventsToAudit } from '../../src/audit/audit.ts';
import { createEvents } from '../../src/catalogue/events.ts';
import { ledgerAt } from '../../src/cli/audit.ts';
import type { Arbiter } from '../../src/inventory/arbiter.ts';
import { createPostgresArbiter } from '../../src/inventory/postgres.ts';
import { createDb } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { type TestApp, until } from './app.ts';
import type { TestDatabase } from './postgres.ts';

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

/** The findings of `onsale audit` about an event. The arbiter is Postgres unless another is given. */
export async function auditOf(
  app: { database: TestDatabase; simulator: { url: string }; eventNo: number },
  arbiter?: Pick<Arbiter, 'snapshot'>,
): Promise<AuditReport> {
  const db = createDb({ url: app.database.url, poolSize: 2, clock: systemClock, log: silentLogger });
  try {
    const event = (await eventsToAudit(db, null)).find((each) => each.event === app.eventNo);
    assert.ok(event, 'the event is published');
    const money = await ledgerAt(app.simulator.url);
    assert.ok(money, 'the simulator has a ledger');
    const events = createEvents({ db, clock: systemClock });
    return await auditEvent(
      {
        db,
        clock: systemClock,
        modes: (no) => events.modes(no),
        arbiter: arbiter ?? createPostgresArbiter({ db }),
        redisHolds: null,
        numbers: null,
        money,
      },
      event,
    );
  } finally {
    await db.close();
  }
}

export function violationsOf(report: AuditReport): string[] {
  return report.promises.flatMap(({ violations }) =>
    violations.map(
      ({ promise, says, order }) => `${promise} ${says}${order === null ? '' : ` (order ${order})`}`,
    ),
  );
}
