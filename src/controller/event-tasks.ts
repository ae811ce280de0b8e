import type { Events, Venue } from '../catalogue/events.ts';
import { type EventNo, seatStates } from '../core/hold.ts';
import type { Arbiter, Snapshot } from '../inventory/arbiter.ts';
import type { EventRecord, PartitionMode } from '../orders/record.ts';
import type { Db } from '../postgres/db.ts';
import { countVenue, mergeSnapshots, type VenueCounts } from '../read-path/availability.ts';
import type { Publisher } from '../read-path/publish.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import type { WaitingRoom } from '../waiting-room/waiting-room.ts';
import type { AdmissionTask } from './admission-task.ts';
import type { LeaderTask } from './controller.ts';
import { type PathWindow, readPath, readProvider } from './path-signals.ts';

/** The tasks of an event's leader once a second, in addition to admission and phases: tidy, count, publish. */

/** The tasks of one tick look at one snapshot. */
const snapshotFreshMs = 500;
const sweptMax = 1_000;
/** Work for all events together is done by the first of them in a tick. */
const sharedEveryMs = 500;
/**
 * How long a partition whose store is away is shown as it was. Within seconds the store comes back or
 * Postgres takes over.
 */
const lastPictureMs = 15_000;

export interface Snapshots {
  of(event: EventNo): Promise<{ event: EventRecord; venue: Venue; snapshot: Snapshot; counts: VenueCounts }>;
  /** Lets go of an event that this process no longer leads: its venue is large. */
  forget(event: EventNo): void;
}

export function createSnapshots(options: { arbiter: Arbiter; events: Events; clock: Clock }): Snapshots {
  const { arbiter, events, clock } = options;
  const taken = new Map<EventNo, { at: number; read: ReturnType<Snapshots['of']> }>();
  /** The last snapshot of each partition. */
  const pictures = new Map<string, { at: number; snapshot: Snapshot }>();

  async function read(eventNo: EventNo): ReturnType<Snapshots['of']> {
    const event = await events.findByNo(eventNo);
    if (!event) throw new Error(`event ${eventNo} is gone`);
    const modes = await events.modes(eventNo);
    const [venue, ...parts] = await Promise.all([
      events.venue(event),
      ...modes.map((mode) => partOf(eventNo, mode)),
    ]);
    const snapshot = mergeSnapshots(parts);
    return { event, venue, snapshot, counts: countVenue(snapshot.codes, venue) };
  }

  async function partOf(event: EventNo, { partition, graceUntil }: PartitionMode): Promise<Snapshot> {
    const key = `${event}/${partition}`;
    const last = pictures.get(key);
    const known = last && clock.monotonic() - last.at < lastPictureMs ? last.snapshot : null;
    try {
      const snapshot = await arbiter.snapshot(event, partition);
      // Holds are being collected from their receipts: seats that were held before cannot be taken yet.
      if (known && graceUntil !== null && clock.now() < graceUntil) return stillHeld(snapshot, known);
      pictures.set(key, { at: clock.monotonic(), snapshot });
      return snapshot;
    } catch (error) {
      if (!(error instanceof StoreFault) || !known) throw error;
      return known;
    }
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
    forget(event) {
      taken.delete(event);
      for (const key of pictures.keys()) if (key.startsWith(`${event}/`)) pictures.delete(key);
    },
  };
}

function stillHeld(now: Snapshot, before: Snapshot): Snapshot {
  const codes = now.codes.map((code, seat) =>
    code === available && before.codes[seat] === held ? held : code,
  );
  return { ...now, codes };
}

/** Holds that ended and numbers that were remembered long enough: for the display and the tables' size only. */
export function createSweepTask(options: {
  arbiter: Arbiter;
  events: Pick<Events, 'modes'>;
  room: Pick<WaitingRoom, 'sweep'>;
  clock: Pick<Clock, 'monotonic'>;
  log: Logger;
}): LeaderTask {
  const { arbiter, events, room, clock, log } = options;
  let roomSweptAt = Number.NEGATIVE_INFINITY;
  return {
    name: 'sweep',
    async run({ event }) {
      for (const { partition } of await events.modes(event)) {
        await arbiter.sweep(event, partition, sweptMax).catch((error: unknown) => {
          // An unreachable store is detected and reported elsewhere.
          if (!(error instanceof StoreFault)) throw error;
          log.debug({ err: error, event, partition }, 'holds were not swept');
        });
      }
      // One sweep is for all events.
      if (clock.monotonic() - roomSweptAt < sharedEveryMs) return;
      roomSweptAt = clock.monotonic();
      await room.sweep(event);
    },
  };
}

/** How the purchase path and the payment provider have done lately, over all events: for admission. */
export function createPathTask(options: { db: Db; clock: Pick<Clock, 'monotonic'> }): LeaderTask & {
  last(): PathWindow | null;
  /** The provider refused calls because they were too many. */
  isProviderRefusing(): boolean;
} {
  let readAt = Number.NEGATIVE_INFINITY;
  let path: PathWindow | null = null;
  let isRefusing = false;
  return {
    name: 'path',
    async run() {
      if (options.clock.monotonic() - readAt < sharedEveryMs) return;
      readAt = options.clock.monotonic();
      path = await readPath(options.db);
      isRefusing = (await readProvider(options.db)).refused > 0;
    },
    last: () => path,
    isProviderRefusing: () => isRefusing,
  };
}

export function createPublishTask(options: {
  publisher: Publisher;
  snapshots: Snapshots;
  events: Pick<Events, 'modes'>;
  admission: Pick<AdmissionTask, 'measured'>;
}): LeaderTask {
  const { publisher, snapshots, events, admission } = options;
  return {
    name: 'publish',
    async run({ event, term, tick }) {
      // Until this term has measured the line, the last leader's figures stay up: a frontier never goes back (W6).
      const line = admission.measured(event, term);
      if (!line) return;
      const { event: record, venue, snapshot } = await snapshots.of(event);
      const grace = (await events.modes(event)).flatMap(({ partition, graceUntil }) =>
        graceUntil === null ? [] : [{ partition, until: graceUntil }],
      );
      await publisher.publish({ event: record, venue, snapshot, term, count: tick + 1, line, grace });
    },
  };
}

const available = seatStates.indexOf('available');
const held = seatStates.indexOf('held');
