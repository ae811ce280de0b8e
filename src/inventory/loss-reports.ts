import type { EventNo, PartitionNo } from '../core/hold.ts';
import { RedisFault } from '../redis/faults.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { StoreFault } from '../runtime/store-fault.ts';
import type { ModeReader, PartitionModes, PartitionRow } from './modes.ts';

/** Reports of a process about a lost Redis: at most one per second and partition, sent without waiting. */
export interface LossReports {
  /** A call failed. One that only met keys on the move is no loss. */
  fault(event: EventNo, row: PartitionRow, fault: StoreFault): void;
  /** A call was answered. */
  well(event: EventNo, row: PartitionRow): void;
  /**
   * The Redis does not know the epoch in the row that was read again, or has given fewer numbers under it than `granted`, which
   * other processes may not know yet.
   */
  forgot(event: EventNo, row: PartitionRow, granted: number): void;
  /** The row names a Redis that is not configured in this process. The operator has to fix that. */
  unconfigured(event: EventNo, row: PartitionRow): void;
}

/** Two processes' reports of one epoch degrade the partition: more often than this they say nothing new. */
const reportEveryMs = 1_000;
/** A connection that breaks and reconnects at once is not a loss. Only faults that last this long are reported. */
const suspicionMs = 200;
const complainEveryMs = 10_000;

export function createLossReports(options: {
  modes: ModeReader;
  report: PartitionModes['report'];
  granted: PartitionModes['granted'];
  reporter: string;
  onLoss?: (event: EventNo, partition: PartitionNo) => void;
  clock: Clock;
  log: Logger;
}): LossReports {
  const { modes, report, reporter, onLoss = () => {}, clock, log } = options;
  const saidAt = new Map<string, number>();
  /** Partition → when the first of its calls failed since the last that was answered. */
  const suspects = new Map<string, number>();

  function isDue(what: string, everyMs: number): boolean {
    const now = clock.monotonic();
    const last = saidAt.get(what);
    if (last !== undefined && now - last < everyMs) return false;
    saidAt.set(what, now);
    return true;
  }

  function lost(event: EventNo, row: PartitionRow, reason: string, fault?: StoreFault): void {
    const { partition, epoch } = row;
    if (!isDue(keyOf(event, row), reportEveryMs)) return;
    if (isDue(`lost/${keyOf(event, row)}`, complainEveryMs)) {
      log.warn({ event, partition, epoch, reason, fault: fault?.message }, 'Redis is lost for this process');
    }
    report({ event, partition, epoch, reporter, reason, term: null }).then(
      async ({ kind }) => {
        if (kind === 'degraded' || kind === 'changed')
          await modes.read(event, clock.monotonic()).catch(() => {});
      },
      (fault: unknown) =>
        log.warn({ err: fault, event, partition }, 'the loss of Redis could not be reported'),
    );
  }

  return {
    fault(event, row, fault) {
      if (fault.code === 'store_busy') return;
      onLoss(event, row.partition);
      const now = clock.monotonic();
      const since = suspects.get(keyOf(event, row)) ?? now;
      suspects.set(keyOf(event, row), since);
      if (now - since < suspicionMs) return;
      lost(event, row, fault instanceof RedisFault ? fault.reason : 'unreachable', fault);
    },
    well(event, row) {
      if (suspects.size > 0) suspects.delete(keyOf(event, row));
    },
    forgot(event, row, granted) {
      onLoss(event, row.partition);
      if (granted > row.granted && isDue(`granted/${keyOf(event, row)}`, reportEveryMs)) {
        const { partition, epoch } = row;
        options
          .granted({ event, partition, epoch }, granted)
          .catch((err: unknown) => log.warn({ err, event, partition }, 'could not store the number given'));
      }
      lost(event, row, 'forgot');
    },
    unconfigured(event, row) {
      const { partition, store } = row;
      if (!isDue(`unconfigured/${event}/${partition}`, complainEveryMs)) return;
      log.error(
        { event, partition, store: store ?? 'default' },
        'the partition is arbitrated by a Redis that this process does not know: set REDIS_URL or ONSALE_REDIS_SERVERS as the other processes have it',
      );
    },
  };
}

function keyOf(event: EventNo, { partition }: PartitionRow): string {
  return `${event}/${partition}`;
}
