import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import test, { type TestContext } from 'node:test';
import { createRedisStore } from '../../src/redis/client.ts';
import { RedisFault } from '../../src/redis/faults.ts';
import type { LuaScript, RedisStore } from '../../src/redis/store.ts';
import { systemClock as clock } from '../../src/runtime/clock.ts';
import { silentLogger as log } from '../../src/runtime/log.ts';
import { StoreFault } from '../../src/runtime/store-fault.ts';
import {
  infoOf,
  type TestRedis,
  testRedis,
  untilFollowedBy,
  untilReplicated,
  withoutRedis,
} from '../support/redis.ts';
import { pause, until } from '../support/wait.ts';

const skip = withoutRedis;
const tag = 'onsale:1:0';
const keys = [`{${tag}}:count`, `{${tag}}:text`];

function script(text: string): LuaScript {
  return { name: 'test', text, sha: createHash('sha1').update(text).digest('hex') };
}
const count = script("return redis.call('INCR', KEYS[1])");
const echo = script("redis.call('SET', KEYS[2], ARGV[1]) return redis.call('GET', KEYS[2])");

async function connected(
  t: TestContext,
  server: TestRedis,
  options: { url?: string } = {},
): Promise<RedisStore> {
  const store = createRedisStore({ name: 'default', url: options.url ?? server.url, clock, log });
  t.after(() => store.close());
  store.trust(tag, [server.runId]);
  if (!options.url) await store.primaries();
  return store;
}

async function faultOf(call: Promise<unknown>): Promise<RedisFault> {
  const error = await call.then(
    (value) => assert.fail(`it answered ${JSON.stringify(value)}`),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof RedisFault && error instanceof StoreFault, String(error));
  return error;
}

/** The first answer, once there is one. */
async function untilAnswered(call: () => Promise<unknown>): Promise<unknown> {
  let last: unknown;
  const found = await until(
    async () => {
      last = await call().catch((error: unknown) => error);
      return !(last instanceof Error) && { answer: last };
    },
    () => `an answer: ${last}`,
  );
  return found.answer;
}

async function untilFault(call: () => Promise<unknown>, reason: RedisFault['reason']): Promise<RedisFault> {
  return await until(async () => {
    const fault = await faultOf(call());
    return fault.reason === reason && fault;
  }, `the fault ${reason}`);
}

test('D1: a server that was started again, empty or with its old file, is refused until its new run is trusted', {
  skip,
}, async (t) => {
  const server = await testRedis(t);
  const store = await connected(t, server);
  let changes = 0;
  store.onChange(() => {
    changes += 1;
  });
  assert.equal(await store.call(tag, count, keys, []), 1);
  const stranger = await faultOf(store.call('onsale:2:0', count, ['{onsale:2:0}:count'], []));
  assert.equal(stranger.reason, 'untrusted', 'a tag that nothing was said about');
  await server.save();
  for (const what of ['saved', 'empty'] as const) {
    await server.restart(what);
    const fault = await untilFault(() => store.call(tag, count, keys, []), 'untrusted');
    assert.equal(fault.code, 'store_unavailable');
    assert.equal(await server.client().get(keys[0]!), what === 'saved' ? '1' : null, 'nothing was done');
  }
  assert.ok(changes >= 4, 'each loss and each new connection was told');
  const [primary] = await store.primaries();
  assert.equal(primary?.runId, server.runId);
  store.trust(tag, [primary!.runId]);
  assert.equal(await store.call(tag, count, keys, []), 1);
  store.trust(tag, null);
  assert.equal((await faultOf(store.call(tag, count, keys, []))).reason, 'untrusted');
});

test('D1: a frozen server costs each call its time-out once, then fails at once, and its late replies reach no other call', {
  skip,
}, async (t) => {
  const server = await testRedis(t);
  const store = await connected(t, server);
  const ask = (text: string): Promise<unknown> => store.call(tag, echo, keys, [text]);
  assert.equal(await ask('before'), 'before');
  server.freeze();
  const before = clock.monotonic();
  const waiting = await Promise.all(Array.from({ length: 50 }, (_, index) => faultOf(ask(`lost ${index}`))));
  const took = clock.monotonic() - before;
  assert.ok(took >= 350 && took < 50 * 350, `${took} ms: its time-out, and not once for each call`);
  for (const fault of waiting) {
    assert.equal(fault.code, 'outcome_unknown');
    assert.equal(fault.reason, 'timeout');
  }
  for (let index = 0; index < 20; index += 1) {
    const fault = await faultOf(ask(`refused ${index}`));
    assert.equal(fault.code, 'store_unavailable', 'not sent at all');
    assert.equal(fault.reason, 'timeout');
  }
  await assert.rejects(store.primaries(), RedisFault);
  server.thaw();
  assert.equal(await untilAnswered(() => ask('after')), 'after');
  const answers = await Promise.all(Array.from({ length: 200 }, (_, index) => ask(`late ${index}`)));
  assert.deepEqual(
    answers,
    Array.from({ length: 200 }, (_, index) => `late ${index}`),
  );
});

test('a process of ours that was busy itself does not take Redis for slow', { skip }, async (t) => {
  const server = await testRedis(t);
  const store = await connected(t, server);
  await store.call(tag, count, keys, []);
  const calls = Array.from({ length: 100 }, () => store.call(tag, count, keys, []));
  const busyUntil = clock.monotonic() + 1_000;
  while (clock.monotonic() < busyUntil);
  assert.equal((await Promise.all(calls)).length, 100);
});

test('a script that the server does not know is loaded, and runs once a call', { skip }, async (t) => {
  const server = await testRedis(t);
  const store = await connected(t, server);
  const run = async (): Promise<number[]> =>
    (await Promise.all(Array.from({ length: 100 }, () => store.call(tag, count, keys, [])))) as number[];
  assert.deepEqual(
    (await run()).sort((a, b) => a - b),
    Array.from({ length: 100 }, (_, index) => index + 1),
  );
  await server.client().script('FLUSH');
  assert.equal(Math.max(...(await run())), 200);
  const bytes: LuaScript = { ...script("return {'\\255\\0', 1}"), buffers: true };
  assert.deepEqual(await store.call(tag, bytes, keys, []), [Buffer.from([255, 0]), 1]);
  await assert.rejects(store.call(tag, script('return nonsense()'), keys, []), (error: Error) => {
    return !(error instanceof StoreFault) && /nonsense/.test(error.message);
  });
});

test('D1: what was sent is never sent again when the connection breaks under it', { skip }, async (t) => {
  const server = await testRedis(t);
  const store = await connected(t, server);
  const meddler = server.client();
  let answered = 0;
  let unknown = 0;
  for (let round = 0; round < 10; round += 1) {
    const calls = Array.from({ length: 200 }, () =>
      store.call(tag, count, keys, []).then(
        () => {
          answered += 1;
        },
        (error: RedisFault) => {
          if (error.code === 'outcome_unknown') unknown += 1;
          else assert.equal(error.code, 'store_unavailable');
        },
      ),
    );
    await meddler.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await Promise.all(calls);
    await untilAnswered(() => store.call(tag, count, keys, []));
    answered += 1;
  }
  assert.ok(unknown > 0, 'some calls were under way');
  const done = Number(await meddler.get(keys[0]!));
  assert.ok(
    answered <= done && done <= answered + unknown,
    `${answered} <= ${done} <= ${answered + unknown}`,
  );
});

test('D1: a full server and one that refuses writes do nothing and say so', { skip }, async (t) => {
  const server = await testRedis(t);
  const store = await connected(t, server);
  const meddler = server.client();
  const refused = async (reason: RedisFault['reason']): Promise<void> => {
    const fault = await untilFault(() => store.call(tag, count, keys, []), reason);
    assert.equal(fault.code, 'store_unavailable');
    assert.match(fault.message, new RegExp(`^${reason}: `));
    assert.equal(await meddler.get(keys[0]!), '1');
  };
  const readOnly = async (): Promise<boolean> => {
    const [primary] = await store.primaries();
    return primary!.readOnly;
  };
  await store.call(tag, count, keys, []);
  assert.equal(await readOnly(), false);
  const evicts = async () => (await store.primaries())[0]!.evicts;
  assert.equal(await evicts(), null);
  await meddler.config('SET', 'maxmemory-policy', 'allkeys-lfu');
  assert.equal(await evicts(), 'allkeys-lfu');
  // It would find none of our keys: they never expire.
  await meddler.config('SET', 'maxmemory-policy', 'volatile-lru');
  assert.equal(await evicts(), null);
  await meddler.config('SET', 'maxmemory-policy', 'noeviction');

  await meddler.config('SET', 'maxmemory', '1');
  await refused('full');
  await meddler.config('SET', 'maxmemory', '0');
  await meddler.config('SET', 'min-replicas-to-write', '1');
  await refused('read_only');
  assert.equal(await readOnly(), true);
  await meddler.config('SET', 'min-replicas-to-write', '0');
  await meddler.call('REPLICAOF', '127.0.0.1', '1');
  await refused('read_only');
  assert.equal(await readOnly(), true);
  await meddler.call('REPLICAOF', 'NO', 'ONE');
  assert.equal(await untilAnswered(() => store.call(tag, count, keys, [])), 2);
});

test('a server that lets us not in is named with its reason and without the password', {
  skip,
}, async (t) => {
  const server = await testRedis(t, { password: 'correct-horse' });
  const good = await connected(t, server);
  assert.equal(await good.call(tag, count, keys, []), 1);
  const address = `127.0.0.1:${server.port}`;
  for (const [url, said] of [
    [`redis://:wrong-horse@${address}`, /WRONGPASS/],
    [`redis://${address}`, /NOAUTH/],
    ['redis://127.0.0.1:1', /ECONNREFUSED/],
  ] as const) {
    const store = await connected(t, server, { url });
    const fault = await assert
      .rejects(store.primaries(), said)
      .then(() => faultOf(store.call(tag, count, keys, [])));
    assert.equal(fault.code, 'store_unavailable');
    assert.equal(fault.reason, 'unreachable');
    assert.match(fault.message, said);
    assert.doesNotMatch(fault.message, /horse/);
  }
});

test('a server’s clock is compared with ours, minus half of the round trip', { skip }, async (t) => {
  const server = await testRedis(t);
  const store = await connected(t, server);
  const [primary] = await store.primaries();
  assert.equal(primary!.address, `127.0.0.1:${server.port}`);
  assert.ok(Math.abs(primary!.time - primary!.localTime) <= primary!.roundTripMs + 2);
});

test('D1: a server that was a replica in between is refused by each process, whatever it asked meanwhile, until it is trusted again', {
  skip,
}, async (t) => {
  const settings = { 'repl-diskless-sync-delay': 0 };
  const [server, other] = await Promise.all([testRedis(t, { settings }), testRedis(t, { settings })]);
  const [asking, silent] = [await connected(t, server), await connected(t, server)];
  const [client, second] = [server.client(), other.client()];
  const trustedRun = async (): Promise<string> => (await asking.primaries())[0]!.run;
  const trustNow = async (): Promise<void> => {
    const run = await trustedRun();
    for (const store of [asking, silent]) store.trust(tag, [run]);
  };
  const alone = (): Promise<unknown> => client.replicaof('NO', 'ONE');
  /** Whatever it answers, it is not this memory's count. */
  const refuses = async (store: RedisStore): Promise<void> => {
    const fault = await faultOf(store.call(tag, count, keys, []));
    assert.equal(fault.reason, 'untrusted', fault.message);
  };
  const role = async (one: typeof client, wanted: string): Promise<void> => {
    await until(async () => (await infoOf(one)).role === wanted, `the role ${wanted}`);
  };

  const ways: [string, () => Promise<void>][] = [
    [
      'a replica of an empty copy',
      async () => {
        await client.replicaof('127.0.0.1', other.port);
        await untilReplicated(client);
        await alone();
      },
    ],
    [
      'a replica of a server that is away, so that nothing was copied',
      async () => {
        await client.replicaof('127.0.0.1', 1);
        await alone();
      },
    ],
    [
      'FAILOVER to its replica, and back',
      async () => {
        await second.replicaof('127.0.0.1', server.port);
        await untilFollowedBy(client, other.port);
        await client.call('FAILOVER', 'TO', '127.0.0.1', String(other.port));
        await role(client, 'slave');
        await untilFollowedBy(second, server.port);
        await second.call('FAILOVER', 'TO', '127.0.0.1', String(server.port));
        await Promise.all([role(client, 'master'), untilReplicated(second)]);
        await second.replicaof('NO', 'ONE');
      },
    ],
    [
      'promoted as Sentinel does it, after an election that was called back',
      async () => {
        await second.replicaof('127.0.0.1', server.port);
        await untilReplicated(second);
        // MULTI: REPLICAOF NO ONE, CONFIG REWRITE, CLIENT KILL TYPE normal; the former primary follows, and is promoted again.
        await second.replicaof('NO', 'ONE');
        await client.replicaof('127.0.0.1', other.port);
        await untilReplicated(client);
        await alone();
      },
    ],
  ];
  for (const [way, detour] of ways) {
    await trustNow();
    assert.equal(typeof (await silent.call(tag, count, keys, [])), 'number', way);
    await detour();
    await pause(60, 'longer than the last look counts');
    await refuses(silent);
    await untilFault(() => asking.call(tag, count, keys, []), 'untrusted');
  }
  await trustNow();
  assert.equal(typeof (await silent.call(tag, count, keys, [])), 'number');
});

test('a primary that gets its first replica is the same run', {
  skip,
}, async (t) => {
  const settings = { 'repl-diskless-sync-delay': 0 };
  const [server, other] = await Promise.all([testRedis(t, { settings }), testRedis(t, { settings })]);
  const store = await connected(t, server);
  const [primary] = await store.primaries();
  store.trust(tag, [primary!.run]);
  assert.equal(await store.call(tag, count, keys, []), 1);
  const replica = other.client();
  await replica.replicaof('127.0.0.1', server.port);
  await untilReplicated(replica);
  assert.notEqual((await store.primaries())[0]!.run, primary!.run, 'its replication id is another');
  await pause(60, 'longer than the last look counts');
  assert.equal(await store.call(tag, count, keys, []), 2);
});
