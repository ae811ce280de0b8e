import { recordedTicketKeys } from '../fulfilment/recorded-ticket-keys.ts';
import { storedTicketPublicKey, ticketKeyPem } from '../fulfilment/ticket-code.ts';
import { createTicketKeyring, type TicketKeyring } from '../fulfilment/ticket-keys.ts';
import type { Db } from '../postgres/db.ts';
import type { CliContext } from './context.ts';

/** All keys of the installation. This data folder's is the present one, unless no process ever signed with it. */
export async function keyringOf(
  { dataDir, clock }: Pick<CliContext, 'dataDir' | 'clock'>,
  db: Db,
): Promise<TicketKeyring> {
  const stored = storedTicketPublicKey(dataDir());
  const isRecorded = stored && (await recordedTicketKeys(db)).includes(ticketKeyPem(stored));
  return createTicketKeyring({ db, own: isRecorded ? stored : null, clock });
}
