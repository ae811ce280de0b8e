import assert from 'node:assert/strict';
import test, { after } from 'node:test';
import { seatStates } from '../../src/core/hold.ts';
import type { HoldCommand, UnderEpoch } from '../../src/inventory/arbiter.ts';
import type { PartitionModes, RebuildableArbiter } from '../../src/inventory/modes.ts';
import { type RebuildOutcome, type RebuildStep, rebuild } from '../../src/inventory/rebuild.ts';
import { createRedisArbiter } from '../../src/inventory/redis/arbiter.ts';
import { partitionKeys, partitionTag } from '../../src/inventory/redis/scripts.ts';
import { createRedisStore } from '../../src/redis/client.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { testDb } from '../contract/arbiter-postgres-world.ts';
import { testDatabase } from '../support/postgres.ts';
import { testRedis, withoutRedis } from '../support/redis.ts';
import { orderIdOf, uuidOf } from '../support/stage.ts';
import { type ModesWorld, modesWorld } from './modes-world.ts';

/** A leader that stops in the middle of a rebuild, and one whose store is lost there, with real stores. */

const skip = withoutRedis;
const database = await testDatabase();
const db = testDb(database, 6);
const server = skip ? null : await testRedis();
const store = server
  ? createRedisStore({ name: 'default', url: server.url, clock: systemClock, log: silentLogger })
  : null;
await store?.primaries();
after(async () => {
  await store?.close();
  await db.close();
});

interface Stage {
  world: ModesWorld;
  redis: RebuildableArbiter;
  /** Rebuilds as that term; `before`: called once before the step's call is made. */
  rebuild(
    term: number,
    before?: { step: RebuildStep; meanwhile: () => Promise<void> },
  ): Promise<RebuildOutcome>;
  /** The clock by which it measures how long granting has paused: it moves only by what is added here. */
  pass(ms: number): void;
  /** Holds through the store's arbiter under the row's epoch. */
  holdInRedis(visitor: string, seats: number[]): ReturnType<RebuildableArbiter['hold']>;
}

async function stage(seats?: number): Promise<Stage> {
  const world = await modesWorld(database, db, { mode: 'postgres', ...(seats ? { seats } : {}) });
  const { event } = world;
  const redis = createRedisArbiter({ store: store!, prefix: 'test', clock: systemClock });
  store!.trust(partitionTag('test', event, 0), [server!.runId]);
  // How long it really takes is gameday's figure; on a busy machine an abort here would test nothing.
  let passedMs = 0;
  return {
    world,
    redis,
    pass: (ms) => {
      passedMs += ms;
    },
    async rebuild(term, before) {
      const stopping = before && stopsBefore(world.modes, redis, before);
      return await rebuild(
        {
          modes: stopping?.modes ?? world.modes,
          clock: { ...systemClock, monotonic: () => passedMs },
        },
        {
          at: { event, partition: 0, term },
          arbiter: stopping?.redis ?? redis,
          runIds: [server!.runId],
        },
      );
    },
    async holdInRedis(visitor, seats) {
      const { epoch } = await world.row();
      return await redis.hold({
        event,
        partition: 0,
        epoch,
        hold: uuidOf(`${event}/${visitor}`),
        visitor,
        holder: visitor,
        request: 'r',
        claim: { kind: 'seats', seats },
        ttlMs: 600_000,
        seatsMax: 6,
        replaces: null,
        notAfter: null,
      } satisfies UnderEpoch<HoldCommand>);
    },
  };
}

/** Which call each step makes. */
const calls: Record<RebuildStep, string> = {
  begin: 'redis.begin',
  load: 'redis.load',
  move: 'modes.move',
  remember: 'redis.remember',
  open: 'redis.open',
  flip: 'modes.flip',
};

function stopsBefore(
  modes: PartitionModes,
  redis: RebuildableArbiter,
  { step, meanwhile }: { step: RebuildStep; meanwhile: () => Promise<void> },
): { modes: PartitionModes; redis: RebuildableArbiter } {
  let stopped = false;
  const watched = <Part extends object>(part: Part, name: string): Part =>
    new Proxy(part, {
      get: (target, property) => {
        const call = Reflect.get(target, property) as (...values: unknown[]) => unknown;
        return async (...values: unknown[]) => {
          if (`${name}.${String(property)}` === calls[step] && !stopped) {
            stopped = true;
            await meanwhile();
          }
          return await call.apply(target, values);
        };
      },
    });
  return { modes: watched(modes, 'modes'), redis: watched(redis, 'redis') };
}

test('D1: what Postgres held and decided is in Redis after a rebuild, under the epoch and run of the row', {
  skip,
}, async () => {
  const { world, redis, holdInRedis, ...at } = await stage();
  const { event } = world;
  const mine = await world.hold('mine', [2, 3]);
  assert.ok(mine.kind === 'granted');
  const outcome = await at.rebuild(await world.lead());
  assert.ok(outcome.kind === 'rebuilt', JSON.stringify(outcome));
  const row = await world.row();
  assert.deepEqual([row.mode, row.epoch], ['redis', outcome.epoch]);
  assert.deepEqual(await redis.find(event, 0, mine.hold.hold), { ...mine.hold, epoch: outcome.epoch });
  assert.deepEqual(await holdInRedis('other', [3]), { kind: 'taken', seats: [3] });
  const next = await holdInRedis('other', [4]);
  assert.ok(next.kind === 'granted' && next.hold.grant > mine.hold.grant);
});

for (const ahead of [5, 100_000]) {
  test(`D1: a store that is ${ahead} epochs ahead of a restored database is filled at the first try, above them`, {
    skip,
  }, async () => {
    const { world, holdInRedis, rebuild: run } = await stage();
    const known = (await world.row()).epoch + ahead;
    const meta = partitionKeys(partitionTag('test', world.event, 0))[0]!;
    await server!.client().hset(meta, 'epoch', known);
    const outcome = await run(await world.lead());
    assert.ok(outcome.kind === 'rebuilt', JSON.stringify(outcome));
    assert.ok(outcome.epoch > known);
    assert.equal((await holdInRedis('above', [3])).kind, 'granted');
    assert.ok((await world.degrade()) > outcome.epoch, 'and so is all that comes later');
  });
}

test('D1: a pause in granting that grows too long is ended: Postgres goes on with its holds', {
  skip,
}, async () => {
  const { world, pass, rebuild: run } = await stage();
  assert.equal((await world.hold('mine', [2])).kind, 'granted');
  const meanwhile = async () => pass(60_000);
  const outcome = await run(await world.lead(), { step: 'open', meanwhile });
  assert.deepEqual(outcome, { kind: 'refused', step: 'open', reason: 'it takes too long' });
  assert.equal((await world.row()).mode, 'postgres');
  assert.deepEqual(await world.hold('other', [2]), { kind: 'taken', seats: [2] });
  assert.equal((await world.hold('other', [3])).kind, 'granted');
});

test('S3: three thousand seats that come back while Redis is filled, one of them held at once: its hold covers it there', {
  skip,
}, async () => {
  const { world, redis, holdInRedis, rebuild: run } = await stage(4_000);
  const { event, arbiter } = world;
  const change = (version: number, state: 'blocked' | 'available') =>
    arbiter.project({
      event,
      partition: 0,
      changes: Array.from({ length: 3_000 }, (_, seat) => ({ seat, version, state })),
      ordered: [],
      ended: [],
    });
  await change(2, 'blocked');
  let mine: Awaited<ReturnType<typeof world.hold>> | undefined;
  const outcome = await run(await world.lead(), {
    step: 'move',
    meanwhile: async () => {
      await change(3, 'available');
      mine = await world.hold('mine', [2_990]);
    },
  });
  assert.ok(outcome.kind === 'rebuilt' && mine?.kind === 'granted', JSON.stringify(outcome));
  assert.deepEqual(await redis.find(event, 0, mine.hold.hold), { ...mine.hold, epoch: outcome.epoch });
  assert.deepEqual(await holdInRedis('other', [2_990]), { kind: 'taken', seats: [2_990] });
});

for (const step of ['load', 'remember', 'move'] as const) {
  test(`S3 S5 S8: what is held, given back, ordered and taken away before "${step}" is in Redis as in Postgres`, {
    skip,
  }, async () => {
    const { world, redis, rebuild: run } = await stage();
    const { event, arbiter } = world;
    const held = async (visitor: string, seats: number[]) => {
      const outcome = await world.hold(visitor, seats);
      assert.ok(outcome.kind === 'granted', `${visitor}: ${outcome.kind}`);
      return outcome.hold;
    };
    const [kept, released, ordered, robbed] = [
      await held('kept', [0, 1]),
      await held('released', [2, 3]),
      await held('ordered', [4]),
      await held('robbed', [5, 6]),
    ];
    let fresh = kept;
    const outcome = await run(await world.lead(), {
      step,
      meanwhile: async () => {
        const { epoch } = await world.row();
        const at = { event, partition: 0, epoch };
        await arbiter.release({ ...at, hold: released.hold, visitor: 'released' });
        fresh = await held('fresh', [3]);
        await arbiter.extend({
          ...at,
          hold: ordered.hold,
          visitor: 'ordered',
          order: orderIdOf(ordered.hold),
        });
        assert.equal((await world.reserve(ordered)).kind, 'reserved');
        // A decision takes a seat of it and gives it back: the hold is over all the same.
        const change = (version: number, state: 'blocked' | 'available') =>
          arbiter.project({ ...at, changes: [{ seat: 6, version, state }], ordered: [], ended: [] });
        await change(5, 'blocked');
        await change(6, 'available');
      },
    });
    assert.ok(outcome.kind === 'rebuilt', JSON.stringify(outcome));
    const { codes } = await redis.snapshot(event, 0);
    const states = [...codes.subarray(0, 8)].map((code) => seatStates[code]);
    assert.deepEqual(states.slice(0, 5), ['held', 'held', 'available', 'held', 'reserved']);
    assert.deepEqual(states.slice(6), ['available', 'available'], 'the seat that came back is free');
    for (const live of [kept, fresh]) {
      assert.deepEqual(await redis.find(event, 0, live.hold), { ...live, epoch: outcome.epoch });
    }
    assert.equal(await redis.find(event, 0, released.hold), null);
    assert.equal(await redis.find(event, 0, robbed.hold), null);
    const { epoch } = await world.row();
    const late = { event, partition: 0, epoch, order: uuidOf('o') };
    assert.equal(
      (await redis.extend({ ...late, hold: robbed.hold, visitor: 'robbed' })).kind,
      'hold_gone',
      'what lost a seat becomes no order',
    );
  });
}

for (const step of Object.keys(calls) as RebuildStep[]) {
  test(`D1: a leader that pauses before "${step}" and wakes after another's whole rebuild changes nothing`, {
    skip,
  }, async () => {
    const { world, redis, holdInRedis, rebuild: run } = await stage();
    const { event } = world;
    const mine = await world.hold('mine', [2]);
    assert.ok(mine.kind === 'granted');
    const first = await world.lead();
    let second: RebuildOutcome | undefined;
    let late: Awaited<ReturnType<typeof holdInRedis>> | undefined;
    const outcome = await run(first, {
      step,
      meanwhile: async () => {
        const term = await world.lead();
        // The actions of its successor, which finds the partition moving.
        const at = { event, partition: 0, term };
        if ((await world.row()).mode === 'moving') {
          assert.equal((await world.modes.abort(at)).kind, 'aborted');
        }
        second = await run(term);
        late = await holdInRedis('late', [7]);
      },
    });
    assert.ok(second?.kind === 'rebuilt', JSON.stringify(second));
    assert.notEqual(outcome.kind, 'rebuilt', 'the paused one is refused');
    const row = await world.row();
    assert.deepEqual([row.mode, row.epoch], ['redis', second.epoch]);
    assert.ok(late?.kind === 'granted');
    assert.deepEqual(
      await redis.find(event, 0, late.hold.hold),
      late.hold,
      'what was granted meanwhile stands',
    );
    assert.deepEqual(await redis.find(event, 0, mine.hold.hold), { ...mine.hold, epoch: second.epoch });
  });
}

for (const step of ['load', 'remember', 'open', 'flip'] as const) {
  test(`D1: Redis flushed before "${step}": Postgres goes on with its holds, or the next probe tells`, {
    skip,
  }, async () => {
    const { world, redis, rebuild: run } = await stage();
    const { event } = world;
    const mine = await world.hold('mine', [2]);
    assert.ok(mine.kind === 'granted');
    const client = server!.client();
    const outcome = await run(await world.lead(), {
      step,
      meanwhile: async () => {
        for (const key of await client.keys(`{${partitionTag('test', event, 0)}}:*`)) await client.del(key);
      },
    });
    if (step === 'flip') {
      // After `open` the result cannot be known; the epoch in the row is not there.
      assert.equal(outcome.kind, 'rebuilt');
      assert.equal((await redis.probe(event, 0)).epoch, 0);
      return;
    }
    assert.equal(outcome.kind, 'refused');
    const row = await world.row();
    assert.equal(row.mode, 'postgres');
    assert.deepEqual(await world.arbiter.find(event, 0, mine.hold.hold), { ...mine.hold, epoch: row.epoch });
    assert.equal((await world.hold('other', [2])).kind, 'taken');
    await world.audit();
  });
}
