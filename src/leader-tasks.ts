import type { EventNo } from './core/hold.ts';
import type { Arbiter, Snapshot } from './inventory/arbiter.ts';
import { countHouse, type HouseCounts } from './read-path/availability.ts';
import type { Publisher } from './read-path/publish.ts';
import type { Clock } from './runtime/clock.ts';
import type { Events, House } from './sales/events.ts';
import type { EventRecord } from './sales/record.ts';
import type { AdmissionTask } from './waiting-room/admission-task.ts';
import type { LeaderTask } from './waiting-room/controller.ts';
import type { WaitingRoom } from './waiting-room/waiting-room.ts';

/** What an event's leader does once a second, beside admission and phases: tidy, count, publish. */

const partition = 0;
/** The tasks of one tick look at one snapshot. */
const snapshotFreshMs = 500;
const sweptMax = 1_000;

export interface Snapshots {
  of(event: EventNo): Promise<{ event: EventRecord; house: House; snapshot: Snapshot; counts: HouseCounts }>;
}

export function createSnapshots(options: { arbiter: Arbiter; events: Events; clock: Clock }): Snapshots {
  const { arbiter, events, clock } = options;
  const taken = new Map<EventNo, { at: number; read: ReturnType<Snapshots['of']> }>();

  async function read(eventNo: EventNo): ReturnType<Snapshots['of']> {
    const event = await events.findByNo(eventNo);
    if (!event) throw new Error(`event ${eventNo} is gone`);
    const [house, snapshot] = await Promise.all([events.house(event), arbiter.snapshot(eventNo, partition)]);
    return { event, house, snapshot, counts: countHouse(snapshot.codes, house) };
  }

  return {
    of(event) {
      const last = taken.get(event);
      const now = clock.monotonic();
      if (last && now - last.at < snapshotFreshMs) return last.read;
      const entry = { at: now, read: read(event) };
      taken.set(event, entry);
      entry.read.catch(() => {
        if (taken.get(event) === entry) taken.delete(event);
      });
      return entry.read;
    },
  };
}

/** Holds that ended and numbers that were remembered long enough: for the display and the tables' size only. */
export function createSweepTask({ arbiter, room }: { arbiter: Arbiter; room: WaitingRoom }): LeaderTask {
  return {
    name: 'sweep',
    async run({ event }) {
      await arbiter.sweep(event, partition, sweptMax);
      await room.sweep(event);
    },
  };
}

export function createPublishTask(options: {
  publisher: Publisher;
  snapshots: Snapshots;
  admission: Pick<AdmissionTask, 'measured'>;
}): LeaderTask {
  const { publisher, snapshots, admission } = options;
  return {
    name: 'publish',
    async run({ event, term, tick }) {
      // Until this term has measured the line, the last leader's figures stay up: a frontier never goes back (W6).
      const line = admission.measured(event, term);
      if (!line) return;
      const { event: record, house, snapshot } = await snapshots.of(event);
      await publisher.publish({ event: record, house, snapshot, term, count: tick + 1, line });
    },
  };
}
