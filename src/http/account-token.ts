import { jwtVerify } from 'jose';
import type { EventId, Holder } from '../core/hold.ts';
import { platformAccount } from '../orders/accounts.ts';
import type { Clock } from '../runtime/clock.ts';

/** Longer-lived ones are refused: a token that leaks is of use for a day at most. */
const lifeMaxMs = 24 * 60 * 60_000;
const tokenLengthMax = 2_000;
const subjectForm = /^[\x21-\x7e]{1,200}$/;

export interface AccountTokens {
  /** The holder that the token names for this event. Null if the token is forged, expired, or of another event. */
  read(token: string, event: EventId): Promise<Holder | null>;
}

/**
 * Identifies a buyer by a token of the platform that embeds the sale: a JSON Web Token (RFC 7519), algorithm `HS256` only,
 * signed with the shared secret. Claims: `sub` (the account, 1 to 200 printable characters), `aud` (the event's id), `exp`
 * (seconds, at most a day ahead), optionally `nbf` (seconds). Other claims are ignored.
 */
export function createAccountTokens(options: { secret: string; clock: Pick<Clock, 'now'> }): AccountTokens {
  const { clock } = options;
  const secret = new TextEncoder().encode(options.secret);
  return {
    async read(token, event) {
      if (token.length > tokenLengthMax) return null;
      const now = clock.now();
      const claims = await jwtVerify(token, secret, {
        algorithms: ['HS256'],
        audience: event,
        requiredClaims: ['sub', 'exp'],
        currentDate: new Date(now),
      }).catch(() => null);
      if (!claims) return null;
      const { sub, exp } = claims.payload;
      if (typeof sub !== 'string' || !subjectForm.test(sub)) return null;
      if (exp === undefined || exp * 1000 - now > lifeMaxMs) return null;
      return platformAccount(sub);
    },
  };
}
