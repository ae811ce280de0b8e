import { storedTicketPublicKey, ticketKeyFiles, ticketKeyId } from '../fulfilment/ticket-code.ts';
import type { Finding } from './doctor-finding.ts';

type Ask = (sql: string) => Promise<Record<string, unknown>>;

interface KnownKey {
  id: string;
  seen: string;
}

const check = 'ticket key';
/** Shows only the newest keys if there are many. */
const shownMax = 5;

/** Which key this data folder signs tickets with, and whether the installation knows others. */
export async function examineTicketKeys(ask: Ask, dataDir: string): Promise<Finding[]> {
  const { ready } = await ask("SELECT to_regclass('ticket_keys') IS NOT NULL AS ready");
  if (!ready) return [];
  const { known } = (await ask(
    `SELECT coalesce(json_agg(json_build_object('id', key_id, 'seen', to_char(last_seen_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI "UTC"'))
       ORDER BY last_seen_at DESC, key_id), '[]') AS known FROM ticket_keys`,
  )) as { known: KnownKey[] };
  const key = storedTicketPublicKey(dataDir);
  const own = key && ticketKeyId(key);
  const others = known.filter(({ id }) => id !== own);
  if (others.length === 0) {
    const detail = own ?? 'None in this data folder yet: the first start makes it.';
    return [{ check, state: 'ok', detail }];
  }
  const file = ticketKeyFiles(dataDir).privateKey;
  if (!own) {
    return [
      {
        check,
        state: 'note',
        detail: `None in this data folder, but this installation has signed with ${namesOf(others)}.`,
        remedy: `Copy ticket-key.pem of the machine that has it to ${file} before a start here makes another one.`,
      },
    ];
  }
  const isKnown = others.length < known.length;
  return [
    {
      check,
      state: 'note',
      detail: `${own}${isKnown ? '' : ', which nothing was started with yet'}; this installation knows ${others.length} more: ${namesOf(others)}.`,
      remedy: `Tickets of all of them are let in; scanners without a network need a gate list that has all. Several machines: copy one ticket-key.pem to all, here to ${file}.`,
    },
  ];
}

function namesOf(keys: readonly KnownKey[]): string {
  const names = keys.slice(0, shownMax).map(({ id, seen }) => `${id} (last started with ${seen})`);
  return [...names, ...(keys.length > shownMax ? ['…'] : [])].join(', ');
}
