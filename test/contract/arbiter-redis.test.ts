import { after } from 'node:test';
import { testRedis, withoutRedis } from '../support/redis.ts';
import { connectedStore, redisWorld } from './arbiter-redis-world.ts';
import { arbiterSuite } from './arbiter-suite.ts';

const server = withoutRedis ? null : await testRedis();
const store = server && (await connectedStore(server));
after(() => store?.close());
const client = server?.client();

arbiterSuite('redis', () => redisWorld(server!, store!, client!), { skip: withoutRedis, without: ['grace'] });
