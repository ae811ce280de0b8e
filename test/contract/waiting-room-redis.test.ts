import { type TestRedis, testRedis, withoutRedis } from '../support/redis.ts';
import { waitingRoomContract } from './waiting-room-cases.ts';
import { redisRoom } from './waiting-room-redis.ts';

const servers: Promise<TestRedis>[] = [];

/** Started once for the file; each test has a prefix of its own. */
function started(count: number) {
  return async () => {
    while (servers.length < count) servers.push(testRedis());
    const all = await Promise.all(servers.slice(0, count));
    return all.map((server) => {
      const client = server.client();
      return { url: server.url, clients: () => [client] };
    });
  };
}

waitingRoomContract('Redis', redisRoom(started(1)), { skip: withoutRedis });
waitingRoomContract('three Redis servers', redisRoom(started(3)), { skip: withoutRedis });
