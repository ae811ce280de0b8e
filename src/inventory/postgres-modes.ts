import type { EventNo, PartitionNo } from '../core/hold.ts';
import { assert } from '../core/outcome.ts';
import type { Phase } from '../core/phase.ts';
import type { Db } from '../postgres/db.ts';
import {
  graceMs,
  type PartitionModes,
  type Refused,
  type ReportCommand,
  type ReportOutcome,
  type StoredHold,
  type StoredSeats,
  settleMs as settleDefaultMs,
  witnessMs,
} from './modes.ts';

type Refusable<Columns = object> = { refused: Refused['reason'] | null } & Columns;

interface MovedRow extends StoredSeats {
  holds: StoredHold[];
  phase: Phase;
  phase_version: number;
}

const statements = {
  report: 'SELECT * FROM partition_report($1,$2,$3,$4,$5,$6,$7,$8,$9)',
  granted: 'SELECT partition_granted($1,$2,$3,$4)',
  begin: 'SELECT * FROM partition_begin($1,$2,$3,$4)',
  move: 'SELECT * FROM partition_move($1,$2,$3,$4,$5)',
  seats: 'SELECT * FROM partition_seats($1,$2)',
  holds: `SELECT hold_id AS hold, visitor, holder, request, seats, granted_at AS "grantedAt", deadline, grant_no AS "grant",
                 order_id AS "order", address, state FROM partition_holds($1,$2)`,
  flip: 'SELECT partition_flip($1,$2,$3,$4,$5) AS refused',
  abort: 'SELECT * FROM partition_abort($1,$2,$3)',
} as const;

/** The partition's row in Postgres, changed by functions/partitions.sql: one call a step. */
export function createPartitionModes(options: {
  db: Db;
  /** 30 s (modes.ts) unless told otherwise. */
  settleMs?: number;
}): PartitionModes {
  const { db, settleMs = settleDefaultMs } = options;
  const ask = <Row>(step: keyof typeof statements, values: readonly unknown[]): Promise<Row[]> =>
    db.query<Row>(`partition_${step}`, statements[step], values);
  async function one<Row>(step: keyof typeof statements, values: readonly unknown[]): Promise<Row> {
    const [row] = await ask<Row>(step, values);
    assert(row, `partition_${step} answers a row`);
    return row;
  }

  return {
    async report(command: ReportCommand): Promise<ReportOutcome> {
      const { event, partition, epoch, reporter, reason, term } = command;
      const row = await one<{ kind: string; new_epoch: number; after_ms: number }>('report', [
        event,
        partition,
        epoch,
        reporter,
        reason,
        term,
        witnessMs,
        settleMs,
        graceMs,
      ]);
      if (row.kind === 'degraded') return { kind: 'degraded', epoch: row.new_epoch };
      if (row.kind === 'settling') return { kind: 'settling', afterMs: row.after_ms };
      assert(row.kind === 'noted' || row.kind === 'changed', `a report answered ${row.kind}`);
      return { kind: row.kind };
    },

    async granted({ event, partition, epoch }, granted) {
      await ask('granted', [event, partition, epoch, granted]);
    },

    async begin({ event, partition, term, above = 0 }) {
      const row = await one<Refusable<{ rebuild: number }>>('begin', [event, partition, term, above]);
      return row.refused ? refusal(row.refused) : { kind: 'begun', epoch: row.rebuild };
    },

    async move({ event, partition, term, rebuild, since }) {
      const row = await one<Refusable<MovedRow>>('move', [event, partition, term, rebuild, since ?? null]);
      if (row.refused) return refusal(row.refused);
      const { seats, versions, states, holds, phase, phase_version: version } = row;
      return { kind: 'moving', seats: { seats, versions, states }, holds, phase: { phase, version } };
    },

    seats: (event: EventNo, partition: PartitionNo) =>
      one<StoredSeats & { mark: string }>('seats', [event, partition]),

    holds: (event: EventNo, partition: PartitionNo) => ask<StoredHold>('holds', [event, partition]),

    async flip({ event, partition, term, rebuild, runIds }) {
      const row = await one<Refusable>('flip', [event, partition, term, rebuild, runIds]);
      return row.refused ? refusal(row.refused) : { kind: 'flipped' };
    },

    async abort({ event, partition, term }) {
      const row = await one<Refusable<{ new_epoch: number }>>('abort', [event, partition, term]);
      return row.refused ? refusal(row.refused) : { kind: 'aborted', epoch: row.new_epoch };
    },
  };
}

const refusal = (reason: Refused['reason']): Refused => ({ kind: 'refused', reason });
