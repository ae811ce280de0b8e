import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { closeUnpaid } from '../support/at-rest.ts';
import { withoutRedis } from '../support/redis.ts';
import { startRedisApp } from '../support/redis-app.ts';
import { serverProcess } from '../support/server-process.ts';
import { auditEvent } from '../support/stage.ts';

/** Processes that were stopped (SIGSTOP) across a degrade and go on with what they believed before it. */

const script = path.resolve(import.meta.dirname, '../support/stale-buyer.ts');

for (const loss of ['killed', 'flushed'] as const) {
  test(`S5 D1: stopped between extend and reserve while Redis is ${loss} and the seat is sold: refused, nothing charged`, {
    skip: withoutRedis,
  }, async (t) => {
    const app = await startRedisApp(t);
    const seat = 50;
    const orders = {
      database: app.database.url,
      simulator: app.simulator.url,
      redis: app.redis.url,
      event: app.eventNo,
      seats: [seat],
    };
    const child = spawn(process.execPath, ['--import', 'tsx', script, JSON.stringify(orders)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.after(async () => void child.kill('SIGKILL'));
    const ended = once(child, 'exit');
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const next = async () => JSON.parse((await lines.next()).value ?? '{}') as Record<string, unknown>;
    assert.ok((await next()).held);
    const epoch = (await app.row()).epoch;
    assert.deepEqual(await next(), { proved: epoch });

    if (loss === 'killed') await app.redis.kill();
    else await app.redis.flush();
    await app.untilMode('postgres');
    await app.endGrace();
    const other = await app.admitted();
    if (loss === 'flushed') {
      // Back in Redis under a new epoch: only the epoch tells that the old proof is none.
      await app.untilMode('redis');
    }
    await other.mustBuy([seat]);

    child.kill('SIGCONT');
    assert.deepEqual(await next(), { reserve: 'stale' });
    const { purchase } = await next();
    assert.equal(purchase, 'retry');
    await ended;
    await closeUnpaid(app);
    const { paid, captured } = await auditEvent(app.database, app.simulator, app.eventNo);
    assert.deepEqual([paid, captured > 0], [1, true]);
    const { intents } = await app.simulator.ledger();
    assert.equal(intents.length, 1, 'the refused purchase never reached the provider');
  });
}

test('S5 D1: a web process stopped between hold and payment sells nothing when the seat has gone, and the owner of a recovered hold buys through it', {
  skip: withoutRedis,
}, async (t) => {
  const app = await startRedisApp(t);
  const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-stale-'));
  t.after(async () => fs.rmSync(dataDir, { recursive: true, force: true }));
  const stale = await serverProcess({ ...app.env, ONSALE_DATA_DIR: dataDir }, ['--roles', 'web']);
  await stale.start();
  t.after(() => stale.kill());
  const [loser, keeper] = [await app.admitted(), await app.admitted()];
  const through = (buyer: typeof loser) => ({
    post: async (where: string, body: unknown, key = 'key') => {
      const cookie = [...buyer.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
      const answer = await fetch(`${stale.url}${where}`, {
        method: 'POST',
        headers: { cookie, 'content-type': 'application/json', 'idempotency-key': key },
        body: JSON.stringify(body),
      });
      return { status: answer.status, body: (await answer.json()) as Record<string, string> };
    },
  });
  const hold = async (buyer: typeof loser, seat: number) => {
    const held = await through(buyer).post(`/api/events/${app.event}/holds`, {
      pass: buyer.pass,
      seats: [{ seat }],
    });
    assert.equal(held.status, 201, JSON.stringify(held.body));
    return held.body;
  };
  const lost = await hold(loser, 60);
  const kept = await hold(keeper, 61);

  process.kill(stale.pid(), 'SIGSTOP');
  const buyer = { name: 'Any Buyer', email: 'any@example.org' };
  const early = through(loser).post(`/api/holds/${lost.hold}/order`, { buyer });
  await app.redis.kill();
  await app.untilMode('postgres');
  const shown = await keeper.post(`/api/holds/${kept.hold}/recover`, { receipt: kept.receipt });
  assert.equal(shown.status, 202);
  await app.endGrace();
  await (await app.admitted()).mustBuy([60]);

  process.kill(stale.pid(), 'SIGCONT');
  assert.equal((await early).status, 410);
  const ordered = await through(keeper).post(`/api/holds/${kept.hold}/order`, { buyer });
  assert.equal(ordered.status, 201, JSON.stringify(ordered.body));
  const paid = await through(keeper).post(
    `/api/orders/${ordered.body.order}/payment`,
    { paymentMethod: 'pm_card_visa' },
    'pay',
  );
  assert.equal(paid.status, 200, JSON.stringify(paid.body));
  await closeUnpaid(app);
  const { paid: sales } = await auditEvent(app.database, app.simulator, app.eventNo);
  assert.equal(sales, 2);
});
