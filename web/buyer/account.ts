import { storageArea } from '../shared/storage.ts';

/**
 * The token by which the platform that embeds the sale names the buyer's account: it comes behind the # of the address, which
 * reaches no server's log, and is kept as long as the tab.
 */
export function takeAccount(eventId: string): void {
  const token = new URLSearchParams(location.hash.slice(1)).get('account');
  if (!token) return;
  keep(eventId, token);
  history.replaceState(null, '', location.pathname + location.search);
}

export function accountToken(eventId: string): string | undefined {
  try {
    return storageArea('session')?.getItem(nameOf(eventId)) ?? kept.get(eventId);
  } catch {
    return kept.get(eventId);
  }
}

/** Where storage is refused it lives as long as the page. */
const kept = new Map<string, string>();
const nameOf = (eventId: string) => `onsale.${eventId}.account`;

function keep(eventId: string, token: string): void {
  kept.set(eventId, token);
  try {
    storageArea('session')?.setItem(nameOf(eventId), token);
  } catch {
    // Kept in memory.
  }
}
