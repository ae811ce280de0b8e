import type { Phase } from '../../src/core/phase.ts';
import type { TestDatabase } from './postgres.ts';

/**
 * What tests do to the database behind the program's back, by name: changes that only another process, an operator or time would
 * make. A statement that more than one test file needs stands here.
 */

type Statements = { query(sql: string, values?: unknown[]): Promise<unknown> };

/** The order's seats are lost before it is confirmed: confirming is impossible, and the money is to be released. */
export async function loseSeats(on: Statements, order: string): Promise<void> {
  await on.query(`UPDATE tickets SET status = 'cancelled' WHERE order_id = $1`, [order]);
}

export async function setPhase(on: Statements, event: number, phase: Phase): Promise<void> {
  await on.query('UPDATE events SET phase = $2 WHERE event_no = $1', [event, phase]);
}

/** From now on that term leads the event, for ever. */
export async function leads(on: Statements, event: number, term = 1): Promise<void> {
  await on.query(
    `INSERT INTO leases (event_no, owner, term, until) VALUES ($1, 'test', $2, 'infinity')
     ON CONFLICT (event_no) DO UPDATE SET term = $2`,
    [event, term],
  );
}

/** Grace ends now; in one partition, or in all of the event's. */
export async function endGrace(on: Statements, event: number, partition?: number): Promise<void> {
  await on.query(
    `UPDATE event_partitions SET grace_until = clock_timestamp() WHERE event_no = $1 AND ($2::int IS NULL OR partition = $2)`,
    [event, partition ?? null],
  );
}

/** The deadline of an order passes: the clock of the database is real, so the deadline is moved. */
export async function passDeadline(on: Statements, order: string): Promise<void> {
  await on.query(`UPDATE orders SET payment_deadline = now() - interval '1 second' WHERE order_id = $1`, [
    order,
  ]);
}

/** Makes all later work due now and drops every claim. */
export async function makeDue(on: Statements): Promise<void> {
  for (const table of ['money_operations', 'provider_events'])
    await on.query(`UPDATE ${table} SET due_at = now(), claimed_until = NULL WHERE due_at IS NOT NULL`);
}

/** No process works on the order's payment for an hour. Returns false while one does: ask again. */
export async function postponed(on: TestDatabase, order: string): Promise<boolean> {
  const rows = await on.query(
    `UPDATE money_operations SET due_at = now() + interval '1 hour'
     WHERE order_id = $1 AND due_at IS NOT NULL AND (claimed_until IS NULL OR claimed_until < clock_timestamp()) RETURNING 1`,
    [order],
  );
  return rows.length > 0;
}

/** Jobs that failed and wait for their next attempt are due now. */
export const jobsDueSql = 'UPDATE graphile_worker._private_jobs SET run_at = now() WHERE run_at > now()';

/** The id by which payments and keys of Redis are marked as this installation's. */
export async function installationOf(database: TestDatabase): Promise<string> {
  const [row] = await database.query<{ id: string }>('SELECT id FROM installation');
  return row!.id;
}

/** Whether a session waits for a lock that this one has (its pg_backend_pid). */
export async function keepsWaiting(database: TestDatabase, pid: number): Promise<boolean> {
  const rows = await database.query('SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))', [
    pid,
  ]);
  return rows.length > 0;
}
