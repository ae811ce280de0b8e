import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createLease } from '../../src/controller/lease.ts';
import type { Hold } from '../../src/core/hold.ts';
import type { ArbiterStore } from '../../src/inventory/arbiter.ts';
import type { PartitionModes } from '../../src/inventory/modes.ts';
import { createPostgresArbiter } from '../../src/inventory/postgres.ts';
import { createPartitionModes } from '../../src/inventory/postgres-modes.ts';
import { createSalesRecord } from '../../src/orders/orders-record.ts';
import type { EventSettings, SalesRecord } from '../../src/orders/record.ts';
import type { Db } from '../../src/postgres/db.ts';
import { endGrace } from '../support/acts.ts';
import { until } from '../support/app.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { linesOf, orderIdOf, stageEvent } from '../support/stage.ts';

export interface Row {
  mode: string;
  epoch: number;
  grace_until: Date | null;
  rebuild_epoch: number | null;
  restored_at: Date | null;
}

/**
 * One event without a running Redis for its partition: only Postgres's side of it, with receipts as a lost Redis would have
 * signed.
 */
export interface ModesWorld {
  event: number;
  /** Epoch of the partition's row when the world was made, or when its Redis was last there. */
  epoch: number;
  arbiter: ArbiterStore;
  modes: PartitionModes;
  record: SalesRecord;
  row(): Promise<Row>;
  /** Makes `owner` the leader; a former leader's lease is over. Returns the term. */
  lead(owner?: string): Promise<number>;
  report(
    reporter: string,
    more?: { term?: number | null; epoch?: number },
  ): ReturnType<PartitionModes['report']>;
  /** Degrades as the leader does; returns the new epoch. */
  degrade(): Promise<number>;
  endGrace(): Promise<void>;
  /** As if Redis had been restored long ago, with nothing in it. */
  restored(): Promise<void>;
  /** As a lost Redis granted it under `epoch`. */
  receipt(visitor: string, seats: number[], grant: number, more?: Partial<Hold>): Hold;
  present(receipt: Hold, seatsMax?: number): ReturnType<ArbiterStore['recover']>;
  hold(
    visitor: string,
    seats: number[],
    more?: { hold?: string; holder?: string },
  ): ReturnType<ArbiterStore['hold']>;
  reserve(hold: Hold): ReturnType<SalesRecord['reserve']>;
  /** S1, S2, S3, S8 seat by seat, by SQL. */
  audit(): Promise<void>;
}

export async function modesWorld(
  database: TestDatabase,
  db: Db,
  options: { mode?: 'postgres' | 'redis'; seats?: number; settings?: Partial<EventSettings> } = {},
): Promise<ModesWorld> {
  const { event, epoch } = await stageEvent(database, { mode: 'redis', ...options });
  const arbiter = createPostgresArbiter({ db });
  const modes = createPartitionModes({ db });
  const record = createSalesRecord({ db });
  const at = { event, partition: 0 };
  const row = async (): Promise<Row> => {
    const [found] = await database.query(
      `SELECT mode, epoch::int, grace_until, rebuild_epoch::int, restored_at FROM event_partitions WHERE event_no = $1`,
      [event],
    );
    return found;
  };
  const world: ModesWorld = {
    event,
    epoch,
    arbiter,
    modes,
    record,
    row,
    lead: async (owner = `leader-${randomUUID()}`) => {
      await database.query(`UPDATE leases SET until = now() - interval '1 second' WHERE event_no = $1`, [
        event,
      ]);
      const terms = await createLease({ db, owner, clock: performanceClock }).keep([event]);
      // The lease is not renewed here, and on a busy machine a test outlasts it.
      await database.query(`UPDATE leases SET until = now() + interval '1 minute' WHERE event_no = $1`, [
        event,
      ]);
      return terms.get(event)!;
    },
    report: (reporter, more = {}) =>
      modes.report({ ...at, epoch: world.epoch, reporter, reason: 'unreachable', term: null, ...more }),
    degrade: async () => {
      const outcome = await world.report('leader', { term: await world.lead(), epoch: (await row()).epoch });
      assert.ok(outcome.kind === 'degraded', outcome.kind);
      return outcome.epoch;
    },
    endGrace: async () => {
      await endGrace(database, event);
    },
    restored: async () => {
      await database.query(
        `UPDATE event_partitions SET mode = 'redis', epoch = nextval('epochs'), grace_until = NULL WHERE event_no = $1`,
        [event],
      );
      world.epoch = (await row()).epoch;
    },
    receipt: (visitor, seats, grant, more = {}) => ({
      ...at,
      hold: randomUUID(),
      visitor,
      holder: visitor,
      seats,
      grantedAt: Date.now() - 60_000,
      deadline: Date.now() + 540_000,
      epoch: world.epoch,
      grant,
      order: null,
      ...more,
    }),
    present: async (receipt, seatsMax = 6) =>
      arbiter.recover({ ...at, epoch: (await row()).epoch, receipt, seatsMax }),
    hold: async (visitor, seats, more = {}) =>
      arbiter.hold({
        ...at,
        epoch: (await row()).epoch,
        hold: randomUUID(),
        visitor,
        holder: visitor,
        request: JSON.stringify(seats),
        claim: { kind: 'seats', seats },
        ttlMs: 600_000,
        seatsMax: 6,
        replaces: null,
        notAfter: null,
        ...more,
      }),
    reserve: (hold) =>
      record.reserve({
        order: orderIdOf(hold.hold),
        hold: hold.hold,
        ...at,
        epoch: hold.epoch,
        deadline: hold.deadline,
        visitor: hold.visitor,
        holder: hold.holder,
        account: `${hold.holder}@example.org`,
        buyer: { name: hold.visitor, email: `${hold.visitor}@example.org` },
        lines: linesOf(hold.seats),
        orderFee: 100,
        currency: 'EUR',
      }),
    audit: () => auditSeats(database, event),
  };
  return world;
}

const performanceClock = { monotonic: () => performance.now() };

/**
 * Runs `statement` in a transaction that stays open while `meanwhile` runs: a call that commits late. Answers both. The
 * transaction's end is the caller's to choose, with `commit`; at the latest it comes with the end of `meanwhile`.
 */
export async function committingLate<T>(
  database: TestDatabase,
  [statement, values]: [string, unknown[]],
  meanwhile: (commit: () => Promise<void>) => Promise<T>,
  // biome-ignore lint/suspicious/noExplicitAny: rows of arbitrary test statements.
): Promise<{ rows: any[]; outcome: T }> {
  const client = await database.pool(1).connect();
  let open = true;
  const commit = async () => {
    if (open) await client.query('COMMIT');
    open = false;
  };
  try {
    await client.query('BEGIN');
    const { rows } = await client.query(statement, values);
    return { rows, outcome: await meanwhile(commit) };
  } finally {
    await commit();
    client.release();
  }
}

/** Awaits that `count` calls wait for a lock in the database. */
export async function waiting(database: TestDatabase, count: number): Promise<void> {
  await until(async () => {
    const [row] = await database.query(
      `SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    );
    return row.n >= count;
  }, `${count} calls to wait for a lock`);
}

/** One live hold a visitor and a seat; leases and seats, tickets and seats agree. */
export async function auditSeats(database: TestDatabase, event: number): Promise<void> {
  const wrong = await database.query(
    `WITH live AS (SELECT h.hold_id, unnest(h.seats) AS seat_no FROM holds h JOIN event_partitions p USING (event_no, partition)
                    WHERE h.event_no = $1 AND h.state = 'live' AND h.deadline > now() AND h.epoch = p.epoch),
          held AS (SELECT s.hold_id, s.seat_no FROM seats s JOIN event_partitions p USING (event_no, partition)
                    WHERE s.event_no = $1 AND s.state = 'available' AND s.hold_until > now() AND s.hold_epoch = p.epoch),
          owned AS (SELECT order_id, seat_no, status FROM tickets WHERE event_no = $1 AND status <> 'cancelled'),
          decided AS (SELECT order_id, seat_no, state FROM seats WHERE event_no = $1 AND state IN ('reserved','sold'))
     SELECT 'twice' AS what, seat_no, NULL::uuid AS id FROM live GROUP BY seat_no HAVING count(*) > 1
     UNION ALL SELECT 'two holds of a visitor', NULL, NULL FROM holds h JOIN event_partitions p USING (event_no, partition)
      WHERE h.event_no = $1 AND h.state = 'live' AND h.deadline > now() AND h.epoch = p.epoch GROUP BY visitor HAVING count(*) > 1
     UNION ALL (SELECT 'hold without seat', seat_no, hold_id FROM live EXCEPT SELECT 'hold without seat', seat_no, hold_id FROM held)
     UNION ALL (SELECT 'seat without hold', seat_no, hold_id FROM held EXCEPT SELECT 'seat without hold', seat_no, hold_id FROM live)
     UNION ALL (SELECT 'ticket without seat ' || status, seat_no, order_id FROM owned
                EXCEPT SELECT 'ticket without seat ' || state, seat_no, order_id FROM decided)
     UNION ALL (SELECT 'seat without ticket ' || state, seat_no, order_id FROM decided
                EXCEPT SELECT 'seat without ticket ' || status, seat_no, order_id FROM owned)`,
    [event],
  );
  assert.deepEqual(wrong, []);
}
