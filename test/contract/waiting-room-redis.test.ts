import { type TestRedis, testRedis, withoutRedis } from '../support/redis.ts';
import { testRedisCluster } from '../support/redis-cluster.ts';
import { waitingRoomContract } from './waiting-room-cases.ts';
import { type RedisUnderTest, redisRoom } from './waiting-room-redis.ts';

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
