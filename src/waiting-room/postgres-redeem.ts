import type { EventNo } from '../core/hold.ts';
import { assert, impossible } from '../core/outcome.ts';
import type { Phase } from '../core/phase.ts';
import type { Db } from '../postgres/db.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import type { RedeemCommand, RedeemOutcome, WaitingRoom } from './waiting-room.ts';

interface RedeemRow {
  kind: RedeemOutcome['kind'];
  phase: Phase;
  pass_id: string;
  number: number;
  issued_at: number;
  expires_at: number;
  repeated: boolean;
  frontier: number;
  after_ms: number;
}

interface Waiting {
  command: RedeemCommand;
  resolve(outcome: RedeemOutcome): void;
  reject(fault: unknown): void;
}

/** Redeems in one call at most; the rest go in the next. */
const batchMax = 100;
/** Waiting in this process for one event at most: about ten seconds' worth of a slow disk. */
const waitingMax = 5_000;

/**
 * Redeems of one event share the bucket's row, so one call of this process at a time is all that gets through. Those that
 * come while it is under way go together in the next, instead of each holding a connection while it waits for the row.
 */
export function createPostgresRedeem(db: Db): WaitingRoom['redeem'] {
  /** Events with a call under way. */
  const lines = new Map<EventNo, Waiting[]>();

  async function flush(event: EventNo, line: Waiting[]): Promise<void> {
    while (line.length > 0) {
      const batch = line.splice(0, batchMax);
      try {
        const outcomes = await redeemAll(
          db,
          event,
          batch.map((one) => one.command),
        );
        batch.forEach((one, index) => {
          one.resolve(outcomes[index]!);
        });
      } catch (fault) {
        // The event is locked: those behind have waited as long for the same.
        if (fault instanceof StoreFault && fault.code === 'store_busy') batch.push(...line.splice(0));
        for (const one of batch) one.reject(fault);
      }
    }
    lines.delete(event);
  }

  return (command) =>
    new Promise((resolve, reject) => {
      const line = lines.get(command.event);
      if (line && line.length >= waitingMax) {
        reject(new StoreFault('store_busy', `${waitingMax} redeems of event ${command.event} are waiting`));
        return;
      }
      const waiting = { command, resolve, reject };
      if (line) {
        line.push(waiting);
        return;
      }
      const begun = [waiting];
      lines.set(command.event, begun);
      void flush(command.event, begun);
    });
}

async function redeemAll(db: Db, event: EventNo, commands: RedeemCommand[]): Promise<RedeemOutcome[]> {
  const rows = await db.query<RedeemRow>(
    'queue_redeem_all',
    'SELECT * FROM queue_redeem_all($1, $2, $3, $4, $5, $6)',
    [
      event,
      commands.map((one) => one.shard),
      commands.map((one) => one.number),
      commands.map((one) => one.visitor),
      commands.map((one) => one.passId),
      commands.map((one) => one.sessionMs),
    ],
    event,
  );
  assert(rows.length === commands.length, 'each redeem of a batch has its answer');
  return rows.map(redeemOutcome);
}

function redeemOutcome(row: RedeemRow): RedeemOutcome {
  switch (row.kind) {
    case 'issued':
      return {
        kind: 'issued',
        passId: row.pass_id,
        number: row.number,
        issuedAt: row.issued_at,
        expiresAt: row.expires_at,
        repeated: row.repeated,
      };
    case 'over':
      return { kind: 'over' };
    case 'not_yet':
      return { kind: 'not_yet', frontier: row.frontier };
    case 'wait':
      return { kind: 'wait', afterMs: row.after_ms };
    case 'used':
      return { kind: 'used' };
    case 'not_open':
      return { kind: 'not_open', phase: row.phase };
    default:
      return impossible(row.kind, 'queue_redeem');
  }
}
