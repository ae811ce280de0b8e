import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { problem } from '../core/problems.ts';
import { auditPage, auditPageMax } from '../orders/audit.ts';
import { iso } from './answers.ts';
import type { OrganiserDeps } from './organiser.ts';

const security = [{ organiser: [] }];
const tags = ['organiser'];
const limitDefault = 100;

const LogQuery = Type.Object({
  event: Type.Optional(Type.String({ maxLength: 40, description: 'Of this event only.' })),
  limit: Type.Optional(
    Type.String({ maxLength: 20, description: `1 to ${auditPageMax}; ${limitDefault} when absent.` }),
  ),
  before: Type.Optional(
    Type.String({ maxLength: 20, description: '`next` of the page before; the newest page when absent.' }),
  ),
});

/** Operator actions: who, when, what, and on which event. */
export function registerOrganiserAuditLog(
  root: FastifyInstance,
  { db, events }: OrganiserDeps,
  requireSession: (request: FastifyRequest) => Promise<string>,
): void {
  const app = root.withTypeProvider<TypeBoxTypeProvider>();
  app.get(
    '/api/organiser/audit-log',
    {
      schema: {
        tags,
        security,
        summary: 'The audit log: what operators did, newest first',
        description:
          '`next` is the `before` of the next page, null on the last one. What is written meanwhile is on no later page: begin anew to see it.',
        querystring: LogQuery,
      },
    },
    async (request) => {
      await requireSession(request);
      const { event: id, limit, before } = request.query;
      const wanted = {
        limit: limit === undefined ? limitDefault : numberOf('limit', limit, auditPageMax),
        before: before === undefined ? null : numberOf('before', before, Number.MAX_SAFE_INTEGER),
      };
      const event = id === undefined ? null : await events.find(id);
      if (id !== undefined && !event) throw problem('unknown_event', { field: 'event' });
      const { entries, next } = await auditPage(db, { event: event?.eventNo ?? null, ...wanted });
      return { entries: entries.map((one) => ({ ...one, at: iso(one.at) })), next };
    },
  );
}

function numberOf(field: string, text: string, max: number): number {
  const number = /^[1-9]\d{0,15}$/.test(text) ? Number(text) : 0;
  if (number >= 1 && number <= max) return number;
  const what = max === auditPageMax ? `1 to ${auditPageMax}` : '`next` of an earlier page';
  throw problem('invalid_field', { field, detail: `The parameter ${field} takes ${what}.` });
}
