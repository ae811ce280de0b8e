import { createHash, hash, hkdfSync, timingSafeEqual } from 'node:crypto';
import {
  type EventNo,
  type Hold,
  type HoldId,
  holdLimits,
  type OrderId,
  type PartitionNo,
  type Visitor,
} from '../core/hold.ts';
import { assert } from '../core/outcome.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Random } from '../runtime/random.ts';
import { createMac, type Mac, macBytes } from './mac.ts';
import { decodeReceipt, encodeReceipt } from './receipt-fields.ts';
import {
  base64urlBytes,
  createFieldReader,
  fieldsOf,
  uuidBytes,
  uuidText,
  visitorBytes,
  wholeNumber,
} from './token-fields.ts';

/** Waiting: this visitor has this number in this event's queue. `issuedAt` is epoch ms by the store's clock. */
export interface QueueTicket {
  event: EventNo;
  shard: number;
  number: number;
  issuedAt: number;
  visitor: Visitor;
}

/** Buying: opens a session until `expiresAt` (epoch ms by Postgres's clock) in which holds may be asked for. */
export interface AdmissionPass {
  event: EventNo;
  passId: string;
  visitor: Visitor;
  number: number;
  issuedAt: number;
  expiresAt: number;
}

/**
 * Why a credential is refused: `form` is no text of ours, `signature` forged, altered, of another kind or an unknown key,
 * `event` meant for another event, `visitor` a copy that came without its visitor's secret (W2).
 */
export type InvalidReason = 'form' | 'signature' | 'event' | 'visitor';
export type Invalid = { kind: 'invalid'; reason: InvalidReason };
export type TicketRead = { kind: 'valid' | 'expired'; ticket: QueueTicket } | Invalid;
export type PassRead = { kind: 'valid' | 'expired'; pass: AdmissionPass } | Invalid;
/** `expired`: past the longest life of a hold, whatever its deadline said; the arbiter decides about the deadline. */
export type ReceiptRead = { kind: 'valid' | 'expired'; hold: Hold } | Invalid;

/** The visitor and the event that a credential is presented with: both must be those that it was made for. */
export interface Bearer {
  event: EventNo;
  visitor: Visitor;
}

/**
 * Keys by id (0 to 255). New credentials are signed with `current`, those of the others stay valid until their key is
 * removed. Ids and order secrets come from `identity`, which is never rotated: orders are found by them.
 */
export interface SigningKeys {
  current: number;
  keys: Record<number, Uint8Array>;
  identity: Uint8Array;
}

export interface CredentialOptions {
  /**
   * At least 32 bytes from a strong random source. A single secret serves both as key 0 and as `identity`.
   */
  secret: Uint8Array | SigningKeys;
  random: Random;
  /** Judges expiry only, which is coarse by nature; the stores' clocks decide everything exact. */
  clock: Pick<Clock, 'now'>;
}

/**
 * Compact signed texts for what only this system verifies: kind byte, key id, length-prefixed fields, 16 bytes of
 * HMAC-SHA256, all as base64url. No algorithm to negotiate, and each credential has exactly one text.
 */
export type Credentials = ReturnType<typeof createCredentials>;

const kinds = { ticket: 1, pass: 2, receipt: 3, code: 4 } as const;
type Kind = keyof typeof kinds;
const secretBytesMin = 32;
const visitorSecretBytes = 24;
/** Masked part of a hold's id: the event's number, a zero that identifies the right visitor, the partition's number. */
const maskedBytes = 6;
/** More than an event may have (catalogue/partitions.ts); the bits that are left over tell the right visitor too. */
const partitionsEnd = 32;
/** Longer than any text we sign: refused before any work is done on it. */
const textMax = 1_400;
/** A place in line must last through a slow sale of several months, but no ticket is valid for ever. */
export const ticketLifeMs = 180 * 24 * 3_600_000;

export function createCredentials(options: CredentialOptions) {
  const { clock, random } = options;
  const keys = deriveKeys(options.secret);

  function sign(kind: Kind, fields: Uint8Array[]): string {
    const key = keys.signing.get(keys.current)?.[kind];
    assert(key, 'the current signing key exists');
    const body = Buffer.concat([Uint8Array.of(kinds[kind], keys.current), fieldsOf(fields)]);
    return Buffer.concat([body, key(body)]).toString('base64url');
  }

  /** The fields behind a signature that is ours, or why there are none. */
  function verify(kind: Kind, text: string): Buffer | Invalid {
    if (typeof text !== 'string' || text.length > textMax) return { kind: 'invalid', reason: 'form' };
    const bytes = base64urlBytes(text);
    if (bytes === null || bytes.length < 2 + macBytes) return { kind: 'invalid', reason: 'form' };
    const key = keys.signing.get(bytes[1]!)?.[kind];
    if (bytes[0] !== kinds[kind] || key === undefined) return { kind: 'invalid', reason: 'signature' };
    const body = bytes.subarray(0, -macBytes);
    if (!timingSafeEqual(key(body), bytes.subarray(-macBytes))) {
      return { kind: 'invalid', reason: 'signature' };
    }
    return body.subarray(2);
  }

  function keyedUuid(key: Mac, fields: Uint8Array[]): string {
    const bytes = Buffer.from(key(fieldsOf(fields)));
    // RFC 9562 version 8: a UUID whose bits are the maker's own.
    bytes[6] = (bytes[6]! & 0x0f) | 0x80;
    bytes[8] = (bytes[8]! & 0x3f) | 0x80;
    return uuidText(bytes);
  }

  /** Over all but the bytes that it masks. */
  const maskOf = (visitor: Visitor, name: Uint8Array): Buffer =>
    keys.holdEvent(fieldsOf([visitorBytes(visitor), name.subarray(maskedBytes)]));

  /** The event and partition inside, and how to put others there. */
  function masked(hold: HoldId | Buffer, visitor: Visitor) {
    const name = Buffer.from(typeof hold === 'string' ? uuidBytes(hold) : hold);
    const mask = maskOf(visitor, name);
    const head = Buffer.from(name.subarray(0, maskedBytes).map((byte, i) => byte ^ mask[i]!));
    return {
      event: head.readUInt32BE(0),
      zero: head[4]!,
      partition: head[5]!,
      with(event: EventNo, partition: PartitionNo): HoldId {
        assert(partition >= 0 && partition < partitionsEnd, 'a partition that fits into an id');
        const clear = Buffer.alloc(maskedBytes);
        clear.writeUInt32BE(event);
        clear[5] = partition;
        for (const [i, byte] of clear.entries()) name[i] = byte ^ mask[i]!;
        return uuidText(name);
      },
    };
  }

  const orderSecretBytes = (order: OrderId) => keys.orderSecret(uuidBytes(order));

  return {
    /** 32 characters for the browser's HttpOnly cookie. Only the browser stores it. */
    newVisitorSecret: (): string => Buffer.from(random.bytes(visitorSecretBytes)).toString('base64url'),

    visitorOf,

    signTicket: (ticket: QueueTicket): string =>
      sign('ticket', [
        wholeNumber(ticket.event),
        wholeNumber(ticket.shard),
        wholeNumber(ticket.number),
        wholeNumber(ticket.issuedAt),
        visitorBytes(ticket.visitor),
      ]),

    readTicket(text: string, bearer: Bearer): TicketRead {
      const body = verify('ticket', text);
      if ('kind' in body) return body;
      const reader = createFieldReader(body);
      const ticket: QueueTicket = {
        event: reader.number(),
        shard: reader.number(),
        number: reader.number(),
        issuedAt: reader.number(),
        visitor: reader.bytes().toString('base64url'),
      };
      reader.end();
      return (
        refused(ticket, bearer) ?? {
          kind: clock.now() > ticket.issuedAt + ticketLifeMs ? 'expired' : 'valid',
          ticket,
        }
      );
    },

    signPass: (pass: AdmissionPass): string =>
      sign('pass', [
        wholeNumber(pass.event),
        uuidBytes(pass.passId),
        visitorBytes(pass.visitor),
        wholeNumber(pass.number),
        wholeNumber(pass.issuedAt),
        wholeNumber(pass.expiresAt),
      ]),

    readPass(text: string, bearer: Bearer): PassRead {
      const body = verify('pass', text);
      if ('kind' in body) return body;
      const reader = createFieldReader(body);
      const pass: AdmissionPass = {
        event: reader.number(),
        passId: uuidText(reader.bytes()),
        visitor: reader.bytes().toString('base64url'),
        number: reader.number(),
        issuedAt: reader.number(),
        expiresAt: reader.number(),
      };
      reader.end();
      return refused(pass, bearer) ?? { kind: clock.now() >= pass.expiresAt ? 'expired' : 'valid', pass };
    },

    signReceipt: (hold: Hold): string => sign('receipt', encodeReceipt(hold)),

    readReceipt(text: string, bearer: Bearer): ReceiptRead {
      const body = verify('receipt', text);
      if ('kind' in body) return body;
      const hold = decodeReceipt(body);
      const over = hold.grantedAt + holdLimits.lifeMaxMs;
      return refused(hold, bearer) ?? { kind: clock.now() >= over ? 'expired' : 'valid', hold };
    },

    /** For the cookie of a browser that has shown an access code of this event (its canonical text). */
    signAcceptedCode: (code: string, event: EventNo): string =>
      sign('code', [wholeNumber(event), Buffer.from(code)]),

    /** Returns the code, or null for a text that we did not sign for this event. */
    readAcceptedCode(text: string, event: EventNo): string | null {
      const body = verify('code', text);
      if ('kind' in body) return null;
      const reader = createFieldReader(body);
      const [number, code] = [reader.number(), reader.bytes().toString()];
      reader.end();
      return number === event ? code : null;
    },

    /**
     * A repeated request names the same hold, and no other visitor can name it. The numbers of the event and the partition are
     * inside, masked by the visitor, so that a hold is found by its id alone, whatever store has it.
     */
    holdIdOf(event: EventNo, visitor: Visitor, idempotencyKey: string, partition: PartitionNo = 0): HoldId {
      const name = Buffer.from(
        keys.holdId(
          fieldsOf([
            wholeNumber(event),
            visitorBytes(visitor),
            createHash('sha256').update(idempotencyKey).digest(),
          ]),
        ),
      );
      // RFC 9562 version 8: a UUID whose bits are the maker's own.
      name[6] = (name[6]! & 0x0f) | 0x80;
      name[8] = (name[8]! & 0x3f) | 0x80;
      return masked(name, visitor).with(event, partition);
    },

    /** Where this visitor's hold is; null for an id that was not made for this visitor (but for one in 2,048). */
    holdPlaceOf(hold: HoldId, visitor: Visitor): { event: EventNo; partition: PartitionNo } | null {
      const { event, zero, partition } = masked(hold, visitor);
      return zero === 0 && partition < partitionsEnd ? { event, partition } : null;
    },

    /** The id that the same request has in another partition. */
    holdIdIn(hold: HoldId, visitor: Visitor, partition: PartitionNo): HoldId {
      const place = masked(hold, visitor);
      return place.with(place.event, partition);
    },

    /** One order at most comes of a hold: its identity is the hold's. */
    orderIdOf: (hold: HoldId): OrderId => keyedUuid(keys.orderId, [uuidBytes(hold)]),

    /** 16 characters for a client's address range in one event: stores keep this, never the address. */
    addressIdOf: (event: EventNo, range: string): string =>
      Buffer.from(keys.address(fieldsOf([wholeNumber(event), Buffer.from(range)])))
        .subarray(0, 12)
        .toString('base64url'),

    /** 22 characters that open the order from elsewhere; kept nowhere. */
    orderSecretOf: (order: OrderId): string => orderSecretBytes(order).toString('base64url'),

    orderSecretMatches(order: OrderId, secret: string): boolean {
      const given = base64urlBytes(secret);
      return given?.length === macBytes && timingSafeEqual(given, orderSecretBytes(order));
    },
  };
}

/**
 * The public name of a visitor: half a SHA-256 of the secret. `null` when the text is no secret of ours, so that a
 * hand-made or damaged cookie is replaced instead of becoming an identity.
 */
export function visitorOf(secret: string): Visitor | null {
  const bytes = typeof secret === 'string' ? base64urlBytes(secret) : null;
  if (bytes?.length !== visitorSecretBytes) return null;
  // In one call, and as text: this takes a third of the time of a hash object, on a route that all visitors call at the same
  // moment.
  return Buffer.from(hash('sha256', bytes, 'hex').slice(0, 32), 'hex').toString('base64url');
}

function refused(found: Bearer, bearer: Bearer): Invalid | null {
  if (found.event !== bearer.event) return { kind: 'invalid', reason: 'event' };
  // Need not be compared like a secret: the text itself contains the visitor's name in readable form.
  if (found.visitor !== bearer.visitor) return { kind: 'invalid', reason: 'visitor' };
  return null;
}

function deriveKeys(secret: Uint8Array | SigningKeys) {
  const all: SigningKeys =
    secret instanceof Uint8Array ? { current: 0, keys: { 0: secret }, identity: secret } : secret;
  const signing = new Map<number, Record<Kind, Mac>>();
  for (const [name, bytes] of Object.entries(all.keys)) {
    const id = Number(name);
    assert(Number.isInteger(id) && id >= 0 && id <= 255, `signing key id ${name} is 0 to 255`);
    signing.set(id, {
      ticket: derive(bytes, 'queue ticket'),
      pass: derive(bytes, 'admission pass'),
      receipt: derive(bytes, 'hold receipt'),
      code: derive(bytes, 'accepted access code'),
    });
  }
  assert(signing.has(all.current), `the current signing key ${all.current} is among the keys`);
  return {
    current: all.current,
    signing,
    holdId: derive(all.identity, 'hold id'),
    holdEvent: derive(all.identity, 'event of a hold'),
    orderId: derive(all.identity, 'order id'),
    orderSecret: derive(all.identity, 'order secret'),
    address: derive(all.identity, 'address range'),
  };
}

/** One key a purpose (RFC 5869), so that no text made for one can be passed off as another. */
function derive(secret: Uint8Array, purpose: string): Mac {
  assert(secret.length >= secretBytesMin, `a signing secret has at least ${secretBytesMin} bytes`);
  return createMac(new Uint8Array(hkdfSync('sha256', secret, '', `onsale v1 ${purpose}`, 32)));
}
