import type { FastifyRequest } from 'fastify';
import type { Visitor } from '../core/hold.ts';
import { addressSeatsNow } from '../core/limits.ts';
import { type ProblemCode, problem } from '../core/problems.ts';
import type { AddressQuota } from '../inventory/arbiter.ts';
import type { EventRecord } from '../orders/record.ts';
import type { HttpDeps } from './deps.ts';
import { createPace } from './pace.ts';

export type Bounds = ReturnType<typeof createBounds>;

/**
 * Limits the requests of one browser or one address range, if the event sets such bounds (docs/operating/limits.md). Rates are
 * counted in this process's memory; the arbiter decides about the quota of an address range.
 */
export function createBounds(deps: Pick<HttpDeps, 'clock' | 'clients' | 'credentials' | 'cooldowns'>) {
  const { clock, clients, credentials, cooldowns } = deps;
  const pace = createPace({ clock });

  /** Waits are whole seconds: the header has no fractions, and the body says the same. */
  function take(code: ProblemCode, key: string, perMinute: number, reference: string): void {
    const waitMs = pace.take(key, perMinute);
    if (waitMs === 0) return;
    throw problem(code, { retryAfterMs: Math.ceil(waitMs / 1000) * 1000, extra: { reference } });
  }

  return {
    /** Before a number is drawn; a visitor who has one already does not come here. */
    checkJoin(request: FastifyRequest, event: EventRecord, visitor: Visitor): void {
      const { joinsPerMinute } = event.settings;
      const range = joinsPerMinute ? clients.of(request)?.range : undefined;
      if (!joinsPerMinute || range === undefined) return;
      take('too_many_joins', `join/${event.eventNo}/${range}`, joinsPerMinute, visitor);
    },
    /** `what`: claims to seats and attempts to pay are counted apart. */
    checkClaim(what: 'hold' | 'pay', event: EventRecord, visitor: Visitor): void {
      const { claimsPerMinute } = event.settings;
      if (!claimsPerMinute) return;
      take('too_many_claims', `${what}/${event.eventNo}/${visitor}`, claimsPerMinute, visitor);
    },
    /** Null if the event does not count by address, or the address does not identify the client. */
    addressOf(request: FastifyRequest, event: EventRecord): AddressQuota | null {
      const { settings, eventNo } = event;
      const range = settings.addressSeatsMax ? clients.of(request)?.range : undefined;
      if (range === undefined) return null;
      const id = credentials.addressIdOf(eventNo, range);
      return { id, seatsMax: addressSeatsNow(settings, cooldowns?.unpaidFrom(eventNo, id) ?? 0) };
    },
  };
}
