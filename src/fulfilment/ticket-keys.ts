import { createPublicKey, type KeyObject } from 'node:crypto';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import { recordedTicketKeys } from './recorded-ticket-keys.ts';
import { type TicketCodeRead, type TicketKeys, ticketKeysOf, verifyTicketCode } from './ticket-code.ts';

/** The installation's public keys: this process's own, and those that others started with before or elsewhere. */
export interface TicketKeyring {
  /**
   * Reads a code by whichever key it names. A key that is not known here is looked for in the record, at most once a second,
   * so that forged codes make no load; when the record cannot be asked, that is a fault and not a refusal.
   */
  verify(text: string): Promise<TicketCodeRead>;
  /** Reads all keys again: the own one first, then the one that a process started with last. */
  all(): Promise<KeyObject[]>;
}

const lookEveryMs = 1_000;

/** `own`: the data folder's; null where there is none. */
export function createTicketKeyring(parts: { db: Db; own: KeyObject | null; clock: Clock }): TicketKeyring {
  const { db, own, clock } = parts;
  let known = ticketKeysOf(own ? [own] : []);
  let looked: { at: number; keys: Promise<TicketKeys> } | undefined;

  async function all(): Promise<KeyObject[]> {
    const recorded = (await recordedTicketKeys(db)).map((pem) => createPublicKey(pem));
    return own ? [own, ...recorded.filter((key) => !key.equals(own))] : recorded;
  }

  /** All who ask within the second have the same answer, also where it is a fault. */
  function look(): Promise<TicketKeys> {
    const now = clock.monotonic();
    if (!looked || now - looked.at >= lookEveryMs) looked = { at: now, keys: all().then(ticketKeysOf) };
    return looked.keys;
  }

  return {
    all,
    async verify(text) {
      const read = verifyTicketCode(known, text);
      if (read.kind !== 'other_key') return read;
      known = await look();
      return verifyTicketCode(known, text);
    },
  };
}
