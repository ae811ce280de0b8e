import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import {
  readTicketPublicKey,
  signTicketCode,
  storedTicketKey,
  storedTicketPublicKey,
  ticketKeyFiles,
  ticketKeysOf,
  verifyTicketCode,
} from '../../src/fulfilment/ticket-code.ts';

const code = { ticket: '0f8fad5b-d9cb-469f-a165-70867728950e', event: 12, seat: 49_999 };

function folder(t: { after(run: () => void): void }): string {
  const made = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-ticket-'));
  t.after(() => fs.rmSync(made, { recursive: true }));
  return made;
}

test('a ticket code is read back by the public key alone, from its file', (t) => {
  const dir = folder(t);
  const key = storedTicketKey(dir);
  const text = signTicketCode(key, code);
  assert.match(text, /^[A-Z2-7]{149}$/, 'alphanumeric letters of a QR code');
  const publicKey = readTicketPublicKey(ticketKeyFiles(dir).publicKey);
  assert.deepEqual(verifyTicketCode(ticketKeysOf([publicKey]), ` ${text.toLowerCase()}\n`), {
    kind: 'valid',
    code,
  });
});

test('the ticket key is made once, for its owner only', (t) => {
  const dir = folder(t);
  const text = signTicketCode(storedTicketKey(dir), code);
  assert.equal(verifyTicketCode(ticketKeysOf([storedTicketKey(dir).publicKey]), text).kind, 'valid');
  assert.equal(fs.statSync(ticketKeyFiles(dir).privateKey).mode & 0o777, 0o600);
});

test('the public key next to the ticket key follows a private key that was copied over it', (t) => {
  const [dir, other] = [folder(t), folder(t)];
  assert.equal(storedTicketPublicKey(dir), null);
  storedTicketKey(dir);
  const copied = storedTicketKey(other).publicKey;
  fs.copyFileSync(ticketKeyFiles(other).privateKey, ticketKeyFiles(dir).privateKey);
  assert.ok(storedTicketPublicKey(dir)?.equals(copied), 'before the next start');
  assert.ok(storedTicketKey(dir).publicKey.equals(copied));
  assert.ok(readTicketPublicKey(ticketKeyFiles(dir).publicKey).equals(copied));
});

test('a code is read by that of several keys which it names, and by no other', (t) => {
  const keys = [0, 1, 2].map(() => storedTicketKey(folder(t)));
  const texts = keys.map((key) => signTicketCode(key, code));
  const two = ticketKeysOf(keys.slice(0, 2).map(({ publicKey }) => publicKey));
  assert.deepEqual(
    texts.map((text) => verifyTicketCode(two, text).kind),
    ['valid', 'valid', 'other_key'],
  );
  // The third key's letters with the first one's name on them.
  const renamed = signTicketCode({ ...keys[2]!, publicKey: keys[0]!.publicKey }, code);
  assert.equal(verifyTicketCode(two, renamed).kind, 'forged');
});

test('no altered, shortened or foreign ticket code is valid', (t) => {
  const key = storedTicketKey(folder(t));
  const keys = ticketKeysOf([key.publicKey]);
  const text = signTicketCode(key, code);
  for (let i = 0; i < text.length; i++) {
    const other = text[i] === 'A' ? 'B' : 'A';
    const read = verifyTicketCode(keys, text.slice(0, i) + other + text.slice(i + 1));
    assert.notEqual(read.kind, 'valid', `letter ${i}`);
  }
  for (const cut of ['', 'A', text.slice(0, -1), `${text}0`, 'Ω'.repeat(141)]) {
    assert.equal(verifyTicketCode(keys, cut).kind, 'unreadable', JSON.stringify(cut));
  }
  const foreign = signTicketCode(storedTicketKey(folder(t)), code);
  assert.equal(verifyTicketCode(keys, foreign).kind, 'other_key');
});
