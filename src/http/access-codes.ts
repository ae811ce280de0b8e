import type { FastifyReply, FastifyRequest } from 'fastify';
import type { EventId, EventNo } from '../core/hold.ts';
import { areNone, canonicalCode, hasLocks, noRights, type Rights, rightsMissing } from '../core/prices.ts';
import type { Clock } from '../runtime/clock.ts';
import type { CodeLook } from '../sales/access-codes.ts';
import type { CodeRefusal, EventRecord } from '../sales/record.ts';
import type { ClientAddresses } from './client-address.ts';
import { type HttpProblem, problem } from './errors.ts';

/** What this request's access code opens. `refused`: why the one that it carries opens nothing. */
export interface Opened {
  rights: Rights;
  code: CodeLook | null;
  refused: CodeRefusal | null;
}

/** Who may buy what only codes open. A browser shows its code once and carries it in a cookie from then on. */
export interface AccessCodes {
  /** Takes a code that somebody typed; refuses one that opens nothing. */
  present(request: FastifyRequest, reply: FastifyReply, event: EventRecord, text: string): Promise<CodeLook>;
  drop(reply: FastifyReply, event: EventId): void;
  /** What the request may buy; asks nobody about events that codes open nothing of. */
  of(request: FastifyRequest, event: EventRecord): Promise<Opened>;
  /** Refuses what is needed and not opened. */
  demand(opened: Opened, event: EventRecord, needed: Rights): void;
}

export interface AccessCodesOptions {
  clients: ClientAddresses;
  clock: Clock;
  publicUrl: () => string;
  look: (event: EventNo, code: string) => Promise<CodeLook | null>;
}

/** Seconds: as long as anybody thinks of the same sale. */
const cookieMaxAge = 3 * 24 * 3600;
/** Wrong codes of one address before it has to wait. Families and offices share one, and people mistype. */
const wrongMax = 20;
const wrongWindowMs = 10 * 60_000;
const addressesMax = 10_000;

const cookieName = (event: EventId) => `onsale_code_${event}`;

export function createAccessCodes({ clients, clock, publicUrl, look }: AccessCodesOptions): AccessCodes {
  const wrong = new Map<string, { count: number; since: number }>();
  const flags = () => ({
    httpOnly: true,
    sameSite: 'lax' as const,
    secure: publicUrl().startsWith('https://'),
    // Orders are made below /api/holds too.
    path: '/api/',
  });

  /** Guessing is one thing wherever it is tried: with a form, a cookie, each request. */
  function throttle(address: string): void {
    const seen = wrong.get(address);
    if (!seen) return;
    const left = seen.since + wrongWindowMs - clock.monotonic();
    if (left <= 0) wrong.delete(address);
    else if (seen.count >= wrongMax) {
      throw problem('too_many_requests', {
        detail: 'Too many wrong access codes came from your address. Wait a few minutes and try again.',
        field: '/code',
        retryAfterMs: left,
      });
    }
  }

  function noteWrong(address: string): void {
    if (wrong.size >= addressesMax) wrong.clear();
    const seen = wrong.get(address) ?? { count: 0, since: clock.monotonic() };
    wrong.set(address, { ...seen, count: seen.count + 1 });
  }

  async function lookAt(request: FastifyRequest, event: EventRecord, text: string): Promise<Opened> {
    const address = clients.of(request)?.range;
    if (address !== undefined) throttle(address);
    const code = canonicalCode(text);
    const found = code === null ? null : await look(event.eventNo, code);
    if (!found && address !== undefined) noteWrong(address);
    const refused = found ? found.refusal : 'unknown';
    return { rights: found && !refused ? found : noRights, code: found, refused };
  }

  return {
    async present(request, reply, event, text) {
      const { code, refused } = await lookAt(request, event, text);
      if (!code || refused) throw problemOfCode(refused ?? 'unknown');
      reply.setCookie(cookieName(event.event), code.code, { ...flags(), maxAge: cookieMaxAge });
      return code;
    },
    drop(reply, event) {
      reply.clearCookie(cookieName(event), flags());
    },
    async of(request, event) {
      const text = hasLocks(event, event.presale === true)
        ? request.cookies[cookieName(event.event)]
        : undefined;
      return text ? lookAt(request, event, text) : { rights: noRights, code: null, refused: null };
    },
    demand({ rights, code, refused }, event, needed) {
      const missing = rightsMissing(needed, rights);
      if (areNone(missing)) return;
      if (refused) throw problemOfCode(refused);
      const needs = { needs: missing, opensAt: event.onSaleAt === null ? null : iso(event.onSaleAt) };
      throw problem(code ? 'code_not_for_this' : 'code_required', {
        field: '/code',
        detail: `${sentenceOf(event, missing)} ${code ? 'Your code opens other things.' : 'Enter it first.'}`,
        extra: needs,
      });
    },
  };
}

function sentenceOf(event: EventRecord, { categories, kinds, presale }: Rights): string {
  if (presale)
    return 'Until the sale opens to everybody, it is for those with an access code for the presale.';
  const names = kinds.map((id) => event.settings.kinds?.find((kind) => kind.id === id)?.name ?? id);
  return `${[...categories, ...names].join(', ')}: only with an access code.`;
}

/** Why a code cannot be used, as the buyer is told. */
export function problemOfCode(why: CodeRefusal, seatsMax?: number | null): HttpProblem {
  const field = '/code';
  switch (why) {
    case 'unknown':
      return problem('code_unknown', { field });
    case 'ended':
      return problem('code_ended', { field });
    case 'used_up':
      return problem('code_used_up', { field });
    case 'seats':
      return problem('code_seats', {
        field,
        detail: `With this access code an order may have at most ${seatsMax ?? 0} seats. Nothing was reserved.`,
        extra: { max: seatsMax ?? null },
      });
  }
}

function iso(at: number): string {
  return new Date(at).toISOString();
}
