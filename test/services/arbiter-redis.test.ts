import assert from 'node:assert/strict';
import test, { after, describe } from 'node:test';
import type { Hold } from '../../src/core/hold.ts';
import type { Claim, HoldOutcome } from '../../src/inventory/arbiter.ts';
import type { StoredHold } from '../../src/inventory/modes.ts';
import { createRedisArbiter } from '../../src/inventory/redis/arbiter.ts';
import { partitionKeys, partitionTag } from '../../src/inventory/redis/scripts.ts';
import type { RedisStore } from '../../src/redis/store.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { StoreFault } from '../../src/runtime/store-fault.ts';
import { connectedStore, type RedisWorld, redisWorld } from '../contract/arbiter-redis-world.ts';
import { commandsOf, grantedHold, idOf, minute, seatsOf } from '../contract/arbiter-world.ts';
import { testRedis, withoutRedis } from '../support/redis.ts';

// The features of the Redis adapter alone, on a real server; the contract suite tests what every adapter does.
const server = withoutRedis ? null : await testRedis();
const store = server && (await connectedStore(server));
after(() => store?.close());
const client = server?.client();
const makeWorld = (): Promise<RedisWorld> => redisWorld(server!, store!, client!);

const times = <T>(count: number, make: (i: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => make(i));
function tally(outcomes: readonly { kind: string }[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { kind } of outcomes) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}
/** All that a partition is, byte by byte. */
const contentOf = async (world: RedisWorld): Promise<(string | undefined)[]> =>
  Promise.all(
    partitionKeys(world.tag).map(async (key) => (await client!.dumpBuffer(key))?.toString('base64')),
  );
const at = (world: RedisWorld, epoch = world.epoch) => ({ event: world.event, partition: 0, epoch });
const open = { phase: { phase: 'open' as const, version: 1 }, lastGrant: 0 };

/** On a busy machine some call of thousands is late: it is asked again, as a web process does; a claim is the same claim by its id. */
async function surely<T>(ask: () => Promise<T>): Promise<T> {
  for (let i = 1; ; i++) {
    try {
      return await ask();
    } catch (fault) {
      if (!(fault instanceof StoreFault) || i === 20) throw fault;
      // Answers only when what is late has been answered.
      await store!.primaries().catch(() => {});
    }
  }
}

/** Counts the calls of each script, and fails those that `breaks` names. */
function watched(inner: RedisStore, breaks: (calls: number) => boolean = () => false) {
  const calls: { name: string; args: number }[] = [];
  const watching: RedisStore = {
    ...inner,
    call: (tag, script, keys, args) => {
      calls.push({ name: script.name, args: args.length });
      if (breaks(calls.length)) return Promise.reject(new StoreFault('outcome_unknown', 'no answer in time'));
      return inner.call(tag, script, keys, args);
    },
  };
  return { watching, calls };
}
function arbiterOver(world: RedisWorld, over: RedisStore): RedisWorld {
  const arbiter = createRedisArbiter({ store: over, prefix: 'test', clock: systemClock });
  return { ...world, arbiter, redis: arbiter };
}

describe('the Redis arbiter', { skip: withoutRedis }, () => {
  test('scripts that Redis has forgotten are sent again', async () => {
    const world = await makeWorld();
    const { load, hold } = commandsOf(world);
    await load(4);
    await hold(1, 'visitor-a', seatsOf(1));
    await client!.script('FLUSH');
    assert.equal((await hold(2, 'visitor-b', seatsOf(2))).kind, 'granted');
    assert.deepEqual(await hold(3, 'cid', seatsOf(1, 2)), { kind: 'taken', seats: [1, 2] });
  });

  test('S3 S4 D1: a partition that lost one of its keys to eviction or by hand answers nothing, until it is rebuilt', async () => {
    for (const [i, name] of ['meta', 'bits', 'codes', 'state', 'due'].entries()) {
      const world = await makeWorld();
      const { load, hold } = commandsOf(world);
      await load(4);
      await hold(1, 'visitor-a', seatsOf(1));
      const { holds } = await world.dump();
      await client!.del(partitionKeys(world.tag)[i]!);
      const none = { kind: 'stale', epoch: 0 };
      assert.deepEqual(await hold(2, 'visitor-b', seatsOf(1)), none, name);
      assert.equal((await world.redis.probe(world.event, 0)).epoch, 0, name);
      await assert.rejects(world.redis.snapshot(world.event, 0), { code: 'store_unavailable' }, name);
      world.epoch = await world.rebuild(holds);
      assert.deepEqual(await hold(2, 'visitor-b', seatsOf(1)), { kind: 'taken', seats: [1] }, name);
    }
  });

  test('another epoch, or none, changes nothing at all', async () => {
    const world = await makeWorld();
    const { load, hold } = commandsOf(world);
    await load(4);
    const mine = grantedHold(await hold(1, 'visitor-a', seatsOf(1)));
    world.epoch = await world.rebuild((await world.dump()).holds);
    const before = await contentOf(world);
    for (const epoch of [world.epoch - 1, world.epoch + 1]) {
      const stale = { kind: 'stale', epoch: world.epoch };
      const other = at(world, epoch);
      assert.deepEqual(await hold(2, 'visitor-b', seatsOf(2), { epoch }), stale);
      const own = { ...other, hold: idOf(1), visitor: 'visitor-a' };
      assert.deepEqual(await world.redis.extend({ ...own, order: idOf(9) }), stale);
      assert.deepEqual(await world.redis.release(own), stale);
      assert.deepEqual(await world.redis.recover({ ...other, receipt: mine, seatsMax: 6 }), stale);
      const seats = [{ seat: 0, version: 9, state: 'sold' as const }];
      assert.deepEqual(await world.redis.load({ ...other, seats }), stale);
      assert.deepEqual(await world.redis.remember({ ...other, holds: [] }), stale);
      assert.deepEqual(await world.redis.open({ ...other, ...open }), stale);
    }
    assert.deepEqual(await contentOf(world), before);

    // A server that was flushed knows no epoch, and makes none up.
    await client!.del(...partitionKeys(world.tag));
    const none = { kind: 'stale', epoch: 0 };
    assert.deepEqual(await hold(2, 'visitor-b', seatsOf(2)), none);
    assert.deepEqual(await world.redis.load({ ...at(world), seats: [] }), none);
    const sold = [{ seat: 1, version: 5, state: 'sold' as const }];
    const decisions = { ...at(world), changes: sold, ordered: [idOf(1)], ended: [idOf(2)] };
    await assert.rejects(world.redis.project(decisions), { code: 'store_unavailable' });
    assert.equal(await world.redis.sweep(world.event, 0, 10), 0);
    await assert.rejects(world.redis.find(world.event, 0, idOf(1)), { code: 'store_unavailable' });
    await assert.rejects(world.redis.snapshot(world.event, 0), { code: 'store_unavailable' });
    assert.equal((await world.redis.probe(world.event, 0)).epoch, 0);
    assert.equal(await client!.exists(...partitionKeys(world.tag)), 0);
  });

  test('D1: until it is open a rebuilt partition serves no claim, and knows its probe', async () => {
    const world = await makeWorld();
    const { hold, codes } = commandsOf(world);
    const epoch = world.epoch + 10;
    assert.deepEqual(await world.redis.begin(at(world, epoch)), { kind: 'begun' });
    // The same again, as after a lost answer.
    assert.deepEqual(await world.redis.begin(at(world, epoch)), { kind: 'begun' });
    world.epoch = epoch;
    const loading = { kind: 'stale', epoch: 0 };
    assert.deepEqual(await commandsOf(world).load(3), { kind: 'loaded', seats: 3 });
    assert.deepEqual(await hold(1, 'visitor-a', seatsOf(1)), loading);
    assert.equal((await world.redis.probe(world.event, 0)).epoch, 0);
    await assert.rejects(codes(), { code: 'store_unavailable' });
    assert.deepEqual(await world.redis.open({ ...at(world), ...open, lastGrant: 40 }), { kind: 'opened' });
    const granted = grantedHold(await hold(1, 'visitor-a', seatsOf(1)));
    assert.equal(granted.grant, 41);
    assert.equal(granted.epoch, epoch);
    const probe = await world.redis.probe(world.event, 0);
    assert.equal(probe.epoch, epoch);
    assert.ok(Math.abs(probe.time - granted.grantedAt) < 10_000, `${probe.time}`);
  });

  test('D1: two rebuilds at once: the lower epoch is refused from the higher one’s beginning on', async () => {
    const world = await makeWorld();
    const [first, second] = [world.epoch + 1, world.epoch + 2];
    await world.redis.begin(at(world, first));
    await world.redis.load({ ...at(world, first), seats: [{ seat: 0, version: 1, state: 'available' }] });
    await world.redis.begin(at(world, second));
    const stale = { kind: 'stale', epoch: second };
    assert.deepEqual(await world.redis.begin(at(world, first)), stale);
    assert.deepEqual(await world.redis.load({ ...at(world, first), seats: [] }), stale);
    assert.deepEqual(await world.redis.open({ ...at(world, first), ...open }), stale);
    assert.deepEqual(await world.redis.remember({ ...at(world, first), holds: [] }), {
      kind: 'stale',
      epoch: 0,
    });
    await world.redis.load({ ...at(world, second), seats: [{ seat: 1, version: 1, state: 'available' }] });
    // A repetition of the beginning that comes late destroys nothing of what was loaded, or is open.
    assert.deepEqual(await world.redis.begin(at(world, second)), stale);
    await world.redis.open({ ...at(world, second), ...open });
    assert.deepEqual(await world.redis.begin(at(world, second)), stale);
    world.epoch = second;
    assert.deepEqual(await commandsOf(world).codes(), [255, 0]);
  });

  test('D1: holds and memories are taken along; after the opening nothing is remembered any more', async () => {
    const world = await makeWorld();
    await commandsOf(world).load(8);
    const now = (await world.redis.snapshot(world.event, 0)).at;
    const stored = (n: number, more: Partial<StoredHold>): StoredHold => ({
      hold: idOf(n),
      visitor: `v${n}`,
      holder: `v${n}`,
      request: 'r',
      seats: [n],
      grantedAt: now - minute,
      deadline: now + 9 * minute,
      grant: 100 + n,
      order: null,
      state: 'live',
      ...more,
    });
    const holds = [
      stored(1, {}),
      stored(2, { state: 'ordered', order: idOf(50), holder: 'account' }),
      stored(3, { state: 'released', deadline: now - minute }),
      // A decision took seat 4 from it and gave it back; since then it is a later hold's.
      stored(4, { seats: [4, 5] }),
      stored(6, { seats: [4], visitor: 'v4' }),
      stored(7, { holder: 'account', state: 'ordered', order: idOf(51) }),
    ];
    const epoch = world.epoch + 1;
    const { seats } = await world.dump();
    await world.redis.begin(at(world, epoch));
    // Sent while the rebuild runs, from the process that closed the order, after the holds were read.
    await world.redis.project({ ...at(world), changes: [], ordered: [], ended: [idOf(7)] });
    await world.redis.load({ ...at(world, epoch), seats });
    for (const list of [holds.slice(0, 4), holds.slice(3)]) {
      assert.deepEqual(await world.redis.remember({ ...at(world, epoch), holds: list }), {
        kind: 'remembered',
      });
    }
    await world.redis.open({ ...at(world, epoch), ...open, lastGrant: 3 });
    world.epoch = epoch;
    const { hold, find, release, extend, codes } = commandsOf(world);
    assert.deepEqual(await codes(), [0, 1, 1, 0, 1, 1, 0, 0]);
    assert.deepEqual((await find(1))?.seats, [1]);
    assert.deepEqual(await hold(3, 'v3', seatsOf(3), { request: 'r' }), { kind: 'hold_gone' });
    assert.equal(await find(4), null);
    assert.deepEqual((await find(6))?.seats, [4]);
    assert.equal((await extend(2, 'v2', 50)).kind, 'extended');
    // S7: of the account's two orders one was closed.
    const account = { holder: 'account', seatsMax: 2 };
    assert.deepEqual(await hold(20, 'new', seatsOf(3, 6), account), { kind: 'quota', used: 1, max: 2 });
    const granted = grantedHold(await hold(20, 'new', seatsOf(3), account));
    assert.equal(granted.grant, 108, 'above the highest that was remembered');
    assert.deepEqual(await release(1, 'v1'), { kind: 'released', seats: [1] });

    const before = await contentOf(world);
    const late = { ...at(world), holds: [stored(8, { seats: [7] })] };
    assert.deepEqual(await world.redis.remember(late), { kind: 'stale', epoch });
    assert.deepEqual(await contentOf(world), before);
  });

  test('a phase counts by the version of its controls, whatever the order of arrival', async () => {
    const world = await makeWorld();
    const { load, hold } = commandsOf(world);
    await load(3);
    const tell = (phase: 'open' | 'paused' | 'closed', version: number) =>
      world.redis.project({
        ...at(world),
        changes: [],
        ordered: [],
        ended: [],
        phase: { phase, version },
      });
    await tell('closed', 7);
    await tell('open', 6);
    await tell('open', 7);
    assert.deepEqual(await hold(1, 'visitor-a', seatsOf(1)), { kind: 'not_open', phase: 'closed' });
    await tell('open', 8);
    assert.equal((await hold(1, 'visitor-a', seatsOf(1))).kind, 'granted');
    await world.redis.load({ ...at(world), seats: [], phase: { phase: 'paused', version: 9 } });
    assert.deepEqual(await hold(2, 'visitor-b', seatsOf(2)), { kind: 'not_open', phase: 'paused' });
  });

  test('S4: 5,000 holds lapse in the same second and nothing swept: every seat is free for the next claim', async () => {
    const world = await makeWorld();
    const { load, sweep, codes, ...commands } = commandsOf(world);
    const hold: typeof commands.hold = (...asked) => surely(() => commands.hold(...asked));
    await load(10_000);
    const pair = (i: number) => seatsOf(2 * i, 2 * i + 1);
    const first = await Promise.all(times(5_000, (i) => hold(i, `v${i}`, pair(i))));
    assert.deepEqual(tally(first), { granted: 5_000 });
    const granted = first.map(grantedHold);
    const deadlines = granted.map((one) => one.deadline);
    const last = Math.max(...deadlines);
    await world.advance(9 * minute);
    assert.deepEqual(tally(await Promise.all(times(200, (i) => hold(6_000 + i, `w${i}`, pair(i))))), {
      taken: 200,
    });
    await world.advance(minute + 1_000);
    const { time } = await world.redis.probe(world.event, 0);
    assert.ok(time >= last - 10 * minute - 1_000, 'all have lapsed');
    const units = (i: number): Claim => ({ kind: 'units', first: 0, count: 10_000, quantity: 2, start: i });
    const [named, groups, areas] = await Promise.all([
      Promise.all(times(2_000, (i) => hold(10_000 + i, `x${i}`, pair(i)))),
      Promise.all(
        times(500, (i) =>
          hold(20_000 + i, `y${i}`, {
            kind: 'groups',
            groups: [[4_000 + 2 * i, 4_001 + 2 * i]],
          }),
        ),
      ),
      Promise.all(times(100, (i) => hold(30_000 + i, `z${i}`, units(5_000 + 40 * i)))),
    ]);
    assert.deepEqual(tally(named), { granted: 2_000 });
    assert.deepEqual(tally(groups), { granted: 500 });
    assert.deepEqual(tally(areas), { granted: 100 });
    const seats = [...named, ...groups, ...areas].flatMap((outcome) => grantedHold(outcome).seats);
    assert.equal(new Set(seats).size, 5_200, 'no seat twice');
    assert.equal(await sweep(10_000), 5_000);
    assert.deepEqual(
      (await codes()).filter((code) => code === 1).length,
      5_200,
      'the sweep ended no lease but the lapsed ones',
    );
  });

  test('S4: a picture shows lapsed holds as free before any sweep; where very many have lapsed it has them swept', async () => {
    const world = await makeWorld();
    const { load, hold, sweep, codes } = commandsOf(world);
    await load(2_000);
    await Promise.all(times(900, (i) => hold(i, `v${i}`, seatsOf(i))));
    await hold(5_000, 'late', seatsOf(1_999), { ttlMs: 15 * minute });
    await world.advance(10 * minute);
    const picture = times(2_000, (seat) => (seat === 1_999 ? 1 : 0));
    assert.deepEqual(await codes(), picture);
    await Promise.all(times(900, (i) => hold(1_000 + i, `w${i}`, seatsOf(500 + i), { ttlMs: minute })));
    await world.advance(minute);
    assert.deepEqual(await codes(), picture);
    assert.equal(await sweep(5_000), 0);
  });

  test('S2: one call with granted, refused, repeated and stale members, and a malformed one that never gets into it', async () => {
    const world = await makeWorld();
    const { watching, calls } = watched(store!);
    const watchedWorld = arbiterOver(world, watching);
    const { load, hold } = commandsOf(watchedWorld);
    await load(12);
    calls.length = 0;
    const outcomes = await Promise.allSettled([
      hold(1, 'visitor-a', seatsOf(1, 2)),
      hold(2, 'visitor-b', seatsOf(2, 3)),
      hold(1, 'visitor-a', seatsOf(1, 2)),
      hold(3, 'cid', seatsOf(5, 5)),
      hold(4, 'visitor-b', seatsOf(3, 1e300)),
      hold(5, 'visitor-b', seatsOf(3), { notAfter: Number.NaN }),
      hold(6, 'visitor-b', seatsOf(3), { hold: 'no id' }),
      hold(7, 'visitor-d', seatsOf(3), { replaces: idOf(8) }),
      hold(1, 'visitor-a', seatsOf(4)),
      hold(9, 'visitor-f', seatsOf(3, 4), { seatsMax: 1 }),
      hold(10, 'visitor-g', seatsOf(6), { epoch: world.epoch + 5 }),
      hold(2, 'visitor-b', seatsOf(3), { replaces: idOf(1), holder: 'Zoë, 𝒳 "\n' }),
      hold(11, 'visitor-a', seatsOf(2, 3), { replaces: idOf(1) }),
      hold(12, 'visitor-b', seatsOf(1)),
    ]);
    const kinds = outcomes.map((one) => (one.status === 'fulfilled' ? one.value.kind : 'rejected'));
    assert.deepEqual(kinds, [
      ...['granted', 'taken', 'granted', 'rejected', 'rejected', 'rejected', 'rejected', 'hold_gone'],
      ...['mismatch', 'quota', 'stale', 'hold_gone', 'granted', 'granted'],
    ]);
    const repeated = (outcomes[2] as PromiseFulfilledResult<HoldOutcome>).value;
    assert.equal(repeated.kind === 'granted' && repeated.repeated, true);
    assert.deepEqual(
      calls.map((call) => [call.name, (call.args - 2) / 7]),
      [
        ['arbiter_hold', 9],
        ['arbiter_hold', 1],
      ],
      'one call for each epoch',
    );
  });

  test('claims of a tick share calls of at most 64; answers keep their order', async () => {
    const world = await makeWorld();
    const { watching, calls } = watched(store!);
    const { load, hold, extend, release } = commandsOf(arbiterOver(world, watching));
    await load(300);
    calls.length = 0;
    const outcomes = await Promise.all(times(300, (i) => hold(i, `v${i}`, seatsOf(i))));
    assert.deepEqual(
      outcomes.map((outcome) => grantedHold(outcome).seats[0]),
      times(300, (i) => i),
    );
    assert.deepEqual(
      calls.map((call) => (call.args - 2) / 7),
      [64, 64, 64, 64, 44],
    );
    calls.length = 0;
    await Promise.all(times(64, (i) => extend(i, `v${i}`, 1_000 + i)));
    await Promise.all(times(64, (i) => release(100 + i, `v${100 + i}`)));
    assert.deepEqual(
      calls.map((call) => call.name),
      ['arbiter_extend', 'arbiter_release'],
    );
  });

  test('large claims make small calls: 40 with 32 groups of 50 seats each, and the herd is still served in order', async () => {
    const world = await makeWorld();
    const { watching, calls } = watched(store!);
    const { load, hold } = commandsOf(arbiterOver(world, watching));
    await load(1_600);
    calls.length = 0;
    const groups = times(32, (g) => times(50, (i) => g * 50 + i));
    const outcomes = await Promise.all(
      times(40, (i) => hold(i, `v${i}`, { kind: 'groups', groups }, { seatsMax: 50 })),
    );
    assert.deepEqual(
      outcomes.map((outcome) => (outcome.kind === 'granted' ? outcome.hold.seats[0]! / 50 : outcome.kind)),
      [...times(32, (i) => i), ...times(8, () => 'taken')],
    );
    assert.equal(calls.length, 40, 'each in a call of its own');
  });

  test('a call that fails rejects all its members and no others; more than can be answered are refused at once', async () => {
    const world = await makeWorld();
    await commandsOf(world).load(200);
    const { watching } = watched(store!, (calls) => calls === 2);
    const { hold } = commandsOf(arbiterOver(world, watching));
    const outcomes = await Promise.allSettled(times(192, (i) => hold(i, `v${i}`, seatsOf(i))));
    outcomes.forEach((one, i) => {
      if (i >= 64 && i < 128) assert.equal(one.status === 'rejected' && one.reason.code, 'outcome_unknown');
      else assert.equal(one.status === 'fulfilled' && one.value.kind, 'granted');
    });

    let answer = () => {};
    const silent = new Promise<never>((_, reject) => {
      answer = () => reject(new StoreFault('outcome_unknown', 'no answer in time'));
    });
    const stuck = commandsOf(arbiterOver(world, { ...store!, call: () => silent }));
    const waiting = times(20_000, (i) => stuck.hold(i, `v${i}`, seatsOf(0)));
    await assert.rejects(stuck.hold(20_001, 'late', seatsOf(0)), { code: 'store_busy' });
    answer();
    const ended = await Promise.allSettled(waiting);
    assert.ok(ended.every((one) => one.status === 'rejected'));
  });

  test('after everything lapsed and was swept a partition is as large as it was, but for the ids that led to an order; its hash is never a list', async () => {
    const world = await makeWorld();
    const { load, hold, release, sweep, extend, project } = commandsOf(world);
    await load(2_000);
    const keys = partitionKeys(world.tag);
    const stateKey = keys[3]!;
    assert.equal(await client!.object('ENCODING', stateKey), 'hashtable');
    const fieldsOf = async () => [
      await client!.hlen(stateKey),
      await client!.zcard(keys[4]!),
      await client!.strlen(keys[2]!),
    ];
    const sizeOf = async () => {
      const sizes = await Promise.all(
        keys.map((key) => client!.call('MEMORY', 'USAGE', key, 'SAMPLES', '0')),
      );
      return sizes.reduce((sum: number, size) => sum + Number(size ?? 0), 0);
    };
    const [[fields, ...others], size] = [await fieldsOf(), await sizeOf()];
    const kept = [fields! + 100, ...others];
    await Promise.all(
      times(1_000, (i) => hold(i, `v${i}`, seatsOf(2 * i, 2 * i + 1), { holder: `a${i % 400}` })),
    );
    await Promise.all(times(200, (i) => release(i, `v${i}`)));
    await Promise.all(times(50, (i) => release(5_000 + i, 'ghost')));
    await Promise.all(times(100, (i) => extend(300 + i, `v${300 + i}`, 300 + i)));
    await project([], { ordered: times(100, (i) => 300 + i) });
    await project([], { ended: times(100, (i) => 300 + i) });
    await Promise.all(
      times(100, (i) => hold(6_000 + i, `v${500 + i}`, seatsOf(2 * i), { replaces: idOf(500 + i) })),
    );
    assert.ok((await sizeOf()) > size * 3);
    await world.advance(20 * minute);
    await sweep(10_000);
    await world.advance(20 * minute);
    await sweep(10_000);
    assert.deepEqual(await fieldsOf(), kept);
    // The tables of what has become small shrink step by step, as it is used.
    for (let round = 0; round < 5; round++) {
      await Promise.all(times(100, (i) => release(9_000 + i, 'ghost')));
      await world.advance(20 * minute);
      await sweep(1_000);
    }
    assert.deepEqual(await fieldsOf(), kept);
    const left = await sizeOf();
    // An id that is kept for good takes about 200 bytes.
    assert.ok(left <= size * 1.5 + 100 * 250, `${left} bytes, of ${size} before`);
    assert.equal(
      (await hold(1, 'visitor-a', { kind: 'units', first: 0, count: 2_000, quantity: 2, start: 7 })).kind,
      'granted',
    );
  });

  test('names in any writing come back as they were', async () => {
    const world = await makeWorld();
    const { load, hold, find, recover } = commandsOf(world);
    await load(6);
    const holder = 'Łucja,\u0000 名前:5 "𝒳\n\\';
    const more = { holder, request: `${holder}!`, seatsMax: 2 };
    const made: Hold = grantedHold(await hold(1, 'visitör-a', seatsOf(0, 1), more));
    assert.equal(made.holder, holder);
    assert.deepEqual(await find(1), made);
    assert.deepEqual(await recover(made), { kind: 'recovered', hold: made });
    assert.deepEqual(await hold(1, 'visitör-a', seatsOf(0, 1), more), {
      kind: 'granted',
      hold: made,
      repeated: true,
    });
    assert.deepEqual(await hold(2, 'visitor-b', seatsOf(2), more), { kind: 'quota', used: 2, max: 2 });
  });

  test('general admission: the last units of a nearly sold area are found, those of other partitions never', async () => {
    const world = await makeWorld();
    const { hold } = commandsOf(world);
    // Units 3 to 20,002, of which each seventh is another partition's.
    const ours = times(20_000, (i) => 3 + i).filter((seat) => seat % 7 !== 0);
    const free = new Set([ours[0]!, ours[9_000]!, ours.at(-1)!]);
    const seats = ours.map((seat) => ({
      seat,
      version: 1,
      state: free.has(seat) ? ('available' as const) : ('sold' as const),
    }));
    await world.redis.load({ ...at(world), seats });
    const units = (quantity: number, start: number): Claim => ({
      kind: 'units',
      first: 3,
      count: 20_000,
      quantity,
      start,
    });
    assert.deepEqual(await hold(1, 'visitor-a', units(4, 100)), { kind: 'taken', seats: [] });
    const two = grantedHold(await hold(1, 'visitor-a', units(2, 15_000)));
    assert.deepEqual(two.seats, [ours[0], ours.at(-1)]);
    assert.deepEqual(grantedHold(await hold(2, 'visitor-b', units(1, 19_999))).seats, [ours[9_000]]);
    assert.deepEqual(await hold(3, 'cid', units(1, 0)), { kind: 'taken', seats: [] });
    const { codes } = await world.redis.snapshot(world.event, 0);
    assert.equal(codes.length, ours.at(-1)! + 1);
    assert.deepEqual([codes[0], codes[3], codes[4], codes[7]], [255, 1, 3, 255]);
  });

  test('S4: of an area with many lapsed holds the units are taken in order from the start and around, until none is left', async () => {
    const world = await makeWorld();
    const { load, hold } = commandsOf(world);
    await load(900);
    const area = { kind: 'units' as const, first: 100, count: 777 };
    // All of the area but its every 90th unit is held; every 7th of the holds lapses, far more than are looked up one by one.
    const held = times(area.count, (i) => area.first + i).filter((seat) => seat % 90 !== 0);
    await Promise.all(
      held.map((seat, i) => hold(i, `v${i}`, seatsOf(seat), { ttlMs: i % 7 === 0 ? minute : 10 * minute })),
    );
    await world.advance(2 * minute);
    const free = new Set(held.filter((_, i) => i % 7 === 0));
    for (let seat = area.first; seat < area.first + area.count; seat++) if (seat % 90 === 0) free.add(seat);
    assert.ok(free.size > 100);
    const starts = times(60, (i) => (i * 311) % area.count);
    const outcomes = await Promise.all(
      starts.map((start, i) => hold(2_000 + i, `w${i}`, { ...area, quantity: 3, start })),
    );
    starts.forEach((start, i) => {
      const around = times(area.count, (place) => area.first + ((start + place) % area.count));
      const expected = around.filter((seat) => free.has(seat)).slice(0, 3);
      if (expected.length < 3) {
        assert.deepEqual(outcomes[i], { kind: 'taken', seats: [] });
        return;
      }
      for (const seat of expected) free.delete(seat);
      assert.deepEqual(
        grantedHold(outcomes[i]!).seats,
        expected.sort((a, b) => a - b),
      );
    });
    assert.ok(free.size < 3 && outcomes.at(-1)!.kind === 'taken');
    if (free.size > 0) {
      const rest = await hold(3_000, 'last', { ...area, quantity: free.size, start: 5 });
      assert.deepEqual(new Set(grantedHold(rest).seats), free);
    }
  });

  test('partitions of one event do not know of each other', async () => {
    const world = await makeWorld();
    await commandsOf(world).load(4);
    const other = { event: world.event, partition: 1, epoch: 5 };
    store!.trust(partitionTag('test', world.event, 1), [server!.runId]);
    await world.redis.begin(other);
    await world.redis.load({ ...other, seats: [{ seat: 5, version: 1, state: 'available' }] });
    await world.redis.open({ ...other, ...open });
    const { hold } = commandsOf(world);
    assert.deepEqual(await hold(1, 'visitor-a', seatsOf(3, 5)), { kind: 'taken', seats: [5] });
    assert.equal((await hold(1, 'visitor-a', seatsOf(3))).kind, 'granted');
    const there = await hold(1, 'visitor-a', seatsOf(5), { partition: 1, epoch: 5 });
    assert.equal(there.kind, 'granted');
  });
});
