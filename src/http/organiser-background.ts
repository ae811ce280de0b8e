import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance } from 'fastify';
import { degradedParts } from '../health/background-work.ts';
import type { Db } from '../postgres/db.ts';
import { iso } from './answers.ts';

/** Overdue background work of all processes and events, for signed-in organisers (see `guarding`). */
export function registerOrganiserBackground(root: FastifyInstance, { db }: { db: Db }): void {
  root.withTypeProvider<TypeBoxTypeProvider>().get(
    '/api/organiser/background',
    {
      schema: {
        tags: ['organiser'],
        security: [{ organiser: [] }],
        summary: 'Background work that fails or is late, over the whole installation',
        description:
          'Empty while everything goes on. `code`: `loop_failing`, `clock`, `process_silent`, `role_missing` or `overdue`. `since` is null where it is not known; `count` is given for overdue work. See docs/operating/background-work.md.',
      },
    },
    async () => {
      const parts = await degradedParts(db);
      return {
        degraded: parts.map((one) => ({ ...one, since: one.since === null ? null : iso(one.since) })),
      };
    },
  );
}
