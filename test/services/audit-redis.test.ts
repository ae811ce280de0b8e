import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AuditReport } from '../../src/audit/audit.ts';
import { heldStates } from '../../src/inventory/redis/codes.ts';
import { partitionKeys, partitionTag } from '../../src/inventory/redis/scripts.ts';
import { until } from '../support/app.ts';
import { onsale as runOnsale } from '../support/onsale.ts';
import { withoutRedis } from '../support/redis.ts';
import { type RedisApp, redisPrefix, startRedisApp } from '../support/redis-app.ts';

/** Contradictions written into a Redis that arbitrates and issues numbers: `onsale audit` calls each by its name. */

async function onsaleAudit(app: RedisApp) {
  const { code, out, err } = await runOnsale(['audit', '--json'], app.env);
  const { reports } = JSON.parse(out) as { reports: AuditReport[] };
  const [report] = reports;
  assert.ok(report);
  const says = report.promises.flatMap(({ violations }) =>
    violations.map((found) => `${found.promise} ${found.says} (${found.order ?? found.hold})`),
  );
  const stateOf = (promise: string) => report.promises.find((each) => each.promise === promise)?.state;
  return { code, err, says, stateOf };
}

function assertSaid(says: readonly string[], expected: readonly RegExp[]): void {
  for (const each of expected) {
    assert.ok(
      says.some((line) => each.test(line)),
      `${each} in\n${says.join('\n')}`,
    );
  }
}

test('S5 S7 W1: onsale audit compares the holds and numbers of Redis with the record, and never reports an unread partition as kept', {
  skip: withoutRedis,
}, async (t) => {
  const app = await startRedisApp(t, { seats: 100 });
  const client = app.redis.client();
  const prefix = await redisPrefix(app);
  const [, , , state] = partitionKeys(partitionTag(prefix, app.eventNo, 0)) as [
    string,
    string,
    string,
    string,
  ];
  // The state is the first of a record's ten fields.
  const become = async (hold: string, to: (typeof heldStates)[number]): Promise<void> => {
    const record = await client.hgetBuffer(state, `h${hold}`);
    assert.equal(record?.[0], 0x9a, 'a record of ten fields');
    record[1] = heldStates.indexOf(to) + 1;
    await client.hset(state, `h${hold}`, record);
  };
  const bought: { hold: string; order: string }[] = [];
  for (const seat of [0, 2, 4]) {
    const { order } = await (await app.admitted()).mustBuy([seat]);
    const [row] = await app.database.query('SELECT hold_id FROM orders WHERE order_id = $1', [order]);
    bought.push({ hold: row.hold_id, order });
  }
  const [released, counted, forgotten] = bought as [
    (typeof bought)[0],
    (typeof bought)[0],
    (typeof bought)[0],
  ];
  const ended = Buffer.from([heldStates.indexOf('ended') + 1]);
  await until(async () => {
    const records = await Promise.all(bought.map(({ hold }) => client.hgetBuffer(state, `h${hold}`)));
    return records.every((record) => record?.[1] === ended[0]);
  }, 'the orders to be told to Redis');

  // Long ago, because the leader reports recent changes again, which would repair the following contradictions.
  await app.database.query(
    `UPDATE orders SET updated_at = updated_at - interval '1 hour' WHERE event_no = $1`,
    [app.eventNo],
  );
  await client.hdel(state, `h${forgotten.hold}`);
  const partly = await onsaleAudit(app);
  assert.deepEqual([partly.code, partly.says], [0, []], partly.err);
  assert.deepEqual(
    [partly.stateOf('S5'), partly.stateOf('S7'), partly.stateOf('W1')],
    ['partly', 'kept', 'kept'],
  );

  await become(released.hold, 'released');
  await become(counted.hold, 'ordered');
  // Beyond what the record lets it issue.
  const numbers = `{${prefix}:q:${app.eventNo}:0}:meta`;
  const ceiling = Number(await client.hget(numbers, 'ceiling'));
  await client.hset(numbers, 'ceiling', ceiling + 1);
  const broken = await onsaleAudit(app);
  assert.equal(broken.code, 1);
  assertSaid(broken.says, [
    new RegExp(`^S5 the hold was released at .*, the order .* is paid \\(${released.order}\\)`),
    // An id that led to a sale is kept without its seats and holder.
    new RegExp(`^S7 Redis counts 0 seats of holder .*, the order is paid \\(${counted.hold}\\)`),
    /^W1 Redis has issued shard 0's numbers to \d+ and stops below \d+, the record says below \d+/,
  ]);
  assert.equal(broken.says.length, 3, broken.says.join('\n'));

  await become(released.hold, 'ended');
  await become(counted.hold, 'ended');
  await client.hset(numbers, 'ceiling', ceiling);
  await client.hset(state, `h${released.hold}`, 'no record');
  const unread = await onsaleAudit(app);
  assert.equal(unread.code, 1, 'a promise that was not looked at is not kept');
  assert.deepEqual(unread.says, []);
  assert.match(
    unread.err,
    /Not all could be read, so nothing is proved of it: partition 0 could not be read/,
  );
  for (const promise of ['S2', 'S3', 'S4', 'S5', 'S6', 'S7', 'S8']) {
    assert.equal(unread.stateOf(promise), 'partly', promise);
  }
});
