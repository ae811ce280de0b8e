import assert from 'node:assert/strict';
import test from 'node:test';
import { faultOfReply, RedisFault } from '../../src/redis/faults.ts';
import { redirectionOf, slotCount, slotMapOf, slotOf } from '../../src/redis/slots.ts';
import { parseRedisUrl } from '../../src/runtime/redis-url.ts';

test('an address gives host, port, TLS, user, password and database; a cluster has several, and one password', () => {
  assert.deepEqual(parseRedisUrl('redis://10.0.0.1'), {
    value: [{ host: '10.0.0.1', port: 6379, tls: false }],
  });
  assert.deepEqual(parseRedisUrl('rediss://app:p%40ss@redis.example.org:7000/3'), {
    value: [{ host: 'redis.example.org', port: 7000, tls: true, username: 'app', password: 'p@ss', db: 3 }],
  });
  assert.deepEqual(parseRedisUrl('redis://:secret@a:1, redis://b:2,redis://[::1]:3'), {
    value: [
      { host: 'a', port: 1, tls: false, password: 'secret' },
      { host: 'b', port: 2, tls: false, username: undefined, password: 'secret' },
      { host: '::1', port: 3, tls: false, username: undefined, password: 'secret' },
    ],
  });
});

test('an address that cannot be used is named without being repeated', () => {
  for (const [text, said] of [
    ['http://tiny-secret', /not of the form/],
    ['tiny-secret', /not of the form/],
    ['redis://a/tiny-secret', /database/],
    ['redis://a/1,redis://b', /cluster/],
    ['redis://a,rediss://b', /mixes/],
    ['redis://a,', /not of the form/],
    ['redis://a?tiny-secret=1', /more than/],
    ['redis://:%zz@a', /URL-encoded/],
  ] as const) {
    const parsed = parseRedisUrl(text);
    assert.ok('problem' in parsed, text);
    assert.match(parsed.problem, said, text);
    assert.doesNotMatch(parsed.problem, /tiny-secret/);
  }
});

// From the cluster specification, and from CLUSTER KEYSLOT of Redis 7.0.
test('slots are those of Redis: what stands between the first braces counts', () => {
  assert.equal(slotOf('123456789'), 0x31c3);
  assert.equal(slotOf('foo'), 12182);
  assert.equal(slotOf('{foo}:bar'), 12182);
  assert.equal(slotOf('x{foo}{bar}'), 12182);
  assert.equal(slotOf('{}foo'), 9500);
  assert.equal(slotOf('é'), 10180);
  assert.equal(slotOf('{onsale:1:0}:meta'), 8540);
});

test('the map of slots names primaries; a node without a name is the one asked; gaps have none', () => {
  const map = slotMapOf(
    [
      [0, 1, ['10.0.0.1', 1, 'id'], ['10.0.0.9', 9, 'id']],
      [3, 3, [null, 2, 'id']],
      [4, slotCount - 1, ['?', 3, 'id']],
    ],
    'asked',
  );
  assert.deepEqual(map.slice(0, 5), ['10.0.0.1:1', '10.0.0.1:1', undefined, 'asked:2', 'asked:3']);
  assert.equal(map.length, slotCount);
  assert.deepEqual(redirectionOf('MOVED 5 10.0.0.2:7', 'asked'), {
    kind: 'MOVED',
    slot: 5,
    at: '10.0.0.2:7',
  });
  assert.deepEqual(redirectionOf('ASK 5 :7', 'asked'), { kind: 'ASK', slot: 5, at: 'asked:7' });
  assert.equal(redirectionOf('ERR MOVED nowhere', 'asked'), null);
});

test('what Redis refuses becomes a fault with its reason, also inside a script of 6.2; the rest stays a bug', () => {
  for (const [message, code, reason] of [
    [
      "OOM command not allowed when used memory > 'maxmemory'. script: 12ab, on @user_script:1.",
      'store_unavailable',
      'full',
    ],
    [
      'ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -OOM command not allowed',
      'store_unavailable',
      'full',
    ],
    ["READONLY You can't write against a read only replica.", 'store_unavailable', 'read_only'],
    ['NOREPLICAS Not enough good replicas to write.', 'store_unavailable', 'read_only'],
    ['MISCONF Redis is configured to save RDB snapshots', 'store_unavailable', 'read_only'],
    ['LOADING Redis is loading the dataset in memory', 'store_unavailable', 'unreachable'],
    ['CLUSTERDOWN Hash slot not served', 'store_unavailable', 'unreachable'],
    ['NOAUTH Authentication required.', 'store_unavailable', 'unreachable'],
    ['TRYAGAIN Multiple keys request during rehashing of slot', 'store_busy', 'busy'],
    ['BUSY Redis is busy running a script.', 'store_busy', 'busy'],
  ] as const) {
    const fault = faultOfReply(new Error(message), '10.0.0.1:6379');
    assert.ok(fault instanceof RedisFault, message);
    assert.deepEqual([fault.code, fault.reason], [code, reason], message);
    assert.ok(fault.retriable);
  }
  const bug = new Error("ERR user_script:1: Script attempted to access nonexistent global variable 'OOM'");
  assert.equal(faultOfReply(bug, '10.0.0.1:6379'), bug);
});
