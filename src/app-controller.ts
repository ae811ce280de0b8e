import type { AppOptions } from './app.ts';
import { openArbiters, openStoreWatch, type RedisStores, redisHoldsOf } from './app-stores.ts';
import { arbiterCeilingOf } from './core/admission.ts';
import type { EventNo, PartitionNo } from './core/hold.ts';
import type { StoreWatch } from './inventory/store-watch.ts';
import { createPublishTask, createSnapshots, createSweepTask } from './leader-tasks.ts';
import { createProjectionTask } from './projection-task.ts';
import { createPublisher } from './read-path/publish.ts';
import type { EventObject } from './read-path/published.ts';
import type { Clock } from './runtime/clock.ts';
import type { Loops } from './runtime/loops.ts';
import type { Shutdown } from './runtime/shutdown.ts';
import type { Db } from './sales/db.ts';
import { createEvents, type Events } from './sales/events.ts';
import { type PathWindow, readPath } from './sales/path-signals.ts';
import { createAdmissionTask } from './waiting-room/admission-task.ts';
import { createController } from './waiting-room/controller.ts';
import { createPhaseTask } from './waiting-room/phase-task.ts';
import type { QueueStores } from './waiting-room/queue-stores.ts';
import type { AdmissionControl, WaitingRoom } from './waiting-room/waiting-room.ts';

/** The leader's part of the program: one controller for all events that this process leads, and the watch over Redis. */
export function startController(
  parts: AppOptions & {
    db: Db;
    /** Of the watch alone: while a partition moves, nothing of ours shall stand in its way. */
    watchDb: Db;
    redis: RedisStores;
    room: WaitingRoom & AdmissionControl;
    queueStores: QueueStores;
    /** New with each start of a process. */
    owner: string;
    payment: EventObject['payment'];
    timeZone: string;
    shutdown: Shutdown;
    loops: Loops;
  },
): { look(event: EventNo, partition: PartitionNo): void } {
  const { db, redis, room, owner, shutdown, clock, log } = parts;
  const events = createEvents({ db, clock });
  let watch: StoreWatch | undefined;
  const look = (event: EventNo, partition: PartitionNo): void => watch?.look(event, partition);
  const made = openArbiters({ db, events, redis, reporter: owner, onLoss: look, clock, log });
  const arbiter = parts.replace?.arbiter?.(made.arbiter) ?? made.arbiter;
  const snapshots = createSnapshots({ arbiter, events, clock });
  const seatCounts = async (event: number) => (await snapshots.of(event)).counts;
  let path: PathWindow | null = null;
  const projection = createProjectionTask({
    db,
    events,
    arbiter: made.arbiter,
    postgres: made.postgres,
    clock,
    log,
  });
  const admission = createAdmissionTask({
    db,
    control: room,
    clock,
    seatCounts,
    pathSignals: () => path,
    arbiterCeiling: async (event) => {
      const modes = await events.modes(event);
      return arbiterCeilingOf(
        modes.map((row) => ({ ...row, redis: row.mode === 'redis' })),
        clock.now(),
      );
    },
    refreshLine: parts.queueStores.refresh,
    redisHolds: redisHoldsOf({ events, redis, log }),
  });
  const publisher = createPublisher({ db, clock, payment: parts.payment, timeZone: parts.timeZone });
  const controller = createController({
    db,
    owner,
    clock,
    log,
    eventsToLead: () => eventsToLead(events, clock),
    tasks: [
      {
        name: 'path',
        run: async () => {
          path = await readPath(db);
        },
      },
      createPhaseTask({ db, seatCounts, onAdvance: (event) => projection.soon(event) }),
      admission,
      createPublishTask({ publisher, snapshots, events, admission }),
      createSweepTask({ arbiter, events, room, log }),
      projection,
    ],
  });
  shutdown.add('controller', () => controller.stop());
  controller.start(parts.loops);
  watch = openStoreWatch({
    db: parts.watchDb,
    events,
    redis,
    reporter: owner,
    leads: controller.leads,
    onMoved: (event) => projection.soon(event),
    clock,
    log,
  });
  shutdown.add('watch over Redis', () => watch?.stop());
  watch.start(parts.loops);
  return { look };
}

/** A day after the performance nobody looks any more. */
const ledAfterMs = 24 * 3_600_000;

async function eventsToLead(events: Events, clock: Clock): Promise<number[]> {
  const all = await events.list();
  return all
    .filter(({ phase, layoutHash, performanceAt }) => {
      if (phase === 'draft' || !layoutHash) return false;
      const final = phase === 'closed' || phase === 'cancelled';
      return !final || performanceAt === null || performanceAt + ledAfterMs > clock.now();
    })
    .map(({ eventNo }) => eventNo);
}
