import { createHash } from 'node:crypto';
import { createEvents } from '../catalogue/events.ts';
import { createAdmissionTask } from '../controller/admission-task.ts';
import { type Controller, createController } from '../controller/controller.ts';
import { createEventRest } from '../controller/event-rest.ts';
import {
  createPathTask,
  createPublishTask,
  createSnapshots,
  createSweepTask,
} from '../controller/event-tasks.ts';
import { createPhaseTask } from '../controller/phase-task.ts';
import { createProjectionTask } from '../controller/projection-task.ts';
import type { StoreWatch } from '../controller/store-watch.ts';
import { arbiterCeilingOf } from '../core/admission.ts';
import type { EventNo, PartitionNo } from '../core/hold.ts';
import type { Db } from '../postgres/db.ts';
import { createPublisher, publishedForm } from '../read-path/publish.ts';
import type { EventObject } from '../read-path/published.ts';
import type { Loops } from '../runtime/loops.ts';
import type { Shutdown } from '../runtime/shutdown.ts';
import type { QueueStores } from '../waiting-room/queue-stores.ts';
import type { AdmissionControl, WaitingRoom } from '../waiting-room/waiting-room.ts';
import type { AppOptions } from './runtime.ts';
import { openArbiters, openStoreWatch, type RedisStores, redisHoldsOf } from './stores.ts';

/** The leader's part of the program: one controller for all events that this process leads, and the watch over Redis. */
export function startController(
  parts: AppOptions & {
    db: Db;
    /** Used only by the watch: while a partition moves, no other query of ours may delay it. */
    watchDb: Db;
    redis: RedisStores;
    room: WaitingRoom & AdmissionControl;
    queueStores: QueueStores;
    /** New with each start of a process. */
    owner: string;
    payment: EventObject['payment'];
    /** Null means no limit. */
    providerCallsPerSecond: number | null;
    timeZone: string;
    shutdown: Shutdown;
    loops: Loops;
  },
): { look(event: EventNo, partition: PartitionNo): void } {
  const { db, redis, room, owner, shutdown, clock, log } = parts;
  const events = createEvents({ db, clock });
  let watch: StoreWatch | undefined;
  const look = (event: EventNo, partition: PartitionNo): void => watch?.look(event, partition);
  const arbiters = openArbiters({ db, events, redis, reporter: owner, onLoss: look, clock, log });
  const arbiter = parts.replace?.arbiter?.(arbiters.arbiter) ?? arbiters.arbiter;
  const snapshots = createSnapshots({ arbiter, events, clock });
  const seatCounts = async (event: number) => (await snapshots.of(event)).counts;
  const path = createPathTask({ db, clock });
  const projection = createProjectionTask({
    db,
    events,
    arbiter: arbiters.arbiter,
    postgres: arbiters.postgres,
    clock,
    log,
  });
  const admission = createAdmissionTask({
    db,
    control: room,
    clock,
    seatCounts,
    pathSignals: path.last,
    providerLimit: () => {
      const callsPerSecond = parts.providerCallsPerSecond;
      return callsPerSecond === null ? null : { callsPerSecond, isRefusing: path.isProviderRefusing() };
    },
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
  let controller: Controller | undefined;
  const eventsToLead = createEventRest({
    db,
    clock,
    madeAs: madeAs({ payment: parts.payment, timeZone: parts.timeZone }),
    isQuiet: async (event, term) => {
      const measured = admission.measured(event, term);
      if (!measured?.settled) return false;
      // Holds in Redis lapse without a word to Postgres.
      return (
        measured.seats.held === 0 || (await events.modes(event)).every(({ mode }) => mode === 'postgres')
      );
    },
    controller: () => controller,
  });
  controller = createController({
    db,
    owner,
    clock,
    log,
    eventsToLead,
    tasks: [
      path,
      createPhaseTask({ db, seatCounts, onAdvance: (event) => projection.soon(event) }),
      admission,
      createPublishTask({ publisher, snapshots, events, admission }),
      createSweepTask({ arbiter, events, room, clock, log }),
      projection,
    ],
    onLeft: (event) => {
      snapshots.forget(event);
      admission.forget(event);
    },
  });
  const { leads, start, stop } = controller;
  shutdown.add('controller', stop);
  start(parts.loops);
  watch = openStoreWatch({
    db: parts.watchDb,
    events,
    redis,
    reporter: owner,
    leads,
    onMoved: (event) => projection.soon(event),
    clock,
    log,
  });
  shutdown.add('watch over Redis', () => watch?.stop());
  watch.start(parts.loops);
  return { look };
}

/**
 * Changes with everything outside the database that published objects depend on. The objects of a resting event are then made
 * again.
 */
function madeAs(settings: Pick<EventObject, 'payment' | 'timeZone'>): string {
  return createHash('sha256')
    .update(JSON.stringify({ form: publishedForm, ...settings }))
    .digest('base64url')
    .slice(0, 22);
}
