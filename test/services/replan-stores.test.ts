import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import test from 'node:test';
import { createInProcessArbiter } from '../../models/arbiter.ts';
import { overStore } from '../../models/one-store.ts';
import { createEvents } from '../../src/catalogue/events.ts';
import { loadPlan, savePlan } from '../../src/catalogue/plans.ts';
import { prepareReplan, type ReplanDeps, replanEvent } from '../../src/catalogue/replan.ts';
import { createDemoEvent } from '../../src/cli/demo-event.ts';
import { seatStates } from '../../src/core/hold.ts';
import { createDb } from '../../src/postgres/db.ts';
import { mergeSnapshots } from '../../src/read-path/availability.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { testDatabase } from '../support/postgres.ts';

test('S8: a new plan where another store arbitrates: no held seat is lost, the store learns of every change', async (t) => {
  const database = await testDatabase();
  const db = createDb({ url: database.url, poolSize: 6, clock: systemClock, log: silentLogger });
  t.after(() => db.close());
  await createDemoEvent({
    db,
    clock: systemClock,
    seats: 600,
    onProgress: () => {},
    settings: { partitions: [{ sections: ['102'] }] },
  });
  const events = createEvents({ db, clock: systemClock });
  const eventNow = async () => {
    const [event] = await events.list();
    assert.ok(event);
    return event;
  };
  const event = await eventNow();
  const { eventNo } = event;
  await database.query(`UPDATE event_partitions SET mode = 'redis' WHERE event_no = $1`, [eventNo]);
  const epochs = (await events.modes(eventNo)).map(({ epoch }) => epoch);
  const arbiter = createInProcessArbiter({
    clock: systemClock,
    modeOf: (_event, partition) => ({ mode: 'postgres', epoch: epochs[partition]! }),
  });
  const venue = await events.venue(event);
  for (const [partition, epoch] of epochs.entries()) {
    const seats = venue.seats.filter(({ seatNo }) => venue.partitionOf(seatNo) === partition);
    await arbiter.load({
      event: eventNo,
      partition,
      epoch,
      seats: seats.map(({ seatNo: seat }) => ({ seat, version: 1, state: 'available' })),
    });
  }
  const codes = async () =>
    mergeSnapshots(await Promise.all([0, 1].map((partition) => arbiter.snapshot(eventNo, partition)))).codes;
  const recorded = async () =>
    (await database.query('SELECT state FROM seats WHERE event_no = $1 ORDER BY seat_no', [eventNo])).map(
      ({ state }) => seatStates.indexOf(state),
    );

  // The last row of 102 goes; a row of one seat is added there.
  const plan = await loadPlan(db, event.planId);
  assert.ok(plan);
  const gone = new Set(
    plan.sections
      .find(({ id }) => id === '102')!
      .rows.pop()!
      .seats.map((seat) => seat.seatGuid),
  );
  const removed = venue.seats.filter(({ seatGuid }) => gone.has(seatGuid)).map(({ seatNo }) => seatNo);
  const rows = plan.sections.find(({ id }) => id === '102')!.rows;
  const model = rows[0]!.seats[0]!;
  rows.push({ label: 'new', seats: [{ ...model, seatGuid: 'a new seat', label: '1', y: model.y - 40 }] });
  const report = { name: plan.name, warnings: [] } as unknown as Parameters<typeof savePlan>[2];
  const { plan: next } = await savePlan(db, plan, report);
  const deps: ReplanDeps = {
    db,
    arbiter: overStore(arbiter, (_event, partition) => epochs[partition]!),
    events,
    clock: systemClock,
    random: systemRandom,
    prepareReplan: (...asked) => prepareReplan(db, ...asked),
  };
  const replan = async () =>
    replanEvent(deps, { event: await eventNow(), plan: next.plan, actor: 'o', dryRun: false });

  const buyer = { hold: randomUUID(), visitor: 'buyer' };
  const where = { event: eventNo, partition: 1, epoch: epochs[1]! };
  const held = await arbiter.hold({
    ...buyer,
    ...where,
    holder: 'buyer',
    request: 'r',
    claim: { kind: 'seats', seats: [removed[0]!] },
    ttlMs: 60_000,
    seatsMax: 6,
    replaces: null,
    notAfter: null,
  });
  assert.equal(held.kind, 'granted');
  const before = await codes();
  const refused = await replan();
  assert.ok(refused.kind === 'would_lose', refused.kind);
  assert.deepEqual(
    refused.seats.map(({ seatNo, state }) => [seatNo, state]),
    [[removed[0], 'held']],
  );
  assert.deepEqual(await codes(), before, 'what was blocked for it is free again');
  assert.deepEqual(new Set(await recorded()), new Set([0]));

  await database.query(`UPDATE event_partitions SET mode = 'moving' WHERE event_no = $1 AND partition = 0`, [
    eventNo,
  ]);
  assert.equal((await arbiter.release({ ...where, ...buyer })).kind, 'released');
  assert.equal((await replan()).kind, 'busy');
  assert.deepEqual(new Set(await codes()), new Set([0]));
  await database.query(`UPDATE event_partitions SET mode = 'redis' WHERE event_no = $1`, [eventNo]);

  const done = await replan();
  assert.deepEqual(done, {
    kind: 'replanned',
    added: 1,
    kept: 600 - removed.length,
    removed: removed.length,
    untold: [],
  });
  const after = await codes();
  assert.equal(after.length, 601);
  assert.equal(after[600], 0, 'the new seat can be had');
  assert.equal((await events.venue(await eventNow())).partitionOf(600), 1);
  for (const seat of removed) assert.equal(seatStates[after[seat]!], 'blocked');
  assert.deepEqual([...after], await recorded());
});
