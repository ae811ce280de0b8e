import type { EventNo, Hold, HoldId, PartitionNo } from '../core/hold.ts';
import { holdLimits, seatStates } from '../core/hold.ts';
import { assert } from '../core/outcome.ts';
import type { Phase } from '../core/phase.ts';
import type { Db } from '../postgres/db.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import type {
  ArbiterStore,
  ExtendOutcome,
  HoldCommand,
  HoldOutcome,
  LoadOutcome,
  RecoverOutcome,
  ReleaseOutcome,
  SeatChange,
  Snapshot,
  Stale,
  UnderEpoch,
} from './arbiter.ts';
import { ascending, checkedClaim, retryAfterMs } from './claims.ts';
import { createHoldBatcher, type SharedClaim } from './postgres-batch.ts';

/** The row that every function of the arbiter answers; what a kind does not need is null. */
interface Answer {
  kind: string | null;
  hold_id: string;
  visitor: string;
  holder: string;
  seats: number[];
  granted_at: number;
  deadline: number;
  epoch: number;
  grant_no: number;
  order_id: string | null;
  repeated: boolean;
  used: number;
  phase: Phase;
  after_ms: number | null;
}

const statements = {
  load: 'SELECT * FROM arbiter_load($1,$2,$3,$4,$5,$6)',
  hold: 'SELECT * FROM arbiter_hold($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17)',
  hold_many: 'SELECT * FROM arbiter_hold_many($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15)',
  refusal: 'SELECT arbiter_refusal($1,$2,$3,$4,$5,$6,$7,$8) AS seats',
  recover: 'SELECT * FROM arbiter_recover($1,$2,$3,$4,$5)',
  find: 'SELECT * FROM arbiter_find($1,$2,$3)',
  extend: 'SELECT * FROM arbiter_extend($1,$2,$3,$4,$5,$6,$7)',
  release: 'SELECT * FROM arbiter_release($1,$2,$3,$4,$5,$6)',
  project: 'SELECT arbiter_project($1,$2,$3,$4,$5,$6,$7)',
  sweep: 'SELECT arbiter_sweep($1,$2,$3) AS swept',
  snapshot: 'SELECT * FROM arbiter_snapshot($1,$2)',
} as const;

export interface PostgresArbiterOptions {
  db: Db;
  /** Claims in one call at most; 1 sends each alone. */
  claimsPerCall?: number;
}

/**
 * The arbiter in the record's own store: the embedded default and the degraded path. One call an operation; the rules are in
 * functions/arbiter.sql and, for grace, arbiter-grace.sql. The event's tables must be there (`create_event_tables`).
 * Claims that are asked together share calls (arbiter-batch.sql).
 */
export function createPostgresArbiter({ db, claimsPerCall }: PostgresArbiterOptions): ArbiterStore {
  const ask = <Row>(operation: keyof typeof statements, values: readonly unknown[]): Promise<Row[]> =>
    // The first value of each is the event.
    db.query<Row>(`arbiter_${operation}`, statements[operation], values, values[0] as EventNo);
  const answerOf = async (
    operation: keyof typeof statements,
    values: readonly unknown[],
  ): Promise<Answer> => {
    const [answer] = await ask<Answer>(operation, values);
    assert(answer, `arbiter_${operation} answers a row`);
    return answer;
  };

  async function holdAlone({ command, checked }: SharedClaim): Promise<HoldOutcome | Stale> {
    const { groups, units, quantity } = checked;
    const answer = await answerOf('hold', [
      command.event,
      command.partition,
      command.epoch,
      command.hold,
      command.visitor,
      command.holder,
      command.request,
      groups.flat(),
      quantity,
      command.claim.kind === 'seats',
      units && [units.first, units.count, units.quantity, units.start],
      command.ttlMs,
      command.seatsMax,
      command.replaces,
      command.notAfter === null ? null : new Date(command.notAfter),
      command.address?.id ?? null,
      command.address?.seatsMax ?? null,
    ]);
    return holdOutcomeOf(answer, command);
  }

  async function holdMany(claims: readonly SharedClaim[]): Promise<(HoldOutcome | Stale | undefined)[]> {
    const { event, partition, epoch } = claims[0]!.command;
    const commands = claims.map(({ command }) => command);
    const rows = await ask<Answer & { claim: number }>('hold_many', [
      event,
      partition,
      epoch,
      commands.map(({ hold }) => hold),
      commands.map(({ visitor }) => visitor),
      commands.map(({ holder }) => holder),
      commands.map(({ request }) => request),
      claims.map(({ checked }) => `{${checked.groups.flat().join()}}`),
      claims.map(({ checked }) => checked.quantity),
      commands.map(({ claim }) => claim.kind === 'seats'),
      commands.map(({ ttlMs }) => ttlMs),
      commands.map(({ seatsMax }) => seatsMax),
      commands.map(({ notAfter }) => (notAfter === null ? null : new Date(notAfter))),
      commands.map(({ address }) => address?.id ?? null),
      commands.map(({ address }) => address?.seatsMax ?? null),
    ]);
    const outcomes: (HoldOutcome | Stale | undefined)[] = claims.map(() => undefined);
    for (const row of rows) {
      const command = commands[row.claim - 1];
      assert(command, `an answer to claim ${row.claim} of ${claims.length}`);
      if (row.kind !== 'alone') outcomes[row.claim - 1] = holdOutcomeOf(row, command);
    }
    return outcomes;
  }
  const batcher = createHoldBatcher({ alone: holdAlone, many: holdMany, claimsPerCall });

  /** Handles a claim that got no decision: a loser among many claims for one seat gets `taken`, however busy the store is. */
  async function takenFrom(command: UnderEpoch<HoldCommand>): Promise<number[] | null> {
    const { event, partition, epoch, hold, visitor, claim, replaces } = command;
    if (claim.kind === 'units' || replaces !== null) return null;
    const { groups, quantity } = checkedClaim(command);
    const rows = await ask<{ seats: number[] | null }>('refusal', [
      event,
      partition,
      epoch,
      hold,
      visitor,
      groups.flat(),
      quantity,
      claim.kind === 'seats',
    ]).catch(() => []);
    return rows[0]?.seats ?? null;
  }

  return {
    async load({ event, partition, epoch, seats }) {
      const answer = await answerOf('load', [event, partition, epoch, ...changesOf(seats)]);
      return outcomeOf<LoadOutcome | Stale>(answer, {
        loaded: () => ({ kind: 'loaded', seats: seats.length }),
      });
    },

    async hold(command) {
      try {
        return await batcher.hold(command);
      } catch (fault) {
        const taken =
          fault instanceof StoreFault && fault.code === 'store_busy' && (await takenFrom(command));
        if (taken) return { kind: 'taken', seats: taken };
        throw fault;
      }
    },

    async recover({ event, partition, epoch, receipt, seatsMax }) {
      const answer = await answerOf('recover', [event, partition, epoch, receiptRowOf(receipt), seatsMax]);
      return outcomeOf<RecoverOutcome | Stale>(answer, {
        recovered: () => ({ kind: 'recovered', hold: holdOf(answer, event, partition) }),
        recovering: () => ({ kind: 'recovering', until: answer.deadline }),
        taken: () => ({ kind: 'taken', seats: answer.seats }),
        hold_gone: () => ({ kind: 'hold_gone' }),
      });
    },

    async find(event, partition, hold) {
      const [answer] = await ask<Answer>('find', [event, partition, hold]);
      return answer?.kind ? holdOf(answer, event, partition) : null;
    },

    async extend({ event, partition, epoch, hold, visitor, order }) {
      const answer = await answerOf('extend', [
        event,
        partition,
        epoch,
        hold,
        visitor,
        order,
        holdLimits.extendToMs,
      ]);
      return outcomeOf<ExtendOutcome | Stale>(answer, {
        extended: () => ({ kind: 'extended', hold: holdOf(answer, event, partition) }),
        hold_gone: () => ({ kind: 'hold_gone' }),
        bound: () => ({ kind: 'bound', order: answer.order_id! }),
      });
    },

    async release({ event, partition, epoch, hold, visitor, force }) {
      const answer = await answerOf('release', [event, partition, epoch, hold, visitor, force ?? null]);
      return outcomeOf<ReleaseOutcome | Stale>(answer, {
        released: () => ({ kind: 'released', seats: answer.seats }),
        hold_gone: () => ({ kind: 'hold_gone' }),
        bound: () => ({ kind: 'bound', order: answer.order_id! }),
      });
    },

    async project({ event, partition, changes, ordered, ended }) {
      await ask('project', [event, partition, ...changesOf(changes), ordered, ended]);
      return true;
    },

    async sweep(event, partition, limit) {
      const [row] = await ask<{ swept: number }>('sweep', [event, partition, limit]);
      return row!.swept;
    },

    async snapshot(event, partition) {
      const [row] = await ask<SnapshotRow>('snapshot', [event, partition]);
      assert(row, `partition ${partition} of event ${event} is known`);
      return snapshotOf(row);
    },
  };
}

function holdOutcomeOf(answer: Answer, command: UnderEpoch<HoldCommand>): HoldOutcome | Stale {
  const hold = () => holdOf(answer, command.event, command.partition);
  return outcomeOf<HoldOutcome | Stale>(answer, {
    granted: () => ({ kind: 'granted', hold: hold(), repeated: answer.repeated }),
    taken: () => ({ kind: 'taken', seats: answer.seats }),
    hold_exists: () => ({ kind: 'hold_exists', hold: hold() }),
    quota: () => ({ kind: 'quota', used: answer.used, max: command.seatsMax }),
    address_quota: () => ({ kind: 'address_quota', used: answer.used, max: command.address?.seatsMax ?? 0 }),
    mismatch: () => ({ kind: 'mismatch' }),
    hold_gone: () => ({ kind: 'hold_gone' }),
    too_late: () => ({ kind: 'too_late' }),
    not_open: () => ({ kind: 'not_open', phase: answer.phase }),
  });
}

/** Builds the outcome of the answer's kind; `stale` and `retry` are the same for every operation. */
function outcomeOf<Outcome extends { kind: string }>(
  answer: Answer,
  kinds: Record<Exclude<Outcome['kind'], 'stale' | 'retry'>, () => Outcome> | Kinds<Outcome>,
): Outcome {
  const kind = answer.kind ?? 'null';
  if (kind === 'stale') return { kind, epoch: answer.epoch } as unknown as Outcome;
  if (kind === 'retry') return { kind, afterMs: answer.after_ms ?? retryAfterMs } as unknown as Outcome;
  const build = (kinds as Record<string, (() => Outcome) | undefined>)[kind];
  assert(build, `an answer of a known kind, not ${kind}`);
  return build();
}
type Kinds<Outcome extends { kind: string }> = Partial<Record<Outcome['kind'], () => Outcome>>;

/** A receipt as a row of `holds`, which is how the functions take it. */
function receiptRowOf(receipt: Hold): string {
  return JSON.stringify({
    hold_id: receipt.hold,
    visitor: receipt.visitor,
    holder: receipt.holder,
    seats: ascending(receipt.seats),
    granted_at: new Date(receipt.grantedAt).toISOString(),
    deadline: new Date(receipt.deadline).toISOString(),
    epoch: receipt.epoch,
    grant_no: receipt.grant,
    order_id: receipt.order,
  });
}

function holdOf(answer: Answer, event: EventNo, partition: PartitionNo): Hold {
  return {
    hold: answer.hold_id as HoldId,
    event,
    partition,
    visitor: answer.visitor,
    holder: answer.holder,
    seats: answer.seats,
    grantedAt: answer.granted_at,
    deadline: answer.deadline,
    epoch: answer.epoch,
    grant: answer.grant_no,
    order: answer.order_id,
  };
}

/** Seats, versions and states side by side, ascending by seat: the order in which rows are locked. */
function changesOf(changes: readonly SeatChange[]): [number[], number[], string[]] {
  const sorted = [...changes].sort((a, b) => a.seat - b.seat);
  ascending(sorted.map((change) => change.seat));
  return [sorted.map((c) => c.seat), sorted.map((c) => c.version), sorted.map((c) => c.state)];
}

interface SnapshotRow {
  at: number;
  epoch: number;
  codes: string | null;
  last: number | null;
}

const zero = '0'.charCodeAt(0);
const foreign = 'x'.charCodeAt(0);

function snapshotOf(row: SnapshotRow): Snapshot {
  const text = Buffer.from(row.codes ?? '', 'latin1');
  assert(text.length === (row.last ?? -1) + 1, `a row for each of ${text.length} seats`);
  const length = text.length - trailing(text);
  const codes = new Uint8Array(length);
  for (let i = 0; i < length; i++) {
    const code = text[i]!;
    codes[i] = code === foreign ? 255 : code - zero;
    assert(codes[i] === 255 || codes[i]! < seatStates.length, `seat ${i} in a known state`);
  }
  return { at: Math.floor(row.at), epoch: row.epoch, codes };
}

/** Seats of other partitions after the last of this one. */
function trailing(text: Buffer): number {
  let count = 0;
  while (count < text.length && text[text.length - 1 - count] === foreign) count++;
  return count;
}
