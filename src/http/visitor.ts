import type { FastifyReply, FastifyRequest } from 'fastify';
import type { EventId, Visitor } from '../core/hold.ts';
import type { Credentials } from '../waiting-room/credentials.ts';

/** Cookie with the browser's secret. Whichever browser has it is the visitor. */
export const visitorCookie = 'onsale_visitor';
/** As long as browsers keep a cookie at most. Seconds. */
const visitorMaxAge = 400 * 24 * 3600;
/** A place in a line is of no use for longer. Seconds. */
const ticketMaxAge = 30 * 24 * 3600;

const ticketCookie = 'onsale_ticket';

interface VisitorDeps {
  credentials: Credentials;
  publicUrl: () => string;
}

export function createVisitors({ credentials, publicUrl }: VisitorDeps) {
  const flags = () => ({
    httpOnly: true,
    sameSite: 'lax' as const,
    secure: publicUrl().startsWith('https://'),
  });

  return {
    /** Null if there is no cookie, or one that we did not set. */
    of(request: FastifyRequest): Visitor | null {
      const secret = request.cookies[visitorCookie];
      return secret ? credentials.visitorOf(secret) : null;
    },
    /** Gives the browser a secret of its own. */
    greet(reply: FastifyReply): void {
      const secret = credentials.newVisitorSecret();
      reply.setCookie(visitorCookie, secret, { ...flags(), path: '/', maxAge: visitorMaxAge });
    },
    ticketOf: (request: FastifyRequest): string | undefined => request.cookies[ticketCookie],
    /** The number has had its turn: the next join draws another one. */
    dropTicket(reply: FastifyReply, event: EventId): void {
      reply.clearCookie(ticketCookie, { ...flags(), path: `/api/events/${event}/` });
    },
    /** Bound to the event by its path, so that many events do not fill each request's headers. */
    keepTicket(reply: FastifyReply, event: EventId, ticket: string): void {
      // Written by hand, once per number of a crowd: all of it is ours and needs no escaping.
      const secure = flags().secure ? '; Secure' : '';
      reply.header(
        'set-cookie',
        `${ticketCookie}=${ticket}; Max-Age=${ticketMaxAge}; Path=/api/events/${event}/; HttpOnly${secure}; SameSite=Lax`,
      );
    },
  };
}

export type Visitors = ReturnType<typeof createVisitors>;
