import { createHmac, timingSafeEqual } from 'node:crypto';
import type { EventId, Holder } from '../core/hold.ts';
import { platformAccount } from '../orders/accounts.ts';
import type { Clock } from '../runtime/clock.ts';

/** Longer-lived ones are refused: a token that leaks is of use for a day at most. */
const lifeMaxMs = 24 * 60 * 60_000;
const tokenLengthMax = 2_000;
const subjectForm = /^[\x21-\x7e]{1,200}$/;

export interface AccountTokens {
  /** The holder that the token names for this event. Null if the token is forged, expired, or of another event. */
  read(token: string, event: EventId): Holder | null;
}

/**
 * Identifies a buyer by a token of the platform that embeds the sale: a JSON Web Token (RFC 7519), algorithm `HS256` only,
 * signed with the shared secret. Claims: `sub` (the account, 1 to 200 printable characters), `aud` (the event's id) and `exp`
 * (seconds, at most a day ahead). Other claims are ignored.
 */
export function createAccountTokens(options: { secret: string; clock: Pick<Clock, 'now'> }): AccountTokens {
  const { secret, clock } = options;
  return {
    read(token, event) {
      if (token.length > tokenLengthMax) return null;
      const [header, payload, signature, more] = token.split('.');
      if (!header || !payload || !signature || more !== undefined) return null;
      const signed = createHmac('sha256', secret).update(`${header}.${payload}`).digest();
      const given = Buffer.from(signature, 'base64url');
      if (given.length !== signed.length || !timingSafeEqual(given, signed)) return null;
      const { alg, crit } = objectIn(header);
      // Only what is signed here is known to be; an extension that must be understood is not.
      if (alg !== 'HS256' || crit !== undefined) return null;
      const { sub, aud, exp } = objectIn(payload);
      const isForEvent = aud === event || (Array.isArray(aud) && aud.includes(event));
      if (!isForEvent || typeof sub !== 'string' || !subjectForm.test(sub)) return null;
      if (typeof exp !== 'number' || !Number.isFinite(exp)) return null;
      const left = exp * 1000 - clock.now();
      if (left <= 0 || left > lifeMaxMs) return null;
      return platformAccount(sub);
    },
  };
}

function objectIn(part: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString('utf8'));
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
