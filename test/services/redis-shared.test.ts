import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../support/app.ts';
import { withoutRedis } from '../support/redis.ts';
import { type RedisApp, redisPrefix, startRedisApp } from '../support/redis-app.ts';

test('D1 S2: two installations with events of the same number share a Redis, and neither touches the other', {
  skip: withoutRedis,
}, async (t) => {
  const one = await startRedisApp(t);
  const other = await startRedisApp(t, { env: { REDIS_URL: one.redis.url } });
  assert.equal(one.eventNo, other.eventNo);
  const numbering = async ({ database }: RedisApp): Promise<{ mode: string; epoch: number }> =>
    (await database.query('SELECT mode, epoch FROM queue_counters'))[0];
  for (const app of [one, other]) {
    await until(async () => (await numbering(app)).mode === 'redis', 'numbers from Redis');
  }
  const standing = () => Promise.all([one.row(), other.row(), numbering(one), numbering(other)]);
  const before = await standing();

  const [mine, theirs] = await Promise.all([one.admitted(), other.admitted()]);
  const held = await mine.mustHold([3]);
  await theirs.mustHold([3]);
  assert.equal((await mine.request('DELETE', `/api/holds/${held.hold}`)).status, 204);
  assert.equal((await (await other.admitted()).hold([3])).status, 409, 'theirs stands');
  await (await one.admitted()).mustBuy([5]);
  await (await other.admitted()).mustHold([5]);

  // An installation that lost its keys to the other would have seen it: the leaders' probes come every 0.4 s.
  assert.deepEqual(await standing(), before);
  await one.assertAgreement();
  const client = one.redis.client();
  for (const app of [one, other]) {
    const prefix = await redisPrefix(app);
    for (const tag of [`${app.eventNo}:0`, `q:${app.eventNo}:0`]) {
      assert.equal(await client.exists(`{${prefix}:${tag}}:meta`), 1, `${prefix}:${tag}`);
    }
  }
});
