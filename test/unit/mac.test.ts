import assert from 'node:assert/strict';
import { createHmac, randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { createMac, macBytes } from '../../src/waiting-room/mac.ts';

test('a mac is the first 16 bytes of HMAC-SHA256, whatever the lengths and whatever was signed before', () => {
  for (const keyBytes of [1, 32, 63, 64]) {
    const key = randomBytes(keyBytes);
    const mac = createMac(key);
    for (const length of [2_000, 0, 1, 31, 55, 56, 63, 64, 65, 119, 120, 600, 4_096, 3]) {
      const text = randomBytes(length);
      const expected = createHmac('sha256', key).update(text).digest().subarray(0, macBytes);
      assert.deepEqual(mac(text), expected, `${keyBytes} bytes of key, ${length} of text`);
    }
  }
});

test('RFC 4231: test cases 1, 2 and 4', () => {
  const cases: [string, string, string][] = [
    ['0b'.repeat(20), '4869205468657265', 'b0344c61d8db38535ca8afceaf0bf12b'],
    [
      '4a656665',
      '7768617420646f2079612077616e7420666f72206e6f7468696e673f',
      '5bdcc146bf60754e6a042426089575c7',
    ],
    [
      Buffer.from(Array.from({ length: 25 }, (_, at) => at + 1)).toString('hex'),
      'cd'.repeat(50),
      '82558a389a443c0ea4cc819899f2083a',
    ],
  ];
  for (const [key, text, expected] of cases)
    assert.equal(createMac(Buffer.from(key, 'hex'))(Buffer.from(text, 'hex')).toString('hex'), expected);
});

test('a key longer than a block, an empty key and a text over the maximum are bugs', () => {
  assert.throws(() => createMac(new Uint8Array(65)));
  assert.throws(() => createMac(new Uint8Array(0)));
  assert.throws(() => createMac(randomBytes(32))(new Uint8Array(4_097)));
});
