import assert from 'node:assert/strict';
import { after, type TestContext } from 'node:test';
import type { Redis } from 'ioredis';
import { createRedisArbiter } from '../../src/inventory/redis/arbiter.ts';
import { partitionTag } from '../../src/inventory/redis/scripts.ts';
import type { RedisStore } from '../../src/redis/store.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { type TestRedis, testRedis, withoutRedis } from '../support/redis.ts';
import { testRedisCluster } from '../support/redis-cluster.ts';
import { connectedStore, type RedisWorld, redisWorld, redisWorldAt } from './arbiter-redis-world.ts';
import { arbiterSuite } from './arbiter-suite.ts';
import { idOf, seatsOf } from './arbiter-world.ts';

/** The suite where a partition's Redis is one of several: three servers, and the nodes of a cluster. */

interface Place {
  server: TestRedis;
  client: Redis;
  store: RedisStore;
}

const servers = withoutRedis ? [] : await Promise.all(Array.from({ length: 3 }, () => testRedis()));
const places: Place[] = await Promise.all(
  servers.map(async (server) => ({ server, client: server.client(), store: await connectedStore(server) })),
);
const cluster = withoutRedis ? null : await testRedisCluster();
const clusterStore = cluster && (await connectedStore(cluster));
const clients = new Map(cluster?.nodes.map((node) => [node, node.client()]));
after(() => Promise.all([...places.map(({ store }) => store.close()), clusterStore?.close()]));

let worlds = 0;

/** The suite's partition on one server, each time on the next; the event's other two partitions on the other two. */
async function spreadWorld(t: TestContext): Promise<RedisWorld> {
  const own = places[worlds++ % places.length]!;
  const others = places.filter((place) => place !== own);
  const world = await redisWorld(own.server, own.store, own.client);
  const { event } = world;
  for (const [index, place] of others.entries()) await openNeighbour(place, event, index + 1);
  const before = await Promise.all(others.map((place) => keysOf(place, event)));
  t.after(async () => {
    assert.deepEqual(
      await Promise.all(others.map((place) => keysOf(place, event))),
      before,
      'the partitions on the other servers are as they were',
    );
    const strangers = (await keysOf(own, event)).filter(([key]) => !key.includes(`{${world.tag}}`));
    assert.deepEqual(strangers, []);
  });
  return world;
}

/** With the same seat numbers and the same visitor's hold as a clause of the suite may use. */
async function openNeighbour({ server, store }: Place, event: number, partition: number): Promise<void> {
  const arbiter = createRedisArbiter({ store, prefix: 'test', clock: systemClock });
  const at = { event, partition, epoch: 1 };
  store.trust(partitionTag('test', event, partition), [server.runId]);
  await arbiter.begin(at);
  await arbiter.load({
    ...at,
    seats: Array.from({ length: 10 }, (_, seat) => ({ seat, version: 1, state: 'available' })),
  });
  await arbiter.open({ ...at, phase: { phase: 'open', version: 1 }, lastGrant: 0 });
  const held = await arbiter.hold({
    ...at,
    hold: idOf(1),
    visitor: 'a',
    holder: 'a',
    request: 'r',
    claim: seatsOf(0, 1),
    ttlMs: 600_000,
    seatsMax: 6,
    replaces: null,
    notAfter: null,
  });
  assert.equal(held.kind, 'granted');
}

/** The server's data about the event, key by key. */
async function keysOf({ client }: Place, event: number): Promise<[key: string, value: string][]> {
  const keys = (await client.keys(`{test:${event}:*`)).sort();
  return await Promise.all(
    keys.map(
      async (key): Promise<[string, string]> => [key, (await client.dumpBuffer(key))!.toString('base64')],
    ),
  );
}

/** On whichever of the three primaries serves the event's slot. */
function clusterWorld(): Promise<RedisWorld> {
  const place = async (tag: string) => {
    const primary = await cluster!.primaryOf(tag);
    // All of them, as the partition's row names them.
    const runIds = cluster!.nodes.slice(0, 3).map(({ runId }) => runId);
    return { runIds, client: clients.get(primary)! };
  };
  return redisWorldAt(place, clusterStore!);
}

const options = { skip: withoutRedis, without: ['grace'] } as const;
arbiterSuite('three Redis servers', spreadWorld, options);
arbiterSuite('Redis Cluster', clusterWorld, options);
