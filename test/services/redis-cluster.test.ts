import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import test, { after, before, describe } from 'node:test';
import { createRedisStore } from '../../src/redis/client.ts';
import { RedisFault } from '../../src/redis/faults.ts';
import type { LuaScript, RedisStore } from '../../src/redis/store.ts';
import { systemClock as clock } from '../../src/runtime/clock.ts';
import { silentLogger as log } from '../../src/runtime/log.ts';
import { withoutRedis } from '../support/redis.ts';
import { type TestRedisCluster, testRedisCluster } from '../support/redis-cluster.ts';
import { until } from '../support/wait.ts';

/** Two keys, so that a slot can be half moved. What the two say is always the same. */
const countBoth: LuaScript = scriptOf(`redis.call('INCR', KEYS[2]) return redis.call('INCR', KEYS[1])`);
function scriptOf(text: string): LuaScript {
  return { name: 'count', text, sha: createHash('sha1').update(text).digest('hex') };
}

describe('a cluster of three primaries', { skip: withoutRedis }, () => {
  let cluster: TestRedisCluster;
  let store: RedisStore;
  before(async () => {
    cluster = await testRedisCluster();
    store = createRedisStore({ name: 'default', url: cluster.url, clock, log });
  });
  after(() => store.close());

  const countOn = (tag: string): Promise<unknown> =>
    store.call(tag, countBoth, [`{${tag}}:a`, `{${tag}}:b`], []);
  const trustAll = async (tag: string): Promise<void> => {
    const primaries = await store.primaries();
    store.trust(
      tag,
      primaries.map(({ runId }) => runId),
    );
  };
  /** Counts on, in several calls at a time, until it is stopped; returns how many were done and how many were rejected. */
  const load = (tag: string) => {
    let stopped = false;
    // A call that a starved machine kept waiting may have been done.
    const tally = { done: 0, busy: 0, unknown: 0, other: [] as string[] };
    const one = async (): Promise<void> => {
      while (!stopped) {
        const answer = await countOn(tag).catch((error: unknown) => error);
        if (typeof answer === 'number') tally.done += 1;
        else if (answer instanceof RedisFault && answer.code === 'store_busy') tally.busy += 1;
        else if (answer instanceof RedisFault && answer.reason === 'timeout') tally.unknown += 1;
        else tally.other.push(String(answer));
      }
    };
    const all = Promise.all([one(), one()]);
    return {
      tally,
      stop: async () => {
        stopped = true;
        await all;
        return tally;
      },
    };
  };

  test('each tag is served by the node that has its slot, wherever the connection began', async () => {
    const primaries = await store.primaries();
    assert.equal(primaries.length, 3);
    assert.equal(new Set(primaries.map(({ runId }) => runId)).size, 3);
    const used = new Set<number>();
    for (let event = 1; event <= 12; event += 1) {
      const tag = `onsale:${event}:0`;
      await trustAll(tag);
      assert.equal(await countOn(tag), 1);
      const primary = await cluster.primaryOf(tag);
      used.add(primary.port);
      const client = primary.client();
      assert.equal(await client.get(`{${tag}}:a`), '1');
      client.disconnect();
    }
    assert.equal(used.size, 3);
  });

  test('D1: a slot that moves to another primary under calls loses none and doubles none', async () => {
    const tag = 'onsale:moving:0';
    await trustAll(tag);
    await countOn(tag);
    const target = await cluster.otherPrimary(tag);
    const running = load(tag);
    await cluster.migrateSlot(tag, target, async (left) => {
      // While the slot is half on each node, neither may run the script. Before that the old node runs it,
      // and afterwards the new one, by ASK.
      const { done, busy } = running.tally;
      await until(
        () => (left === 1 ? running.tally.busy > busy : running.tally.done > done + 2),
        'calls at this step',
      );
    });
    const moved = running.tally.done;
    await until(() => running.tally.done > moved + 20, 'calls after the move');
    const tally = await running.stop();
    assert.deepEqual(tally.other, []);
    assert.equal(await cluster.primaryOf(tag), target);
    const client = target.client();
    const [a, b] = (await client.mget(`{${tag}}:a`, `{${tag}}:b`)).map(Number) as [number, number];
    assert.equal(a, b);
    assert.ok(a >= tally.done + 1 && a <= tally.done + 1 + tally.unknown, `${a} ${JSON.stringify(tally)}`);
    client.disconnect();
  });

  test('D1: a slot that moves to a primary which the tag does not trust is refused there', async () => {
    const tag = 'onsale:moving:1';
    const own = await cluster.primaryOf(tag);
    store.trust(tag, [own.runId]);
    assert.equal(await countOn(tag), 1);
    await cluster.migrateSlot(tag, await cluster.otherPrimary(tag));
    for (let attempt = 0; attempt < 3; attempt += 1)
      await assert.rejects(countOn(tag), { code: 'store_unavailable', reason: 'untrusted' });
  });

  test('D1: a replica that was promoted is refused until it is trusted; the other primaries go on', async () => {
    const tag = 'onsale:failing:0';
    await trustAll(tag);
    await countOn(tag);
    const lost = await cluster.primaryOf(tag);
    const elsewhere = await tagOfAnother(cluster, lost.port);
    await trustAll(elsewhere);
    await cluster.holdBack(tag);
    // Written behind the replica's back: what it will be promoted with is old.
    assert.equal(await countOn(tag), 2);
    const running = load(elsewhere);
    const { promoted } = await cluster.failover(tag);
    const others = await running.stop();
    assert.ok(others.done > 100, JSON.stringify(others));
    assert.deepEqual(others.other, []);
    let fault: unknown;
    await until(async () => {
      fault = await countOn(tag).catch((error: unknown) => error);
      return fault instanceof RedisFault && fault.reason === 'untrusted';
    }, 'the promoted node to be refused');
    const client = promoted.client();
    assert.equal(await client.get(`{${tag}}:a`), '1', 'it forgot, and nothing was done on it');
    client.disconnect();
    await trustAll(tag);
    assert.equal(await countOn(tag), 2);
  });
});

async function tagOfAnother(cluster: TestRedisCluster, port: number): Promise<string> {
  for (let event = 1; ; event += 1) {
    const tag = `onsale:other:${event}`;
    if ((await cluster.primaryOf(tag)).port !== port) return tag;
  }
}
