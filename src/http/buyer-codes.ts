import { eventOf } from './buyer-queue.ts';
import type { HttpDeps } from './deps.ts';
import type { App } from './routes.ts';
import { CodeBody, CodeSchema, EventParams, problemResponses } from './schemas.ts';

const tags = ['queue'];

/** Access codes as buyers show them. */
export function registerCodes(app: App, deps: HttpDeps): void {
  const { accessCodes } = deps;

  app.post(
    '/api/events/:event/code',
    {
      schema: {
        tags,
        operationId: 'showAccessCode',
        summary: 'Enter an access code',
        description:
          'Answers what it opens, and sets a cookie that carries it: joining, holding and ordering take it from there. A use is counted when an order is made. Capitals, spaces and dashes do not matter.',
        params: EventParams,
        body: CodeBody,
        response: { 200: CodeSchema, ...problemResponses },
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store');
      const event = await eventOf(deps, request.params.event);
      const { code, categories, kinds, presale, seatsMax } = await accessCodes.present(
        request,
        reply,
        event,
        request.body.code,
      );
      return { code, categories, kinds, presale, seatsMax };
    },
  );

  app.delete(
    '/api/events/:event/code',
    {
      schema: {
        tags,
        operationId: 'forgetAccessCode',
        summary: 'Forget the access code',
        params: EventParams,
        response: { 204: { type: 'null', description: 'Forgotten' }, ...problemResponses },
      },
    },
    async (request, reply) => {
      const event = await eventOf(deps, request.params.event);
      accessCodes.drop(reply, event.event);
      return reply.header('cache-control', 'no-store').code(204).send(null);
    },
  );
}
