import assert from 'node:assert/strict';
import test, { after, before, describe, type TestContext } from 'node:test';
import { createEvents } from '../../src/catalogue/events.ts';
import type { Arbiter, HoldOutcome } from '../../src/inventory/arbiter.ts';
import type { RebuildableArbiter } from '../../src/inventory/modes.ts';
import { rebuild } from '../../src/inventory/rebuild.ts';
import { createRedisArbiter } from '../../src/inventory/redis/arbiter.ts';
import { readRedisHolds } from '../../src/inventory/redis/holds.ts';
import { partitionTag } from '../../src/inventory/redis/scripts.ts';
import { createRoutedArbiter } from '../../src/inventory/routed.ts';
import { decidedSeats } from '../../src/orders/projection.ts';
import type { Db } from '../../src/postgres/db.ts';
import type { RedisStore } from '../../src/redis/store.ts';
import { systemClock as clock } from '../../src/runtime/clock.ts';
import { silentLogger as log } from '../../src/runtime/log.ts';
import { seededRandom } from '../../src/runtime/random.ts';
import { testDb } from '../contract/arbiter-postgres-world.ts';
import { connectedStore } from '../contract/arbiter-redis-world.ts';
import { minute } from '../contract/arbiter-world.ts';
import { until } from '../support/app.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { type TestRedis, withoutRedis } from '../support/redis.ts';
import { type TestRedisCluster, testRedisCluster } from '../support/redis-cluster.ts';
import { uuidOf } from '../support/stage.ts';
import { pause } from '../support/wait.ts';
import { type ModesWorld, modesWorld } from './modes-world.ts';

/**
 * The primary of a partition's slot is killed under claims and its replica promoted: the partition goes to Postgres and comes
 * back by a rebuild. Three web processes by the router, with the real record, modes and cluster.
 */

const seatCount = 2_000;
/** Seats that every buyer wants: a store that forgets a grant grants one of these again at once. */
const hotSeats = 30;

let cluster: TestRedisCluster;
let database: TestDatabase;
let db: Db;
let stores: RedisStore[] = [];

interface Stage {
  world: ModesWorld;
  tag: string;
  prefix: string;
  /** The arbiter of each process, called through the router. */
  routed: Arbiter[];
  /** The arbiter of the first process, called without the router. */
  redis: RebuildableArbiter;
  /** Restores as the leader does; returns the new epoch. */
  restore(): Promise<number>;
  /** Why each process found the partition's Redis lost. */
  reasons: readonly ReadonlySet<string>[];
  /** Until then no report has an effect: the row names Redis, however long the primary has been gone. */
  believe(): void;
  /** Reads the node's own memory of the partition. */
  memoryOf(node: TestRedis): Promise<{ epoch: number; grant: number }>;
}

async function stage(primary: TestRedis): Promise<Stage> {
  const world = await modesWorld(database, db, { mode: 'postgres', seats: seatCount });
  const { event } = world;
  const prefix = await prefixOn(primary, event);
  const tag = partitionTag(prefix, event, 0);
  const reasons = stores.map(() => new Set<string>());
  let believed = false;
  const arbiters = stores.map((store) => createRedisArbiter({ store, prefix, clock }));
  const routed = stores.map((store, index) => {
    const arbiter = arbiters[index]!;
    return createRoutedArbiter({
      postgres: world.arbiter,
      redis: () => ({ arbiter, trust: (_event, _partition, runIds) => store.trust(tag, runIds) }),
      // Each with its own reading of the row, which may be a second old.
      modes: { read: createEvents({ db, clock }).modesRead },
      report: async (command) => {
        reasons[index]!.add(command.reason);
        return believed ? await world.modes.report(command) : { kind: 'noted' };
      },
      granted: world.modes.granted,
      reporter: `web-${index}`,
      clock,
      log,
    });
  });
  const memoryOf = async (node: TestRedis) => {
    const client = node.client();
    const [epoch, grant] = await client.hmget(`{${tag}}:meta`, 'epoch', 'grant');
    client.disconnect();
    return { epoch: Number(epoch), grant: Number(grant) };
  };
  const restore = async (): Promise<number> => {
    const runIds = (await stores[0]!.primaries()).map(({ runId }) => runId);
    stores[0]!.trust(tag, runIds);
    const outcome = await rebuild(
      { modes: world.modes, clock },
      { at: { event, partition: 0, term: await world.lead() }, arbiter: arbiters[0]!, runIds },
    );
    assert.ok(outcome.kind === 'rebuilt', JSON.stringify(outcome));
    return outcome.epoch;
  };
  return {
    world,
    tag,
    prefix,
    routed,
    redis: arbiters[0]!,
    restore,
    memoryOf,
    reasons,
    believe: () => {
      believed = true;
    },
  };
}

async function prefixOn(primary: TestRedis, event: number): Promise<string> {
  for (let n = 0; ; n++) {
    const prefix = `failing${n}`;
    if ((await cluster.primaryOf(partitionTag(prefix, event, 0))) === primary) return prefix;
  }
}

interface Grant {
  seat: number;
  epoch: number;
  visitor: string;
  hold: string;
  deadline: number;
}

/** Buyers of one seat each, every other one of the hot ones, as the row's epoch is when they come. */
function crowd({ world, routed }: Stage) {
  const random = seededRandom(world.event * 31 + 5);
  const grants: Grant[] = [];
  const kinds = new Map<string, number>();
  let [stopped, next] = [false, 0];

  /** As a browser does: a claim that may have been granted is repeated with its id. */
  async function claim(n: number, seat: number): Promise<HoldOutcome | undefined> {
    const visitor = `${world.event}/v${n}`;
    while (!stopped) {
      const outcome = await routed[n % routed.length]!.hold({
        event: world.event,
        partition: 0,
        hold: uuidOf(visitor),
        visitor,
        holder: visitor,
        request: String(seat),
        claim: { kind: 'seats', seats: [seat] },
        ttlMs: 10 * minute,
        seatsMax: 6,
        replaces: null,
        notAfter: null,
      });
      kinds.set(outcome.kind, (kinds.get(outcome.kind) ?? 0) + 1);
      if (outcome.kind !== 'retry') return outcome;
      await pause(50, 'a page paces its repeats');
    }
    return undefined;
  }
  async function buyer(): Promise<void> {
    while (!stopped) {
      const n = next++;
      const outcome = await claim(n, n % 2 === 0 ? random.int(hotSeats) : random.int(seatCount));
      if (outcome?.kind === 'granted') {
        const { seats, epoch, visitor, hold, deadline } = outcome.hold;
        grants.push({ seat: seats[0]!, epoch, visitor, hold, deadline });
      }
      await pause(20, 'a buyer paces their claims');
    }
  }
  const buyers = Promise.all(Array.from({ length: 8 }, buyer));
  const under = (epoch: number): Grant[] => grants.filter((grant) => grant.epoch === epoch);
  return {
    under,
    more: (epoch: number, count: number) => {
      const goal = under(epoch).length + count;
      return until(async () => under(epoch).length >= goal, `${count} more grants under epoch ${epoch}`);
    },
    kinds,
    async stop(): Promise<Grant[]> {
      stopped = true;
      await buyers;
      return grants;
    },
  };
}

/** Buys: the record takes the seat from the hold, and the decision is reported to Redis. */
async function order(
  { world, routed }: Stage,
  { seat, epoch, visitor, hold, deadline }: Grant,
): Promise<void> {
  const { event } = world;
  const at = { event, partition: 0, epoch };
  const held = { hold, visitor, holder: visitor, seats: [seat], grantedAt: 0, grant: 1, order: null };
  const reserved = await world.reserve({ ...held, ...at, deadline });
  assert.equal(reserved.kind, 'reserved', JSON.stringify(reserved));
  const changes = await decidedSeats(db, event, [seat]);
  await routed[0]!.project({ event, partition: 0, changes, ordered: [hold], ended: [] });
}

describe('the primary of a partition is killed under claims', { skip: withoutRedis }, () => {
  before(async () => {
    [database, cluster] = await Promise.all([testDatabase(), testRedisCluster()]);
    db = testDb(database, 8);
    stores = await Promise.all([1, 2, 3].map(() => connectedStore(cluster)));
  });
  after(async () => {
    await Promise.all(stores.map((store) => store.close()));
    await db?.close();
  });

  async function loss(t: TestContext, primary: TestRedis, lags: boolean): Promise<void> {
    const its = await stage(primary);
    const { world, tag, prefix, redis, memoryOf } = its;
    const first = await its.restore();
    const claims = crowd(its);
    await claims.more(first, 15);
    const sold = claims.under(first).slice(0, 3);
    if (lags) await cluster.holdBack(tag);
    for (const grant of sold) await order(its, grant);
    await claims.more(first, 15);

    const { lost, promoted } = await cluster.failover(tag);
    assert.equal(lost, primary);
    const grantedBefore = claims.under(first).length;
    const remembered = await memoryOf(promoted);
    assert.equal(remembered.epoch, first, 'it names the epoch of the row, whatever it has missed');
    if (lags) assert.ok(remembered.grant < grantedBefore, 'it has forgotten grants');
    // It answers, and the row names Redis under its epoch: only its run tells that it is another.
    await until(
      async () => its.reasons.every((said) => said.has('untrusted')),
      'each process asks the promoted node and does not trust it',
    );
    assert.equal((await world.row()).epoch, first);
    its.believe();
    await until(async () => (await world.row()).mode === 'postgres', 'the partition in Postgres');
    const { epoch: second } = await world.row();
    await world.endGrace();
    await claims.more(second, 15);
    assert.deepEqual(await memoryOf(promoted), remembered, 'nothing was done on it');
    assert.equal(claims.under(first).length, grantedBefore, 'no grant came from it');

    const third = await its.restore();
    await claims.more(third, 15);
    assert.equal((await memoryOf(promoted)).epoch, third);
    const grants = await claims.stop();
    t.diagnostic(JSON.stringify(Object.fromEntries(claims.kinds)));

    const twice = grants.map(({ epoch, seat }) => `${epoch}/${seat}`);
    assert.equal(new Set(twice).size, twice.length, 'no seat twice under one epoch');
    assert.deepEqual([...new Set(grants.map(({ epoch }) => epoch))], [first, second, third]);
    const kept = new Set(claims.under(second).map(({ seat }) => seat));
    assert.deepEqual(
      claims.under(third).filter(({ seat }) => kept.has(seat)),
      [],
      'what Postgres granted was taken along',
    );
    const soldSeats = sold.map(({ seat }) => seat);
    assert.deepEqual(
      grants.filter(({ epoch, seat }) => epoch !== first && soldSeats.includes(seat)),
      [],
      'a sold seat is never granted',
    );
    const held = (await readRedisHolds(stores[0]!, prefix, { event: world.event, partition: 0 }))
      .filter(({ state }) => state === 'live')
      .flatMap(({ seats }) => seats);
    const expected = [...claims.under(second), ...claims.under(third)].map(({ seat }) => seat);
    assert.deepEqual(
      held.toSorted(byNumber),
      expected.toSorted(byNumber),
      'the holds of these epochs and no others',
    );
    const { codes } = await redis.snapshot(world.event, 0);
    assert.deepEqual(
      soldSeats.map((seat) => codes[seat]),
      soldSeats.map(() => 2),
    );
    await world.audit();
  }

  test('S1 S3 D1: not one grant comes from the promoted replica before it is rebuilt, and no seat is granted twice', async (t) => {
    await loss(t, cluster.nodes[0]!, false);
  });

  test('S1 S3 D1: the same with a lagging replica: seats whose grants it has forgotten are not granted', async (t) => {
    await loss(t, cluster.nodes[1]!, true);
  });
});

const byNumber = (a: number, b: number): number => a - b;
