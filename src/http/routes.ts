import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';

// What all routes share.

/** How schemas check what comes in: nothing is converted, nothing is removed. */
export const validation = {
  customOptions: { coerceTypes: false, removeAdditional: false, allErrors: false },
} as const;
/** Bytes of a buyer's request body. */
export const bodyLimit = 16 * 1024;

export type App = FastifyInstance<
  Server,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;

/** A further group of routes, such as the organiser's, that shares this server's checks and error answers. */
export type RouteGroup = (app: App) => void | Promise<void>;
