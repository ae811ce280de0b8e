import { Type } from 'typebox';
import { problem } from '../core/problems.ts';
import type { HttpDeps } from './deps.ts';
import type { App } from './routes.ts';
import { problemResponses } from './schemas.ts';

/** Bytes: a provider's events carry whole objects. */
const webhookBodyLimit = 256 * 1024;

/** In a scope of its own: here a body is bytes, because the signature is over exactly those. */
export function registerWebhooks(
  app: App,
  { provider, checkout }: Pick<HttpDeps, 'provider' | 'checkout'>,
): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit: webhookBodyLimit }, (_request, body, done) =>
    done(null, body),
  );
  app.post(
    '/api/webhooks/stripe',
    {
      bodyLimit: webhookBodyLimit,
      schema: {
        tags: ['operations'],
        operationId: 'receiveProviderEvent',
        summary: "The payment provider's events",
        description: 'Signed by the provider. May come twice, late and out of order: the result is the same.',
        response: { 200: Type.Object({ received: Type.Literal(true) }), ...problemResponses },
      },
    },
    async (request, reply) => {
      const signature = request.headers['stripe-signature'];
      const bytes = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
      const event = provider.parseWebhook(bytes, typeof signature === 'string' ? signature : undefined);
      if (!event) throw problem('signature_invalid');
      const { id, type, object, madeBy } = event;
      await checkout.providerEvent({ id, type, object, foreign: madeBy === 'others' });
      return reply.header('cache-control', 'no-store').send({ received: true });
    },
  );
}
