import type { FastifyReply, FastifyRequest } from 'fastify';
import { type TSchema, Type } from 'typebox';
import { problem } from '../core/problems.ts';
import { CountsSchema, EventSchema, maxAgeSeconds, StatusSchema } from '../read-path/published.ts';
import type { SharedBytes } from '../read-path/published-reader.ts';
import type { HttpDeps } from './deps.ts';
import type { App } from './routes.ts';
import { EventParams, LayoutSchema, problemResponses, SectionParams } from './schemas.ts';

/** How long an edge may go on serving an object that it can no longer refresh. Seconds. */
const staleIfErrorSeconds = 60;
const layoutMaxAge = 365 * 24 * 3600;
const binary = Type.Unsafe<Uint8Array>({ type: 'string', format: 'binary' });
const jsonOf = (schema: TSchema, description: string) => ({
  200: { description, content: { 'application/json': { schema } } },
});
const bitsOf = (description: string) => ({
  200: { description, content: { 'application/octet-stream': { schema: binary } } },
});

/**
 * The shared objects: the same bytes for everybody, from this process's memory, cacheable by path alone. No cookie is read
 * or set, no store is asked for a status (W4), and none of these routes has the arbiter.
 */
export function registerReads(app: App, { published }: Pick<HttpDeps, 'published'>): void {
  const tags = ['reads'];
  const shared = (
    request: FastifyRequest,
    reply: FastifyReply,
    event: string,
    name: keyof typeof maxAgeSeconds,
  ): FastifyReply => {
    const object = published.get(event, name);
    if (!object) throw missing(event);
    return send(request, reply, object, cacheFor(maxAgeSeconds[name]));
  };
  const missing = (event: string) =>
    problem(published.events().includes(event) ? 'not_published' : 'unknown_event');

  app.get(
    '/api/events',
    {
      schema: {
        tags,
        operationId: 'listEvents',
        summary: 'Published events',
        response: jsonOf(Type.Object({ events: Type.Array(EventSchema) }), 'All published events'),
      },
    },
    (_request, reply) => {
      const texts = published.events().flatMap((event) => {
        const object = published.get(event, 'event');
        return object ? [Buffer.from(object.bytes).toString('utf8')] : [];
      });
      return reply
        .header('cache-control', cacheFor(maxAgeSeconds.event))
        .header('content-type', 'application/json; charset=utf-8')
        .send(Buffer.from(`{"events":[${texts.join(',')}]}`));
    },
  );
  app.get(
    '/api/events/:event',
    {
      schema: {
        tags,
        operationId: 'getEvent',
        summary: 'An event',
        params: EventParams,
        response: { ...jsonOf(EventSchema, 'Name, times, prices, limits'), ...problemResponses },
      },
    },
    async (request, reply) => shared(request, reply, request.params.event, 'event'),
  );
  app.get(
    '/api/events/:event/status',
    {
      schema: {
        tags,
        operationId: 'getStatus',
        summary: 'Queue, phase, and what is left',
        params: EventParams,
        response: { ...jsonOf(StatusSchema, 'Phase, queue, seats left'), ...problemResponses },
      },
    },
    async (request, reply) => shared(request, reply, request.params.event, 'status'),
  );
  app.get(
    '/api/events/:event/counts',
    {
      schema: {
        tags,
        operationId: 'getCounts',
        summary: 'Seats left by section and category',
        params: EventParams,
        response: { ...jsonOf(CountsSchema, 'Seats left'), ...problemResponses },
      },
    },
    async (request, reply) => shared(request, reply, request.params.event, 'counts'),
  );
  app.get(
    '/api/events/:event/availability',
    {
      schema: {
        tags,
        operationId: 'getAvailability',
        summary: 'One bit a seat',
        params: EventParams,
        response: {
          ...bitsOf('Bitset by seat_no, least significant bit first, 1 = available'),
          ...problemResponses,
        },
      },
    },
    async (request, reply) => shared(request, reply, request.params.event, 'availability'),
  );
  app.get(
    '/api/events/:event/availability/:section',
    {
      schema: {
        tags,
        operationId: 'getSectionAvailability',
        summary: 'One bit a seat of one section',
        params: SectionParams,
        response: { ...bitsOf('Bitset in the order of the section in the layout'), ...problemResponses },
      },
    },
    async (request, reply) => {
      const { event, section } = request.params;
      const object = await published.section(event, section);
      if (!object)
        throw published.get(event, 'availability')
          ? problem('not_found', { detail: 'The event has no such section.' })
          : missing(event);
      return send(request, reply, object, cacheFor(maxAgeSeconds.availability));
    },
  );
  app.get(
    '/api/events/:event/layout-:hash.json',
    {
      schema: {
        tags,
        operationId: 'getLayout',
        summary: 'The drawing, immutable',
        params: Type.Object({ event: Type.String(), hash: Type.String({ maxLength: 100 }) }),
        response: { ...jsonOf(LayoutSchema, 'Made once for each event, never changed'), ...problemResponses },
      },
    },
    async (request, reply) => {
      const { event, hash } = request.params;
      if (!published.events().includes(event)) throw problem('unknown_event');
      const object = /^[A-Za-z0-9_-]{1,100}$/.test(hash) ? await published.layout(hash) : null;
      if (!object) throw problem('not_found', { detail: 'No layout has this hash.' });
      return send(request, reply, object, `public, max-age=${layoutMaxAge}, immutable`);
    },
  );
}

function cacheFor(seconds: number): string {
  return `public, max-age=${seconds}, stale-while-revalidate=${seconds * 5}, stale-if-error=${staleIfErrorSeconds}`;
}

function send(
  request: FastifyRequest,
  reply: FastifyReply,
  object: SharedBytes,
  cacheControl: string,
): FastifyReply {
  const { bytes, encoding } = encoded(object, String(request.headers['accept-encoding'] ?? ''));
  // A strong tag names exact bytes: each encoding is another representation.
  const etag = encoding ? object.etag.replace(/"$/, `-${encoding}"`) : object.etag;
  reply.header('cache-control', cacheControl).header('etag', etag);
  if (object.gzip || object.br) reply.header('vary', 'Accept-Encoding');
  if (object.version[0] > 0) reply.header('x-onsale-version', object.version.join('.'));
  if (object.layout) reply.header('x-onsale-layout', object.layout);
  if (matches(String(request.headers['if-none-match'] ?? ''), object.etag)) return reply.code(304).send();
  if (encoding) reply.header('content-encoding', encoding);
  return reply.header('content-type', object.contentType).send(bytes);
}

function encoded(
  object: SharedBytes,
  accepted: string,
): { bytes: Uint8Array; encoding: 'br' | 'gzip' | null } {
  const accepts = (name: string): boolean =>
    new RegExp(`(^|[,\\s])${name}\\s*($|,|;(?!\\s*q=0(\\.0*)?\\s*($|,)))`).test(accepted);
  if (object.br && accepts('br')) return { bytes: object.br, encoding: 'br' };
  if (object.gzip && accepts('gzip')) return { bytes: object.gzip, encoding: 'gzip' };
  return { bytes: object.bytes, encoding: null };
}

/**
 * Whether one of the given tags names any representation of the object as it is now. A proxy may have
 * weakened the tag.
 */
function matches(given: string, etag: string): boolean {
  if (given === '') return false;
  if (given.trim() === '*') return true;
  const bare = etag.slice(1, -1);
  return given.split(',').some((tag) => {
    const name = tag.trim().replace(/^W\//, '').slice(1, -1);
    return name === bare || name === `${bare}-br` || name === `${bare}-gzip`;
  });
}
