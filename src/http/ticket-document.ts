import { Type } from 'typebox';
import { problem } from '../core/problems.ts';
import type { Order } from '../orders/record.ts';
import { ThreadBusy } from '../runtime/thread.ts';
import { createMyOrder, type MyOrderDeps } from './my-order.ts';
import type { App } from './routes.ts';
import { OrderParams, problemResponses } from './schemas.ts';

export interface TicketDocumentDeps extends MyOrderDeps {
  /** The order's valid tickets as PDF, one page each. Null if it has none. */
  ticketDocument(order: Order, size: 'a4' | 'phone'): Promise<Uint8Array | null>;
}

/** The ticket document of a paid order. */
export function registerTicketDocument(app: App, deps: TicketDocumentDeps): void {
  const myOrder = createMyOrder(deps);

  app.get(
    '/api/orders/:order/tickets.pdf',
    {
      schema: {
        tags: ['orders'],
        operationId: 'getTicketDocument',
        summary: 'The tickets as a document, one page each',
        description: 'For the visitor’s browser, or with `Authorization: Bearer {secret}`.',
        params: OrderParams,
        querystring: Type.Object({
          size: Type.Optional(
            Type.Union([Type.Literal('a4'), Type.Literal('phone')], {
              description:
                '`a4`, the default: to print. `phone`: as wide as the screen of a telephone. Either has a page for each ticket.',
            }),
          ),
        }),
        response: {
          200: { description: 'The document', content: { 'application/pdf': { schema: Type.Any() } } },
          ...problemResponses,
        },
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store');
      const order = await myOrder(request, request.params.order);
      if (order.state === 'confirmed') throw problem('not_paid', { retryAfterMs: 1_000 });
      if (order.state !== 'paid') throw problem('not_paid', { extra: { state: order.state } });
      const bytes = await deps.ticketDocument(order, request.query.size ?? 'a4').catch((error) => {
        throw error instanceof ThreadBusy ? problem('busy', { retryAfterMs: 5_000 }) : error;
      });
      if (!bytes) throw problem('not_paid', { extra: { state: order.state } });
      reply.header('content-disposition', 'inline; filename="tickets.pdf"');
      return reply.type('application/pdf').send(Buffer.from(bytes));
    },
  );
}
