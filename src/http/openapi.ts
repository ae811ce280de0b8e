import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { HttpDeps } from './deps.ts';
import { errorsPage } from './errors-page.ts';
import type { App } from './routes.ts';

/** The OpenAPI document of all routes that have tags, its page, and the page of error codes. */
export async function registerDescription(app: App, deps: HttpDeps): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Onsale',
        version: '1',
        description:
          'Queue, hold, pay: the API of an on-sale. Errors are application/problem+json with a stable `code`.',
      },
      tags: [
        { name: 'reads', description: 'Shared objects: cacheable, the same for everybody, seconds old.' },
        { name: 'queue', description: 'A place in the queue, and the pass when it is called.' },
        { name: 'holds', description: 'Seats for ten minutes.' },
        { name: 'orders', description: 'From a hold to tickets.' },
        { name: 'organiser', description: 'Plans, events, the sale.' },
        { name: 'operations', description: 'For those who run it.' },
      ],
      components: {
        securitySchemes: {
          organiser: { type: 'http', scheme: 'bearer', description: 'From POST /api/organiser/sessions.' },
        },
      },
    },
    hideUntagged: true,
    transformObject: (found) =>
      'openapiObject' in found ? withNamedSchemas(found.openapiObject) : found.swaggerObject,
  });
  await app.register(swaggerUi, { routePrefix: '/docs' });
  let text: string | undefined;
  app.get('/errors', { schema: { hide: true } }, (_request, reply) =>
    reply.header('content-type', 'text/html; charset=utf-8').send(errorsPage()),
  );
  app.get('/openapi.json', { schema: { hide: true } }, (_request, reply) => {
    text ??= JSON.stringify(app.swagger());
    return reply.header('content-type', 'application/json; charset=utf-8').send(text);
  });
  deps.log.debug('routes described');
}

/** Moves each schema with a title to `components.schemas`, so that clients generated from the document have its name. */
function withNamedSchemas<T extends object>(document: T): T {
  const schemas: Record<string, unknown> = {};
  const named = (node: unknown): unknown => {
    if (Array.isArray(node)) return node.map(named);
    if (typeof node !== 'object' || node === null) return node;
    const copy = Object.fromEntries(Object.entries(node).map(([key, value]) => [key, named(value)]));
    // `info` has a title too, and no type.
    if (typeof copy.title !== 'string' || copy.type === undefined) return copy;
    const { title, ...schema } = copy;
    schemas[title] = schema;
    return { $ref: `#/components/schemas/${title}` };
  };
  const copy = named(document) as T & { components?: object };
  return { ...copy, components: { ...copy.components, schemas } };
}
