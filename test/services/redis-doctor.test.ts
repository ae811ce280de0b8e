import assert from 'node:assert/strict';
import test from 'node:test';
import { examinePartitions } from '../../src/cli/doctor-partitions.ts';
import { examineRedis } from '../../src/cli/doctor-redis.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { readConfig } from '../../src/runtime/config.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { testDatabase } from '../support/postgres.ts';
import { testRedis, withoutRedis } from '../support/redis.ts';
import { stageEvent } from '../support/stage.ts';

async function findings(env: Record<string, string>, aheadMs = 0) {
  const outcome = readConfig({ ONSALE_DATA_DIR: '.data/nowhere', ...env });
  assert.ok(outcome.kind === 'ok', JSON.stringify(outcome));
  const clock = { ...systemClock, now: () => systemClock.now() + aheadMs };
  const found = await examineRedis(outcome.config, { clock, random: systemRandom, log: silentLogger });
  return found.map(({ check, state, detail }) => `${check} ${state} ${detail}`);
}

test('without a Redis the doctor says who arbitrates', async () => {
  assert.deepEqual(await findings({}), ['redis ok None: Postgres arbitrates.']);
});

test('the doctor finds a Redis well, and names each thing that would hurt a sale', {
  skip: withoutRedis,
}, async (t) => {
  const server = await testRedis(t, { password: 'correct-horse' });
  const meddler = server.client();
  const REDIS_URL = server.url;
  const [well, ...more] = await findings({ REDIS_URL });
  assert.match(well!, /^redis default ok 127\.0\.0\.1:\d+: version \d+\.\d+\.\d+, -?\d+ ms off our clock$/);
  assert.deepEqual(more, []);

  assert.match((await findings({ REDIS_URL }, 2_000)).join(), /wrong .* its clock is \d+ ms behind/);
  await meddler.config('SET', 'maxmemory-policy', 'allkeys-lru');
  await meddler.config('SET', 'appendonly', 'yes');
  await meddler.call('REPLICAOF', '127.0.0.1', '1');
  const ill = await findings({ REDIS_URL });
  assert.equal(ill.length, 3, ill.join('\n'));
  for (const said of [/wrong .*a replica/, /wrong .*maxmemory-policy allkeys-lru/, /note .*saves its memory/])
    assert.match(ill.join('\n'), said);

  const away = await findings({
    REDIS_URL: `redis://:wrong-horse@127.0.0.1:${server.port}`,
    ONSALE_REDIS_SERVERS: 'north=redis://127.0.0.1:1',
  });
  assert.match(away[0]!, /^redis default wrong .*WRONGPASS/);
  assert.match(away[1]!, /^redis north wrong .*ECONNREFUSED/);
  assert.doesNotMatch(away.join(), /horse/);
});

test('the doctor says who decides about the seats, and when that cannot be asked from here', async (t) => {
  const database = await testDatabase(t);
  await stageEvent(database);
  const said = async (servers: string[]) => {
    const ask = async (sql: string): Promise<Record<string, unknown>> => (await database.query(sql))[0] ?? {};
    const found = await examinePartitions(ask, servers);
    return found.map(
      ({ check, state, detail }) => `${check} ${state} ${detail.replace(/event-\w+/, 'show')}`,
    );
  };
  const change = (sql: string) => database.query(`UPDATE event_partitions SET ${sql}`);
  await change("mode = 'redis', reason = NULL, changed_at = '2026-01-02 03:04:05+00'");
  const inRedis = 'show: 1 partition decided by Redis default, since 2026-01-02 03:04:05 UTC';
  assert.deepEqual(await said(['default']), [`arbiter ok ${inRedis}`]);
  assert.deepEqual(await said(['north']), [`arbiter wrong ${inRedis}`]);
  await change("mode = 'postgres', reason = 'timeout'");
  assert.deepEqual(await said(['default']), [
    'arbiter ok show: 1 partition decided by Postgres since 2026-01-02 03:04:05 UTC: Redis default was lost (timeout)',
  ]);
});
