import type { Db } from '../postgres/db.ts';

/** `private`: loopback, private, link-local or otherwise not on the public internet. */
export type PeerKind = 'private' | 'public';

/** A request carried a forwarded header although ONSALE_TRUST_PROXY is not set. */
export interface ProxySighting {
  peerKind: PeerKind;
  /** The address that opened the connection. */
  peer: string;
  /** The header's name. */
  header: string;
}

/** The latest sighting of each kind is kept: web processes write it, `start` and `doctor` show it. */
export async function recordProxy(db: Db, { peerKind, peer, header }: ProxySighting): Promise<void> {
  await db.query(
    'proxy_record',
    `INSERT INTO undeclared_proxies AS known (peer_kind, peer, header) VALUES ($1, $2, $3)
     ON CONFLICT (peer_kind) DO UPDATE SET peer = excluded.peer, header = excluded.header, seen_at = clock_timestamp()`,
    [peerKind, peer.slice(0, 60), header],
  );
}

/** A proxy that was not seen for a week is not reported any more. */
export const recentProxiesQuery = `SELECT peer_kind AS "peerKind", peer, header FROM undeclared_proxies
  WHERE seen_at > clock_timestamp() - interval '7 days' ORDER BY peer_kind`;

export async function recentProxies(db: Db): Promise<ProxySighting[]> {
  return await db.query<ProxySighting>('proxies_recent', recentProxiesQuery);
}

/** The sentence for the log, for `start` and for `doctor`. */
export function proxyAdvice({ peerKind, peer, header }: ProxySighting): string {
  if (peerKind === 'public') {
    return `Requests with ${header} came from ${peer}, a public address. The header is ignored. If that is your proxy or CDN, set ONSALE_TRUST_PROXY to its addresses; otherwise all of its clients share one budget of attempts.`;
  }
  return `A proxy at ${peer} sends ${header}, but ONSALE_TRUST_PROXY is not set: the addresses of clients are unknown, so throttling by address is off. Set ONSALE_TRUST_PROXY=${peer} (or to the number of proxies in front).`;
}
