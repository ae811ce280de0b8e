import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Opened, problemOfCode } from '../booking/rights.ts';
import type { EventId, EventNo } from '../core/hold.ts';
import { canonicalCode, hasLocks, noRights } from '../core/prices.ts';
import type { CodeLook } from '../orders/access-codes.ts';
import type { EventRecord } from '../orders/record.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Credentials } from '../waiting-room/credentials.ts';
import { createAttemptSlots, tooManyAttempts, waitForSlot } from './attempts.ts';
import type { ClientAddresses } from './client-address.ts';
import { visitorCookie } from './visitor.ts';

/**
 * Decides who may buy what only access codes open. A browser presents its code once and then carries it in a cookie that we
 * signed. Only presenting a code is throttled; requests with an accepted code never are.
 */
export interface AccessCodes {
  /** Accepts a code that a buyer typed. Rejects one that opens nothing. */
  present(request: FastifyRequest, reply: FastifyReply, event: EventRecord, text: string): Promise<CodeLook>;
  drop(reply: FastifyReply, event: EventId): void;
  /** The rights of the request. Reads no store for events where codes open nothing. */
  of(request: FastifyRequest, event: EventRecord): Promise<Opened>;
}

export interface AccessCodesOptions {
  clients: ClientAddresses;
  credentials: Pick<Credentials, 'signAcceptedCode' | 'readAcceptedCode' | 'visitorOf'>;
  clock: Clock;
  /** Aborted when the process stops. */
  closing: AbortSignal;
  publicUrl: () => string;
  look: (event: EventNo, code: string) => Promise<CodeLook | null>;
}

/** Seconds: as long as anybody thinks of the same sale. */
const cookieMaxAge = 3 * 24 * 3600;
/**
 * Wrong codes of one visitor: five at once, then slower and slower, 360 an hour for good. Each event has its own count, in the
 * memory of each web process: the counts only slow guessing down, and strangers should not cause writes to Postgres during a
 * presale. docs/operating/prices-and-codes.md has the arithmetic.
 */
const visitorPolicy = { spacingsMs: [0, 0, 0, 0, 0, 2_000, 5_000, 10_000], forgetMs: 60_000 };
/** Wrong codes of one address range, which families, offices and mobile networks share: 20 at once, then one a second. */
const rangePolicy = { spacingsMs: [...Array<number>(20).fill(0), 1_000], forgetMs: 30_000 };
/** A code that would have to wait longer is refused at once. */
const waitMaxMs = 10_000;

const cookieName = (event: EventId) => `onsale_code_${event}`;

export function createAccessCodes(options: AccessCodesOptions): AccessCodes {
  const { clients, credentials, clock, publicUrl, look } = options;
  const visitors = createAttemptSlots(clock, visitorPolicy);
  const ranges = createAttemptSlots(clock, rangePolicy);
  const flags = () => ({
    httpOnly: true,
    sameSite: 'lax' as const,
    secure: publicUrl().startsWith('https://'),
    // Orders are made below /api/holds too.
    path: '/api/',
  });

  /** The code that this browser has shown before. */
  function acceptedBy(request: FastifyRequest, event: EventRecord): string | null {
    const text = request.cookies[cookieName(event.event)];
    return text === undefined ? null : credentials.readAcceptedCode(text, event.eventNo);
  }

  /** Looks at a code in the next free slot of the visitor and of the address. Only wrong codes keep their slots. */
  async function judge(request: FastifyRequest, event: EventRecord, code: string | null) {
    const secret = request.cookies[visitorCookie];
    const visitor = secret === undefined ? null : credentials.visitorOf(secret);
    const range = clients.of(request)?.range ?? null;
    const budgets = [
      ...(visitor === null ? [] : [{ slots: visitors, subject: `${event.eventNo} ${visitor}` }]),
      ...(range === null ? [] : [{ slots: ranges, subject: `${event.eventNo} ${range}` }]),
    ];
    const waitMs = Math.max(0, ...budgets.map(({ slots, subject }) => slots.waitMs(subject)));
    if (waitMs > waitMaxMs) {
      throw tooManyAttempts(
        'Too many wrong access codes came from you or your network.',
        waitMs - waitMaxMs,
        '/code',
      );
    }
    for (const { slots, subject } of budgets) slots.take(subject);
    await waitForSlot(options, waitMs);
    const found = code === null ? null : await look(event.eventNo, code);
    if (found) for (const { slots, subject } of budgets) slots.giveBack(subject);
    return found;
  }

  return {
    async present(request, reply, event, text) {
      const code = canonicalCode(text);
      const isAccepted = code !== null && code === acceptedBy(request, event);
      const found = isAccepted ? await look(event.eventNo, code) : await judge(request, event, code);
      if (!found || found.refusal) throw problemOfCode(found?.refusal ?? 'unknown');
      const signed = credentials.signAcceptedCode(found.code, event.eventNo);
      reply.setCookie(cookieName(event.event), signed, { ...flags(), maxAge: cookieMaxAge });
      return found;
    },
    drop(reply, event) {
      reply.clearCookie(cookieName(event), flags());
    },
    async of(request, event) {
      const text = hasLocks(event, event.presale === true) ? acceptedBy(request, event) : null;
      if (text === null) return { rights: noRights, code: null, refused: null };
      const code = await look(event.eventNo, text);
      const refused = code ? code.refusal : 'unknown';
      return { rights: code && !refused ? code : noRights, code, refused };
    },
  };
}
