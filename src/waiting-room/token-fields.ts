import type { Visitor } from '../core/hold.ts';
import { assert } from '../core/outcome.ts';

/** The fields of our signed texts: each a length byte and its bytes. Writers assert; a reader runs only behind a signature. */

const fieldMax = 255;

export function fieldsOf(fields: readonly Uint8Array[]): Buffer {
  let length = 0;
  for (const field of fields) {
    assert(field.length <= fieldMax, 'a field has at most 255 bytes');
    length += 1 + field.length;
  }
  const body = Buffer.allocUnsafe(length);
  let at = 0;
  for (const field of fields) {
    body[at] = field.length;
    body.set(field, at + 1);
    at += 1 + field.length;
  }
  return body;
}

/** A whole number of 0 to 2^53 − 1 in as few bytes as it needs: numbers, and instants in epoch ms. */
export function wholeNumber(value: number): Uint8Array {
  assert(Number.isSafeInteger(value) && value >= 0, 'a whole number of 0 or more');
  let length = 0;
  for (let rest = value; rest > 0; rest = Math.floor(rest / 256)) length += 1;
  const bytes = new Uint8Array(length);
  for (let rest = value, at = length - 1; at >= 0; rest = Math.floor(rest / 256)) bytes[at--] = rest % 256;
  return bytes;
}

export function createFieldReader(body: Buffer) {
  let at = 0;
  function bytes(): Buffer {
    const length = body[at];
    assert(length !== undefined && at + 1 + length <= body.length, 'a signed field is whole');
    at += 1 + length;
    return body.subarray(at - length, at);
  }
  return {
    bytes,
    number: (): number => bytes().reduce((value, byte) => value * 256 + byte, 0),
    end: (): void => assert(at === body.length, 'nothing stands behind the signed fields'),
  };
}

const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export function uuidBytes(text: string): Buffer {
  assert(uuidForm.test(text), 'a UUID is lower-case hex with its dashes');
  return Buffer.from(text.replaceAll('-', ''), 'hex');
}

export function uuidText(bytes: Uint8Array): string {
  assert(bytes.length === 16, 'a UUID has 16 bytes');
  const hex = Buffer.from(bytes).toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** The bytes of a base64url text, or null unless it is the one text that those bytes have. */
export function base64urlBytes(text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.length > 0 && bytes.toString('base64url') === text ? bytes : null;
}

export function visitorBytes(visitor: Visitor): Buffer {
  const bytes = base64urlBytes(visitor);
  assert(bytes?.length === 16, 'a visitor is 16 bytes of base64url');
  return bytes;
}
