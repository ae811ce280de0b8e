import assert from 'node:assert/strict';
import type { Clause } from './arbiter-suite.ts';
import { commandsOf, grantedHold, idOf, minute, seatsOf } from './arbiter-world.ts';

export function orders(clause: Clause): void {
  clause(
    'S5: extend binds the hold to one order; another order, and a plain release, are refused',
    async (world) => {
      const { load, hold, extend, release, codes } = commandsOf(world);
      await load(3);
      await hold(1, 'visitor-a', seatsOf(0));
      await extend(1, 'visitor-a', 100);
      const bound = { kind: 'bound', order: idOf(100) };
      assert.deepEqual(await extend(1, 'visitor-a', 101), bound);
      assert.deepEqual(await release(1, 'visitor-a'), bound);
      assert.deepEqual(await release(1, 'visitor-a', 101), bound);
      assert.deepEqual(await codes(), [1, 0, 0]);
      assert.deepEqual(await release(1, 'visitor-a', 100), { kind: 'released', seats: [0] });
      assert.deepEqual(await codes(), [0, 0, 0]);
    },
  );

  clause(
    'P1: a hold that has become an order answers extend for that order until it has ended',
    async (world) => {
      const { load, hold, extend, project, find, release } = commandsOf(world);
      await load(3);
      await hold(1, 'visitor-a', seatsOf(0));
      const extended = await extend(1, 'visitor-a', 100);
      assert.ok(extended.kind === 'extended');
      await project([[0, 2, 'reserved']], { ordered: [1] });
      assert.deepEqual(await extend(1, 'visitor-a', 100), extended);
      assert.deepEqual(await extend(1, 'visitor-a', 101), { kind: 'bound', order: idOf(100) });
      assert.deepEqual(await release(1, 'visitor-a'), { kind: 'bound', order: idOf(100) });
      assert.deepEqual(await hold(1, 'visitor-a', seatsOf(0)), {
        kind: 'granted',
        hold: extended.hold,
        repeated: true,
      });
      assert.deepEqual(await find(1), extended.hold);
      await project([[0, 3, 'sold']], { ended: [1] });
      assert.deepEqual(await extend(1, 'visitor-a', 100), { kind: 'hold_gone' });
      assert.equal(await find(1), null);
    },
  );

  clause('an ordered hold does not prevent the visitor’s next one', async (world) => {
    const { load, hold, extend, project } = commandsOf(world);
    await load(3);
    await hold(1, 'visitor-a', seatsOf(0));
    await extend(1, 'visitor-a', 100);
    await project([[0, 2, 'reserved']], { ordered: [1] });
    assert.equal((await hold(2, 'visitor-a', seatsOf(1))).kind, 'granted');
  });

  clause(
    'P1: an id that led to an order, sold or closed, holds nothing ever again; one that did not is free after a while',
    async (world) => {
      const { load, hold, extend, release, project, recover } = commandsOf(world);
      await load(4);
      const sold = await hold(1, 'visitor-a', seatsOf(0));
      await extend(1, 'visitor-a', 100);
      await project([[0, 2, 'reserved']], { ordered: [1] });
      await project([[0, 3, 'sold']], { ended: [1] });
      await hold(2, 'visitor-b', seatsOf(1));
      await extend(2, 'visitor-b', 101);
      assert.equal((await release(2, 'visitor-b', 101)).kind, 'released');
      await hold(3, 'visitor-c', seatsOf(2));
      await release(3, 'visitor-c');
      await world.advance(24 * 60 * minute);
      for (let i = 0; i < 3; i++) await world.arbiter.sweep(world.event, 0, 10);
      const another = seatsOf(3);
      for (const [id, visitor] of [
        [1, 'visitor-a'],
        [2, 'visitor-b'],
      ] as const) {
        assert.deepEqual(await hold(id, visitor, seatsOf(id - 1)), { kind: 'hold_gone' });
        assert.deepEqual(await hold(id, visitor, another), { kind: 'mismatch' });
      }
      assert.ok(sold.kind === 'granted');
      assert.deepEqual(await recover(sold.hold), { kind: 'hold_gone' });
      assert.equal((await hold(3, 'visitor-c', another)).kind, 'granted');
    },
  );

  clause(
    'S5: the receipt of a hold that has become an order is refused: the order says the rest',
    async (world) => {
      const { load, hold, extend, project, recover, find } = commandsOf(world);
      await load(3);
      const held = await hold(1, 'visitor-a', seatsOf(0));
      assert.ok(held.kind === 'granted');
      assert.equal((await recover(held.hold)).kind, 'recovered');
      await extend(1, 'visitor-a', 100);
      await project([[0, 2, 'reserved']], { ordered: [1] });
      assert.equal((await find(1))?.order, idOf(100));
      assert.deepEqual(await recover(held.hold), { kind: 'hold_gone' });
    },
  );
}

export function projecting(clause: Clause): void {
  clause('project: higher versions count, equal and lower ones are ignored, in any order', async (world) => {
    const { load, project, codes, hold } = commandsOf(world);
    await load(4);
    await project([
      [0, 3, 'sold'],
      [1, 2, 'blocked'],
      [2, 1, 'sold'],
    ]);
    assert.deepEqual(await codes(), [3, 4, 0, 0]);
    await project([
      [0, 2, 'reserved'],
      [1, 2, 'available'],
      [3, 2, 'reserved'],
    ]);
    assert.deepEqual(await codes(), [3, 4, 0, 2]);
    await project([
      [1, 3, 'available'],
      [3, 3, 'available'],
    ]);
    assert.deepEqual(await codes(), [3, 0, 0, 0]);
    assert.deepEqual(await hold(1, 'visitor-a', seatsOf(0, 1)), { kind: 'taken', seats: [0] });
    assert.equal((await hold(1, 'visitor-a', seatsOf(1, 3))).kind, 'granted');
  });

  clause('project: available takes back a decision, never a hold', async (world) => {
    const { load, hold, project, find, codes } = commandsOf(world);
    await load(2);
    const mine = grantedHold(await hold(1, 'visitor-a', seatsOf(0)));
    await project([[0, 5, 'available']]);
    assert.deepEqual(await find(1), mine);
    assert.deepEqual(await codes(), [1, 0]);
  });

  clause('S5: a decision overrides a hold, which then can no longer become an order', async (world) => {
    const { load, hold, project, find, extend, release, codes } = commandsOf(world);
    await load(4);
    await hold(1, 'visitor-a', seatsOf(0, 1));
    await project([[0, 2, 'blocked']]);
    assert.deepEqual(await codes(), [4, 1, 0, 0]);
    assert.equal(await find(1), null);
    assert.deepEqual(await extend(1, 'visitor-a', 100), { kind: 'hold_gone' });
    assert.deepEqual(await hold(1, 'visitor-a', seatsOf(0, 1)), { kind: 'hold_gone' });
    // It does not prevent a new one, and the rest of it can be released.
    assert.equal((await hold(2, 'visitor-a', seatsOf(2))).kind, 'granted');
    assert.deepEqual(await release(1, 'visitor-a'), { kind: 'released', seats: [1] });
    assert.deepEqual(await codes(), [4, 0, 1, 0]);
    await project([[0, 3, 'available']]);
    assert.deepEqual(await codes(), [0, 0, 1, 0]);
  });

  clause('project: ended wins over an ordered that arrives after it', async (world) => {
    const { load, hold, project } = commandsOf(world);
    await load(6);
    await hold(1, 'visitor-a', seatsOf(0, 1), { seatsMax: 2 });
    const again = { ordered: [1] };
    await project([], { ended: [1] });
    await project([], again);
    assert.equal((await hold(2, 'visitor-a', seatsOf(2, 3), { seatsMax: 2 })).kind, 'granted');
  });

  clause('project: an ordered hold keeps its seats until the decisions about them arrive', async (world) => {
    const { load, hold, project, codes } = commandsOf(world);
    await load(2);
    await hold(1, 'visitor-a', seatsOf(0));
    await project([], { ordered: [1] });
    assert.deepEqual(await hold(2, 'visitor-b', seatsOf(0)), { kind: 'taken', seats: [0] });
    await project([[0, 2, 'reserved']]);
    assert.deepEqual(await codes(), [2, 0]);
  });

  clause('project is idempotent and knows nothing of unknown seats and holds', async (world) => {
    const { load, hold, project, codes } = commandsOf(world);
    await load(3);
    await hold(1, 'visitor-a', seatsOf(0));
    for (const _ of [1, 2]) await project([[0, 2, 'reserved']], { ordered: [1, 7], ended: [8] });
    assert.deepEqual(await codes(), [2, 0, 0]);
    await project([[99, 2, 'sold']]);
    assert.deepEqual(await codes(), [2, 0, 0]);
  });
}

export function doors(clause: Clause): void {
  clause(
    'another epoch is stale and changes nothing; holds of an earlier epoch do not count',
    async (world) => {
      const { load, hold, extend, release, recover, find, codes } = commandsOf(world);
      await load(4);
      const before = world.epoch;
      const old = grantedHold(await hold(1, 'visitor-a', seatsOf(0), { seatsMax: 1 }));
      world.epoch = await world.setMode('postgres');
      assert.notEqual(world.epoch, before);
      const stale = { kind: 'stale', epoch: world.epoch };
      if (!world.hidesEpoch)
        assert.deepEqual(await hold(2, 'visitor-b', seatsOf(1), { epoch: before }), stale);
      const at = { event: world.event, partition: 0, epoch: before };
      const own = { ...at, hold: idOf(1), visitor: 'visitor-a' };
      if (!world.hidesEpoch) {
        assert.deepEqual(await world.arbiter.extend({ ...own, order: idOf(100) }), stale);
        assert.deepEqual(await world.arbiter.release(own), stale);
        assert.deepEqual(await world.arbiter.recover({ ...at, receipt: old, seatsMax: 6 }), stale);
        assert.deepEqual(await world.arbiter.load({ ...at, seats: [] }), stale);
      }

      assert.equal(await find(1), null);
      assert.deepEqual(await codes(), [0, 0, 0, 0]);
      assert.deepEqual(await extend(1, 'visitor-a', 100), { kind: 'hold_gone' });
      assert.deepEqual(await release(1, 'visitor-a'), { kind: 'hold_gone' });
      assert.deepEqual(await recover(old), { kind: 'hold_gone' });
      assert.equal((await hold(3, 'visitor-a', seatsOf(1), { seatsMax: 1 })).kind, 'granted');
      assert.equal((await hold(4, 'visitor-b', seatsOf(0))).kind, 'granted');
    },
  );

  clause(
    'while the partition moves, hold, extend, release and recover ask to retry; project goes on',
    async (world) => {
      const { load, hold, extend, release, recover, project, codes } = commandsOf(world);
      await load(2);
      const mine = grantedHold(await hold(1, 'visitor-a', seatsOf(0)));
      world.epoch = await world.setMode('moving');
      for (const outcome of [
        await hold(2, 'visitor-b', seatsOf(1)),
        await extend(1, 'visitor-a', 100),
        await release(1, 'visitor-a'),
        await recover(mine),
      ]) {
        assert.equal(outcome.kind, 'retry');
        assert.ok(outcome.kind === 'retry' && outcome.afterMs > 0 && outcome.afterMs <= 1_000);
      }
      await project([[1, 2, 'sold']]);
      assert.deepEqual((await codes())[1], 3);
    },
  );

  for (const phase of [
    'draft',
    'scheduled',
    'pre_queue',
    'paused',
    'sold_out',
    'closed',
    'cancelled',
  ] as const) {
    clause(`no new hold while ${phase}; a live one can be extended and released`, async (world) => {
      const { load, hold, extend, release, codes } = commandsOf(world);
      await load(3);
      await hold(1, 'visitor-a', seatsOf(0));
      await world.setPhase(phase);
      assert.deepEqual(await hold(2, 'visitor-b', seatsOf(1)), { kind: 'not_open', phase });
      assert.equal((await extend(1, 'visitor-a', 100)).kind, 'extended');
      assert.deepEqual(await release(1, 'visitor-a', 100), { kind: 'released', seats: [0] });
      assert.deepEqual(await codes(), [0, 0, 0]);
    });
  }
}

export function pictures(clause: Clause): void {
  clause('load is idempotent and keeps the higher version', async (world) => {
    const { load, project, codes, hold, find } = commandsOf(world);
    assert.deepEqual(await load(3), { kind: 'loaded', seats: 3 });
    await project([[1, 5, 'sold']]);
    const mine = grantedHold(await hold(1, 'visitor-a', seatsOf(0)));
    await load(4);
    assert.deepEqual(await codes(), [1, 3, 0, 0]);
    assert.deepEqual(await find(1), mine);
    const seats = [{ seat: 2, version: 9, state: 'blocked' as const }];
    await world.arbiter.load({ event: world.event, partition: 0, epoch: world.epoch, seats });
    assert.deepEqual(await codes(), [1, 3, 4, 0]);
  });

  clause('S8: a snapshot shows every seat in exactly one state', async (world) => {
    const { load, hold, project } = commandsOf(world);
    await load(7);
    await hold(1, 'visitor-a', seatsOf(1, 5));
    await project([
      [2, 2, 'reserved'],
      [3, 2, 'sold'],
      [4, 2, 'blocked'],
      [5, 2, 'sold'],
    ]);
    const snapshot = await world.arbiter.snapshot(world.event, 0);
    assert.deepEqual([...snapshot.codes], [0, 1, 2, 3, 4, 3, 0]);
    assert.equal(snapshot.epoch, world.epoch);
    const later = await world.arbiter.snapshot(world.event, 0);
    assert.ok(later.at >= snapshot.at);
  });

  clause('an empty partition has an empty snapshot', async (world) => {
    assert.deepEqual(await commandsOf(world).codes(), []);
  });
}
