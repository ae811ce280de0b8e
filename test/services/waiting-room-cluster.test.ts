import assert from 'node:assert/strict';
import test from 'node:test';
import type { JoinOutcome } from '../../src/waiting-room/waiting-room.ts';
import { visitorNamed } from '../contract/waiting-room-cases.ts';
import { insertTestEvent } from '../contract/waiting-room-event.ts';
import { newPrefix, queueProcess, rule, turnToRedis } from '../contract/waiting-room-redis.ts';
import { testDatabase } from '../support/postgres.ts';
import { withoutRedis } from '../support/redis.ts';
import { testRedisCluster } from '../support/redis-cluster.ts';
import { until } from '../support/wait.ts';

const numbersOf = (outcomes: JoinOutcome[]): number[] =>
  outcomes.flatMap((outcome) => (outcome.kind === 'joined' ? [outcome.number] : []));

test('W1: never twice while the slot moves to another node, and when a replica that lags is promoted', {
  skip: withoutRedis,
}, async (t) => {
  const [database, cluster] = await Promise.all([testDatabase(t), testRedisCluster(t)]);
  const event = await insertTestEvent(database);
  await rule(database, event, 1);
  const prefix = newPrefix();
  const one = queueProcess(t, { database, redis: [cluster], prefix, settleMs: 60_000 });
  await turnToRedis(one, event, 1);
  const tag = `${prefix}:q:${event}:0`;
  const drawn: number[] = [];
  let people = 0;
  const join = async (): Promise<number> => {
    const names = Array.from({ length: 50 }, () => {
      people += 1;
      return visitorNamed(`c${people}`);
    });
    const numbers = numbersOf(await one.room.join(event, 0, names));
    drawn.push(...numbers);
    return numbers.length;
  };
  const modeNow = async (): Promise<string> =>
    (await database.query('SELECT mode FROM queue_counters WHERE event_no = $1', [event]))[0].mode;

  await join();
  let moved = 0;
  await cluster.migrateSlot(tag, await cluster.otherPrimary(tag), async () => {
    // Half here and half there: as well the leader as those who join may have to wait.
    if (moved++ % 10 === 0) await Promise.all([join(), one.stores.refresh(event, 1)]);
  });
  await until(async () => (await join()) > 0, 'numbers after the move');
  await one.stores.refresh(event, 1);
  assert.equal(await modeNow(), 'redis', 'a slot that moves between trusted nodes is no loss');
  assert.deepEqual(
    drawn,
    [...new Set(drawn)].toSorted((a, b) => a - b),
  );

  await cluster.holdBack(tag);
  for (let batch = 0; batch < 5; batch++) assert.equal(await join(), 50);
  const before = Math.max(...drawn);
  await cluster.failover(tag);
  while ((await modeNow()) === 'redis') {
    await join();
    await one.stores.refresh(event, 1);
  }
  assert.equal(await join(), 50);
  assert.ok(drawn.at(-50)! > before, 'numbers go on above all that were issued');
  assert.equal(new Set(drawn).size, drawn.length);
});
