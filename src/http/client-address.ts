import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import ipaddr from 'ipaddr.js';
import type { PeerKind, ProxySighting } from '../health/undeclared-proxies.ts';
import { proxyAdvice } from '../health/undeclared-proxies.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';

export interface ClientAddress {
  /** Canonical text. An IPv4 address that is mapped into IPv6 is given as IPv4. */
  address: string;
  /** The client's share of the address space: an IPv4 address as it is, the /64 of an IPv6 address. Budgets count by this. */
  range: string;
}

/** The only place that reads the address of a client. Throttles, bounds and budgets by address ask here. */
export interface ClientAddresses {
  /**
   * Returns null if the address says nothing about the client: the request came through a proxy that ONSALE_TRUST_PROXY does not
   * name. Throttling by address is then off for this request, because it would count all clients behind the proxy as one.
   */
  of(request: FastifyRequest): ClientAddress | null;
  /** Reports undeclared proxies from now on. */
  watch(app: FastifyInstance): void;
}

/** Headers that reverse proxies add. */
const forwardedHeaders = [
  'x-forwarded-for',
  'forwarded',
  'x-real-ip',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-client-ip',
  'cf-connecting-ip',
  'true-client-ip',
] as const;
/** Networks of an operator. 6to4, Teredo and NAT64 addresses are not among them: clients of the public internet have those. */
const privateRanges = new Set(['loopback', 'private', 'linkLocal', 'uniqueLocal', 'carrierGradeNat']);
/** A proxy is recorded again after this long, so that `doctor` can say when it was last seen. */
const sightingEveryMs = 10 * 60_000;

export function createClientAddresses(options: {
  trustProxy: false | number | readonly string[];
  clock: Clock;
  log: Logger;
  record: (sighting: ProxySighting) => Promise<void>;
}): ClientAddresses {
  const { clock, log, record } = options;
  const isDeclared = options.trustProxy !== false;
  const recordedAt = new Map<PeerKind, number>();

  function sighted(request: FastifyRequest): void {
    const header = forwardedHeaderOf(request.headers);
    const peer = request.socket.remoteAddress;
    if (!header || peer === undefined) return;
    const peerKind = peerKindOf(peer);
    const before = recordedAt.get(peerKind);
    if (before !== undefined && clock.monotonic() - before < sightingEveryMs) return;
    recordedAt.set(peerKind, clock.monotonic());
    const sighting = { peerKind, peer: rangeOf(peer)?.address ?? peer, header };
    if (before === undefined) log.warn({ peer: sighting.peer, header }, proxyAdvice(sighting));
    record(sighting).catch((err) => log.debug({ err }, 'could not record the undeclared proxy'));
  }

  return {
    of(request) {
      if (isDeclared) return rangeOf(request.ip) ?? rangeOf(request.socket.remoteAddress);
      const peer = request.socket.remoteAddress;
      if (forwardedHeaderOf(request.headers) && peerKindOf(peer) === 'private') return null;
      return rangeOf(peer);
    },
    watch(app) {
      if (isDeclared) return;
      app.addHook('onRequest', (request, _reply, done) => {
        sighted(request);
        done();
      });
    },
  };
}

export function forwardedHeaderOf(headers: IncomingHttpHeaders): string | undefined {
  return forwardedHeaders.find((name) => headers[name] !== undefined);
}

/**
 * Any client can send a forwarded header, so a public peer that sends one is not taken for a proxy: it would switch off its own
 * throttling. A reverse proxy of the operator connects from loopback or from a network that is not public.
 */
export function peerKindOf(peer: string | undefined): PeerKind {
  const address = parsed(peer);
  return address && privateRanges.has(address.range()) ? 'private' : 'public';
}

/** Returns null for text that is not an IP address, such as `unknown` in a header from a trusted proxy. */
export function rangeOf(text: string | undefined): ClientAddress | null {
  const parsedAddress = parsed(text);
  if (!parsedAddress) return null;
  const address = parsedAddress.toString();
  if (parsedAddress instanceof ipaddr.IPv4) return { address, range: address };
  const network = new ipaddr.IPv6([...parsedAddress.parts.slice(0, 4), 0, 0, 0, 0]);
  return { address, range: `${network.toString()}/64` };
}

/** Some proxies add the port: `203.0.113.9:4711`, `[2001:db8::1]:4711`. */
function parsed(text: string | undefined): ipaddr.IPv4 | ipaddr.IPv6 | null {
  const bare = text?.replace(/^\[([^\]]*)\](:\d+)?$/, '$1').replace(/^(\d+\.\d+\.\d+\.\d+):\d+$/, '$1');
  if (!bare || !ipaddr.isValid(bare)) return null;
  // `010.1.1.1` and `1.1` are not what a proxy writes.
  if (!bare.includes(':') && !ipaddr.IPv4.isValidFourPartDecimal(bare)) return null;
  return ipaddr.process(bare);
}
