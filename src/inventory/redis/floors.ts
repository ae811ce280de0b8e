import type { EventNo, PartitionNo } from '../../core/hold.ts';
import type { PartitionEpoch } from '../modes.ts';

/**
 * For each partition, the highest number that this process knows its store has given, under the last epoch
 * that the process heard of.
 */
export interface Floors {
  /** As the scripts take it: the epoch that is asked for, or else the floor's own, and the floor, 0 when none is known. */
  of(at: { event: EventNo; partition: PartitionNo; epoch?: number }): [epoch: number, floor: number];
  /** Returns the floor under the epoch. */
  raise(at: PartitionEpoch, grant?: number): number;
}

export function createFloors(): Floors {
  const known = new Map<string, { epoch: number; grant: number }>();
  return {
    of: ({ event, partition, epoch }) => {
      const entry = known.get(`${event}:${partition}`);
      if (epoch === undefined) return entry ? [entry.epoch, entry.grant] : [0, 0];
      return [epoch, entry?.epoch === epoch ? entry.grant : 0];
    },
    raise: ({ event, partition, epoch }, grant = 0) => {
      if (epoch === 0) return 0;
      const key = `${event}:${partition}`;
      const entry = known.get(key);
      if (entry && entry.epoch > epoch) return 0;
      const floor = entry?.epoch === epoch ? Math.max(entry.grant, grant) : grant;
      if (entry?.epoch !== epoch || entry.grant !== floor) known.set(key, { epoch, grant: floor });
      return floor;
    },
  };
}
