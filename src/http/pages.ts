import fs from 'node:fs';
import path from 'node:path';
import fastifyStatic from '@fastify/static';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { problem } from '../core/problems.ts';
import type { HttpDeps } from './deps.ts';
import type { App } from './routes.ts';

const assetMaxAge = 365 * 24 * 3600;

/** Seconds that browsers ask only over TLS, if the public address is https. */
const tlsOnlySeconds = 365 * 24 * 3600;

/** Headers of every answer. The pages' policy allows no inline script: what is not from here or the provider never runs. */
export function securityHeaders({
  paymentOrigins,
  publicUrl,
}: Pick<HttpDeps, 'paymentOrigins' | 'publicUrl'>) {
  const { script, connect, frame } = paymentOrigins;
  const policy = [
    "default-src 'self'",
    ['script-src', "'self'", ...script].join(' '),
    ['connect-src', "'self'", ...connect].join(' '),
    ['frame-src', ...(frame.length > 0 ? frame : ["'none'"])].join(' '),
    "style-src 'self'",
    "img-src 'self' data:",
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ].join('; ');
  return (_request: FastifyRequest, reply: FastifyReply, done: () => void): void => {
    reply.header('x-content-type-options', 'nosniff');
    reply.header('referrer-policy', 'strict-origin-when-cross-origin');
    reply.header('content-security-policy', policy);
    if (publicUrl().startsWith('https://')) {
      reply.header('strict-transport-security', `max-age=${tlsOnlySeconds}`);
    }
    done();
  };
}

/** The built pages: names with a hash are immutable, the pages themselves are asked for again each time. */
export async function registerPages(app: App, { webDir }: Pick<HttpDeps, 'webDir'>): Promise<void> {
  if (webDir === null || !fs.existsSync(path.join(webDir, 'index.html'))) {
    app.get('/', { schema: { hide: true } }, () => {
      throw problem('not_found', { detail: 'The pages are not built. Run: npm run build:web' });
    });
    return;
  }
  await app.register(fastifyStatic, {
    root: path.join(webDir, 'assets'),
    prefix: '/assets/',
    index: false,
    decorateReply: true,
    cacheControl: false,
    setHeaders: (reply, file) => {
      const immutable = `public, max-age=${assetMaxAge}, immutable`;
      reply.header('cache-control', file.endsWith('.html') ? 'no-cache' : immutable);
    },
  });
  const page = (file: string) => (_request: FastifyRequest, reply: FastifyReply) => {
    return reply.sendFile(file, webDir, { cacheControl: false });
  };
  const routes = {
    '/': 'index.html',
    '/events/:event': 'event.html',
    '/orders/:order': 'order.html',
    '/organiser': 'organiser.html',
  };
  for (const [url, file] of Object.entries(routes)) app.get(url, { schema: { hide: true } }, page(file));
}
