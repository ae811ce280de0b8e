import type { EventNo } from '../core/hold.ts';
import type { Phase } from '../core/phase.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import type { SecondOfArrivals, ShardEpoch } from './numbers.ts';

/**
 * Which store issues an event's numbers, and how that changes: one row a shard in Postgres is the only truth. Each change is
 * one conditional step; the functions are in functions/queue-stores.sql.
 */
export interface QueueControl {
  /** The rows, read less than `freshMs` ago, or after `notBefore` of this process's monotonic clock. */
  read(event: EventNo, notBefore?: number): Promise<QueueReading>;
  /** Raises the ceiling for the epoch, ahead of use. Returns null if the epoch is over. */
  raise(at: ShardEpoch, last: number, step: number): Promise<number | null>;
  /** The leader records what it read in Redis. False: another term or epoch is in force. */
  note(at: ShardEpoch, term: number, looked: Looked): Promise<boolean>;
  /** Hands numbering to Redis under a new epoch, which the caller then opens there, once. */
  toRedis(command: ToRedisCommand): Promise<ToRedisOutcome>;
  /**
   * Takes back what `toRedis` did, without a gap: only for an epoch that was certainly never opened there. Numbering goes on
   * in Postgres where it was. `already`: the epoch is over.
   */
  withdraw(at: ShardEpoch, term: number, reason: string): Promise<'withdrawn' | 'already' | 'other_term'>;
  /**
   * Numbering goes on in Postgres, at the epoch's ceiling. By the leader (`term`) at once, without a term when a second
   * process reports the same within `witnessMs`. Idempotent: an epoch that is over answers `already`.
   */
  toPostgres(command: ToPostgresCommand): Promise<'turned' | 'noted' | 'already' | 'other_term'>;
  /**
   * Reports the highest number that this process got under an epoch that has ended. The gap begins after it.
   */
  seen(at: ShardEpoch, number: number): Promise<void>;
}

export interface QueueReading {
  /** When the reading began, this process's monotonic clock. */
  at: number;
  phase: Phase;
  /** Epoch ms; null when unknown. */
  opensAt: number | null;
  /** One for each shard. */
  shards: ShardRow[];
}

export interface ShardRow {
  shard: number;
  mode: 'postgres' | 'redis';
  epoch: number;
  /** No number at or above it is issued under this epoch. */
  ceiling: number;
  /** Known to be issued; in Redis mode as the leader last wrote it. */
  last: number;
  /** The configured Redis server; null in Postgres mode of an event that never had one. */
  store: string | null;
  /** Trusted with the shard. */
  runIds: string[];
  /** Milliseconds since the mode was changed, at the reading. */
  sinceMs: number;
}

export interface Looked {
  /** Redis's clock at the look, epoch ms. */
  at: number;
  /** Milliseconds since then. */
  ageMs: number;
  last: number;
  arrivals: readonly SecondOfArrivals[];
}

export interface ToRedisCommand extends ShardEpoch {
  term: number;
  store: string;
  runIds: readonly string[];
  step: number;
  /** Redis's clock now, epoch ms. */
  redisMs: number;
  /** The epoch that Redis knows; the new one is higher. */
  above: number;
}
export type ToRedisOutcome =
  | { kind: 'turned'; epoch: number; last: number; ceiling: number }
  | { kind: 'other_term' | 'other_mode' | 'settling' | 'clock' };

export interface ToPostgresCommand extends ShardEpoch {
  term: number | null;
  reporter: string;
  reason: string;
  /** The highest number that the caller got under the epoch; 0: none. */
  seen: number;
  step: number;
}

const freshMs = 900;
/** Two processes' reports within this long are two witnesses of the same. */
export const queueWitnessMs = 5_000;
/**
 * Redis is not given the numbering again before this time is over, because a Redis that fails repeatedly must
 * not leave a gap each time.
 */
export const queueSettleMs = 30_000;
/** How far a Redis's clock may be from Postgres's when it is given the numbering: order across shards is by these clocks. */
export const queueSkewMaxMs = 500;
const readingsMax = 1_000;

const readText = `
  SELECT e.phase, e.on_sale_at AS "opensAt", c.shard, c.mode, c.epoch, c.ceiling, c.last_no AS last, c.store,
    c.run_ids AS "runIds", (extract(epoch FROM clock_timestamp() - c.changed_at) * 1000)::double precision AS "sinceMs"
  FROM queue_counters c JOIN events e USING (event_no) WHERE c.event_no = $1 ORDER BY c.shard`;

export function createQueueControl(options: {
  db: Db;
  clock: Pick<Clock, 'monotonic'>;
  /** 30 s; tests shorten it. */
  settleMs?: number;
}): QueueControl {
  const { db, clock, settleMs = queueSettleMs } = options;
  const readings = new Map<EventNo, { at: number; reading: Promise<QueueReading> }>();

  async function readRows(event: EventNo, at: number): Promise<QueueReading> {
    const rows = await db.query<ShardRow & { phase: Phase; opensAt: number | null }>('queue_rows', readText, [
      event,
    ]);
    const [first] = rows;
    if (!first) throw new Error(`event ${event} has no queue`);
    const shards = rows.map(({ phase: _, opensAt: __, ...row }) => row);
    return { at, phase: first.phase, opensAt: first.opensAt, shards };
  }

  return {
    read(event, notBefore = Number.NEGATIVE_INFINITY) {
      const at = clock.monotonic();
      const known = readings.get(event);
      if (known && at - known.at < freshMs && known.at >= notBefore) return known.reading;
      if (readings.size >= readingsMax) readings.clear();
      const entry = { at, reading: readRows(event, at) };
      readings.set(event, entry);
      entry.reading.catch(() => {
        if (readings.get(event) === entry) readings.delete(event);
      });
      return entry.reading;
    },

    async raise({ event, shard, epoch }, last, step) {
      const [row] = await db.query<{ ceiling: number | null }>(
        'queue_raise',
        'SELECT queue_raise($1, $2, $3, $4, $5) AS ceiling',
        [event, shard, epoch, last, step],
      );
      return row?.ceiling ?? null;
    },

    async note({ event, shard, epoch }, term, { at, ageMs, last, arrivals }) {
      const [row] = await db.query<{ ruled: boolean }>(
        'queue_note',
        'SELECT queue_note($1, $2, $3, $4, $5, $6, $7, $8, $9) AS ruled',
        [
          event,
          shard,
          term,
          epoch,
          last,
          at,
          ageMs,
          arrivals.map((one) => one.second),
          arrivals.map((one) => one.last),
        ],
      );
      return row?.ruled === true;
    },

    async toRedis({ event, shard, term, epoch, store, runIds, step, redisMs, above }) {
      const [row] = await db.query<{
        kind: ToRedisOutcome['kind'];
        epoch: number;
        last_no: number;
        ceiling: number;
      }>('queue_to_redis', 'SELECT * FROM queue_to_redis($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)', [
        event,
        shard,
        term,
        epoch,
        store,
        runIds,
        step,
        settleMs,
        redisMs,
        queueSkewMaxMs,
        above,
      ]);
      if (row!.kind !== 'turned') return { kind: row!.kind };
      return { kind: 'turned', epoch: row!.epoch, last: row!.last_no, ceiling: row!.ceiling };
    },

    async withdraw({ event, shard, epoch }, term, reason) {
      const [row] = await db.query<{ kind: 'withdrawn' | 'already' | 'other_term' }>(
        'queue_withdraw',
        'SELECT queue_withdraw($1, $2, $3, $4, $5) AS kind',
        [event, shard, term, epoch, reason],
      );
      return row!.kind;
    },

    async toPostgres({ event, shard, epoch, term, reporter, reason, seen, step }) {
      const [row] = await db.query<{ kind: 'turned' | 'noted' | 'already' | 'other_term' }>(
        'queue_to_postgres',
        'SELECT queue_to_postgres($1, $2, $3, $4, $5, $6, $7, $8, $9) AS kind',
        [event, shard, epoch, term, reporter, reason, seen, step, queueWitnessMs],
      );
      return row!.kind;
    },

    async seen({ event, shard, epoch }, number) {
      await db.query('queue_seen', 'SELECT queue_seen($1, $2, $3, $4)', [event, shard, epoch, number]);
    },
  };
}
