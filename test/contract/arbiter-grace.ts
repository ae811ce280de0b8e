import assert from 'node:assert/strict';
import type { Hold } from '../../src/core/hold.ts';
import type { Clause } from './arbiter-suite.ts';
import { type ArbiterWorld, commandsOf, grantedHold, idOf, minute, seatsOf } from './arbiter-world.ts';

const graceMs = 10_000;
const recovering = 'recovering';
const gone = { kind: 'hold_gone' };

/** Falling back to this store from a lost one: for a while only receipts are honoured (D1). */
export function grace(clause: Clause): void {
  const lose = async (world: ArbiterWorld): Promise<void> => {
    world.epoch = await world.lose!(graceMs);
  };
  const endGrace = (world: ArbiterWorld): Promise<void> => world.advance(graceMs);

  clause('D1: a receipt takes its seats again at once; "recovered" is said after grace', async (world) => {
    const { load, hold, find, recover, extend, codes } = commandsOf(world);
    await load(4);
    const mine = grantedHold(await hold(1, 'visitor-a', seatsOf(1, 2)));
    await lose(world);
    assert.deepEqual(await codes(), [0, 0, 0, 0]);
    const first = await recover(mine);
    assert.ok(first.kind === recovering);
    const { at } = await world.arbiter.snapshot(world.event, 0);
    assert.ok(first.until > at && first.until <= at + graceMs, `until ${first.until}, now ${at}`);
    assert.deepEqual(await recover(mine), first);
    assert.deepEqual(await codes(), [0, 1, 1, 0]);
    await endGrace(world);
    const outcome = await recover(mine);
    assert.ok(outcome.kind === 'recovered');
    const { hold: id, seats, visitor, order, epoch, grant, deadline, grantedAt } = outcome.hold;
    assert.deepEqual(
      { id, seats, visitor, order, epoch },
      { id: mine.hold, seats: [1, 2], visitor: 'visitor-a', order: null, epoch: world.epoch },
    );
    // Its own life goes on: neither longer nor shorter than before (S6).
    assert.equal(deadline - grantedAt, mine.deadline - mine.grantedAt);
    assert.deepEqual(await find(1), outcome.hold);
    assert.deepEqual(await hold(2, 'visitor-b', seatsOf(2)), { kind: 'taken', seats: [2] });
    const next = grantedHold(await hold(3, 'visitor-b', seatsOf(0)));
    assert.ok(next.grant > grant, 'a later grant has the higher number');
    // The request is not in the receipt: its repeat is still this hold.
    assert.deepEqual(await hold(1, 'visitor-a', seatsOf(1, 2)), {
      kind: 'granted',
      hold: outcome.hold,
      repeated: true,
    });
    assert.equal((await extend(1, 'visitor-a', 100)).kind, 'extended');
  });

  clause('D1: while grace lasts, hold and extend ask to come back at its end', async (world) => {
    const { load, hold, recover, extend } = commandsOf(world);
    await load(4);
    const mine = grantedHold(await hold(1, 'visitor-a', seatsOf(1)));
    await lose(world);
    await recover(mine);
    await world.advance(graceMs - 4_000);
    for (const outcome of [await hold(2, 'visitor-b', seatsOf(0)), await extend(1, 'visitor-a', 100)]) {
      assert.ok(outcome.kind === 'retry');
      assert.ok(outcome.afterMs > 1_000 && outcome.afterMs <= 5_000, `after ${outcome.afterMs} ms`);
    }
    await endGrace(world);
    assert.equal((await hold(2, 'visitor-b', seatsOf(0))).kind, 'granted');
  });

  clause('D1: after grace a forgotten hold is gone', async (world) => {
    const { load, hold, recover } = commandsOf(world);
    await load(2);
    const mine = grantedHold(await hold(1, 'visitor-a', seatsOf(1)));
    await lose(world);
    await endGrace(world);
    assert.deepEqual(await recover(mine), gone);
    assert.equal((await hold(2, 'visitor-b', seatsOf(1))).kind, 'granted');
  });

  clause(
    'D1: a receipt is refused when its time is over, or when it is not of an earlier epoch',
    async (world) => {
      const { load, hold, recover, codes } = commandsOf(world);
      await load(3);
      const mine = grantedHold(await hold(1, 'visitor-a', seatsOf(0), { ttlMs: minute }));
      const { at } = await world.arbiter.snapshot(world.event, 0);
      await lose(world);
      assert.deepEqual(await recover({ ...mine, deadline: at - 1 }), gone);
      assert.deepEqual(await recover({ ...mine, epoch: world.epoch }), gone);
      assert.deepEqual(await codes(), [0, 0, 0]);
      assert.equal((await recover(mine)).kind, recovering);
    },
  );

  clause(
    'S5: a hold given back in grace cannot be recovered, whether it was known there or not',
    async (world) => {
      const { load, hold, recover, release, codes } = commandsOf(world);
      await load(3);
      const known = grantedHold(await hold(1, 'visitor-a', seatsOf(0)));
      const unknown = grantedHold(await hold(2, 'visitor-b', seatsOf(1)));
      await lose(world);
      await recover(known);
      assert.deepEqual(await release(1, 'visitor-a'), { kind: 'released', seats: [0] });
      assert.deepEqual(await release(2, 'visitor-b'), gone);
      assert.deepEqual([await recover(known), await recover(unknown)], [gone, gone]);
      assert.deepEqual(await codes(), [0, 0, 0]);
    },
  );

  clause(
    'D1: the receipt of another visitor is refused, also of a hold that is known again',
    async (world) => {
      const { load, hold, recover } = commandsOf(world);
      await load(3);
      const mine = grantedHold(await hold(1, 'visitor-a', seatsOf(0)));
      await lose(world);
      await recover(mine);
      assert.deepEqual(await recover({ ...mine, visitor: 'visitor-b', holder: 'visitor-b' }), gone);
      await endGrace(world);
      assert.deepEqual(await recover({ ...mine, visitor: 'visitor-b', holder: 'visitor-b' }), gone);
      assert.equal((await recover(mine)).kind, 'recovered');
    },
  );

  clause('D1: a hold that became an order is not recovered, and its seats are the order’s', async (world) => {
    const { load, hold, extend, project, recover, codes } = commandsOf(world);
    await load(4);
    const mine = grantedHold(await hold(1, 'visitor-a', seatsOf(0, 1)));
    await extend(1, 'visitor-a', 100);
    await project(
      [
        [0, 2, 'reserved'],
        [1, 2, 'reserved'],
      ],
      { ordered: [1] },
    );
    const older: Hold = { ...mine, hold: idOf(9), visitor: 'visitor-c', holder: 'visitor-c', seats: [1, 2] };
    await lose(world);
    assert.deepEqual(await recover(mine), gone);
    assert.deepEqual(await recover({ ...older, grant: mine.grant + 1 }), { kind: 'taken', seats: [1] });
    assert.deepEqual(await codes(), [2, 2, 0, 0]);
    // S7: it still counts.
    const more: Hold = { ...mine, hold: idOf(8), seats: [2, 3], grant: mine.grant + 2 };
    assert.deepEqual(await recover(more, 3), gone);
    assert.equal((await recover(more, 4)).kind, recovering);
  });

  clause(
    'D1: the latest grant wins a seat with several receipts, and a receipt that loses one seat loses all',
    async (world) => {
      const { load, hold, release, recover, codes } = commandsOf(world);
      await load(6);
      const early = grantedHold(await hold(1, 'visitor-a', seatsOf(0, 1, 2)));
      await release(1, 'visitor-a');
      const late = grantedHold(await hold(2, 'visitor-b', seatsOf(2, 3)));
      await lose(world);
      assert.equal((await recover(early)).kind, recovering);
      assert.deepEqual(await codes(), [1, 1, 1, 0, 0, 0]);
      assert.equal((await recover(late)).kind, recovering);
      assert.deepEqual(await codes(), [0, 0, 1, 1, 0, 0]);
      assert.deepEqual(await recover(early), gone);
      await endGrace(world);
      assert.deepEqual(await recover(early), gone);
      assert.equal((await recover(late)).kind, 'recovered');
    },
  );

  clause(
    'D1: a receipt of an earlier grant finds its seats taken and changes nothing (S2)',
    async (world) => {
      const { load, hold, release, recover, codes } = commandsOf(world);
      await load(4);
      const early = grantedHold(await hold(1, 'visitor-a', seatsOf(0, 1, 2)));
      await release(1, 'visitor-a');
      const late = grantedHold(await hold(2, 'visitor-b', seatsOf(2, 3)));
      await lose(world);
      await recover(late);
      assert.deepEqual(await recover(early), { kind: 'taken', seats: [2] });
      assert.deepEqual(await codes(), [0, 0, 1, 1]);
      await endGrace(world);
      assert.equal((await recover(late)).kind, 'recovered');
      assert.deepEqual(await recover(early), gone);
    },
  );

  clause(
    'D1: an epoch outranks every grant number of an earlier one, also in a second loss',
    async (world) => {
      const { load, hold, release, recover } = commandsOf(world);
      await load(4);
      const collected = grantedHold(await hold(1, 'visitor-a', seatsOf(0)));
      await lose(world);
      await recover(collected);
      await endGrace(world);
      const again = await recover(collected);
      assert.ok(again.kind === 'recovered');
      await release(1, 'visitor-a');
      const honest = grantedHold(await hold(2, 'visitor-b', seatsOf(0)));
      await lose(world);
      // Both receipts of the visitor, and one whose number a store of an earlier epoch had given.
      for (const receipt of [collected, again.hold, { ...collected, grant: 1_000_000 }])
        await recover(receipt);
      assert.equal((await recover(honest)).kind, recovering);
      assert.deepEqual(await recover(again.hold), gone);
      await endGrace(world);
      assert.equal((await recover(honest)).kind, 'recovered');
    },
  );

  clause('D1: a visitor keeps only the hold of their latest receipt', async (world) => {
    const { load, hold, release, recover, codes } = commandsOf(world);
    await load(6);
    const receipts: Hold[] = [];
    for (const n of [1, 2, 3]) {
      receipts.push(grantedHold(await hold(n, 'visitor-a', seatsOf(n * 2 - 2, n * 2 - 1))));
      if (n < 3) await release(n, 'visitor-a');
    }
    await lose(world);
    assert.equal((await recover(receipts[1]!)).kind, recovering);
    assert.deepEqual(await recover(receipts[0]!), gone);
    assert.deepEqual(await codes(), [0, 0, 1, 1, 0, 0]);
    assert.equal((await recover(receipts[2]!)).kind, recovering);
    assert.deepEqual(await codes(), [0, 0, 0, 0, 1, 1]);
    assert.deepEqual(await recover(receipts[1]!), gone);
  });

  clause(
    'S7: the holder’s quota is counted, and their earlier grants give way to later ones',
    async (world) => {
      const { load, hold, recover, codes } = commandsOf(world);
      await load(8);
      const account = { holder: 'account', seatsMax: 8 };
      const receipts: Hold[] = [];
      for (const [n, visitor] of ['visitor-a', 'visitor-b', 'cid', 'visitor-d'].entries()) {
        receipts.push(grantedHold(await hold(n, visitor, seatsOf(n * 2, n * 2 + 1), account)));
      }
      await lose(world);
      for (const n of [1, 0, 3]) await recover(receipts[n]!, 4);
      assert.deepEqual(await codes(), [0, 0, 1, 1, 0, 0, 1, 1]);
      assert.deepEqual(await recover(receipts[0]!, 4), gone);
      assert.equal((await recover(receipts[2]!, 4)).kind, recovering);
      assert.deepEqual(await codes(), [0, 0, 0, 0, 1, 1, 1, 1]);
      const over = { ...receipts[3]!, hold: idOf(20), visitor: 'x', grant: receipts[3]!.grant + 1 };
      assert.deepEqual(await recover(over, 1), gone);
    },
  );

  clause(
    'D1: a decision during grace takes a recovered seat away, and its owner learns it',
    async (world) => {
      const { load, hold, project, recover, codes } = commandsOf(world);
      await load(4);
      const mine = grantedHold(await hold(1, 'visitor-a', seatsOf(0, 1)));
      await lose(world);
      await recover(mine);
      await project([[1, 2, 'sold']]);
      assert.deepEqual(await recover(mine), { kind: 'taken', seats: [1] });
      await endGrace(world);
      assert.deepEqual(await recover(mine), { kind: 'taken', seats: [1] });
      assert.deepEqual(await codes(), [1, 3, 0, 0]);
    },
  );

  clause('D1: a receipt from after the extension brings its deadline and its order along', async (world) => {
    const { load, hold, extend, recover } = commandsOf(world);
    await load(2);
    const before = grantedHold(await hold(1, 'visitor-a', seatsOf(0), { ttlMs: minute }));
    const extended = await extend(1, 'visitor-a', 100);
    assert.ok(extended.kind === 'extended');
    const after = extended.hold;
    await lose(world);
    for (const receipt of [before, after, before]) assert.equal((await recover(receipt)).kind, recovering);
    await endGrace(world);
    const outcome = await recover(before);
    assert.ok(outcome.kind === 'recovered');
    assert.equal(outcome.hold.order, idOf(100));
    assert.equal(outcome.hold.deadline - outcome.hold.grantedAt, after.deadline - after.grantedAt);
    assert.deepEqual(await extend(1, 'visitor-a', 101), { kind: 'bound', order: idOf(100) });
    assert.deepEqual(await extend(1, 'visitor-a', 100), { kind: 'extended', hold: outcome.hold });
  });
}
