import type { FastifyRequest } from 'fastify';
import type { Checkout } from '../checkout/outcomes.ts';
import { problem } from '../core/problems.ts';
import { uuidPattern } from '../operate/operation.ts';
import type { Order } from '../orders/record.ts';
import type { Credentials } from '../waiting-room/credentials.ts';
import { createVisitors } from './visitor.ts';

const uuidForm = new RegExp(uuidPattern);

export interface MyOrderDeps {
  credentials: Credentials;
  publicUrl: () => string;
  checkout: Pick<Checkout, 'find'>;
}

/** Finds the order for its visitor's browser or for a request with its secret. Others get "not found". */
export function createMyOrder(deps: MyOrderDeps) {
  const { credentials, checkout } = deps;
  const visitors = createVisitors(deps);

  function bearsSecret(request: FastifyRequest, order: string): boolean {
    const secret = /^Bearer ([\w-]{1,100})$/i.exec(request.headers.authorization ?? '')?.[1];
    return secret !== undefined && credentials.orderSecretMatches(order, secret);
  }

  return async (request: FastifyRequest, id: string): Promise<Order> => {
    const order = uuidForm.test(id) ? await checkout.find(id) : null;
    const visitor = visitors.of(request);
    if (!order || (order.visitor !== visitor && !bearsSecret(request, id))) throw problem('unknown_order');
    return order;
  };
}
