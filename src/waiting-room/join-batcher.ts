import type { EventNo, Visitor } from '../core/hold.ts';
import { assert } from '../core/outcome.ts';
import type { Clock } from '../runtime/clock.ts';
import { type JoinOutcome, joinBatchMax, type WaitingRoom } from './waiting-room.ts';

/** More joins are waiting in this process than it will get through soon: nothing was drawn, try again after that many ms. */
export type Overloaded = { kind: 'overloaded'; afterMs: number };

export interface JoinBatcher {
  /** One visitor's join; shares its call to the store with those that arrive in the same tick or while a call is under way. */
  join(event: EventNo, shard: number, visitor: Visitor): Promise<JoinOutcome | Overloaded>;
}

interface Waiting {
  visitor: Visitor;
  resolve(outcome: JoinOutcome): void;
  reject(fault: unknown): void;
}

interface Line {
  waiting: Waiting[];
  /** A flush is due or a call is under way. */
  busy: boolean;
}

const overloadedAfterMs = 1_000;

/**
 * One call at a time per event and shard: the counter's row lets one batch through at a time anyway, and what arrives
 * meanwhile makes the next batch larger instead of the row's queue longer. `limit`: joins waiting in this process at most.
 */
export function createJoinBatcher(options: {
  room: Pick<WaitingRoom, 'join'>;
  clock: Pick<Clock, 'after'>;
  limit?: number;
}): JoinBatcher {
  const { room, clock, limit = 20_000 } = options;
  const lines = new Map<string, Line>();
  let waitingCount = 0;

  async function flush(event: EventNo, shard: number, line: Line): Promise<void> {
    while (line.waiting.length > 0) {
      const batch = line.waiting.splice(0, joinBatchMax);
      try {
        const outcomes = await room.join(
          event,
          shard,
          batch.map((one) => one.visitor),
        );
        assert(outcomes.length === batch.length, 'each join of a batch has its outcome');
        batch.forEach((one, index) => {
          one.resolve(outcomes[index]!);
        });
      } catch (fault) {
        for (const one of batch) one.reject(fault);
      } finally {
        waitingCount -= batch.length;
      }
    }
    line.busy = false;
    lines.delete(`${event}:${shard}`);
  }

  return {
    join(event, shard, visitor) {
      if (waitingCount >= limit) return Promise.resolve({ kind: 'overloaded', afterMs: overloadedAfterMs });
      const key = `${event}:${shard}`;
      const line = lines.get(key) ?? { waiting: [], busy: false };
      lines.set(key, line);
      waitingCount += 1;
      return new Promise((resolve, reject) => {
        line.waiting.push({ visitor, resolve, reject });
        if (line.busy) return;
        line.busy = true;
        clock.after(0, () => void flush(event, shard, line));
      });
    },
  };
}
