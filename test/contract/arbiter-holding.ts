import assert from 'node:assert/strict';
import type { Clause } from './arbiter-suite.ts';
import { commandsOf, grantedHold, idOf, minute, seatsOf } from './arbiter-world.ts';

export function claims(clause: Clause): void {
  clause(
    'S2: named seats are granted together, in ascending order, with the whole hold answered',
    async (world) => {
      const { load, hold, find, codes } = commandsOf(world);
      await load(10);
      const outcome = await hold(1, 'visitor-a', seatsOf(7, 2, 5));
      const granted = grantedHold(outcome);
      assert.deepEqual(outcome, {
        kind: 'granted',
        repeated: false,
        hold: {
          hold: idOf(1),
          event: world.event,
          partition: 0,
          visitor: 'visitor-a',
          holder: 'visitor-a',
          seats: [2, 5, 7],
          grantedAt: granted.grantedAt,
          deadline: granted.grantedAt + 10 * minute,
          epoch: world.epoch,
          grant: granted.grant,
          order: null,
        },
      });
      assert.deepEqual(await find(1), granted);
      assert.deepEqual(await codes(), [0, 0, 1, 0, 0, 1, 0, 1, 0, 0]);
    },
  );

  clause('S2: a refused set changes nothing, and says which of its seats are not free', async (world) => {
    const { load, hold, find, codes } = commandsOf(world);
    await load(6);
    await hold(1, 'visitor-a', seatsOf(2, 4));
    assert.deepEqual(await hold(2, 'visitor-b', seatsOf(4, 3, 2)), { kind: 'taken', seats: [2, 4] });
    assert.deepEqual(await codes(), [0, 0, 1, 0, 1, 0]);
    assert.equal(await find(2), null);
    // Nothing was left behind: the same id may claim what is free.
    assert.equal((await hold(2, 'visitor-b', seatsOf(3))).kind, 'granted');
  });

  clause('a seat that is not in the partition is not free', async (world) => {
    const { load, hold } = commandsOf(world);
    await load(3);
    assert.deepEqual(await hold(1, 'visitor-a', seatsOf(2, 3)), { kind: 'taken', seats: [3] });
  });

  clause('S3: a seat that is held is taken for everybody else', async (world) => {
    const { load, hold } = commandsOf(world);
    await load(3);
    await hold(1, 'visitor-a', seatsOf(1));
    assert.deepEqual(await hold(2, 'visitor-b', seatsOf(1)), { kind: 'taken', seats: [1] });
    const groups = { kind: 'groups' as const, groups: [[1]] };
    assert.deepEqual(await hold(3, 'cid', groups), { kind: 'taken', seats: [] });
  });

  clause('grant numbers rise from grant to grant', async (world) => {
    const { load, hold } = commandsOf(world);
    await load(3);
    const grants: number[] = [];
    for (const n of [0, 1, 2]) grants.push(grantedHold(await hold(n, `v${n}`, seatsOf(n))).grant);
    assert.ok(grants[0]! < grants[1]! && grants[1]! < grants[2]!, String(grants));
  });

  clause('of candidate groups the first that is wholly free is taken', async (world) => {
    const { load, hold, codes } = commandsOf(world);
    await load(8);
    await hold(1, 'visitor-a', seatsOf(1));
    const groups = [
      [0, 1],
      [5, 4],
      [2, 3],
    ];
    const outcome = await hold(2, 'visitor-b', { kind: 'groups', groups });
    assert.deepEqual(grantedHold(outcome).seats, [4, 5]);
    assert.deepEqual(await codes(), [0, 1, 0, 0, 1, 1, 0, 0]);
    const none = await hold(3, 'cid', { kind: 'groups', groups: groups.slice(0, 2) });
    assert.deepEqual(none, { kind: 'taken', seats: [] });
  });

  clause('of units any that are free are taken, from the start given and around', async (world) => {
    const { load, hold } = commandsOf(world);
    await load(10);
    await hold(1, 'visitor-a', seatsOf(7));
    // Units 4..9 from offset 2: 6, (7 is held,) 8, 9, then 4.
    const units = { kind: 'units' as const, first: 4, count: 6, start: 2 };
    assert.deepEqual(grantedHold(await hold(2, 'visitor-b', { ...units, quantity: 4 })).seats, [4, 6, 8, 9]);
    assert.deepEqual(await hold(3, 'cid', { ...units, quantity: 2 }), { kind: 'taken', seats: [] });
    assert.deepEqual(grantedHold(await hold(4, 'visitor-d', { ...units, quantity: 1 })).seats, [5]);
    assert.deepEqual(await hold(5, 'visitor-f', { ...units, quantity: 7 }), { kind: 'taken', seats: [] });
  });

  clause('the same id and request again return the same hold, whatever has changed since', async (world) => {
    const { load, hold } = commandsOf(world);
    await load(4);
    const first = grantedHold(await hold(1, 'visitor-a', seatsOf(1, 2)));
    await world.setPhase('paused');
    const again = await hold(1, 'visitor-a', seatsOf(1, 2), { notAfter: 0 });
    assert.deepEqual(again, { kind: 'granted', hold: first, repeated: true });
  });

  clause('the same id with another request, or from another visitor, is a mismatch', async (world) => {
    const { load, hold, codes } = commandsOf(world);
    await load(4);
    await hold(1, 'visitor-a', seatsOf(1));
    assert.deepEqual(await hold(1, 'visitor-a', seatsOf(2)), { kind: 'mismatch' });
    assert.deepEqual(await hold(1, 'visitor-b', seatsOf(1)), { kind: 'mismatch' });
    assert.deepEqual(await hold(1, 'visitor-b', seatsOf(3)), { kind: 'mismatch' });
    assert.deepEqual(await codes(), [0, 1, 0, 0]);
  });

  clause(
    'one live hold per visitor: the same seats repeat it, other seats are refused with it',
    async (world) => {
      const { load, hold, codes } = commandsOf(world);
      await load(6);
      const first = grantedHold(await hold(1, 'visitor-a', seatsOf(1, 2)));
      assert.deepEqual(await hold(2, 'visitor-a', seatsOf(2, 1)), {
        kind: 'granted',
        hold: first,
        repeated: true,
      });
      for (const claim of [seatsOf(3), seatsOf(1), seatsOf(1, 2, 3)]) {
        assert.deepEqual(await hold(3, 'visitor-a', claim), { kind: 'hold_exists', hold: first });
      }
      const groups = { kind: 'groups' as const, groups: [[1, 2]] };
      assert.deepEqual(await hold(3, 'visitor-a', groups), { kind: 'hold_exists', hold: first });
      // Under another account it is still the same browser.
      assert.equal((await hold(4, 'visitor-a', seatsOf(4), { holder: 'account' })).kind, 'hold_exists');
      assert.deepEqual(await codes(), [0, 1, 1, 0, 0, 0]);
    },
  );

  clause('a claim of nothing, of a seat twice, or of groups of unequal size is a bug', async (world) => {
    const { load, hold, codes } = commandsOf(world);
    await load(4);
    await assert.rejects(hold(1, 'visitor-a', seatsOf()), /assertion failed/);
    await assert.rejects(hold(1, 'visitor-a', seatsOf(1, 1)), /assertion failed/);
    await assert.rejects(hold(1, 'visitor-a', { kind: 'groups', groups: [[1], [2, 3]] }), /assertion failed/);
    await assert.rejects(hold(1, 'visitor-a', seatsOf(1), { ttlMs: 16 * minute }), /assertion failed/);
    assert.deepEqual(await codes(), [0, 0, 0, 0]);
  });
}

export function time(clause: Clause): void {
  clause('S4: an expired hold is free for the next claim although nothing swept it', async (world) => {
    const { load, hold, find, codes, release, extend, recover } = commandsOf(world);
    await load(8);
    const lapsed = grantedHold(await hold(1, 'visitor-a', seatsOf(1, 2)));
    await world.advance(10 * minute);
    assert.equal(await find(1), null);
    assert.deepEqual(await codes(), [0, 0, 0, 0, 0, 0, 0, 0]);
    assert.deepEqual(grantedHold(await hold(2, 'visitor-b', seatsOf(2, 3))).seats, [2, 3]);
    const groups = { kind: 'groups' as const, groups: [[1]] };
    assert.equal((await hold(3, 'cid', groups)).kind, 'granted');
    // S5: what lapsed can neither be given back nor become an order, also where its seats are free again.
    assert.deepEqual(await extend(1, 'visitor-a', 100), { kind: 'hold_gone' });
    assert.deepEqual(await release(1, 'visitor-a'), { kind: 'hold_gone' });
    assert.deepEqual(await recover(lapsed), { kind: 'hold_gone' });
    assert.deepEqual(await hold(1, 'visitor-a', seatsOf(1, 2)), { kind: 'hold_gone' });
    assert.deepEqual(await codes(), [0, 1, 1, 1, 0, 0, 0, 0]);
  });

  clause('S4: expired units are free for the next claim, and the visitor may hold again', async (world) => {
    const { load, hold } = commandsOf(world);
    await load(2);
    const units = { kind: 'units' as const, first: 0, count: 2, quantity: 2, start: 1 };
    await hold(1, 'visitor-a', units);
    await world.advance(9 * minute);
    assert.equal((await hold(2, 'visitor-b', units)).kind, 'taken');
    await world.advance(2 * minute);
    assert.equal((await hold(3, 'visitor-a', units)).kind, 'granted');
  });

  clause('S6: a hold lives as long as was asked for and extend sets its end once', async (world) => {
    const { load, hold, extend } = commandsOf(world);
    await load(4);
    const early = grantedHold(await hold(1, 'visitor-a', seatsOf(1)));
    // Ten minutes left are more than five: the deadline stays.
    assert.deepEqual(await extend(1, 'visitor-a', 100), {
      kind: 'extended',
      hold: { ...early, order: idOf(100) },
    });
    await hold(2, 'visitor-b', seatsOf(2));
    await world.advance(8 * minute);
    const late = await extend(2, 'visitor-b', 200);
    assert.ok(late.kind === 'extended');
    const life = late.hold.deadline - late.hold.grantedAt;
    assert.ok(life >= 13 * minute && life < 13.5 * minute, `a life of ${life} ms`);
    await world.advance(4 * minute);
    const again = await extend(2, 'visitor-b', 200);
    assert.ok(again.kind === 'extended' && again.hold.deadline - again.hold.grantedAt === life);
    assert.deepEqual(await hold(3, 'cid', seatsOf(2)), { kind: 'taken', seats: [2] });
    await world.advance(1.5 * minute);
    assert.equal((await hold(3, 'cid', seatsOf(2))).kind, 'granted');
  });

  clause('S6: extend never goes beyond fifteen minutes from the grant', async (world) => {
    const { load, hold, extend, find } = commandsOf(world);
    await load(2);
    await hold(1, 'visitor-a', seatsOf(1), { ttlMs: 15 * minute });
    await world.advance(14 * minute);
    const outcome = await extend(1, 'visitor-a', 100);
    assert.ok(outcome.kind === 'extended');
    assert.equal(outcome.hold.deadline - outcome.hold.grantedAt, 15 * minute);
    assert.deepEqual(await find(1), outcome.hold);
  });

  clause('a claim after its not-after is too late, before it is not', async (world) => {
    const { load, hold, codes } = commandsOf(world);
    await load(3);
    const now = (await world.arbiter.snapshot(world.event, 0)).at;
    assert.deepEqual(await hold(1, 'visitor-a', seatsOf(1), { notAfter: now - 1 }), { kind: 'too_late' });
    assert.deepEqual(await codes(), [0, 0, 0]);
    assert.equal((await hold(1, 'visitor-a', seatsOf(1), { notAfter: now + minute })).kind, 'granted');
  });

  clause('sweep counts what it tidies, keeps to its limit and frees nothing that lives', async (world) => {
    const { load, hold, sweep, codes, release } = commandsOf(world);
    await load(6);
    for (const n of [0, 1, 2]) await hold(n, `v${n}`, seatsOf(n));
    await release(9, 'ghost');
    await world.advance(5 * minute);
    await hold(3, 'v3', seatsOf(3));
    await world.advance(6 * minute);
    assert.equal(await sweep(2), 2);
    assert.equal(await sweep(2), 1);
    assert.equal(await sweep(2), 0);
    assert.deepEqual(await codes(), [0, 0, 0, 1, 0, 0]);
    assert.deepEqual(await hold(0, 'v0', seatsOf(0)), { kind: 'hold_gone' });
    // A longest life later the memories go too: of the tombstone, then of the three.
    await world.advance(5 * minute);
    assert.equal(await sweep(), 2, 'v3 lapsed, the tombstone is forgotten');
    await world.advance(10 * minute);
    assert.equal(await sweep(), 3);
    assert.equal((await hold(0, 'v0', seatsOf(0))).kind, 'granted');
  });

  clause('memories end a longest life after the lease, swept or not', async (world) => {
    const { load, hold, release, find } = commandsOf(world);
    await load(4);
    await release(1, 'visitor-a');
    await hold(2, 'visitor-b', seatsOf(2));
    await world.advance(14 * minute);
    assert.deepEqual(await hold(1, 'visitor-a', seatsOf(1)), { kind: 'hold_gone' });
    await world.advance(2 * minute);
    assert.equal((await hold(1, 'visitor-a', seatsOf(1))).kind, 'granted');
    await world.advance(8 * minute);
    assert.deepEqual(await hold(2, 'visitor-b', seatsOf(3)), { kind: 'mismatch' });
    await world.advance(2 * minute);
    assert.deepEqual(grantedHold(await hold(2, 'visitor-b', seatsOf(3))).seats, [3]);
    assert.deepEqual((await find(2))?.seats, [3]);
  });
}

export function owners(clause: Clause): void {
  clause('S5: only its own visitor can extend, recover or release a hold', async (world) => {
    const { load, hold, extend, release, recover, find, codes } = commandsOf(world);
    await load(3);
    const mine = grantedHold(await hold(1, 'visitor-a', seatsOf(0, 1)));
    assert.deepEqual(await extend(1, 'visitor-b', 100), { kind: 'hold_gone' });
    assert.deepEqual(await release(1, 'visitor-b'), { kind: 'hold_gone' });
    assert.deepEqual(await recover({ ...mine, visitor: 'visitor-b' }), { kind: 'hold_gone' });
    assert.deepEqual(await extend(2, 'visitor-a', 100), { kind: 'hold_gone' });
    assert.deepEqual(await find(1), mine);
    assert.deepEqual(await recover(mine), { kind: 'recovered', hold: mine });
    assert.deepEqual(await release(1, 'visitor-a'), { kind: 'released', seats: [0, 1] });
    assert.deepEqual(await codes(), [0, 0, 0]);
  });

  clause(
    'S5: a released hold is over: found, extended, released or claimed again it is gone',
    async (world) => {
      const { load, hold, extend, release, recover, find } = commandsOf(world);
      await load(3);
      const mine = grantedHold(await hold(1, 'visitor-a', seatsOf(0)));
      await release(1, 'visitor-a');
      assert.equal(await find(1), null);
      assert.deepEqual(await extend(1, 'visitor-a', 100), { kind: 'hold_gone' });
      assert.deepEqual(await release(1, 'visitor-a'), { kind: 'hold_gone' });
      assert.deepEqual(await recover(mine), { kind: 'hold_gone' });
      assert.deepEqual(await hold(1, 'visitor-a', seatsOf(0)), { kind: 'hold_gone' });
      assert.equal((await hold(2, 'visitor-b', seatsOf(0))).kind, 'granted');
    },
  );

  clause(
    'a release that overtakes its claim leaves a tombstone, so that no ghost is granted',
    async (world) => {
      const { load, hold, release, codes } = commandsOf(world);
      await load(3);
      assert.deepEqual(await release(1, 'visitor-a'), { kind: 'hold_gone' });
      assert.deepEqual(await hold(1, 'visitor-a', seatsOf(0)), { kind: 'hold_gone' });
      assert.deepEqual(await codes(), [0, 0, 0]);
      assert.deepEqual(await release(1, 'visitor-a'), { kind: 'hold_gone' });
      assert.equal((await hold(2, 'visitor-a', seatsOf(0))).kind, 'granted');
    },
  );
}

export function quotas(clause: Clause): void {
  clause('S7: seats held by all of a holder’s visitors count, and free ones do not', async (world) => {
    const { load, hold, release } = commandsOf(world);
    await load(10);
    const account = { holder: 'account', seatsMax: 4 };
    await hold(1, 'phone', seatsOf(0, 1), account);
    assert.deepEqual(await hold(2, 'laptop', seatsOf(2, 3, 4), account), { kind: 'quota', used: 2, max: 4 });
    assert.equal((await hold(2, 'laptop', seatsOf(2, 3), account)).kind, 'granted');
    assert.deepEqual(await hold(3, 'tablet', seatsOf(5), account), { kind: 'quota', used: 4, max: 4 });
    assert.equal((await hold(4, 'other', seatsOf(5))).kind, 'granted');
    await release(1, 'phone');
    assert.equal((await hold(5, 'tablet', seatsOf(0), account)).kind, 'granted');
  });

  clause('S7: a lapsed hold leaves the quota although nothing swept it', async (world) => {
    const { load, hold } = commandsOf(world);
    await load(10);
    await hold(1, 'visitor-a', seatsOf(0, 1), { seatsMax: 2 });
    await world.advance(11 * minute);
    assert.equal((await hold(2, 'visitor-a', seatsOf(2, 3), { seatsMax: 2 })).kind, 'granted');
  });

  clause('S7: seats of an unpaid order count until the order is sold or closed', async (world) => {
    const { load, hold, extend, project } = commandsOf(world);
    await load(10);
    await hold(1, 'visitor-a', seatsOf(0, 1), { seatsMax: 3 });
    await extend(1, 'visitor-a', 100);
    const reserved: [number, number, 'reserved'][] = [
      [0, 2, 'reserved'],
      [1, 2, 'reserved'],
    ];
    await project(reserved, { ordered: [1] });
    await world.advance(40 * minute);
    assert.deepEqual(await hold(2, 'visitor-a', seatsOf(4, 5), { seatsMax: 3 }), {
      kind: 'quota',
      used: 2,
      max: 3,
    });
    assert.equal((await hold(2, 'visitor-a', seatsOf(4), { seatsMax: 3 })).kind, 'granted');
    await project([], { ended: [1] });
    const more = await hold(3, 'visitor-a', seatsOf(4, 5, 6), { seatsMax: 3, replaces: idOf(2) });
    assert.equal(more.kind, 'granted');
  });

  clause(
    'seats of an address range count over all its visitors: held, or reserved and unpaid; other ranges are not concerned',
    async (world) => {
      const { load, hold, release, extend, project } = commandsOf(world);
      await load(20);
      const from = (id: string) => ({ address: { id, seatsMax: 4 } });
      assert.equal((await hold(1, 'visitor-a', seatsOf(0, 1), from('home'))).kind, 'granted');
      const full = { kind: 'address_quota', used: 2, max: 4 };
      assert.deepEqual(await hold(2, 'visitor-b', seatsOf(2, 3, 4), from('home')), full);
      const units = { kind: 'units' as const, first: 10, count: 5, quantity: 2, start: 0 };
      assert.equal((await hold(3, 'visitor-b', units, from('home'))).kind, 'granted');
      assert.deepEqual(await hold(4, 'cid', seatsOf(5), from('home')), { ...full, used: 4 });
      assert.equal((await hold(4, 'cid', seatsOf(5), from('office'))).kind, 'granted');
      assert.equal((await hold(5, 'visitor-e', seatsOf(6))).kind, 'granted', 'no address, no count');
      // An exchange gives up what it replaces.
      const more = { ...from('home'), replaces: idOf(1) };
      assert.deepEqual(await hold(6, 'visitor-a', seatsOf(1, 2, 3), more), { ...full, used: 2 });
      assert.equal((await hold(6, 'visitor-a', seatsOf(1, 2), more)).kind, 'granted');
      await release(3, 'visitor-b');
      // An order that is not paid goes on counting when its lease has lapsed; other holds do not.
      await extend(6, 'visitor-a', 100);
      await project([], { ordered: [6] });
      assert.equal((await hold(7, 'visitor-f', seatsOf(7, 8), from('home'))).kind, 'granted');
      await world.advance(40 * minute);
      assert.deepEqual(await hold(8, 'visitor-g', seatsOf(7, 8, 9), from('home')), { ...full, used: 2 });
      await project([], { ended: [6] });
      assert.equal((await hold(8, 'visitor-g', seatsOf(7, 8, 9), from('home'))).kind, 'granted');
    },
  );

  clause(
    'refusals come in one order: past of the id, phase, time, taken, other hold, quota, address quota',
    async (world) => {
      const { load, hold } = commandsOf(world);
      await load(10);
      await hold(1, 'visitor-a', seatsOf(0));
      await hold(2, 'visitor-b', seatsOf(1));
      const none = { seatsMax: 0 };
      assert.equal((await hold(3, 'visitor-a', seatsOf(1, 2), none)).kind, 'taken');
      assert.equal((await hold(3, 'visitor-a', seatsOf(0, 2), none)).kind, 'hold_exists');
      assert.equal(
        (await hold(3, 'visitor-a', seatsOf(2), { ...none, replaces: idOf(2) })).kind,
        'hold_gone',
      );
      const nowhere = { address: { id: 'home', seatsMax: 0 } };
      assert.equal((await hold(3, 'cid', seatsOf(2), { ...none, ...nowhere })).kind, 'quota');
      assert.equal((await hold(3, 'cid', seatsOf(1), nowhere)).kind, 'taken');
      assert.equal((await hold(3, 'cid', seatsOf(2), nowhere)).kind, 'address_quota');
      assert.equal((await hold(3, 'cid', seatsOf(1), { ...none, notAfter: 1 })).kind, 'too_late');
      await world.setPhase('closed');
      assert.equal((await hold(3, 'cid', seatsOf(1), { ...none, notAfter: 1 })).kind, 'not_open');
      assert.equal((await hold(1, 'visitor-a', seatsOf(2))).kind, 'mismatch');
    },
  );
}

export function replacing(clause: Clause): void {
  clause(
    'replaces: all of the new set, own seats being free, under the old lease; the old hold is over',
    async (world) => {
      const { load, hold, find, codes } = commandsOf(world);
      await load(6);
      const old = grantedHold(await hold(1, 'visitor-a', seatsOf(0, 1), { seatsMax: 2 }));
      await world.advance(4 * minute);
      const outcome = await hold(2, 'visitor-a', seatsOf(1, 2), { seatsMax: 2, replaces: idOf(1) });
      const made = grantedHold(outcome);
      assert.deepEqual(made.seats, [1, 2]);
      assert.equal(made.deadline - made.grantedAt, old.deadline - old.grantedAt);
      assert.ok(made.grant > old.grant);
      assert.equal(await find(1), null);
      assert.deepEqual(await codes(), [0, 1, 1, 0, 0, 0]);
      assert.deepEqual(await hold(1, 'visitor-a', seatsOf(0, 1)), { kind: 'hold_gone' });
      // S6: the lease is the old one, for extend too.
      await world.advance(7 * minute);
      assert.equal(await find(2), null);
      assert.deepEqual(await codes(), [0, 0, 0, 0, 0, 0]);
    },
  );

  clause('S2: a replacement that is refused leaves the old hold as it was', async (world) => {
    const { load, hold, find, codes } = commandsOf(world);
    await load(6);
    const old = grantedHold(await hold(1, 'visitor-a', seatsOf(0, 1)));
    await hold(2, 'visitor-b', seatsOf(3));
    const replaces = idOf(1);
    assert.deepEqual(await hold(4, 'visitor-a', seatsOf(1, 2, 3), { replaces }), {
      kind: 'taken',
      seats: [3],
    });
    assert.deepEqual(await hold(4, 'visitor-a', seatsOf(1, 2), { replaces, seatsMax: 1 }), {
      kind: 'quota',
      used: 0,
      max: 1,
    });
    assert.deepEqual(await find(1), old);
    assert.deepEqual(await codes(), [1, 1, 0, 1, 0, 0]);
  });

  clause('replaces works for groups and units as well, own seats being free', async (world) => {
    const { load, hold, codes } = commandsOf(world);
    await load(4);
    await hold(1, 'visitor-a', seatsOf(0, 1));
    await hold(2, 'visitor-b', seatsOf(3));
    const groups = {
      kind: 'groups' as const,
      groups: [
        [2, 3],
        [1, 2],
      ],
    };
    assert.deepEqual(grantedHold(await hold(3, 'visitor-a', groups, { replaces: idOf(1) })).seats, [1, 2]);
    const units = { kind: 'units' as const, first: 0, count: 4, quantity: 3, start: 2 };
    assert.deepEqual(grantedHold(await hold(4, 'visitor-a', units, { replaces: idOf(3) })).seats, [0, 1, 2]);
    assert.deepEqual(await codes(), [1, 1, 1, 1]);
  });

  clause('S5: replaces takes only this visitor’s live and unbound hold', async (world) => {
    const { load, hold, extend, codes } = commandsOf(world);
    await load(6);
    await hold(1, 'visitor-a', seatsOf(0));
    await hold(2, 'visitor-b', seatsOf(1));
    const gone = { kind: 'hold_gone' };
    assert.deepEqual(await hold(3, 'visitor-a', seatsOf(3), { replaces: idOf(2) }), gone);
    assert.deepEqual(await hold(3, 'visitor-a', seatsOf(3), { replaces: idOf(9) }), gone);
    assert.deepEqual(await hold(3, 'cid', seatsOf(3), { replaces: idOf(9) }), gone);
    await extend(1, 'visitor-a', 100);
    assert.deepEqual(await hold(3, 'visitor-a', seatsOf(3), { replaces: idOf(1) }), gone);
    await world.advance(11 * minute);
    assert.deepEqual(await hold(3, 'visitor-b', seatsOf(3), { replaces: idOf(2) }), gone);
    assert.deepEqual(await codes(), [0, 0, 0, 0, 0, 0]);
  });
}
