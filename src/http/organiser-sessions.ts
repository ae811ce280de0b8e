import { createHash, timingSafeEqual } from 'node:crypto';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { problem } from '../core/problems.ts';
import { Instant } from '../operate/operation.ts';
import { logAction } from '../orders/action-log.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Random } from '../runtime/random.ts';
import { tooManyAttempts, waitForSlot } from './attempts.ts';
import type { ClientAddresses } from './client-address.ts';
import { mailboxPath } from './mailbox.ts';
import type { RouteGroup } from './routes.ts';
import { problemResponses } from './schemas.ts';
import { deviceKeptDays, signInDone, signInPolicy, signInSlot, tidySignIns } from './sign-ins.ts';

export interface OrganiserAccount {
  email: string;
  password: string;
}

export interface OrganiserSessions {
  register(app: FastifyInstance): Promise<void>;
  /** The signed-in organiser's e-mail, or a 401. */
  require(request: FastifyRequest): Promise<string>;
  /** Routes of the group below /api/organiser require a signed-in organiser before they read anything else of the request. */
  guarding(group: RouteGroup): RouteGroup;
}

const whoAsks = new WeakMap<FastifyRequest, Promise<string>>();
const cookieName = 'onsale_organiser';
const sessionHours = 12;
/** A browser that has signed in before has its own budget of attempts (OWASP: device cookies). */
const deviceCookie = 'onsale_organiser_device';
const tags = ['organiser'];

export function createOrganiserSessions(deps: {
  db: Db;
  clients: ClientAddresses;
  clock: Clock;
  random: Random;
  account: OrganiserAccount;
  https: boolean;
  /** Aborted when the process stops. */
  closing: AbortSignal;
  /** The session opens the local mailbox too. */
  hasMailbox: boolean;
}): OrganiserSessions {
  const cookiePaths = ['/api/organiser', ...(deps.hasMailbox ? [mailboxPath] : [])];
  const { db, clock, random, account } = deps;

  /** Waits until the attempt may be judged. Returns the browser's device secret and what a success is reported to. */
  async function attempt(request: FastifyRequest): Promise<{ device: string; budget: string | null }> {
    const device = request.cookies[deviceCookie];
    const { budget, waitMs, refused } = await signInSlot(db, {
      range: deps.clients.of(request)?.range ?? null,
      device: device === undefined ? null : hashOf(device),
      email: account.email,
    });
    await tidySignIns(db);
    if (refused) {
      const left = waitMs - signInPolicy.waitMaxMs;
      throw tooManyAttempts('Too many sign-ins from your network failed.', left);
    }
    await waitForSlot(deps, waitMs);
    const isKnown = device !== undefined && budget?.startsWith('device:') === true;
    return { device: isKnown ? device : newSecret(), budget };
  }

  const newSecret = (): string => Buffer.from(random.bytes(32)).toString('base64url');

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
          operationId: 'signIn',
          summary: 'Sign in; the answer sets a cookie and carries the same token for Authorization: Bearer',
          description:
            'After failed attempts from the same network the answer takes up to ten seconds; 429 says when to try again.',
          body: Type.Object({
            email: Type.String({ maxLength: 254 }),
            password: Type.String({ maxLength: 1_000 }),
          }),
          response: {
            200: Type.Object({ token: Type.String(), email: Type.String(), expiresAt: Instant }),
            ...problemResponses,
          },
        },
        bodyLimit: 4 * 1024,
      },
      async (request, reply) => {
        const { device, budget } = await attempt(request);
        const { email, password } = request.body;
        if (!matches(email, password)) throw problem('sign_in_refused');
        const token = newSecret();
        const [row] = await db.query<{ expires_at: number }>(
          'session_create',
          `INSERT INTO organiser_sessions (token_hash, email, expires_at)
           VALUES ($1, $2, clock_timestamp() + make_interval(hours => $3)) RETURNING expires_at`,
          [hashOf(token), account.email, sessionHours],
        );
        await signInDone(db, { budget, device: hashOf(device), email: account.email });
        await db.query('session_tidy', 'DELETE FROM organiser_sessions WHERE expires_at < clock_timestamp()');
        await logAction(db, { actor: account.email, action: 'sign_in' });
        const flags = { httpOnly: true, sameSite: 'strict', secure: deps.https } as const;
        for (const path of cookiePaths) {
          reply.setCookie(cookieName, token, { ...flags, path, maxAge: sessionHours * 3600 });
        }
        reply.setCookie(deviceCookie, device, {
          ...flags,
          path: '/api/organiser/sessions',
          maxAge: deviceKeptDays * 24 * 3600,
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
      {
        schema: {
          tags,
          operationId: 'getSession',
          summary: 'Who is signed in',
          response: { 200: Type.Object({ email: Type.String() }), ...problemResponses },
        },
      },
      async (request) => ({
        email: await require(request),
      }),
    );
    app.delete(
      '/api/organiser/sessions',
      {
        schema: {
          tags,
          operationId: 'signOut',
          summary: 'Sign out',
          response: { 204: { type: 'null', description: 'Signed out, now or before' }, ...problemResponses },
        },
      },
      async (request, reply) => {
        const token = tokenOf(request);
        if (token) {
          await db.query('session_end', 'DELETE FROM organiser_sessions WHERE token_hash = $1', [
            hashOf(token),
          ]);
        }
        for (const path of cookiePaths) reply.clearCookie(cookieName, { path });
        return reply.code(204).send(null);
      },
    );
  }

  /** Looks the session up once for each request, however many callers ask. */
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
      [hashOf(token)],
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

/** The database stores this hash instead of the secret. */
const hashOf = (secret: string): string => digest(secret).toString('base64url');

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
