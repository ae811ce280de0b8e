import { createPublicKey, type KeyObject } from 'node:crypto';
import type { EventNo } from '../core/hold.ts';

/**
 * What a gate without a network needs: the key that codes are signed with and the tickets that were revoked, as one JSON
 * file. It tells nothing of who came in: two gates without a network may let the same ticket in twice.
 */
export interface GateList {
  format: typeof gateListFormat;
  /** Public id, and the number that codes name. */
  event: string;
  eventNo: EventNo;
  eventName: string;
  /** ISO 8601: what was revoked later is not in it. */
  asOf: string;
  /** Ed25519, PEM (SPKI). */
  publicKey: string;
  /** Ids of tickets. */
  revoked: string[];
}

export const gateListFormat = 'onsale-gate-list-1';
const bytesMax = 64 * 1024 * 1024;

export function gateListOf(parts: {
  event: { event: string; eventNo: EventNo; name: string };
  /** Epoch ms, taken before the tickets were read. */
  asOf: number;
  publicKey: KeyObject;
  revoked: readonly { ticket: string }[];
}): GateList {
  const { event, asOf, publicKey, revoked } = parts;
  return {
    format: gateListFormat,
    event: event.event,
    eventNo: event.eventNo,
    eventName: event.name,
    asOf: new Date(asOf).toISOString(),
    publicKey: publicKey.export({ format: 'pem', type: 'spki' }).toString(),
    revoked: revoked.map(({ ticket }) => ticket),
  };
}

/** A list from its file; a sentence when the text is none. */
export function readGateList(
  text: string,
): { kind: 'read'; list: GateList; publicKey: KeyObject } | { kind: 'not_one'; sentence: string } {
  const notOne = {
    kind: 'not_one' as const,
    sentence: 'This file is no gate list: "onsale ticket export" writes one.',
  };
  if (text.length > bytesMax) return notOne;
  try {
    const list = JSON.parse(text) as GateList;
    const ids = list.revoked.every((ticket) => typeof ticket === 'string');
    if (list.format !== gateListFormat || !Number.isInteger(list.eventNo) || !ids) return notOne;
    if (Number.isNaN(Date.parse(list.asOf))) return notOne;
    return { kind: 'read', list, publicKey: createPublicKey(list.publicKey) };
  } catch {
    return notOne;
  }
}
