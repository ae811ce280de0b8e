import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { type Hold, holdLimits } from '../../src/core/hold.ts';
import { seededRandom } from '../../src/runtime/random.ts';
import {
  type AdmissionPass,
  type Credentials,
  createCredentials,
  type QueueTicket,
  ticketLifeMs,
} from '../../src/waiting-room/credentials.ts';

const start = 1_900_000_000_000;
let now = start;
const clock = { now: () => now };
const random = seededRandom(7);
const secretOf = (fill: number): Uint8Array => new Uint8Array(32).fill(fill);
const make = (fill: number): Credentials => createCredentials({ secret: secretOf(fill), random, clock });
const credentials = make(1);

const bytes16 = fc.uint8Array({ minLength: 16, maxLength: 16 });
const visitor = bytes16.map((bytes) => Buffer.from(bytes).toString('base64url'));
const uuid = fc.uuid();
const whole = fc.maxSafeNat();
const event = fc.integer({ min: 1, max: 2 ** 31 - 1 });
const recent = fc.integer({ min: start - 60_000, max: start });
const plain = { noNullPrototype: true };
const ticket: fc.Arbitrary<QueueTicket> = fc.record(
  {
    event,
    shard: fc.nat(255),
    number: whole,
    issuedAt: recent,
    visitor,
  },
  plain,
);
const pass: fc.Arbitrary<AdmissionPass> = fc.record(
  {
    event,
    passId: uuid,
    visitor,
    number: whole,
    issuedAt: recent,
    expiresAt: fc.integer({ min: start + 1, max: start + 900_000 }),
  },
  plain,
);
const hold: fc.Arbitrary<Hold> = fc.record(
  {
    hold: uuid,
    event,
    partition: fc.nat(100),
    visitor,
    holder: fc.oneof(visitor, fc.emailAddress()),
    seats: fc
      .uniqueArray(fc.nat(2 ** 31), { minLength: 1, maxLength: holdLimits.seatsMax })
      .map((seats) => seats.toSorted((a, b) => a - b)),
    grantedAt: recent,
    deadline: recent,
    epoch: whole,
    grant: whole,
    order: fc.option(uuid, { nil: null }),
  },
  plain,
);

/** Each kind of credential with its own reader. */
const signed = fc.oneof(
  ticket.map((value) => ({ kind: 'ticket' as const, value, text: credentials.signTicket(value) })),
  pass.map((value) => ({ kind: 'pass' as const, value, text: credentials.signPass(value) })),
  hold.map((value) => ({ kind: 'receipt' as const, value, text: credentials.signReceipt(value) })),
);
type Kind = 'ticket' | 'pass' | 'receipt';
interface Bearer {
  event: number;
  visitor: string;
}
const readers: Record<Kind, (by: Credentials, text: string, bearer: Bearer) => { kind: string }> = {
  ticket: (by, text, bearer) => by.readTicket(text, bearer),
  pass: (by, text, bearer) => by.readPass(text, bearer),
  receipt: (by, text, bearer) => by.readReceipt(text, bearer),
};
const isRefused = (kind: Kind, text: string, bearer: Bearer, by: Credentials = credentials): boolean =>
  readers[kind](by, text, bearer).kind === 'invalid';

test('what was signed is read back whole by its own visitor at its own event', () => {
  fc.assert(
    fc.property(ticket, pass, hold, (t, p, h) => {
      assert.deepEqual(credentials.readTicket(credentials.signTicket(t), t), { kind: 'valid', ticket: t });
      assert.deepEqual(credentials.readPass(credentials.signPass(p), p), { kind: 'valid', pass: p });
      assert.deepEqual(credentials.readReceipt(credentials.signReceipt(h), h), { kind: 'valid', hold: h });
    }),
  );
});

test('W2: a credential with any bit flipped is refused', () => {
  fc.assert(
    fc.property(signed, fc.nat(), ({ kind, value, text }, at) => {
      const bytes = Buffer.from(text, 'base64url');
      const bit = at % (bytes.length * 8);
      bytes[bit >> 3]! ^= 1 << (bit & 7);
      assert.ok(isRefused(kind, bytes.toString('base64url'), value));
    }),
    { numRuns: 500 },
  );
});

test('W2: a credential that was cut, lengthened or rewritten in another way of base64 is refused', () => {
  fc.assert(
    fc.property(signed, fc.nat(), fc.string({ minLength: 1, maxLength: 8 }), (one, at, tail) => {
      const { kind, value, text } = one;
      assert.ok(isRefused(kind, text.slice(0, at % text.length), value));
      assert.ok(isRefused(kind, text + tail, value));
      assert.ok(isRefused(kind, tail + text, value));
      assert.ok(isRefused(kind, `${text}=`, value));
      assert.ok(isRefused(kind, `${text}\n`, value));
      const other = text.replaceAll('-', '+').replaceAll('_', '/');
      if (other !== text) assert.ok(isRefused(kind, other, value));
    }),
  );
});

test('W2: of the texts that differ in the last character only one is taken', () => {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  fc.assert(
    fc.property(signed, ({ kind, value, text }) => {
      const taken = [...alphabet].filter((last) => !isRefused(kind, text.slice(0, -1) + last, value));
      assert.deepEqual(taken, [text.at(-1)]);
    }),
    { numRuns: 50 },
  );
});

test('W2: a credential of one kind is none of the other kinds', () => {
  fc.assert(
    fc.property(signed, ({ kind, value, text }) => {
      for (const other of ['ticket', 'pass', 'receipt'] as const) {
        assert.equal(isRefused(other, text, value), other !== kind);
      }
    }),
  );
});

test('W2: a credential for another event, or without its visitor’s secret, is refused and says which', () => {
  fc.assert(
    fc.property(ticket, visitor, (t, other) => {
      fc.pre(other !== t.visitor);
      const text = credentials.signTicket(t);
      assert.deepEqual(credentials.readTicket(text, { ...t, event: t.event + 1 }), {
        kind: 'invalid',
        reason: 'event',
      });
      assert.deepEqual(credentials.readTicket(text, { ...t, visitor: other }), {
        kind: 'invalid',
        reason: 'visitor',
      });
    }),
  );
});

test('W2: a credential signed with another key is refused', () => {
  const others = [make(2), make(3)];
  fc.assert(
    fc.property(signed, ({ kind, value, text }) => {
      for (const other of others) assert.ok(isRefused(kind, text, value, other));
    }),
  );
});

test('W2: hand-made bytes are refused, whatever they are', () => {
  const bearer = { event: 1, visitor: 'AAAAAAAAAAAAAAAAAAAAAA' };
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.uint8Array({ maxLength: 200 })), (made) => {
      const text = typeof made === 'string' ? made : Buffer.from(made).toString('base64url');
      for (const kind of ['ticket', 'pass', 'receipt'] as const) assert.ok(isRefused(kind, text, bearer));
    }),
    { numRuns: 500 },
  );
  assert.ok(isRefused('ticket', 'A'.repeat(1_000_000), bearer));
});

test('W2: a ticket, a pass and a receipt expire, each at its instant', (t) => {
  t.after(() => {
    now = start;
  });
  const mine = { event: 3, visitor: 'AAAAAAAAAAAAAAAAAAAAAA' };
  const passText = credentials.signPass({
    ...mine,
    passId: '0190a000-0000-7000-8000-000000000000',
    number: 9,
    issuedAt: start,
    expiresAt: start + 900_000,
  });
  const ticketText = credentials.signTicket({ ...mine, shard: 0, number: 9, issuedAt: start });
  const receiptText = credentials.signReceipt({
    ...mine,
    hold: '0190a000-0000-7000-8000-000000000000',
    partition: 0,
    holder: mine.visitor,
    seats: [1, 2],
    grantedAt: start,
    deadline: start + 600_000,
    epoch: 1,
    grant: 1,
    order: null,
  });
  const kinds = (): string[] => [
    credentials.readTicket(ticketText, mine).kind,
    credentials.readPass(passText, mine).kind,
    credentials.readReceipt(receiptText, mine).kind,
  ];
  now = start + 899_999;
  assert.deepEqual(
    kinds(),
    ['valid', 'valid', 'valid'],
    'the arbiter decides about a deadline, not the text',
  );
  now = start + 900_000;
  assert.deepEqual(kinds(), ['valid', 'expired', 'expired']);
  now = start + ticketLifeMs + 1;
  assert.deepEqual(kinds(), ['expired', 'expired', 'expired']);
});

test('keys rotate: old texts stay valid until their key is gone, ids and order secrets stay the same', () => {
  const identity = secretOf(9);
  const both = (current: number, keys: Record<number, Uint8Array>): Credentials =>
    createCredentials({ secret: { current, keys, identity }, random, clock });
  const before = both(1, { 1: secretOf(1) });
  const during = both(2, { 1: secretOf(1), 2: secretOf(2) });
  const afterwards = both(2, { 2: secretOf(2) });
  const mine = { event: 3, shard: 0, number: 1, issuedAt: start, visitor: 'AAAAAAAAAAAAAAAAAAAAAA' };
  const old = before.signTicket(mine);
  assert.equal(before.readTicket(old, mine).kind, 'valid');
  assert.equal(during.readTicket(old, mine).kind, 'valid');
  assert.equal(afterwards.readTicket(old, mine).kind, 'invalid');
  assert.equal(afterwards.readTicket(during.signTicket(mine), mine).kind, 'valid');
  const ids = [before, during, afterwards].map((one) => {
    const id = one.holdIdOf(3, mine.visitor, 'key');
    return [id, one.orderIdOf(id), one.orderSecretOf(one.orderIdOf(id))].join();
  });
  assert.equal(new Set(ids).size, 1);
});

test('a visitor is known by the secret that only its browser has', () => {
  const secrets = Array.from({ length: 200 }, () => credentials.newVisitorSecret());
  const visitors = secrets.map((secret) => credentials.visitorOf(secret));
  assert.equal(new Set(visitors).size, 200);
  for (const [index, name] of visitors.entries()) {
    assert.match(name!, /^[A-Za-z0-9_-]{22}$/);
    assert.equal(credentials.visitorOf(secrets[index]!), name);
    assert.ok(!secrets[index]!.includes(name!));
  }
  const good = secrets[0]!;
  for (const bad of ['', 'x', good.slice(1), `${good}A`, `${good}=`, ` ${good}`, good.replace(/.$/, '+')]) {
    assert.equal(credentials.visitorOf(bad), null, JSON.stringify(bad));
  }
});

test('hold and order ids are UUIDs, the same for the same request and never for another', () => {
  const form = /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
  fc.assert(
    fc.property(event, visitor, fc.string(), fc.string(), (e, v, key, otherKey) => {
      fc.pre(key !== otherKey);
      const id = credentials.holdIdOf(e, v, key);
      const order = credentials.orderIdOf(id);
      assert.match(id, form);
      assert.match(order, form);
      assert.equal(credentials.holdIdOf(e, v, key), id);
      assert.deepEqual(credentials.holdPlaceOf(id, v), { event: e, partition: 0 });
      const elsewhere = credentials.holdIdOf(e, v, key, 31);
      assert.match(elsewhere, form);
      assert.deepEqual(credentials.holdPlaceOf(elsewhere, v), { event: e, partition: 31 });
      assert.equal(credentials.holdIdIn(id, v, 31), elsewhere);
      assert.equal(credentials.holdIdIn(elsewhere, v, 0), id);
      const others = [
        elsewhere,
        credentials.holdIdOf(e + 1, v, key),
        credentials.holdIdOf(e, v, otherKey),
        make(2).holdIdOf(e, v, key),
        order,
        credentials.orderIdOf(order),
      ];
      assert.ok(!others.includes(id));
    }),
  );
});

test('an order opens with its own secret only', () => {
  fc.assert(
    fc.property(uuid, uuid, fc.string(), (order, other, text) => {
      fc.pre(order !== other);
      const secret = credentials.orderSecretOf(order);
      assert.match(secret, /^[A-Za-z0-9_-]{22}$/);
      assert.equal(credentials.orderSecretMatches(order, secret), true);
      for (const bad of [credentials.orderSecretOf(other), text, '', secret.slice(1), `${secret}A`]) {
        assert.equal(credentials.orderSecretMatches(order, bad), false);
      }
    }),
  );
});

test('a short signing secret is refused', () => {
  assert.throws(() => createCredentials({ secret: new Uint8Array(31), random, clock }), /at least 32 bytes/);
});
