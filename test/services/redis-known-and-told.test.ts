import assert from 'node:assert/strict';
import test, { after, before, describe } from 'node:test';
import type { Redis } from 'ioredis';
import { createEvents } from '../../src/catalogue/events.ts';
import { createProjectionTask } from '../../src/controller/projection-task.ts';
import { createStoreWatch, type WatchedRedis } from '../../src/controller/store-watch.ts';
import { type Hold, seatStates } from '../../src/core/hold.ts';
import type { Arbiter } from '../../src/inventory/arbiter.ts';
import { rebuild } from '../../src/inventory/rebuild.ts';
import { createRedisArbiter } from '../../src/inventory/redis/arbiter.ts';
import { readRedisHolds } from '../../src/inventory/redis/holds.ts';
import { partitionKeys, partitionTag } from '../../src/inventory/redis/scripts.ts';
import { createRoutedArbiter } from '../../src/inventory/routed.ts';
import type { Db } from '../../src/postgres/db.ts';
import type { RedisStore } from '../../src/redis/store.ts';
import { systemClock as clock } from '../../src/runtime/clock.ts';
import { silentLogger as log } from '../../src/runtime/log.ts';
import { testDb } from '../contract/arbiter-postgres-world.ts';
import { connectedStore } from '../contract/arbiter-redis-world.ts';
import { until } from '../support/app.ts';
import { testLoops } from '../support/loops.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { infoOf, type TestRedis, testRedis, untilReplicated, withoutRedis } from '../support/redis.ts';
import { uuidOf } from '../support/stage.ts';
import { type ModesWorld, modesWorld } from './modes-world.ts';

/**
 * A Redis that goes back in time and stays the same run: another server's older copy is replicated over it, or its keys are
 * restored. Web processes by the router, with the real record, modes and servers.
 */

const prefix = 'older';
const settings = { 'repl-diskless-sync-delay': 0 };
let database: TestDatabase;
let db: Db;
let server: TestRedis;
let client: Redis;

interface Process {
  arbiter: Arbiter;
  redis: WatchedRedis;
}

async function process(world: ModesWorld): Promise<Process> {
  const store: RedisStore = await connectedStore(server);
  opened.push(store);
  const redis = createRedisArbiter({ store, prefix, clock });
  const watched: WatchedRedis = {
    arbiter: redis,
    trust(event, partition, runIds, known) {
      store.trust(partitionTag(prefix, event, partition), runIds);
      if (known) redis.floor({ event, partition, epoch: known.epoch }, known.granted);
    },
    primaries: () => store.primaries(),
    onChange: (listener) => store.onChange(listener),
  };
  const arbiter = createRoutedArbiter({
    postgres: world.arbiter,
    redis: () => watched,
    modes: { read: createEvents({ db, clock }).modesRead },
    // Reports have no effect, so that the row names this Redis until a leader looks.
    report: async () => ({ kind: 'noted' }),
    granted: world.modes.granted,
    reporter: `web-${opened.length}`,
    clock,
    log,
  });
  return { arbiter, redis: watched };
}
const opened: RedisStore[] = [];

interface Stage {
  world: ModesWorld;
  epoch: number;
  /** Has seen every grant. */
  busy: Process;
  /** Knows nothing but the row. */
  quiet(): Promise<Process>;
  hold(by: Process, visitor: string, seat: number): ReturnType<Arbiter['hold']>;
  /** Whatever the answer means now, it has been given. */
  granted(by: Process, visitor: string, seat: number): Promise<Hold>;
  /** Runs a leader until the partition is in Postgres; returns why. */
  degradedBy(leader: Process): Promise<string>;
}

async function stage(): Promise<Stage> {
  const world = await modesWorld(database, db, { mode: 'postgres', seats: 20 });
  const { event } = world;
  const busy = await process(world);
  const runIds = (await busy.redis.primaries()).map(({ run }) => run);
  busy.redis.trust(event, 0, runIds);
  const at = { event, partition: 0, term: await world.lead() };
  const outcome = await rebuild({ modes: world.modes, clock }, { at, arbiter: busy.redis.arbiter, runIds });
  assert.ok(outcome.kind === 'rebuilt', JSON.stringify(outcome));
  const { epoch } = outcome;
  const hold: Stage['hold'] = (by, visitor, seat) =>
    by.arbiter.hold({
      event,
      partition: 0,
      hold: uuidOf(`${event}/${visitor}`),
      visitor,
      holder: visitor,
      request: visitor,
      claim: { kind: 'seats', seats: [seat] },
      ttlMs: 600_000,
      seatsMax: 6,
      replaces: null,
      notAfter: null,
    });
  return {
    world,
    epoch,
    busy,
    quiet: () => process(world),
    hold,
    granted: async (by, visitor, seat) => {
      const answer = await hold(by, visitor, seat);
      assert.ok(answer.kind === 'granted', JSON.stringify(answer));
      return answer.hold;
    },
    degradedBy: async (leader) => {
      const term = await world.lead();
      const watch = createStoreWatch({
        leads: () => new Map([[event, term]]),
        modes: { read: createEvents({ db, clock }).modesRead },
        partitionModes: world.modes,
        redis: () => leader.redis,
        stores: [leader.redis],
        phaseOf: async () => ({ phase: 'open', version: 1 }),
        postgresTime: async () => Date.now(),
        reporter: 'leader',
        clock,
        log,
      });
      watch.start(testLoops());
      await until(async () => (await world.row()).mode === 'postgres', 'the partition in Postgres');
      await watch.stop();
      const [row] = await database.query('SELECT reason FROM event_partitions WHERE event_no = $1', [event]);
      return row.reason;
    },
  };
}

/** The first buyer's receipt wins its seat, and no other visitor has the seat. */
async function recovers({ world, epoch, hold, busy }: Stage, first: Hold): Promise<void> {
  const { event } = world;
  assert.equal((await world.present(first)).kind, 'recovering');
  await world.endGrace();
  const row = await world.row();
  assert.ok(row.epoch > epoch);
  const answer = await world.present(first);
  assert.ok(answer.kind === 'recovered', JSON.stringify(answer));
  assert.deepEqual([answer.hold.hold, answer.hold.seats], [first.hold, first.seats]);
  const rival = await world.hold('rival in Postgres', first.seats);
  assert.deepEqual(rival, { kind: 'taken', seats: first.seats });
  await until(async () => (await hold(busy, 'late', 3)).kind === 'granted', 'processes that follow the row');
  await world.audit();
  assert.equal((await world.arbiter.find(event, 0, first.hold))?.visitor, first.visitor);
}

const isRefused = ({ kind }: { kind: string }): boolean => kind === 'retry';

describe('a Redis that goes back in time under the same run', { skip: withoutRedis }, () => {
  before(async () => {
    [database, server] = await Promise.all([testDatabase(), testRedis(undefined, { settings })]);
    db = testDb(database, 8);
    client = server.client();
  });
  after(async () => {
    await Promise.all(opened.map((store) => store.close()));
    await db?.close();
  });

  test('S3 D1: an older copy that was replicated over it grants nothing, to no process, and the first buyer keeps the seat', async (t) => {
    const its = await stage();
    const { busy, granted, hold, world } = its;
    const before = await granted(busy, 'before', 0);
    const copy = await testRedis(t, { settings });
    const other = copy.client();
    await other.replicaof('127.0.0.1', server.port);
    await untilReplicated(other);
    await other.replicaof('NO', 'ONE');
    const quiet = await its.quiet();
    // Its row, its connection and whom it trusts are fresh; it has seen none of what follows.
    assert.deepEqual(await hold(quiet, 'early', 0), { kind: 'taken', seats: [0] });
    const first = await granted(busy, 'first', 7);

    const runId = (await infoOf(client)).run_id;
    await client.replicaof('127.0.0.1', copy.port);
    await untilReplicated(client);
    await client.replicaof('NO', 'ONE');
    assert.equal((await infoOf(client)).run_id, runId, 'the same run');

    for (const each of [quiet, busy]) {
      const answers = await Promise.all([
        hold(each, `rival of ${each === quiet}`, 7),
        each.arbiter.recover({
          event: world.event,
          partition: 0,
          receipt: first,
          seatsMax: 6,
        }),
        each.arbiter.extend({ ...before, order: uuidOf('order') }),
      ]);
      assert.ok(answers.every(isRefused), JSON.stringify(answers));
    }
    assert.equal(await its.degradedBy(await its.quiet()), 'untrusted');
    await recovers(its, first);
  });

  test('S3 D1: keys that were restored by hand are rejected by each process that knows a later number, whatever its source', async () => {
    const its = await stage();
    const { busy, granted, hold, world } = its;
    const { event } = world;
    await granted(busy, 'before', 0);
    const keys = partitionKeys(partitionTag(prefix, event, 0));
    const dumps = await Promise.all(keys.map((key) => client.dumpBuffer(key)));
    const first = await granted(busy, 'first', 7);
    await Promise.all(keys.map((key, i) => client.restore(key, 0, dumps[i] as never, 'REPLACE')));

    // From its own answers; from a receipt; from the row, where the first one has written it.
    const quiet = await its.quiet();
    const receipt = { event, partition: 0, receipt: first, seatsMax: 6 };
    assert.ok(isRefused(await quiet.arbiter.recover(receipt)), 'by the receipt that it is shown');
    const other = await its.quiet();
    const { hold: id, visitor } = first;
    const at = { event, partition: 0 };
    assert.ok(
      isRefused(
        await other.arbiter.extend({ ...at, hold: id, visitor, receipt: first, order: uuidOf('order') }),
      ),
      'by the receipt of a purchase',
    );
    assert.ok(isRefused(await hold(busy, 'rival', 7)), 'by what it has granted itself');
    const known = async () =>
      Number(
        (await database.query('SELECT granted FROM event_partitions WHERE event_no = $1', [event]))[0]
          .granted,
      );
    await until(async () => (await known()) >= first.grant, 'the number in the row');
    assert.ok(isRefused(await hold(await its.quiet(), 'another', 7)), 'by the row');
    assert.equal(await its.degradedBy(await its.quiet()), 'forgot');
    await recovers(its, first);
  });

  test('S3 D1: extensions, returns and decisions raise the number too, and losing answers tell it', async () => {
    const its = await stage();
    const { busy, granted, hold, world, epoch } = its;
    const { event } = world;
    const at = { event, partition: 0, epoch };
    const { redis } = await its.quiet();
    redis.trust(
      event,
      0,
      (await redis.primaries()).map(({ run }) => run),
    );
    const given = async () => (await redis.arbiter.probe(event, 0)).grant;
    const first = await granted(busy, 'first', 7);
    let last = await given();
    assert.equal(last, first.grant);
    const order = uuidOf('order of first');
    const raises: [string, () => Promise<unknown>][] = [
      ['extend', () => busy.arbiter.extend({ ...at, hold: first.hold, visitor: 'first', order })],
      ['ordered', () => busy.arbiter.project({ ...at, changes: [], ordered: [first.hold], ended: [] })],
      [
        'decided',
        () =>
          busy.arbiter.project({
            ...at,
            changes: [{ seat: 7, version: 2, state: 'sold' }],
            ordered: [],
            ended: [],
          }),
      ],
      ['ended', () => busy.arbiter.project({ ...at, changes: [], ordered: [], ended: [first.hold] })],
      ['tombstone', () => busy.arbiter.release({ ...at, hold: uuidOf(`${event}/never`), visitor: 'never' })],
    ];
    for (const [what, act] of raises) {
      await act();
      const now = await given();
      assert.ok(now > last, what);
      last = now;
    }
    const fresh = await its.quiet();
    assert.equal((await hold(fresh, 'loser', 7)).kind, 'taken');
    assert.equal(fresh.redis.arbiter.floor({ ...at }), last);
  });

  test('S7 S8: the leader reports again what Redis did not receive, however old it is by then', async (t) => {
    const { busy, granted, world, epoch } = await stage();
    const { event } = world;
    const mine = await granted(busy, 'mine', 7);
    assert.equal((await world.reserve(mine)).kind, 'reserved');
    // Past the time in which each tick tells everything again: only a leader that knows it was not told does.
    await database.query(`UPDATE orders SET updated_at = now() - interval '1 minute' WHERE event_no = $1`, [
      event,
    ]);
    let missing = 1;
    t.after(async () => void (await client.config('SET', 'min-replicas-to-write', '0')));
    const task = createProjectionTask({
      db,
      events: createEvents({ db, clock }),
      arbiter: {
        ...busy.arbiter,
        // The picture is good, then the fault comes.
        async project(command) {
          await client.config('SET', 'min-replicas-to-write', String(missing));
          return await busy.arbiter.project(command);
        },
      },
      postgres: world.arbiter,
      clock,
      log,
    });
    const state = async () => {
      const store = opened.at(-1)!;
      const holds = await readRedisHolds(store, prefix, { event, partition: 0 });
      return holds.find(({ hold }) => hold === mine.hold)?.state;
    };
    const tick = (no: number) => task.run({ event, term: 1, tick: no, phase: 'open' } as never);
    await tick(0);
    await client.config('SET', 'min-replicas-to-write', '0');
    assert.equal(await state(), 'live', 'it could not be told');
    missing = 0;
    await tick(1);
    assert.equal(await state(), 'ordered');
    const { codes } = await busy.redis.arbiter.snapshot(event, 0);
    assert.equal(codes[7], seatStates.indexOf('reserved'));
    assert.equal((await world.row()).epoch, epoch);
  });
});
