import { hash } from 'node:crypto';
import { assert } from '../core/outcome.ts';

export const macBytes = 16;

/** 16 bytes of HMAC-SHA256 of a text, under one key. */
export type Mac = (text: Uint8Array) => Buffer;

/** The block of SHA-256 in bytes (FIPS 180-4); a key of at most that many is used as it is (RFC 2104, section 2). */
const blockBytes = 64;
/** Longer than any text that is signed. */
const textMax = 4_096;

/**
 * HMAC-SHA256 as in RFC 2104, by two hashes of one call each. Node's `createHmac` makes an object for each
 * text, which takes three times as long, and a hold needs six of them.
 */
export function createMac(key: Uint8Array): Mac {
  assert(key.length > 0 && key.length <= blockBytes, 'a key is no longer than a block');
  const inner = Buffer.alloc(blockBytes + textMax, 0);
  const outer = Buffer.alloc(blockBytes + 32, 0);
  inner.set(key);
  outer.set(key);
  for (let at = 0; at < blockBytes; at++) {
    inner[at]! ^= 0x36;
    outer[at]! ^= 0x5c;
  }
  return (text) => {
    assert(text.length <= textMax, 'a signed text is short');
    inner.set(text, blockBytes);
    outer.write(hash('sha256', inner.subarray(0, blockBytes + text.length), 'binary'), blockBytes, 'latin1');
    return Buffer.from(hash('sha256', outer, 'binary'), 'latin1').subarray(0, macBytes);
  };
}
