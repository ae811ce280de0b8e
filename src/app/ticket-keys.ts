import { ticketKeySeen } from '../fulfilment/recorded-ticket-keys.ts';
import type { TicketKey } from '../fulfilment/ticket-code.ts';
import { storedTicketKey, ticketKeyFiles, ticketKeyId, ticketKeyPem } from '../fulfilment/ticket-code.ts';
import { createTicketKeyring, type TicketKeyring } from '../fulfilment/ticket-keys.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';

/**
 * The key that this process signs tickets with. `signs`: it is recorded before the first ticket is, so that every gate of the
 * installation lets in what was sold here, also after the data folder got lost.
 */
export async function openTicketKeys(
  { dataDir }: { dataDir: string },
  { db, clock, log, signs }: { db: Db; clock: Clock; log: Logger; signs: boolean },
): Promise<{ ticketKey: TicketKey; ticketKeys: TicketKeyring }> {
  const ticketKey = storedTicketKey(dataDir);
  const { publicKey } = ticketKey;
  if (signs) {
    const keyId = ticketKeyId(publicKey);
    const { first, others } = await ticketKeySeen(db, { keyId, publicKey: ticketKeyPem(publicKey) });
    if (first && others > 0) log.warn({ keyId }, newKeyWarning(ticketKeyFiles(dataDir).privateKey));
  }
  return { ticketKey, ticketKeys: createTicketKeyring({ db, own: publicKey, clock }) };
}

const newKeyWarning = (file: string): string =>
  `Tickets are signed with a new key from now on: ${file} is not the key that this installation signed with before (the data folder is new, or its file was lost). Tickets sold before stay valid wherever this engine checks them in, but scanners without a network that know only the earlier key refuse new tickets: give them a new gate list. If another machine has the earlier ticket-key.pem, copy it here and start again.`;
