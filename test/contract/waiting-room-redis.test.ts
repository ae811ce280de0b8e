import test from 'node:test';
import { type TestRedis, testRedis, withoutRedis } from '../support/redis.ts';
import { testRedisCluster } from '../support/redis-cluster.ts';
import { waitingRoomContract } from './waiting-room-cases.ts';
import { sameAnswers } from './waiting-room-history.ts';
import { type RedisUnderTest, redisRoom } from './waiting-room-redis.ts';
import { inProcessRoom } from './waiting-room-stores.ts';

const servers: Promise<TestRedis>[] = [];
let cluster: Promise<RedisUnderTest[]> | undefined;

/** Started once for the file; each test has a prefix of its own. */
function started(count: number): () => Promise<RedisUnderTest[]> {
  return async () => {
    while (servers.length < count) servers.push(testRedis());
    return (await Promise.all(servers.slice(0, count))).map(underTest);
  };
}

const underTest = (server: TestRedis): RedisUnderTest => {
  const client = server.client();
  return { url: server.url, clients: () => [client] };
};

async function startedCluster(): Promise<RedisUnderTest[]> {
  cluster ??= testRedisCluster().then(({ url, nodes }) => {
    const primaries = nodes.slice(0, 3).map((node) => node.client());
    return [{ url, clients: () => primaries }];
  });
  return cluster;
}

waitingRoomContract('Redis', redisRoom(started(1)), { skip: withoutRedis });
waitingRoomContract('three Redis servers', redisRoom(started(3)), { skip: withoutRedis });
waitingRoomContract('Redis Cluster', redisRoom(startedCluster), { skip: withoutRedis });

test('W1 W3 W6: the same commands get the same answers from Redis as from the reference', {
  skip: withoutRedis,
}, async (t) => {
  for (const seed of [11, 12]) {
    const [reference, store] = [await inProcessRoom(t, 'open'), await redisRoom(started(1))(t, 'open')];
    await sameAnswers(reference, store, seed * 7_919, 150);
  }
});
