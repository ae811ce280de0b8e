import type { EventNo, PartitionNo } from '../../core/hold.ts';
import type { PartitionEpoch } from '../modes.ts';

/** The highest numbers that this process knows a store has given, one a partition: of the last epoch that it heard of. */
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
      const mine = known.get(`${event}:${partition}`);
      if (epoch === undefined) return mine ? [mine.epoch, mine.grant] : [0, 0];
      return [epoch, mine?.epoch === epoch ? mine.grant : 0];
    },
    raise: ({ event, partition, epoch }, grant = 0) => {
      if (epoch === 0) return 0;
      const key = `${event}:${partition}`;
      const mine = known.get(key);
      if (mine && mine.epoch > epoch) return 0;
      const floor = mine?.epoch === epoch ? Math.max(mine.grant, grant) : grant;
      if (mine?.epoch !== epoch || mine.grant !== floor) known.set(key, { epoch, grant: floor });
      return floor;
    },
  };
}
