import { createPostgresArbiter } from '../../src/inventory/postgres.ts';
import { createDb, type Db } from '../../src/postgres/db.ts';
import { type Clock, systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { setPhase } from '../support/acts.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { checkedRows } from '../support/row-schemas.ts';
import { pause } from '../support/wait.ts';
import type { ArbiterWorld } from './arbiter-world.ts';

/** `onRetry` hears of each deadlock or serialisation failure that the pool repeats. */
export function testDb(database: TestDatabase, poolSize: number, onRetry: () => void = () => {}): Db {
  const sleep: Clock['sleep'] = (ms) => {
    onRetry();
    return pause(ms, 'the pool’s own, before it repeats');
  };
  const clock = { ...systemClock, sleep };
  return checkedRows(createDb({ url: database.url, poolSize, clock, log: silentLogger }));
}

/** A new event of its own in the database, open, without seats. */
export async function postgresWorld(
  database: TestDatabase,
  db: Db,
  options: { claimsPerCall?: number } = {},
): Promise<ArbiterWorld> {
  await database.query(
    `INSERT INTO plans (plan_id, name, version, hash, plan, report) VALUES ('p', 'p', 1, 'p', '', '{}') ON CONFLICT DO NOTHING`,
  );
  const [row] = await database.query<{ event_no: number }>(
    `INSERT INTO events (event_id, name, plan_id, currency, prices, settings, phase)
     VALUES ('e-' || substr(gen_random_uuid()::text, 1, 18), 'e', 'p', 'EUR', '{}', '{}', 'open') RETURNING event_no`,
  );
  const event = row!.event_no;
  await database.query('SELECT create_event_tables($1)', [event]);
  const epochOf = async () => {
    const sql = 'SELECT epoch::int AS epoch FROM event_partitions WHERE event_no = $1 AND partition = 0';
    return (await database.query<{ epoch: number }>(sql, [event]))[0]!.epoch;
  };
  return {
    arbiter: createPostgresArbiter({ db, ...options }),
    event,
    epoch: await epochOf(),
    // The server's clock cannot be moved: what was granted is moved into its past instead.
    advance: async (ms) => {
      const by = [event, ms / 1_000];
      await database.query(
        `UPDATE holds SET granted_at = granted_at - $2 * interval '1 second', deadline = deadline - $2 * interval '1 second'
          WHERE event_no = $1`,
        by,
      );
      await database.query(
        `UPDATE seats SET hold_until = hold_until - $2 * interval '1 second' WHERE event_no = $1 AND hold_until IS NOT NULL`,
        by,
      );
      await database.query(
        `UPDATE event_partitions SET grace_until = grace_until - $2 * interval '1 second' WHERE event_no = $1`,
        by,
      );
    },
    setPhase: (phase) => setPhase(database, event, phase),
    setMode: async (mode) => {
      const sql = `UPDATE event_partitions SET mode = $2, epoch = nextval('epochs'), grace_until = NULL WHERE event_no = $1`;
      await database.query(sql, [event, mode]);
      return epochOf();
    },
    // The same rows as partition_degrade leaves, for orders that are not in the record.
    lose: async (graceMs) => {
      await database.query(
        `UPDATE event_partitions SET mode = 'postgres', epoch = nextval('epochs'), grace_until = clock_timestamp() + $2 * interval '1 ms'
          WHERE event_no = $1`,
        [event, graceMs],
      );
      await database.query(`DELETE FROM holds WHERE event_no = $1 AND state <> 'ordered'`, [event]);
      return epochOf();
    },
  };
}
