import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import {
  type ControllerOptions,
  createController,
  type LeaderTask,
  type LeaderTick,
} from '../../src/controller/controller.ts';
import { createDb } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { insertTestEvent } from '../contract/waiting-room-event.ts';
import { testLoops } from '../support/loops.ts';
import { testDatabase } from '../support/postgres.ts';
import { pause, until } from '../support/wait.ts';

async function setUp(
  t: TestContext,
  options: Partial<ControllerOptions> & { tasks: LeaderTask[] },
  count = 2,
) {
  const database = await testDatabase(t);
  const events: number[] = [];
  for (let n = 0; n < count; n++) events.push(await insertTestEvent(database));
  const db = createDb({ url: database.url, poolSize: 4, clock: systemClock, log: silentLogger });
  const controller = createController({
    db,
    owner: 'test',
    clock: systemClock,
    log: silentLogger,
    eventsToLead: async () => events,
    tickMs: 25,
    ...options,
  });
  t.after(async () => {
    await controller.stop();
    await db.close();
  });
  return { database, events, controller };
}

function noted(name: string, run: (tick: LeaderTick) => Promise<void> = async () => {}) {
  const ticks: LeaderTick[] = [];
  const task: LeaderTask = {
    name,
    run: (tick) => {
      ticks.push(tick);
      return run(tick);
    },
  };
  return { task, ticks, of: (event: number) => ticks.filter((tick) => tick.event === event) };
}

test('a task that fails for one event stops neither its other events nor the other tasks', async (t) => {
  let bad = 0;
  const failing = noted('failing', async ({ event }) => {
    if (event === bad) throw new Error('as meant');
  });
  const thrown = noted('throws at once', () => {
    throw new Error('as meant');
  });
  const fine = noted('fine');
  const { events, controller } = await setUp(t, { tasks: [failing.task, thrown.task, fine.task] });
  bad = events[0]!;
  controller.start(testLoops());
  await until(
    () => [failing, thrown, fine].every((one) => events.every((event) => one.of(event).length >= 5)),
    'all go on',
  );
  const ticks = fine.of(events[1]!);
  assert.deepEqual(
    ticks.map((tick) => tick.tick),
    ticks.map((_, index) => index),
  );
  assert.deepEqual(
    [...controller.leads()],
    events.map((event) => [event, 1]),
  );
});

test('a task that hangs is given up, told so, and does not pile up; leases and other tasks go on', async (t) => {
  const hanging = noted('hanging', () => new Promise<void>(() => {}));
  const fine = noted('fine');
  const { events, controller } = await setUp(t, { tasks: [hanging.task, fine.task], taskMs: 60 }, 1);
  controller.start(testLoops());
  await until(() => fine.ticks.length >= 40, 'the other goes on');
  assert.equal(hanging.ticks.length, 3, 'not started any more after three that never ended');
  assert.ok(hanging.ticks.every((tick) => tick.signal.aborted));
  assert.equal(controller.leads().get(events[0]!), 1);
});

test('a slow run is not started twice; the next begins when it is over', async (t) => {
  let underWay = 0;
  let most = 0;
  const slow = noted('slow', async () => {
    underWay += 1;
    most = Math.max(most, underWay);
    await pause(80, 'a run that takes longer than a tick');
    underWay -= 1;
  });
  const { controller } = await setUp(t, { tasks: [slow.task] }, 1);
  controller.start(testLoops());
  await until(() => slow.ticks.length >= 4, 'several runs');
  assert.equal(most, 1);
});

test('an event whose lease another took is left alone from the next tick on', async (t) => {
  const fine = noted('fine');
  const { database, events, controller } = await setUp(t, { tasks: [fine.task] });
  controller.start(testLoops());
  const [lost, kept] = events as [number, number];
  await until(() => fine.of(lost).length > 2 && fine.of(kept).length > 2, 'both are led');
  await database.query(
    `UPDATE leases SET owner = 'other', term = term + 1, until = clock_timestamp() + interval '1 hour' WHERE event_no = $1`,
    [lost],
  );
  await until(() => !controller.leads().has(lost), 'it is noticed');
  const [lostRuns, keptRuns] = [fine.of(lost).length, fine.of(kept).length];
  await until(() => fine.of(kept).length > keptRuns + 5, 'the other is led on');
  assert.equal(fine.of(lost).length, lostRuns);
  await database.query('UPDATE leases SET until = clock_timestamp() WHERE event_no = $1', [lost]);
  await until(() => fine.of(lost).length > lostRuns, 'it is led again');
  const again = fine.of(lost)[lostRuns]!;
  assert.deepEqual([again.term, again.tick], [3, 0], 'in a new term, from its first tick');
});

test('a list of events that cannot be read for a while does not end the loop', async (t) => {
  const fine = noted('fine');
  let asked = 0;
  const events: number[] = [];
  const made = await setUp(
    t,
    {
      tasks: [fine.task],
      eventsToLead: async () => {
        asked += 1;
        if (asked % 2 === 1) throw new Error('as meant');
        return events;
      },
    },
    1,
  );
  events.push(...made.events);
  made.controller.start(testLoops());
  await until(() => asked > 6 && fine.ticks.length > 4, 'it leads all the same');
  assert.equal(fine.ticks.at(-1)!.term, 1, 'without losing its lease in between');
});

test('stopping waits for the run under way, then ends the lease', async (t) => {
  let finish = (): void => {};
  let finished = false;
  const slow = noted('slow', async () => {
    await new Promise<void>((resolve) => {
      finish = resolve;
    });
    finished = true;
  });
  const { database, controller } = await setUp(t, { tasks: [slow.task] }, 1);
  controller.start(testLoops());
  await until(() => slow.ticks.length === 1, 'it runs');
  const stopped = controller.stop();
  assert.ok(slow.ticks[0]!.signal.aborted, 'the run is told');
  finish();
  await stopped;
  assert.ok(finished);
  const [lease] = await database.query('SELECT until <= clock_timestamp() AS over FROM leases');
  assert.equal(lease.over, true);
  assert.equal(controller.leads().size, 0);
});
