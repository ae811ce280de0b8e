import dns from 'node:dns/promises';
import net from 'node:net';
import ipaddr from 'ipaddr.js';
import type { Clock } from '../runtime/clock.ts';

/**
 * The addresses that webhooks may be sent to. An organiser names the address, and the server that sends is inside a network:
 * without this rule the organiser could have it call the database's machine or a cloud's metadata (server-side request forgery,
 * OWASP ASVS 5.0 1.3.6).
 */
export interface AddressRule {
  /** Loopback, private and link-local addresses too, and http: for tests and receivers in one's own network. */
  privateAllowed: boolean;
}

/** Every address of a name, as text. Rejects when there is none. */
export type Resolve = (host: string, signal: AbortSignal) => Promise<string[]>;

const globalV6 = ipaddr.IPv6.parse('2000::');
const globalV6Bits = 3;

/** Anybody's on the public internet: not a network's own, not one that another address is hidden in. */
export function isPublicAddress(text: string): boolean {
  if (net.isIP(text) === 0) return false;
  const address = ipaddr.process(text);
  if (address.range() !== 'unicast') return false;
  // The rest of IPv6 is not given to anybody, or is ::127.0.0.1 and the like.
  return address instanceof ipaddr.IPv4 || address.match(globalV6, globalV6Bits);
}

/** The host of a URL as sockets and resolvers take it: no brackets. */
export function hostOf(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, '$1');
}

const ownNetwork =
  'For receivers in your own network start Onsale, and its command line, with ONSALE_WEBHOOKS_PRIVATE=yes.';

/** Why this text cannot be an endpoint's address, as a sentence. Null if no fault can be seen before it is called. */
export function urlFault(text: string, rule: AddressRule): string | null {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol)) return 'Enter an https:// address.';
  if (url.username || url.password) return 'The address may not hold a user or password.';
  if (url.hash) return 'Leave out the part behind #: it is never sent.';
  if (rule.privateAllowed) return null;
  if (url.protocol !== 'https:') {
    return `Enter an https:// address: deliveries go over the public internet. ${ownNetwork}`;
  }
  const host = hostOf(url);
  if (net.isIP(host) !== 0 && !isPublicAddress(host)) {
    return `This address is not on the public internet. ${ownNetwork}`;
  }
  // A name with a single label (`postgres`) is known only in a private network.
  const isOwnName = net.isIP(host) === 0 && !/[^.]\.[^.]/.test(host);
  if (isOwnName || /\.(localhost|local|internal)\.?$/.test(host)) {
    return `This name is not on the public internet. ${ownNetwork}`;
  }
  return null;
}

/** Why an attempt was not even begun: in words that tell nothing about our network. */
export class AddressRefused extends Error {
  override readonly name = 'AddressRefused';
}

/** Nothing is known of the name now; that may change. */
class NameUnknown extends AddressRefused {}

/**
 * The addresses that a connection may be made to: all of the name's, each of them looked at; one that is not allowed refuses
 * the whole name. The caller connects to these and asks no resolver again, so that a name that changes meanwhile (DNS
 * rebinding) changes nothing.
 */
export async function allowedAddresses(
  host: string,
  rule: AddressRule,
  resolve: Resolve,
  signal: AbortSignal,
): Promise<{ address: string; family: 4 | 6 }[]> {
  const found = net.isIP(host) === 0 ? await resolve(host, signal) : [host];
  if (found.length === 0) throw new NameUnknown('The name has no address.');
  if (!rule.privateAllowed && !found.every(isPublicAddress)) {
    throw new AddressRefused('The name leads to an address that is not on the public internet.');
  }
  return found.map((address) => ({ address, family: net.isIP(address) as 4 | 6 }));
}

/** The one judgement of an endpoint's address: when it is entered, and again before each delivery. */
export async function allowedTarget(
  text: string,
  { privateAllowed, resolve }: AddressRule & { resolve?: Resolve },
  signal: AbortSignal,
): Promise<{ url: URL; addresses: { address: string; family: 4 | 6 }[] }> {
  const fault = urlFault(text, { privateAllowed });
  if (fault) throw new AddressRefused(fault);
  const url = new URL(text);
  const ask = resolve ?? (privateAllowed ? resolveOwnName : resolvePublicName);
  return { url, addresses: await allowedAddresses(hostOf(url), { privateAllowed }, ask, signal) };
}

/** Milliseconds that the person who enters an address waits for name servers. */
const entryPatienceMs = 5_000;
const unknownName =
  'The name has no address yet, or the name servers did not answer. It was accepted, and is looked up again for each delivery: check the spelling.';

/**
 * For an address that is being entered. `fault`: it is refused. `warning`: it is accepted although nothing is known of its name, as
 * an endpoint may be entered before its name is, and a name server that is away must not keep one out.
 */
export async function judgeEntered(
  text: string,
  rule: AddressRule & { resolve?: Resolve },
  clock: Pick<Clock, 'after'>,
): Promise<{ fault: string | null; warning: string | null }> {
  const giveUp = new AbortController();
  const cancel = clock.after(entryPatienceMs, () => giveUp.abort());
  try {
    await Promise.race([
      allowedTarget(text, rule, giveUp.signal),
      new Promise((_, reject) => giveUp.signal.addEventListener('abort', () => reject(giveUp.signal.reason))),
    ]);
    return { fault: null, warning: null };
  } catch (error) {
    const isRefused = error instanceof AddressRefused && !(error instanceof NameUnknown);
    return isRefused ? { fault: error.message, warning: null } : { fault: null, warning: unknownName };
  } finally {
    cancel();
  }
}

/**
 * For names of the public internet: asks the name servers over sockets of its own. The system's resolver would occupy one of
 * few threads that files and all other names wait for, for as long as a slow name server likes.
 */
export async function resolvePublicName(host: string, signal: AbortSignal): Promise<string[]> {
  const resolver = new dns.Resolver({ timeout: 2_000, tries: 2 });
  const cancel = (): void => resolver.cancel();
  signal.addEventListener('abort', cancel, { once: true });
  try {
    const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    return answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  } finally {
    signal.removeEventListener('abort', cancel);
  }
}

/** For one's own network: the system's resolver, which knows its names. */
export async function resolveOwnName(host: string): Promise<string[]> {
  return (await dns.lookup(host, { all: true })).map(({ address }) => address);
}
