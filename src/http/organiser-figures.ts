import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { Events } from '../catalogue/events.ts';
import { readFigures } from '../catalogue/figures.ts';
import { problem } from '../core/problems.ts';
import type { Db } from '../postgres/db.ts';
import { iso } from './answers.ts';

const EventParams = Type.Object({ event: Type.String({ maxLength: 40 }) });

/** Sales figures and the state of the money, for signed-in organisers (see `guarding`). */
export function registerOrganiserFigures(
  root: FastifyInstance,
  { db, events }: { db: Db; events: Pick<Events, 'find'> },
): void {
  root.withTypeProvider<TypeBoxTypeProvider>().get(
    '/api/organiser/events/:event/figures',
    {
      schema: {
        tags: ['organiser'],
        security: [{ organiser: [] }],
        summary: 'Tickets sold by category and kind, and the money: minor units',
        description:
          'Counted a few seconds after each confirmed order and each refund, half a minute old at most; `at` says when.',
        params: EventParams,
      },
    },
    async (request) => {
      const event = await events.find(request.params.event);
      if (!event) throw problem('unknown_event');
      const { at, ...figures } = await readFigures(db, event.eventNo);
      return { event: event.event, currency: event.currency, at: iso(at), ...figures };
    },
  );
}
