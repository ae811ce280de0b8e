import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
  verify,
} from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import type { EventNo } from '../core/hold.ts';
import { assert } from '../core/outcome.ts';
import type { SeatNo } from '../core/seat-map.ts';

/**
 * The contents of a ticket's QR code: who may enter, provable offline with the public key alone (Ed25519, RFC 8032).
 * Layout, 93 bytes: version 1, key id 4, ticket 16, event uint32, seat uint32, and a signature of 64 over all bytes before it;
 * written in base32 (RFC 4648, unpadded). Its letters fit a QR code's compact alphanumeric mode, and unlike base45 it has no
 * space that a person could lose when copying it by hand.
 */
export interface TicketCode {
  /** UUID of the ticket. */
  ticket: string;
  event: EventNo;
  seat: SeatNo;
}

export type TicketCodeRead =
  | { kind: 'valid'; code: TicketCode }
  /** The text does not have the form of our codes. */
  | { kind: 'unreadable' }
  /** Signed with a key that is not in the list: another installation's. */
  | { kind: 'other_key'; keyId: string }
  /** Altered or forged. */
  | { kind: 'forged' };

/** Messages for gate staff. */
export const codeRefusals: Record<Exclude<TicketCodeRead['kind'], 'valid'>, string> = {
  unreadable: 'This is no ticket code of ours.',
  other_key: 'This code was signed with another key.',
  forged: 'This code was altered or forged.',
};

export interface TicketKey {
  privateKey: KeyObject;
  publicKey: KeyObject;
}

/** Public keys by the id that codes name them by. */
export type TicketKeys = ReadonlyMap<string, KeyObject>;

export const ticketKeysOf = (keys: readonly KeyObject[]): TicketKeys =>
  new Map(keys.map((key) => [ticketKeyId(key), key]));

const version = 1;
const keyIdBytes = 4;
const signatureBytes = 64;
const bodyBytes = 1 + keyIdBytes + 16 + 4 + 4;
/** DER in front of a raw Ed25519 public key (RFC 8410). */
const spkiPrefixBytes = 12;
const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

export function signTicketCode(key: TicketKey, code: TicketCode): string {
  const body = Buffer.alloc(bodyBytes);
  const id = Buffer.from(code.ticket.replaceAll('-', ''), 'hex');
  assert(id.length === 16, 'a ticket is named by a UUID');
  body.writeUInt8(version, 0);
  keyIdOf(key.publicKey).copy(body, 1);
  id.copy(body, 5);
  body.writeUInt32BE(code.event, 21);
  body.writeUInt32BE(code.seat, 25);
  return toBase32(Buffer.concat([body, sign(null, body, key.privateKey)]));
}

/**
 * Verifies a code with the key that it names. Needs no network and no database: it only proves that we issued the code, not
 * that the ticket was not cancelled or used since.
 */
export function verifyTicketCode(keys: TicketKeys, text: string): TicketCodeRead {
  const bytes = fromBase32(text.trim().toUpperCase());
  if (bytes?.length !== bodyBytes + signatureBytes || bytes[0] !== version) return { kind: 'unreadable' };
  const body = bytes.subarray(0, bodyBytes);
  const keyId = body.subarray(1, 1 + keyIdBytes).toString('hex');
  const publicKey = keys.get(keyId);
  if (!publicKey) return { kind: 'other_key', keyId };
  if (!verify(null, body, publicKey, bytes.subarray(bodyBytes))) return { kind: 'forged' };
  const hex = body.subarray(5, 21).toString('hex');
  const ticket = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    hex.slice(12, 16),
    hex.slice(16, 20),
    hex.slice(20),
  ].join('-');
  return { kind: 'valid', code: { ticket, event: body.readUInt32BE(21), seat: body.readUInt32BE(25) } };
}

function keyIdOf(publicKey: KeyObject): Buffer {
  const der = publicKey.export({ format: 'der', type: 'spki' });
  return der.subarray(spkiPrefixBytes, spkiPrefixBytes + keyIdBytes);
}

/** Hex, as codes name their key. */
export function ticketKeyId(publicKey: KeyObject): string {
  return keyIdOf(publicKey).toString('hex');
}

/** PEM (SPKI). */
export function ticketKeyPem(publicKey: KeyObject): string {
  return publicKey.export({ format: 'pem', type: 'spki' }).toString();
}

/**
 * The key that signs tickets: created once, stored in the data folder (0600), with the public half next to it for the scanners.
 * An operator with several machines copies the file to each.
 */
export function ticketKeyFiles(dataDir: string): { privateKey: string; publicKey: string } {
  return {
    privateKey: path.join(dataDir, 'ticket-key.pem'),
    publicKey: path.join(dataDir, 'ticket-key.pub.pem'),
  };
}

export function storedTicketKey(dataDir: string): TicketKey {
  const files = ticketKeyFiles(dataDir);
  if (!fs.existsSync(files.privateKey)) {
    fs.mkdirSync(dataDir, { recursive: true, mode: 0o711 });
    const pem = generateKeyPairSync('ed25519').privateKey.export({ format: 'pem', type: 'pkcs8' });
    writeOnce(files.privateKey, pem.toString());
  }
  const privateKey = createPrivateKey(fs.readFileSync(files.privateKey));
  const publicKey = createPublicKey(privateKey);
  const pem = ticketKeyPem(publicKey);
  // The private half may have been copied here since, over another one.
  if (!fs.existsSync(files.publicKey) || fs.readFileSync(files.publicKey, 'utf8') !== pem) {
    fs.writeFileSync(files.publicKey, pem);
  }
  return { privateKey, publicKey };
}

/**
 * The public half of the data folder's key, or null if there is none yet. Read from the private file if this
 * process may read that.
 */
export function storedTicketPublicKey(dataDir: string): KeyObject | null {
  const files = ticketKeyFiles(dataDir);
  const file = [files.privateKey, files.publicKey].find(isReadable);
  return file === undefined ? null : readTicketPublicKey(file);
}

function isReadable(file: string): boolean {
  try {
    fs.accessSync(file, fs.constants.R_OK);
    return true;
  } catch {
    return false;
  }
}

/** Two processes that start at once end with the same key: a link is whole or not there, and replaces nothing. */
function writeOnce(file: string, text: string): void {
  const partial = `${file}.${process.pid}`;
  fs.writeFileSync(partial, text, { mode: 0o600 });
  try {
    fs.linkSync(partial, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    fs.rmSync(partial);
  }
}

export function readTicketPublicKey(file: string): KeyObject {
  return createPublicKey(fs.readFileSync(file));
}

function toBase32(bytes: Uint8Array): string {
  let text = '';
  let [buffer, bits] = [0, 0];
  for (const byte of bytes) {
    buffer = (buffer << 8) | byte;
    for (bits += 8; bits >= 5; bits -= 5) text += letters[(buffer >> (bits - 5)) & 31];
    buffer &= 31;
  }
  return bits === 0 ? text : text + letters[(buffer << (5 - bits)) & 31];
}

/** Null unless it is the one text of its bytes. */
function fromBase32(text: string): Buffer | null {
  if (text.length > 1_000) return null;
  const bytes: number[] = [];
  let [buffer, bits] = [0, 0];
  for (const letter of text) {
    const value = letters.indexOf(letter);
    if (value < 0) return null;
    buffer = ((buffer & 0xff) << 5) | value;
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      bytes.push((buffer >> bits) & 255);
    }
  }
  const read = Buffer.from(bytes);
  return toBase32(read) === text ? read : null;
}
