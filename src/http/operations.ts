import { Type } from 'typebox';
import type { HttpDeps } from './deps.ts';
import { problem } from './errors.ts';
import { problemResponses } from './schemas.ts';
import type { App } from './server.ts';

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
        summary: 'Able to sell',
        response: { 200: Type.Object({ ok: Type.Literal(true), parts: PartsSchema }), ...problemResponses },
      },
    },
    async (_request, reply) => {
      const { ok, parts } = await ready();
      if (!ok) throw problem('not_ready', { extra: { parts }, retryAfterMs: 2_000 });
      reply.header('cache-control', 'no-store');
      return { ok: true as const, parts };
    },
  );
}
