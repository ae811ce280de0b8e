import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { createApp } from '../../src/app/app.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { readConfig } from '../../src/runtime/config.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { until } from '../support/app.ts';
import { withoutRedis } from '../support/redis.ts';
import { startRedisApp } from '../support/redis-app.ts';

interface Ready {
  status: number;
  body: { parts?: { redis?: { ok: boolean; reason?: string } } };
}

async function readyOf(url: string): Promise<Ready> {
  const answer = await fetch(`${url}/readyz`);
  return { status: answer.status, body: (await answer.json()) as Ready['body'] };
}

test('D1: a web process that alone cannot reach the Redis that arbitrates says so and asks for no buyers; one of which all have lost it goes on', {
  skip: withoutRedis,
}, async (t) => {
  const app = await startRedisApp(t);
  // An event with nothing under way rests after some seconds, and then no leader watches its Redis.
  assert.equal((await (await app.admitted()).hold([1])).status, 201);
  const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-ready-'));
  const read = readConfig({
    ...app.env,
    // A port without a server.
    REDIS_URL: 'redis://127.0.0.1:1',
    ONSALE_DATA_DIR: dataDir,
    PORT: '0',
  });
  assert.ok(read.kind === 'ok');
  const runtime = { clock: systemClock, random: systemRandom, log: silentLogger };
  const web = await createApp(read.config, { ...runtime, roles: ['web'] });
  t.after(async () => {
    await web.stop();
    fs.rmSync(dataDir, { recursive: true, force: true });
  });
  await until(
    async () => (await readyOf(web.url!)).status === 503,
    'the process without Redis to be unready',
  );
  const alone = await readyOf(web.url!);
  assert.match(alone.body.parts?.redis?.reason ?? '', /this process cannot reach default/);
  assert.equal((await readyOf(app.url)).status, 200, 'the others go on');

  await app.redis.kill();
  await app.untilMode('postgres');
  for (const url of [app.url, web.url!]) {
    await until(async () => (await readyOf(url)).status === 200, 'Postgres carries the sale for both');
  }
});
