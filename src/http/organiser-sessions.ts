import { createHash, timingSafeEqual } from 'node:crypto';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { Clock } from '../runtime/clock.ts';
import type { Random } from '../runtime/random.ts';
import { audit } from '../sales/audit.ts';
import type { Db } from '../sales/db.ts';
import type { ClientAddresses } from './client-address.ts';
import { problem } from './errors.ts';
import type { RouteGroup } from './server.ts';

export interface OrganiserAccount {
  email: string;
  password: string;
}

export interface OrganiserSessions {
  register(app: FastifyInstance): Promise<void>;
  /** The signed-in organiser's e-mail, or a 401. */
  require(request: FastifyRequest): Promise<string>;
  /** The group's routes below /api/organiser answer nobody else, before they look at anything else of the request. */
  guarding(group: RouteGroup): RouteGroup;
}

const whoAsks = new WeakMap<FastifyRequest, Promise<string>>();
const cookieName = 'onsale_organiser';
const sessionHours = 12;
/** Refused sign-ins per address before it has to wait, and how long. */
const refusalsMax = 10;
const refusalWindowMs = 10 * 60_000;
const addressesMax = 10_000;
const tags = ['organiser'];

export function createOrganiserSessions(deps: {
  db: Db;
  clients: ClientAddresses;
  clock: Clock;
  random: Random;
  account: OrganiserAccount;
  https: boolean;
}): OrganiserSessions {
  const { db, clock, random, account } = deps;
  const refusals = new Map<string, { count: number; since: number }>();

  function throttle(address: string): void {
    const seen = refusals.get(address);
    if (!seen) return;
    const left = seen.since + refusalWindowMs - clock.monotonic();
    if (left <= 0) refusals.delete(address);
    else if (seen.count >= refusalsMax) throw problem('too_many_requests', { retryAfterMs: left });
  }

  function noteRefusal(address: string): void {
    if (refusals.size >= addressesMax) refusals.clear();
    const seen = refusals.get(address) ?? { count: 0, since: clock.monotonic() };
    refusals.set(address, { ...seen, count: seen.count + 1 });
  }

  function matches(email: string, password: string): boolean {
    // Both are always compared, as digests of equal length: the time taken tells nothing.
    const mail = timingSafeEqual(digest(email.trim().toLowerCase()), digest(account.email));
    const word = timingSafeEqual(digest(password), digest(account.password));
    return mail && word;
  }

  async function register(root: FastifyInstance): Promise<void> {
    const app = root.withTypeProvider<TypeBoxTypeProvider>();
    app.post(
      '/api/organiser/sessions',
      {
        schema: {
          tags,
          summary: 'Sign in; the answer sets a cookie and carries the same token for Authorization: Bearer',
          body: Type.Object({
            email: Type.String({ maxLength: 254 }),
            password: Type.String({ maxLength: 1_000 }),
          }),
        },
        bodyLimit: 4 * 1024,
      },
      async (request, reply) => {
        const address = deps.clients.of(request)?.range;
        if (address !== undefined) throttle(address);
        const { email, password } = request.body;
        if (!matches(email, password)) {
          if (address !== undefined) noteRefusal(address);
          throw problem('sign_in_refused');
        }
        const token = Buffer.from(random.bytes(32)).toString('base64url');
        const [row] = await db.query<{ expires_at: number }>(
          'session_create',
          `INSERT INTO organiser_sessions (token_hash, email, expires_at)
           VALUES ($1, $2, clock_timestamp() + make_interval(hours => $3)) RETURNING expires_at`,
          [digest(token).toString('base64url'), account.email, sessionHours],
        );
        await db.query('session_tidy', 'DELETE FROM organiser_sessions WHERE expires_at < clock_timestamp()');
        await audit(db, { actor: account.email, action: 'sign_in' });
        reply.setCookie(cookieName, token, {
          httpOnly: true,
          sameSite: 'strict',
          secure: deps.https,
          path: '/api/organiser',
          maxAge: sessionHours * 3600,
        });
        return {
          token,
          email: account.email,
          expiresAt: new Date(row?.expires_at ?? clock.now()).toISOString(),
        };
      },
    );
    app.get(
      '/api/organiser/sessions',
      { schema: { tags, summary: 'Who is signed in' } },
      async (request) => ({
        email: await require(request),
      }),
    );
    app.delete(
      '/api/organiser/sessions',
      { schema: { tags, summary: 'Sign out' } },
      async (request, reply) => {
        const token = tokenOf(request);
        if (token) {
          await db.query('session_end', 'DELETE FROM organiser_sessions WHERE token_hash = $1', [
            digest(token).toString('base64url'),
          ]);
        }
        return reply.clearCookie(cookieName, { path: '/api/organiser' }).code(204).send();
      },
    );
  }

  /** Once a request, however many ask. */
  function require(request: FastifyRequest): Promise<string> {
    const known = whoAsks.get(request) ?? find(request);
    whoAsks.set(request, known);
    return known;
  }

  const guarding = (group: RouteGroup): RouteGroup => {
    return async (scope) => {
      scope.addHook('onRequest', async (request) => {
        const { url } = request.routeOptions;
        const signing = url === '/api/organiser/sessions' && request.method !== 'GET';
        if (url?.startsWith('/api/organiser/') && !signing) await require(request);
      });
      await group(scope);
    };
  };

  async function find(request: FastifyRequest): Promise<string> {
    const token = tokenOf(request);
    if (!token) throw problem('sign_in_required');
    const [row] = await db.query<{ email: string }>(
      'session_find',
      'SELECT email FROM organiser_sessions WHERE token_hash = $1 AND expires_at > clock_timestamp()',
      [digest(token).toString('base64url')],
    );
    // A session ends with the account it was opened for: another e-mail in the configuration, another organiser.
    if (row?.email !== account.email) throw problem('sign_in_required');
    return row.email;
  }

  return { register, require, guarding };
}

function tokenOf(request: FastifyRequest): string | undefined {
  const header = request.headers.authorization;
  if (header?.startsWith('Bearer ')) return header.slice(7);
  return request.cookies[cookieName];
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
