import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { problem } from '../core/problems.ts';
import { forwardedHeaderOf, peerKindOf } from './client-address.ts';
import type { HttpDeps } from './deps.ts';
import type { App } from './routes.ts';
import { problemResponses } from './schemas.ts';

const PartsSchema = Type.Record(
  Type.String(),
  Type.Object({ ok: Type.Boolean(), reason: Type.Optional(Type.String()) }),
);

export function registerOperations(app: App, { ready }: Pick<HttpDeps, 'ready'>): void {
  app.get(
    '/healthz',
    {
      schema: {
        tags: ['operations'],
        operationId: 'isAlive',
        summary: 'This process answers',
        response: { 200: Type.Object({ ok: Type.Literal(true) }) },
      },
    },
    async (_request, reply) => {
      reply.header('cache-control', 'no-store');
      return { ok: true as const };
    },
  );
  app.get(
    '/readyz',
    {
      schema: {
        tags: ['operations'],
        operationId: 'isReady',
        summary: 'Able to sell',
        description:
          'Each part says whether it works, and why not if the request comes straight from loopback or a private network. A part that is not `ok` in an answer 200 is degraded: selling goes on, and a person should look. `background` names loops that fail, processes that do not report and work that is overdue.',
        response: { 200: Type.Object({ ok: Type.Literal(true), parts: PartsSchema }), ...problemResponses },
      },
    },
    async (request, reply) => {
      const { ok, parts: found } = await ready();
      const parts = isFromInside(request) ? found : withoutReasons(found);
      if (!ok) throw problem('not_ready', { extra: { parts }, retryAfterMs: 2_000 });
      reply.header('cache-control', 'no-store');
      return { ok: true as const, parts };
    },
  );
}

/** Reasons may name addresses of the installation's own network. */
function withoutReasons<Part extends { reason?: string }>(parts: Record<string, Part>) {
  return Object.fromEntries(
    Object.entries(parts).map(([name, { reason: _, ...part }]) => [name, part]),
  ) as Record<string, Omit<Part, 'reason'>>;
}

/**
 * Whether the request comes neither through a proxy that says so nor from the public internet, but for
 * example from a load balancer, an orchestrator or the operator.
 */
function isFromInside(request: FastifyRequest): boolean {
  return (
    peerKindOf(request.socket.remoteAddress) === 'private' && forwardedHeaderOf(request.headers) === undefined
  );
}
